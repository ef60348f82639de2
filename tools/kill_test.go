//go:build unix

package tools

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

const killDirectory = "AYCODER_TEST_KILL_DIRECTORY"

// The host is killed with SIGKILL at random moments while its tools write: every file is
// complete afterwards, either old or new.
func TestKilledWhileWriting(t *testing.T) {
	timed.Serial(t)
	if dir := os.Getenv(killDirectory); dir != "" {
		writeForEver(t, dir)
		return
	}
	t.Parallel()
	const rounds = 40
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d rounds, seed %d", rounds, seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	for i := range killFiles {
		require.NoError(t, os.WriteFile(killFile(dir, i), []byte(version(i, 0)), 0o644))
	}
	versions, left := map[string]bool{}, 0
	for range rounds {
		killOnce(t, dir, rnd.IntN(3), time.Duration(rnd.Int64N(int64(10*time.Millisecond))))
		for i := range killFiles {
			versions[whole(t, dir, i)] = true
		}
		temps, err := filepath.Glob(filepath.Join(dir, ".aycoder-*.tmp"))
		require.NoError(t, err)
		for _, name := range temps {
			left++
			require.NoError(t, os.Remove(name))
		}
	}
	t.Logf("%d versions seen, %d temporary files left", len(versions), left)
	assert.Greater(t, len(versions), rounds/10, "nothing was written")
}

const killFiles = 3

func killFile(dir string, i int) string { return filepath.Join(dir, fmt.Sprint("f", i)) }

// version returns a text in which every line has the version.
func version(i, v int) string { return strings.Repeat(fmt.Sprintf("file %d version %d.\n", i, v), 300) }

// killOnce starts a process that writes, and kills it some time after a number of calls.
func killOnce(t *testing.T, dir string, calls int, after time.Duration) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilledWhileWriting$", "-test.v")
	cmd.Env = append(os.Environ(), killDirectory+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := bufio.NewReader(out)
	for ready := fmt.Sprint("after ", calls, "\n"); ; {
		line, err := r.ReadString('\n')
		require.NoError(t, err, "the process ended: %s", line)
		if line == ready {
			break
		}
	}
	<-time.After(after)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
}

// whole checks a file and returns its name and version.
func whole(t *testing.T, dir string, i int) string {
	t.Helper()
	data, err := os.ReadFile(killFile(dir, i))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(data), "\n")
	var file, v int
	_, err = fmt.Sscanf(first, "file %d version %d.", &file, &v)
	require.NoError(t, err, first)
	require.True(t, string(data) == version(i, v), "file %d is not whole", i)
	return first
}

// writeForEver changes the files in a loop, with one tool after the other.
func writeForEver(t *testing.T, dir string) {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	w := &world{t: t, ws: ws, tool: map[string]aycoder.Tool{}}
	all, err := Coding(ws)
	require.NoError(t, err)
	for _, tool := range all {
		w.tool[tool.Spec().Name] = tool
	}
	for n := 0; ; n++ {
		fmt.Println("after", n)
		var texts, olds, news [killFiles]string
		for i := range killFiles {
			data, err := os.ReadFile(killFile(dir, i))
			require.NoError(t, err)
			var file, v int
			_, err = fmt.Sscanf(string(data), "file %d version %d.", &file, &v)
			require.NoError(t, err)
			olds[i], news[i], texts[i] = fmt.Sprintf("version %d.", v), fmt.Sprintf("version %d.", v+1), string(data)
			ws.Seen().Add(fmt.Sprint("f", i), string(data))
		}
		switch (os.Getpid() + n) % 4 { // each process begins with another tool
		case 0:
			w.ok("edit_file", args{"path": "f0", "old_string": olds[0], "new_string": news[0], "replace_all": true})
		case 1:
			w.ok("write_file", args{"path": "f1", "content": strings.ReplaceAll(texts[1], olds[1], news[1])})
		case 2:
			w.ok("multi_edit", args{"path": "f2", "edits": []args{
				{"old_string": olds[2], "new_string": "x", "replace_all": true}, {"old_string": "x", "new_string": news[2], "replace_all": true},
			}})
		default:
			w.ok("apply_patch", args{"patch": wholePatch(texts, olds, news)})
		}
	}
}

// wholePatch changes every line of all files.
func wholePatch(texts, olds, news [killFiles]string) string {
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	for i, text := range texts {
		fmt.Fprintf(&b, "*** Update File: f%d\n@@\n", i)
		for line := range strings.Lines(text) {
			b.WriteString("-" + line)
		}
		for line := range strings.Lines(strings.ReplaceAll(text, olds[i], news[i])) {
			b.WriteString("+" + line)
		}
	}
	b.WriteString("*** End Patch\n")
	return b.String()
}
