package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// verdictOf returns what a policy decides about a command.
func verdictOf(p *policy.Policy, command string) string {
	spec := &aycoder.ToolSpec{
		Name: "bash", Effect: aycoder.EffectWrite, Subject: aycoder.Subject{Arg: "command", Kind: aycoder.SubjectCommand},
	}
	v := p.Decide(context.Background(), &aycoder.ToolUse{ID: "1", Name: "bash", Args: fmt.Appendf(nil, `{"command":%q}`, command)}, spec)
	var kind struct{ Kind string }
	if data, err := json.Marshal(v); err != nil || json.Unmarshal(data, &kind) != nil {
		return "not encoded"
	}
	return kind.Kind
}

func shellRule(action policy.RuleAction, pattern string) policy.Rule {
	return policy.Rule{Action: action, Tool: "bash", Pattern: pattern}
}

// A configuration replaces its own rules, and none of the host or of the session.
func TestConfigure(t *testing.T) {
	p, err := policy.New(policy.WithRules(policy.User, shellRule(policy.RuleDeny, "make one"), shellRule(policy.RuleDeny, "make host")))
	require.NoError(t, err)
	require.NoError(t, p.KeepRule(t.Context(), aycoder.Session, "bash:make kept"))
	first := map[policy.Source][]policy.Rule{
		policy.User:    {shellRule(policy.RuleDeny, "make one"), shellRule(policy.RuleDeny, "make two")},
		policy.Project: {shellRule(policy.RuleAllow, "make three")},
	}
	require.NoError(t, p.Configure(policy.Configured{Mode: policy.Plan, Rules: first}))
	require.Equal(t, policy.Plan, p.Mode())
	require.Len(t, p.Rules(policy.User), 3, "the rule that both have is listed once")
	require.Len(t, p.Ignored(), 1)

	err = p.Configure(policy.Configured{Mode: policy.FullAuto, Rules: map[policy.Source][]policy.Rule{
		policy.User: {shellRule("permit", "x")}, policy.Managed: {shellRule(policy.RuleAllow, "y")},
	}})
	require.Error(t, err)
	require.Equal(t, policy.Plan, p.Mode(), "what is not valid changes nothing")
	require.Len(t, p.Rules(policy.User), 3)
	require.Empty(t, p.Rules(policy.Managed))
	require.Error(t, p.Configure(policy.Configured{Mode: "yolo"}))
	require.Error(t, p.Configure(policy.Configured{Rules: map[policy.Source][]policy.Rule{"them": nil}}))

	require.NoError(t, p.Configure(policy.Configured{}))
	require.Equal(t, policy.Plan, p.Mode(), "no mode keeps the mode")
	require.ElementsMatch(t, []policy.Rule{shellRule(policy.RuleDeny, "make one"), shellRule(policy.RuleDeny, "make host")},
		p.Rules(policy.User), "the rule of the host stays, although the configuration had the same")
	require.Len(t, p.Rules(policy.Session), 1)
	require.Empty(t, p.Ignored())
}

// No mode is less strict than the least one of the configuration, whoever sets it.
func TestLeastMode(t *testing.T) {
	p, err := policy.New(policy.WithMode(policy.FullAuto))
	require.NoError(t, err)
	loose, err := p.MarshalJSON()
	require.NoError(t, err)
	require.Error(t, p.Configure(policy.Configured{Least: "yolo"}))
	require.NoError(t, p.Configure(policy.Configured{Least: policy.Ask}))
	require.Equal(t, policy.Ask, p.Mode(), "that of the host")
	for _, m := range []policy.Mode{policy.FullAuto, policy.AcceptEdits} {
		require.ErrorContains(t, p.SetMode(m), "less strict than ask")
	}
	require.NoError(t, p.SetMode(policy.Plan))
	require.NoError(t, p.SetMode(policy.Ask))
	require.NoError(t, p.UnmarshalJSON(loose))
	require.Equal(t, policy.Ask, p.Mode(), "that of a session")
	require.NoError(t, p.Configure(policy.Configured{Mode: policy.FullAuto, Least: policy.Plan}))
	require.Equal(t, policy.Plan, p.Mode(), "that of another source")
	require.NoError(t, p.Configure(policy.Configured{}))
	require.NoError(t, p.SetMode(policy.FullAuto), "there is no such limit any more")
}

// A decision is made with one configuration: here exactly one of the two denies the script.
func TestConfigureIsAtomic(t *testing.T) {
	p, err := policy.New()
	require.NoError(t, err)
	sets := []policy.Configured{
		{Mode: policy.FullAuto, Rules: map[policy.Source][]policy.Rule{policy.User: {shellRule(policy.RuleDeny, "make one")}}},
		{Mode: policy.Ask, Rules: map[policy.Source][]policy.Rule{policy.User: {shellRule(policy.RuleAllow, "make one")}}},
	}
	require.NoError(t, p.Configure(sets[0]))
	denied := verdictOf(p, "make one")
	require.NoError(t, p.Configure(sets[1]))
	allowed := verdictOf(p, "make one")
	require.Equal(t, []string{"deny", "allow"}, []string{denied, allowed})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				if got := verdictOf(p, "make one"); got != denied && got != allowed {
					t.Errorf("got %s", got) // such as the mode of one and the rules of the other
				}
			}
		})
	}
	for i := range 500 {
		require.NoError(t, p.Configure(sets[i%2]))
	}
	all.Wait()
}
