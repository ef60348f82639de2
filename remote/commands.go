package remote

import (
	"cmp"
	"context"
	"io"
	"sync"

	"github.com/aycoder/aycoder/tools"
)

// Environ implements [tools.RemoteExec].
func (c *Client) Environ() []string { return append([]string(nil), c.hello.Environ...) }

// Run implements [tools.Exec]. The command runs in the sandbox and with the limits of the other
// machine. Root of the command must be the Dir of the Client.
func (c *Client) Run(ctx context.Context, cmd *tools.ExecCommand) (*tools.ExecResult, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if cmd.Root != c.Dir() {
		return nil, tools.ErrExecDir
	}
	out := &gate{to: cmp.Or(cmd.Output, io.Discard)}
	defer out.shut()
	r := request{op: opRun, Command: *cmd}
	r.Command.Output = out
	var res *ended
	err := c.ask(ctx, subject{running, cmd.Dir}, r, &res)
	if res == nil {
		return nil, err
	}
	return &res.ExecResult, err
}

// gate passes output on until Run returns.
type gate struct {
	mu sync.Mutex
	to io.Writer
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.to.Write(p)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = io.Discard
}
