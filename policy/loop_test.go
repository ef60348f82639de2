package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// fakeTool is a tool of a spec that only says what it would do.
type fakeTool struct {
	spec      aycoder.ToolSpec
	untrusted bool
	before    func(id string)
}

func (f *fakeTool) Spec() aycoder.ToolSpec { return f.spec }

func (f *fakeTool) Call(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	if f.before != nil {
		f.before(inv.ID)
	}
	r := aycoder.TextResult("did " + string(inv.Args))
	r.Untrusted = f.untrusted
	return r, nil
}

func fakeTools(before func(id string)) []aycoder.Tool {
	var out []aycoder.Tool
	for _, spec := range []aycoder.ToolSpec{bashSpec, editSpec, readSpec, fetchSpec} {
		spec.Schema = json.RawMessage(fmt.Sprintf(
			`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q],"additionalProperties":false}`, spec.Subject.Arg, spec.Subject.Arg))
		out = append(out, &fakeTool{spec: spec, untrusted: spec.Name == "fetch", before: before})
	}
	return out
}

func bash(commands ...string) script.Step {
	var steps []script.Step
	for _, c := range commands {
		steps = append(steps, script.Call("bash", map[string]string{"command": c}))
	}
	return script.Reply(steps...)
}

// run plays steps with a policy. The function answers questions.
func run(t testing.TB, a aycoder.Approver, in aycoder.Input, answer func(*aycoder.ApprovalRequested), steps []script.Step, opts ...aycoder.Option) *aycoder.Result {
	t.Helper()
	opts = append(opts, aycoder.WithApprover(a))
	l, err := aycoder.New(script.New(append(steps, script.Say("done"))...), append(opts, aycoder.WithTools(fakeTools(nil)...))...)
	require.NoError(t, err)
	var res aycoder.Result
	for ev, err := range l.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			answer(q)
		}
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	return &res
}

func outputs(res *aycoder.Result) (out []string) {
	for _, m := range res.Messages {
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				first, _, _ := strings.Cut(o.Text(), " ")
				out = append(out, first)
			}
		}
	}
	return out
}

func nobody(t testing.TB) func(*aycoder.ApprovalRequested) {
	return func(q *aycoder.ApprovalRequested) {
		t.Errorf("nobody was to be asked: %s %s", q.Request.Tool, q.Request.Subject)
	}
}

func TestSessionRuleAnswersOpenQuestions(t *testing.T) {
	p := newPolicy(t)
	var asked []string
	answer := func(q *aycoder.ApprovalRequested) {
		asked = append(asked, q.Request.Subject)
		if q.Request.Subject != "go test ./a" {
			q.Deny("no")
			return
		}
		require.Equal(t, "needs_approval", q.Request.Class)
		require.NotEmpty(t, q.Request.Reasons)
		require.Equal(t, []string{"bash:go test ./a", "bash@needs_approval:go test *"}, q.Request.Suggested)
		require.NoError(t, q.AllowFor(aycoder.Session, q.Request.Suggested[1]))
	}
	steps := []script.Step{bash("go test ./a", "go test ./b", "touch x"), bash("ls", "go test ./c | head")}
	res := run(t, p, aycoder.Input{Prompt: "go"}, answer, steps)
	require.Equal(t, []string{"go test ./a", "touch x"}, asked)
	require.Equal(t, []string{"did", "did", "the", "did", "did"}, outputs(res))
	// The policy is the session: another loop on it, as a subagent has, asks no more.
	run(t, p, aycoder.Input{Prompt: "go"}, nobody(t), []script.Step{bash("go test ./d")})
}

func TestSavedRuleHoldsInTheNextProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	save := func(q *aycoder.ApprovalRequested) {
		require.NoError(t, q.AllowFor(aycoder.Saved, q.Request.Suggested[len(q.Request.Suggested)-1]))
	}
	steps := []script.Step{bash("go test ./...")}
	run(t, newPolicy(t, policy.WithFile(name)), aycoder.Input{Prompt: "go"}, save, steps)
	res := run(t, newPolicy(t, policy.WithFile(name)), aycoder.Input{Prompt: "go"}, nobody(t), steps)
	require.Equal(t, []string{"did"}, outputs(res))
}

func TestSuspendedQuestionIsAnsweredInTheNextProcess(t *testing.T) {
	steps := []script.Step{bash("git push")}
	res := run(t, aycoder.SuspendAsks(newPolicy(t)), aycoder.Input{Prompt: "go"}, nobody(t), steps)
	require.Equal(t, aycoder.EndSuspended, res.End)
	req := res.Pending.Requests[0]
	require.Equal(t, "network", req.Class)
	stored, err := json.Marshal(res.Pending)
	require.NoError(t, err)
	resume := func(p *policy.Policy) *aycoder.Result {
		var pending aycoder.Pending
		require.NoError(t, json.Unmarshal(stored, &pending))
		d := aycoder.Decision{CallID: req.CallID, Digest: req.Digest, Verdict: aycoder.Allow()}
		return run(t, p, aycoder.Input{Pending: &pending, Decisions: []aycoder.Decision{d}}, nobody(t), nil)
	}
	require.Equal(t, []string{"did"}, outputs(resume(newPolicy(t))))
	deny := newPolicy(t, policy.WithRules(policy.Managed, rules(t, "deny bash:git push")...))
	require.Equal(t, []string{"denied:"}, outputs(resume(deny)), "a rule that came meanwhile counts")
}

// A stranger's text makes far-reaching calls ask, also where a rule allows them, also in the
// next process, and for the subagents that share the policy.
func TestTaint(t *testing.T) {
	fetch := script.Call("fetch", map[string]string{"url": "https://example.com"})
	push := bash("git push", "go test ./...")
	auto := func() *policy.Policy {
		return newPolicy(t, policy.WithMode(policy.FullAuto), policy.WithRules(policy.User, rules(t, "allow bash:git push *")...))
	}
	var asked []string
	deny := func(q *aycoder.ApprovalRequested) {
		asked = append(asked, q.Request.Subject)
		require.Contains(t, strings.Join(q.Request.Reasons, " "), "stranger")
		require.Empty(t, q.Request.Suggested, "no rule could answer it")
		q.Deny("no")
	}
	p := auto()
	res := run(t, p, aycoder.Input{Prompt: "go"}, deny, []script.Step{push, fetch, push})
	require.Equal(t, []string{"git push", "go test ./..."}, asked, "only after it came in")
	require.Equal(t, []string{"did", "did", "did", "the", "the"}, outputs(res))

	data, err := json.Marshal(res.Messages)
	require.NoError(t, err)
	var stored []*aycoder.Message
	require.NoError(t, json.Unmarshal(data, &stored))
	next := auto()
	run(t, next, aycoder.Input{Messages: stored, Prompt: "more"}, deny, []script.Step{push})
	require.Len(t, asked, 4, "the next process knows")

	run(t, p, aycoder.Input{Prompt: "sub"}, deny, []script.Step{push})
	require.Len(t, asked, 6, "so do the subagents")
	p.Trust()
	run(t, p, aycoder.Input{Prompt: "anew"}, nobody(t), []script.Step{push})
}

func TestHeadlessNamesTheRule(t *testing.T) {
	res := run(t, aycoder.DenyAsks(newPolicy(t)), aycoder.Input{Prompt: "go"}, nobody(t), []script.Step{bash("go test ./...", "ls", "rm -rf /")})
	text := res.Messages[2].Parts[0].(*aycoder.ToolOutput).Text()
	require.Regexp(t, `^approval_required: nobody can be asked here \(.*\); the host can allow it with the rule bash:go test \./\.\.\.$`, text)
	require.Equal(t, []string{"approval_required:", "did", "denied:"}, outputs(res))
}

func TestPlanModeTellsToPresentThePlan(t *testing.T) {
	res := run(t, newPolicy(t, policy.WithMode(policy.Plan)), aycoder.Input{Prompt: "go"}, nobody(t), []script.Step{bash("ls", "touch x")})
	require.Contains(t, res.Messages[2].Parts[1].(*aycoder.ToolOutput).Text(), "present your plan")
	require.Equal(t, []string{"did", "denied:"}, outputs(res))
}

// The log has a decision before its tool starts, and no arguments.
func TestAuditLogOfARun(t *testing.T) {
	var buf bytes.Buffer
	p := newPolicy(t, policy.WithRules(policy.User, rules(t, "allow bash:go test *", "deny bash:git push *")...))
	secret := "Tq3" + strings.Repeat("x9", 10)
	res := run(t, p, aycoder.Input{Prompt: "go"}, func(q *aycoder.ApprovalRequested) { q.Allow() },
		[]script.Step{bash("go test ./...", "git push", "API_TOKEN="+secret+" make")}, aycoder.WithAudit(policy.NewAuditLog(&buf)))
	require.Len(t, outputs(res), 3)
	require.NotContains(t, buf.String(), secret)
	var got []string
	for line := range strings.Lines(buf.String()) {
		var rec aycoder.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &rec))
		got = append(got, strings.TrimSpace(fmt.Sprint(rec.Kind, " ", rec.Verdict, rec.Outcome, rec.Event, " ", rec.By, " ", rec.Rule)))
	}
	require.ElementsMatch(t, []string{
		"decision allow policy user allow bash:go test *", "effect ok",
		"decision deny policy user deny bash:git push *", "security denied  user deny bash:git push *",
		"request", "decision allow user", "effect ok",
	}, got)
}
