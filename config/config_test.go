package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/policy"
)

// variables returns a lookup of the given variables only.
func variables(pairs ...string) func(string) (string, bool) {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) {
		v, ok := all[name]
		return v, ok
	}
}

// write makes a file with the directories that it needs.
func write(t testing.TB, name, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// file makes a file of a user.
func file(t testing.TB, text string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "config.toml"), text)
}

// faults returns the diagnostics of a file of the user, whether it is valid or not.
func faults(t testing.TB, text string, opts ...config.Option) []string {
	t.Helper()
	name := file(t, text)
	var out []string
	for _, d := range diagnostics(t, append([]config.Option{config.WithUserFile(name), config.WithCatalog(known)}, opts...)...) {
		out = append(out, strings.TrimPrefix(d.String(), name+":"))
	}
	return out
}

func diagnostics(t testing.TB, opts ...config.Option) []config.Diagnostic {
	t.Helper()
	l, err := config.Load(opts...)
	if err == nil {
		return l.Diagnostics
	}
	require.Nil(t, l)
	var invalid *config.InvalidError
	require.ErrorAs(t, err, &invalid)
	return invalid.Diagnostics
}

// known is parsed once.
var known = catalog.Default()

var goodVariables = variables("ANTHROPIC_API_KEY", "secret", "TEAM", "red")

// lineOf returns the number of the line of testdata/good.toml that is text.
func lineOf(t *testing.T, text string) int {
	data, err := os.ReadFile("testdata/good.toml")
	require.NoError(t, err)
	i := slices.Index(strings.Split(string(data), "\n"), text)
	require.GreaterOrEqual(t, i, 0, text)
	return i + 1
}

// The values are those of testdata/good.toml, read by a person.
func TestGoodFile(t *testing.T) {
	l, err := config.Load(config.WithUserFile("testdata/good.toml"), config.WithLookup(goodVariables))
	require.NoError(t, err)
	require.Empty(t, l.Diagnostics)
	at := func(text string, column int) config.Origin {
		line := lineOf(t, text)
		return config.Origin{Source: config.User, File: "testdata/good.toml", Line: line, Column: column}
	}
	want := config.Settings{
		Models: map[string]config.Model{
			"main": {
				Provider: "anthropic", Model: "claude-sonnet-4-5", KeyEnv: "ANTHROPIC_API_KEY", MaxTokens: 16384,
				RequestsPerMinute: 50, TokensPerMinute: 40000, IdleTimeout: 2 * time.Minute,
				Fallbacks: []string{"gateway", "openai/gpt-5"},
			},
			"gateway": {
				Provider: "openai", Model: "team-coder", BaseURL: "https://llm.example.com/v1",
				Headers: map[string]string{"X-Team": "red", "X-Cost": "low"},
				Proxy:   "http://proxy.example.com:3128", KeyCommand: "pass show gateway",
			},
			"fast": {Provider: "ollama", Model: "qwen3:8b"},
		},
		Roles: config.Roles{Main: "main", Small: "fast", Summary: "fast"},
		Agent: config.Agent{
			System: "You work on this repository.\nBe brief.", Rules: true, MaxTurns: 80, MaxCalls: 64, MaxTokens: 2000000,
			MaxCost: new(5.0), Budget: "team", Thinking: 8192, Retries: 3, RetryTime: 3 * time.Minute,
		},
		Budgets: map[string]config.Budget{
			"team": {Cost: new(20.5), Tokens: new(int64(5000000)), Time: new(2 * time.Hour)},
		},
		Context: config.Context{MaxTokens: 200000, MaxBytes: 16777216, Fill: 0.4, Server: true},
		Tools: config.Tools{
			Disabled: []string{"fetch"}, Env: []string{"GOFLAGS", "CI=1"}, Ignore: []string{"dist/", "*.min.js"},
			PrivateHosts: []string{"wiki.intranet"}, Dirs: map[string]string{"lib": "/home/me/lib"}, Mask: true, MaxOutput: 131072, Parallel: 4, Memory: 4294967296,
			Commands: 8, Agents: 4, Checks: []config.Check{"go vet", "eslint"}, Code: []config.Code{"graph"}, Insight: []config.Insight{"forecast"}, Grace: 2 * time.Second,
		},
		Approval: config.Approval{
			Mode: policy.AcceptEdits, Timeout: 10 * time.Minute,
			Rules: []config.Rule{
				{
					Action: policy.RuleAllow, Tool: "bash", Pattern: "go test *", Class: "needs_approval",
					Match: []string{"go test ./..."}, NotMatch: []string{"go build ./..."}, Source: policy.User,
				},
				{Action: policy.RuleDeny, Tool: "fetch", Reason: "work offline", Source: policy.User},
			},
		},
		Sandbox: config.Sandbox{
			Mode: "on", Kind: "landlock", SharedCaches: true, Read: []string{"/opt/toolchain"},
			Write: []string{"/var/cache/build"}, Protect: []string{"Makefile"},
			Hosts: []config.Host{
				{Host: "proxy.golang.org", Action: "allow"},
				{
					Host: "*.intranet", Action: "ask", Private: true, Tunnel: true,
					Headers: map[string]string{"X-From": "agent"},
				},
			},
		},
		Session: config.Session{Dir: "/var/lib/agent", Snapshots: true, Sync: "turns", Audit: "/var/log/agent.jsonl", Log: "/var/log/agent.log",
			RepeatReads: true, Keep: 90 * 24 * time.Hour, MaxBytes: 4 << 30},
		Terminal: config.Terminal{
			Vi: true, Keys: map[string]string{"ctrl+x": "undo"}, Notify: "both", NotifyAfter: 30 * time.Second, Status: "~/bin/status",
		},
		Serve: config.Serve{
			CostThreshold: new(2.5),
			Webhooks: map[string]config.Webhook{"ci": {
				URL: "https://ci.example.com/agents", SecretEnv: []string{"CI_SECRET", "CI_SECRET_NEW"}, Types: []string{"tool.*", "error"},
				Content: true, Private: true, Disabled: true,
			}},
		},
		Hooks: []config.Hook{{
			Event: "PreToolUse", Matcher: "Bash|Edit", Command: "./check.sh --strict", Timeout: 20 * time.Second,
			Env: []string{"CHECK_TOKEN"}, Origin: at("[[hooks]]", 3),
		}},
		Servers: map[string]config.Server{
			"github": {
				Command: "npx", Args: []string{"-y", "server-github"}, Env: map[string]string{"GITHUB_TOKEN": ""},
				Timeout: 30 * time.Second, Tools: []string{"search"}, Origin: at("[servers.github]", 10),
			},
			"docs": {
				URL: "https://docs.example.com/mcp", ClientID: "aycoder-docs", Headers: map[string]string{"Authorization": "Bearer "},
				Timeout: time.Minute, Trust: true, Disabled: true, Origin: at("[servers.docs]", 10),
			},
		},
		AgentServers: map[string]config.AgentServer{"colleague": {
			Command: "other-agent", Args: []string{"--acp"}, Env: map[string]string{"OTHER_KEY": ""}, Auth: "api-key", Mode: "any mode",
			Description: "Knows the database.", Timeout: 30 * time.Minute,
		}},
		LanguageServers: map[string]config.LanguageServer{"gopls": {}, "zls": {
			Command: "zls", Args: []string{"--config-path", "/dev/null"}, Env: map[string]string{"ZIG_LOCAL_CACHE_DIR": "/var/tmp/zig"},
			Languages: map[string]string{".zig": "zig"},
			Settings: map[string]any{
				"max": int64(-3), "ratio": 0.5, "a.b": true, "none": []any{}, "paths": []any{"/p", []any{int64(1), "two", map[string]any{"three": int64(3)}}},
				"inlay": map[string]any{"hints": map[string]any{"types": "all"}},
				"steps": []any{map[string]any{"name": "check"}, map[string]any{"args": map[string]any{"list": []any{"-x"}}}},
			},
		}},
	}
	assert.Equal(t, want, l.Config.Settings)
	assert.Equal(t, at(`max_turns = 80`, 13), l.Origin("agent.max_turns"))
	assert.Equal(t, at(`tool = "bash"`, 8), l.Origin("approval.rules[0].tool"))
	assert.Equal(t, config.Origin{Source: config.Default}, l.Origin("agent.nothing"))
}

// The default values are those that the options of the packages document.
func TestDefaults(t *testing.T) {
	l, err := config.Load()
	require.NoError(t, err)
	require.Empty(t, l.Diagnostics)
	assert.Equal(t, config.Settings{
		Agent:   config.Agent{MaxTurns: 50, MaxCalls: 128, Retries: 5, RetryTime: 5 * time.Minute},
		Context: config.Context{MaxBytes: 32 << 20, Fill: 0.5},
		Tools: config.Tools{
			Mask: true, MaxOutput: 256 << 10, Parallel: 8, Commands: 16, Agents: 8, Grace: time.Second,
		},
		Approval: config.Approval{Mode: policy.Ask},
		Sandbox:  config.Sandbox{Mode: "off", Kind: "auto", SharedCaches: true},
		Session:  config.Session{Snapshots: true, Sync: "records"},
		Terminal: config.Terminal{Notify: "off", NotifyAfter: 10 * time.Second, Title: true, Forecast: true, Suggestions: true},
	}, l.Config.Settings)
}

func TestProfile(t *testing.T) {
	for _, opt := range []config.Option{
		config.WithProfile("work"),
		config.WithLookup(variables("ANTHROPIC_API_KEY", "x", "AYCODER_PROFILE", "work")),
	} {
		l, err := config.Load(config.WithUserFile("testdata/good.toml"), config.WithLookup(goodVariables), opt)
		require.NoError(t, err)
		assert.Equal(t, 20, l.Config.Agent.MaxTurns)
		assert.Equal(t, "gateway", l.Config.Roles.Main)
		assert.Equal(t, policy.Plan, l.Config.Approval.Mode)
		assert.Equal(t, 64, l.Config.Agent.MaxCalls)
		assert.Equal(t, lineOf(t, "agent.max_turns = 20"), l.Origin("agent.max_turns").Line)
	}
	got := diagnostics(t, config.WithUserFile("testdata/good.toml"), config.WithLookup(goodVariables),
		config.WithProfile("wrok"))
	require.Len(t, got, 1)
	assert.Equal(t, `error: profile "wrok" is in no file; did you mean "work"?`, got[0].String())
	_, err := config.Load(config.WithUserFile("testdata/good.toml"),
		config.WithLookup(variables("ANTHROPIC_API_KEY", "x", "AYCODER_PROFILE", "wrok")))
	require.ErrorContains(t, err, `profile "wrok" is in no file (variable AYCODER_PROFILE); did you mean "work"?`)
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"mark of Windows", "\ufeffagent.max_turns = 0", []string{
			"1:19: error: agent.max_turns is too small; the smallest possible value is 1",
		}},
		{"all kinds at once", "[agent]\nmax_turn = 1\nmax_turns = \"x\"\nmax_turns = 2\nthinking = -1\n[agent]\nretries = 1\n" +
			"[context]\nmax_tokens = 3000000\n", []string{
			"2:1: error: agent.max_turn is not a key; did you mean max_turns?",
			"3:1: error: agent.max_turns must be an integer and is a text; leave out the quotes",
			"4:1: error: agent.max_turns is defined twice, first on line 3; keep one of them",
			"5:12: error: agent.thinking is too small; the smallest possible value is 0",
			"6:2: error: agent is defined twice, first on line 1; keep one of them",
			"9:14: warning: context.max_tokens is unreasonably large; the largest value that makes sense is 2000000",
		}},
		{"a mistyped table is read as the one that was meant", "[agnet]\nmax_turns = 0\n[[aproval.rules]]\naction = \"alow\"\n", []string{
			"1:2: error: agnet is not a key; did you mean agent?",
			"2:13: error: agnet.max_turns is too small; the smallest possible value is 1",
			"3:3: error: aproval is not a key; did you mean approval?",
			"3:11: error: aproval.rules[0] needs the key tool",
			"4:10: error: aproval.rules[0].action has no such value; did you mean \"allow\"?",
		}},
		{"case", "[Agent]\nMax_Turns = 1\n", []string{
			"1:2: error: Agent is not a key; did you mean agent?",
			"2:1: error: Agent.Max_Turns is not a key; did you mean max_turns?",
		}},
		{"inline tables", "roles = { mian = \"x/y\", small = 3 }\n", []string{
			"1:11: error: roles.mian is not a key; did you mean main?",
			"1:25: error: roles.small must be text and is an integer; put the value in quotes",
		}},
		{"dotted keys", "agent.max_turns = 0\nagent.max_turns = 3\n", []string{
			"1:19: error: agent.max_turns is too small; the smallest possible value is 1",
			"2:7: error: agent.max_turns is defined twice, first on line 1; keep one of them",
		}},
		{"key of another table", "max_turns = 3\n", []string{
			"1:1: error: max_turns is not a key; it belongs into the table agent",
		}},
		{"quoted key with a line break", "\"a\\nb\" = 3\n", []string{
			"1:1: error: \"a\\nb\" is not a key; the keys here are models, roles, agent, budgets, context, tools, approval, sandbox, session, hooks, servers, agent_servers, language_servers, terminal, serve, profile",
		}},
		{"columns are characters", "roles = { small = \"ä/ö\", mian = \"\" }", []string{
			"1:26: error: roles.mian is not a key; did you mean main?",
		}},
		{"faults before wrong syntax", "[agent]\nmax_turns = 0\nx = \"\n[roles]\nmain = 1\n", []string{
			"2:13: error: agent.max_turns is too small; the smallest possible value is 1",
			"3:6: error: invalid syntax: basic strings cannot have new lines; what comes after this place was not read",
		}},
		{"lists", "[tools]\ndisabled = [\"a\", 3]\nignore = \"x\"\n[[tools.env]]\n", []string{
			"2:18: error: tools.disabled[1] must be text and is an integer; put the value in quotes",
			"3:1: error: tools.ignore must be a list of texts and is a text; write it in brackets, such as [\"one\", \"two\"]",
			"4:9: error: tools.env must be a list of texts and is a list of tables; write it in brackets, such as [\"one\", \"two\"]",
		}},
		{"numbers", "[agent]\nmax_turns = 0x10\nmax_cost = 1_0\nmax_tokens = 9223372036854775808\n[context]\nfill = nan\n", []string{
			"4:1: error: agent.max_tokens must be an integer",
			"6:1: error: context.fill must be a finite number",
		}},
		{"missing keys", "[models.a]\nprovider = \"openai\"\n[[hooks]]\nevent = \"Stop\"\n[servers.s]\n", []string{
			"1:9: error: models.a needs the key model",
			"3:3: error: hooks[0] needs the key command",
			"5:10: error: servers.s needs either command or url",
		}},
		{"language servers", "[language_servers.gopls]\n[language_servers.gpls]\n[language_servers.x]\ncommand = \"x\"\nlanguages = { go = \"go\" }\n", []string{
			"2:19: error: language_servers.gpls needs the key command; did you mean \"gopls\"?",
			"2:19: error: language_servers.gpls needs the key languages; did you mean \"gopls\"?",
			"5:20: error: language_servers.x.languages.go is not an extension; write it with its dot, such as \".go\"",
		}},
		{"empty language servers", "[language_servers.x]\ncommand = \" \"\nlanguages = {}\n[language_servers.y]\ncommand = \"${NONE:-}\"\n[language_servers.y.languages]\n" +
			"[language_servers.gopls]\ncommand = \"\"\nlanguages = {}\n", []string{
			"2:11: error: language_servers.x.command is empty",
			"3:1: error: language_servers.x.languages is empty",
			"5:11: error: language_servers.y.command is empty",
			"6:21: error: language_servers.y.languages is empty",
			"8:11: error: language_servers.gopls.command is empty",
			"9:1: error: language_servers.gopls.languages is empty",
		}},
		{"empty languages", "[language_servers.zls]\ncommand = \"zls\"\nlanguages = { \".zig\" = \"\", \".zon\" = \"${NONE:-} \" }\n", []string{
			"3:24: error: language_servers.zls.languages.\".zig\" is empty; name the language as the protocol does",
			"3:37: error: language_servers.zls.languages.\".zon\" is empty; name the language as the protocol does",
		}},
		{"settings of a language server", "[language_servers.gopls.settings]\nsince = 2026-01-01\na = 1\na.b = 2\nratio = nan\npath = [\"${NONE}\"]\n[language_servers.gopls.settings.a]\n", []string{
			"2:1: error: language_servers.gopls.settings.since must be a value of JSON and is a date; put it in quotes, as a text",
			"4:1: error: language_servers.gopls.settings.a is defined twice, first on line 3; keep one of them",
			"5:1: error: language_servers.gopls.settings.ratio must be a finite number",
			"6:9: error: language_servers.gopls.settings.path[0] needs the variable NONE, which is not set; set it, or give a default: ${NONE:-default}",
			"7:34: error: language_servers.gopls.settings.a is defined twice, first on line 3; keep one of them",
		}},
		{"no settings", "language_servers.gopls.settings = \"x\"\n", []string{
			"1:24: error: language_servers.gopls.settings must be a table of names and is a text",
		}},
		{"deep settings", "language_servers.gopls.settings" + strings.Repeat(".a", 31) + " = 1\nlanguage_servers.gopls.settings.b = " + strings.Repeat("[", 31) + " [], 1 " + strings.Repeat("]", 31), []string{
			"2:37: error: language_servers.gopls.settings.b" + strings.Repeat("[0]", 31) + " must be a value of JSON and is a list; no more than 32 tables and lists may be in each other",
		}},
		{"empty texts", "[models.a]\nprovider = \"openai\"\nmodel = \"\"\n[[hooks]]\nevent = \"Stop\"\ncommand = \"\"\n", []string{
			"3:9: error: models.a.model is empty",
			"6:11: error: hooks[0].command is empty",
		}},
		{"webhooks", "[serve.webhooks.a]\nurl = \"nowhere\"\n[serve.webhooks.b]\nurl = \"https://b.example\"\nsecret_env = [\"B\"]\n", []string{
			"1:17: error: serve.webhooks.a needs the key secret_env",
			"2:7: error: serve.webhooks.a.url is not an address; write it with its scheme, such as \"https://example.com\"",
		}},
		{"names of models", "[models.fast]\nprovider = \"ollama\"\nmodel = \"x\"\nfallbacks = [\"fats\", \"fast\"]\n[roles]\nmain = \"fst\"\n[agent]\nbudget = \"b\"\n", []string{
			"4:14: error: models.fast.fallbacks[0] names \"fats\", which is not in models; did you mean \"fast\"?",
			"4:22: error: models.fast.fallbacks[1] is the model itself; name another model",
			"6:8: error: roles.main names \"fst\", which is not in models; did you mean \"fast\"?",
			"8:10: error: agent.budget names \"b\", which is not in budgets",
		}},
		{"a model without its provider", "[roles]\nmain = \"claude-sonnet-4-5\"\n", []string{
			"2:8: error: roles.main names \"claude-sonnet-4-5\", which is not in models; write it as \"provider/model\"",
		}},
		{"no table", "models.a = \"x\"\nservers.b = 1\n[sandbox]\nhosts = [\"x\"]\nmode = true\n", []string{
			"1:8: error: models.a must be a table and is a text; begin it with the line [models.a]",
			"2:9: error: servers.b must be a table and is an integer; begin it with the line [servers.b]",
			"4:10: error: sandbox.hosts[0] must be a table and is a text",
			"5:1: error: sandbox.mode must be text and is true or false; possible values are \"off\", \"on\", \"required\"",
		}},
		{"home", "session.dir = \"~/x\"\nsandbox.write = [\"/a\", \"~\"]\ntools.dirs.a = \"~x/b~\"\n", []string{
			"1:15: error: session.dir begins with ~, which stands for nothing here; write ${HOME} in its place",
			"2:24: error: sandbox.write[1] begins with ~, which stands for nothing here; write ${HOME} in its place",
		}},
		{"no name of a table", "[model]\nprovider = \"x\"\nmodel = \"y\"\n", []string{
			"1:2: error: model is not a key; did you mean models?",
		}},
		{"typographic quotes", "[agent]\nsystem = “x”\n", []string{
			"2:10: error: invalid syntax: unexpected character U+201C '“' at start of value; what comes after this place was not read",
		}},
		{"quotes in a message", "[agent]\nsystem = \"\"\"x\n", []string{
			`2:14: error: invalid syntax: multiline basic string not terminated by """; what comes after this place was not read`,
		}},
		{"a reference for a name", "[models.a]\nprovider = \"x\"\nmodel = \"y\"\nkey_env = \"$KEY\"\n[roles]\nmain = \"a\"\n", []string{
			"4:11: error: models.a.key_env names a variable that is not set, and the role main needs it; write only the name of the variable, such as OPENAI_API_KEY, and no key",
		}},
		{"a model of the catalogue", "[roles]\nmain = \"anthropic/claude-sonet-4-5\"\n", []string{
			"2:8: warning: roles.main names the model \"anthropic/claude-sonet-4-5\", which is not known; did you mean \"anthropic/claude-sonnet-4-5\"?",
		}},
		{"variables", "[session]\ndir = \"${HOME}/x\"\naudit = \"${LOG:-/tmp}/y\"\nsync = \"${SYNC}\"\n", []string{
			"2:7: error: session.dir needs the variable HOME, which is not set; set it, or give a default: ${HOME:-default}",
			"4:8: error: session.sync needs the variable SYNC, which is not set; set it, or give a default: ${SYNC:-default}",
		}},
		{"budgets of nothing", "[budgets.b]\ncost = 0\ntime = \"0s\"\n", []string{
			"2:8: warning: budgets.b.cost is so small that nothing would run; the smallest value that makes sense is 0.01",
			"3:8: warning: budgets.b.time is so small that nothing would run; the smallest value that makes sense is 1s",
		}},
		{"keys of models", "[models.a]\nprovider = \"x\"\nmodel = \"y\"\nkey_env = \"MISSING\"\n[models.unused]\nprovider = \"x\"\nmodel = \"y\"\nkey_env = \"MISSING\"\n[roles]\nmain = \"a\"\nsmall = \"a\"\n", []string{
			"4:11: error: models.a.key_env names a variable that is not set, and the role main needs it; set the variable to the API key",
		}},
		{"rules and expressions", "[[approval.rules]]\naction = \"deny\"\ntool = \"bash\"\nmatch = [\"ls\"]\npattern = \"rm\"\n[[hooks]]\nevent = \"Stop\"\ncommand = \"x\"\nmatcher = \"(\"\n", []string{
			`1:12: error: approval.rules[0] is not a valid rule: it does not match \"ls\"`,
			"9:11: error: hooks[0].matcher is not a regular expression",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, faults(t, tt.text))
		})
	}
}

// A model that names no key needs the variable of its provider, once for all roles and wherever it is named.
func TestKeysOfProviders(t *testing.T) {
	text := `[models.a]
provider = "anthropic"
model = "claude-sonnet-4-5"
fallbacks = ["b", "google/gemini-2.5-pro", "own"]
[models.b]
provider = "openai"
model = "gpt-5"
[models.unused]
provider = "openai"
model = "gpt-5"
[models.own]
provider = "anthropic"
model = "mine"
base_url = "https://llm.example.com"
[roles]
main = "a"
small = "a"
summary = "openai/gpt-6o"
`
	keys := config.WithKeys(map[string][]string{"anthropic": {"A_KEY"}, "openai": {"O_KEY"}, "google": {"G_KEY", "G2_KEY"}})
	const help = "; set it to the API key, or name another one with key_env"
	assert.Equal(t, []string{
		`2:12: warning: models.a.provider needs the variable A_KEY, which is not set, for the role main` + help,
		`4:19: warning: models.a.fallbacks[1] needs the variable G_KEY or G2_KEY, which is not set, for the role main` + help,
		`6:12: warning: models.b.provider needs the variable O_KEY, which is not set, for the role main` + help,
		`18:11: warning: roles.summary names the model "openai/gpt-6o", which is not known; did you mean "openai/gpt-4o"?`,
		`18:11: warning: roles.summary needs the variable O_KEY, which is not set, for the role summary` + help,
	}, faults(t, text, keys))
	assert.Equal(t, []string{`18:11: warning: roles.summary names the model "openai/gpt-6o", which is not known; did you mean "openai/gpt-4o"?`},
		faults(t, text, keys, config.WithLookup(variables("A_KEY", "x", "O_KEY", "x", "G2_KEY", "x"))))
}

// A provider is checked wherever it is named; what the models of another address are called is not known.
func TestProviders(t *testing.T) {
	text := `[models.a]
provider = "antropic"
model = "mine"
base_url = "https://llm.example.com"
[models.b]
provider = "openai"
model = "mine"
base_url = "https://llm.example.com"
fallbacks = ["opnai/gpt-5", "anthropic/claude-sonet-4-5"]
[roles]
main = "googel/gemini-2.5-pro"
`
	assert.Equal(t, []string{
		`2:12: error: models.a.provider names the provider "antropic", which this program does not know; did you mean "anthropic"?`,
		`9:14: error: models.b.fallbacks[0] names "opnai/gpt-5", whose provider this program does not know; did you mean "openai"?`,
		`9:29: warning: models.b.fallbacks[1] names the model "anthropic/claude-sonet-4-5", which is not known; did you mean "anthropic/claude-sonnet-4-5"?`,
		`11:8: error: roles.main names "googel/gemini-2.5-pro", whose provider this program does not know; did you mean "google"?`,
	}, faults(t, text, config.WithProviders("anthropic", "google", "openai")))
	flag := faults(t, "", config.WithProviders("openai"), config.WithFlag("-model", "roles.main", "nosuch/x"))
	require.Len(t, flag, 1)
	assert.Contains(t, flag[0], `roles.main names "nosuch/x", whose provider this program does not know`)
}

func TestPrograms(t *testing.T) {
	missing := func(string) (string, error) { return "", os.ErrNotExist }
	got := faults(t, "[models.a]\nprovider = \"x\"\nmodel = \"y\"\nkey_command = \"pass show x\"\n[roles]\nmain = \"a\"\n",
		config.WithLookPath(missing), config.WithProviders("openai"))
	assert.Equal(t, []string{
		`2:12: error: models.a.provider names the provider "x", which this program does not know; there are "openai"`,
		`4:15: error: models.a.key_command names a program that is not there, and the role main needs it; install it`,
	}, got)
}

// No value of a variable and no header is in a diagnostic.
func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "hunter2hunter2"
	text := "[models.a]\nprovider = \"${S}\"\nmodel = \"${S}\"\nbase_url = \"${S}\"\nheaders = { A = \"${S}\", B = 3 }\n" +
		"[roles]\nmain = \"${S}\"\n[session]\nsync = \"${S}\"\n[sandbox]\nkind = \"${S}\"\n"
	l := diagnostics(t, config.WithUserFile(file(t, text)), config.WithProviders("openai"),
		config.WithLookup(variables("S", secret, "AYCODER_AGENT_MAX_TURNS", secret, "AYCODER_APPROVAL_MODE", secret)),
		config.WithFlag("-x", "agent.retries", secret))
	require.Greater(t, len(l), 5)
	for _, d := range l {
		assert.NotContains(t, d.String(), secret)
	}
}
