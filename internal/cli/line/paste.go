package line

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A large paste is one character of the text, a marker of a private area of Unicode. It is
// shown as a label and sent as a whole. Nerd Fonts have symbols below U+F2000.
const (
	firstMarker = '\U000f8000'
	lastMarker  = '\U000fffff'

	largeLines = 10
	largeBytes = 2000
)

func isMarker(r rune) bool { return r >= firstMarker && r <= lastMarker }

// sanitize makes text from elsewhere safe: control characters are visible, markers are
// not taken for pastes, and it is valid UTF-8.
func sanitize(text string) string {
	return strings.Map(func(r rune) rune {
		if isMarker(r) {
			return utf8.RuneError
		}
		return r
	}, tty.Clean(text))
}

// insertPaste inserts a paste, or a marker for a large one.
func (e *Editor) insertPaste(text string) {
	e.save("")
	e.insert(e.compact(text))
}

// compact returns the form in which a text is edited: a marker if it is large.
func (e *Editor) compact(text string) string {
	large := len(text) > largeBytes || strings.Count(text, "\n") >= largeLines
	if !large || len(e.pastes) > lastMarker-firstMarker {
		return sanitize(text)
	}
	e.pastes = append(e.pastes, text)
	return string(firstMarker + rune(len(e.pastes)-1))
}

// replaceMarkers replaces the markers of pastes in a text.
func (e *Editor) replaceMarkers(text string, by func(i int) string) string {
	if !strings.ContainsFunc(text, isMarker) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if i := int(r - firstMarker); isMarker(r) && i < len(e.pastes) {
			b.WriteString(by(i))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// whole returns a text with the contents of its pastes.
func (e *Editor) whole(text string) string {
	return e.replaceMarkers(text, func(i int) string { return e.pastes[i] })
}

// shown returns a text with labels for its pastes.
func (e *Editor) shown(text string) string { return e.replaceMarkers(text, e.label) }

func (e *Editor) label(i int) string {
	lines := strings.Count(strings.TrimSuffix(e.pastes[i], "\n"), "\n") + 1
	size := fmt.Sprintf("%s lines", thousands(lines))
	if lines == 1 {
		size = thousands(utf8.RuneCountInString(e.pastes[i])) + " characters"
	}
	return fmt.Sprintf("[paste #%d: %s]", i+1, size)
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// openPaste replaces the marker at or in front of the cursor by the paste.
func (e *Editor) openPaste() {
	for _, at := range []int{e.at, e.prev(e.at)} {
		r, n := utf8.DecodeRuneInString(e.text[at:])
		if i := int(r - firstMarker); isMarker(r) && i < len(e.pastes) {
			e.save("")
			e.remove(at, at+n)
			e.insert(sanitize(e.pastes[i]))
			return
		}
	}
}
