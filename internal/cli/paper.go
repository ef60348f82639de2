package cli

import (
	"io"
	"strings"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// The styles: parameters of the SGR sequence. The colours are readable on white and on black, as in package paint.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	notice = "95"
	cyan   = "36"
)

// A paper is what is printed for people: lines, and text that streams.
type paper struct {
	*tty.Screen
	within bool // the last line is not complete
}

// plainPaper writes text without escape sequences.
func plainPaper(w io.Writer) *paper {
	return &paper{Screen: tty.New(w, func() (cols, rows int) { return 80, 24 }, tty.Options{Plain: true})}
}

// width returns the number of columns.
func (p *paper) width() int {
	cols, _ := p.Size()
	return cols
}

// paint formats text in a style, each line by itself. The text must be clean.
func (p *paper) paint(style, text string) string {
	colour := style != bold && style != faint
	if text == "" || style == "" || !p.Fancy() || colour && !p.Color() {
		return text
	}
	begin, end := "\x1b["+style+"m", "\x1b[0m"
	return begin + strings.ReplaceAll(text, "\n", end+"\n"+begin) + end
}

// text writes clean text as it streams. On plain paper, all is written at once.
func (p *paper) text(text string) {
	if text == "" {
		return
	}
	p.Print(text)
	p.within = !strings.HasSuffix(text, "\n")
	if !p.Fancy() {
		_ = p.Flush() // the error comes again at the end
	}
}

// line writes a separate line. The text must be clean, or painted.
func (p *paper) line(text string) {
	p.fresh()
	p.text(text + "\n")
}

// prose writes text for people, broken between words, which need not be copied from the screen exactly. A line goes on
// two columns to the right of its begin. The text must be clean, or painted without a style for all of it.
func (p *paper) prose(style, text string) {
	var rows []string
	for line := range strings.SplitSeq(text, "\n") {
		wrapped := []string{line}
		if p.Fancy() {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			wrapped = tty.Wrap(line, p.width(), strings.Repeat(" ", indent+2))
		}
		for _, row := range wrapped {
			rows = append(rows, p.paint(style, row))
		}
	}
	p.line(strings.Join(rows, "\n")) // at once, since a style may go on in the next row
}

// entry writes a line of a list of names, with what each is. A long name has a separate line.
func (p *paper) entry(name, text string) {
	name = "  " + name
	indent := 27
	if !p.Fancy() {
		p.line(pad(name, indent-1) + " " + text)
		return
	}
	if p.width() < narrow {
		indent = 4
	}
	if columns(name) >= indent {
		p.line(name)
		name = ""
	}
	for _, row := range tty.Wrap(text, p.width()-indent, "") {
		p.line(pad(name, indent) + row)
		name = ""
	}
}

// headline writes the title of a question, after a sign, and behind it more that is not bold.
func (p *paper) headline(title, more string) {
	p.line("")
	p.prose("", p.paint(notice, p.Glyph("◆", "?"))+" "+p.paint(bold, title)+more)
}

// fresh moves to the start of a line.
func (p *paper) fresh() {
	if p.within {
		p.text("\n")
	}
}
