package harness

import (
	"context"
	"net/http"
	"runtime"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/tools"
)

// sandbox returns the options that confine commands.
func (b *builder) sandbox(ctx context.Context) ([]tools.Option, error) {
	c := b.in.settings.Sandbox
	if c.Mode == "off" {
		return nil, nil
	}
	if b.Workspace == nil {
		return nil, wrong("sandbox.mode", "the workspace is on another machine, which has its own")
	}
	box, err := b.box(ctx, c)
	if err != nil {
		return nil, err
	}
	opts := []tools.Option{tools.WithSandbox(box), tools.WithSandboxRequired(c.Mode == "required")}
	proxy, err := b.proxy(c.Hosts)
	if proxy != nil {
		opts = append(opts, tools.WithProxy(proxy))
	}
	return opts, err
}

// box opens the sandbox of a kind, or the one that fits the system, and tries it.
func (b *builder) box(ctx context.Context, c config.Sandbox) (*tools.LocalSandbox, error) {
	opts := []tools.SandboxOption{
		tools.WithSandboxNetwork(c.Network), tools.WithSandboxSockets(c.Sockets), tools.WithSandboxDebuggers(c.Debuggers),
		tools.WithSandboxSharedCaches(c.SharedCaches), tools.WithSandboxRead(c.Read...), tools.WithSandboxWrite(c.Write...),
		tools.WithSandboxProtect(c.Protect...),
	}
	for _, p := range b.plugins {
		opts = append(opts, tools.WithSandboxRead(p.Dir))
	}
	kind := c.Kind
	if kind == "auto" {
		kind = map[string]string{"linux": "landlock", "darwin": "seatbelt"}[runtime.GOOS]
	}
	open, ok := map[string]func(tools.FS, ...tools.SandboxOption) (*tools.LocalSandbox, error){
		"landlock": tools.Landlock, "bubblewrap": tools.Bubblewrap, "seatbelt": tools.Seatbelt,
	}[kind]
	if !ok {
		return nil, wrong("sandbox.mode", "there is no sandbox on %s", runtime.GOOS)
	}
	box, err := open(b.Files, opts...)
	if err != nil {
		return nil, wrong("sandbox", "%w", err)
	}
	b.onClose(box)
	_, err = tools.CheckSandbox(ctx, box, tools.SandboxCall{})
	return box, err
}

// proxy returns the proxy for commands, or nil if the configuration names no hosts.
func (b *builder) proxy(hosts []config.Host) (*egress.Proxy, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	actions := map[string]egress.Action{"allow": egress.Allow, "ask": egress.Ask, "deny": egress.Deny}
	var rules []egress.Rule
	for _, h := range hosts {
		r := egress.Rule{Host: h.Host, Action: actions[h.Action], Private: h.Private, Tunnel: h.Tunnel}
		for name, value := range h.Headers {
			if r.Header == nil {
				r.Header = http.Header{}
			}
			r.Header.Set(name, value)
		}
		rules = append(rules, r)
	}
	return egress.New(egress.WithRules(rules...))
}
