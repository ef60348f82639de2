package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/tools"
)

// WithPlugins adds what the plugins of a store bring that are switched on and that the user trusts: commands, agents and
// skills, hooks, servers (see [WithServers]) and tools. A plugin that cannot be used is a notice, and stays off. Plugins have
// no more rights than the rest: policy, hooks, sandbox and limits are the same for what they bring. One that is
// switched off, or no longer trusted, runs nothing from then on; what else changes takes effect when the runtime is made
// again. If the workspace is on another machine, their hooks and tools are left out. Default: no plugins.
func WithPlugins(store *plugin.Store) Option {
	return required("WithPlugins", store != nil, func(s *setup) { s.plugins = store })
}

// readPlugins reads the plugins that may be used.
func (b *builder) readPlugins(ctx context.Context) error {
	if b.in.plugins == nil {
		return nil
	}
	b.store = b.in.plugins
	all, err := b.store.List(ctx)
	if err != nil {
		b.Notify("plugins", "all plugins are off: "+err.Error())
		return ctx.Err()
	}
	for _, x := range all {
		switch {
		case !x.Enabled:
		case x.Err != nil:
			b.Notify("plugins", x.Name+" is off: "+x.Err.Error())
		case !x.Trusted:
			b.Notify("plugins", x.Name+" is off, since nobody has said that it is trusted")
		default:
			b.plugins = append(b.plugins, x.Plugin)
			b.warn("plugins", x.Plugin.Warnings)
		}
	}
	return nil
}

// pluginSources are the commands, agents and skills of plugins.
func (b *builder) pluginSources() (out []project.Source) {
	for _, p := range b.plugins {
		out = append(out, p.Source())
	}
	return out
}

// pluginHooks are the hooks of plugins. They come after those of the configuration.
func (b *builder) pluginHooks() (out []hooks.Hook) {
	for _, p := range b.plugins {
		if b.elsewhere(p, len(p.Hooks)) {
			continue
		}
		for _, h := range p.Hooks {
			h.Verify = func() error { return b.store.Allowed(context.Background(), p) }
			out = append(out, h)
		}
	}
	return out
}

// elsewhere reports whether the files of a plugin are not on the machine on which its programs would run.
func (b *builder) elsewhere(p *plugin.Plugin, n int) bool {
	if n > 0 && b.in.env.Exec != nil {
		b.Notify("plugins", fmt.Sprintf("%d hooks or tools of %s are left out, because the workspace is on another machine", n, p.Name))
	}
	return b.in.env.Exec != nil
}

// pluginTools adds the programs of plugins.
func (b *builder) pluginTools(opts []tools.Option) error {
	if !slices.ContainsFunc(b.plugins, func(p *plugin.Plugin) bool { return len(p.Programs) > 0 }) {
		return nil
	}
	exec, err := tools.LocalExec(opts...)
	if err != nil {
		return err
	}
	env := tools.Environ(exec, b.in.settings.Tools.Env...)
	for _, p := range b.plugins {
		if b.elsewhere(p, len(p.Programs)) {
			continue
		}
		for _, t := range p.Tools(plugin.Host{
			Exec: exec, Root: b.Files.Dir(), Env: env,
			Allowed: func(ctx context.Context) error { return b.store.Allowed(ctx, p) },
		}) {
			b.addTool("plugins", "of plugin "+p.Name, t)
		}
	}
	return nil
}

// pluginAllows returns an error if a command is of a plugin that may not be used now.
func (r *Runtime) pluginAllows(c *project.Command) error {
	for _, p := range r.plugins {
		if strings.HasPrefix(c.Name, p.Name+":") && strings.HasPrefix(c.File, p.Name+"/") {
			return r.store.Allowed(context.Background(), p)
		}
	}
	return nil
}

// pluginServers connects to the servers of plugins.
func (b *builder) pluginServers(ctx context.Context) error {
	for _, p := range b.plugins {
		for _, key := range slices.Sorted(maps.Keys(p.Servers)) {
			name := p.Name + "_" + key
			s, err := p.Server(key, b.in.lookup)
			if _, ours := b.in.settings.Servers[name]; ours && err == nil {
				err = errors.New("the configuration has one of this name")
			}
			if err == nil {
				err = b.store.Allowed(ctx, p)
			}
			if err == nil && !s.Disabled {
				s.Origin = config.Origin{}
				var of *served
				of, err = b.connect(ctx, name, s, func(ctx context.Context) error { return b.store.Allowed(ctx, p) })
				if of != nil {
					of.plugin = true
				}
				b.add(of)
			}
			if err != nil {
				b.serverOff(name, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
