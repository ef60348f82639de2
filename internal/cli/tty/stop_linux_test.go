package tty_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

const stopRounds = 1000

// stopAgain stops the process group again and again, while it starts programs.
func stopAgain() error {
	for range 4 {
		go func() {
			for {
				_ = exec.Command("true").Run()
			}
		}()
	}
	for range stopRounds {
		if err := tty.StopGroup(); err != nil {
			return err
		}
	}
	return nil
}

// A process that is stopped while it starts another one, which is stopped as well before it runs its program, never
// counts as stopped: a shell would wait for it for ever.
func TestStopWhileProcessesStart(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerVar+"=stops")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	pid, stops := cmd.Process.Pid, 0
	stuck := time.AfterFunc(time.Minute, func() { _ = unix.Kill(-pid, unix.SIGKILL) })
	defer stuck.Stop()
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		if !status.Stopped() {
			require.True(t, status.Exited() && status.ExitStatus() == 0, "%v after %d stops", status, stops)
			break
		}
		stops++
		require.NoError(t, unix.Kill(-pid, unix.SIGCONT))
	}
	require.Equal(t, stopRounds, stops)
}
