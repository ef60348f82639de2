package config_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/policy"
)

// Each source sets one key more than the next one, so that every value says which source decided.
func TestPrecedence(t *testing.T) {
	const all = "[agent]\nmax_turns = %\nmax_calls = %\nretries = %\nthinking = %\n[context]\nmax_tokens = %000\nfill = 0.%\n"
	lines := func(n int, digit string) string {
		kept := strings.SplitAfter(all, "\n")
		return strings.ReplaceAll(strings.Join(kept[:len(kept)-1-n], ""), "%", digit)
	}
	p := newProject(t, lines(1, "4"))
	p.write(config.LocalFile, lines(2, "3"))
	opts := []config.Option{
		config.WithUserFile(file(t, lines(0, "5"))),
		config.WithLookup(variables("AYCODER_AGENT_MAX_TURNS", "6", "AYCODER_AGENT_MAX_CALLS", "6", "AYCODER_AGENT_RETRIES", "6")),
		config.WithFlag("-max-turns", "agent.max_turns", "7"), config.WithFlag("-calls", "agent.max_calls", "7"),
		config.WithManagedFile(file(t, "agent.max_turns = 1")),
	}
	l := p.accept(opts...)
	require.Empty(t, texts(l))
	a, c := l.Config.Agent, l.Config.Context
	assert.Equal(t, []any{1, 7, 6, 3, int64(4000), 0.5}, []any{a.MaxTurns, a.MaxCalls, a.Retries, a.Thinking, c.MaxTokens, c.Fill})
	for key, want := range map[string]config.Source{
		"agent.max_turns": config.Managed, "agent.max_calls": config.Flag, "agent.retries": config.Environment,
		"agent.thinking": config.Local, "context.max_tokens": config.Project, "context.fill": config.User,
		"agent.retry_time": config.Default,
	} {
		assert.Equal(t, want, l.Origin(key).Source, key)
	}
	assert.Equal(t, "flag -calls", l.Origin("agent.max_calls").String())
	assert.Equal(t, "variable AYCODER_AGENT_RETRIES", l.Origin("agent.retries").String())
	assert.Equal(t, "default", l.Origin("agent.retry_time").String())
	assert.True(t, strings.HasSuffix(l.Origin("agent.thinking").String(), "config.local.toml:5:12"), l.Origin("agent.thinking"))
}

// A list comes from where its entries do, each of which may be from another source.
func TestOriginOfLists(t *testing.T) {
	p := newProject(t, "[tools]\ndisabled = [\"fetch\"]\n")
	user := file(t, "[tools]\nenv = [\"A\",\n\"B\"]\ndisabled = [\"bash\"]\n[[hooks]]\nevent = \"Stop\"\ncommand = \"x\"\nenv = [\"C\"]\n")
	l := p.accept(config.WithUserFile(user), config.WithLookup(variables("AYCODER_SANDBOX_READ", "/a,/b")))
	project := filepath.Join(p.dir, config.ProjectFile)
	for key, want := range map[string]string{
		"tools.env": user + ":2:8", "tools.env[1]": user + ":3:1", "hooks": user + ":5:3", "hooks[0]": user + ":5:3",
		"hooks[0].env": user + ":8:8", "tools.disabled": user + ":4:13", "tools.disabled[1]": project + ":2:13",
		"sandbox.read": "variable AYCODER_SANDBOX_READ", "sandbox.write": "default", "tools.env[2]": "default",
	} {
		assert.Equal(t, want, l.Origin(key).String(), key)
	}
}

// A managed value is the largest possible: others may be stricter, and none looser.
func TestManaged(t *testing.T) {
	managed := "agent.max_turns = 30\nagent.max_cost = 2\napproval.mode = \"ask\"\nsandbox.mode = \"on\"\nsandbox.network = false\n" +
		"models.main.base_url = \"https://gateway.example\"\n[[approval.rules]]\naction = \"deny\"\ntool = \"fetch\"\n"
	const model = "[models.main]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"https://mine.example\"\n"
	tests := []struct {
		name, user string
		turns      int
		cost       float64
		mode       policy.Mode
		sandbox    string
	}{
		{"nothing", model, 30, 2, "ask", "on"},
		{"looser", model + "[agent]\nmax_turns = 99\nmax_cost = 9\n[approval]\nmode = \"full-auto\"\n[sandbox]\nmode = \"off\"\nnetwork = true\n",
			30, 2, "ask", "on"},
		{"stricter", model + "[agent]\nmax_turns = 9\nmax_cost = 0.5\n[approval]\nmode = \"plan\"\n[sandbox]\nmode = \"required\"\n",
			9, 0.5, "plan", "required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := config.Load(config.WithUserFile(file(t, tt.user)), config.WithManagedFile(file(t, managed)))
			require.NoError(t, err)
			c := l.Config
			assert.Equal(t, tt.turns, c.Agent.MaxTurns)
			assert.InDelta(t, tt.cost, *c.Agent.MaxCost, 0)
			assert.Equal(t, tt.mode, c.Approval.Mode)
			assert.Equal(t, policy.Ask, c.Approval.Least, "also for what is chosen later")
			assert.Equal(t, tt.sandbox, c.Sandbox.Mode)
			assert.False(t, c.Sandbox.Network)
			assert.Equal(t, "https://gateway.example", c.Models["main"].BaseURL)
			assert.Equal(t, []config.Rule{{Action: policy.RuleDeny, Tool: "fetch", Source: policy.Managed}}, c.Approval.Rules)
			_, err = policy.New(policy.WithRules(c.Approval.Rules[0].Source, c.Approval.Rules[0].Policy()))
			require.NoError(t, err)
		})
	}
}

func TestVariablesAndFlags(t *testing.T) {
	l, err := config.Load(
		config.WithUserFile(file(t, "[models.my-model]\nprovider = \"ollama\"\nmodel = \"a\"\n")),
		config.WithLookup(variables("AYCODER_MODELS_MY_MODEL_MODEL", "b", "AYCODER_TOOLS_DISABLED", "fetch, bash,",
			"AYCODER_AGENT_RETRY_TIME", "90s", "AYCODER_AGENT_SYSTEM", "${HOME}", "HOME", "/root",
			"AYCODER_APPROVAL_MODE", "plan", "AYCODER_SANDBOX_NETWORK", "true", "AYCODER_AGENT_MAX_COST", "1.5")),
		config.WithFlag("-m", "roles.main", "my-model"), config.WithFlag("-write", "sandbox.write", "/a,/b"),
	)
	require.NoError(t, err)
	require.Empty(t, l.Diagnostics)
	c := l.Config
	assert.Equal(t, "b", c.Models["my-model"].Model)
	assert.Equal(t, []string{"fetch", "bash"}, c.Tools.Disabled)
	assert.Equal(t, 90*time.Second, c.Agent.RetryTime)
	assert.Equal(t, "${HOME}", c.Agent.System, "only files have variables in their texts")
	assert.Equal(t, policy.Plan, c.Approval.Mode)
	assert.Empty(t, c.Approval.Least, "there is no managed file")
	assert.True(t, c.Sandbox.Network)
	assert.InDelta(t, 1.5, *c.Agent.MaxCost, 0)
	assert.Equal(t, "my-model", c.Roles.Main)
	assert.Equal(t, []string{"/a", "/b"}, c.Sandbox.Write)

	two := config.WithUserFile(file(t, "[models.a_b]\nprovider = \"ollama\"\nmodel = \"x\"\n[models.a-b]\nprovider = \"ollama\"\nmodel = \"y\"\n"))
	require.Empty(t, diagnostics(t, two, config.WithLookup(variables("AYCODER_MODELS_A_C_MODEL", "z"))))
	shared := diagnostics(t, two, config.WithLookup(variables("AYCODER_MODELS_A_B_MODEL", "z")))
	require.Len(t, shared, 1)
	require.Equal(t, "error: models.a_b.model has the same variable as models.a-b.model (variable AYCODER_MODELS_A_B_MODEL); give one of them another name", shared[0].String())

	var got []string
	for _, d := range diagnostics(t,
		config.WithLookup(variables("AYCODER_AGENT_MAX_TURNS", "many", "AYCODER_APPROVAL_MODE", "aks", "AYCODER_AGENT_MAX_TOKENS", "0100000")),
		config.WithFlag("-t", "agent.max_turn", "3"), config.WithFlag("-r", "approval.rules", "x"),
		config.WithFlag("-c", "agent.max_calls", "0"), config.WithFlag("-s", "language_servers.gopls.settings.staticcheck", "true")) {
		got = append(got, d.String())
	}
	assert.ElementsMatch(t, []string{
		"error: agent.max_turns must be an integer (variable AYCODER_AGENT_MAX_TURNS)",
		"error: agent.max_tokens must be an integer (variable AYCODER_AGENT_MAX_TOKENS)", // and not the octal number
		`error: approval.mode has no such value (variable AYCODER_APPROVAL_MODE); did you mean "ask"?`,
		"error: agent.max_turn is not a key that a flag can set (flag -t); did you mean agent.max_turns?",
		"error: approval.rules is not a key that a flag can set (flag -r); did you mean approval.mode?",
		"error: agent.max_calls is too small (flag -c); the smallest possible value is 1",
		"error: language_servers.gopls.settings.staticcheck is not a key that a flag can set (flag -s)",
	}, got)
}

// Settings of a language server are merged by name. A value of another kind replaces the one before, and false is not
// the same as nothing.
func TestSettingsOfLanguageServers(t *testing.T) {
	server := "[language_servers.gopls.settings]\n"
	user := config.WithUserFile(file(t, server+"a = { x = 1, y = 2 }\nb = [1]\nc = { z = 3 }\n"))
	l, err := config.Load(user, config.WithManagedFile(file(t, server+"a = { x = false }\nb = { y = 4 }\nc = \"none\"\nd = false\n")))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"a": map[string]any{"x": false, "y": int64(2)}, "b": map[string]any{"y": int64(4)}, "c": "none", "d": false,
	}, l.Config.LanguageServers["gopls"].Settings)
	before, err := config.Load(user)
	require.NoError(t, err)
	var keys []string
	for _, c := range l.Since(before) {
		keys = append(keys, strings.TrimPrefix(c.Key, "language_servers.gopls.settings."))
	}
	assert.Equal(t, []string{"a.x", "b", "b.y", "c", "c.z", "d"}, keys)
}

// Two keys never have the same variable.
func TestVariableNames(t *testing.T) {
	assert.Equal(t, "AYCODER_AGENT_MAX_TURNS", config.Variable("agent.max_turns"))
	assert.Equal(t, "AYCODER_MODELS_GPT_5_BASE_URL", config.Variable("models.gpt-5.base_url"))
}

// A variable with nearly the name of a key is a warning, and one of another program, or of this project's tests, is not.
func TestMistypedVariables(t *testing.T) {
	environ := []string{
		"AYCODER_AGENT_MAX_TURN=1", "AYCODER_AGENT_MAX_TRUNS=1", "AYCODER_MAX_TURNS=1", "aycoder_approval_mode=plan",
		"AYCODER_PROFIL=x", "AYCODER_MODELS_GPT_MODLE=x", "AYCODER_AGENT_MAX_CALLS=7", "AYCODER_PROFILE=", "AYCODER_MODEL=x",
		"AYCODER_\x1b[2K=x", "AYCODER_=x", "=C:=x", "AGENT_MAX_TURN=1", "AYCODER_MODELS_OTHER_MODEL=x",
	}
	l, err := config.Load(config.WithEnviron(environ), config.WithLookup(variables("AYCODER_AGENT_MAX_CALLS", "7")),
		config.WithUserFile(file(t, "[models.gpt]\nprovider = \"x\"\nmodel = \"y\"\n")))
	require.NoError(t, err)
	assert.Equal(t, 7, l.Config.Agent.MaxCalls)
	assert.ElementsMatch(t, []string{
		"warning: the variable AYCODER_AGENT_MAX_TURN sets no key; did you mean AYCODER_AGENT_MAX_TURNS?",
		"warning: the variable AYCODER_AGENT_MAX_TRUNS sets no key; did you mean AYCODER_AGENT_MAX_TURNS?",
		"warning: the variable AYCODER_MAX_TURNS sets no key; did you mean AYCODER_AGENT_MAX_TURNS?",
		"warning: the variable aycoder_approval_mode sets no key; did you mean AYCODER_APPROVAL_MODE?",
		"warning: the variable AYCODER_PROFIL sets no key; did you mean AYCODER_PROFILE?",
		"warning: the variable AYCODER_MODELS_GPT_MODLE sets no key; did you mean AYCODER_MODELS_GPT_MODEL?",
	}, strings.Split(texts(l), "\n"))

	ours := regexp.MustCompile(`"(AYCODER_[A-Z0-9_]+)"`)
	var names []string
	require.NoError(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" || filepath.Dir(name) == "../config" {
			return err
		}
		data, err := os.ReadFile(name)
		for _, m := range ours.FindAllSubmatch(data, -1) {
			names = append(names, string(m[1])+"=x")
		}
		return err
	}))
	require.Greater(t, len(names), 30)
	l, err = config.Load(config.WithEnviron(names), config.WithUserFile("testdata/good.toml"),
		config.WithLookup(variables("ANTHROPIC_API_KEY", "x")), config.WithCatalog(known))
	require.NoError(t, err)
	assert.Empty(t, texts(l))
}

// An error stops, however many warnings there are before it.
func TestErrorAfterManyWarnings(t *testing.T) {
	var text strings.Builder
	for i := range 150 {
		fmt.Fprintf(&text, "[models.m%d]\nprovider = \"openai\"\nmodel = \"unknown-%d\"\n", i, i)
	}
	text.WriteString("[roles]\nmain = \"none\"\n")
	got := faults(t, text.String())
	assert.Len(t, slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, "error:") }), 1)
}
