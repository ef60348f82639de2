package line

import (
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A View is how the editor looks: lines of at most the width, and the cursor in them.
type View struct {
	Lines    []string
	Row, Col int
}

const tabWidth = 4

// A layout puts characters into rows.
type layout struct {
	View

	width  int
	prefix string // of a row that is not the first
	b      strings.Builder
	col    int
	bare   bool // the last thing is a prompt, or the blanks of a row or of a tab
}

// View returns the text with its prompt, wrapped at a width, and below it the candidates
// of a completion. Of a long text the lines around the cursor are returned.
func (e *Editor) View(width int) View {
	width = max(width, 2)
	prompt := tty.CleanLine(e.o.Prompt)
	if strings.HasSuffix(e.o.Prompt, " ") {
		prompt += " "
	}
	if e.search.on {
		prompt = e.search.prompt()
	}
	l := &layout{width: width, bare: true}
	if tty.Width(prompt) > width/2 {
		prompt = tty.Fit(prompt, width/2*min(1, width/3)) // a wide character has room
	}
	l.prefix = strings.Repeat(" ", tty.Width(prompt))
	l.b.WriteString(prompt)
	l.col = len(l.prefix)
	e.lay(l)
	l.endRow()
	l.crop(e.o.Rows)
	l.Lines = append(l.Lines, e.menu.lines(width)...)
	return l.View
}

// lay puts the text into rows.
func (e *Editor) lay(l *layout) {
	for i := 0; i < len(e.text); {
		n := e.next(i) - i
		if i == e.at {
			l.mark(e.text[i : i+n])
		}
		part := e.text[i : i+n]
		i += n
		switch r, size := utf8.DecodeRuneInString(part); {
		case part == "\n":
			l.newRow()
		case part == "\t":
			l.add(strings.Repeat(" ", tabWidth))
			l.bare = true
		case isMarker(r) && size == len(part):
			l.add(e.shown(part))
		default:
			l.put(part)
		}
	}
	if e.at >= len(e.text) {
		l.mark(" ")
	}
}

// mark sets the cursor to where the next character will be.
func (l *layout) mark(next string) {
	_, w := l.fit(next)
	if l.col+max(w, 1) > l.width {
		l.newRow()
	}
	l.Row, l.Col = len(l.Lines), min(l.col, l.width-1)
}

// fit returns a part of the text and its width, or what stands for one that no row has room
// for. A mark that would join what is not of the text is shown on a circle, as Unicode shows
// one alone.
func (l *layout) fit(part string) (string, int) {
	if n, _ := tty.Next(" " + part); n > 1 && l.bare {
		part = "◌" + part
	}
	_, w := tty.Next(part)
	if w > l.width-len(l.prefix) {
		return string(utf8.RuneError), 1
	}
	return part, w
}

// add puts several characters.
func (l *layout) add(text string) {
	for text != "" {
		n, _ := tty.Next(text)
		l.put(text[:n])
		text = text[n:]
	}
}

func (l *layout) put(part string) {
	fits, w := l.fit(part)
	if l.col+w > l.width {
		l.newRow()
		fits, w = l.fit(part)
	}
	l.b.WriteString(fits)
	l.col += w
	l.bare = false
}

func (l *layout) endRow() {
	l.Lines = append(l.Lines, l.b.String())
	l.b.Reset()
}

func (l *layout) newRow() {
	l.endRow()
	l.b.WriteString(l.prefix)
	l.col, l.bare = len(l.prefix), true
}

// crop keeps n rows around the cursor.
func (l *layout) crop(n int) {
	if len(l.Lines) <= n {
		return
	}
	from := min(max(l.Row-n/2, 0), len(l.Lines)-n)
	l.Lines = l.Lines[from : from+n]
	l.Row -= from
}
