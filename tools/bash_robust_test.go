//go:build linux

package tools

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// shellWorld is a world whose commands are recognizable by a variable in their
// environment.
func shellWorld(t testing.TB, files map[string]string, opts ...Option) (*world, *Shell, string) {
	t.Helper()
	w := newWorld(t, files)
	shell, mark := new(Shell), "AYCODER_TEST="+filepath.Base(w.base)+t.Name()
	t.Cleanup(func() { assert.NoError(t, shell.Close()) })
	all, err := Coding(w.ws, append([]Option{WithShell(shell), WithEnv(mark)}, opts...)...)
	require.NoError(t, err)
	for _, tool := range all {
		w.tool[tool.Spec().Name] = tool
	}
	return w, shell, mark
}

// survivors returns the processes that have a variable in their environment.
func survivors(t testing.TB, mark string) []string {
	t.Helper()
	var out []string
	// A killed process is visible until the kernel has removed it.
	for end := time.Now().Add(2 * time.Second); ; runtime.Gosched() {
		if out = marked(t, mark); len(out) == 0 || time.Now().After(end) {
			return out
		}
	}
}

func marked(t testing.TB, mark string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var out []string
	for _, name := range all {
		if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), mark) {
			comm, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "comm"))
			out = append(out, name+" "+string(comm))
		}
	}
	return out
}

type shellExpect struct {
	Survivors   *int
	Ordered     []string
	Documented  bool   // the result names the directory of the shell
	Nonzero     bool   `json:"exit_code_nonzero"`
	Excludes    string `json:"second_output_excludes"`
	AfterClose  *int   `json:"survivors_after_close"`
	MaxRSS      int    `json:"max_rss_mb"`
	WithoutPID  *int   `json:"survivors_allowed_without_pidns"`
	Second      string
	Contains    string
	ErrorKind   string `json:"error_kind"`
	MaxMS       int    `json:"max_ms"`
	OutputBytes int    `json:"max_output_bytes"`
}

// shellCases returns the recorded cases of a tool, with the expectations that only shells
// have.
func shellCases(t *testing.T, tool string) (cases []robustCase, expect []shellExpect) {
	t.Helper()
	for _, c := range robustCases[struct{ Expect shellExpect }](t, tool) {
		expect = append(expect, c.Expect)
	}
	return robustCases[robustCase](t, tool), expect
}

func TestRobustBash(t *testing.T) {
	cases, expect := shellCases(t, "bash")
	ran, reduced := 0, timed.Reduced(t)
	for i, c := range cases {
		if reduced && i%4 > 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) { c.runShell(t, expect[i]) })
		ran++
	}
	t.Logf("%d cases ran", ran)
}

func (c *robustCase) runShell(t *testing.T, more shellExpect) {
	in, cancelAt := c.args(t) // the environment of the host is set up first
	w, _, mark := shellWorld(t, nil)
	require.Empty(t, setUp(t, w.base, c.Setup))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if cancelAt == 0 {
		cancel()
	} else if cancelAt > 0 {
		defer time.AfterFunc(cancelAt, cancel).Stop()
	}
	raw := mustJSON(t, in) // the memory for the arguments is not the tool's
	start, held := time.Now(), resetPeak(t)
	r, err := w.callRaw(ctx, "bash", raw)
	// Memory that a command takes does not count as the host's.
	assert.Less(t, peak(t)-held, cmp.Or(more.MaxRSS, 128)<<10, "kB")
	limit := time.Duration(c.Expect.MaxMS) * time.Millisecond
	if in["timeout"] != nil {
		limit += time.Second // whole seconds only
	}
	timed.Within(t, start, limit)
	assert.Empty(t, survivors(t, mark), "also without a PID namespace")
	for name := range c.Expect.FileAfter {
		assert.NoFileExists(t, w.path(name))
	}
	if c.Expect.Outcome == "cancelled" {
		require.True(t, err != nil || r.IsError)
		return
	}
	require.NoError(t, err)
	c.check(t, r)
	if more.Nonzero {
		assert.Regexp(t, `^exit [1-9]`, r.Summary)
	}
	if more.Documented {
		assert.Regexp(t, `\[exit \d+, in [^\]]+\]`, r.Text())
	}
	rest := r.Text()
	for _, part := range more.Ordered {
		_, after, found := strings.Cut(rest, part)
		assert.True(t, found, "%q after %q", part, r.Text())
		rest = after
	}
}

// resetPeak resets the kernel's record of the peak memory of this process, and returns
// the current value in kB.
func resetPeak(t testing.TB) int {
	runtime.GC()
	debug.FreeOSMemory()
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	return peak(t)
}

func peak(t testing.TB) int {
	data, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	var kb int
	_, after, _ := strings.Cut(string(data), "VmHWM:")
	_, err = fmt.Sscan(after, &kb)
	require.NoError(t, err)
	return kb
}

func TestRobustBackground(t *testing.T) {
	cases, expect := shellCases(t, "bash_background")
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			b := &backgroundRun{t: t, printsFirst: expect[i].Excludes != ""}
			b.w, b.shell, b.mark = shellWorld(t, nil)
			start := time.Now()
			for _, s := range c.Args["steps"].([]any) {
				b.step(s.([]any))
			}
			b.check(expect[i])
			timed.Within(t, start, time.Duration(c.Expect.MaxMS)*time.Millisecond)
		})
	}
	t.Logf("%d cases ran", len(cases))
}

// backgroundRun performs the steps of a case.
type backgroundRun struct {
	t       *testing.T
	w       *world
	shell   *Shell
	mark    string
	id      string
	cancel  context.CancelFunc
	outputs []*aycoder.ToolResult
	last    *aycoder.ToolResult

	printsFirst bool // the first output is not empty
}

func (b *backgroundRun) step(s []any) {
	b.t.Helper()
	switch s[0] {
	case "start":
		ctx, cancel := context.WithCancel(b.t.Context())
		b.cancel = cancel
		b.t.Cleanup(cancel)
		r, err := b.w.callCtx(ctx, "bash", args{"command": s[1], "background": true})
		require.NoError(b.t, err)
		b.id = regexp.MustCompile(`bash-\d+`).FindString(r.Text())
		b.outputs = append(b.outputs, r)
		b.last = r
	case "start_many":
		for range int(s[2].(float64)) {
			if b.last = b.w.call("bash", args{"command": s[1], "background": true}); b.last.IsError {
				return
			}
		}
	case "output":
		if len(s) > 1 {
			b.id = s[1].(string)
		}
		b.last = b.w.call("job_output", args{"id": b.id})
		if b.printsFirst {
			b.printsFirst = false
			b.await(func(text string) bool {
				own, _, _ := strings.Cut(text, "[")
				return own != ""
			})
		}
		b.outputs = append(b.outputs, b.last)
	case "kill":
		b.last = b.w.call("job_stop", args{"id": b.id})
	case "cancel_turn":
		b.cancel()
	case "wait_ms":
		<-time.After(time.Duration(s[1].(float64)) * time.Millisecond)
	default:
		b.t.Fatalf("no such step: %v", s)
	}
}

// await reads the output again until the last is as wanted: on a busy machine, a command takes a while to print.
func (b *backgroundRun) await(wanted func(text string) bool) {
	b.t.Helper()
	timed.Until(b.t, func() bool {
		if wanted(b.last.Text()) {
			return true
		}
		b.last = b.w.call("job_output", args{"id": b.id})
		return false
	})
}

func (b *backgroundRun) check(want shellExpect) {
	b.t.Helper()
	if n := len(b.outputs); n > 0 && b.last == b.outputs[n-1] {
		b.await(func(text string) bool { return strings.Contains(text, want.Contains) })
	}
	text := b.last.Text()
	assert.Contains(b.t, text, want.Contains)
	if want.ErrorKind != "" {
		assert.True(b.t, b.last.IsError)
		assert.True(b.t, strings.HasPrefix(text, want.ErrorKind+": "), text)
	}
	if want.Excludes != "" {
		own, _, _ := strings.Cut(b.outputs[len(b.outputs)-1].Text(), "[")
		assert.NotContains(b.t, own, want.Excludes)
	}
	if want.Second != "" {
		assert.Regexp(b.t, `unknown_job|already ended`, text)
	}
	if want.Survivors != nil {
		assert.Len(b.t, survivors(b.t, b.mark), *want.Survivors)
	}
	if want.AfterClose != nil {
		assert.NotEmpty(b.t, survivors(b.t, b.mark))
		require.NoError(b.t, b.shell.Close())
		assert.Len(b.t, survivors(b.t, b.mark), *want.AfterClose)
	}
	for _, r := range b.outputs {
		assert.LessOrEqual(b.t, len(r.Text()), cmp.Or(want.OutputBytes, 131072))
	}
	if want.MaxRSS > 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		assert.Less(b.t, m.HeapInuse>>20, uint64(want.MaxRSS), fmt.Sprint(m.HeapInuse))
	}
}
