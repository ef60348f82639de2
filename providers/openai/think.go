package openai

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// A thinkFilter separates thinking from text. It is an interface, so that the linker can
// leave out the implementation if a program does not use [WithThinkTags].
type thinkFilter interface {
	split(s string) (thinking, text string)
	rest() (thinking, text string)
}

func newChatThink() thinkFilter { return &chatThink{} }

// A chatThink finds thinking between tags at the beginning of a streamed text. Tags in
// other places are text.
type chatThink struct {
	state thinkState
	fresh bool   // only line breaks came since the opening tag
	held  string // possibly the beginning of a tag
}

type thinkState int

const (
	thinkBefore thinkState = iota // only white space came
	thinkInside
	thinkAfter  // the closing tag came, and then only white space
	thinkPassed // the rest is text
)

// split returns the new thinking and the new text in s. It holds back an ending of s that
// may be the beginning of a tag.
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
	// white space after the tag belongs to neither
	if text = strings.TrimLeft(s, xmlSpace); text != "" {
		t.state = thinkPassed
	}
	return thinking, text
}

// open looks for the opening tag, and returns the text after the tag.
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

// inside returns the thinking up to the closing tag, and the rest behind the tag.
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

// rest returns the text that was held back, because no more text can complete a tag.
func (t *chatThink) rest() (thinking, text string) {
	held := t.held
	t.held = ""
	if t.state == thinkInside {
		return held, ""
	}
	return "", held
}

// overlap returns the length of the longest suffix of s that is a prefix of tag.
func overlap(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}
