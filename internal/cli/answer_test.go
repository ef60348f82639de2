package cli

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
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
	ran  int
}

func newDesk(t *testing.T, fancy bool) *desk {
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
	loop, err := aycoder.New(model, aycoder.WithTools(tool), aycoder.WithApprover(slow))
	require.NoError(t, err)
	talk := newTalk(t, loop)
	input, keys := io.Pipe()
	d.keys = keys
	d.chat = &chat{
		view: newView(plainScreen(d), false), keys: newKeyboard(input, nil), agent: talk, talk: talk,
	}
	d.fancy = fancy
	return d
}

// Write detects a question.
func (d *desk) Write(p []byte) (int, error) {
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
	_, err := d.talk.Checkout(t.Context(), sessions.Root)
	require.NoError(t, err)
	d.ran = 0
	synctest.Wait()
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
	for _, m := range d.talk.View().Messages(d.talk.Head()) {
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

func sentence(r *rand.Rand) string {
	words := make([]string, 3+r.IntN(6))
	for i := range words {
		words[i] = sentenceWords[r.IntN(len(sentenceWords))]
	}
	return strings.Join(words, " ")
}

// Sentences are typed at 30 to 60 words a minute, from two seconds before the question to
// three after it, with a pause in every fourth. None answers the question, and none loses
// a letter.
func TestTypingAnswersNothing(t *testing.T) {
	const sentences = 1000
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range sentences {
			text, perKey := sentence(r), 60*time.Second/time.Duration(5*(30+r.IntN(31)))
			done := d.asks(t)
			time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
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
			require.Equal(t, text, string(d.typed))
			d.types(t, "\x1b")
			<-done
			require.Zero(t, d.ran)
			require.NotContains(t, d.outcome(), "refused", text)
			require.Equal(t, strings.TrimSpace(text), d.fill)
			d.last = time.Time{} // two interrupts in a row would quit
		}
		d.keys.Close()
		t.Logf("%d sentences, no answer", sentences)
	})
}

// Lines that are not an answer decide nothing, whatever they begin with, and neither does
// a line that was typed before the question.
func TestLinesAnswerNothing(t *testing.T) {
	const sentences = 1000
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
		{"y and enter", true, []string{"y", "\r"}, "done"},
		{"tab and y", true, []string{"\t", "y"}, "done"},
		{"n", true, []string{"n", "", "\r"}, "refused"},
		{"n and enter", true, []string{"n", "\r", "", "\r"}, "refused"},
		{"line y", false, []string{"y\n"}, "done"},
		{"line yes", false, []string{"yes\n"}, "done"},
		{"line no", false, []string{"no\n", "\n"}, "refused"},
	}
	const times = 25
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, tt.fancy)
				for range times {
					done := d.asks(t)
					<-d.seen
					time.Sleep(600 * time.Millisecond)
					for _, key := range tt.keys {
						if key == "" {
							time.Sleep(quietFor + tickEvery)
							continue
						}
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
		{"two keys", time.Second, []string{"y", "e"}, "ye"},
		{"a key that is held down", time.Second, []string{"y", "y", "y"}, "yyy"},
		{"taken back", time.Second, []string{"y", "\x7f"}, ""},
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
				require.Equal(t, tt.typed, string(d.typed))
				require.Zero(t, d.ran)
				d.types(t, "\x03")
				<-done
				require.NotContains(t, d.outcome(), "refused")
				d.keys.Close()
			})
		})
	}
}
