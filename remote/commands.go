package remote

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"sync"

	"github.com/aycoder/aycoder/tools"
)

// Environ implements [tools.RemoteExec].
func (c *Client) Environ() []string { return append([]string(nil), c.hello.environ...) }

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
	r := request{op: opRun, command: *cmd}
	r.command.Output = out
	var res *tools.ExecResult
	err := c.ask(ctx, subject{running, cmd.Dir}, r, func(d *coder) error {
		var r tools.ExecResult
		if ending(d, &r); r.Dir != "" && !filepath.IsAbs(r.Dir) {
			return protocolError("an ending that is none")
		}
		if d.end() == nil {
			res = &r
		}
		return nil
	})
	return res, err
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
