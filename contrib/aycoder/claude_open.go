package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/contrib/mcp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/hooks"
)

// open composes the runtime, as the arguments and the first request say.
func (f *claudeFace) open(ctx context.Context, s *startRequest) (*harness.Runtime, func(), error) {
	opts := []harness.Option{withAsking(f.canAsk)}
	if s != nil {
		more, err := f.initialize(s.fields)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, more...)
	}
	more, err := f.options()
	if err != nil {
		return nil, nil, err
	}
	connect := mcp.Connector(logins(mcp.WithBrowser(browse), mcp.WithStream(f.dial))...)
	opts = append(append(opts, more...), harness.WithServers(func(ctx context.Context, name string, c config.Server) (harness.ToolSource, error) {
		if _, passed := f.servers[name]; f.strict && !passed && !slices.Contains(f.inside, name) {
			return nil, nil
		}
		return connect(ctx, name, c)
	}))
	rt, end, err := f.p.Converse(ctx, f.flags, opts...)
	if err != nil {
		return nil, nil, err
	}
	if err := f.connected(rt); err != nil {
		end()
		return nil, nil, err
	}
	return rt, end, nil
}

// connected reports servers of the host that are not there, or that the configuration has under the same name.
func (f *claudeFace) connected(rt *harness.Runtime) error {
	theirs := append(slices.Collect(maps.Keys(f.servers)), f.inside...)
	for _, name := range theirs {
		if _, ours := rt.Config().Config.Servers[name]; ours {
			return fmt.Errorf("server %s of the host: the configuration has another one of this name", name)
		}
	}
	for _, st := range rt.Servers() {
		if slices.Contains(f.inside, st.Name) && st.State != "on" {
			return fmt.Errorf("server %s of the host: %s", st.Name, st.State)
		}
	}
	return nil
}

// hints are the fields of the first request that say what a host can show, or how it saves time: without them, nothing is
// missing.
var hints = []string{
	"subtype", "sdkMcpServerManifests", "sdkMcpServerManifestsOrigin", "sdkMcpServerConfigs", "supportedDialogKinds", "perTaskStopAffordance", "rapidFollowupPreempt",
	"systemPromptSnapshot", "workspaceTrust", "offersBypassSwitchBack", "keepsBypassHeld",
}

// initialize reads the first request.
func (f *claudeFace) initialize(fields map[string]json.RawMessage) (opts []harness.Option, err error) {
	var system, deny []string
	var events map[string][]hostHook
	var passed map[string]json.RawMessage
	known := map[string]any{
		"hooks": &events, "sdkMcpServers": &f.inside, "mcpServers": &passed, "jsonSchema": &f.schema, "systemPrompt": &system,
		"appendSystemPrompt": &f.appended, "disallowedTools": &deny,
	}
	var wrong []string
	for name, value := range fields {
		switch into, ok := known[name]; {
		case slices.Contains([]string{"null", "false", `""`, "[]", "{}"}, string(value)) || slices.Contains(hints, name):
		case !ok:
			wrong = append(wrong, name)
		default:
			if err := json.Unmarshal(value, into); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		return nil, unsupported("%s in initialize", strings.Join(wrong, ", "))
	}
	f.deny = append(f.deny, deny...)
	if text := strings.Join(system, "\n\n"); text != "" {
		f.system = text
	}
	if err := f.addServers(passed); err != nil {
		return nil, err
	}
	for _, name := range f.inside {
		opts = append(opts, harness.WithServer(name, config.Server{Timeout: time.Hour})) // the host has its own limits
	}
	list, err := f.hooks(events)
	return append(opts, harness.WithHooks(list...)), err
}

// A hostHook is a list of functions of the host for an event.
type hostHook struct {
	Matcher   string
	Callbacks []string `json:"hookCallbackIds"`
	Timeout   float64  // seconds
	OnFailure string   `json:"onFailure"`
}

// hooks makes hooks of the functions of the host.
func (f *claudeFace) hooks(events map[string][]hostHook) (list []hooks.Hook, err error) {
	for event, all := range events {
		for _, h := range all {
			if h.OnFailure != "" && h.OnFailure != "continue" {
				return nil, unsupported("onFailure of hooks: a failure before a tool refuses its call, and changes nothing else")
			}
			for _, id := range h.Callbacks {
				list = append(list, hooks.Hook{
					Event: hooks.Event(event), Matcher: h.Matcher, Command: "callback " + id, Timeout: time.Duration(h.Timeout * float64(time.Second)),
					Call: func(ctx context.Context, input []byte) ([]byte, error) { return f.callback(ctx, id, input) },
				})
			}
		}
	}
	return list, hooks.Check(list)
}

// callback lets the host answer a hook.
func (f *claudeFace) callback(ctx context.Context, id string, input []byte) ([]byte, error) {
	var in map[string]any
	d := json.NewDecoder(strings.NewReader(string(input)))
	d.UseNumber()
	if err := d.Decode(&in); err != nil {
		return nil, err
	}
	f.mu.Lock()
	in["permission_mode"] = f.mode
	if f.rt != nil {
		in["permission_mode"], in["session_id"] = f.modeNow(f.rt), f.rt.Session.ID()
	}
	f.mu.Unlock()
	return f.ask(ctx, map[string]any{"subtype": "hook_callback", "callback_id": id, "input": in, "tool_use_id": in["tool_use_id"]})
}

// dial connects to a server inside the host.
func (f *claudeFace) dial(name string) io.ReadWriteCloser {
	if !slices.Contains(f.inside, name) {
		return nil
	}
	t := newTunnel(f, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tunnels[name] = t
	return t
}

// fromServer passes on what a server inside the host says by itself.
func (f *claudeFace) fromServer(name string, message json.RawMessage) error {
	f.mu.Lock()
	t := f.tunnels[name]
	f.mu.Unlock()
	if t == nil {
		return fmt.Errorf("there is no connection to a server %q", name)
	}
	return t.receive(message)
}

// greeting is the answer to the first request.
func (f *claudeFace) greeting(rt *harness.Runtime, s *startRequest) any {
	commands := []map[string]any{}
	if rt.Library != nil {
		for _, c := range rt.Library.Now().Commands {
			commands = append(commands, map[string]any{"name": c.Name, "description": c.Description, "argumentHint": c.ArgumentHint})
		}
	}
	answer := map[string]any{
		"commands": commands, "agents": []any{}, "models": []any{}, "account": struct{}{}, "output_style": "default",
		"available_output_styles": []string{"default"}, "pending_permission_requests": []any{},
	}
	for field, applied := range map[string]string{"hooks": "hooks_applied", "mcpServers": "mcp_servers_applied", "disallowedTools": "disallowed_tools_applied"} {
		if value, ok := s.fields[field]; ok && string(value) != "null" {
			answer[applied] = true
		}
	}
	return answer
}
