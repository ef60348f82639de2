package openai

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// A thinkFilter tells thinking from text. It is an interface so that only a program
// which reads tags links how.
type thinkFilter interface {
	split(s string) (thinking, text string)
	rest() (thinking, text string)
}

func newChatThink() thinkFilter { return &chatThink{} }

// A chatThink finds thinking between tags at the beginning of a text that comes in
// pieces. Tags anywhere else are text.
type chatThink struct {
	state thinkState
	fresh bool   // nothing but line breaks came since the opening tag
	held  string // may be the beginning of a tag
}

type thinkState int

const (
	thinkBefore thinkState = iota // nothing but space came
	thinkInside
	thinkAfter  // the closing tag came, and nothing but space
	thinkPassed // the rest is text
)

// split returns what is known to be thinking and to be text of all that came.
func (t *chatThink) split(s string) (thinking, text string) {
	if t.state == thinkPassed {
		return "", s
	}
	s = t.held + s
	t.held = ""
	if t.state == thinkBefore {
		var ok bool
		if s, ok = t.open(s); !ok {
			return "", s
		}
	}
	if t.state == thinkInside {
		var ok bool
		if thinking, s, ok = t.inside(s); !ok {
			return thinking, ""
		}
	}
	if text = strings.TrimLeft(s, xmlSpace); text != "" { // space after the tag is no part of either
		t.state = thinkPassed
	}
	return thinking, text
}

// open looks for the opening tag, and returns what is behind it.
func (t *chatThink) open(s string) (rest string, ok bool) {
	head := strings.TrimLeft(s, xmlSpace)
	held := len(s)-len(head) <= maxHeld
	if rest, ok = strings.CutPrefix(head, thinkOpen); ok && held {
		t.state, t.fresh = thinkInside, true
		return rest, true
	}
	if held && strings.HasPrefix(thinkOpen, head) {
		t.held = s
		return "", false
	}
	t.state = thinkPassed
	return s, false
}

// inside returns the thinking up to the closing tag, and what is behind that if it came.
func (t *chatThink) inside(s string) (thinking, rest string, ok bool) {
	if t.fresh {
		s = strings.TrimLeft(s, "\r\n")
		t.fresh = s == ""
	}
	if thinking, rest, ok = strings.Cut(s, thinkClose); ok {
		t.state = thinkAfter
		return thinking, rest, true
	}
	n := len(s) - overlap(s, thinkClose)
	t.held = s[n:]
	return s[:n], "", false
}

// rest returns what was held back, at the end.
func (t *chatThink) rest() (thinking, text string) {
	held := t.held
	t.held = ""
	if t.state == thinkInside {
		return held, ""
	}
	return "", held
}

// overlap is the length of the longest end of s that tag begins with.
func overlap(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}
