// Package ttytest is for tests of programs that own a terminal: a pseudo terminal that a
// program runs in, and an emulator of the screen that shows what a user would see.
package ttytest

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A cell is a column of a row. The second column of a wide character is empty.
type cell struct {
	text  string // a character with what is combined with it; " " if nothing was written
	style string // the parameters of the SGR sequences since the last reset
	wide  bool
	used  bool
}

type row struct {
	cells   []cell
	wrapped bool // the line goes on in the next row
}

// An Emulator is a screen of a terminal with its scrollback. It knows the sequences that a
// program without a full screen needs, and records the others in Unknown.
type Emulator struct {
	Title   string
	Bells   int
	Modes   map[string]bool // private modes that were set, such as "2004" and "25"
	Unknown []string        // sequences that were ignored
	Reflow  bool            // a resize wraps long lines again, instead of cutting them

	cols, rows int
	lines      []*row // the scrollback and the screen
	x, y       int    // y is an index of lines
	pending    bool   // the last column is filled, and the next character wraps
	style      string
	rest       []byte
}

// NewEmulator returns an empty screen. Lines are wrapped again by a resize.
func NewEmulator(cols, rows int) *Emulator {
	e := &Emulator{cols: cols, rows: rows, Reflow: true, Modes: map[string]bool{"7": true, "25": true}}
	for range rows {
		e.lines = append(e.lines, new(row))
	}
	return e
}

// Write shows what a program writes.
func (e *Emulator) Write(p []byte) (int, error) {
	buf := append(e.rest, p...)
	for len(buf) > 0 {
		n := e.item(buf)
		if n == 0 {
			break
		}
		buf = buf[n:]
	}
	e.rest = append([]byte(nil), buf...)
	return len(p), nil
}

func (e *Emulator) top() int { return len(e.lines) - e.rows }

// Lines returns the rows of the screen, without spaces at their ends.
func (e *Emulator) Lines() []string { return texts(e.lines[e.top():]) }

// Scrollback returns the rows that have left the screen at its top.
func (e *Emulator) Scrollback() []string { return texts(e.lines[:e.top()]) }

// Text returns the scrollback and the screen, without empty rows at the end.
func (e *Emulator) Text() string {
	return strings.TrimRight(strings.Join(texts(e.lines), "\n"), "\n")
}

// Cursor returns the place of the cursor on the screen.
func (e *Emulator) Cursor() (row, col int) { return e.y - e.top(), e.x }

// Size returns the number of columns and rows.
func (e *Emulator) Size() (cols, rows int) { return e.cols, e.rows }

// Style returns the parameters of the style in which a cell of the screen was written.
func (e *Emulator) Style(row, col int) string {
	r := e.lines[e.top()+row]
	if col >= len(r.cells) {
		return ""
	}
	return r.cells[col].style
}

// A Run is a part of a row in one style.
type Run struct{ Text, Style string }

// Runs returns the rows of the screen with their styles.
func (e *Emulator) Runs() (rows [][]Run) {
	for _, r := range e.lines[e.top():] {
		var runs []Run
		for _, c := range r.cells {
			if n := len(runs); n == 0 || runs[n-1].Style != c.style && c.text != "" {
				runs = append(runs, Run{Style: c.style})
			}
			runs[len(runs)-1].Text += c.text
		}
		rows = append(rows, runs)
	}
	return rows
}

func texts(rows []*row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.text()
	}
	return out
}

func (r *row) text() string {
	var b strings.Builder
	for _, c := range r.cells {
		b.WriteString(c.text)
	}
	return strings.TrimRight(b.String(), " ")
}

// item handles the first character or sequence, and returns its length; 0 if its end is
// missing.
func (e *Emulator) item(p []byte) int {
	switch c := p[0]; {
	case c == 0x1b:
		return e.escape(p)
	case c < ' ' || c == 0x7f:
		e.controlChar(c)
		return 1
	}
	if !utf8.FullRune(p) {
		return 0
	}
	r, n := utf8.DecodeRune(p)
	e.put(r)
	return n
}

func (e *Emulator) controlChar(c byte) {
	switch c {
	case '\n':
		e.down()
	case '\r':
		e.x, e.pending = 0, false
	case '\b':
		e.x, e.pending = max(e.x-1, 0), false
	case '\t':
		e.x = min((e.x/8+1)*8, e.cols-1)
	case 7:
		e.Bells++
	}
}

func (e *Emulator) down() {
	e.pending = false
	e.y++
	if e.y == len(e.lines) {
		e.lines = append(e.lines, new(row))
	}
}

// columns returns the width of a character by the blocks of Unicode, as far as tests use
// them.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff:
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// put shows a character.
func (e *Emulator) put(r rune) {
	w := columns(r)
	if last := e.before(); last != nil && (w == 0 || strings.HasSuffix(last.text, "\u200d") || r >= 0x1f3fb && r <= 0x1f3ff) {
		last.text += string(r)
		return
	}
	if w == 0 {
		return
	}
	if (e.pending || e.x+w > e.cols) && e.Modes["7"] {
		e.lines[e.y].wrapped = true
		e.down()
		e.x = 0
	}
	e.x = min(e.x, max(e.cols-w, 0))
	line := e.lines[e.y]
	line.clear(e.x, e.x+w)
	line.cells[e.x] = cell{text: string(r), style: e.style, wide: w == 2, used: true}
	if w == 2 && e.x+1 < len(line.cells) {
		line.cells[e.x+1] = cell{used: true}
	}
	e.x += w
	if e.x >= e.cols {
		e.x, e.pending = e.cols-1, true
	}
}

// before returns the cell that was written last, if the cursor is behind it.
func (e *Emulator) before() *cell {
	line, x := e.lines[e.y], e.x-1
	if e.pending {
		x = e.x
	}
	if x >= len(line.cells) || x < 0 {
		return nil
	}
	if line.cells[x].text == "" && x > 0 {
		x-- // the second column
	}
	return &line.cells[x]
}

// clear makes cells empty, and the row long enough. Halves of wide characters go.
func (r *row) clear(from, to int) {
	for len(r.cells) < to {
		r.cells = append(r.cells, cell{text: " "})
	}
	if from > 0 && from < len(r.cells) && r.cells[from-1].wide {
		r.cells[from-1] = cell{text: " "}
	}
	for i := from; i < to; i++ {
		if r.cells[i].wide && i+1 < len(r.cells) {
			r.cells[i+1] = cell{text: " "}
		}
		r.cells[i] = cell{text: " "}
	}
}

func (e *Emulator) escape(p []byte) int {
	if len(p) < 2 {
		return 0
	}
	switch p[1] {
	case '[':
		for i := 2; i < len(p); i++ {
			if p[i] >= 0x40 && p[i] < 0x7f {
				e.sequence(string(p[2:i]), p[i])
				return i + 1
			}
		}
		return 0
	case ']':
		return e.command(p)
	}
	e.Unknown = append(e.Unknown, string(p[:2]))
	return 2
}

// command handles an operating system command.
func (e *Emulator) command(p []byte) int {
	body, length := "", 0
	for i := 2; i < len(p) && length == 0; i++ {
		switch {
		case p[i] == 7:
			body, length = string(p[2:i]), i+1
		case p[i] == 0x1b && i+1 < len(p) && p[i+1] == '\\':
			body, length = string(p[2:i]), i+2
		}
	}
	if title, ok := strings.CutPrefix(body, "0;"); ok {
		e.Title = title
	} else if length > 0 {
		e.Unknown = append(e.Unknown, "\x1b]"+body)
	}
	return length
}

func (e *Emulator) sequence(params string, final byte) {
	first, _, _ := strings.Cut(params, ";")
	n, err := strconv.Atoi(first)
	if err != nil || n == 0 {
		n = 1
	}
	switch {
	case strings.HasPrefix(params, "?") && (final == 'h' || final == 'l'):
		for mode := range strings.SplitSeq(params[1:], ";") {
			e.Modes[mode] = final == 'h'
		}
		return
	case final == 'm':
		e.styled(params)
		return
	case final == 'J' || final == 'K':
		e.eraseBy(final, params)
		return
	}
	switch final {
	case 'A':
		e.y = max(e.y-n, e.top())
	case 'B':
		e.y = min(e.y+n, len(e.lines)-1)
	case 'C':
		e.x = min(e.x+n, e.cols-1)
	case 'D':
		e.x = max(e.x-n, 0)
	case 'G':
		e.x = min(n, e.cols) - 1
	case 'H':
		_, second, _ := strings.Cut(params, ";")
		col, _ := strconv.Atoi(second)
		e.y, e.x = e.top()+min(n, e.rows)-1, min(max(col, 1), e.cols)-1
	default:
		e.Unknown = append(e.Unknown, "\x1b["+params+string(final))
		return
	}
	e.pending = false
}

func (e *Emulator) styled(params string) {
	switch {
	case params == "" || params == "0":
		e.style = ""
	case e.style == "":
		e.style = params
	default:
		e.style += ";" + params
	}
}

// eraseBy erases from the cursor to the end of the row or the screen, or all of it.
func (e *Emulator) eraseBy(what byte, params string) {
	if what == 'J' && params != "2" && e.x == 0 && e.y == e.top() {
		e.saveScreen()
		return
	}
	from := e.x
	if params == "2" {
		from = 0
	}
	line := e.lines[e.y]
	if from < len(line.cells) {
		line.clear(from, len(line.cells))
		line.cells = line.cells[:from]
	}
	line.wrapped = false
	if from == 0 && e.y > 0 {
		e.lines[e.y-1].wrapped = false
	}
	if what == 'K' {
		return
	}
	for y := e.top(); y < len(e.lines); y++ {
		if y > e.y || params == "2" && y != e.y {
			*e.lines[y] = row{}
		}
	}
}

// saveScreen moves the screen into the scrollback, as tmux does instead of erasing from the
// first cell on.
func (e *Emulator) saveScreen() {
	used := 0
	for i, r := range e.lines[e.top():] {
		if len(r.cells) > 0 {
			used = i + 1
		}
	}
	for range used {
		e.lines = append(e.lines, new(row))
	}
	e.y = e.top()
}

// Resize changes the size. The row of the cursor stays on the screen; rows move into the
// scrollback and back at the top.
func (e *Emulator) Resize(cols, rows int) {
	if e.pending {
		e.x++
	}
	e.dropEmpty()
	if e.Reflow && cols != e.cols {
		e.wrapAgain(cols)
	} else {
		for _, r := range e.lines {
			r.cut(cols)
		}
	}
	e.cols, e.rows = cols, rows
	e.pending = e.x >= cols
	e.x = min(e.x, cols-1)
	for len(e.lines) < rows {
		e.lines = append(e.lines, new(row))
	}
}

// cut removes the cells from a column on, and the first half of a wide character.
func (r *row) cut(cols int) {
	r.cells = r.cells[:min(len(r.cells), cols)]
	if n := len(r.cells); n == cols && r.cells[n-1].wide {
		r.cells[n-1] = cell{text: " "}
	}
}

// dropEmpty removes the empty rows below the cursor.
func (e *Emulator) dropEmpty() {
	for len(e.lines)-1 > e.y && len(e.lines[len(e.lines)-1].cells) == 0 {
		e.lines = e.lines[:len(e.lines)-1]
	}
}

func (e *Emulator) wrapAgain(cols int) {
	var out []*row
	x, y := e.x, e.y
	for i := 0; i < len(e.lines); {
		var cells []cell
		at := -1
		for ; ; i++ {
			if i == e.y {
				at = len(cells) + min(e.x, len(e.lines[i].cells))
			}
			cells = append(cells, e.lines[i].cells...)
			if !e.lines[i].wrapped || i+1 == len(e.lines) {
				i++
				break
			}
		}
		begin := len(out)
		out = append(out, split(cells, cols)...)
		if at >= 0 {
			x, y = place(out[begin:], at)
			y += begin
		}
	}
	e.lines, e.x, e.y = out, x, y
}

// split makes rows of a line.
func split(cells []cell, cols int) []*row {
	out := []*row{{}}
	for i := 0; i < len(cells); i++ {
		n := 1
		if cells[i].wide {
			n = 2
		}
		last := out[len(out)-1]
		if len(last.cells)+n > cols {
			last.wrapped = true
			last = new(row)
			out = append(out, last)
		}
		last.cells = append(last.cells, cells[i:min(i+n, len(cells))]...)
		i += n - 1
	}
	return out
}

// place returns the row and column of a cell of a line.
func place(rows []*row, at int) (x, y int) {
	for y, r := range rows {
		if at < len(r.cells) || y == len(rows)-1 {
			return at, y
		}
		at -= len(r.cells)
	}
	return at, 0
}
