package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/insight/suggest"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// talkWith lets a user type lines, each at the next prompt or question, and returns the screen.
func talkWith(t *testing.T, dir, lines string, steps ...script.Step) string {
	t.Helper()
	return talkOn(t, newStage(lines), policy.AcceptEdits, dir, steps...)
}

// talkOn is talkWith on a stage, in a mode.
func talkOn(t *testing.T, s *stage, mode policy.Mode, dir string, steps ...script.Step) string {
	t.Helper()
	asks := newAsks()
	rt, err := harness.New(t.Context(), dir, harness.WithClient(script.New(steps...)), asks.conflicts(),
		harness.WithStore(journal.Memory(), ""), harness.WithAmbient(harness.Skills, harness.Lessons),
		harness.WithPolicyOptions(policy.WithMode(mode)))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	c := newTestChat(t, s, s, tty.Options{Plain: true}, &chat{
		session: &session{Runtime: rt},
		more:    []Extension{testExtension()}, asks: asks,
	})
	require.Equal(t, exitOK, c.run(t.Context(), ""))
	require.NoError(t, c.Screen.Close()) // nothing is written later
	return s.out
}

func writes(name, text string) script.Step {
	return script.Call("write_file", map[string]string{"path": name, "content": text})
}

// inOrder checks that texts are in another one, each behind the one before.
func inOrder(t *testing.T, text string, wants ...string) {
	t.Helper()
	rest := text
	for _, want := range wants {
		_, after, ok := strings.Cut(rest, want)
		require.True(t, ok, "%q behind the others in %q", want, text)
		rest = after
	}
}

// The drafts of /init have the commands of the project's own files, and only what the user takes is written.
func TestInitCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"package.json": `{"name": "x", "scripts": {"lint": "eslint .", "deploy": "./deploy"}}`, "Makefile": "test:\n\tgo test ./...\n", "go.mod": "module x\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out := talkWith(t, dir, "/init\ny\nn\n")
	inOrder(t, out, ".aycoder/config.toml", "AGENTS.md")
	data, err := os.ReadFile(filepath.Join(dir, ".aycoder", "config.toml"))
	require.NoError(t, err)
	for _, want := range []string{`# pattern = "npm run lint"`, `# pattern = "make test"`, `# checks = ["go vet"]`, "gopls"} {
		require.Contains(t, string(data), want)
	}
	require.NotContains(t, string(data), "deploy")
	require.NoFileExists(t, filepath.Join(dir, "AGENTS.md"))
}

// Files and talk go back and forth together, or one of them alone.
func TestTreeCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	read := func() string {
		data, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		return string(data)
	}
	shown := talkWith(t, dir, strings.Join([]string{
		"write one", "then write two", "/undo\ny", "/redo\ny", "/undo\ny", "say three", "/tree\n1\nb", "/tree", "", "/branch 2", "/save here", "/tree", "",
	}, "\n")+"\n",
		writes("a.txt", "one\n"), script.Say("First."), writes("a.txt", "two\n"), script.Say("Second."), script.Say("Third."))
	inOrder(t, shown, "First.", "Second.",
		"a.txt", "goes on behind the answer to: write one",
		"goes on behind the answer to: then write two",
		"goes on behind the answer to: write one",
		"Third.",
		"  1 write one", "1 file", "  2 + then write two", "  3 ` say three", "< here",
		"goes on behind the answer to: write one",
		"  1 write one", "< here", "  3 ` say three",
		"goes on behind the answer to: then write two", "Marked.", "  2 + then write two", "[here]")
	require.Equal(t, "one\n", read(), "/branch has left the files as they were")
}

// A change that was refused has changed no file, although the session has noted how the files were.
func TestTreeOfRefusedChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "check.sh"), []byte("test -e check.sh\n"), 0o600))
	edit := func(old, now string) script.Step {
		return script.Call("edit_file", map[string]string{"path": "check.sh", "old_string": old, "new_string": now})
	}
	shown := talkOn(t, newStage("refuse\ny\nn\n\ntake\ny\nback\ny\n/tree\n\n"), policy.Ask, dir,
		script.Call("bash", map[string]string{"command": "sh check.sh"}), script.Call("read_file", map[string]string{"path": "check.sh"}),
		edit("test", "echo"), script.Say("First."),
		edit("test", "echo"), script.Say("Second."), edit("echo", "test"), script.Say("Third."))
	inOrder(t, shown, "First.", "Second.", "Third.", "1 refuse", "2 take", "1 file", "3 back", "1 file")
	require.Equal(t, 2, strings.Count(shown, "1 file"), shown)
}

// Two branches differ in what was said and in files, and one number compares with the present point.
func TestCompareBranches(t *testing.T) {
	t.Parallel()
	shown := talkWith(t, t.TempDir(), strings.Join([]string{"hello", "use a mutex", "/tree 1\nb\ny", "use a channel", "/diff 2 3", "/diff 1",
		"/tree 2\nb\ny", "/diff 3", "/diff 2", "/diff 9", "/diff 1 2 3"}, "\n")+"\n",
		script.Say("Hello."), writes("a.txt", "mutex\n"), script.Say("It locks, with the key sk-ant-api03-"+strings.Repeat("aB3dE6gH9j", 9)+"-AAAAAAAA."),
		writes("a.txt", "channel\n"), writes("b.txt", "more\n"), script.Say("It sends."))
	inOrder(t, shown, "It sends.",
		"- turn 2, + turn 3", "- user: use a mutex", "+ user: use a channel", "- model: It locks, with the key ", "+ model: It sends.",
		"  change a.txt\n  create b.txt\n", "- mutex", "+ channel", "+ more",
		"- turn 1, + here", "+ user: use a channel", "  create a.txt\n  create b.txt\n", "+ channel",
		"behind the answer to: use a mutex",
		"- turn 3, + here", "- user: use a channel", "+ user: use a mutex", "  change a.txt\n  remove b.txt\n", "- channel", "+ mutex", "- more",
		"- turn 2, + here\nThe same was said and done.\n> ", `! "9" is not a number of /tree`, "! say one or two numbers of /tree")
	_, compared, _ := strings.Cut(shown, "- turn 2")
	require.NotContains(t, compared, "aB3dE6gH9j", "secrets are masked")
	require.NotContains(t, compared, "Hello.", "both have that")
}

// A command first tells the changes of files that it would make, and makes them only after a yes. Without any, it does not ask.
func TestMovesAreAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	is := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for name := range want {
			data, _ := os.ReadFile(filepath.Join(dir, name)) // "" is none
			got[name] = string(data)
		}
		assert.Equal(t, want, got)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.txt"), []byte("three\n"), 0o644))
	s, at := newStage(strings.Join([]string{"hello", "write them", "and talk", "/undo", "/redo", "/undo", // lines 1 to 6
		"/undo", "n", "/undo", "d", "n", "/undo", "y", "/redo", "y", // 7 to 15
		"/tree 1", "f nothing", "/tree 1", "x", "/tree 1", "c a.txt", "/tree 1", "f a.txt ./c.txt", "y", "/tree 3", "c",
	}, "\n")+"\n"), 0
	s.thinks = func() {
		switch at++; at {
		case 7, 9:
			is(map[string]string{"a.txt": "one\n", "b.txt": "two\n", "c.txt": "3\n"})
		case 12: // the user changes a file
			is(map[string]string{"a.txt": "one\n", "b.txt": "two\n", "c.txt": "3\n"})
			assert.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), []byte("mine\n"), 0o644))
		case 14:
			is(map[string]string{"a.txt": "", "b.txt": "mine\n", "c.txt": "three\n"})
		case 16, 24:
			is(map[string]string{"a.txt": "one\n", "b.txt": "mine\n", "c.txt": "3\n"})
		case 25:
			is(map[string]string{"a.txt": "", "b.txt": "mine\n", "c.txt": "three\n"})
		}
	}
	shown := talkOn(t, s, policy.AcceptEdits, dir, script.Say("Hello."), writes("a.txt", "one\n"), writes("b.txt", "two\n"),
		script.Call("read_file", map[string]string{"path": "c.txt"}), writes("c.txt", "3\n"), script.Say("Written."), script.Say("Talk."))
	const asked = "Do it?  (y/d/n) "
	inOrder(t, shown, "Talk.", // no file, and no question
		"> The conversation goes on behind the answer to: write them", "> The conversation goes on behind the answer to: and talk",
		"> The conversation goes on behind the answer to: write them",
		">   remove a.txt\n  remove b.txt\n  change c.txt\n  "+asked, "Nothing was done.",
		asked, "a.txt", "- one", "c.txt", "- 3", "+ three", asked, "Nothing was done.",
		">   remove a.txt\n  keep b.txt: the user has created or changed it\n  change c.txt\n  "+asked, "behind the answer to: hello",
		">   create a.txt\n  change c.txt\n  "+asked, "behind the answer to: write them",
		`no file of "nothing" was different then`, `"x" is none of`, `"c a.txt" is none of`,
		"  remove a.txt\n  change c.txt\n  "+asked, "behind the answer to: write them", "behind the answer to: and talk")
	require.Equal(t, 6, strings.Count(shown, asked))
}

// The conversation goes on behind any message whose calls have their results, and at the beginning.
func TestBranchAtAMessage(t *testing.T) {
	t.Parallel()
	shown := talkWith(t, t.TempDir(), "write one\n/branch 1.\n/branch 1.2\n/branch 1.9\n/branch 1.3\nand now\n/tree\n\n/branch 0\nafresh\n/tree\n\n",
		script.Reply(script.Say("I write."), writes("a.txt", "one\n")), script.Say("First."), script.Say("Second."), script.Say("Third."))
	inOrder(t, shown, "First.",
		"1.1  user       write one", "1.2  assistant  I write. write_file", "1.3  user       (results)", "1.4  assistant  First.",
		"! the results of its calls belong", `! turn 1 has no message "9"`,
		"goes on behind the answer to: write one", "Second.",
		"  1 write one", "  2 and now", "< here",
		"is at its beginning again", "Third.", "  3 ` afresh", "< here")
}

func TestCommandsTell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".claude/commands"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".claude/commands/review.md"), []byte("---\ndescription: reads it\n---\nRead it.\n"), 0o644))
	for _, tt := range []struct {
		name, lines string
		want        []string
	}{
		{"help", "/help\n", []string{"/undo", "/where", "names the directory", "Of this project and yours: /review"}},
		{"of an extension", "/where it\n", []string{"it is " + dir}},
		{"typing error", "/hlep\n", []string{"there is no command /hlep; did you mean /help?"}},
		{"typing error in a name of the project", "/reveiw\n", []string{"did you mean /review?"}},
		{"nothing like it", "/xyzzy\n", []string{"there is no command /xyzzy"}},
		{"mode", "/mode\n/mode plan\n/mode nonsense\n", []string{"The mode is accept-edits.", "The mode is plan.", "nonsense"}},
		{"diff", "/diff\nwrite\n/diff\n", []string{"There are no changes of a turn to show.", "1 + one"}},
		{"diff of what is undone", "write\n/undo\ny\n/diff\n", []string{"remove a.txt", "is at its beginning again", "There are no changes of a turn to show."}},
		{"diff in a new conversation", "write\n/clear\n/diff\n", []string{"A new conversation", "There are no changes of a turn to show."}},
		{"show", "/show\nwrite\n/show\n/show 1\n/show 9\n", []string{"No tool has been called yet.", "1  write_file", "a.txt", `no output "9"`}},
		{"cost", "/cost\nwrite\n/cost\n", []string{"No model has answered yet.", "by model", "2 answers", "by day", "2 answers", "by tool", "write_file  1 call"}},
		{"cost of what", "/cost x\n", []string{"say /cost, or /cost all"}},
		{"context", "/context\n", []string{"system prompt", "tools", "together"}},
		{"permissions", "/permissions\n/permissions drop 1\n", []string{"The mode is accept-edits.", "You have made no rules.", `"1" is not a number`}},
		{"todo", "/todo\n", []string{"There are no tasks."}},
		{"lessons", "/lessons\n", []string{"There are no open lessons."}},
		{"jobs", "/jobs\n", []string{"There are no background jobs."}},
		{"no such job", "/jobs stop bash-7\n", []string{`! no job "bash-7" works: /jobs lists them`}},
		{"only a slash", "/\n", []string{"! there is no command /"}},
		{"skills", "/skills\n", []string{"/review : reads it"}},
		{"agents", "/agents\n", []string{"There are no agents"}},
		{"nothing to undo", "/undo\n", []string{"!"}},
		{"empty tree", "/tree\n", []string{"nothing has been said yet"}},
		{"go without a plan", "/go\n", []string{"there is no plan"}},
		{"export", "write\n/export " + filepath.Join(dir, "talk.md") + "\n/export " + filepath.Join(dir, "talk.md") + "\n/export x\n",
			[]string{"Written: ", "file exists", "/export talk.md, .html or .json"}},
		{"rename", "/rename\n/rename my talk\n", []string{"say a title", "called my talk."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown := talkWith(t, dir, tt.lines, writes("a.txt", "one\n"), script.Say("Written."))
			inOrder(t, shown, tt.want...)
			_ = os.Remove(filepath.Join(dir, "a.txt"))
		})
	}
}

// An error about the end of a file is not the end of the input.
func TestErrorOfAnEmptyFile(t *testing.T) {
	t.Parallel()
	s := newStage("/read\n/help\n")
	read := func(context.Context, *harness.Runtime, string) (string, error) {
		return "", fmt.Errorf("read a: %w", io.EOF)
	}
	c := newTestChat(t, s, s, tty.Options{Plain: true}, &chat{more: []Extension{{Slash: []SlashCommand{{Name: "read", Run: read}}}}})
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	c.session = &session{Runtime: rt}
	require.Equal(t, exitOK, c.run(t.Context(), ""))
	require.NoError(t, c.Screen.Close())
	inOrder(t, s.out, "! read a: EOF", "Say what is to be done.")
}

// A path is a prompt, and a name that nothing has is never one.
func TestSlashIsNoPrompt(t *testing.T) {
	t.Parallel()
	shown := talkWith(t, t.TempDir(), "/etc/hosts is wrong\n", script.Say("I see."))
	require.Contains(t, shown, "I see.")
	shown = talkWith(t, t.TempDir(), "/tmpe\n/Undo\n//x y\n", script.Say("I was asked."))
	require.Equal(t, 1, strings.Count(shown, "I was asked."), shown) // "//x y" is a path
}

func TestPlanAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shown := talkWith(t, dir, "/plan write a\n/go\n", writes("a.txt", "x\n"), script.Say("Step 1."), writes("a.txt", "x\n"), script.Say("Done."))
	inOrder(t, shown, "The mode is plan.", "refused", "Step 1.", "The mode is accept-edits.", "Done.")
	data, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "x\n", string(data))
}

// A key begins the plan mode, at the prompt and while the agent works, and goes back to the mode before. It is none that
// answers a question, and does nothing there.
func TestPlanKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		mode := func() policy.Mode { synctest.Wait(); return d.session.Policy.Mode() }
		p, err := policy.New(policy.WithMode(policy.AcceptEdits))
		require.NoError(t, err)
		d.session.Policy = p
		entered := make(chan string)
		go func() {
			text, _ := d.entered(t.Context())
			entered <- text
		}()
		d.types(t, "ab\x1b[Z")
		require.Equal(t, policy.Plan, mode())
		require.Equal(t, "plan> ab", d.editor.View(80).Lines[0])
		d.types(t, "\x1b[Z")
		require.Equal(t, policy.AcceptEdits, mode())
		require.Equal(t, "> ab", d.editor.View(80).Lines[0])
		d.types(t, "\r")
		require.Equal(t, "ab", <-entered)

		done := d.asks(t)
		d.types(t, "\x1b[Z") // before the question
		require.Equal(t, policy.Plan, mode())
		d.types(t, "\x1b[Z")
		<-d.seen
		time.Sleep(2 * time.Second)
		d.types(t, "\x1b[Z")
		time.Sleep(2 * time.Second)
		require.Equal(t, policy.AcceptEdits, mode())
		require.Zero(t, d.ran)
		d.types(t, "\x03")
		<-done
		d.keys.Close()
	})
}

// The plan mode goes back to the mode before it, however it began.
func TestModeBeforeThePlan(t *testing.T) {
	t.Parallel()
	shown := talkWith(t, t.TempDir(), "/plan\n/mode ask\n/mode plan\n/go\n", script.Say("Done."))
	inOrder(t, shown, "The mode is plan.", "The mode is ask.", "The mode is plan.", "The mode is ask.", "Done.")
}

// A line that the end of the input has cut chooses no rule.
func TestHalfALineChoosesNothing(t *testing.T) {
	dir := t.TempDir()
	shown := talkOn(t, newStage("go\na\n1"), policy.Ask, dir, writes("a.txt", "x\n"), script.Say("Well."))
	inOrder(t, shown, "Do not ask again about", "no (end of input)", "refused", "Well.")
	require.NoFileExists(t, filepath.Join(dir, "a.txt"))
}

// A rule that was made by an answer is taken back by its number.
// A number with other words behind it chooses no rule.
func TestChosenRule(t *testing.T) {
	for line, want := range map[string]aycoder.Scope{"2": aycoder.Session, " 2 ": aycoder.Session, "2s": aycoder.Saved, "2 s": aycoder.Saved, " 2s\t": aycoder.Saved} {
		rule, scope, ok := chosenRule(line, []string{"a", "b"})
		require.Equal(t, []any{"b", want, true}, []any{rule, scope, ok}, line)
	}
	for _, line := range []string{"", "s", "0", "3", "-1", "1 yes", "2 sessions", "1s s", "1x", "1 2", "once"} {
		_, _, ok := chosenRule(line, []string{"a", "b"})
		require.False(t, ok, line)
	}
}

func TestDropOfARule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt, err := harness.New(t.Context(), dir, harness.WithClient(script.New()), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	require.NoError(t, rt.Policy.KeepRule(t.Context(), aycoder.Session, "bash:make *"))
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{session: &session{Runtime: rt}})
	_, err = c.command(t.Context(), "/permissions")
	require.NoError(t, err)
	require.NoError(t, c.Flush())
	require.Contains(t, s.out, "   1  allow bash:make *")
	_, err = c.command(t.Context(), "/permissions drop 1")
	require.NoError(t, err)
	require.Empty(t, rt.Policy.Rules(policy.Session))
}

func TestOtherAgentsAreListed(t *testing.T) {
	t.Parallel()
	loaded, err := config.Load()
	require.NoError(t, err)
	settings := loaded.Config.Settings
	settings.AgentServers = map[string]config.AgentServer{"colleague": {Command: "x"}}
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithSettings(settings),
		harness.WithAgentServers(func(name string, _ config.AgentServer, _ func() tools.FS, _ *tools.Masker, _ ...aycoder.Option) (aycoder.Tool, error) {
			return aycoder.NewTool(name, "Knows the\ndatabase.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) { return nil, nil })
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{session: &session{Runtime: rt}})
	_, err = c.command(t.Context(), "/agents")
	require.NoError(t, err)
	require.NoError(t, c.Flush())
	require.Contains(t, s.out, "colleague: Knows the database.")
	require.NotContains(t, s.out, "There are no agents")
}

// Of what was not looked at, nobody who has not asked gets a long list.
func TestUnaskedSuggestionsAreFew(t *testing.T) {
	t.Parallel()
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{session: &session{Runtime: rt}})
	r := &suggest.Report{}
	for i := range 100 {
		r.Skipped = append(r.Skipped, fmt.Sprintf("big%02d.bin: it is too long", i))
	}
	c.suggestions(r)
	require.NoError(t, c.Flush())
	require.Equal(t, 5, strings.Count(s.out, "it is too long"))
	require.Contains(t, s.out, "! 95 more were not looked at")
}

// White space ends the name of a command, as it does in the library.
func TestCalled(t *testing.T) {
	for line, want := range map[string][2]string{
		"/plan fix it": {"plan", "fix it"}, "/plan\nfix it\nnow": {"plan", "fix it\nnow"}, "/clear\t see a/b": {"clear", "see a/b"}, "/exit": {"quit", ""},
	} {
		name, words, ok := called(line)
		require.True(t, ok, line)
		require.Equal(t, want, [2]string{name, words})
	}
	for _, line := range []string{"/etc/hosts", "/ x", "/\nx", "x /y"} {
		_, _, ok := called(line)
		require.False(t, ok, line)
	}
}

// The distances were counted by hand.
func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"tree", "tree", 0}, {"tre", "tree", 1}, {"trree", "tree", 1}, {"trae", "tree", 1},
		{"rtee", "tree", 1}, {"hlep", "help", 1}, {"cost", "tree", 4}, {"undo", "redo", 2},
	} {
		require.Equal(t, tt.want, distance(tt.a, tt.b), "%q %q", tt.a, tt.b)
		require.Equal(t, tt.want, distance(tt.b, tt.a), "%q %q", tt.b, tt.a)
	}
}
