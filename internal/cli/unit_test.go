package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// controls reports whether a terminal might act on r.
func controls(r rune) bool { return tty.Clean(string(r)) != string(r) }

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "héllo\n\tworld", "héllo\n\tworld"},
		{"escape", "\x1b[31mred", "␛[31mred"},
		{"title", "\x1b]0;t\x07", "␛]0;t␇"},
		{"delete and nul", "\x7f\x00", "␡␀"},
		{"C1 as UTF-8", "\u009b31m", "<009b>31m"},
		{"C1 as a byte", "\x9b31m", "\uFFFD31m"},
		{"bidi", "a\u202eb\u2066c", "a<202e>b<2066>c"},
		{"marks of Hebrew text stay", "א\u200f!", "א\u200f!"},
		{"carriage return", "good\rbad\r\n", "goodbad\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, clean(tt.in)) })
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[2J\u009b\u202e\x9b")
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		require.True(t, utf8.ValidString(got))
		require.False(t, strings.ContainsFunc(got, controls))
		require.Equal(t, got, clean(got))
		require.NotContains(t, cleanLine(s), "\n")
		require.LessOrEqual(t, columns(fit(cleanLine(s), 10)), 10)
	})
}

func FuzzEscapeJSON(f *testing.F) {
	f.Add("\x1b\u009b\u202e\x7f\"\\")
	f.Fuzz(func(t *testing.T, s string) {
		line, err := json.Marshal(s)
		require.NoError(t, err)
		safe := escapeJSON(line)
		require.False(t, strings.ContainsFunc(string(safe), controls))
		var want, got string
		require.NoError(t, json.Unmarshal(line, &want))
		require.NoError(t, json.Unmarshal(safe, &got))
		require.Equal(t, want, got)
	})
}

func TestFitAndFold(t *testing.T) {
	require.Equal(t, "abc", fit("abc", 3))
	require.Equal(t, "ab…", fit("abcd", 3))
	require.Equal(t, "日…", fit("日本語", 4))
	require.Equal(t, []string{"1", "2"}, fold("1\n2\n", 2))
	require.Equal(t, []string{"1", "2", "… 5 more lines", "8"}, fold("1\n2\n3\n4\n5\n6\n7\n8", 4))
	require.Equal(t, `'it'\''s'`, quoteShell("it's"))
}

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		args string
		want options
		err  string
	}{
		{"nothing", "", options{}, ""},
		{"words", "fix the test", options{prompt: "fix the test"}, ""},
		{"flags between", "fix -p the -model x test -verbose", options{prompt: "fix the test", print: true, model: "x", verbose: true}, ""},
		{"after the end of flags", "-p -- -x --", options{prompt: "-x --", print: true}, ""},
		{"mode", "-mode plan", options{mode: policy.Plan}, ""},
		{"no mode", "-mode yolo", options{}, `no mode "yolo"; there are ask, accept-edits, plan and full-auto`},
		{"allow adds up", "-allow a -allow=b,c", options{allow: []string{"a", "b,c"}}, ""},
		{"format without -p", "-output json", options{}, "goes with -p"},
		{"missing value", "-p -model", options{}, "needs an argument"},
		{"events in", "-input events", options{print: true, input: formatEvents, output: formatEvents}, ""},
		{"events in and out", "-input events -output events", options{print: true, input: formatEvents, output: formatEvents}, ""},
		{"events in only", "-input events -output json", options{}, "goes without -output json"},
		{"no format", "-input events -output yaml", options{}, "there are text, json and events"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parse(strings.Fields(tt.args))
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			tt.want.output = cmp.Or(tt.want.output, formatText)
			require.Equal(t, &tt.want, o)
		})
	}
}

func TestSplitRules(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{"edit_file", []string{"edit_file"}},
		{"edit_file,bash:go vet *", []string{"edit_file", "bash:go vet *"}},
		{"bash:echo a,b", []string{"bash:echo a,b"}},
		{"bash:echo a,b,edit_file:x", []string{"bash:echo a,b,edit_file:x"}},
		{"shell,bash", []string{"shell", "bash"}},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, splitRules(tt.in), tt.in)
	}
}

func TestDescribeRule(t *testing.T) {
	tests := []struct{ tool, pattern, want string }{
		{"deploy", "", "every call of deploy"},
		{"edit_file", "*", "edit_file of files in this directory (not in those below it)"},
		{"edit_file", "src/*", "edit_file of files in src/"},
		{"edit_file", "src/a.go", "edit_file of exactly: src/a.go"},
		{"bash", "go vet *", "bash like: go vet * (* is any words)"},
		{"bash", `rm \*.o`, "bash of exactly: rm *.o"},
		{"bash", "echo \x1b[2J", "bash of exactly: echo ␛[2J"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, describe(policy.Rule{Tool: tt.tool, Pattern: tt.pattern}.String()), tt.pattern)
	}
	require.Equal(t, "bash like: go vet * (* is any words), at most needs approval", describe("bash@needs_approval:go vet *"))
}

func TestDiff(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"change", "--- a/x\n+++ b/x\n@@ -3,3 +3,3 @@\n a\n-b\n+c\n d\n", " 3   a\n 4 - b\n 4 + c\n 5   d\n"},
		{"no newline", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", " 1 - a\n     \\ no newline at end\n 1 + a\n"},
		{"several files", "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n" +
			"diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
			"x  +0 -1 - deleted\n 1 - a\ny  +1 -1\n 1 - a\n 1 + b\n"},
		{"no diff", "Deletes 3 things.\x1b[2J", "  Deletes 3 things.^[[2J\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			newView(plainPaper(&b), false).diff(tt.in)
			require.Equal(t, tt.want, b.String())
		})
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("@@ -1,99999999999999999999 +1 @@\n-\n\n\\\n@@ @@ @@ @@")
	f.Fuzz(func(t *testing.T, s string) {
		var b strings.Builder
		newView(plainPaper(&b), false).diff(s)
		require.LessOrEqual(t, strings.Count(b.String(), "\n"), previewLines+1)
		require.False(t, strings.ContainsFunc(b.String(), controls))
	})
}

func TestViewLines(t *testing.T) {
	call := &aycoder.ToolUse{ID: "1", Name: "bash"}
	base := &aycoder.ToolError{Tool: "bash"}
	output := func(text string, bad bool) *aycoder.ToolOutput {
		return &aycoder.ToolOutput{IsError: bad, Parts: []aycoder.Part{&aycoder.Text{Text: text}}}
	}
	started := &aycoder.ToolStarted{Call: call, Args: []byte(`{}`), Subject: "go vet"}
	tests := []struct {
		name   string
		events []aycoder.Event
		want   string
	}{
		{"text", []aycoder.Event{&aycoder.TextDelta{Text: "a "}, &aycoder.TextDelta{Text: "b"}, &aycoder.TurnFinished{}}, "a b\n"},
		{"tool", []aycoder.Event{started, &aycoder.ToolFinished{Call: call, Output: output("ok\n[exit 0]\n", false), Summary: "exit 0", Elapsed: 2 * time.Millisecond}},
			"* bash go vet  exit 0 - 2ms\n  | ok\n"},
		{"text before a tool", []aycoder.Event{&aycoder.TextDelta{Text: "a"}, started, &aycoder.ToolFinished{Call: call, Output: output("[exit 0]", false)}},
			"a\n* bash go vet\n"},
		{"failed", []aycoder.Event{started, &aycoder.ToolFinished{Call: call, Output: output("no shell", true), Summary: "error"}},
			"! bash go vet  error\n  | no shell\n"},
		{"refused", []aycoder.Event{&aycoder.ToolFinished{Call: call, Output: output("x", true), Err: &aycoder.ToolDeniedError{ToolError: base, Reason: "not now", By: aycoder.ByUser}}},
			"  ! bash refused: not now\n"},
		{"refused with its subject", []aycoder.Event{&aycoder.ToolFinished{Call: call, Subject: "a\x1b.go", Output: output("x", true), Err: &aycoder.ToolDeniedError{ToolError: base, Reason: "not now", By: aycoder.ByUser}}},
			"  ! bash a␛.go refused: not now\n"},
		{"not begun", []aycoder.Event{&aycoder.ToolFinished{Call: call, Subject: "go vet", Output: output("", true), Summary: "invalid"}},
			"! bash go vet  invalid\n"},
		{"timed out", []aycoder.Event{&aycoder.ToolFinished{Call: call, Output: output("x", true), Err: &aycoder.ToolDeniedError{ToolError: base, By: aycoder.ByTimeout}}},
			"  ! bash refused: timeout\n"},
		{"not answered", []aycoder.Event{&aycoder.ToolFinished{Call: call, Output: output("x", true), Err: &aycoder.ToolDeniedError{ToolError: base, By: aycoder.ByIgnored}}},
			"  ! bash refused: no answer\n"},
		{"merged", []aycoder.Event{&aycoder.Merged{Call: call, File: &edit.FileResult{Path: "a\x1b.go"}}}, "! a␛.go: merged with your changes\n"},
		{"conflicted", []aycoder.Event{&aycoder.Conflicted{Call: call, File: &edit.FileResult{Path: "f", Reason: "the same lines"}}},
			"! f: the same lines\n"},
		{"retry", []aycoder.Event{&aycoder.Retrying{Discarded: true, After: 1500 * time.Millisecond, Err: errors.New("gone")}},
			"! gone; trying again in 1.5s\n"},
		{"retry in the middle", []aycoder.Event{&aycoder.TextDelta{Text: "half"}, &aycoder.Retrying{Discarded: true, After: time.Minute, Err: errors.New("gone")}},
			"half\n! gone; what came of the answer is forgotten; trying again in 1m0s\n"},
		{"retry in thoughts that are not shown", []aycoder.Event{&aycoder.ThinkingDelta{Text: "half"}, &aycoder.Retrying{Discarded: true, Err: errors.New("gone")}},
			"! gone; trying again\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			v := newView(plainPaper(&b), false)
			v.begin()
			for _, ev := range tt.events {
				v.event(ev)
			}
			require.Equal(t, tt.want, b.String())
		})
	}
}

// The line about the agent fits whatever the texts of a tool.
func TestActivity(t *testing.T) {
	for _, cols := range []int{20, 40, 80} {
		s := &paper{Screen: tty.New(io.Discard, func() (int, int) { return cols, 24 }, tty.Options{Getenv: func(string) string { return "xterm" }})}
		v := newView(s, false)
		v.begin()
		v.event(&aycoder.ToolStarted{Call: &aycoder.ToolUse{ID: "1", Name: "bash"}, Args: []byte(`{}`), Subject: strings.Repeat("long ", 20)})
		v.event(&aycoder.ToolProgress{CallID: "1", Progress: aycoder.Progress{Message: "line\x1b[2J\nline"}})
		lines := v.activity(false)
		require.Len(t, lines, 1)
		require.LessOrEqual(t, columns(lines[0]), max(cols, 34))
		require.NotContains(t, lines[0], "\n")
		require.Contains(t, lines[0], "ctrl-c to stop")
	}
}

// The line about the agent counts what a call has done, of a total if that is known.
func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		progress aycoder.Progress
		want     string
	}{
		{aycoder.Progress{Current: 3, Total: 50, Message: "pages"}, "3 of 50 pages"},
		{aycoder.Progress{Current: 3, Total: 50}, "3 of 50"},
		{aycoder.Progress{Current: 2_500_000, Total: 40_000_000, Message: "bytes"}, "2.5M of 40.0M bytes"},
		{aycoder.Progress{Current: 120, Message: "files searched"}, "120 files searched"},
		{aycoder.Progress{Current: 4096, Message: "--- PASS\x1b[2J"}, "--- PASS␛[2J"}, // of a command
		{aycoder.Progress{}, ""},
	} {
		v := newView(plainPaper(io.Discard), false)
		v.begin()
		v.event(&aycoder.ToolStarted{Call: &aycoder.ToolUse{ID: "1", Name: "act"}, Args: []byte(`{}`)})
		v.event(&aycoder.ToolProgress{CallID: "1", Progress: tt.progress})
		want := "act · 0s"
		if tt.want != "" {
			want += " · " + tt.want
		}
		require.Contains(t, v.activity(false)[0], want+" · ctrl-c to stop")
	}
}

// Lines for people break between words, and go on to the right of their begin.
func TestProse(t *testing.T) {
	var b strings.Builder
	p := &paper{Screen: tty.New(&b, func() (int, int) { return 20, 24 }, tty.Options{Getenv: func(string) string { return "xterm" }})}
	p.prose("", "  no rule can describe it\nof two lines")
	p.headline("texts of this project", " for it")
	p.barred("go test ./internal/cli")
	p.entry("/export file", "writes it to a new file")
	require.NoError(t, p.Flush())
	want := []string{
		"  no rule can", "    describe it", "of two lines",
		"", "◆ texts of this", "  project for it",
		"  │ go test", "  │ ./internal/cli",
		"  /export file", "    writes it to a", "    new file", "",
	}
	styles := regexp.MustCompile(`\x1b\[[0-9;]*m|\r`)
	require.Equal(t, want, strings.Split(styles.ReplaceAllString(b.String(), ""), "\n"))
}

// plainChat returns a chat with fakes, whose input is available from the start, except
// for what the model triggers.
func plainChat(t *testing.T, model aycoder.ModelClient, input io.Reader, out io.Writer) *chat {
	t.Helper()
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(model), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return newTestChat(t, input, out, tty.Options{Plain: true}, &chat{session: &session{Runtime: rt}})
}

// newTestChat gives a chat a terminal of 80 columns.
func newTestChat(t testing.TB, input io.Reader, out io.Writer, o tty.Options, c *chat) *chat {
	t.Helper()
	screen := tty.New(out, func() (cols, rows int) { return 80, 24 }, o)
	keys := tty.NewInput(input, o.Plain)
	t.Cleanup(func() {
		require.NoError(t, screen.Close())
		keys.Close()
	})
	history, err := line.LoadHistory("", "")
	require.NoError(t, err)
	c.history, c.settings = history, &settings{}
	if c.asks == nil {
		c.asks = newAsks()
	}
	c.ui = &ui{
		view: newView(&paper{Screen: screen}, false), keys: keys,
		editor: line.New(line.Options{History: history, Complete: c.complete}),
	}
	return c
}

func TestChatOnFakes(t *testing.T) {
	create := script.Call("edit_file", map[string]string{"path": "a", "old_string": "", "new_string": "x\n"})
	tests := []struct {
		name  string
		steps []script.Step
		input string
		want  []string
	}{
		{"answers", []script.Step{script.Say("Hi."), script.Say("Again.")}, "one\ntwo\n", []string{"> Hi.\n", "> Again.\n"}},
		{"end of input", nil, "", []string{"> "}},
		{"quits", []script.Step{script.Say("never")}, "/quit\nx\n", []string{"> "}},
		{"helps", nil, "/help\n", []string{"ctrl-c stops it"}},
		{"forgets", []script.Step{script.Say("Hi.")}, "one\n/clear\n", []string{"Hi.", "A new conversation begins."}},
		{"compacts", []script.Step{script.Say(strings.Repeat("I have read it all.\n", 200))}, strings.Repeat("one\n", 9) + "/compact keep one\ntwo\n", []string{"compacting ...", "compacted: about "}},
		{"compacts nothing", []script.Step{script.Say("Hi.")}, "/compact\none\n", []string{"compacting ...", "Nothing more can be left out.", "Hi."}},
		{"no approval at the end", []script.Step{create, script.Say("Well.")}, "make a", []string{"Apply?", "no (end of input)", "refused", "Well."}},
		{"cut", []script.Step{script.Say("Half").WithStop(aycoder.StopMaxTokens)}, "one\n", []string{"! " + cutWarning}},
		{"error after a request", []script.Step{script.Call("list_files", object{"path": "."}).WithUsage(aycoder.Usage{Input: 900, Output: 7}), script.Fail(os.ErrInvalid)},
			"one\n", []string{"! invalid argument", "900 tokens in - 7 out"}},
		{"error", []script.Step{script.Fail(script.TooLarge(9, 8))}, strings.Repeat("word ", 500) + "\n", []string{"; trying again\n", "nothing more can be left out", "script script: context too large", "Begin a new conversation (/clear)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(tt.input)
			c := plainChat(t, script.New(tt.steps...).With(script.WithLoop(true)), s, s)
			require.Equal(t, exitOK, c.run(t.Context(), ""))
			require.NoError(t, c.Screen.Close()) // nothing is written later
			rest := s.out
			for _, want := range tt.want {
				_, after, ok := strings.Cut(rest, want)
				require.True(t, ok, "%q in %q", want, s.out)
				rest = after
			}
			require.NotContains(t, s.out, "never")
		})
	}
}

// asked is the end of a prompt or of a question.
var asked = regexp.MustCompile(`(?m)^(?:plan)?> |\): |/[nbd?pr]\) `)

// A stage is a terminal that delivers the next line after each prompt or question.
type stage struct {
	lines  []string
	thinks func() // before a line, or nil

	mu   sync.Mutex
	more sync.Cond
	out  string
	seen int
}

func newStage(lines string) *stage {
	s := &stage{lines: slices.Collect(strings.Lines(lines))}
	s.more.L = &s.mu
	return s
}

func (s *stage) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out += string(p)
	s.more.Broadcast()
	return len(p), nil
}

func (s *stage) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return 0, io.EOF
	}
	at := asked.FindStringIndex(s.out[s.seen:])
	for ; at == nil; at = asked.FindStringIndex(s.out[s.seen:]) {
		s.more.Wait()
	}
	s.seen += at[1]
	n := copy(p, s.lines[0])
	s.lines = s.lines[1:]
	s.mu.Unlock()
	defer s.mu.Lock()
	if s.thinks != nil {
		s.thinks()
	}
	return n, nil
}

// A folded output says with which number /show prints all of it.
func TestFoldNamesItsNumber(t *testing.T) {
	s := newStage("")
	c := plainChat(t, script.New(), strings.NewReader(""), s)
	c.begin()
	for i, lines := range []int{8, 9, 20} {
		text := strings.Repeat(fmt.Sprintf("line of %d\n", i+1), lines)
		c.take(step{ev: &aycoder.ToolFinished{Call: &aycoder.ToolUse{Name: "bash"}, Output: &aycoder.ToolOutput{Parts: []aycoder.Part{&aycoder.Text{Text: text}}}}})
	}
	require.NotContains(t, s.out, "(/show 1)")
	inOrder(t, s.out, "… 2 more lines (/show 2)", "… 13 more lines (/show 3)")
	_, err := c.show(t.Context(), "3")
	require.NoError(t, err)
	require.Equal(t, 20+7, strings.Count(s.out, "line of 3"))
}

// A key that was refused is one of the provider.
func TestRemedyNamesTheKey(t *testing.T) {
	for provider, want := range map[string]string{
		"openai": "usually in OPENAI_API_KEY,", "google": "usually in GEMINI_API_KEY or GOOGLE_API_KEY,", "corp": "Check the provider's key, or",
	} {
		require.Contains(t, remedy(&aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: provider}}), want)
	}
}

// The advice about a limit allows more of what the limit is of.
func TestRemedyNamesTheLimit(t *testing.T) {
	for want, err := range map[string]error{
		"kept; go on, or allow more with -max-turns.": &aycoder.LimitError{Limit: "turns", Max: 5},
		"kept.": &aycoder.LimitError{Limit: "response bytes", Max: 5},
		"kept; go on, or allow more with agent.max_tokens.":            &aycoder.LimitError{Limit: "tokens of a run", Max: 5},
		"kept; to go on, allow more with budgets.b.tokens.":            &budget.ExhaustedError{Budget: "b", Kind: "tokens", Key: "budgets.b.tokens"},
		"kept; to go on, allow more with -max-cost or agent.max_cost.": &budget.ExhaustedError{Budget: "conversation", Kind: "money", Key: "agent.max_cost"},
	} {
		require.Equal(t, "\n  What was done is "+want, remedy(err))
	}
}

// A panic in a run resurfaces in the goroutine that restores the terminal.
func TestPanicComesOut(t *testing.T) {
	c := plainChat(t, script.New(), strings.NewReader(""), io.Discard)
	require.PanicsWithValue(t, "boom", func() { c.take(step{panic: "boom"}) })
}

func TestDemoSteps(t *testing.T) {
	ask := aycoder.User(demoTask)
	call := func(tool string) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: tool, Name: tool, Args: []byte("{}")}}}
	}
	gave := func(tool, text string) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
			&aycoder.ToolOutput{ID: tool, Name: tool, Parts: []aycoder.Part{&aycoder.Text{Text: text}}, IsError: text == "error"}}}
	}
	const fails, passes = "FAIL greet Ada Bob\n got", "ok   greet Ada Bob"
	tests := []struct {
		name     string
		messages []*aycoder.Message
		want     string // a tool, or a text
	}{
		{"the task", []*aycoder.Message{ask}, "list_files"},
		{"something else", []*aycoder.Message{aycoder.User("What is a monad?")}, demoHonest},
		{"something else later", []*aycoder.Message{ask, aycoder.Assistant("Done."), aycoder.User("Thanks")}, demoHonest},
		{"something else meanwhile", []*aycoder.Message{ask, call("list_files"), gave("list_files", "x"), aycoder.User("stop that")}, "go on"},
		{"listed", []*aycoder.Message{ask, call("list_files"), gave("list_files", "x")}, "bash"},
		{"check fails", []*aycoder.Message{ask, call("bash"), gave("bash", fails)}, "code_search"},
		{"check passes", []*aycoder.Message{ask, call("bash"), gave("bash", passes)}, "The check passes"},
		{"no shell", []*aycoder.Message{ask, call("bash"), gave("bash", "error")}, "code_search"},
		{"found", []*aycoder.Message{ask, call("code_search"), gave("code_search", "x")}, "read_file"},
		{"read", []*aycoder.Message{ask, call("read_file"), gave("read_file", demoGreet)}, "edit_file"},
		{"mended already", []*aycoder.Message{ask, call("read_file"), gave("read_file", demoRight)}, "already"},
		{"strange file", []*aycoder.Message{ask, call("read_file"), gave("read_file", "x")}, "leave it alone"},
		{"edited", []*aycoder.Message{ask, call("edit_file"), gave("edit_file", "x")}, "bash"},
		{"refused", []*aycoder.Message{ask, call("edit_file"), gave("edit_file", "error")}, "What shall I do?"},
		{"edited and fails", []*aycoder.Message{ask, call("edit_file"), gave("edit_file", "x"), call("bash"), gave("bash", fails)}, "still fails"},
		{"edited and no shell", []*aycoder.Message{ask, call("edit_file"), gave("edit_file", "x"), call("bash"), gave("bash", "error")}, "cannot run"},
		{"read and fails", []*aycoder.Message{ask, call("read_file"), gave("read_file", "x"), call("bash"), gave("bash", fails)}, "cannot find out"},
		{"again after a refusal", []*aycoder.Message{ask, call("edit_file"), gave("edit_file", "error"), aycoder.Assistant("?"), aycoder.User("try again")}, "list_files"},
		{"unknown tool", []*aycoder.Message{ask, call("other"), gave("other", "error")}, "What shall I do?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := script.New(script.Func(demoStep))
			resp, err := aycoder.Complete(t.Context(), m, &aycoder.Request{Messages: tt.messages})
			require.NoError(t, err)
			if calls := resp.Message.Calls(); len(calls) > 0 {
				require.Equal(t, tt.want, calls[0].Name)
				return
			}
			require.Contains(t, resp.Text(), tt.want)
		})
	}
}

func TestRemedies(t *testing.T) {
	base := &aycoder.ModelError{Provider: "x", Err: errors.New("\x1b[2J")}
	tests := []struct {
		err  error
		want string
	}{
		{&aycoder.AuthError{ModelError: base}, "provider's key"},
		{&aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "anthropic"}}, keyEnv},
		{&aycoder.UnknownModelError{ModelError: base}, "-model"},
		{&aycoder.ContextTooLargeError{ModelError: base}, "/clear"},
		{&aycoder.RateLimitError{ModelError: base}, "Wait"},
		{&aycoder.OverloadedError{ModelError: base}, "later"},
		{&aycoder.TimeoutError{ModelError: base}, "network"},
		{&aycoder.StreamBrokenError{ModelError: base}, "network"},
		{&aycoder.TimeoutError{ModelError: &aycoder.ModelError{Provider: "anthropic"}}, baseURLEnv},
		{&aycoder.LimitError{Limit: "turns", Max: 3}, "-max-turns"},
		{errors.New("x\x1b"), ""},
	}
	for _, tt := range tests {
		require.Contains(t, explain(tt.err), tt.want)
		require.NotContains(t, explain(tt.err), "\x1b")
	}
}

func TestModelOfAnyProvider(t *testing.T) {
	t.Setenv(keyEnv, "sk-ant-x") // where the providers look for it
	t.Chdir(t.TempDir())
	tests := []struct{ model, provider, name string }{
		{"", "anthropic", "claude-sonnet-4-5"},
		{"claude-x", "anthropic", "claude-x"},
		{"anthropic/claude-x", "anthropic", "claude-x"},
		{"ollama/qwen3:8b", "ollama", "qwen3:8b"},
		{"vllm/maker/model", "vllm", "maker/model"},
	}
	open := func(model string) (*session, error) {
		a := &app{getenv: os.Getenv}
		t.Setenv("HOME", t.TempDir())
		t.Setenv("XDG_STATE_HOME", "")
		o := &options{model: model, print: true}
		st, err := a.settings(o)
		require.NoError(t, err)
		return a.open(t.Context(), o, st)
	}
	for _, tt := range tests {
		s, err := open(tt.model)
		require.NoError(t, err, tt.model)
		defer s.close()
		namer, ok := aycoder.As[aycoder.ModelNamer](s.Client)
		require.True(t, ok)
		provider, name := namer.ModelName()
		require.Equal(t, tt.provider, provider)
		require.Equal(t, tt.name, name)
	}
	_, err := open("nobody/x")
	require.Equal(t, exitUsage, usageOr(err))
}

// The model follows the configuration that names it, unless a flag names one.
func TestModelOfConfiguration(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	name := filepath.Join(home, "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	for flag, want := range map[string]string{"": "ollama/second", "ollama/first": "ollama/first"} {
		require.NoError(t, os.WriteFile(name, []byte("roles.main = \"ollama/first\"\n"), 0o600))
		a, o := &app{getenv: os.Getenv}, &options{model: flag, print: true}
		st, err := a.settings(o)
		require.NoError(t, err)
		s, err := a.open(t.Context(), o, st)
		require.NoError(t, err)
		defer s.close()
		require.Equal(t, "ollama/first", s.model())
		require.NoError(t, os.WriteFile(name, []byte("roles.main = \"ollama/second\"\n"), 0o600))
		require.NoError(t, s.Reload(t.Context()))
		require.Equal(t, want, s.model(), "with -model %q", flag)
	}
}

func TestNotice(t *testing.T) {
	var b strings.Builder
	newView(plainPaper(&b), false).event(&aycoder.Notice{Source: "hook", Text: "two files\n were \x1b[31mformatted"})
	require.Equal(t, "! two files were ␛[31mformatted\n", b.String())
}

// The line below a turn fits, and leaves out what matters least.
func TestSummary(t *testing.T) {
	res := &aycoder.Result{Usage: aycoder.Usage{Input: 1234, Output: 56, CacheRead: 2_000_000, CacheWrite: 10}}
	for _, tt := range []struct {
		cols int
		want string
	}{
		{100, "acme/large · 3 tools · 1.2k tokens in · 56 out · 2.0M cached · $0.0123 · context 7% · 2.0s"},
		{86, "acme/large · 1.2k tokens in · 56 out · 2.0M cached · $0.0123 · context 7% · 2.0s"},
		{78, "large · 1.2k tokens in · 56 out · 2.0M cached · $0.0123 · context 7% · 2.0s"},
		{64, "large · 1.2k tokens in · 56 out · $0.0123 · context 7% · 2.0s"},
		{56, "1.2k tokens in · 56 out · $0.0123 · context 7% · 2.0s"},
		{20, "1.2k tokens in · 56…"},
	} {
		var b strings.Builder
		s := tty.New(&b, func() (int, int) { return tt.cols, 24 }, tty.Options{Getenv: func(string) string { return "xterm" }})
		v := newView(&paper{Screen: s}, false)
		v.calls = 3
		v.summary("acme/large", res, 0.0123, stateContext{Tokens: 7, Window: 100, Percent: 7}, 2*time.Second)
		require.NoError(t, s.Close())
		require.Contains(t, b.String(), "\x1b[2m"+tt.want+"\x1b[0m")
	}
}

// A question shows all that is decided, at once or when the user asks for it, and no argument looks like another one.
func TestQuestionShowsAll(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "echo %d\n", i)
		}
		return b.String()
	}
	show := func(f func(c *chat)) string {
		s := newStage("")
		c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{})
		f(c)
		require.NoError(t, c.Flush())
		return s.out
	}
	r := &aycoder.ApprovalRequest{Tool: "bash", Preview: lines(500)}
	require.NotContains(t, show(func(c *chat) { c.question(r, false) }), "echo 250\n")
	require.Contains(t, show(func(c *chat) { c.question(r, true) }), "echo 250\n")
	added := "--- a/x\n+++ b/x\n@@ -0,0 +1,900 @@\n" + strings.ReplaceAll(lines(900), "echo", "+echo")
	require.Contains(t, show(func(c *chat) { c.wholeDiff(added) }), "echo 450\n", "before \"Take that back?\"")
	require.Contains(t, show(func(c *chat) { c.brings(config.Question{Kind: config.KindHook, Command: lines(60)}) }), "echo 30\n")
	r = &aycoder.ApprovalRequest{Tool: "edit_file", Preview: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", Class: "writes_workspace", Reasons: []string{"it changes"}}
	require.NotContains(t, show(func(c *chat) { c.question(r, false) }), "writes workspace")
	r.Reasons = append(r.Reasons, "it runs")
	inOrder(t, show(func(c *chat) { c.question(r, false) }), "1 + b\n", "  writes workspace: it changes, it runs\n")
	r = &aycoder.ApprovalRequest{Tool: "deploy", Args: []byte(`{"a":"x\npath: /safe","path":"/etc"}`)}
	require.NotContains(t, show(func(c *chat) { c.question(r, false) }), "| path: /safe")
}

// Thoughts of the model are visible before their line ends, and are printed above its answer.
func TestThinkingStreams(t *testing.T) {
	var b strings.Builder
	v := newView(&paper{Screen: tty.New(&b, func() (int, int) { return 20, 24 }, tty.Options{Getenv: func(string) string { return "xterm" }})}, true)
	v.begin()
	for _, text := range []string{"First\n\nsec", "ond of some more", " ", "w", "o"} {
		v.event(&aycoder.ThinkingDelta{Text: text})
	}
	require.Equal(t, []string{v.paint(faint, "wo")}, v.pending())
	v.event(&aycoder.TextDelta{Text: "Then."})
	require.Equal(t, []string{"Then."}, v.pending())
	v.saidAll()
	require.Empty(t, v.pending())
	require.NoError(t, v.Close())
	require.Equal(t, "First\n\nsecond of some more\nwo\nThen.\n", regexp.MustCompile(`\x1b\[\??[0-9;]*[a-zA-Z]|\r`).ReplaceAllString(b.String(), ""))
}

// Keys that come at once are painted together: a long line that is pasted without brackets would be laid out for each.
func TestManyKeysAreFewPaintings(t *testing.T) {
	const n = 10_000
	c := newTestChat(t, strings.NewReader(strings.Repeat("x", n)), io.Discard, tty.Options{Getenv: func(string) string { return "xterm" }}, &chat{})
	painted := 0
	c.around = func(bool) []string { painted++; return nil }
	for k, err := c.key(nil); err == nil; k, err = c.key(nil) {
		c.typed(k)
	}
	require.Len(t, c.editor.Text(), n)
	require.Less(t, painted, n/2)
}

// A line that was sent does not stay in the line below itself, however long what it begins takes.
func TestSentLineStandsOnce(t *testing.T) {
	e := ttytest.NewEmulator(80, 24)
	c := newTestChat(t, strings.NewReader("hello\r"), e, tty.Options{Getenv: func(string) string { return "xterm" }}, &chat{})
	text, err := c.readLine("> ", "")
	require.NoError(t, err)
	require.Equal(t, "hello", text)
	require.NoError(t, c.Flush())
	require.Equal(t, 1, strings.Count(e.Text(), "hello"), e.Text())
}

// The flag switches a sandbox on, and never makes of a required one a wanted one.
func TestSandboxFlag(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Chdir(t.TempDir())
	name := filepath.Join(home, "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	for mode, want := range map[string]string{"off": "on", "on": "on", "required": "required"} {
		require.NoError(t, os.WriteFile(name, []byte("roles.main = \"ollama/first\"\nsandbox.mode = \""+mode+"\"\n"), 0o600))
		a := &app{getenv: os.Getenv}
		st, err := a.settings(&options{sandbox: true, print: true})
		require.NoError(t, err)
		require.Equal(t, want, st.loaded.Config.Sandbox.Mode, mode)
		again, err := config.Load(st.from...)
		require.NoError(t, err)
		require.Equal(t, want, again.Config.Sandbox.Mode, mode)
	}
}

// The sessions of the served directory may be in it, and leave themselves alone there.
func TestServedStoreKnowsItsPaths(t *testing.T) {
	dir := t.TempDir()
	all, err := journal.Dir(dir)
	require.NoError(t, err)
	require.Equal(t, []string{dir}, (&storeHere{all, "x"}).Paths())
	require.Empty(t, (&storeHere{journal.Memory(), "x"}).Paths())
}
