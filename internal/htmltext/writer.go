package htmltext

import (
	"strings"

	"golang.org/x/net/html/atom"

	"github.com/aycoder/aycoder/internal/runes"
)

// A writer lays out text: it joins blanks, and puts off line breaks and signs until
// there is text behind them, so that what has none leaves nothing.
type writer struct {
	text  []byte
	limit int
	cut   bool

	breaks int    // before the next text
	space  bool   // before the next text, if no break is
	bullet string // at the start of the next line
	marks  []mark // that are open, the outermost first
}

// A mark is what stands around text within a line. It is written with the first text in it.
type mark struct {
	tag         atom.Atom
	open, close string
	written     bool
}

// append adds text up to the limit, cut between characters.
func (w *writer) append(s string) {
	room := w.limit - len(w.text)
	w.cut = w.cut || len(s) > room
	w.text = append(w.text, runes.Cut(s, max(room, 0))...)
}

// block ends the line, with an empty one behind it if n is 2. Text after a bullet begins on the
// bullet's line.
func (w *writer) block(n int) {
	w.space = false
	if w.bullet == "" {
		w.breaks = max(w.breaks, n)
	}
}

// words appends text whose blanks mean no more than one. It is the collapsing of white
// space in HTML: line breaks of the source mean nothing.
func (w *writer) words(s string) {
	for i, word := range strings.FieldsFunc(s, blank) {
		if i > 0 || blank(rune(s[0])) {
			w.space = true
		}
		w.lead()
		w.append(word)
	}
	if s != "" && blank(rune(s[len(s)-1])) {
		w.space = true
	}
}

// blank is white space in HTML. A no-break space is not one of them.
func blank(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f'
}

// lead writes what was put off. Signs come after the blank, so that they stand next to
// their text, as Markdown wants.
func (w *writer) lead() {
	switch {
	case w.breaks > 0 && len(w.text) > 0:
		w.append("\n\n"[:w.breaks])
	case w.space && len(w.text) > 0 && w.bullet == "":
		w.append(" ")
	}
	w.append(w.bullet)
	w.breaks, w.space, w.bullet = 0, false, ""
	for i := range w.marks {
		if m := &w.marks[i]; !m.written {
			w.append(m.open)
			m.written = true
		}
	}
}

// raw appends text as it is. Blanks and line breaks in it stay, apart from those of
// Windows.
func (w *writer) raw(s string) {
	if s == "" {
		return
	}
	w.lead()
	w.append(strings.ReplaceAll(s, "\r\n", "\n"))
}

// fence ends raw text. The fence has to be on a separate line.
func (w *writer) fence() {
	if n := len(w.text); n > 0 && w.text[n-1] != '\n' {
		w.append("\n")
	}
	w.append("```")
}

// open puts off the sign of an element until there is text for it.
func (w *writer) open(tag atom.Atom, open, close string) {
	if len(w.marks) < maxNested {
		w.marks = append(w.marks, mark{tag: tag, open: open, close: close})
	}
}

// close ends the innermost mark of an element, and those in it. Marks that cross, as in
// <b><i></b></i>, are closed in the order of Markdown, which has no other.
func (w *writer) close(tag atom.Atom) {
	i := len(w.marks) - 1
	for i >= 0 && w.marks[i].tag != tag {
		i--
	}
	for n := len(w.marks) - 1; i >= 0 && n >= i; n-- {
		if w.marks[n].written {
			w.append(w.marks[n].close)
		}
		w.marks = w.marks[:n]
	}
}
