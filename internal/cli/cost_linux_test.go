package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/timed"
)

// A megabyte of Markdown as an answer costs at most three times the processor time of writing the same pieces to the same
// terminal.
func TestCostOfAnAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: the processor time of an answer")
	}
	if timed.Reduced(t) {
		t.Skip("the race detector changes the processor time")
	}
	names, err := filepath.Glob("paint/testdata/*.md")
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		fmt.Fprintf(&all, "%s\n", data)
	}
	file := filepath.Join(t.TempDir(), "answer.md")
	text := strings.Repeat(all.String(), 1<<20/all.Len()+1)[:1<<20]
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	cpu := func(way string) (best time.Duration) {
		for i := range 3 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), streamVar+"="+way, streamFile+"="+file, "TERM=xterm-256color")
			p := ttytest.Start(t, cmd, 80, 24)
			require.Zero(t, p.Wait())
			if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); i == 0 || used < best {
				best = used
			}
		}
		return best
	}
	nothing := cpu("nothing")
	raw, answer := cpu("raw")-nothing, cpu("answer")-nothing
	t.Logf("raw %v, as an answer %v, %.2f times, besides %v for a start", raw, answer, float64(answer)/float64(raw), nothing)
	timed.AtMost(t, answer, 3*raw, "to show an answer")
}
