package tools

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Programs write blocks, which end anywhere in a line. A filter drops no line of which only the beginning is there.
func TestFilterWaitsForTheEndOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan string)
		exec := fakeExec(func(_ context.Context, c *ExecCommand) (*ExecResult, error) {
			for text := range goOn {
				_, _ = io.WriteString(c.Output, text)
			}
			return &ExecResult{}, nil
		})
		w, shell, _ := shellWorld(t, nil, WithExec(exec))
		w.ok("bash", args{"command": "serve", "background": true})
		get := func() string {
			synctest.Wait()
			return w.ok("job_output", args{"id": "bash-1", "filter": "^ready on port$"})
		}
		goOn <- "starting\nready o"
		assert.Contains(t, get(), "[no new line matches]\n[1 other line left out]\n[bash-1: running")
		assert.Contains(t, get(), "[no new line matches]\n[bash-1: running")
		goOn <- "n port\nbusy"
		assert.Contains(t, get(), "ready on port\n[bash-1: running")
		close(goOn)
		assert.Contains(t, get(), "[no new line matches]\n[1 other line left out]\n[bash-1: ended, exit 0]")
		require.NoError(t, shell.Close())
	})
}
