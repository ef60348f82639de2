package harness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	projects "github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// expand expands a text, and answers each question with allow. It returns how many questions there were.
func expand(t *testing.T, rt *harness.Runtime, text string, allow bool) (typed harness.Typed, asked int, err error) {
	t.Helper()
	for ev, failed := range rt.Expand(t.Context(), text, &typed) {
		require.NoError(t, err, "an error is last")
		err = failed
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			asked++
			if allow {
				q.Allow()
			}
		}
	}
	return typed, asked, err
}

// outputs runs a typed text, and returns the outputs of the calls.
func outputs(t *testing.T, typed *harness.Typed) (out []*aycoder.ToolOutput) {
	t.Helper()
	for ev, err := range typed.Run(t.Context()) {
		require.NoError(t, err)
		if done, ok := ev.(*aycoder.ToolFinished); ok {
			out = append(out, done.Output)
		}
	}
	return out
}

func TestExpand(t *testing.T) {
	rt := open(t, project(t, map[string]string{
		".claude/commands/review.md":  "Review $1 for $2.\n",
		".claude/skills/pdf/SKILL.md": "---\ndescription: Reads PDF\ndisable-model-invocation: true\n---\nRead the pages.\n",
		"a.go":                        "package a\n",
		".claude/commands/look.md":    "Look at @a.go and @/etc/hostname and @../x now.\n",
	}), harness.WithClient(script.New()), harness.WithAmbient(harness.Skills))
	tests := []struct{ text, want string }{
		{"hello /review", "hello /review"},
		{"/etc/hosts is wrong", "/etc/hosts is wrong"},
		{"/ is the root", "/ is the root"},
		{"/review a.go 'dead code'", "Review a.go for dead code.\n"},
		{"/pdf x.pdf", "Read the pages.\n\nARGUMENTS: x.pdf"},
	}
	for _, tt := range tests {
		typed, _, err := expand(t, rt, tt.text, false)
		require.NoError(t, err)
		require.Equal(t, tt.want, typed.Input.Prompt, tt.text)
	}
	typed, _, err := expand(t, rt, "/look", false)
	require.NoError(t, err)
	require.Contains(t, typed.Input.Prompt, "package a\n")
	require.Contains(t, typed.Input.Prompt, "/etc/hostname was not added")
	require.Contains(t, typed.Input.Prompt, "../x was not added")

	_, _, err = expand(t, rt, "/reviw a.go", false)
	require.ErrorAs(t, err, new(*harness.UnknownCommandError))
	require.EqualError(t, err, "there is no command /reviw; did you mean /review?")

	seq := rt.Expand(t.Context(), "x", new(harness.Typed))
	for range seq {
	}
	for _, err := range seq {
		require.ErrorIs(t, err, aycoder.ErrConsumed)
	}
}

// The commands in a project's file run only if the user trusts them, and then under the policy.
func TestExpandShell(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	const file = ".claude/commands/build.md"
	dir := project(t, map[string]string{
		file: "The log:\n!`sh ./make.sh made`\n", "make.sh": "touch $1; echo it is done\n",
		".claude/commands/two.md": "!`touch one`\n!`touch two`\n",
		".claude/commands/no.md":  "---\nallowed-tools: Read\n---\n!`echo x`\n",
	})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	rt := open(t, dir, harness.WithClient(script.New()), harness.WithAmbient(harness.Skills), harness.WithTrust(trust))
	decide := func(err error, trusted bool) config.Question {
		t.Helper()
		var untrusted *harness.UntrustedError
		require.ErrorAs(t, err, &untrusted)
		require.False(t, untrusted.Refused)
		require.NoError(t, trust.Decide(t.Context(), untrusted.Question, trusted))
		return untrusted.Question
	}
	made := filepath.Join(dir, "made")

	_, asked, err := expand(t, rt, "/build", true)
	q := decide(err, false)
	require.Equal(t, harness.KindCommand, q.Kind)
	require.Equal(t, "sh ./make.sh made", q.Command)
	require.Equal(t, file, q.File)
	require.Equal(t, 2, q.Line)
	require.Equal(t, []string{"make.sh"}, q.Scripts)
	require.Zero(t, asked)

	_, _, err = expand(t, rt, "/build", true)
	var untrusted *harness.UntrustedError
	require.ErrorAs(t, err, &untrusted)
	require.True(t, untrusted.Refused)
	require.NoFileExists(t, made)
	require.NoError(t, trust.Decide(t.Context(), untrusted.Question, true))

	_, asked, err = expand(t, rt, "/build", false) // nobody answers
	require.Equal(t, 1, asked)
	var failed *projects.ExpandError
	require.ErrorAs(t, err, &failed)
	require.ErrorAs(t, err, new(*aycoder.ToolDeniedError))
	require.Equal(t, 2, failed.Line)
	require.NoFileExists(t, made)

	typed, asked, err := expand(t, rt, "/build", true)
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	require.FileExists(t, made)
	require.Contains(t, typed.Input.Prompt, "The log:\n")
	require.Contains(t, typed.Input.Prompt, "it is done")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "make.sh"), []byte("touch other\n"), 0o644))
	_, asked, err = expand(t, rt, "/build", true)
	decide(err, false)
	require.Zero(t, asked, "the script has changed since the user trusted it")

	_, _, err = expand(t, rt, "/two", true)
	decide(err, true)
	for ev, err := range rt.Expand(t.Context(), "/two", new(harness.Typed)) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
		if _, ok := ev.(*aycoder.ToolFinished); ok {
			break
		}
	}
	require.FileExists(t, filepath.Join(dir, "one"))
	require.NoFileExists(t, filepath.Join(dir, "two"), "the consumer has left")

	_, _, err = expand(t, rt, "/no", true)
	decide(err, true)
	_, _, err = expand(t, rt, "/no", true)
	require.ErrorIs(t, err, projects.ErrNoShell, "its own list has no bash")
}

// The user's own commands need no trust, but the policy.
func TestExpandUser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	user, err := workspace.Open(project(t, map[string]string{"commands/say.md": "!`echo $1`\n"}))
	require.NoError(t, err)
	defer user.Close()
	rt := open(t, project(t, nil), harness.WithClient(script.New()), harness.WithAmbient(harness.Skills), harness.WithUserFiles(user))
	typed, _, err := expand(t, rt, "/say 'hello; touch x'", true)
	require.NoError(t, err)
	require.Contains(t, typed.Input.Prompt, "hello; touch x")
	require.NoFileExists(t, filepath.Join(rt.Files.Dir(), "x"))
}

// A command has only its tools, and its model, for its run, and its agents have no others.
func TestCommandLimits(t *testing.T) {
	c := settings(t, func(c *config.Settings) {
		c.Models = map[string]config.Model{"quick": {Provider: "acme", Model: "acme-haiku-1"}}
		c.Approval.Mode = "full-auto"
	})
	dir := project(t, map[string]string{
		".claude/commands/look.md": "---\nallowed-tools: Read, Bash(git status:*), Task\nmodel: haiku\n---\nLook.\n",
		".claude/commands/free.md": "---\nmodel: quake\n---\nLook.\n",
		"a.txt":                    "text\n",
	})
	write := script.Call("write_file", map[string]string{"path": "b.txt", "content": "x"})
	haiku := script.New(
		script.Call("read_file", map[string]string{"path": "a.txt"}), write,
		script.Call("bash", map[string]string{"command": "ls"}), script.Call("subagent", map[string]string{"task": "write"}),
		script.Say("ok"))
	var specs []harness.ModelSpec
	main := script.New(write, script.Say("agent"), write, script.Say("ok"))
	rt := open(t, dir, harness.WithSettings(c), harness.WithClient(main), harness.WithAmbient(harness.Skills),
		harness.WithOpener(opener(&specs, map[string]*script.Model{"acme-haiku-1": haiku})))
	typed, _, err := expand(t, rt, "/look", false)
	require.NoError(t, err)
	out := outputs(t, &typed)
	require.Len(t, out, 4)
	require.False(t, out[0].IsError, out[0].Text())
	for _, o := range out[1:3] {
		require.True(t, o.IsError)
		require.Contains(t, o.Text(), "the command look may use only: read_file, bash:git status *, subagent")
	}
	require.Contains(t, out[3].Text(), "denied: write_file")
	require.NoFileExists(t, filepath.Join(dir, "b.txt"))
	require.Len(t, haiku.Requests(), 5)

	typed, _, err = expand(t, rt, "/free", false)
	require.NoError(t, err)
	out = outputs(t, &typed)
	require.False(t, out[0].IsError, out[0].Text())
	require.FileExists(t, filepath.Join(dir, "b.txt"))
	require.Len(t, specs, 1)
}

// The tools of a command are those of its file as it is now, also if the file has come after the runtime was made.
func TestLimitsOfNewCommand(t *testing.T) {
	dir := project(t, map[string]string{".claude/commands/old.md": "Old."})
	r, err := config.NewReloader(config.WithProject(dir))
	require.NoError(t, err)
	model := script.New(script.Call("list_files", struct{}{}), script.Say("ok"))
	rt := open(t, dir, harness.WithReloader(r), harness.WithClient(model), harness.WithAmbient(harness.Skills))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".claude/commands/new.md"), []byte("---\nallowed-tools: Read\n---\nNew."), 0o644))
	require.NoError(t, rt.Reload(t.Context()))
	var typed harness.Typed
	for _, err := range rt.Expand(t.Context(), "/new", &typed) {
		require.NoError(t, err)
	}
	var denied []error
	for ev, err := range typed.Run(t.Context()) {
		require.NoError(t, err)
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			denied = append(denied, f.Err)
		}
	}
	require.Len(t, denied, 1)
	require.ErrorAs(t, denied[0], new(*aycoder.ToolDeniedError))
}

// accept trusts what the error is about.
func accept(t *testing.T, trust *config.Trust, err error) config.Question {
	t.Helper()
	var untrusted *harness.UntrustedError
	require.ErrorAs(t, err, &untrusted)
	require.NoError(t, trust.Decide(t.Context(), untrusted.Question, true))
	return untrusted.Question
}

// A script that changes while the question about its command is open does not run.
func TestExpandSwappedScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	dir := project(t, map[string]string{".claude/commands/build.md": "!`sh ./make.sh`\n", "make.sh": "touch good\n"})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	rt := open(t, dir, harness.WithClient(script.New()), harness.WithAmbient(harness.Skills), harness.WithTrust(trust))
	_, _, err := expand(t, rt, "/build", true)
	accept(t, trust, err)
	var last error
	for ev, err := range rt.Expand(t.Context(), "/build", new(harness.Typed)) {
		last = err
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "make.sh"), []byte("touch evil\n"), 0o644))
			require.True(t, q.Allow())
		}
	}
	require.ErrorAs(t, last, new(*harness.UntrustedError))
	require.NoFileExists(t, filepath.Join(dir, "evil"))
}

// The trust is for the scripts in the directory where the commands run, which the model may have changed.
func TestExpandElsewhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	dir := project(t, map[string]string{
		".claude/commands/build.md": "!`sh ./make.sh`\n", "make.sh": "touch good\n", "sub/make.sh": "touch evil\n",
	})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	model := script.New(script.Call("bash", map[string]string{"command": "cd sub"}), script.Say("ok"))
	rt := open(t, dir, harness.WithClient(model), harness.WithAmbient(harness.Skills), harness.WithTrust(trust))
	_, _, err := expand(t, rt, "/build", true)
	require.Equal(t, []string{"make.sh"}, accept(t, trust, err).Scripts)
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
	}
	require.Equal(t, "sub", rt.Shell.Dir())
	_, _, err = expand(t, rt, "/build", true)
	require.NoFileExists(t, filepath.Join(dir, "sub", "evil"))
	q := accept(t, trust, err)
	require.Equal(t, "cd 'sub'\nsh ./make.sh", q.Command)
	require.Contains(t, q.Scripts, "sub/make.sh")
	_, _, err = expand(t, rt, "/build", true)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "sub", "evil"))
}

// Texts of the project come to the model without secrets and invisible characters, wherever they come from.
func TestTextsAreMasked(t *testing.T) {
	const key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	dir := project(t, map[string]string{
		".claude/commands/a.md": "See @conf.yaml, and " + key + "\u202e\n", "conf.yaml": "token: " + key + "\u202ex\n",
		".claude/agents/b.md": "---\nname: b\ndescription: uses " + key + "\n---\nDo it with " + key + "\u202e\n",
	})
	model := script.New(script.Call("subagent", map[string]string{"task": "t", "agent": "b"}), script.Say("x"), script.Say("y"))
	rt := open(t, dir, harness.WithClient(model), harness.WithAmbient(harness.Skills))
	typed, _, err := expand(t, rt, "/a", true)
	require.NoError(t, err)
	texts := []string{typed.Input.Prompt}
	for ev, err := range typed.Run(t.Context()) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
	}
	require.Len(t, model.Requests(), 3)
	for _, req := range model.Requests() {
		data, err := json.Marshal(req.Tools)
		require.NoError(t, err)
		texts = append(texts, system(req), string(data))
	}
	require.Contains(t, texts[0], "token: ")
	require.Contains(t, texts[3], "came with the project. It permits nothing")
	require.Contains(t, texts[3], "Do it with ")
	for _, text := range texts {
		require.False(t, strings.Contains(text, key) || strings.Contains(text, "\u202e"), "%.200s", text)
	}
}

// A command that the user has typed is asked about and masked like one of the model, and is not a part of the conversation.
func TestCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	dir := project(t, map[string]string{"key": "token = ghp_16C7e42F292c6912E7710c838347Ae178B4a\n"})
	rt := open(t, dir, harness.WithClient(script.New()))
	ran := func(command string, allow bool) (out string, asked int) {
		for ev, err := range rt.Command(t.Context(), command) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.ApprovalRequested:
				if asked++; allow {
					ev.Allow()
				}
			case *aycoder.ToolFinished:
				out = ev.Output.Text()
			case *aycoder.ToolStarted, *aycoder.ToolProgress:
			default:
				require.Fail(t, "another event", "%T", ev)
			}
		}
		return out, asked
	}
	out, asked := ran("echo made > made && echo yes", true)
	require.Contains(t, out, "yes")
	require.Equal(t, 1, asked)
	require.FileExists(t, filepath.Join(dir, "made"))
	_, asked = ran("rm made", false)
	require.Equal(t, 1, asked)
	require.FileExists(t, filepath.Join(dir, "made"))
	out, _ = ran("cat key", true)
	require.NotContains(t, out, "ghp_16C7")
	require.Contains(t, out, "token = ")

	for _, err := range open(t, t.TempDir(), harness.WithClient(script.New()),
		harness.WithToolFilter(func([]aycoder.Tool) []aycoder.Tool { return nil })).Command(t.Context(), "ls") {
		require.ErrorContains(t, err, "tool bash")
	}
}
