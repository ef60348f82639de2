package tty

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// frame is the least time between two writes, and maxBuffer the number of bytes that are
// written before it is over.
const (
	frame     = time.Second / 60
	maxBuffer = 256 << 10
)

// A Cursor is a place in the status area, from 0. A negative row hides the cursor.
type Cursor struct {
	Row, Col int
	// Drawn shows the cursor in reverse video, while the cursor of the terminal is hidden at
	// the begin of the area. Then nothing of the area stays on the screen when a resize comes
	// between two writes that follow each other, as while an agent works. At a prompt, the
	// cursor of the terminal is better: an input method needs it.
	Drawn bool
}

// NoCursor hides the cursor.
var NoCursor = Cursor{Row: -1}

// A Screen is the output for people: text that scrolls away and is never painted again,
// and below it the status area, the only lines that are ever rewritten. Its methods may be
// called by several goroutines.
//
// Between two writes the cursor is in the area. On a terminal with an area, a line of text is
// written when it has ended.
type Screen struct {
	mode    mode
	size    func() (cols, rows int)
	resized chan struct{}
	input   *Input     // nil without a terminal
	term    *terminal  // nil unless its modes were changed
	lender  sync.Mutex // held while another program has the terminal

	mu     sync.Mutex
	w      io.Writer
	err    error
	last   time.Time // of the newest write
	timer  *time.Timer
	paused bool // another program has the terminal, or nobody any more
	closed bool

	text    []byte // printed, but not written
	column  int    // where the written text has ended
	area    []string
	cursor  Cursor
	changed bool // the area is not what is shown
	shown   shownArea
	cols    int
	hidden  bool // the cursor of the terminal
	titled  bool // the title of the window was changed
}

// A mode says what a terminal can do.
type mode struct {
	fancy, color bool
	reflows      bool // lines that do not fit after a resize are wrapped, not cut
}

// A shownArea is the area as it is on the terminal.
type shownArea struct {
	lines  []string // none if there is no area
	cursor Cursor
}

// Print writes text above the status area, soon, and never after Close. A line waits for its
// end, but in a plain terminal. Colours (SGR) are kept up to the end of the line, all else
// that a terminal might act on is made visible. Tabs become spaces.
func (s *Screen) Print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.text = append(s.text, text...)
	s.touch()
}

// Status sets the lines of the status area, and the place of the cursor in it. Lines that
// are too long are cut; if the area is higher than the terminal, the lines around the
// cursor are shown. Without lines there is no area. Nothing is written if nothing has
// changed, nor to a plain terminal.
func (s *Screen) Status(lines []string, at Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mode.fancy || s.cursor == at && slices.Equal(s.area, lines) {
		return
	}
	s.area, s.cursor, s.changed = slices.Clone(lines), at, true
	s.touch()
}

// Flush writes what waits for its time, and returns the error that has ended all writing.
func (s *Screen) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush(false)
	return s.err
}

// Size returns the number of columns and rows.
func (s *Screen) Size() (cols, rows int) { return s.size() }

// Resized returns a channel that receives a value after the size has changed, or may have
// while the terminal was lent.
func (s *Screen) Resized() <-chan struct{} { return s.resized }

// Fancy reports whether the terminal understands escape sequences.
func (s *Screen) Fancy() bool { return s.mode.fancy }

// Color reports whether colours are wanted. Other attributes need only [Screen.Fancy].
func (s *Screen) Color() bool { return s.mode.color }

// Glyph chooses between a symbol and its plain form.
func (s *Screen) Glyph(fancy, plain string) string {
	if s.mode.fancy {
		return fancy
	}
	return plain
}

// touch writes now, or when the time for the next write has come.
func (s *Screen) touch() {
	wait := frame - time.Since(s.last)
	switch {
	case s.paused:
	case wait <= 0 || len(s.text) > maxBuffer:
		s.flush(false)
	case s.timer == nil:
		s.timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timer = nil
			s.flush(false)
		})
	}
}

// flush writes all changes, in one write. At the end of all text, no line is held back.
func (s *Screen) flush(end bool) {
	switch {
	case s.err != nil:
		s.text = nil
		return
	case s.paused:
		return
	}
	var b strings.Builder
	rows, resized := s.measure()
	text := s.take(end)
	if text == "" && !s.changed && !resized {
		return
	}
	s.erase(&b)
	s.write(&b, text)
	s.paint(&b, rows)
	s.changed = false
	s.send(b.String())
}

// measure adapts to a new size.
func (s *Screen) measure() (rows int, resized bool) {
	cols, rows := s.size()
	cols, rows = max(cols, 1), max(rows, 2)
	resized = s.cols != 0 && s.cols != cols && s.mode.fancy
	if resized {
		if s.mode.reflows && len(s.shown.lines) > 0 {
			s.shown.cursor.Row = s.shown.rowsAbove(cols)
		}
		s.tellSize()
	}
	s.cols = cols
	return rows, resized
}

func (s *Screen) tellSize() {
	select {
	case s.resized <- struct{}{}:
	default:
	}
}

// rowsAbove returns the number of rows above the cursor if lines that do not fit are
// wrapped.
func (a *shownArea) rowsAbove(cols int) int {
	n := wraps(a.lines[a.cursor.Row], a.cursor.Col, cols)
	for _, line := range a.lines[:a.cursor.Row] {
		n += 1 + wraps(line, len(line), cols)
	}
	return n
}

// wraps returns how often a terminal wraps a line before the character at a column is in
// its place. It wraps for the next character, not when a row is full.
func wraps(text string, at, cols int) (n int) {
	col, all := 0, 0
	for text != "" && all <= at {
		size, w := Next(text)
		if w > 0 && col+w > cols {
			n++
			col = 0
		}
		col += w
		all += w
		text = text[size:]
	}
	return n
}

func (s *Screen) send(text string) {
	if text == "" || s.err != nil {
		return
	}
	s.last = time.Now()
	if _, err := io.WriteString(s.w, text); err != nil {
		s.err = fmt.Errorf("write to the terminal: %w", err)
	}
}

// take returns the text to write. A line that has not ended waits for its end above an area, unless it is too long to be one,
// and elsewhere only a character does.
func (s *Screen) take(end bool) string {
	n := len(s.text)
	if !end {
		n = len(WholeRunes(s.text))
		if line := bytes.LastIndexByte(s.text, '\n') + 1; s.mode.fancy && (line > 0 || n <= maxBuffer) {
			n = line
		}
	}
	text := string(s.text[:n])
	s.text = append(s.text[:0], s.text[n:]...)
	return text
}

// erase removes the area. The cursor is then where the area began.
func (s *Screen) erase(b *strings.Builder) {
	if len(s.shown.lines) == 0 {
		return
	}
	b.WriteByte('\r')
	move(b, s.shown.cursor.Row, 'A')
	// Erasing everything from the first cell on makes tmux keep the area in the scrollback.
	b.WriteString("\x1b[K\x1b[C\x1b[J\r")
	s.shown = shownArea{}
}

// move writes a movement of the cursor by n: A is up, and C is right.
func move(b *strings.Builder, n int, to byte) {
	if n > 0 {
		fmt.Fprintf(b, "\x1b[%d%c", n, to)
	}
}

// write adds text. A style ends with its line.
func (s *Screen) write(b *strings.Builder, text string) {
	styled := false
	for text != "" {
		n := plainRun(text)
		switch {
		case n > 0:
			b.WriteString(text[:n])
			s.column += n
		case text[0] == '\n':
			n = 1
			s.endLine(b, styled)
			styled = false
		case text[0] == '\t':
			n = 1
			spaces := "        "[s.column%8:]
			b.WriteString(spaces)
			s.column += len(spaces)
		default:
			n, _ = Next(text)
			part := text[:n]
			if !sgr(part) {
				part = Clean(part)
				b.WriteString(part)
				s.column += Width(part)
			} else if s.mode.fancy {
				b.WriteString(part)
				styled = part != plainStyle && part != "\x1b[m"
			}
		}
		text = text[n:]
	}
	if s.mode.fancy && s.column > 0 {
		s.endLine(b, styled)
	}
}

func (s *Screen) endLine(b *strings.Builder, styled bool) {
	if styled {
		b.WriteString(plainStyle)
	}
	b.WriteString(s.mode.lineFeed())
	s.column = 0
}

// plainRun returns the length of the ASCII characters at the begin of text. The last of
// them is left out if the rest could combine with it.
func plainRun(text string) int {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			if c >= utf8.RuneSelf && i > 0 {
				return i - 1
			}
			return i
		}
	}
	return len(text)
}

// lineFeed returns the end of a line: a terminal that delivers single keys needs a
// carriage return.
func (m mode) lineFeed() string {
	if m.fancy {
		return "\r\n"
	}
	return "\n"
}

const plainStyle = "\x1b[0m"

// sgr reports whether text is an escape sequence that sets a style.
func sgr(text string) bool {
	body, ok := strings.CutPrefix(text, "\x1b[")
	return ok && strings.HasSuffix(body, "m") && strings.Trim(body[:len(body)-1], "0123456789;:") == ""
}

// safe returns a line of the area without anything that moves the cursor.
func safe(line string) string {
	var b strings.Builder
	for line != "" {
		n := plainRun(line)
		if n == 0 {
			n, _ = Next(line)
		}
		if part := line[:n]; sgr(part) {
			b.WriteString(part)
		} else {
			b.WriteString(cleanSpaces(part))
		}
		line = line[n:]
	}
	return b.String()
}

// paint writes the area below the text.
func (s *Screen) paint(b *strings.Builder, rows int) {
	lines, at := visible(s.area, s.cursor, rows-1)
	lines = slices.Clone(lines)
	for i, line := range lines {
		lines[i] = Fit(safe(line), s.cols)
	}
	if len(lines) == 0 {
		s.showCursor(b, true)
		return
	}
	if at.Drawn && at.Row >= 0 {
		lines[at.Row] = drawn(lines[at.Row], min(at.Col, s.cols-1))
		at.Row = -1
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		s.paintLine(b, line, at.Row < 0)
	}
	b.WriteByte('\r')
	s.showCursor(b, at.Row >= 0)
	at = Cursor{Row: max(at.Row, 0), Col: min(at.Col, s.cols-1)}
	if at.Row == 0 && s.hidden {
		at.Col = 0
	}
	move(b, len(lines)-1-at.Row, 'A')
	move(b, at.Col, 'C')
	s.shown = shownArea{lines, at}
}

// drawn returns a line with a cursor in it.
func drawn(line string, col int) string {
	var b strings.Builder
	for ; line != ""; col-- {
		n, w := Next(line)
		if w > 0 && col < w {
			return b.String() + "\x1b[7m" + line[:n] + "\x1b[27m" + line[n:]
		}
		b.WriteString(line[:n])
		line = line[n:]
		col -= w - 1
	}
	return b.String() + strings.Repeat(" ", max(col, 0)) + "\x1b[7m \x1b[27m"
}

// paintLine writes a line of the area. It must not wrap if the cursor is parked above it:
// then the number of rows is right for every width. Nor must it if the terminal could think
// that it is longer than we do, or cuts lines. Any other line may: then it has as many rows
// if a new size comes just before the line as if it comes later.
func (s *Screen) paintLine(b *strings.Builder, line string, parked bool) {
	fixed := parked || !s.mode.reflows || strings.ContainsFunc(line, disputed)
	if fixed {
		b.WriteString("\x1b[?7l")
	}
	b.WriteString(line)
	if strings.IndexByte(line, esc) >= 0 {
		b.WriteString(plainStyle)
	}
	if fixed {
		b.WriteString("\x1b[?7h")
	}
}

// disputed reports whether terminals differ about the width of a character: joined and
// coloured emoji, and what is newer than the terminal.
func disputed(r rune) bool {
	return r >= 0x1f000 || r == '\u200d' || r == '\ufe0f' || unicode.In(r, unicode.Mn, unicode.Mc)
}

func (s *Screen) showCursor(b *strings.Builder, show bool) {
	if show == !s.hidden {
		return
	}
	s.hidden = !show
	if show {
		b.WriteString("\x1b[?25h")
		return
	}
	b.WriteString("\x1b[?25l")
}

// visible returns at most n lines, the last ones if the cursor is in them.
func visible(lines []string, at Cursor, n int) ([]string, Cursor) {
	if at.Row < 0 || at.Col < 0 {
		at = Cursor{Row: -1}
	}
	at.Row = min(at.Row, len(lines)-1)
	if len(lines) <= n {
		return lines, at
	}
	from := len(lines) - n
	if at.Row >= 0 {
		from = min(from, at.Row)
		at.Row -= from
	}
	return lines[from : from+n], at
}
