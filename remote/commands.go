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
	about := subject{"run a command in", cmd.Dir}
	if cmd.Root != c.Dir() {
		return nil, tools.ErrExecDir
	}
	m := command{cmd.Script, cmd.Dir, cmd.Network, cmd.ReadOnly, cmd.Env}
	body := new(coder)
	m.code(body)
	if len(body.b) > maxSmall || len(m.script) > maxScript || len(m.env) > maxVars {
		return nil, about.wrap(&foreign{"the command, or its environment, is too long", nil}, false)
	}
	out := &gate{write: cmp.Or(cmd.Output, io.Discard).Write}
	defer out.shut()
	k, err := c.begin(ctx, opRun, body.b, maxSmall, out.pass)
	if err != nil {
		return nil, about.wrap(err, true)
	}
	d, err := c.wait(ctx, k, true)
	if err != nil {
		return nil, about.wrap(err, true)
	}
	return c.ran(ctx, about, d)
}

// ran decodes and checks the answer to a command.
func (c *Client) ran(ctx context.Context, about subject, d *coder) (*tools.ExecResult, error) {
	var f failure
	var res *tools.ExecResult
	f.code(d, nil)
	if len(d.b) > 0 {
		res = new(tools.ExecResult)
		ending(d, res)
	}
	err := d.end()
	if err == nil && (f.class == noFailure && res == nil || res != nil && res.Dir != "" && !filepath.IsAbs(res.Dir)) {
		err = protocolError("an ending that is none")
	}
	if err != nil {
		return nil, about.wrap(c.broken(err), true)
	}
	if cause := context.Cause(ctx); cause != nil && f.class == failedCancelled {
		return res, cause
	}
	if f.class == failedOther {
		return res, f.error()
	}
	return res, about.wrap(f.error(), true)
}

// gate passes output on until Run returns.
type gate struct {
	mu    sync.Mutex
	write func([]byte) (int, error)
}

func (g *gate) pass(p []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.write != nil {
		_, _ = g.write(p)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write = nil
}
