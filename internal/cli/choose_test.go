package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
)

// chats lets a user type lines in a new chat of the whole program, on a plain terminal in a directory that is otherwise empty.
func chats(t *testing.T, s *service, lines string, o options) string {
	t.Helper()
	for name, value := range map[string]string{
		"ANTHROPIC_API_KEY": "sk-ant-secret-0123", "ANTHROPIC_BASE_URL": s.URL, "OPENAI_API_KEY": "", "GEMINI_API_KEY": "", "GOOGLE_API_KEY": "",
	} {
		t.Setenv(name, value)
	}
	a := &app{getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, asks: newAsks()}
	st := newStage(lines)
	c := newTestChat(t, st, st, tty.Options{Plain: true}, &chat{app: a, options: &o, asks: a.asks})
	got, err := c.open(context.WithCancelCause(t.Context()))
	require.NoError(t, err)
	c.enter(got)
	defer func() { c.session.close() }()
	require.Equal(t, exitOK, c.run(t.Context(), ""))
	require.NoError(t, c.Screen.Close())
	return st.out
}

// at makes a directory of the user, and another one that is the current one.
func at(t *testing.T) (dir string) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "APPDATA", "XDG_STATE_HOME", "LOCALAPPDATA"} {
		t.Setenv(name, home)
	}
	dir = t.TempDir()
	t.Chdir(dir)
	return dir
}

func TestModelCommand(t *testing.T) {
	at(t)
	s := newService(t, says("Hi.", "end_turn"))
	shown := chats(t, s, "one\n/model haiku-4-5\ntwo\n/model\nopus-4\n\n/model nobody/x\n/model claude-opus-4-1\nthree\n", options{})
	inOrder(t, shown, "Hi.", "From the next turn on, anthropic/claude-haiku-4-5 is asked.", "Hi.",
		"   1  anthropic/", " tokens, $", "more\n", "anthropic/claude-opus-4-1", "! ", "nobody", "anthropic/claude-opus-4-1 is asked")
	var models []string
	for _, body := range s.requests() {
		_, rest, _ := strings.Cut(body, `"model":"`)
		name, _, _ := strings.Cut(rest, `"`)
		models = append(models, name)
	}
	require.Equal(t, []string{"claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1"}, models)
}

func TestResumeCommand(t *testing.T) {
	at(t)
	s := newService(t, says("Hi.", "end_turn"))
	inOrder(t, chats(t, s, "/resume\nfirst talk\n", options{}), "There is no other conversation of this directory.", "Hi.")
	shown := chats(t, s, "second talk\n/resume first\nand more\n/tree\n\n/resume nothing like it\n\n", options{})
	inOrder(t, shown, "Hi.", "goes on behind the answer to: first talk", "Hi.", "1 first talk", "2 and more", "< here",
		`Nothing is like "nothing like it".`, "1  second talk")
	last := s.requests()[2]
	require.Contains(t, last, "first talk")
	require.NotContains(t, last, "second talk")
	inOrder(t, chats(t, s, "/resume talk\n1\n/tree\n\n", options{}), "1  first talk", "2  second talk", "goes on behind the answer to: and more")
	a := &app{getenv: os.Getenv}
	st, err := a.settings(&options{})
	require.NoError(t, err)
	c := &chat{ui: &ui{}, app: a, settings: st, session: &session{}}
	from, list := c.complete("/resume first ta", 16)
	require.Equal(t, 8, from)
	titles := line.Rank("first ta", list)
	require.Len(t, titles, 1)
	inOrder(t, chats(t, s, "/cost all\n", options{}), "by model", "anthropic/claude-test  price unknown", "3 answers, 30 tokens in, 15 out", "by day", "3 answers")
	chats(t, s, titles[0].Text+"\n", options{}) // a conversation that has this title
	inOrder(t, chats(t, s, "/resume "+titles[0].Text+"\n/tree\n\n", options{}), "goes on behind the answer to: and more", "1 first talk")
}

// The list of conversations shows no secret that a user has typed.
func TestResumeMasks(t *testing.T) {
	at(t)
	s := newService(t, says("Hi.", "end_turn"))
	secret := "sk-ant-api03-" + strings.Repeat("aB3dE6gH9j", 9) + "-AAAAAAAA"
	chats(t, s, "my key is "+secret+"\n", options{})
	shown := chats(t, s, "hi\n/resume nothing like it\n\n", options{})
	require.Contains(t, shown, "   1  my key is [secret:")
	require.NotContains(t, shown, "aB3dE6gH9j")
}

// The figures of the command are those of the conversation.
func TestUsageCommand(t *testing.T) {
	timed.Serial(t)
	dir := at(t)
	s := newService(t, says("Hi.", "end_turn"))
	shown := chats(t, s, "fix it\nadd it\n/cost\n", options{})
	inOrder(t, shown, "by model", "2 answers, 20 tokens in, 10 out", "by day")
	runs := func(args ...string) (out, errs string, code int) { return runsIn(t, dir, "usage", args...) }
	out, _, code := runs("-json", "-manual", "fix=1h", "-rate", "50")
	require.Equal(t, exitOK, code)
	var r usage.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, []any{1, 2, 2, int64(30)}, []any{r.Total.Sessions, r.Total.Prompts, r.Total.Answers, r.Total.Tokens()})
	require.Equal(t, time.Hour, r.Return.All.Manual)
	require.NotNil(t, r.Return.Net)
	out, _, _ = runs()
	inOrder(t, out, "All work", "2 answers", "by model", "by kind of task", "  fix ", "* The kind of a task is guessed")
	out, _, _ = runs("by", "model", "-csv")
	require.Contains(t, out, "model,title,sessions")
	out, _, _ = runs("-html")
	require.Contains(t, out, "<title>Usage</title>")
	for _, args := range [][]string{
		{"by", "mood"}, {"-manual", "fxi=1h"}, {"-days", "0"}, {"-days", "x"}, {"-rate", "50"}, {"-manual", "fix"}, {"-budget", "NaN"}, {"-budget", "-1"}, {"by", "day", "-html"},
		{"-csv", "-html"},
	} {
		out, errs, code := runs(args...)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, "usage", args)
	}
}

// runsIn runs a command of the program in a directory.
func runsIn(t *testing.T, dir, command string, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := program(t, os.Environ(), append([]string{command}, args...)...)
	cmd.Dir = dir
	got := wait(t, cmd)
	return got.out, got.err, got.code
}

// The history of the repository around is read, and its texts cannot control a terminal.
func TestCodeCommand(t *testing.T) {
	timed.Serial(t)
	dir := at(t)
	runs := func(args ...string) (out, errs string, code int) { return runsIn(t, dir, "code", args...) }
	_, errs, code := runs()
	require.Equal(t, 1, code)
	require.Contains(t, errs, "not a git repository")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o644))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=An\x1b[31mn", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		require.NoError(t, cmd.Run(), args)
	}
	out, _, code := runs()
	require.Equal(t, exitOK, code)
	inOrder(t, out, "commits 1, merges 0, people 1", "Go", "1 ", "people")
	require.NotContains(t, out, "\x1b")
	out, _, _ = runs("owners", "a.go")
	require.Contains(t, out, "a@example.com")
	out, _, _ = runs("structure")
	inOrder(t, out, "0 sets", "layers", "   0  .", "0 names")
	twice := "package a\n\nfunc %s() {\n" + strings.Repeat("\tif x < 3 {\n\t\tf(a, b, 4)\n\t}\n", 9) + "}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.go"), fmt.Appendf(nil, twice, "f"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.go"), fmt.Appendf(nil, twice, "g"), 0o644))
	out, _, _ = runs("clones")
	inOrder(t, out, "1 parts", "2 times", "b.go:1-31", "c.go:1-31")
	for name, text := range map[string]string{"long.go": "package a\n" + strings.Repeat("\n", 1<<20), ".env.go": "package a\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	out, errs, code = runs("clones")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "1 parts of at least 100 nodes")
	require.Contains(t, errs, "2 files in Go were not looked at")
	out, _, _ = runs("-json")
	require.Contains(t, out, `"commits": 1`)
	out, _, _ = runs("-html")
	require.Contains(t, out, "<title>Code</title>")
	for _, args := range [][]string{{"-since", "x"}, {"-json", "-html"}, {"owners"}} {
		_, _, code = runs(args...)
		require.Equal(t, exitUsage, code, args)
	}
}

// Two conversations are compared, and one is shown again as it went.
func TestSessionsCompared(t *testing.T) {
	timed.Serial(t)
	dir := at(t)
	s := newService(t, says("Hi.", "end_turn"))
	chats(t, s, "first\nmore\n", options{})
	chats(t, s, "first\nless \x1b[31m\n", options{})
	out, _, _ := runsIn(t, dir, "sessions", "list", "-json")
	var list []journal.Entry
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 2)
	runs := func(args ...string) (out, errs string, code int) { return runsIn(t, dir, "sessions", args...) }
	out, errs, code := runs("diff", list[1].ID, list[0].ID)
	require.Equal(t, exitOK, code, errs)
	inOrder(t, out, list[1].ID+"  price unknown", "2 prompts", " user: first", "-user: more", "+user: less")
	require.NotContains(t, out, "\x1b")
	out, _, _ = runs("diff", list[1].ID, list[1].ID[:20])
	require.Contains(t, out, "The same was said and done.")
	out, _, code = runs("diff", list[1].ID, list[0].ID, "-json")
	require.Equal(t, exitOK, code)
	var d comparison
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	require.Equal(t, 2, d.B.Figures.Answers)
	require.Empty(t, d.Files)
	out, _, code = runs("replay", list[1].ID, "1000x")
	require.Equal(t, exitOK, code)
	inOrder(t, out, "user: first", "model: Hi.", "user: more", "model: Hi.")
	for _, args := range [][]string{{"replay", list[0].ID, "fast"}, {"replay", list[0].ID, "-1"}, {"replay", list[0].ID, "-json"}, {"diff", list[0].ID}} {
		_, errs, code = runs(args...)
		require.NotZero(t, code, args)
		require.NotEmpty(t, errs)
	}
	found, err := filepath.Glob(filepath.Join(os.Getenv("HOME"), "*", "*", list[0].ID, "journal.jsonl"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	data, err := os.ReadFile(found[0])
	require.NoError(t, err)
	whole := len(data)
	for _, end := range []string{"[torn", "[damaged]\n"} { // what was torn off was never there
		require.NoError(t, os.WriteFile(found[0], append(data[:whole:whole], end...), 0o600))
		for _, args := range [][]string{{"replay", list[0].ID}, {"diff", list[1].ID, list[0].ID}, {"show", list[0].ID}, {"export", list[0].ID, "html"}} {
			_, errs, code = runs(args...)
			require.Equal(t, exitOK, code, args)
			require.Equal(t, end == "[damaged]\n", strings.Contains(errs, "is damaged"), "%v: %s", args, errs)
		}
	}
}

func TestPaused(t *testing.T) {
	for _, tt := range []struct {
		was    time.Duration
		factor float64
		want   time.Duration
	}{{time.Second, 2, time.Second / 2}, {time.Second, 1e-300, mostPause}, {time.Hour, 1, mostPause}, {-time.Second, 1, 0}, {time.Hour, math.Inf(1), 0}} {
		require.Equal(t, tt.want, paused(tt.was, tt.factor), tt)
	}
}

// The commands of the program are called in the conversation, too.
func TestCallsOfSubcommands(t *testing.T) {
	dir := at(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Be kind.\n"), 0o644))
	shown := chats(t, newService(t, says("Hi.", "end_turn")), strings.Join([]string{
		"n", "/config check", "/config show", "/config nonsense", "/plugins", "/plugins -h", "/mcp", "/doctor", "/trust", "y",
	}, "\n")+"\n", options{})
	inOrder(t, shown, "Do you trust this?", "The configuration has no mistakes.", "approval.mode", "ask  (default)", `there is no "nonsense"`,
		"There are no plugins", "usage: aycoder plugin", "There are no servers", "ok       configuration", "Do you trust this?", "takes effect with the next")
}

// A list is narrowed by words.
func TestLike(t *testing.T) {
	list := []line.Candidate{{Text: "acme/large", Note: "100 tokens"}, {Text: "acme/large-2", Note: "200 tokens"}, {Text: "other/Small", Note: "free"}}
	for _, tt := range []struct {
		words string
		want  []int
	}{
		{"", []int{0, 1, 2}}, {"LARGE", []int{0, 1}}, {"acme/large", []int{0}}, {"small", []int{2}}, {"tokens 200", []int{1}}, {"x", nil},
	} {
		require.Equal(t, tt.want, like(list, tt.words), tt.words)
	}
}

func TestForecastCommand(t *testing.T) {
	timed.Serial(t)
	dir := at(t)
	s := newService(t, says("Hi.", "end_turn"))
	chats(t, s, "fix the parser\nand more\n", options{})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "parser.go"), []byte("package p\n"), 0o644))
	runs := func(args ...string) (out, errs string, code int) { return runsIn(t, dir, "forecast", args...) }
	out, errs, code := runs("-factor", "2", "fix", "the", "broken", "parser")
	require.Equal(t, exitOK, code, errs)
	inOrder(t, out, "kind: fix", "the 1 most similar tasks", "turns    2; these took 2 to 2", "files that it may touch", "parser.go", "risk: medium", "no test uses parser.go")
	require.Contains(t, errs, "without the history")
	require.NotContains(t, out, "dollars", "the price is not known")
	out, _, code = runs("-json", "task", "add", "x")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, `"kind": "feature"`)
	for _, args := range [][]string{{}, {"-factor", "0", "x"}, {"-factor", "NaN", "x"}} {
		_, _, code = runs(args...)
		require.Equal(t, exitUsage, code, args)
	}
}

func TestSuggestCommand(t *testing.T) {
	timed.Serial(t)
	dir := at(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.py"), []byte("import yaml\nyaml.load(x)\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Cargo.lock"), []byte("[[package]]\nname = \"p\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n"), 0o644))
	osv := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(osv, "1.json"), []byte(`{"id": "R-1", "summary": "Bad", "affected": [{"package": {"ecosystem": "crates.io", "name": "p"}, "versions": ["1.0.0"]}]}`), 0o644))
	runs := func(args ...string) (out, errs string, code int) { return runsIn(t, dir, "suggest", args...) }
	out, _, code := runs()
	require.Equal(t, exitOK, code)
	inOrder(t, out, "risk", "a.py:2: yaml.load can run code", "Vulnerabilities were not looked for")
	out, _, _ = runs("-osv", osv, "list", "advisory")
	inOrder(t, out, "advisory", "Cargo.lock: p 1.0.0 has R-1")
	require.NotContains(t, out, "yaml")
	out, _, _ = runs("list", "risk")
	id, _, _ := strings.Cut(out, " ")
	_, errs, code := runs("dismiss", id, "it", "is", "mine")
	require.Equal(t, exitOK, code, errs)
	out, _, _ = runs("list", "risk")
	require.Equal(t, "Nothing was found.\n", out)
	out, _, _ = runs("-all", "list", "risk")
	require.Contains(t, out, "(dismissed: it is mine)")
	_, _, code = runs("restore", id)
	require.Equal(t, exitOK, code)
	out, _, _ = runs("-json", "list", "risk")
	require.Contains(t, out, id)
	for _, args := range [][]string{{"restore", id}, {"dismiss", id, " "}, {"dismiss", "abcdef0123", "x"}, {"dismiss", "", "x"}} {
		_, errs, code = runs(args...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, errs, args[1])
	}
	out, _, _ = runs("-osv", osv, "list", "advisory")
	advisory, _, _ := strings.Cut(out, " ")
	_, errs, code = runs("dismiss", advisory, "x")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "-osv")
	_, errs, code = runs("-osv", osv, "dismiss", advisory, "x")
	require.Equal(t, exitOK, code, errs)

	const negated = "package p\n\nfunc F(a bool) bool {\n\tif !!a {\n\t\treturn true\n\t}\n\treturn false\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(negated), 0o644))
	out, _, _ = runs("list", "simpler")
	id, _, _ = strings.Cut(out, " ")
	out, _, code = runs("show", id)
	require.Equal(t, exitOK, code)
	inOrder(t, out, "p.go:", "of 100 such suggestions were right", "--- a/p.go", "+++ b/p.go")
	apply := exec.Command("git", "apply", "-")
	apply.Dir, apply.Stdin = dir, strings.NewReader(out)
	text, err := apply.CombinedOutput()
	require.NoError(t, err, string(text))
	changed, err := os.ReadFile(filepath.Join(dir, "p.go"))
	require.NoError(t, err)
	require.NotEqual(t, negated, string(changed))
	for _, args := range [][]string{{"list", "mood"}, {"dismiss"}, {"dismiss", id}, {"by"}, {"show"}, {"show", "x"}} {
		_, _, code = runs(args...)
		require.Equal(t, exitUsage, code, args)
	}
	var files []string
	for i, at := range []string{"a.py", "p.go"} {
		file := filepath.Join(t.TempDir(), "x.sarif")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"version": "2.1.0", "runs": [{"results": [{"ruleId": "R%d", "message": {"text": "wrong"},
			"locations": [{"physicalLocation": {"artifactLocation": {"uri": %q}, "region": {"startLine": 1}}}]}]}]}`, i, at), 0o644))
		files = append(files, "-sarif", file)
	}
	out, errs, _ = runs(append(files, "list", "check")...)
	inOrder(t, out, "a.py:1: R0: wrong", "p.go:1: R1: wrong")
	require.Empty(t, errs)
	for _, args := range [][]string{{"-osv", "nowhere"}, {"-sarif", "nowhere"}, {"-sarif", filepath.Join(dir, "p.go")}} {
		_, _, code = runs(args...)
		require.NotEqual(t, exitOK, code, args)
	}
}

func TestCodeBlocks(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"none", nil},
		{"a\n```go\nx := 1\n\ty\n```\nb\n~~~\nz\n~~~\n", []string{"x := 1\n\ty\n", "z\n"}},
		{"````\n```\nin\n```\n````\n", []string{"```\nin\n```\n"}},
		{"```\nnot closed\n", nil},
		{"``` `a` ```\n", nil},
	} {
		require.Equal(t, tt.want, codeBlocks(tt.text), tt.text)
	}
}

// The clipboard program gets the block that was chosen.
func TestCopyCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program is that of Wayland")
	}
	at(t)
	bin := t.TempDir()
	cat, err := exec.LookPath("cat")
	require.NoError(t, err)
	out := filepath.Join(bin, "copied")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "wl-copy"), []byte("#!/bin/sh\n"+cat+" > "+out+"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("WAYLAND_DISPLAY", "wayland-test")
	s := newService(t, says("See:\n\n```sh\nls -l\n```\n", "end_turn"))
	shown := chats(t, s, "/copy\none\n/copy\n2\n", options{})
	inOrder(t, shown, "! there is no answer yet", "1  See:", "2  code: ls -l", "Copied 1 line with wl-copy")
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "ls -l\n", string(data))

	require.NoError(t, os.WriteFile(filepath.Join(bin, "wl-copy"), []byte("#!/bin/sh\nexit 3\n"), 0o755))
	inOrder(t, chats(t, s, "one\n/copy 1\n", options{}), "! wl-copy: exit status 3", "! there is no clipboard")
}
