package lsp_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

// The children of a server end with it, also those that it has left behind.
func TestChildrenEndWithTheServer(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n"}, lsp.WithServer(fake("children")), lsp.WithWait(time.Minute))
	require.Empty(t, w.save("a.fake", "two\n"))
	_, rest, ok := strings.Cut(w.log(), "child ")
	require.True(t, ok)
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "the child runs")
	require.NoError(t, w.client.Close())
	timed.Until(t, func() bool { return !running(pid) }, "the child to end")
}

// running reports whether a process runs. One that nobody has waited for yet does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
