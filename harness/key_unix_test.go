//go:build unix

package harness_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
)

// A program that a command for a key has started ends with it: if it is cancelled, and if the program holds its output. A
// command that may ask in a terminal has to share the group of this process, so the test runs without one.
func TestKeyCommandLeavesNothing(t *testing.T) {
	if tty, err := os.Open("/dev/tty"); err == nil {
		require.NoError(t, tty.Close())
		cmd := exec.Command(os.Args[0], "-test.run=^TestKeyCommandLeavesNothing$")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	for _, wait := range []string{"wait", "echo hush"} {
		name := filepath.Join(t.TempDir(), "pid")
		c := settings(t, func(c *config.Settings) {
			c.Models = map[string]config.Model{"m": {Provider: "acme", Model: "big",
				KeyCommand: "sleep 1000 & echo $! >'" + name + ".new'; mv '" + name + ".new' '" + name + "'; " + wait}}
			c.Roles.Main = "m"
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := harness.New(ctx, t.TempDir(), harness.WithSettings(c), harness.WithOpener(opener(new([]harness.ModelSpec), nil)))
			ended <- err
		}()
		timed.Until(t, func() bool { _, err := os.Stat(name); return err == nil })
		if wait == "wait" {
			cancel()
		}
		require.ErrorContains(t, <-ended, "models.m.key_command")
		cancel()
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		timed.Until(t, func() bool { return syscall.Kill(pid, 0) != nil })
	}
}
