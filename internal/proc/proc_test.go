//go:build unix

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

func sh(script string) *Command {
	return &Command{Argv: []string{"/bin/sh", "-c", Gate + script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// run runs a command and returns what it printed.
func run(ctx context.Context, c *Command) (string, *Result, error) {
	out := NewOutput(100_000)
	c.Output = out
	r, err := Run(ctx, c)
	text, _ := out.Text()
	return text, r, err
}

// within bounds a context as the timeout of a tool does.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, os.ErrDeadlineExceeded)
	t.Cleanup(cancel)
	return ctx
}

// A command that has exited was not cancelled, whichever of both is noticed first.
func TestExitedBeforeTheCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	exited := make(chan struct{})
	p := &process{watch: newWatch(nil)}
	require.ErrorIs(t, p.wait(ctx, exited), context.Canceled)
	close(exited)
	for range 100 { // select chooses one of two at random
		require.NoError(t, p.wait(ctx, exited))
	}
}

func TestRun(t *testing.T) {
	tests := []struct {
		name, script string
		want         string
		code         int
		signal       string
		held         bool
	}{
		{name: "output", script: "echo hi", want: "hi\n"},
		{name: "exit code", script: "echo x; exit 3", want: "x\n", code: 3},
		{name: "order", script: "echo 1; echo 2 >&2; echo 3; echo 4 >&2", want: "1\n2\n3\n4\n"},
		{name: "signal", script: "kill -SEGV $$", code: -1, signal: "segmentation fault"},
		{name: "no input", script: "cat; echo end", want: "end\n"},
		{name: "no terminal", script: "(: </dev/tty) 2>/dev/null || echo none", want: "none\n"},
		{name: "background holds the pipe", script: "sleep 300 & echo hi", want: "hi\n"},
		{name: "background twice", script: "( ( sleep 300 & ) & ); echo hi", want: "hi\n"},
		{name: "colours", script: `printf '\033[31mred\033[0m\n'`, want: "red\n"},
		{name: "not text", script: `printf 'a\377b\0c'`, want: "a?b?c"},
		{name: "not found", script: "nosuchcmd_xyz 2>/dev/null", code: 127},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, r, err := run(t.Context(), sh(tt.script))
			require.NoError(t, err)
			assert.Equal(t, tt.want, text)
			assert.Equal(t, tt.code, r.Code)
			assert.Equal(t, tt.signal, r.Signal)
			assert.Equal(t, tt.held, r.Held)
		})
	}
}

// gone waits until nothing is left of a process; the one who adopted it has to reap
// it first.
func gone(t *testing.T, pid int) {
	t.Helper()
	timed.Until(t, func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
	}, "process ", pid, " to end")
}

func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// pids waits for a script to have written its process ids into a file.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var found []int
	timed.Until(t, func() bool {
		data, _ := os.ReadFile(file)
		found = nil
		for f := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(f)
			require.NoError(t, err)
			found = append(found, pid)
		}
		return len(found) == n && data[len(data)-1] == '\n'
	}, n, " process ids in ", file)
	return found
}

func TestWholeGroupIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	spawn := "trap '' TERM INT HUP; sleep 300 & a=$!; (sleep 300; :) & b=$!; echo $$ $a $b >" + file
	t.Run("on cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stop := errors.New("stop")
		started := make(chan []int, 1)
		var at time.Time
		go func() {
			found := pids(t, file, 3)
			at = time.Now()
			cancel(stop)
			started <- found
		}()
		text, _, err := run(ctx, sh("echo before; "+spawn+"; wait"))
		found := <-started
		timed.Within(t, at, 2*time.Second) // alone 50 ms, as it ignores SIGTERM
		require.ErrorIs(t, err, stop)
		assert.Equal(t, "before\n", text)
		for _, pid := range found {
			gone(t, pid)
		}
	})
	t.Run("on timeout", func(t *testing.T) {
		_, err := Run(within(t, time.Second), sh(spawn+"; wait"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		for _, pid := range pids(t, file, 3) {
			gone(t, pid)
		}
	})
	t.Run("after the end", func(t *testing.T) {
		_, err := Run(t.Context(), sh(spawn))
		require.NoError(t, err)
		for _, pid := range pids(t, file, 3) {
			gone(t, pid)
		}
	})
}

// A program that timeout(1) starts, and a job of a shell with job control, is in a new process
// group in the same session.
func TestOtherGroupsAreKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sessions are not looked through on " + runtime.GOOS)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not on this machine: no job control without a terminal")
	}
	tests := []struct {
		name, script string
		cancel       bool
	}{
		{"end", "set -m; sleep 300 >/dev/null 2>&1 & echo $! >PIDS", false},
		{"end, holding the output", "set -m; sleep 300 & echo $! >PIDS", false},
		{"cancel", "set -m; sleep 300 & echo $! >PIDS; wait", true},
		{"program", "timeout 300 sh -c 'echo $$ >PIDS; exec sleep 300'; :", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			c := sh(strings.ReplaceAll(tt.script, "PIDS", file))
			c.Argv[0] = bash
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var killer sync.WaitGroup
			if tt.cancel {
				killer.Go(func() { pids(t, file, 1); cancel() })
			}
			r, err := Run(ctx, c)
			killer.Wait()
			assert.Equal(t, tt.cancel, errors.Is(err, context.Canceled))
			assert.False(t, r.Held)
			pid := pids(t, file, 1)[0]
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			gone(t, pid)
		})
	}
}

// A program that ignores SIGCHLD has its children reaped by the kernel.
func TestReapedBySomebodyElse(t *testing.T) {
	signal.Ignore(syscall.SIGCHLD)
	defer signal.Notify(make(chan os.Signal, 1), syscall.SIGCHLD) // Reset leaves it ignored
	text, r, err := run(t.Context(), sh("echo hi"))
	require.ErrorIs(t, err, syscall.ECHILD)
	assert.Equal(t, -1, r.Code)
	assert.Equal(t, "hi\n", text)
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "ran")
	_, err := Run(ctx, sh("touch "+file))
	require.ErrorIs(t, err, context.Canceled)
	assert.NoFileExists(t, file)
}

func TestCannotStart(t *testing.T) {
	_, err := Run(t.Context(), &Command{Argv: []string{"/no/such/program"}})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Run(t.Context(), &Command{Argv: []string{"/bin/sh"}, Dir: "/no/such/directory"})
	require.Error(t, err)
}

func TestHugeOutput(t *testing.T) {
	c := sh("echo FIRST; head -c 60000000 /dev/zero | tr '\\0' x; echo; echo LAST")
	out, _, err := run(t.Context(), c)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(out), 100_100)
	assert.True(t, strings.HasPrefix(out, "FIRST\n"))
	assert.True(t, strings.HasSuffix(out, "LAST\n"))
	assert.True(t, strings.Contains(out, "bytes (0 lines) omitted"))
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		lines := NewLines(func(line string, total int64) { got = append(got, fmt.Sprint(line, " ", total)) })
		write := func(s string) { _, _ = lines.Write([]byte(s)) }
		write("on")
		write("e\ntw")
		write("o\n")
		synctest.Wait()
		<-time.After(reportEvery) // of the bubble
		write("\x1b[1mthree\x1b[m\nfo")
		assert.Equal(t, []string{"one 6", "three 23"}, got)
		<-time.After(reportEvery)
		write(strings.Repeat("x", 1000) + "\n")
		require.Len(t, got, 3)
		assert.Len(t, strings.Fields(got[2])[0], reportBytes)
	})
}

func TestOutput(t *testing.T) {
	tests := []struct {
		name   string
		limit  int
		writes []string
		want   string
	}{
		{"all", 10, []string{"abc", "def"}, "abcdef"},
		{"just all", 6, []string{"abc", "def"}, "abcdef"},
		{"cut", 6, []string{"abcdefghij"}, "abc\n[… 4 bytes (0 lines) omitted …]\nhij"},
		{"cut in pieces", 6, strings.Split("abcdefghij", ""), "abc\n[… 4 bytes (0 lines) omitted …]\nhij"},
		{"rune at both cuts", 6, []string{"a😀bcd😀"}, "a\n[… 11 bytes (0 lines) omitted …]\n"},
		{"cut lines", 20, []string{"one\ntoken=secret\nthree\nx\nname=value\nend\n"}, "one\n[… 32 bytes (4 lines) omitted …]\nend\n"},
		{"cut between lines", 8, []string{"one\ntwo\nsix\nten\n"}, "one\n[… 8 bytes (2 lines) omitted …]\nten\n"},
		{"cut words", 24, []string{`{"a":1,"key":"secret-1","b":2,"name":"secret-2","c":3}`}, `{"a":1,` + "\n[… 41 bytes (0 lines) omitted …]\n" + `"c":3}`},
		{"cut texts", 20, []string{"a password secret-1 and secret-2 c"}, "a \n[… 31 bytes (0 lines) omitted …]\nc"},
		{"not utf-8", 6, []string{"\xff\xfe"}, "??"},
		{"half a sequence", 60, []string{"a\x1b[3"}, "a[3"},
		{"title", 60, []string{"\x1b]0;t\x07a\x1b]0;u\nb"}, "a\nb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := NewOutput(tt.limit)
			for _, w := range tt.writes {
				n, err := o.Write([]byte(w))
				require.NoError(t, err)
				require.Len(t, w, n)
			}
			got, _ := o.Text()
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "abc": "abc", "a\xf0\x9f": "a", "a\x1b": "a", "a\x1b[31": "a", "a\x1b[31m": "a\x1b[31m",
		"a\x1b]0;title": "a", "a\x1b]0;title\x07": "a\x1b]0;title\x07", "a\x1b]0;title\nb": "a\x1b]0;title\nb",
		"\xff": "\xff", "\x1b" + strings.Repeat("[", 300): "\x1b" + strings.Repeat("[", 300),
	} {
		assert.Equal(t, want, string(Whole([]byte(text))), "%q", text)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("abc😀"), 3, 8)
	f.Add([]byte("\x1b[31m\xff\x00"), 1, 2)
	f.Fuzz(func(t *testing.T, data []byte, chunk, limit int) {
		chunk, limit = 1+abs(chunk)%100, 2+abs(limit)%300
		o := NewOutput(limit)
		for i := 0; i < len(data); i += chunk {
			_, _ = o.Write(data[i:min(i+chunk, len(data))])
		}
		got, _ := o.Text()
		assert.LessOrEqual(t, len(got), limit+80)
		assert.NotContains(t, got, "\x00")
		assert.NotContains(t, got, "\x1b")
		assert.Equal(t, strings.ToValidUTF8(got, ""), got)
		if len(data) <= limit {
			want, _ := Clean(data)
			assert.Equal(t, want, got)
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

// BenchmarkRun measures a command beside what package exec takes for it.
func BenchmarkRun(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			_, _ = exec.Command("/bin/sh", "-c", ":").CombinedOutput()
		}
	})
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			_, _ = Run(b.Context(), sh(":"))
		}
	})
}

// BenchmarkCancel measures from the cancel of a shell with children to the return,
// when all of them are gone.
func BenchmarkCancel(b *testing.B) {
	var took time.Duration
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		c := sh("sleep 300 & (sleep 300; :) & echo up; wait")
		c.Output = NewLines(func(string, int64) {
			took -= time.Duration(time.Now().UnixNano())
			cancel()
		})
		_, err := Run(ctx, c)
		took += time.Duration(time.Now().UnixNano())
		require.ErrorIs(b, err, context.Canceled)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/cancel")
}
