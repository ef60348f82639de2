package cli

import (
	"slices"
	"strings"
	"time"
)

// A user must not decide by typing. A key decides only if it could not have been meant
// for anything else. The question must have been visible long enough to be read, and the
// key must come alone in its read, after a second of silence. It counts after another
// second of silence, or at once if Enter confirms it. Nobody types such a key within a
// sentence. Tab, which does not occur in a sentence either, moves the focus to the
// question, and the next key decides without any silence. All other keys are text for the
// next prompt.
const (
	// time for which a question must be visible before a key counts
	readTime = 500 * time.Millisecond
	quietFor = time.Second // silence before and after an answer
)

// choices are the keys that answer a question, besides ? and the end of input.
type choices struct {
	keys  string
	hint  string   // in the line of the question
	words []string // that answer in a plain terminal
}

var (
	toCall = choices{"yYnNaAeE?", "y yes · n no, say why · a always · e edit · ?", []string{"y", "yes", "n", "no", "a", "e", "?"}}
	yesNo  = choices{"yYnN", "y yes · n no", []string{"y", "yes", "n", "no"}}
)

// A questionLine is the line that asks for a key, the last one on the screen.
type questionLine struct {
	what    string
	shown   time.Time
	may     choices
	focused bool      // by Tab
	held    byte      // an answer that counts unless another key follows
	heldAt  time.Time // time of that answer
}

// answerKey returns the key that answers; in a plain terminal it is the first byte of the
// line that answers.
func (c *chat) answerKey(what string, may choices) (byte, error) {
	if !c.fancy {
		return c.answerLine(what, may)
	}
	c.fresh()
	q := &questionLine{what: what, may: may, shown: time.Now()}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		c.setPrompt("  "+what, c.hint(q))
		select {
		case in := <-c.keys.listen():
			c.keys.took(in)
			if key := c.press(q, in.data); key != 0 {
				return c.answered(q, key), nil
			}
			if c.stopping {
				return 0, errInterrupt
			}
			if c.keys.closed {
				return 0, in.err
			}
		case sig := <-c.keys.signals:
			return 0, signalError(sig)
		case now := <-tick.C:
			if q.held != 0 && now.Sub(q.heldAt) >= quietFor {
				return c.answered(q, q.held), nil
			}
		}
	}
}

// answered leaves the question and its answer on the screen.
func (c *chat) answered(q *questionLine, key byte) byte {
	if key != keyCtrlD {
		c.setPrompt("  "+q.what, "  "+strings.ToLower(string(key)))
		c.status = false
		c.write("\n")
	}
	return key
}

// press handles the bytes of one read. It returns the key that answers the question, or
// 0.
func (c *chat) press(q *questionLine, data []byte) byte {
	now := time.Now()
	if len(data) == 1 && !c.pasting && now.Sub(q.shown) >= readTime {
		switch key := data[0]; {
		case q.held != 0 && (key == '\r' || key == '\n'):
			return q.held
		case q.held != 0:
		case key == '\t':
			q.focused = true
			return 0
		case !q.focused && now.Sub(c.lastKey) < quietFor:
		case key == keyCtrlD || key == '?' && strings.Contains(q.may.keys, "?"):
			return key
		case strings.IndexByte(q.may.keys, key) >= 0:
			if q.focused {
				return key
			}
			q.held, q.heldAt = key, now
			return 0
		}
	}
	if q.held != 0 {
		data = slices.Concat([]byte{q.held}, data)
	}
	q.held, q.focused = 0, false
	c.typing(data)
	return 0
}

// hint describes the effect that a key has now.
func (c *chat) hint(q *questionLine) string {
	typed := ""
	if len(c.typed) > 0 {
		typed = " · typed: " + tail(clean(string(c.typed)), 20)
	}
	now := time.Now()
	switch {
	case now.Sub(q.shown) < readTime:
		return ""
	case q.held != 0:
		return "  " + strings.ToLower(string(q.held)) + " · enter now, or wait; more typing takes it back"
	case !q.focused && now.Sub(c.lastKey) < quietFor:
		return "  tab to answer" + typed
	}
	return "  " + q.may.hint + typed
}

// answerLine asks for a line. Only one of the listed words counts, and only if it was
// typed after the question was printed.
func (c *chat) answerLine(what string, may choices) (byte, error) {
	var keys []string
	for _, w := range may.words {
		if len(w) == 1 {
			keys = append(keys, w)
		}
	}
	for {
		c.fresh()
		shown := time.Now()
		c.flush()
		c.write("  " + what + "  (" + strings.Join(keys, "/") + ") ")
		line, err := c.lineSince(shown)
		if err != nil {
			return 0, err
		}
		if word := strings.TrimSpace(line); slices.Contains(may.words, word) {
			return word[0], nil
		}
		c.line("  Please answer with one of " + strings.Join(may.words, ", "))
	}
}

// lineSince reads a line that was typed entirely after a moment. Earlier text stays for
// the next prompt.
func (c *chat) lineSince(shown time.Time) (string, error) {
	for {
		if err := c.keys.fill(); err != nil {
			c.write("\n")
			return "", err
		}
		if !c.keys.at.Before(shown) {
			return c.plainLine()
		}
		c.keep(c.keys.ahead)
	}
}
