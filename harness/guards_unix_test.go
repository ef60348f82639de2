//go:build unix

package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// deepSecret is what the innermost tool prints.
var deepSecret = strings.Join([]string{"gh", "p_", "k5Ns3qB6Rh7Hj4Gz9KR4LB3Nt4ZN6bh2Sj9D"}, "")

var allow = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })

// nest makes three agents, each started by a call of the one before. The innermost one calls deploy. Only
// the outermost one has the guards.
func nest(t *testing.T, group *background.Group, suspended bool, guards []aycoder.Option) (loop *aycoder.Loop, innermost *script.Model, ran *int) {
	ran = new(int)
	deploy, err := aycoder.NewTool("deploy", "Deploys.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		*ran++
		return aycoder.TextResult("deployed with " + deepSecret), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	innermost = script.New(script.Call("deploy", map[string]any{}), script.Say("done"))
	third, err := tools.Subagent(tools.SubagentConfig{Name: "inner", MaxDepth: 2, Model: innermost, Tools: []aycoder.Tool{deploy}, Options: []aycoder.Option{aycoder.WithApprover(allow), aycoder.WithName("third")}})
	require.NoError(t, err)
	task := map[string]any{"task": "go"}
	second, err := tools.Subagent(tools.SubagentConfig{
		Model: script.New(script.Call("inner", task), script.Say("done")), Tools: []aycoder.Tool{third},
		Background: group, Options: []aycoder.Option{aycoder.WithApprover(allow), aycoder.WithName("second")},
	})
	require.NoError(t, err)
	call := map[string]any{"task": "go"}
	if group != nil {
		call["background"] = true
	}
	m := script.New(script.Call("subagent", call), script.Say("done"), script.Say("told of it"))
	if suspended { // its first message was in another process
		m = script.New(script.Say("done"))
	}
	loop, err = aycoder.New(m, append([]aycoder.Option{aycoder.WithApprover(allow), aycoder.WithName("first"), aycoder.WithTools(second)}, guards...)...)
	require.NoError(t, err)
	return loop, innermost, ran
}

// Each guard of package policy, tools, hooks and budget reaches the agents two levels below: in the same run, in the
// background, and after the run was resumed in another process.
func TestGuardsReachThreeDeep(t *testing.T) {
	var audited bytes.Buffer
	guards := map[string]struct {
		make   func(t *testing.T) []aycoder.Option
		ran    bool          // the tool, with this guard
		output string        // what the model of the innermost agent reads
		seen   *bytes.Buffer // what the guard writes
	}{
		"none": {make: func(*testing.T) []aycoder.Option { return nil }, ran: true, output: deepSecret},
		"policy": {make: func(t *testing.T) []aycoder.Option {
			p, err := policy.New(policy.WithRules(policy.User, policy.Rule{Action: policy.RuleAllow, Tool: "*"}, policy.Rule{Action: policy.RuleDeny, Tool: "deploy"}))
			require.NoError(t, err)
			return []aycoder.Option{aycoder.WithApprover(p)}
		}, output: "denied"},
		"masking": {make: func(*testing.T) []aycoder.Option {
			return []aycoder.Option{aycoder.WithToolMiddleware(tools.Masking(tools.NewMasker([]byte("k"))))}
		}, ran: true, output: "deployed with "},
		"hooks": {make: func(t *testing.T) []aycoder.Option {
			exec, err := tools.LocalExec()
			require.NoError(t, err)
			r, err := hooks.New(hooks.Config{Exec: exec, Root: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"},
				Hooks: []hooks.Hook{{Event: hooks.PreToolUse, Matcher: "deploy", Command: `grep -q '"agent_type":"third"' && echo "not $(cat)" >&2; exit 2`}}})
			require.NoError(t, err)
			return []aycoder.Option{aycoder.WithApprover(r.Approver(allow)), aycoder.WithToolMiddleware(r.Tool)}
		}, output: "a hook refused this call: not"},
		"budget": {make: func(t *testing.T) []aycoder.Option {
			p, err := budget.New(budget.Config{Work: 1, Idle: []string{"subagent", "inner"}})
			require.NoError(t, err)
			spend := p.Tool(func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) { return nil, nil })
			_, err = spend(t.Context(), &aycoder.Invocation{})
			require.NoError(t, err)
			return []aycoder.Option{aycoder.WithToolMiddleware(p.Tool)}
		}, output: "budget"},
		"audit": {make: func(*testing.T) []aycoder.Option {
			audited.Reset()
			return []aycoder.Option{aycoder.WithAudit(policy.NewAuditLog(&audited))}
		}, ran: true, output: deepSecret, seen: &audited},
	}
	for name, g := range guards {
		for _, how := range []string{"in the run", "in the background", "resumed"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				var group *background.Group
				var err error
				var opts []aycoder.RunOption
				if how == "in the background" {
					group, err = background.New()
					require.NoError(t, err)
					opts = append(opts, group.Attach())
				}
				in := aycoder.Input{Prompt: "go"}
				if how == "resumed" {
					first, _, _ := nest(t, nil, false, []aycoder.Option{aycoder.WithApprover(aycoder.ApproverFunc(
						func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Suspend() }))})
					in = resumption(t, first)
				}
				loop, innermost, ran := nest(t, group, how == "resumed", g.make(t))
				for _, err := range loop.Run(t.Context(), in, opts...) {
					require.NoError(t, err)
				}
				if group != nil {
					for range group.Changes(t.Context()) {
						if jobs := group.Jobs(); len(jobs) == 1 && !jobs[0].Lives() {
							break
						}
					}
					require.NoError(t, group.Close())
				}
				require.Equal(t, g.ran, *ran == 1)
				require.Len(t, innermost.Requests(), 2)
				out := script.LastOutput(innermost.Requests()[1]).Text()
				require.Contains(t, out, g.output)
				require.Equal(t, g.output == deepSecret, strings.Contains(out, deepSecret), out)
				if g.seen != nil {
					require.Regexp(t, `"depth":2,"agent":"third","calls":\["call_1","call_1"\],.*"name":"deploy"`, g.seen.String())
				}
			})
		}
	}
}

// resumption suspends a run at its first call, and returns the input that goes on with it, as another process reads it.
func resumption(t *testing.T, loop *aycoder.Loop) aycoder.Input {
	var res aycoder.Result
	for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	data, err := json.Marshal(res.Pending)
	require.NoError(t, err)
	var p aycoder.Pending
	require.NoError(t, json.Unmarshal(data, &p))
	q := p.Requests[0]
	return aycoder.Input{Pending: &p, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
}
