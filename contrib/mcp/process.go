package mcp

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/proc"
)

const maxMessage = 16 << 20 // bytes

// A process is a server that is a program. It implements [mcp.Transport].
type process struct {
	*proc.Peer
	leave time.Duration
}

// start starts a program. It belongs to the connection, and not to the call that needs it first.
func start(s config.Server, o options) (*process, error) {
	p, err := proc.StartPeer(append([]string{s.Command}, s.Args...), o.dir, s.Env)
	return &process{p, o.leave}, err
}

func (p *process) stop() { p.Stop(p.leave) }

// Connect implements [mcp.Transport].
func (p *process) Connect(ctx context.Context) (mcp.Connection, error) {
	t := mcp.IOTransport{Reader: p.Out, Writer: p.In, MaxLineLength: maxMessage}
	return t.Connect(ctx)
}
