package cli

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	sessions "github.com/aycoder/aycoder/session"
)

const askedAfter = 2 * time.Second // time before the question of a turn

// A desk is a chat with a simulated user, in the fake time of a bubble. Each of its turns
// asks whether a tool may run.
type desk struct {
	*chat
	keys *io.PipeWriter
	seen chan struct{} // a question is on the screen
	rung []string      // what has rung, as it was written
	ran  int
}

func newDesk(t *testing.T, fancy bool, more ...harness.Option) *desk {
	t.Helper()
	d := &desk{seen: make(chan struct{}, 1)}
	act := func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		d.ran++
		return aycoder.TextResult("done"), nil
	}
	tool, err := aycoder.NewTool("act", "Acts.", act)
	require.NoError(t, err)
	model := script.New(script.Func(func(req *aycoder.Request) script.Step {
		if out := script.LastOutput(req); out.ID != "" {
			return script.Say("Well.")
		}
		return script.Call("act", struct{}{})
	})).With(script.WithLoop(true))
	slow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		time.Sleep(askedAfter)
		return aycoder.Ask()
	})
	rt, err := harness.New(t.Context(), t.TempDir(), append(more, harness.WithClient(model), harness.WithTools(tool), harness.WithApprover(slow),
		harness.WithStore(journal.Memory(), ""))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	input, keys := io.Pipe()
	d.keys = keys
	o := tty.Options{Plain: !fancy, Getenv: func(string) string { return "xterm" }}
	d.chat = newTestChat(t, input, d, o, &chat{session: &session{Runtime: rt}})
	return d
}

// Write detects a question, and a bell.
func (d *desk) Write(p []byte) (int, error) {
	if strings.HasSuffix(string(p), "\a") {
		d.rung = append(d.rung, string(p))
	}
	if strings.Contains(string(p), "Run it?") {
		select {
		case d.seen <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// asks starts a turn; the channel is closed at its end.
func (d *desk) asks(t *testing.T) <-chan struct{} {
	t.Helper()
	_, err := d.talk().Checkout(t.Context(), sessions.Root)
	require.NoError(t, err)
	d.ran = 0
	d.editor.Clear()
	synctest.Wait()
	require.NoError(t, d.Flush()) // the last question and its answer
	select {
	case <-d.seen:
	default:
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.turn(t.Context(), "act")
	}()
	return done
}

func (d *desk) types(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(d.keys, keys)
	require.NoError(t, err)
}

// outcome returns the outcome of the call.
func (d *desk) outcome() string {
	for _, m := range d.talk().View().Messages(d.talk().Head()) {
		for _, p := range m.Parts {
			if out, ok := p.(*aycoder.ToolOutput); ok {
				return out.Text()
			}
		}
	}
	return ""
}

var sentenceWords = strings.Fields(`yes no and yet never always edit nothing also any every new your a e y n
	please look at the tests first then fix what you find in it but do not touch my notes`)

// sentencesOf returns how many sentences are typed: AYCODER_SENTENCES, by default 200.
func sentencesOf(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("AYCODER_SENTENCES")); err == nil {
		return n
	}
	if timed.Reduced(t) {
		return 50 // each key wakes the same goroutines
	}
	return 200
}

func sentence(r *rand.Rand) string {
	words := make([]string, 3+r.IntN(6))
	for i := range words {
		words[i] = sentenceWords[r.IntN(len(sentenceWords))]
	}
	return strings.Join(words, " ")
}

// Behind an editor, which any key may open, the question is on the screen anew.
func TestKeyBehindAnEditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		d.editor = line.New(line.Options{Bindings: map[string]string{"ctrl+x": "edit"}})
		d.edit = func(_ string, text []byte) ([]byte, error) { time.Sleep(time.Minute); return text, nil }
		done := d.asks(t)
		time.Sleep(askedAfter + time.Minute)
		d.types(t, "\x18")
		time.Sleep(time.Minute + 100*time.Millisecond)
		d.types(t, "y")
		synctest.Wait()
		require.Zero(t, d.ran)
		require.Equal(t, "y", d.editor.Text())
		d.types(t, "\x1b")
		<-done
		require.Zero(t, d.ran)
		d.keys.Close()
	})
}

// Sentences are typed at 20 to 120 words a minute. Each is begun before the question, and goes on behind it, with a
// long pause in every fourth. None answers the question, and none loses a letter.
func TestTypingAnswersNothing(t *testing.T) {
	sentences := sentencesOf(t)
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range sentences {
			text, perKey := sentence(r), 60*time.Second/time.Duration(5*(20+r.IntN(101)))
			done := d.asks(t)
			time.Sleep(askedAfter - time.Duration(50+r.IntN(1500))*time.Millisecond)
			think := r.IntN(4 * len(text))
			for k, key := range []byte(text) {
				d.types(t, string(key))
				time.Sleep(perKey/2 + time.Duration(r.Int64N(int64(perKey))))
				if k == think && k > 0 && text[k] == ' ' {
					time.Sleep(2 * time.Second)
				}
			}
			time.Sleep(askedAfter)
			synctest.Wait()
			select {
			case <-done:
				require.Failf(t, "answered", "sentence %d: %q", i, text)
			default:
			}
			require.Equal(t, text, d.editor.Text())
			d.types(t, "\x1b")
			<-done
			require.Zero(t, d.ran)
			require.NotContains(t, d.outcome(), "refused", text)
			require.Equal(t, text, d.editor.Text(), "it stays in the line")
		}
		d.keys.Close()
		t.Logf("%d sentences, no answer", sentences)
	})
}

// Lines that are not an answer decide nothing, whatever they begin with, and neither does
// a line that was typed before the question.
func TestLinesAnswerNothing(t *testing.T) {
	sentences := sentencesOf(t)
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, false)
		r := rand.New(rand.NewPCG(3, 4))
		for range sentences {
			text := sentence(r)
			if strings.Contains(" y n a e ", " "+text+" ") {
				continue
			}
			done := d.asks(t)
			<-d.seen
			d.types(t, text+"\n")
			synctest.Wait()
			select {
			case <-done:
				require.Failf(t, "answered", "%q", text)
			default:
			}
			require.Zero(t, d.ran)
			<-d.seen // it is asked again
			time.Sleep(tickEvery)
			d.types(t, "n\n")
			d.types(t, "\n")
			<-done
			require.Contains(t, d.outcome(), "refused")
		}
		d.keys.Close()
		t.Logf("%d sentences, no answer", sentences)
	})
}

// A deliberate answer 0.6 s after the question counts at the first try, with Enter and
// without.
func TestDeliberateAnswers(t *testing.T) {
	tests := []struct {
		name  string
		fancy bool
		keys  []string // one read each
		want  string
	}{
		{"y", true, []string{"y"}, "done"},
		{"tab and y", true, []string{"\t", "y"}, "done"},
		{"n", true, []string{"n", "\r"}, "refused"},
		{"capital", true, []string{"Y"}, "done"},
		{"line y", false, []string{"y\n"}, "done"},
		{"line yes", false, []string{"yes\n"}, "done"},
		{"line no", false, []string{"no\n", "\n"}, "refused"},
	}
	times := 29
	if timed.Reduced(t) {
		times = 3
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, tt.fancy)
				for range times {
					done := d.asks(t)
					<-d.seen
					time.Sleep(600 * time.Millisecond)
					for _, key := range tt.keys {
						d.types(t, key)
						synctest.Wait()
					}
					<-done
					require.Contains(t, d.outcome(), tt.want)
				}
				d.keys.Close()
			})
		})
	}
	t.Logf("%d answers, all at the first try", times*len(tests))
}

// Keys that do not answer a question, one by one.
func TestKeysThatAnswerNothing(t *testing.T) {
	tests := []struct {
		name  string
		after time.Duration // since the question
		reads []string
		typed string
	}{
		{"before it could be read", 400 * time.Millisecond, []string{"y"}, "y"},
		{"tab before it could be read", 400 * time.Millisecond, []string{"\t", "y"}, "y"},
		{"two keys in one read", time.Second, []string{"yy"}, "yy"},
		{"a key and enter in one read", time.Second, []string{"y\r"}, ""},
		{"a paste", time.Second, []string{"\x1b[200~", "y", "\x1b[201~"}, "y"},
		{"two lines at once", time.Second, []string{"y\rsee what it does"}, "y\nsee what it does"},
		{"two lines in two writes", time.Second, []string{"y\r", "see what it does"}, "y\nsee what it does"},
		{"another key and then one that would", time.Second, []string{"x", "\x7f", "y"}, "y"},
		{"behind text", time.Second, []string{"x", "y"}, "xy"},
		{"text behind tab", time.Second, []string{"\t", "x", "y"}, "xy"},
		{"an arrow", time.Second, []string{"\x1b[A"}, ""},
		{"enter", time.Second, []string{"\r"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, true)
				done := d.asks(t)
				<-d.seen
				time.Sleep(tt.after)
				for _, keys := range tt.reads {
					d.types(t, keys)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.typed, d.editor.Text())
				require.Zero(t, d.ran)
				d.types(t, "\x03")
				<-done
				require.NotContains(t, d.outcome(), "refused")
				d.keys.Close()
			})
		})
	}
}

// The keys of a search in the history answer nothing, whether anything was found or not.
func TestSearchAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		done := d.asks(t)
		<-d.seen
		for _, key := range []string{"\x12", "x", "y"} {
			time.Sleep(2 * time.Second)
			d.types(t, key)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Zero(t, d.ran)
		d.types(t, "\x03")
		<-done
		d.keys.Close()
	})
}

// Interrupts that come while a command works at the prompt do not quit when it has ended.
func TestInterruptsBeforeThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		d.more = []Extension{{Slash: []SlashCommand{{Name: "wait", Run: func(context.Context, *harness.Runtime, string) (string, error) {
			time.Sleep(5 * time.Second)
			return "", nil
		}}}}}
		code := make(chan int, 1)
		go func() { code <- d.run(t.Context(), "") }()
		d.types(t, "/wait\r")
		for range 2 {
			time.Sleep(time.Second)
			d.types(t, "\x03")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, code)
		d.types(t, "\x03")
		d.types(t, "\x03")
		require.Equal(t, exitInterrupted, <-code)
		d.keys.Close()
	})
}

// Two interrupts at an empty prompt quit, within two seconds of each other and not within two seconds of a stop.
func TestInterruptsAtThePrompt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stopped time.Duration // ago
		typed   string
		between time.Duration
		want    []bool
	}{
		{"twice", time.Hour, "", time.Second, []bool{false, true}},
		{"slowly", time.Hour, "", 3 * time.Second, []bool{false, false, false}},
		{"with text", time.Hour, "text", time.Second, []bool{false, true}},
		{"right after a stop", 0, "", 500 * time.Millisecond, []bool{false, false, false, false, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, true)
				d.stopAt = time.Now().Add(-tt.stopped)
				d.editor.SetText(tt.typed)
				for i, want := range tt.want {
					require.Equal(t, want, d.interruptedTwice(), i)
					require.True(t, d.editor.Empty())
					time.Sleep(tt.between)
				}
				d.keys.Close()
			})
		})
	}
}

// Lines that were queued and have not reached the model are in the line again, and in the history.
func TestQueuedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		done := d.asks(t)
		synctest.Wait() // the first request is over
		d.types(t, "/compact keep names\r")
		time.Sleep(time.Second)
		d.types(t, "then this")
		d.types(t, "\x1b\r")
		<-d.seen
		d.types(t, "\x03")
		<-done
		require.Equal(t, "/compact keep names then this", d.editor.Text())
		require.Equal(t, []string{"then this", "/compact keep names"}, d.history.Entries())
		d.keys.Close()
	})
}

// Esc clears the line, and does nothing in an empty one. Twice within two seconds it opens the tree. A menu, a search and
// the keys of vi take it first.
func TestEscAtThePrompt(t *testing.T) {
	for _, tt := range []struct {
		name string
		vi   bool
		keys []string // one every second
		want string
	}{
		{"once", false, []string{"\x1b", "x", "\r"}, "x"},
		{"clears", false, []string{"half", "\x1b", "x", "\r"}, "x"},
		{"twice", false, []string{"\x1b", "\x1b"}, "/tree"},
		{"slowly", false, []string{"\x1b", "", "\x1b", "", "x", "\r"}, "x"},
		{"once to clear, and once more", false, []string{"half", "\x1b", "\x1b"}, "/tree"},
		{"ends a menu", false, []string{"/m", "\t", "\x1b", "x", "\r"}, "/mx"},
		{"ends a search", false, []string{"half", "\x12", "\x1b", "x", "\r"}, "halfx"},
		{"ends insert mode, and once more", true, []string{"half", "\x1b", "\x1b", "\x1b", "Ax", "\r"}, "halfx"},
		{"ends a command of vi", true, []string{"half", "\x1b", "d", "\x1b", "x", "\r"}, "hal"},
		{"in an empty line with the keys of vi", true, []string{"\x1b", "\x1b"}, "/tree"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, true)
				d.configure(config.Terminal{Vi: tt.vi})
				done := make(chan string)
				go func() {
					text, err := d.entered(t.Context())
					assert.NoError(t, err)
					done <- text
				}()
				for _, keys := range tt.keys {
					if keys != "" {
						d.types(t, keys)
					}
					time.Sleep(time.Second)
				}
				require.Equal(t, tt.want, <-done)
				d.keys.Close()
			})
		})
	}
}
