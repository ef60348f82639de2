package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// The cost of a start in a terminal, with a configuration and 1,000 conversations, is a small multiple of that of a
// program that prints one line. It is measured only with AYCODER_TIMES, since it builds both and takes a minute.
func TestStartCost(t *testing.T) {
	if os.Getenv("AYCODER_TIMES") == "" {
		t.Skip("the cost of a start is measured with AYCODER_TIMES")
	}
	const rounds = 40
	dir := t.TempDir()
	hello, program := filepath.Join(dir, "hello"), filepath.Join(dir, "aycoder")
	require.NoError(t, os.WriteFile(hello+".go", []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"), 0o644))
	build(t, hello, hello+".go")
	build(t, program, ".")
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(filepath.Join(home, "aycoder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "aycoder", "config.toml"), []byte("roles.main = \"ollama/first\"\nagent.max_turns = 20\n"), 0o600))
	fill(t, filepath.Join(home, "aycoder", "sessions"), 1000)

	// start returns the wall and the processor time until something is on the screen.
	start := func(shows func(screen string) bool, then string, args ...string) (shown, used time.Duration) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_STATE_HOME=" + home, "TERM=xterm-256color", "PATH=" + os.Getenv("PATH"), "OLLAMA_HOST=127.0.0.1:9"}
		began := time.Now()
		p := ttytest.Start(t, cmd, 80, 24)
		p.Until("the start", func(e *ttytest.Emulator) bool {
			if shown == 0 && shows(e.Text()) {
				shown, used = time.Since(began), ran(cmd.Process.Pid)
			}
			return shown > 0
		})
		p.Type(then)
		require.Zero(t, p.Wait(), p.Text())
		if then == "" { // it is over by then, and its time is exact
			used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		return shown, used
	}
	has := func(text string) func(string) bool {
		return func(screen string) bool { return strings.Contains(screen, text) }
	}
	prompt := func(screen string) bool { return strings.HasSuffix(strings.TrimRight(screen, " \n"), ">") }
	var shown, used [3][]time.Duration
	for range rounds {
		for i, run := range []func() (time.Duration, time.Duration){
			func() (time.Duration, time.Duration) { return start(has("hello"), "", hello) },
			func() (time.Duration, time.Duration) { return start(has("aycoder "), "", program, "-version") },
			func() (time.Duration, time.Duration) { return start(prompt, "\x04", program) },
		} {
			s, u := run()
			shown[i], used[i] = append(shown[i], s), append(used[i], u)
		}
	}
	for i, name := range []string{"hello", "-version", "prompt"} {
		t.Logf("%-9s %8v until it is shown, %8v of a processor (medians)", name, median(shown[i]), median(used[i]))
	}
	ratio := func(all [3][]time.Duration, i int) float64 { return float64(median(all[i])) / float64(median(all[0])) }
	t.Logf("-version %.2f times (processor: %.2f), prompt %.2f times (processor: %.2f)", ratio(shown, 1), ratio(used, 1), ratio(shown, 2), ratio(used, 2))
	require.LessOrEqual(t, ratio(shown, 1), 4.0, "-version")
	require.LessOrEqual(t, ratio(shown, 2), 5.0, "prompt")
}

// ran returns the processor time that the threads of a process have had.
func ran(pid int) (all time.Duration) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range names {
		var n int64
		if data, err := os.ReadFile(name); err == nil {
			_, _ = fmt.Sscan(string(data), &n)
		}
		all += time.Duration(n)
	}
	return all
}

func build(t *testing.T, to, from string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", to, from)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2].Round(10 * time.Microsecond)
}

// fill keeps conversations in a directory.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	loop, err := aycoder.New(script.New(script.Say(strings.Repeat("An answer. ", 50))).With(script.WithLoop(true)))
	require.NoError(t, err)
	for i := range n {
		s, err := session.New(t.Context(), store, loop)
		require.NoError(t, err)
		for _, err := range s.Run(context.Background(), aycoder.Input{Prompt: fmt.Sprint("question ", i)}) {
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	}
}
