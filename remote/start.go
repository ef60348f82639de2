package remote

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/proc"
)

// exitWait is how long a program may take to end after its input was closed.
const exitWait = 5 * time.Second

// Start starts a program that serves a workspace, such as aycoder-remote behind docker exec or ssh, and
// connects to it over its standard input and output. The end of the connection, whatever the reason,
// closes both; a program that is then not gone within 5 s is killed. If the field Stderr of cmd is
// nil, what the program prints there is part of the errors of Start and Close. The context bounds only
// Start itself. On a terminal, an interrupt also reaches the program unless its SysProcAttr says
// otherwise.
func Start(ctx context.Context, cmd *exec.Cmd) (*Client, error) {
	said := proc.NewOutput(maxText)
	if cmd.Stderr == nil {
		cmd.Stderr = said
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = exitWait
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	tail := func() string { // what the program has printed to its standard error
		text, _ := said.Text()
		if text = strings.TrimSpace(text); text == "" {
			return ""
		}
		return ": " + text
	}
	c, err := connect(ctx, out, in, func() error {
		_, _ = in.Close(), out.Close()
		defer time.AfterFunc(exitWait, func() { _ = cmd.Process.Kill() }).Stop()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w%s", cmd.Path, err, tail())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, tail())
	}
	return c, nil
}
