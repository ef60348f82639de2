package policy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/shell"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

type attack struct {
	ID, Cmd, Class  string
	DefaultDecision string `json:"default_decision"`
	Unsafe          bool   `json:"unsafe_if_allowed"`

	Family, Why, Source, Split, Evidence string // for readers
	Labels                               []string
	Verifiable                           any
	Observed                             any
}

// attacks reads the shared commands.
func attacks(t testing.TB) []attack {
	data, err := os.ReadFile(corpus.Path(t, "attacks/shell_commands.shared.json", "599 commands"))
	require.NoError(t, err)
	var file struct {
		Version, Classes, World, Split any
		SeverityOrder                  any `json:"severity_order"`
		Cases                          []attack
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// In no mode but full-auto does anything unsafe run when nobody is asked, and what is
// harmless runs.
func TestAttacksHeadless(t *testing.T) {
	timed.Serial(t)
	cases := attacks(t)
	t.Setenv("HOME", "/home/user")
	for _, mode := range []policy.Mode{policy.Ask, policy.AcceptEdits, policy.Plan} {
		p := aycoder.DenyAsks(newPolicy(t, policy.WithMode(mode)))
		harmless, allowed, unsafe := 0, 0, 0
		for _, c := range cases {
			got, _ := ask(t, p, &bashSpec, c.Cmd)
			if c.Unsafe && got != "deny" {
				unsafe++
				t.Errorf("%s: %s runs: %s", mode, c.ID, c.Cmd)
			}
			if c.DefaultDecision == "allow" {
				harmless++
				if got == "allow" {
					allowed++
				}
			}
		}
		t.Logf("%s: %d cases, %d unsafe allowed, %d of %d harmless allowed", mode, len(cases), unsafe, allowed, harmless)
		assert.GreaterOrEqual(t, allowed*100, harmless*95)
	}
}

// Rules that were made for some commands let no other one reach further: behind a
// wrapper, with a redirect, in another directory.
func TestAttacksWithRulesForOthers(t *testing.T) {
	timed.Serial(t)
	cases := attacks(t)
	t.Setenv("HOME", "/home/user")
	var made []policy.Rule
	for _, c := range cases {
		class, ok := shell.ParseClass(c.Class)
		require.True(t, ok)
		_, v := ask(t, newPolicy(t), &bashSpec, c.Cmd)
		got, _ := shell.ParseClass(v.Grounds().Class)
		if s := v.Grounds().Suggested; len(s) > 1 && max(class, got) <= shell.NeedsApproval {
			made = append(made, entry(t, policy.RuleAllow, s[1]))
		}
	}
	require.NotEmpty(t, made)
	p := newPolicy(t, policy.WithRules(policy.User, made...))
	var texts []string
	for _, r := range p.Rules(policy.User) {
		texts = append(texts, r.Pattern)
	}
	checked := 0
	for _, c := range cases {
		if class, _ := shell.ParseClass(c.Class); class <= shell.NeedsApproval || !c.Unsafe {
			continue
		}
		checked++
		if got, v := ask(t, p, &bashSpec, c.Cmd); got == "allow" {
			t.Errorf("%s (%s) runs by %s: %s", c.ID, c.Class, v.Grounds().Rule, c.Cmd)
		}
	}
	t.Logf("%d rules, %d commands: %s", len(texts), checked, strings.Join(texts, ", "))
}

// The suggestion for each command is never all commands, and answers the question.
func TestAttacksAreAnsweredBySuggestions(t *testing.T) {
	timed.Serial(t)
	answered := 0
	for _, c := range attacks(t) {
		got, v := ask(t, newPolicy(t), &bashSpec, c.Cmd)
		if got != "ask" {
			continue
		}
		for _, text := range v.Grounds().Suggested {
			r := entry(t, policy.RuleAllow, text)
			require.NotContains(t, []string{"", "*", "* *"}, r.Pattern)
			p := newPolicy(t, policy.WithRules(policy.User, r))
			got, _ := ask(t, p, &bashSpec, c.Cmd)
			assert.Equal(t, "allow", got, "%s with %s", c.Cmd, r)
			answered++
		}
	}
	t.Logf("%d suggestions", answered)
}
