//go:build linux

package tools

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/timed"
)

// hog prints a line and takes 200 MB, in any shell: tail(1) keeps its input until the end
// of a line.
const hog = "echo before; { head -c 200000000 /dev/zero; sleep 300; } | tail -n 1"

func TestMemoryLimit(t *testing.T) {
	timed.Serial(t)
	w, _, mark := shellWorld(t, nil, WithMemoryLimit(64<<20))
	r := w.call("bash", args{"command": "mkdir d; cd d; " + hog})
	assert.True(t, r.IsError)
	assert.Regexp(t, `^memory_limit: the command was killed when its processes took \d+ MB of memory, at most 64 MB are allowed; `+
		`.* Its output:\nbefore\n\[killed at \d+ MB of memory\]\n$`, r.Text())
	assert.Regexp(t, `^killed at \d+ MB of memory$`, r.Summary)
	assert.Empty(t, survivors(t, mark))
	assert.Contains(t, w.ok("bash", args{"command": "echo fine; sleep 0.2"}), "fine\n[exit 0]")
}

func TestMemoryLimitInBackground(t *testing.T) {
	w, _, mark := shellWorld(t, nil, WithMemoryLimit(64<<20))
	text := w.ok("bash", args{"command": hog, "background": true})
	id := regexp.MustCompile(`bash-\d+`).FindString(text)
	text += w.ok("job_output", args{"id": id, "wait": 60})
	assert.Contains(t, text, "before\n")
	if !strings.Contains(text, "memory_limit: ") { // if not killed yet
		text += w.ok("job_output", args{"id": id, "wait": 60})
	}
	assert.Regexp(t, `\[memory_limit: .* at most 64 MB are allowed; .*\]\n\[bash-1: killed at \d+ MB of memory\]\n$`, text)
	assert.Empty(t, survivors(t, mark))
}

func TestMemoryLimitInASandbox(t *testing.T) {
	timed.Serial(t)
	for name, sandbox := range map[string]func(FS, ...SandboxOption) (*LocalSandbox, error){
		"landlock": Landlock, "bwrap": Bubblewrap,
	} {
		t.Run(name, func(t *testing.T) {
			w, _, mark := shellWorld(t, nil)
			box, err := sandbox(w.ws)
			require.NoError(t, err)
			defer box.Close()
			if _, err := CheckSandbox(t.Context(), box, SandboxCall{}); err != nil {
				t.Skip(err)
			}
			w.tool["bash"], err = Bash(w.ws, WithSandbox(box), WithEnv(mark), WithMemoryLimit(64<<20))
			require.NoError(t, err)
			for _, command := range []string{hog, "setsid sh -c '" + hog + "' & sleep 300"} {
				w.fails("memory_limit", "bash", args{"command": command})
				assert.Empty(t, survivors(t, mark))
			}
			// The score is raised with the first measurement at the latest.
			w.ok("bash", args{"command": "until [ $(cat /proc/self/oom_score_adj) -ge 500 ]; do sleep 0.05; done"})
		})
	}
}

// A command exceeds the limit at the moment when it is cancelled or times out.
func TestMemoryLimitAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeExec(func(ctx context.Context, c *ExecCommand) (*ExecResult, error) {
			<-ctx.Done()
			return &ExecResult{Code: -1, Signal: "terminated"}, &proc.MemoryError{Used: 3 << 20, Limit: 2 << 20}
		})
		w, _, _ := shellWorld(t, nil, WithExec(fake))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := w.callCtx(ctx, "bash", args{"command": "x"})
		require.NoError(t, err)
		assert.Equal(t, "cancelled", r.Summary)
		r = w.call("bash", args{"command": "x", "timeout": 1})
		assert.Equal(t, "killed at 3 MB of memory", r.Summary)
		w.ok("bash", args{"command": "x", "background": true})
		assert.Contains(t, w.ok("job_stop", args{"id": "bash-1"}), "[bash-1: killed]")
		w.ok("bash", args{"command": "x", "background": true, "timeout": 1})
		assert.Contains(t, w.ok("job_output", args{"id": "bash-2", "wait": 9}), "[bash-2: killed at 3 MB of memory]")
	})
}

func TestMemoryLimitIsForThisMachine(t *testing.T) {
	w := newWorld(t, nil)
	_, err := Bash(w.ws, WithExec(&localExec{}), WithMemoryLimit(1<<30))
	require.ErrorContains(t, err, "WithMemoryLimit")
	_, err = Bash(w.ws, WithExec(&localExec{}), WithMemoryLimit(-1))
	require.NoError(t, err)
	b, err := Bash(w.ws, WithMemoryLimit(-1))
	require.NoError(t, err)
	assert.EqualValues(t, -1, b.(*bashTool).b.exec.(*localExec).memory)
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 MB", 12 << 20: "12 MB", 3 << 29: "1.5 GB", 6 << 30: "6.0 GB"} {
		assert.Equal(t, want, size(bytes))
	}
}
