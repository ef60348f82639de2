package line_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// A desk is what a host makes of a terminal, an editor and a question. Its clock is told.
type desk struct {
	plain   bool // the terminal delivers lines, and edits them itself
	decoder tty.Decoder
	editor  *line.Editor
	q       *tty.Question
	asked   time.Time // when the host wants an answer; zero for not yet
	pending []byte    // a line that is not complete, in a plain terminal
	last    time.Time // when something was read, until nothing has followed for long
	sent    []string
	answers []string
}

func newDesk(plain bool) *desk {
	return &desk{
		plain: plain, decoder: tty.Decoder{Lines: plain}, editor: line.New(line.Options{}),
		q: &tty.Question{Keys: "yYnNaAeE?", Words: []string{"y", "yes", "n", "no", "a", "e", "?"}},
	}
}

// types is what comes in one write of a keyboard.
func (d *desk) types(keys string, at time.Time) {
	if !d.plain {
		d.read([]byte(keys), at)
		return
	}
	for _, b := range []byte(keys) {
		if b == '\r' {
			b = '\n'
		}
		d.pending = append(d.pending, b)
		if b == '\n' {
			d.read(d.pending, at)
			d.pending = nil
		}
	}
}

func (d *desk) read(p []byte, at time.Time) {
	d.idle(at)
	d.last = at
	for _, k := range d.decoder.Read(p, at) {
		d.key(k)
	}
}

// idle is that nothing has come since the last read: a paste without brackets ends after 50 ms.
func (d *desk) idle(now time.Time) {
	due := d.last.Add(50 * time.Millisecond)
	if d.last.IsZero() || now.Before(due) {
		return
	}
	d.last = time.Time{}
	for _, k := range d.decoder.Flush(due) {
		d.key(k)
	}
}

func (d *desk) key(k tty.Key) {
	if d.plain {
		if k.Name != tty.Enter {
			d.q.Typed(k.At)
		}
	} else if v := d.q.Key(k, !d.editor.Empty()); v != tty.ToLine {
		if v == tty.Answered {
			d.answers = append(d.answers, string(k.Rune))
			d.q.Hide()
		}
		return
	}
	ev := d.editor.Key(k)
	if ev.Kind != line.Submit {
		return
	}
	if d.plain && d.q.Line(ev.Text, ev.Began, k.At) == tty.Answered {
		d.answers = append(d.answers, ev.Text)
		return
	}
	d.sent = append(d.sent, ev.Text)
	if d.plain && !d.asked.IsZero() {
		d.asked = d.q.Due()
	}
}

// shows puts the question on the screen at its time. A plain terminal is first asked for
// what has been typed of a line.
func (d *desk) shows(now time.Time) {
	d.idle(now)
	if d.asked.IsZero() || now.Before(d.asked) || !d.shownAt().IsZero() {
		return
	}
	if d.plain {
		if due := d.q.Due(); now.Before(due) {
			d.asked = due
			return
		}
		half := d.pending
		d.pending = nil
		d.read(half, now)
	}
	d.q.Show(now)
}

// shownAt is when the question was shown, as far as hints tell.
func (d *desk) shownAt() time.Time {
	if d.q.Hint(time.Unix(1<<40, 0), true) == tty.NoHint {
		return time.Time{}
	}
	return d.asked
}

// end is the end of everything: what is left of a line is in the line.
func (d *desk) all() string {
	d.idle(d.last.Add(time.Hour))
	return strings.Join(append(slices.Clone(d.sent), d.editor.Text()), "\n") + string(d.pending)
}

// A stroke is a write of a keyboard at a time after the first one.
type stroke struct {
	at   time.Duration
	keys string
}

var sentenceWords = strings.Fields(`yes no and yet never always edit nothing also any every new your a e y n ?
	please look at the tests first then fix what you find in it but do not touch my notes y n a e`)

// sentence returns words of which some are sent by Enter.
func sentence(r *rand.Rand) string {
	var b strings.Builder
	for i := range 3 + r.IntN(6) {
		if i > 0 {
			b.WriteString([]string{" ", " ", " ", "\r"}[r.IntN(4)])
		}
		b.WriteString(sentenceWords[r.IntN(len(sentenceWords))])
	}
	return b.String()
}

// typist types a sentence in one of several ways.
func typist(r *rand.Rand, text string, plain bool) []stroke {
	perKey := time.Minute / time.Duration(5*(20+r.IntN(101)))
	var out []stroke
	at := time.Duration(0)
	way := r.IntN(5)
	for i := 0; i < len(text); {
		n := 1
		gap := min(time.Duration(float64(perKey)*(0.3+1.4*r.Float64())), tty.Quiet)
		switch {
		case way == 1 && r.IntN(3) == 0: // a burst in one read
			n = 1 + r.IntN(6)
		case way == 2 && r.IntN(3) == 0: // a burst in several
			gap = time.Duration(r.IntN(5)) * time.Millisecond
		case way == 3 && i > 0: // the rest is pasted
			return append(out, pasted(r, text[i:], at, plain)...)
		case way == 4 && r.IntN(8) == 0: // a pause
			gap = time.Duration(r.Int64N(int64(tty.Quiet) + 1))
			if i > 0 && text[i-1] != '\r' {
				gap = time.Duration(r.Int64N(int64(10 * time.Second)))
			}
		case way == 4 && r.IntN(8) == 0: // the longest one
			gap = tty.Quiet
		}
		if i > 0 {
			at += gap
		}
		n = min(n, len(text)-i)
		out = append(out, stroke{at, text[i : i+n]})
		i += n
	}
	return out
}

func pasted(r *rand.Rand, text string, at time.Duration, plain bool) (out []stroke) {
	at += time.Duration(r.Int64N(int64(time.Second)))
	if !plain && r.IntN(2) == 0 {
		text = "\x1b[200~" + text + "\x1b[201~"
	}
	for text != "" {
		n := min(1+r.IntN(16), len(text))
		if r.IntN(2) == 0 {
			n = len(text)
		}
		out = append(out, stroke{at, text[:n]})
		text = text[n:]
		at += time.Duration(r.IntN(3)) * time.Millisecond
	}
	return out
}

const sentences = 1000

// Sentences that are begun before a question is shown, and typed at 20 to 120 words a
// minute, with pauses, in bursts and pasted, answer nothing. No letter of them is lost.
func TestTypingAnswersNothing(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			sent, shown := 0, 0
			for range sentences {
				text := sentence(r)
				strokes := typist(r, text, plain)
				d := newDesk(plain)
				last := strokes[len(strokes)-1].at
				d.asked = start.Add(time.Duration(r.Int64N(int64(last) + 1)))
				for now := start; len(strokes) > 0; {
					d.shows(now)
					if next := strokes[0]; !now.Before(start.Add(next.at)) {
						d.types(next.keys, now)
						strokes = strokes[1:]
						continue
					}
					now = d.next(now, start.Add(strokes[0].at))
				}
				require.Equal(t, strings.ReplaceAll(text, "\r", "\n"), d.all())
				require.Empty(t, d.answers, "%q", text)
				sent += len(d.sent)
				if !d.shownAt().IsZero() {
					shown++
				}
			}
			require.Greater(t, sent, sentences/2)
			require.Greater(t, shown, sentences/4)
			t.Logf("%d sentences, %d lines sent, %d questions on the screen at the end, no answer", sentences, sent, shown)
		})
	}
}

// next returns the time at which something happens.
func (d *desk) next(now, stroke time.Time) time.Time {
	if d.shownAt().IsZero() && d.asked.After(now) && d.asked.Before(stroke) {
		return d.asked
	}
	return stroke
}

// A single y answers at once, whenever the question can be read and nobody was typing.
func TestSingleKeyAnswers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, plain := range []bool{false, true} {
		for range 100 {
			d := newDesk(plain)
			d.types("before\r", start)
			d.asked = start.Add(time.Duration(r.Int64N(int64(5 * time.Second))))
			shown := d.asked
			if due := d.q.Due(); plain && shown.Before(due) {
				shown = due
			}
			d.asked = shown
			d.shows(shown)
			at := slices.MaxFunc([]time.Time{shown.Add(tty.ReadTime), start.Add(tty.Quiet + 1)}, time.Time.Compare).Add(time.Duration(r.Int64N(int64(time.Minute))))
			d.types("y", at)
			if plain {
				d.types("\r", at.Add(time.Second/5))
			}
			require.Equal(t, []string{"y"}, d.answers)
			require.Equal(t, []string{"before"}, d.sent)
			require.True(t, d.editor.Empty())
		}
	}
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		strokes []stroke // after the question was shown
		answer  string
		line    string // what is in the line, or was sent
	}{
		{"a key", []stroke{{600 * time.Millisecond, "n"}}, "n", ""},
		{"in capitals", []stroke{{600 * time.Millisecond, "Y"}}, "Y", ""},
		{"as a sequence", []stroke{{600 * time.Millisecond, "\x1b[121u"}}, "", "y"},
		{"before it could be read", []stroke{{499 * time.Millisecond, "y"}}, "", "y"},
		{"as soon as it could be read", []stroke{{500 * time.Millisecond, "y"}}, "y", ""},
		{"not listed", []stroke{{time.Second, "x"}}, "", "x"},
		{"two keys in one read", []stroke{{time.Second, "yy"}}, "", "yy"},
		{"a key and enter in one read", []stroke{{time.Second, "y\r"}}, "", "y\n"},
		{"a second key too soon", []stroke{{time.Second, "x"}, {time.Second + 1, "\x7f"}, {2*time.Second + 1, "y"}}, "", "y"},
		{"a second key later", []stroke{{time.Second, "x"}, {time.Second + 1, "\x7f"}, {2*time.Second + 2, "y"}}, "y", ""},
		{"behind unsent text", []stroke{{time.Second, "x"}, {time.Minute, "y"}}, "", "xy"},
		{"alt and y", []stroke{{time.Second, "\x1by"}}, "", ""},
		{"ctrl and y", []stroke{{time.Second, "\x19"}}, "", ""},
		{"a paste", []stroke{{time.Second, "\x1b[200~y\x1b[201~"}}, "", "y"},
		{"a paste in pieces", []stroke{{time.Second, "\x1b[200~"}, {time.Minute, "y"}, {2 * time.Minute, "\x1b[201~"}}, "", "y"},
		{"tab", []stroke{{time.Second, "\t"}, {time.Second + 1, "y"}}, "y", ""},
		{"tab behind unsent text", []stroke{{time.Second, "x"}, {time.Second + 1, "\t"}, {time.Second + 2, "y"}}, "y", "x"},
		{"tab, and a key that is not listed", []stroke{{time.Second, "\t"}, {time.Second + 1, "x"}, {time.Second + 2, "y"}}, "", "xy"},
		{"tab twice", []stroke{{time.Second, "\t"}, {time.Second + 1, "\t"}, {time.Second + 2, "y"}}, "", "y"},
		{"tab, and a paste", []stroke{{time.Second, "\t"}, {time.Second + 1, "\x1b[200~y\x1b[201~"}}, "", "y"},
		{"tab, and two keys in one read", []stroke{{time.Second, "\t"}, {time.Second + 1, "yy"}}, "", "yy"},
		{"tab and a key in one read", []stroke{{time.Second, "\ty"}}, "", "y"},
		{"tab before it could be read", []stroke{{499 * time.Millisecond, "\t"}, {500 * time.Millisecond, "y"}}, "", "y"},
		{"shift and tab", []stroke{{time.Second, "\x1b[Z"}, {time.Second + 1, "y"}}, "", "y"},
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(false)
			d.asked = start
			d.shows(start)
			for _, s := range tt.strokes {
				d.types(s.keys, start.Add(s.at))
			}
			require.Equal(t, tt.answer, strings.Join(d.answers, ""))
			require.Equal(t, tt.line, d.all())
		})
	}
}

func TestQuestionInPlainTerminals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		before  string // typed before the question, in time for its Due
		strokes []stroke
		answer  string
		line    string
	}{
		{"a letter", "", []stroke{{time.Second, "y\r"}}, "y", ""},
		{"a word", "", []stroke{{time.Second, " yes \r"}}, " yes ", ""},
		{"at once", "", []stroke{{1, "no\r"}}, "no", ""},
		{"another word", "", []stroke{{time.Second, "yesterday\r"}}, "", "yesterday\n"},
		{"enter", "", []stroke{{time.Second, "\r"}}, "", "\n"},
		{"half a line before", "ye", []stroke{{time.Second, "s\r"}}, "", "yes\n"},
		{"a whole word before", "yes", []stroke{{time.Second, "\r"}}, "", "yes\n"},
		{"a line that does not answer, and one that follows at once", "", []stroke{{time.Second, "well\r"}, {time.Second + 2, "yes\r"}}, "", "well\nyes\n"},
		{"the question is asked again", "", []stroke{{time.Second, "well\r"}, {5 * time.Second, "yes\r"}}, "yes", "well\n"},
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(true)
			d.types(tt.before, start.Add(-time.Hour))
			d.asked = start
			d.shows(start)
			for _, s := range tt.strokes {
				d.shows(d.next(start, start.Add(s.at)))
				d.types(s.keys, start.Add(s.at))
			}
			require.Equal(t, tt.answer, strings.Join(d.answers, ""))
			require.Equal(t, tt.line, d.all())
		})
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	q := &tty.Question{Keys: "y"}
	require.Equal(t, tty.NoHint, q.Hint(start, false))
	q.Typed(start)
	q.Show(start)
	require.Equal(t, tty.NoHint, q.Hint(start.Add(tty.ReadTime-1), false))
	require.Equal(t, tty.HintTab, q.Hint(start.Add(tty.ReadTime), false))
	require.Equal(t, tty.HintTab, q.Hint(start.Add(tty.Quiet), false))
	require.Equal(t, tty.HintKeys, q.Hint(start.Add(tty.Quiet+1), false))
	require.Equal(t, tty.HintTab, q.Hint(start.Add(tty.Quiet+1), true))
	require.Equal(t, tty.Focused, q.Key(tty.Key{Name: tty.Tab, At: start.Add(time.Second), Read: 1}, true))
	require.Equal(t, tty.HintFocused, q.Hint(start.Add(time.Second), true))
	q.Hide()
	require.Equal(t, tty.NoHint, q.Hint(start.Add(time.Hour), false))
}
