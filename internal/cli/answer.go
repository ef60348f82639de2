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

// choices are the answers to a question: what the line of the question says of each, which begins with the key.
type choices []string

var (
	toCall = choices{"y yes", "n no, say why", "a always", "e edit", "?"}
	yesNo  = choices{"y yes", "n no"}
)

// keys returns the keys alone.
func (c choices) keys() (keys []string) {
	for _, text := range c {
		key, _, _ := strings.Cut(text, " ")
		keys = append(keys, key)
	}
	return keys
}

// words returns what answers in a plain terminal.
func (c choices) words() (words []string) {
	for i, key := range c.keys() {
		words = append(words, key)
		switch {
		case key == "y":
			words = append(words, "yes")
		case key == "n":
			words = append(words, "no")
		case strings.HasPrefix(c[i], "k keep"):
			words = append(words, "keep")
		case strings.HasPrefix(c[i], "r remove"):
			words = append(words, "remove")
		}
	}
	return words
}

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
	hint, keys := "", strings.Join(q.may, " · ")
	if u.width() < narrow {
		keys = strings.Join(q.may.keys(), " ")
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
// answers. Other lines are sent.
func (c *chat) answerKey(what string, may choices) (byte, error) {
	keys := strings.Join(may.keys(), "")
	q := &question{what: what, may: may, Question: tty.Question{Keys: keys + strings.ToUpper(keys), Words: may.words()}}
	q.Typed(c.lastKey)
	c.asked = q
	defer func() { c.asked = nil }()
	c.fresh()
	if c.Fancy() {
		return c.answerByKey(q)
	}
	return c.answerByLine(q)
}

func (c *chat) answerByKey(q *question) (byte, error) {
	c.refresh()
	if err := c.Flush(); err != nil {
		return 0, err
	}
	q.Show(time.Now())
	told := false // the user who is away
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		k, err := c.key(tick.C)
		switch {
		case err != nil:
			return 0, err
		case k.At.IsZero(): // a tick
			if !told && c.away() {
				c.alert(q.what)
				told = true
			}
			continue
		case c.isStop(k):
			c.lastKey = k.At
			return 0, errInterrupt
		case isKey(k, "ctrl+d") && c.editor.Empty():
			return endOfInput, nil
		}
		switch q.Key(k, !c.editor.Empty()) {
		case tty.Answered:
			c.lastKey = k.At
			key := strings.ToLower(string(k.Rune))[0]
			c.line("  " + c.paint(bold, q.what) + "  " + string(key))
			return key, nil
		case tty.ToLine:
			if ev := c.typed(k); ev.Kind == line.Submit {
				c.send(ev.Text)
			}
		}
	}
}

// answerByLine asks for a line. Only one of the listed words counts, and only if it was begun after the question was
// printed. The question is printed when nobody seems to be typing.
func (c *chat) answerByLine(q *question) (byte, error) {
	shown := false
	for {
		var due <-chan time.Time
		if !shown {
			due = time.After(time.Until(q.Due()))
		}
		k, err := c.key(due)
		switch {
		case err == io.EOF:
			if !shown {
				c.Print("  " + q.what)
			}
			c.text("\n")
			return 0, err
		case err != nil:
			return 0, err
		case k.At.IsZero() && c.editor.Empty() && c.keys.Half() == nil:
			q.Show(time.Now()) // a line that was begun before does not count
			c.Print("  " + q.what + "  (" + strings.Join(q.may.keys(), "/") + ") ")
			_ = c.Flush()
			shown = true
			continue
		case k.At.IsZero(): // somebody has begun a line
			q.Typed(time.Now())
			continue
		}
		ev := c.typed(k)
		if ev.Kind != line.Submit {
			if !shown {
				q.Typed(k.At)
			}
			continue
		}
		if q.Line(ev.Text, ev.Began, k.At) == tty.Answered {
			return strings.TrimSpace(ev.Text)[0], nil
		}
		if strings.TrimSpace(ev.Text) != "" {
			c.send(ev.Text)
		}
		if shown {
			c.prose("", "  Please answer with one of "+strings.Join(q.Words, ", "))
		}
		shown = false
	}
}
