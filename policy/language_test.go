package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// A sample is a line of testdata/rules.txt.
type sample struct {
	want, tool, subject string
	rules               []policy.Rule
}

func samples(t *testing.T) []sample {
	t.Helper()
	data, err := os.ReadFile("testdata/rules.txt")
	require.NoError(t, err)
	var out []sample
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		require.Greater(t, len(f), 3, line)
		out = append(out, sample{f[0], f[1], f[2], rules(t, f[3:]...)})
	}
	return out
}

// Each place where a host or a user writes rules reads the same language: options, files, and
// the rules that approvals keep. The test of internal/cli puts the samples to its flags.
func TestOneLanguageOfRules(t *testing.T) {
	url := aycoder.ToolSpec{
		Name: "fetch", Effect: aycoder.EffectReadOnly, OpenWorld: true,
		Subject: aycoder.Subject{Arg: "url", Kind: aycoder.SubjectURL},
	}
	deploy := aycoder.ToolSpec{Name: "deploy", Effect: aycoder.EffectWrite, Subject: aycoder.Subject{Arg: "target"}}
	drop := aycoder.ToolSpec{
		Name: "drop", Effect: aycoder.EffectWrite, Destructive: true, Subject: aycoder.Subject{Arg: "name"},
	}
	specs := map[string]*aycoder.ToolSpec{
		"bash": &bashSpec, "edit_file": &editSpec, "read_file": &readSpec, "fetch": &url, "deploy": &deploy, "drop": &drop,
	}
	stored := func(given []policy.Rule) policy.Option {
		name := filepath.Join(t.TempDir(), "rules.json")
		data, err := json.Marshal(map[string]any{"version": 1, "rules": given})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, data, 0o600))
		return policy.WithFile(name)
	}
	places := map[string]func(given []policy.Rule) *policy.Policy{
		"option": func(given []policy.Rule) *policy.Policy {
			return newPolicy(t, policy.WithRules(policy.Managed, given...))
		},
		"file": func(given []policy.Rule) *policy.Policy { return newPolicy(t, stored(given)) },
		"approval": func(given []policy.Rule) *policy.Policy {
			var strict []policy.Rule
			for _, r := range given {
				if r.Action != policy.RuleAllow {
					strict = append(strict, r)
				}
			}
			p := newPolicy(t, policy.WithRules(policy.Project, strict...))
			for _, r := range given {
				if r.Action == policy.RuleAllow {
					require.NoError(t, p.KeepRule(t.Context(), aycoder.Session, r.String()))
				}
			}
			return p
		},
	}
	all := samples(t)
	require.Greater(t, len(all), 100)
	for _, s := range all {
		require.NotNil(t, specs[s.tool], s.tool)
		for place, build := range places {
			got, v := ask(t, build(s.rules), specs[s.tool], s.subject)
			assert.Equal(t, s.want, got, "%s: %s %q with %v: %+v", place, s.tool, s.subject, s.rules, v.Grounds())
		}
	}
	t.Logf("%d samples in %d places", len(all), len(places))
}
