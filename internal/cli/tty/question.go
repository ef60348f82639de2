package tty

import (
	"slices"
	"strings"
	"time"
)

// The times of a [Question]: it can be read in ReadTime, and somebody who has not pressed
// a key for longer than Quiet is not typing.
const (
	ReadTime = 500 * time.Millisecond
	Quiet    = time.Second
)

// A Question decides which keys answer a question, so that nobody decides by typing. A key
// answers if the question has been on the screen for [ReadTime], no key came within the
// last [Quiet], it came alone, and no unsent text stands in the line. Otherwise the key is
// text for the line, and Tab gives the next key to the question. A paste never answers.
//
// In a plain terminal, which delivers lines, only one of the words answers, in a line that
// was begun after the question was shown.
//
// A Question has no clock: it is told all keys, with their times, also those that came
// before it was asked.
type Question struct {
	Keys  string   // the characters that answer
	Words []string // the lines that answer in a plain terminal

	shown   time.Time // zero if the question is not on the screen
	last    time.Time // of the newest key
	focused bool
}

// A Verdict says what a key was for.
type Verdict int

const (
	// ToLine is the verdict for a key that is text, or has another meaning.
	ToLine Verdict = iota
	// Answered is the verdict for a key that answers the question.
	Answered
	// Focused is the verdict for a key that gives the next one to the question.
	Focused
)

// Show tells that the question is on the screen since a time.
func (q *Question) Show(at time.Time) { q.shown = at }

// Hide tells that the question is not on the screen any more.
func (q *Question) Hide() { q.shown, q.focused = time.Time{}, false }

// Typed tells the time of a key that was not for the question to judge, such as those
// before it was asked.
func (q *Question) Typed(at time.Time) {
	if at.After(q.last) {
		q.last = at
	}
}

// Key decides about a key. Unsent says whether the line has text.
func (q *Question) Key(k Key, unsent bool) Verdict {
	quiet, focused := k.At.Sub(q.last) > Quiet, q.focused
	q.focused = false
	q.Typed(k.At)
	switch {
	case !q.readable(k.At) || !k.alone():
		return ToLine
	case k.Name == Tab && k == (Key{Name: Tab, At: k.At, Read: 1}) && !focused:
		q.focused = true
		return Focused
	case q.listed(k) && (focused || quiet && !unsent):
		return Answered
	}
	return ToLine
}

func (q *Question) readable(now time.Time) bool {
	return !q.shown.IsZero() && now.Sub(q.shown) >= ReadTime
}

func (q *Question) listed(k Key) bool {
	return k.Printable() && strings.ContainsRune(q.Keys, k.Rune)
}

// Line decides about a line of a plain terminal, whose first character came at a time. A
// line that does not answer is text for the next prompt; the question must then be shown
// again, not before the time that [Question.Due] returns.
func (q *Question) Line(line string, began, at time.Time) Verdict {
	fresh := !q.shown.IsZero() && began.After(q.shown)
	q.Typed(at)
	if fresh && slices.Contains(q.Words, strings.TrimSpace(line)) {
		return Answered
	}
	q.Hide()
	return ToLine
}

// Due returns the time before which a question must not be shown in a plain terminal.
// Whoever goes on typing has begun the next line by then, and [Input.Half], which must be
// called before [Question.Show], finds that.
func (q *Question) Due() time.Time { return q.last.Add(Quiet + time.Millisecond) }

// A Hint says what the screen should tell about the keys.
type Hint int

const (
	// NoHint means that no key answers yet.
	NoHint Hint = iota
	// HintKeys means that a key answers.
	HintKeys
	// HintTab means that a key answers after Tab.
	HintTab
	// HintFocused means that the next key answers, after Tab was pressed.
	HintFocused
)

// Hint returns what a key would do now.
func (q *Question) Hint(now time.Time, unsent bool) Hint {
	switch {
	case !q.readable(now):
		return NoHint
	case q.focused:
		return HintFocused
	case unsent || now.Sub(q.last) <= Quiet:
		return HintTab
	}
	return HintKeys
}
