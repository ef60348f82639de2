package cli

import (
	"io"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A user must not decide by typing: [tty.Question] says which keys answer a question. All others are text for the
// line, and Enter sends it.

// choices are the keys that answer a question, besides the end of the input.
type choices struct {
	keys  string
	hint  string   // in the line of the question
	words []string // that answer in a plain terminal
}

// short returns the hint for a narrow terminal: the keys alone.
func (c choices) short() string {
	var keys []string
	for part := range strings.SplitSeq(c.hint, " · ") {
		key, _, _ := strings.Cut(part, " ")
		keys = append(keys, key)
	}
	return strings.Join(keys, " ")
}

var (
	toCall = choices{"yYnNaAeE?", "y yes · n no, say why · a always · e edit · ?", []string{"y", "yes", "n", "no", "a", "e", "?"}}
	yesNo  = choices{"yYnN", "y yes · n no", []string{"y", "yes", "n", "no"}}
)

// endOfInput is the answer of a user who has closed the input.
const endOfInput = 'd' - 'a' + 1

// A question is open, and the line that asks it is in the status area.
type question struct {
	tty.Question

	what string
	may  choices
}

// line says what a key would do now.
func (q *question) line(u *ui) string {
	hint, keys := "", q.may.hint
	if u.width() < narrow {
		keys = q.may.short()
	}
	switch q.Hint(time.Now(), !u.editor.Empty()) {
	case tty.HintKeys:
		hint = keys
	case tty.HintTab:
		hint = "tab to answer"
	case tty.HintFocused:
		hint = "now: " + keys
	}
	return "  " + u.paint(bold, q.what) + "  " + hint
}

// answerKey returns the key that answers, in lower case; in a plain terminal it is the first letter of the line that
// answers. Lines that are sent meanwhile go to send.
func (u *ui) answerKey(what string, may choices, send func(string)) (byte, error) {
	q := &question{what: what, may: may, Question: tty.Question{Keys: may.keys, Words: may.words}}
	q.Typed(u.lastKey)
	u.asked = q
	defer func() { u.asked = nil }()
	u.fresh()
	if u.Fancy() {
		return u.answerByKey(q, send)
	}
	return u.answerByLine(q, send)
}

func (u *ui) answerByKey(q *question, send func(string)) (byte, error) {
	u.refresh()
	if err := u.Flush(); err != nil {
		return 0, err
	}
	q.Show(time.Now())
	told := false // the user who is away
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		h := u.wait(nil, nil, tick.C)
		switch {
		case h.sig != nil:
			return 0, signalError(h.sig)
		case h.ended:
			return 0, io.EOF
		case h.tick:
			if !told && u.away() {
				u.alert(q.what)
				told = true
			}
			continue
		case u.isStop(h.key):
			u.lastKey = h.key.At
			return 0, errInterrupt
		case isKey(h.key, "ctrl+d") && u.editor.Empty():
			return endOfInput, nil
		case isKey(h.key, "ctrl+z", "ctrl+g"):
			q.Hide() // it is not on the screen meanwhile
			u.typed(h.key)
			q.Show(time.Now())
			continue
		}
		switch q.Key(h.key, !u.editor.Empty()) {
		case tty.Answered:
			u.lastKey = h.key.At
			key := strings.ToLower(string(h.key.Rune))[0]
			u.line("  " + u.paint(bold, q.what) + "  " + string(key))
			return key, nil
		case tty.ToLine:
			if ev := u.typed(h.key); ev.Kind == line.Submit {
				send(ev.Text)
			}
		}
	}
}

// answerByLine asks for a line. Only one of the listed words counts, and only if it was begun after the question was
// printed. The question is printed when nobody seems to be typing.
func (u *ui) answerByLine(q *question, send func(string)) (byte, error) {
	var keys []string
	for _, w := range q.may.words {
		if len(w) == 1 {
			keys = append(keys, w)
		}
	}
	shown := false
	for {
		var due <-chan time.Time
		if !shown {
			due = time.After(time.Until(q.Due()))
		}
		h := u.wait(nil, nil, due)
		switch {
		case h.sig != nil:
			return 0, signalError(h.sig)
		case h.ended:
			if !shown {
				u.Print("  " + q.what)
			}
			u.text("\n")
			return 0, io.EOF
		case h.tick && u.editor.Empty() && u.keys.Half() == nil:
			q.Show(time.Now()) // a line that was begun before does not count
			u.Print("  " + q.what + "  (" + strings.Join(keys, "/") + ") ")
			_ = u.Flush()
			shown = true
			continue
		case h.tick: // somebody has begun a line
			q.Typed(time.Now())
			continue
		}
		ev := u.typed(h.key)
		if ev.Kind != line.Submit {
			if !shown {
				q.Typed(h.key.At)
			}
			continue
		}
		if q.Line(ev.Text, ev.Began, h.key.At) == tty.Answered {
			return strings.TrimSpace(ev.Text)[0], nil
		}
		if strings.TrimSpace(ev.Text) != "" {
			send(ev.Text)
		}
		if shown {
			u.prose("", "  Please answer with one of "+strings.Join(q.may.words, ", "))
		}
		shown = false
	}
}
