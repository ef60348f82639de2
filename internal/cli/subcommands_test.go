package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// Each command has -h on stdout, and says what is wrong on stderr.
func TestHelp(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	a := &app{getenv: func(string) string { return "" }, extensions: []Extension{testExtension()}}
	help := runProgram(t, nil, "", "-h")
	require.Equal(t, exitOK, help.code)
	require.Equal(t, a.usage(), help.out)
	require.Empty(t, help.err)
	for _, c := range a.subcommands() {
		require.Contains(t, help.out, "\n  "+c.name+" ")
		if c.name == "echo" { // it reads its flags itself
			continue
		}
		got := runProgram(t, nil, "", c.name, "-h")
		require.Equal(t, ended{c.usage(usageWidth), "", exitOK}, got)
		require.Equal(t, exitUsage, runProgram(t, nil, "", c.name, "-nonsense").code)
	}
	for _, f := range flagTable(&options{}) {
		require.Contains(t, help.out, "\n  "+strings.TrimSpace("-"+f.name+" "+f.arg))
	}
	require.Equal(t, exitUsage, runProgram(t, nil, "", "doctor", "now").code)
	c, _ := a.subcommand("sessions")
	k := &call{app: a, args: []string{"-all=false", "list"}}
	require.NoError(t, k.parse(c))
	require.False(t, k.on["all"], "a switch can be off")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := runProgram(t, nil, "", "-version")
	require.Equal(t, exitOK, got.code)
	require.Regexp(t, `^aycoder .*go1\.`, got.out)
	require.Equal(t, got, runProgram(t, nil, "", "version"))
	require.Contains(t, runProgram(t, nil, "", "help").out, "usage: aycoder [flags] [prompt]")
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	info.Main.Version = "v1.2.3"
	require.Equal(t, "aycoder v1.2.3, revision abc with changes, go1.26.8", versionOf(info))
	info.Settings, info.Main.Version = nil, ""
	require.Equal(t, "aycoder (devel), go1.26.8", versionOf(info))
}

func TestModelsCommand(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	got := runProgram(t, []string{"XAI_API_KEY=xai-secret"}, "", "models", "grok-4.7", "-json")
	var list []object
	require.NoError(t, json.Unmarshal([]byte(got.out), &list), got.out+got.err)
	require.NotEmpty(t, list)
	require.Equal(t, []any{"xai", "grok-4.7", true}, []any{list[0]["provider"], list[0]["model"], list[0]["key"]})
	require.NotContains(t, got.out, "secret")
	require.Contains(t, runProgram(t, nil, "", "models", "haiku-4-5").out, "anthropic/claude-haiku-4-5")
	require.Contains(t, runProgram(t, nil, "", "models", "zork").out, "no such model")
}

const someConfig = `
[models.m]
provider = "anthropic"
model = "claude-x"
base_url = "https://user:hunter2@example.com"
headers = {X-Key = "hunter2"}
[agent]
max_turns = 7
[tools]
disabled = ["fetch", "glob"]
`

func TestConfigCommand(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	home, state := t.TempDir(), t.TempDir()
	file := filepath.Join(home, "aycoder/config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	env := []string{"XDG_CONFIG_HOME=" + home, "XDG_STATE_HOME=" + state, "AYCODER_AGENT_MAX_CALLS=9", "AYCODER_TOOLS_DISABLED=todo"}
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }

	write(someConfig)
	got := runProgram(t, env, "", "config", "show", "-json")
	var list []struct{ Key, Value, Origin string }
	require.NoError(t, json.Unmarshal([]byte(got.out), &list), got.out+got.err)
	values := map[string][2]string{}
	for _, v := range list {
		values[v.Key] = [2]string{v.Value, v.Origin}
	}
	require.Equal(t, [2]string{"7", file + ":8:13"}, values["agent.max_turns"])
	require.Equal(t, [2]string{"9", "variable AYCODER_AGENT_MAX_CALLS"}, values["agent.max_calls"])
	require.Equal(t, [2]string{"ask", "default"}, values["approval.mode"])
	require.Equal(t, [2]string{"3 entries", file + ":10:13, variable AYCODER_TOOLS_DISABLED"}, values["tools.disabled"])
	require.Equal(t, "claude-x", values["models.m.model"][0])
	require.NotContains(t, got.out, "hunter2")
	require.Contains(t, runProgram(t, env, "", "config").out, "agent.max_turns")
	require.Contains(t, runProgram(t, env, "", "config", "check").out, "no mistakes")

	write("[agent]\nmax_turn = 1\n[sandbox]\nmode = 2\n")
	got = runProgram(t, env, "", "config", "check", "-json")
	require.Equal(t, exitError, got.code)
	var faults []object
	require.NoError(t, json.Unmarshal([]byte(got.out), &faults), got.out)
	require.Len(t, faults, 2)
	require.Equal(t, []any{"error", "agent.max_turn", 2.0}, []any{faults[0]["severity"], faults[0]["key"], faults[0]["line"]})
	require.Equal(t, exitUsage, runProgram(t, env, "", "config", "show").code)

	write("[models.m]\nprovider = \"antropic\"\nmodel = \"x\"\n[models.n]\nprovider = \"anthropic\"\nmodel = \"claude-haiku-4-5\"\n" +
		"key_command = \"no-such-keyring get\"\n[roles]\nmain = \"n\"\n")
	got = runProgram(t, env, "", "config", "check", "-json")
	require.NoError(t, json.Unmarshal([]byte(got.out), &faults), got.out)
	require.Len(t, faults, 2)
	require.Contains(t, faults[0]["help"], `"anthropic"`)
	require.Equal(t, []any{"error", "models.n.key_command", 7.0}, []any{faults[1]["severity"], faults[1]["key"], faults[1]["line"]})
	require.Contains(t, faults[1]["message"], "is not there")
	require.True(t, json.Valid([]byte(runProgram(t, env, "", "config", "schema").out)))

	write("[roles]\nmain = \"openai/gpt-5\"\n")
	got = runProgram(t, env, "", "config", "check")
	require.Contains(t, got.out+got.err, file+":2:8: warning: roles.main needs the variable OPENAI_API_KEY, which is not set")
	for _, name := range []string{"OPENAI_API_KEY=x", "OPENAI_BASE_URL=http://127.0.0.1:1"} {
		got = runProgram(t, append(env, name), "", "config", "check")
		require.Contains(t, got.out, "no mistakes", got.err)
	}
}

// findings returns what the doctor has found, by check.
func findings(t *testing.T, got ended) map[string]finding {
	t.Helper()
	var list []finding
	require.NoError(t, json.Unmarshal([]byte(got.out), &list), got.out+got.err)
	found := map[string]finding{}
	for _, f := range list {
		found[f.Check] = f
	}
	return found
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	s := newService(t, says("OK", "end_turn"))
	got := runProgram(t, s.env(), "", "doctor", "-json")
	require.Equal(t, exitOK, got.code, got.out+got.err)
	found := findings(t, got)
	for _, name := range []string{"configuration", "keys", "model", "sandbox", "sessions", "git", "terminal"} {
		require.Contains(t, found, name)
	}
	require.Equal(t, finding{"keys", "ok", "ANTHROPIC_API_KEY"}, found["keys"])
	require.NotContains(t, got.out, "sk-ant-secret")
	require.Empty(t, s.requests(), "without -online, nobody is asked")
	require.Contains(t, findings(t, runProgram(t, s.env(), "", "doctor", "-json", "-online"))["model"].Text, "has answered")
	require.Len(t, s.requests(), 1)

	refused := newService(t, refuses(401, "authentication_error"))
	got = runProgram(t, refused.env(), "", "doctor", "-json", "-online")
	require.Equal(t, exitError, got.code)
	require.Equal(t, "error", findings(t, got)["model"].State)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	got = runProgram(t, []string{"XDG_STATE_HOME=" + file}, "", "doctor", "-json")
	require.Equal(t, exitError, got.code)
	found = findings(t, got)
	require.Equal(t, "error", found["sessions"].State)
	require.Contains(t, found["model"].Text, "no model: ")
	require.Equal(t, "warning", found["keys"].State)
}

// The completions know every command and flag, and shells can read them.
func TestCompletion(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	a := &app{getenv: func(string) string { return "" }}
	commands, flags := a.names()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := runProgram(t, nil, "", "completion", shell)
		require.Equal(t, exitOK, got.code, got.err)
		for _, name := range append(commands, flags[:len(flags)-1]...) {
			require.Contains(t, got.out, strings.TrimPrefix(name, "-"), shell)
		}
		if shell == "zsh" {
			require.Contains(t, got.out, " export import fork rename delete trim -all -json -h || _files; return", "the name of a file")
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		check := exec.CommandContext(t.Context(), shell, "-n")
		check.Stdin = strings.NewReader(got.out)
		out, err := check.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	file := filepath.Join(t.TempDir(), "completion")
	require.NoError(t, os.WriteFile(file, []byte(runProgram(t, nil, "", "completion", "bash").out), 0o600))
	for _, tt := range []struct{ words, want string }{
		{"aycoder se", "sessions serve"},
		{"aycoder sessions ex", "export"},
		{"aycoder -mode pl", "plan"},
		{"aycoder -no-s", "-no-session"},
		{"aycoder hi -verb", "-verbose"},
	} {
		words := strings.Fields(tt.words)
		line := "source " + file + "; COMP_WORDS=(" + tt.words + "); COMP_CWORD=" + string(rune('0'+len(words)-1)) + `; _aycoder; echo "${COMPREPLY[*]}"`
		out, err := exec.CommandContext(t.Context(), bash, "-c", line).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, tt.want+"\n", string(out), tt.words)
	}
}
