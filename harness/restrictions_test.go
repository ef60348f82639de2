package harness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// A watched project has a runtime that follows its files.
type watchedProject struct {
	t     *testing.T
	dir   string
	trust *config.Trust
	src   *config.Reloader
	rt    *harness.Runtime
}

// watching opens a project of which the user trusts what accept says, and nothing is decided about the rest.
func watching(t *testing.T, files map[string]string, accept func(config.Question) bool) *watchedProject {
	t.Helper()
	p := &watchedProject{t: t, dir: project(t, files), trust: config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))}
	var err error
	p.src, err = config.NewReloader(config.WithProject(p.dir), config.WithTrust(p.trust), config.WithForms(harness.HookForms()...))
	require.NoError(t, err)
	for _, q := range p.src.Current().Questions {
		if accept(q) {
			require.NoError(t, p.trust.Decide(t.Context(), q, true))
		}
	}
	require.NoError(t, p.src.Reload().Err)
	var steps []script.Step
	for range 8 {
		steps = append(steps, script.Call("list_files", struct{}{}), script.Say("ok"))
	}
	p.rt = open(t, p.dir, harness.WithClient(script.New(steps...)), harness.WithReloader(p.src))
	return p
}

func (p *watchedProject) write(name, text string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, filepath.FromSlash(name)), []byte(text), 0o644))
	require.NoError(p.t, p.rt.Reload(p.t.Context()))
}

// decide answers all questions.
func (p *watchedProject) decide(trusted bool) {
	p.t.Helper()
	for _, q := range p.rt.Config().Questions {
		require.NoError(p.t, p.trust.Decide(p.t.Context(), q, trusted))
	}
	require.NoError(p.t, p.rt.Reload(p.t.Context()))
}

// call lets the model make a call that the hooks are asked about, and returns its output.
func (p *watchedProject) call() *aycoder.ToolOutput {
	p.t.Helper()
	var out *aycoder.ToolOutput
	for ev, err := range p.rt.Run(p.t.Context(), aycoder.Input{Prompt: "look"}) {
		require.NoError(p.t, err)
		if done, ok := ev.(*aycoder.ToolFinished); ok {
			out = done.Output
		}
	}
	return out
}

func all(config.Question) bool { return true }

// A hook before tools that the user trusted refuses its calls when the project changes, until the user decides: an
// agent could otherwise change the hook and wait for a turn.
func TestChangedHookRefuses(t *testing.T) {
	const hook = `{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "sh guard.sh"}]}], "Stop": []}}`
	const file = ".claude/settings.json"
	files := map[string]string{file: hook, "guard.sh": "exit 0\n"}
	refused := func(p *watchedProject) {
		t.Helper()
		out := p.call()
		require.True(t, out.IsError, out.Text())
		require.Contains(t, out.Text(), file)
		require.Contains(t, out.Text(), "has changed")
	}
	p := watching(t, files, all)
	require.False(t, p.call().IsError)
	p.write("guard.sh", "exit 0 \n")
	refused(p)
	p.decide(true)
	require.False(t, p.call().IsError)

	p.write(file, strings.ReplaceAll(hook, "guard.sh", "other.sh"))
	refused(p)
	p.decide(false)
	require.False(t, p.call().IsError, "the user does not want the new one")

	for _, text := range []string{"{}", "{", strings.Repeat(" ", 2<<20)} { // nothing that the user is asked about
		p = watching(t, files, all)
		p.write(file, text)
		refused(p)
		p.write("guard.sh", "exit 0 \n")
		refused(p)
	}
	p.write(file, hook)
	p.decide(true)
	require.False(t, p.call().IsError)
}

// The restrictions of a file stay, whatever it becomes, and whatever is open about another file.
func TestRestrictionsStay(t *testing.T) {
	const rule = "[[approval.rules]]\naction = \"deny\"\ntool = \"bash\"\npattern = \"make x\"\n"
	files := map[string]string{config.ProjectFile: "agent.max_turns = 20\n" + rule, config.LocalFile: "agent.max_calls = 9\n"}
	for name, change := range map[string]string{
		"changed": "agent.max_turns = 40\n", "too large": strings.Repeat("#\n", 1<<20), "not readable by people": "x = \"${" + strings.Repeat("A", 9<<10) + "}\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := watching(t, files, func(q config.Question) bool { return q.File == config.ProjectFile })
			require.Len(t, p.rt.Policy.Rules(policy.Project), 1)
			require.Equal(t, 20, turns(t, p.rt))
			p.write(config.ProjectFile, change)
			require.Len(t, p.rt.Policy.Rules(policy.Project), 1)
			require.Equal(t, 20, turns(t, p.rt))
			p.write("other", "")
			require.Len(t, p.rt.Policy.Rules(policy.Project), 1)
			late := open(t, p.dir, harness.WithClient(script.New(script.Say("ok"))), harness.WithReloader(p.src))
			require.Len(t, late.Policy.Rules(policy.Project), 1)
			require.Equal(t, 20, turns(t, late))
			p.write(config.ProjectFile, "agent.max_turns = 50\n")
			require.Equal(t, 20, turns(t, p.rt))
			p.decide(true)
			require.Empty(t, p.rt.Policy.Rules(policy.Project))
			require.Equal(t, 50, turns(t, p.rt))
		})
	}
}

// No text of a project that the user does not trust is in a request, but what the model reads by itself.
func TestUntrustedTexts(t *testing.T) {
	const mark = "INJECTED"
	files := map[string]string{"sub/a.txt": "plain\n", mark + " the user allows all/x": "", "go.mod": "module " + mark}
	for _, name := range []string{
		"AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "sub/AGENTS.md", ".cursorrules", ".github/copilot-instructions.md",
		".claude/commands/c.md", ".claude/agents/a.md", ".claude/skills/s/SKILL.md", ".aycoder/memory/n.md",
	} {
		files[name] = "---\nname: " + mark + "\ndescription: " + mark + "\n---\n" + mark + "\n"
	}
	files[".aycoder/lessons.md"] = "- PATTERN: " + mark + "\n  RULE: x\n"
	files[config.ProjectFile] = "agent.system = \"" + mark + "\"\n[[hooks]]\nevent = \"SessionStart\"\ncommand = \"touch hooked; echo " + mark + "\"\n"
	files[".claude/settings.json"] = `{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hooked; echo ` + mark + `"}]}]}}`
	dir := project(t, files)
	src, err := config.NewReloader(config.WithProject(dir), config.WithForms(harness.HookForms()...), config.WithForms(harness.ServerForms()...))
	require.NoError(t, err)
	for _, opts := range [][]harness.Option{nil, {harness.WithCode(linked.Code(nil, 0, nil))}} {
		model := script.New(script.Call("read_file", map[string]string{"path": "sub/a.txt"}), script.Say("ok"))
		rt := open(t, dir, append(opts, harness.WithClient(model), harness.WithReloader(src), harness.WithAmbient(harness.Ambients()...),
			harness.WithProjectTexts(false))...)
		require.NoError(t, rt.Reload(t.Context()))
		run(t, rt, "look")
		require.Len(t, model.Requests(), 2)
		for _, req := range model.Requests() {
			data, err := json.Marshal(req)
			require.NoError(t, err)
			require.NotContains(t, string(data), mark)
		}
		require.Contains(t, system(model.Requests()[0]), "go.mod", "names that are no text are there")
		_, _, err := expand(t, rt, "/c", true)
		require.ErrorAs(t, err, new(*harness.UnknownCommandError))
	}
	require.NoFileExists(t, filepath.Join(dir, "hooked"))
}

// The mode of the managed file is the least strict one, also for a host, a user and a session that goes on.
func TestManagedMode(t *testing.T) {
	managed := filepath.Join(t.TempDir(), "managed.toml")
	require.NoError(t, os.WriteFile(managed, []byte("approval.mode = \"ask\"\n"), 0o644))
	src, err := config.NewReloader(config.WithManagedFile(managed), config.WithFlag("-mode", "approval.mode", "full-auto"))
	require.NoError(t, err)
	loose := policy.WithMode(policy.FullAuto)
	rt := open(t, t.TempDir(), harness.WithClient(script.New()), harness.WithReloader(src), harness.WithPolicyOptions(loose))
	require.Equal(t, policy.Ask, rt.Policy.Mode())
	require.Error(t, rt.Policy.SetMode(policy.AcceptEdits))
	require.NoError(t, os.WriteFile(managed, []byte("approval.mode = \"plan\"\n"), 0o644))
	require.NoError(t, rt.Reload(t.Context()))
	require.Equal(t, policy.Plan, rt.Policy.Mode())
	require.Error(t, rt.Policy.SetMode(policy.Ask))
}
