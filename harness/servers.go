package harness

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
)

// A Connector connects to a server of the Model Context Protocol and returns its tools. The runtime closes what is
// returned with them. ctx is for the connection to be made, not for the tools. A tool's name says which server it
// is of, as in "mcp__files__read".
type Connector func(ctx context.Context, name string, s config.Server) ([]aycoder.Tool, io.Closer, error)

// WithServers sets what connects to the servers of the configuration. A server that cannot be reached, and a tool whose
// name another one has, are a notice, and the rest works without. Default: none, so that a configuration with servers
// is an error, unless they come from a file of the project: then each is a notice.
func WithServers(connect Connector) Option {
	return required("WithServers", func(s *setup, c Connector) { s.connect = c })(connect, connect != nil)
}

// servers adds the tools of the servers.
func (b *builder) servers(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.Servers)) {
		s := b.in.settings.Servers[name]
		if s.Disabled {
			continue
		}
		if err := b.server(ctx, name, s); err != nil {
			b.Notify("servers", fmt.Sprintf("server %s is off: %v", name, err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) server(ctx context.Context, name string, s config.Server) error {
	if b.in.verify != nil {
		if err := b.in.verify(s.Origin); err != nil {
			return err
		}
	}
	return b.connect(ctx, name, s)
}

// connect adds the tools of a server.
func (b *builder) connect(ctx context.Context, name string, s config.Server) error {
	if b.in.connect == nil {
		return ErrNotLinked
	}
	more, closer, err := b.in.connect(ctx, name, s)
	if closer != nil {
		b.onClose(closer)
	}
	if err != nil {
		return err
	}
	for _, t := range more {
		b.serverTool(name, s, t)
	}
	return nil
}

// serverTool adds a tool of a server if it is wanted.
func (b *builder) serverTool(name string, s config.Server, t aycoder.Tool) {
	tool := t.Spec().Name
	if len(s.Tools) == 0 || slices.Contains(s.Tools, tool) {
		b.addTool("servers", "of server "+name, t)
	}
}

// addTool adds a tool from elsewhere, unless another one has its name.
func (b *builder) addTool(source, of string, t aycoder.Tool) {
	name := t.Spec().Name
	if slices.ContainsFunc(b.Tools, func(o aycoder.Tool) bool { return o.Spec().Name == name }) {
		b.Notify(source, fmt.Sprintf("tool %s %s is left out: there is another of this name", name, of))
		return
	}
	b.Tools = append(b.Tools, t)
}
