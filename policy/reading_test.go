package policy_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// decide puts a command with an argument to a policy.
func decide(t testing.TB, a aycoder.Approver, command string, request any) (kind string, g aycoder.Grounds) {
	t.Helper()
	in := map[string]any{"command": command}
	if request != nil {
		in["request_approval"] = request
	}
	args, err := json.Marshal(in)
	require.NoError(t, err)
	v := a.Decide(t.Context(), &aycoder.ToolUse{ID: "1", Name: "bash", Args: args}, &bashSpec)
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var w struct{ Kind string }
	require.NoError(t, json.Unmarshal(data, &w))
	if w.Kind == "" {
		w.Kind = "ask"
	}
	return w.Kind, v.Grounds()
}

// A command that runs because of its class is held to reading, in all modes; one that a
// rule covers is not.
func TestWhatIsHeldToReading(t *testing.T) {
	for _, mode := range []policy.Mode{policy.Ask, policy.AcceptEdits, policy.Plan, policy.FullAuto} {
		p := newPolicy(t, policy.WithMode(mode), policy.WithRules(policy.User, rules(t, "allow bash:git log *", "allow bash@needs_approval:go test *")...))
		for command, want := range map[string]bool{"ls -l": true, "cat x | head": true, "git log -3": false, "ls && git log": false} {
			kind, g := decide(t, p, command, nil)
			assert.Equal(t, "allow", kind, command)
			assert.Equal(t, want, g.ReadOnly, "%s: %s", mode, command)
		}
		_, g := decide(t, p, "go test ./...", nil)
		assert.False(t, g.ReadOnly)
		_, g = decide(t, p, "touch x", nil)
		assert.False(t, g.ReadOnly)
	}
}

// A command with the argument by which the model asks for more is asked about in every
// mode and with every rule but the very command.
func TestRequestedApprovals(t *testing.T) {
	want := map[policy.Mode]string{policy.Ask: "ask", policy.AcceptEdits: "ask", policy.Plan: "deny", policy.FullAuto: "ask"}
	for mode, kind := range want {
		for _, given := range [][]string{nil, {"allow bash:git log *"}, {"allow bash"}, {"allow bash@escalates"}} {
			p := newPolicy(t, policy.WithMode(mode), policy.WithRules(policy.User, rules(t, given...)...))
			for _, request := range []any{true, "yes"} {
				got, g := decide(t, p, "git log -3", request)
				assert.Equal(t, kind, got, "%s with %v", mode, given)
				assert.False(t, g.ReadOnly)
				if kind == "ask" {
					require.Len(t, g.Suggested, 1)
					assert.Equal(t, "bash:git log -3", g.Suggested[0])
				}
			}
			got, _ := decide(t, p, "git log -3", false)
			assert.Equal(t, "allow", got)
			got, _ = decide(t, aycoder.DenyAsks(p), "git log -3", true)
			assert.Equal(t, "deny", got)
		}
	}
	exact := newPolicy(t, policy.WithRules(policy.User, rules(t, "allow bash:git log -3")...))
	got, g := decide(t, exact, "git log -3", true)
	assert.Equal(t, "allow", got)
	assert.False(t, g.ReadOnly)
	got, _ = decide(t, exact, "git log -4", true)
	assert.Equal(t, "ask", got)
}

func readsOnly(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
	return aycoder.Allow().WithRationale(aycoder.Grounds{ReadOnly: true})
}

// From the model to the kernel: what a classifier takes for reading is held to it, and
// what the user approves is not.
func TestHeldToReadingByTheLoop(t *testing.T) {
	dir, ws := directories(t)
	if r, err := tools.CheckSandbox(t.Context(), tools.NoSandbox(), tools.SandboxCall{ReadOnly: true}); err != nil || !r.ReadOnly {
		t.Skipf("nothing holds commands to reading here: %v %v", r, err)
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	coding, err := tools.Coding(ws)
	require.NoError(t, err)
	var asked, events []string
	for _, harmless := range []bool{true, false} {
		var p aycoder.Approver = newPolicy(t, policy.WithWorkspace(ws.Dir()))
		if harmless { // a classifier that takes everything for reading
			p = aycoder.ApproverFunc(readsOnly)
		}
		l, err := aycoder.New(script.New(
			script.Reply(script.Call("bash", map[string]any{"command": "touch made"})),
			script.Reply(script.Call("bash", map[string]any{"command": "touch made", "request_approval": true})),
			script.Say("done"),
		), aycoder.WithTools(coding...), aycoder.WithApprover(p), aycoder.WithAudit(auditor(func(rec *aycoder.AuditRecord) {
			if rec.Kind == aycoder.AuditSecurity {
				events = append(events, rec.Event+": "+rec.Reason)
			}
		})))
		require.NoError(t, err)
		var res aycoder.Result
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				asked = append(asked, q.Request.Preview)
				q.Allow()
			}
		}
		var text []string
		for _, m := range res.Messages {
			for _, part := range m.Parts {
				if o, ok := part.(*aycoder.ToolOutput); ok {
					text = append(text, o.Text())
				}
			}
		}
		require.Len(t, text, 2)
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		require.Empty(t, left, "what commands had for their temporary files goes with the run")
		if harmless {
			require.Contains(t, text[0], "touch: cannot touch 'made': Permission denied")
			require.Contains(t, text[0], "call again with request_approval true")
			require.NoFileExists(t, dir+"/made")
			continue
		}
		require.FileExists(t, dir+"/made")
		require.NotContains(t, text[0]+text[1], "held")
	}
	refused := "held_to_reading: no file may be changed, and there is no network: touch: cannot touch 'made': Permission denied"
	require.Equal(t, []string{refused, refused}, events)
	require.Equal(t, []string{"in .: touch made", "in ., not held to reading: touch made"}, asked)
}

type auditor func(*aycoder.AuditRecord)

func (a auditor) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	a(rec)
	return nil
}
