package harness

import (
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/tools"
)

// An AgentOpener makes the tool, called name, with which the model gives tasks to another agent, or returns nil for none.
// It starts nothing before a call. files returns the files of the runtime, masker hides secrets in them and is nil if
// nothing does, and opts are for the run that the agent's requests are calls of, so that its cost counts for the budgets of the
// runtime. The separate module contrib/acp has such a tool.
type AgentOpener func(name string, c config.AgentServer, files func() tools.FS, masker *tools.Masker, opts ...aycoder.Option) (aycoder.Tool, error)

// WithAgentServers sets what makes the tools of the other agents of the configuration. A tool whose name another one has is
// left out, and so are all if the workspace is on another machine: each is a notice. Subagents have none of them. Default:
// none, so that a configuration with other agents is an error.
func WithAgentServers(open AgentOpener) Option {
	return required("WithAgentServers", open != nil, func(s *setup) { s.openAgent = open })
}

// agentServers adds the tools of other agents.
func (b *builder) agentServers() error {
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.AgentServers)) {
		if b.Workspace == nil { // the program would work in a directory of this machine
			b.Notify("agents", "agent server "+name+" is off: the workspace is on another machine")
			continue
		}
		t, err := b.in.openAgent(name, b.in.settings.AgentServers[name], func() tools.FS { return b.Files }, b.masker, aycoder.WithModelMiddleware(b.counted))
		if err != nil {
			return wrong("agent_servers."+name, "%w", err)
		}
		if t == nil {
			continue
		}
		before := len(b.Tools)
		if b.addTool("agents", "of the agent server "+name, t); len(b.Tools) > before {
			b.OtherAgents = append(b.OtherAgents, t)
		}
	}
	return nil
}

// named reports whether a tool of a name is among some. A host may have wrapped it.
func named(list []aycoder.Tool, name string) bool {
	return slices.ContainsFunc(list, func(t aycoder.Tool) bool { return t.Spec().Name == name })
}

// isOff reports whether the configuration has switched a tool off.
func (r *Runtime) isOff(t aycoder.Tool) bool { return r.switchedOff(t.Spec().Name) }

func (r *Runtime) switchedOff(name string) bool {
	off := r.off.Load()
	return off != nil && slices.Contains(*off, name)
}
