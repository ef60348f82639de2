package cli

import (
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/gittest"
)

// A terminal is the program in a pseudo terminal.
type terminal struct {
	*ttytest.Terminal

	t    *testing.T
	cmd  *exec.Cmd
	temp string
	cols int // 0 means 80
	rows int // 0 means 24

	seen  int // some lines before the text that expect has found
	found map[seenAt]bool
}

// startTerminal starts the program in a new terminal.
func startTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	p := &terminal{t: t, temp: t.TempDir()}
	p.begin(args, env, func(*exec.Cmd) {})
	return p
}

// begin starts the program, after prepare has seen its command.
func (p *terminal) begin(args, env []string, prepare func(*exec.Cmd)) {
	p.t.Helper()
	p.seen, p.found = 0, map[seenAt]bool{}
	p.cmd = program(p.t, append([]string{"TERM=xterm-256color", "TMPDIR=" + p.temp}, env...), args...)
	prepare(p.cmd)
	p.Terminal = ttytest.Start(p.t, p.cmd, cmp.Or(p.cols, 80), cmp.Or(p.rows, 24))
}

// endsByEOF answers every question and prompt with the end of the input until the program ends.
func (p *terminal) endsByEOF() {
	p.t.Helper()
	const mark = "\r\n[it has ended]"
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = p.cmd.Wait()
		_, _ = p.Slave.WriteString(mark)
	})
	defer func() {
		_ = p.cmd.Process.Kill() // after a failure
		ended.Wait()
	}()
	asks := regexp.MustCompile(`y yes[^\n]*(\n[>›]?)?$|(^|\n)>$`)
	answered := ""
	p.Until("the end", func(e *ttytest.Emulator) bool {
		text := strings.TrimRight(e.Text(), " \n")
		if text != answered && asks.MatchString(text) {
			answered = text
			p.Type("\x04")
		}
		return strings.HasSuffix(text, strings.TrimSpace(mark))
	})
}

// expect waits for a text on the screen, or above it, near the previously expected one or behind it. The status area
// moves, so what was in it may be printed some lines above. A text that was found is not found again in its place.
func (p *terminal) expect(text string) {
	p.t.Helper()
	p.Until(text, func(e *ttytest.Emulator) bool {
		all := e.Text() + " "
		for from := min(p.seen, len(all)); ; {
			i := strings.Index(all[from:], text)
			if text == "> " { // a prompt, and not a line that was entered at one
				all = strings.TrimRight(all, " \n") + " "
				i = strings.LastIndex(all, text) - from
				if !strings.HasSuffix(all, text) || p.found[seenAt{from + i, text}] {
					return false
				}
			}
			if i < 0 {
				return false
			}
			at := seenAt{from + i, text}
			if from = at.index + 1; p.found[at] {
				continue
			}
			p.found[at] = true
			p.seen = at.index
			for range 4 {
				p.seen = max(strings.LastIndexByte(all[:p.seen], '\n'), 0)
			}
			return true
		}
	})
}

type seenAt struct {
	index int
	text  string
}

// lastRows returns at most n rows at the end of the screen.
func lastRows(e *ttytest.Emulator, n int) []string {
	rows := strings.Split(e.Text(), "\n")
	return rows[max(len(rows)-n, 0):]
}

// answersBehind presses a key for a question while text stands in the line.
func (p *terminal) answersBehind(key string) {
	p.t.Helper()
	p.shows("tab to answer")
	p.Type("\t")
	p.shows("now: y yes")
	p.Type(key)
}

// answers presses a key when a question accepts one.
func (p *terminal) answers(key string) {
	p.t.Helper()
	p.shows("y yes")
	p.Type(key)
}

// prompts waits until a line is asked for.
func (p *terminal) prompts(text string) {
	p.t.Helper()
	p.Until("prompt "+text, func(e *ttytest.Emulator) bool {
		rows := lastRows(e, 3)
		last := rows[len(rows)-1]
		return !strings.HasPrefix(last, "›") && !strings.HasPrefix(last, ">") && strings.Contains(strings.Join(rows, "\n"), text)
	})
}

// shows waits until the last lines of the screen, where the status area is, have a text.
func (p *terminal) shows(text string) {
	p.t.Helper()
	p.Until(text+" in the status area", func(e *ttytest.Emulator) bool {
		return strings.Contains(strings.Join(lastRows(e, 4), "\n"), text)
	})
}

// ends waits for the end of the program, and checks that terminal and disk are as before.
func (p *terminal) ends(code int) {
	p.t.Helper()
	require.Equal(p.t, code, p.Wait(), p.Text())
	p.Restored()
	left, err := filepath.Glob(filepath.Join(p.temp, "aycoder-*"))
	require.NoError(p.t, err)
	require.Empty(p.t, left, "nothing is left")
}

func TestDemo(t *testing.T) {
	t.Parallel()
	p := startTerminal(t, nil)
	p.expect("No model configured: no key of a provider is set (such as ANTHROPIC_API_KEY)")
	p.expect(demoTask)
	start := time.Now()
	p.Type("\r")
	p.expect("FAIL greet Ada Bob")
	p.expect("Apply?")
	asked := time.Since(start)
	p.answers("y")
	p.expect("ok   greet Ada Bob")
	p.expect("The check passes")
	p.expect("demo · 6 tools · 0 tokens in · 0 out")
	t.Logf("asked after %v, done after %v, typing pace and %v to read the question included",
		asked.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), tty.ReadTime)
	p.expect("demo> ")
	p.Type("\x04")
	p.ends(exitOK)
	require.Contains(t, p.Text(), " 4 - for n; do names=\"$names,$n\"; done\n 4 + for n; do names=\"$names, $n\"; done\n")
	require.Regexp(t, `(?m)^● bash sh check.sh +exit 1 · [\d.]+m?s$`, p.Text())
}

// Text that was typed before the question does not answer it, and is in the next prompt.
func TestKeysBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: keys pressed too early in a terminal")
	}
	p := startTerminal(t, nil)
	p.expect(demoTask)
	p.Type("\r")
	p.expect("I will look")
	p.Type("yes")
	p.expect("Apply?")
	p.answersBehind("n")
	p.expect("Tell the model why")
	p.Type("keep it as it is\r")
	p.expect("edit_file greet.sh refused: keep it as it is")
	p.expect("I propose the change")
	p.expect("demo> yes")
	p.Type("\x15go on\r") // ctrl-u clears the line
	p.expect("Apply?")
	p.answers("y")
	p.expect("The check passes")
	p.expect("demo> ")
	p.Type("\x04")
	p.ends(exitOK)
}

// Neither a paste nor a key whose escape sequence contains a letter is an answer.
func TestPasteIsNoAnswer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: pasting into a terminal")
	}
	p := startTerminal(t, nil)
	p.expect(demoTask)
	p.Type("\r")
	p.expect("Apply?")
	p.Type("\x1b[200~y\x1b[201~")
	p.Type("\x1b[A") // the up key has an A in it
	p.answersBehind("?")
	p.expect("change the arguments first")
	p.expect("Apply?")
	p.answersBehind("a")
	p.expect("2  edit_file of files in this directory")
	p.Type("1\r")
	p.expect("The check passes")
	p.expect("demo> y")
	p.Type("\x15\x04") // the paste is text
	p.ends(exitOK)
}

// Half a line that was typed before the question does not become part of the answer.
func TestHalfALineBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	ask := make(chan struct{})
	slow := func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		textBlock(w, 0, "Looking")
		<-ask
		sse(w, "content_block_stop", object{"index": 0})
		sse(w, "content_block_start", object{"index": 1, "content_block": object{
			"type": "tool_use", "id": "toolu_1", "name": "bash", "input": object{"command": "touch made"}}})
		sse(w, "content_block_stop", object{"index": 1})
		end(w, "tool_use")
	}
	p := startTerminal(t, append(newService(t, slow, says("Done.", "end_turn")).env(), "TERM=dumb"))
	p.expect("> ")
	p.Type("go\r")
	p.expect("Looking")
	p.Type("y")
	p.expect("y") // the echo shows that the terminal has received it
	close(ask)
	p.expect("Run it?")
	p.Type("\r")
	p.expect("Please answer with one of")
	p.expect("Run it?")
	p.Type("yes\r")
	p.expect("Done.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
}

func TestEndOfInputMeansNo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: the end of the input in a terminal")
	}
	for _, env := range []string{"TERM=xterm", "TERM=dumb"} {
		t.Run(env, func(t *testing.T) {
			p := startTerminal(t, []string{env})
			p.expect(demoTask)
			p.Type("\r")
			p.expect("Apply?")
			if env == "TERM=xterm" {
				p.expect("y yes")
			}
			p.Type("\x04")
			p.expect("no (end of input)")
			p.expect("edit_file greet.sh refused: end of input")
			p.expect("I propose the change")
			p.expect("demo> ")
			if env == "TERM=xterm" {
				p.Type("\x04")
			} // the end of a plain terminal's input is permanent
			p.ends(exitOK)
		})
	}
}

func TestPlainTerminals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: terminals without colours")
	}
	for _, env := range []string{"TERM=dumb", "TERM="} {
		t.Run(env, func(t *testing.T) {
			p := startTerminal(t, []string{env})
			p.expect("[" + demoTask + "]")
			p.Type("\r")
			p.expect("Apply?")
			p.Type("y\r")
			p.expect("The check passes")
			p.expect("demo> ")
			p.Type("/quit\r")
			p.ends(exitOK)
			require.NotContains(t, p.Raw(), "\x1b")
		})
	}
}

func TestEditTheArguments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: editing arguments in a terminal")
	}
	p := startTerminal(t, nil)
	p.expect(demoTask)
	p.Type("\r")
	p.expect("Apply?")
	p.answers("e")
	p.prompts("Arguments: ")
	p.Type("\r")
	p.expect("Nothing was changed.")
	p.answers("e")
	p.prompts("Arguments: ")
	p.Type("\x15{\"path\":1}\r")
	p.expect("invalid arguments")
	p.expect("Apply?")
	p.answers("e")
	p.prompts("Arguments: ")
	p.Type("\x15" + `{"path":"greet.sh","old_string":"$names,$n","new_string":"$names; $n"}` + "\r")
	p.expect("got  Hello Ada; Bob!")
	p.expect("The check still fails with the change as it is now")
	p.expect("demo> ")
	p.Type("\x04")
	p.ends(exitOK)
}

// The editor has exclusive use of the terminal, in its original mode.
func TestEditInAnEditor(t *testing.T) {
	t.Parallel()
	editor := filepath.Join(t.TempDir(), "editor")
	script := "#!/bin/sh\nstty -a | grep -o -- '-\\?icanon'\nprintf 'name? '; read name\nsed \"s/, /, $name /\" \"$2\" >\"$2.new\"; mv \"$2.new\" \"$2\"\n"
	require.NoError(t, os.WriteFile(editor, []byte(script), 0o755))
	p := startTerminal(t, []string{"EDITOR=" + editor + " -n"})
	p.expect(demoTask)
	p.Type("\r")
	p.expect("Apply?")
	p.answers("e")
	p.expect("icanon")
	require.NotContains(t, p.Raw(), "-icanon")
	p.expect("name? ")
	p.Type("dear\r")
	p.expect("got  Hello Ada, dear Bob!")
	p.expect("demo> ")
	p.Type("\x04")
	p.ends(exitOK)
}

// Ctrl-C stops the turn and keeps the conversation, which is in the next request.
func TestInterruptKeepsTheConversation(t *testing.T) {
	t.Parallel()
	s := newService(t, hangs("Let me think"), says("Here I am again.", "end_turn"))
	p := startTerminal(t, s.env())
	p.expect("> ")
	p.Type("first question\r")
	p.expect("Let me think")
	p.Type("\x03")
	p.expect("interrupted. The conversation is kept")
	p.expect("1 answer not counted")
	p.expect("> ")
	p.Type("second question\r")
	p.expect("Here I am again.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
	last := s.requests()[1]
	for _, text := range []string{"first question", "Let me think", "second question"} {
		require.Contains(t, last, text)
	}
}

// NO_COLOR leaves out colours and nothing else.
func TestNoColor(t *testing.T) {
	t.Parallel()
	p := startTerminal(t, []string{"NO_COLOR=1"})
	p.expect(demoTask)
	p.Type("\r")
	p.expect("Apply?")
	p.answers("y")
	p.expect("The check passes")
	p.expect("demo> ")
	p.Type("\x04")
	p.ends(exitOK)
	require.NotRegexp(t, `\x1b\[[0-9;]*(3[0-7]|4[0-7]|9[0-7])m`, p.Raw())
	require.Contains(t, p.Raw(), "\x1b[1m", "bold is no colour")
}

// A signal ends the demo, too, and its directory is removed.
func TestSignalEndsTheDemo(t *testing.T) {
	t.Parallel()
	p := startTerminal(t, nil)
	p.expect(demoTask)
	p.Type("\r")
	p.expect("Apply?")
	p.Signal(syscall.SIGTERM)
	p.ends(exitTerminated)
	require.Contains(t, p.Raw(), "\x1b[?2004l", "pastes are not bracketed any more")
}

// Text that is typed while the agent works, and ended with Enter, reaches the model.
func TestSteering(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		textBlock(w, 0, "Looking")
		<-release
		sse(w, "content_block_stop", object{"index": 0})
		sse(w, "content_block_start", object{"index": 1, "content_block": object{
			"type": "tool_use", "id": "toolu_1", "name": "list_files", "input": object{}}})
		sse(w, "content_block_stop", object{"index": 1})
		end(w, "tool_use")
	}
	s := newService(t, slow, says("Heard.", "end_turn"))
	p := startTerminal(t, s.env())
	p.expect("> ")
	p.Type("go\r")
	p.expect("Looking")
	p.Type("also the testx\x7fs\r")
	p.expect("also the tests")
	close(release)
	p.expect("Heard.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
	require.Contains(t, s.requests()[1], "also the tests")
}

// A saved rule holds in the next process, in the same directory.
func TestSavedRuleOutlivesTheProgram(t *testing.T) {
	t.Parallel()
	touch := calls("bash", `{"command":"touch a b"}`)
	s := newService(t, touch, says("Made.", "end_turn"), touch, says("Made again.", "end_turn"))
	p := startTerminal(t, s.env(), "first")
	p.expect("writes workspace: ")
	p.expect("Run it?")
	p.answers("a")
	p.expect("2  bash like: touch * (* is any words), at most writes workspace")
	p.expect("Number, with s to save")
	p.Type("2s\r")
	p.expect("Made.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)

	again := program(t, append(s.env(), "HOME="+p.cmd.Dir), "-p", "second")
	again.Dir = p.cmd.Dir
	out, err := again.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "Made again.")
}

// Texts of a model or a tool cannot move the cursor or change the title.
func TestNoForeignEscapes(t *testing.T) {
	t.Parallel()
	evil := "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\rdone"
	s := newService(t, says(evil, "end_turn"),
		calls("bash", `{"command":"touch x; printf '\\033]0;owned\\007\\302\\2332J\\033[8m'","description":"\u001b[2Jharmless"}`),
		says("The end.", "end_turn"))
	p := startTerminal(t, s.env(), "first")
	p.expect("done")
	p.expect("> ")
	p.Type("second\r")
	p.expect("Run it?")
	p.answers("y")
	p.expect("The end.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
	raw := regexp.MustCompile(`\x1b\]0;(\* )?aycoder \d+\x07`).ReplaceAllString(p.Raw(), "") // the title that is ours
	require.NotEqual(t, p.Raw(), raw)
	for _, bad := range []string{"\x1b]0", "\x07", "\x1b[2J", "\x1b[8m", "\u009b", "\u202e"} {
		require.NotContains(t, raw, bad)
	}
	require.Contains(t, p.Text(), "␛]0;owned")
}

// The suggestions come to the first prompt, whenever they are found, and the line that is being typed stays as it is.
func TestUnaskedSuggestions(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"TERM=xterm-256color", "TERM=dumb"} {
		t.Run(env, func(t *testing.T) {
			found := filepath.Join(t.TempDir(), "found") // git waits until somebody reads it
			require.NoError(t, syscall.Mkfifo(found, 0o600))
			git, err := exec.LookPath("git")
			if err != nil {
				t.Skip("git is not installed")
			}
			bin := t.TempDir()
			script := "#!/bin/sh\n[ -p " + found + " ] && echo x > " + found + "\nexec " + git + " \"$@\"\n"
			require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755))
			s := newService(t, says("Heard.", "end_turn"))
			p := &terminal{t: t, temp: t.TempDir()}
			p.begin(nil, append(s.env(), env, "PATH="+bin+":"+os.Getenv("PATH")), func(cmd *exec.Cmd) {
				gittest.Run(t, cmd.Dir, "init", "-q")
				for name, text := range map[string]string{".gitignore": ".*\n", "a.txt": "a\n"} {
					require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, name), []byte(text), 0o600))
				}
				gittest.Run(t, cmd.Dir, "add", "-A")
				gittest.Run(t, cmd.Dir, "commit", "-qm", "x")
				for name, text := range map[string]string{"a.txt": "changed\n", "b.txt": "token = ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5\n"} {
					require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, name), []byte(text), 0o600))
				}
			})
			p.expect("Do you trust this?")
			if env == "TERM=dumb" {
				p.expect("(y/n)")
				p.Type("n\r")
			} else {
				p.answers("n")
			}
			p.expect("> ")
			p.Type("say hel")
			p.expect("say hel")
			_, err = os.ReadFile(found)
			require.NoError(t, err)
			require.NoError(t, os.Remove(found))
			if env == "TERM=dumb" {
				p.Type("\x15") // the terminal has the line
				for !strings.Contains(p.Text(), "Open here") {
					p.Type("\r")
					p.expect("> ")
				}
				p.Type("say hel")
			}
			for _, text := range []string{"Open here", "1 secret is in the text", "1 changed file is not committed: a.txt", "1 new file is not in git: b.txt"} {
				p.Until(text, func(e *ttytest.Emulator) bool { return strings.Contains(e.Text(), text) })
			}
			p.Type("lo\r")
			p.expect("Heard.")
			p.expect("> ")
			p.Type("\x04")
			p.ends(exitOK)
			require.Contains(t, s.requests()[0], `"say hello"`)
			require.NotContains(t, p.Raw(), "ghp_")
		})
	}
}
