package cli

import (
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
	sessions "github.com/aycoder/aycoder/session"
)

// BenchmarkStart is the time from the start of the program to its prompt, with a configuration and 1,000 stored sessions,
// beside that of the smallest program of Go to its text, each in a new terminal, in turns. It reports the medians of
// both and of the ratios, and the same for -version.
func BenchmarkStart(b *testing.B) {
	dir, home, state := b.TempDir(), b.TempDir(), b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "hello.go"), []byte("package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"> \\n\") }\n"), 0o600))
	build := func(what, out string) string {
		out = filepath.Join(dir, out)
		cmd := exec.Command("go", "build", "-o", out, what)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as where there is no C compiler
		text, err := cmd.CombinedOutput()
		require.NoError(b, err, "%s", text)
		return out
	}
	hello, program := build(filepath.Join(dir, "hello.go"), "hello"), build("github.com/aycoder/aycoder/examples/aycoder", "aycoder")
	require.NoError(b, os.MkdirAll(filepath.Join(home, ".config/aycoder"), 0o700))
	require.NoError(b, os.WriteFile(filepath.Join(home, ".config/aycoder/config.toml"), []byte("[models.main]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n\n[roles]\nmain = \"main\"\n"), 0o600))
	store, err := journal.Dir(filepath.Join(state, "aycoder/sessions"))
	require.NoError(b, err)
	for i := range 1000 {
		loop, err := aycoder.New(script.New(script.Say("Done.")))
		require.NoError(b, err)
		s, err := sessions.New(b.Context(), store, loop, sessions.WithDir(dir), sessions.WithSync(sessions.SyncTurns))
		require.NoError(b, err)
		for _, err := range s.Run(b.Context(), aycoder.Input{Prompt: fmt.Sprint("What is in file ", i, "?")}) {
			require.NoError(b, err)
		}
		require.NoError(b, s.Close())
	}
	// shown returns the time until a line begins with the text, and the processor time of the whole program.
	shown := func(name, text string, args ...string) (took, cpu time.Duration) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = []string{"TERM=xterm-256color", "PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_STATE_HOME=" + state, "ANTHROPIC_API_KEY=key-0123456789"}
		begin := time.Now()
		p := ttytest.Start(b, cmd, 80, 24)
		p.Until(text, func(e *ttytest.Emulator) bool {
			return slices.ContainsFunc(e.Lines(), func(line string) bool { return strings.HasPrefix(line, text) })
		})
		took = time.Since(begin)
		p.Type("\x04")
		p.Wait()
		return took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	figures := map[string][]float64{}
	for b.Loop() {
		floor, floorCPU := shown(hello, ">")
		for what, args := range map[string][]string{">": {"-C", dir}, "aycoder": {"-version"}} {
			took, cpu := shown(program, what, args...)
			name := map[string]string{">": "prompt", "aycoder": "version"}[what]
			for key, x := range map[string]float64{
				"-ms": took.Seconds() * 1e3, "/hello": float64(took) / float64(floor), "/hello-cpu": float64(cpu) / float64(floorCPU),
			} {
				figures[name+key] = append(figures[name+key], x)
			}
		}
	}
	for name, all := range figures {
		b.ReportMetric(slices.Sorted(slices.Values(all))[len(all)/2], name)
	}
}
