package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/corpus"
)

// A walk is a use of the program in a terminal, whose screens are in a file of testdata/walks. A screen in it begins
// with the first line that is not as on the screen before.
type walk struct {
	*terminal

	file   string
	golden map[string]string
	got    strings.Builder // of -update
	last   []string        // the lines of the last screen
	// prepare makes files of the directory before the program starts, or is nil.
	prepare func(dir string)
}

// startWalk starts the program in a terminal with some columns and 24 rows.
func startWalk(t *testing.T, name string, cols int, env []string, args ...string) *walk {
	t.Helper()
	w := newWalk(t, name)
	w.start(cols, env, args...)
	return w
}

func newWalk(t *testing.T, name string) *walk {
	t.Helper()
	w := &walk{file: filepath.Join("testdata", "walks", name+".txt"), golden: map[string]string{}}
	w.terminal = &terminal{t: t, temp: t.TempDir()}
	if *update {
		return w
	}
	data, err := os.ReadFile(w.file)
	require.NoError(t, err)
	for part := range strings.SplitSeq("\n"+string(data), "\n== ") {
		step, text, _ := strings.Cut(part, " ==\n")
		w.golden[step] = strings.TrimRight(text, "\n")
	}
	return w
}

// start starts the program, perhaps once more.
func (w *walk) start(cols int, env []string, args ...string) {
	w.t.Helper()
	w.cols, w.last = cols, nil
	w.begin(args, env, func(cmd *exec.Cmd) {
		if w.prepare != nil {
			w.prepare(cmd.Dir)
		}
	})
}

// screen waits for a text in the last rows, and then until the screen is as it is kept in the file.
func (w *walk) screen(step, until string) {
	w.t.Helper()
	w.shows(until)
	if *update { // the screens of a file were looked at
		settled := make(chan struct{}) // only -update depends on time
		time.AfterFunc(1500*time.Millisecond, func() { close(settled) })
		<-settled
		w.shows(until)
		fmt.Fprintf(&w.got, "== %s ==\n%s\n\n", step, w.news(w.Text()))
	}
	want, known := w.golden[step]
	require.True(w.t, known || *update, "%s has no screen %q; it is written with -update", w.file, step)
	w.Until("the screen "+step+" of "+w.file, func(e *ttytest.Emulator) bool {
		if text := e.Text(); *update || w.news(text) == want {
			w.last = strings.Split(unstable(text), "\n")
			return true
		}
		return false
	})
}

// news returns the lines of a screen from the first one on that was not there before.
func (w *walk) news(text string) string {
	lines := strings.Split(unstable(text), "\n")
	n := 0
	for n < min(len(lines), len(w.last)) && lines[n] == w.last[n] {
		n++
	}
	return strings.Join(lines[n:], "\n")
}

// done ends the walk, and writes its screens if that was asked for.
func (w *walk) done(code int) {
	w.t.Helper()
	w.ends(code)
	if *update {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(w.file), 0o755))
		require.NoError(w.t, os.WriteFile(w.file, []byte(strings.TrimRight(w.got.String(), "\n")+"\n"), 0o644))
	}
}

// These parts of a screen differ between two runs.
var (
	demoPlace = regexp.MustCompile(`(?s)tools,\s+in\n.*?\nIt is not`)
	toolTook  = regexp.MustCompile(`(?m)^([●✗] .*?\S)( {2,})((?:\S+ )*)(\d+ms|\d+\.\ds)$`)
	took      = regexp.MustCompile(`(?m)( [·-](?: |\n  ))(?:\d+ms|\d+\.\ds)$`)
	toolCount = regexp.MustCompile(` [·-] \d+ tools?( [·-] \d+ tokens in)`) // is left out if the time is too long
	trusted   = regexp.MustCompile(`project:.*\n(  │ .*\n)*`)
	dated     = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d`)
	spinning  = regexp.MustCompile(`(?m)^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] .*`)
	jobRuns   = regexp.MustCompile(` +running for [\d.]+m?s( · [\d.]+m?s)?`)
	jobTook   = regexp.MustCompile(`(?m)^(\d+ jobs?: .* · )\d+s$`)
	sessionID = regexp.MustCompile(`session [0-9a-zA-Z-]{8,}`)
)

// unstable replaces times, places and ids.
func unstable(text string) string {
	text = jobRuns.ReplaceAllString(text, " running")
	text = demoPlace.ReplaceAllString(text, "tools, in\nDIRECTORY, which is removed at the end.\nIt is not")
	text = toolTook.ReplaceAllStringFunc(text, func(row string) string {
		m := toolTook.FindStringSubmatch(row)
		return m[1] + strings.Repeat(" ", len(m[2])+len(m[4])-len("0ms")) + m[3] + "0ms"
	})
	text = took.ReplaceAllString(text, "${1}0ms")
	text = toolCount.ReplaceAllString(text, "$1")
	text = trusted.ReplaceAllString(text, "project: DIRECTORY\n")
	text = dated.ReplaceAllString(text, "2006-01-02 15:04")
	text = spinning.ReplaceAllString(text, "⠋ WORKING")
	text = jobTook.ReplaceAllString(text, "${1}0s")
	return sessionID.ReplaceAllString(text, "session ID")
}

// The demo, in terminals of several kinds. Colours are the only thing that NO_COLOR leaves out.
func TestWalkDemo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file string
		cols int
		env  string
	}{
		{"demo-40", 40, ""}, {"demo-60", 60, ""}, {"demo-80", 80, ""}, {"demo-80", 80, "NO_COLOR=1"}, {"demo-200", 200, ""},
		{"demo-dumb", 80, "TERM=dumb"}, {"demo-dumb", 80, "-plain"},
	} {
		t.Run(tt.file+" "+tt.env, func(t *testing.T) {
			t.Parallel()
			w := newWalk(t, tt.file)
			w.prepare = withInstructions(t) // the demo does not use them, and asks nothing about them
			env, args := []string{tt.env}, []string(nil)
			if tt.env == "-plain" {
				env, args = nil, env
			}
			w.start(tt.cols, env, args...)
			plain := tt.file == "demo-dumb"
			yes, quit, hint := "y", "\x04", "y yes"
			if tt.cols < 60 {
				hint = "y n a e ?"
			}
			if plain {
				yes, quit, hint = "y\r", "/quit\r", "(y/n/a/e/?)"
			}
			w.screen("first run", "check pass.")
			w.Type("\r")
			w.screen("question", hint)
			w.Type(yes)
			w.expect("The check passes")
			w.screen("end", "demo>")
			w.Type(quit)
			w.done(exitOK)
			require.Equal(t, tt.env == "", regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|4[0-7]|9[0-7])m`).MatchString(w.Raw()), "colours")
			require.Equal(t, !plain, strings.Contains(w.Raw(), "\x1b"), "sequences")
			if plain {
				require.NotRegexp(t, `[^\n -~\r]|\r[^\r\n]`, w.Raw(), "symbols, and lines that change")
			}
		})
	}
}

// Tasks and jobs are in view: both while the agent works, and the jobs at the prompt as well. A plain terminal has no place
// for them.
func TestWalkTasksAndJobs(t *testing.T) {
	t.Parallel()
	tasks := `{"todos":[{"content":"read it","status":"completed"},{"content":"write the test","status":"pending"},` +
		`{"content":"fix the parser of numbers in strings","status":"in_progress"},{"content":"run it","status":"pending"},` +
		`{"content":"write the change log","status":"pending"},{"content":"rest","status":"pending"}]}`
	for _, tt := range []struct {
		cols int
		env  string
	}{{50, ""}, {80, ""}, {80, "TERM=dumb"}} {
		t.Run(fmt.Sprint(tt.cols, " ", tt.env), func(t *testing.T) {
			t.Parallel()
			s := newService(t, calls("todo", tasks), calls("bash", `{"command":"sleep 600","background":true}`), hangs("Now the parser.\n"))
			w := newWalk(t, fmt.Sprint("jobs-", tt.cols))
			if tt.env != "" {
				w = &walk{terminal: &terminal{t: t, temp: t.TempDir()}}
			}
			w.start(tt.cols, append(s.env(), tt.env), "-allow", "bash:sleep *")
			w.expect("> ")
			w.Type("go\r")
			w.expect("Now the parser.")
			if tt.env != "" {
				w.Type("\x03")
				w.expect("interrupted")
				w.expect("> ")
				w.Type("/quit\r")
				w.ends(exitOK)
				require.NotContains(t, w.Raw(), "1 job")
				require.NotContains(t, w.Raw(), "write the test")
				return
			}
			w.screen("working", "1 job")
			w.Type("\x03")
			w.expect("interrupted")
			w.screen("at the prompt", "1 job")
			w.Type("/jobs stop bash-1\r")
			w.Until("no job", func(e *ttytest.Emulator) bool {
				return strings.HasSuffix(strings.TrimSpace(e.Text()), "stop bash-1\n>")
			})
			w.Type("\x04")
			w.done(exitOK)
		})
	}
}

// withInstructions returns a function that makes a directory whose project brings texts for the model.
func withInstructions(t *testing.T) func(dir string) {
	return func(dir string) {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Use tabs.\n"), 0o644))
	}
}

// The question about the texts of a project comes before a model that would read them, and breaks between words.
func TestWalkTrust(t *testing.T) {
	t.Parallel()
	w := newWalk(t, "trust")
	w.prepare = withInstructions(t)
	w.start(44, newService(t, says("Hello.", "end_turn")).env())
	w.screen("question", "y n")
	w.Type("n")
	w.screen("not trusted", "leaves.")
	w.Type("hello\r")
	w.expect("Hello.")
	w.stands("")
	w.screen("answer", "tokens in")
	w.Type("\x04")
	w.done(exitOK)
}

// From the demo, the user comes to a model with a key that is not shown. It is in no file and no variable of a command, and
// one that is refused is asked for again.
func TestWalkKey(t *testing.T) {
	t.Parallel()
	keys := []string{"sk-ant-typed-0123456789", "sk-ant-pasted-9876543210"}
	s := newService(t, refuses(http.StatusUnauthorized, "authentication_error"), says("Hello.", "end_turn"))
	w := newWalk(t, "key")
	state := t.TempDir()
	w.start(80, []string{"XDG_STATE_HOME=" + state, "EDITOR=false"}, "-base-url", s.URL)
	w.expect("check pass.")
	w.Type("\x15/model\r")
	w.screen("the choice", "number or words")
	w.Type("xai\r")
	w.expect("XAI_API_KEY: ")
	w.Type("\x03")
	w.Until("the prompt", func(e *ttytest.Emulator) bool { return strings.HasSuffix(e.Text(), "\ndemo>") })
	w.Type("/model anthropic/claude-sonnet-4-5\r")
	w.expect("ANTHROPIC_API_KEY: ")
	w.Type(keys[0] + "xy\x7f\x7f\x13\x07\x1b[A")
	w.shows("ANTHROPIC_API_KEY: " + strings.Repeat("•", len(keys[0])))
	w.expect("To keep it, set ANTHROPIC_API_KEY in the profile of your shell")
	w.Type("\r")
	w.expect("Using anthropic/claude-sonnet-4-5.")
	w.Type("hello\r")
	w.expect("/model asks for another one")
	w.stands("")
	w.Type("/model anthropic/claude-sonnet-4-5\r")
	w.expect("ANTHROPIC_API_KEY: ")
	w.Type("\x1b[200~" + keys[1] + "\n\x1b[201~")
	w.Type("\r")
	w.expect("From the next turn on")
	w.Type("hello again\r")
	w.expect("Hello.")
	w.stands("")
	w.Type("!env; echo all\r")
	w.expect("all")
	w.stands("")
	w.Type("\x04")
	w.done(exitOK)
	require.Equal(t, keys, s.keys)
	for _, key := range keys {
		require.NotContains(t, w.Raw(), key)
		for _, dir := range []string{w.cmd.Dir, state} {
			require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(name)
				require.NotContains(t, string(data), key, name)
				return err
			}))
		}
	}
}

// A key leads to an answer of a service: the program shows the words that were recorded.
func TestWalkToTheFirstAnswer(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(corpus.Path(t, "wire/core/anthropic-messages", "answers in a terminal"), "*.json"))
	require.NoError(t, err)
	var answers []http.HandlerFunc
	var texts []string
	for _, name := range names {
		body, text := recordedAnswer(t, name)
		if text == "" {
			continue
		}
		texts = append(texts, text)
		answers = append(answers, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := w.Write([]byte(body))
			assert.NoError(t, err)
		})
	}
	require.NotEmpty(t, answers)
	w := &walk{terminal: &terminal{t: t, temp: t.TempDir()}}
	w.start(200, newService(t, answers...).env())
	w.expect("Using anthropic/")
	for i, text := range texts {
		before := len(w.Text())
		w.Type(fmt.Sprintf("question %d\r", i+1))
		w.Until("an answer", func(e *ttytest.Emulator) bool {
			return strings.Count(e.Text(), " tokens in · ") == i+1
		})
		w.stands("")
		shown := word.FindAllString(w.Text()[max(before-200, 0):], -1)
		for _, want := range word.FindAllString(text, -1) {
			at := slices.Index(shown, want)
			require.GreaterOrEqual(t, at, 0, "%q of %q in\n%s", want, text, w.Text())
			shown = shown[at+1:]
		}
	}
	w.stands("")
	w.Type("\x04")
	w.ends(exitOK)
	t.Logf("%d answers ran", len(texts))
}

var word = regexp.MustCompile(`[\pL\pN]+`)

// recordedAnswer returns the body of a streamed answer that is complete and needs no tool, and its text.
func recordedAnswer(t *testing.T, name string) (body, text string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var c struct {
		Origin       string
		Interactions []struct {
			Streaming bool
			Response  struct {
				Status int
				Body   string
			}
			Expected struct {
				Text     string
				Calls    []any `json:"tool_calls"`
				Complete bool
				Finish   string `json:"finish_reason"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &c))
	i := c.Interactions[0]
	if len(c.Interactions) != 1 || c.Origin != "recorded" || !i.Streaming || i.Response.Status != http.StatusOK ||
		!i.Expected.Complete || len(i.Expected.Calls) > 0 || i.Expected.Finish != "end_turn" {
		return "", ""
	}
	return i.Response.Body, i.Expected.Text
}

// Every way to answer a question about a change.
func TestWalkApprovals(t *testing.T) {
	t.Parallel()
	change := func(old, text string) http.HandlerFunc {
		return calls("edit_file", fmt.Sprintf(`{"path":"a.txt","old_string":%q,"new_string":%q}`, old, text))
	}
	s := newService(t, calls("read_file", `{"path":"a.txt"}`), change("one", "1"), change("two", "2"), change("three", "333"),
		change("four", "4444"), change("five", "555555"), says("Done.", "end_turn"))
	w := newWalk(t, "approvals")
	editor := filepath.Join(t.TempDir(), "editor")
	require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\nsed s/333/3/ \"$1\" >\"$1.new\"; mv \"$1.new\" \"$1\"\n"), 0o755))
	w.prepare = fileIn("a.txt", "one\ntwo\nthree\nfour\nfive\n")
	w.start(80, append(s.env(), "EDITOR="+editor))
	w.expect("> ")
	w.Type("Write the numbers as digits.\r")
	w.screen("a question", "y yes")
	w.Type("?")
	w.expect("show all of it, and this")
	w.screen("? shows all of it", "y yes")
	w.Type("y")
	w.expect("edit_file a.txt")
	w.screen("y does it", "y yes")
	w.Type("n")
	w.screen("n asks why", "Tell the model why")
	w.Type("keep the word\r")
	w.screen("and tells it", "y yes")
	w.Type("e")
	w.screen("e changes it first", "y yes")
	w.Type("a")
	w.screen("a offers rules", "Number, with s")
	w.Type("1\r")
	w.expect("Done.")
	w.screen("and asks no more", ">")
	w.Type("\x04")
	w.done(exitOK)
	requireFile(t, "1\ntwo\n3\n4444\n555555\n", w.cmd.Dir, "a.txt")
	require.Contains(t, s.requests()[3], "keep the word")
}

// Every way to answer a conflict with what the user has changed meanwhile.
func TestWalkConflicts(t *testing.T) {
	t.Parallel()
	w := newWalk(t, "conflicts")
	files := []string{"y.txt", "tt.txt", "eee.txt", "wwww.txt", "nnnnn.txt"}
	var dir string
	var answers []http.HandlerFunc
	for _, name := range files {
		change := calls("edit_file", fmt.Sprintf(`{"path":%q,"old_string":"two","new_string":"agent"}`, name))
		answers = append(answers, calls("read_file", fmt.Sprintf(`{"path":%q}`, name)), func(rw http.ResponseWriter, r *http.Request) {
			assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("one\nuser\nthree\nmore\n"), 0o644))
			change(rw, r)
		})
	}
	editor := filepath.Join(t.TempDir(), "editor")
	require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\nprintf 'one\\nboth\\nthree\\nmore\\n' >\"$1\"\n"), 0o755))
	w.prepare = func(cmdDir string) {
		dir = cmdDir
		for _, name := range files {
			fileIn(name, "one\ntwo\nthree\n")(dir)
		}
	}
	w.start(80, append(newService(t, append(answers, says("Done.", "end_turn"))...).env(), "EDITOR="+editor), "-mode", "accept-edits")
	w.expect("> ")
	w.Type("Change the files.\r")
	for _, name := range files {
		w.expect(name + "  you changed")
		w.screen(name, "y yours")
		w.Type(name[:1])
	}
	w.expect("Done.")
	w.screen("end", ">")
	w.Type("\x04")
	w.done(exitOK)
	for i, want := range []string{"user\nthree\nmore\n", "agent\nthree\nmore\n", "both\nthree\nmore\n", "", "user\nthree\nmore\n"} {
		if want != "" {
			requireFile(t, "one\n"+want, dir, files[i])
		}
	}
	marked, err := os.ReadFile(filepath.Join(dir, "wwww.txt"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)^one\n<<<<<<< .*user.*agent.*>>>>>>> .*three\nmore\n$`, string(marked))
}

// After a kill nothing is lost that was on the screen.
func TestWalkResumeAfterKill(t *testing.T) {
	t.Parallel()
	s := newService(t, says("It is blue.", "end_turn"), hangs("Because of the"), says("Because of the air.", "end_turn"), says("It is not.", "end_turn"))
	w := newWalk(t, "resume")
	dir := t.TempDir()
	env := append(s.env(), "XDG_STATE_HOME="+t.TempDir())
	w.start(80, env, "-C", dir)
	w.expect("> ")
	w.Type("What colour is the sky?\r")
	w.expect("tokens")
	w.stands("")
	w.Type("Why?\r")
	w.expect("Because of the")
	w.Signal(syscall.SIGKILL)
	require.Equal(t, 128+9, w.Wait())
	w.start(80, env, "-C", dir, "-c")
	w.expect("Because of the air.")
	w.stands("")
	w.screen("resumed", ">")
	w.Type("Why is it not green?\r")
	w.expect("It is not.")
	w.stands("")
	w.screen("and answered", ">")
	w.Type("\x04")
	w.done(exitOK)
	for i, texts := range [][]string{2: {"What colour", "It is blue.", "Why?"}, 3: {"What colour", "Because of the air.", "not green?"}} {
		for _, text := range texts {
			require.Contains(t, s.requests()[i], text)
		}
	}
}

// The tree, and a checkout of conversation and files.
func TestWalkTree(t *testing.T) {
	t.Parallel()
	writes := func(text string) http.HandlerFunc {
		return calls("write_file", fmt.Sprintf(`{"path":"a.txt","content":%q}`, text))
	}
	s := newService(t, writes("mutex\n"), says("Done.", "end_turn"), writes("channel\n"), says("Changed.", "end_turn"), says("It has one line.", "end_turn"))
	w := startWalk(t, "tree", 80, s.env(), "-mode", "accept-edits")
	w.expect("> ")
	for i, line := range []string{"use a mutex", "use a channel instead"} {
		w.Type(line + "\r")
		w.Until("an answer", func(e *ttytest.Emulator) bool { return strings.Count(e.Text(), " tokens in · ") == i+1 })
		w.stands("")
	}
	requireFile(t, "channel\n", w.cmd.Dir, "a.txt")
	w.Type("/tree\r")
	w.screen("tree", "Go to")
	w.Type("1\r")
	w.shows("Take back")
	w.Type("b\r")
	w.shows("Do it?  y yes")
	w.Type("y")
	w.screen("checkout", ">")
	requireFile(t, "mutex\n", w.cmd.Dir, "a.txt")
	w.Type("how long is it?\r")
	w.expect("It has one line.")
	w.stands("")
	w.Type("/tree\r")
	w.screen("branches", "Go to")
	w.Type("\r")
	w.stands("")
	w.Type("\x04")
	w.done(exitOK)
	require.NotContains(t, s.requests()[4], "use a channel")
}

// A paste of 5,000 lines is one line of the screen, and all of it is sent.
func TestWalkPaste(t *testing.T) {
	t.Parallel()
	s := newService(t, says("I see 5,000 lines.", "end_turn"))
	w := startWalk(t, "paste", 80, s.env())
	w.expect("> ")
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("line %d of the log", i+1))
	}
	w.Type("what is this? \x1b[200~" + strings.Join(lines, "\r") + "\x1b[201~ thanks")
	w.screen("pasted", "thanks")
	w.Type("\r")
	w.expect("I see 5,000 lines.")
	w.screen("sent", ">")
	w.Type("\x04")
	w.done(exitOK)
	require.Contains(t, s.requests()[0], strings.Join(lines, `\n`)+" thanks")
}

// The size changes while an answer streams. No word is lost, and nothing of the lines that change stays.
func TestWalkResize(t *testing.T) {
	t.Parallel()
	const pieces = 6
	var more [pieces]chan struct{}
	resized := make(chan struct{})
	for i := range more {
		more[i] = make(chan struct{})
	}
	var all []string
	answer := func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		sse(w, "content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
		for i := range more {
			select {
			case <-more[i]:
			case <-r.Context().Done():
				return
			}
			sse(w, "content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": all[i]}})
		}
		select { // the line below the answer is written in the last size
		case <-resized:
		case <-r.Context().Done():
		}
		sse(w, "content_block_stop", object{"index": 0})
		end(w, "end_turn")
	}
	for i := range pieces {
		var text strings.Builder
		for n := range 30 {
			fmt.Fprintf(&text, "word%d%d ", i, n)
		}
		all = append(all, text.String()+fmt.Sprintf("last%d\n\n", i))
	}
	w := startWalk(t, "resize", 80, newService(t, answer).env())
	w.expect("> ")
	w.Type("tell me\r")
	for i, cols := range []int{40, 100, 20, 60, 200, 80} {
		close(more[i])
		w.expect(fmt.Sprintf("last%d", i))
		w.Resize(cols, 24)
		w.Type(fmt.Sprint(i))
		w.Until("the line", func(e *ttytest.Emulator) bool {
			rows := lastRows(e, 3)
			return strings.HasSuffix(strings.Join(rows, "\n"), "› "+"012345"[:i+1]) || strings.HasSuffix(strings.Join(rows, "\n"), "> "+"012345"[:i+1])
		})
	}
	close(resized)
	w.expect("tokens")
	w.screen("end", "012345")
	w.Type("\x15\x04")
	w.done(exitOK)
	shown := strings.Join(strings.Fields(w.Text()), "")
	for _, text := range all {
		require.Contains(t, shown, strings.Join(strings.Fields(text), ""))
	}
	require.NotContains(t, w.Text(), "thinking")
}

// fileIn returns a function that writes a file into a directory.
func fileIn(name, text string) func(dir string) {
	return func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			panic(err)
		}
	}
}

func requireFile(t *testing.T, want, dir, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.Equal(t, want, string(data))
}
