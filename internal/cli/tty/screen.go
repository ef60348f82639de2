package tty

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// frame is the least time between two writes, and maxBuffer the number of bytes that are
// written before it is over.
const (
	frame     = time.Second / 60
	maxBuffer = 256 << 10
)

// A Cursor is a place in the status area, from 0. A negative row hides the cursor.
type Cursor struct{ Row, Col int }

// NoCursor hides the cursor.
var NoCursor = Cursor{Row: -1}

// A Screen is the output for people: text that scrolls away and is never painted again,
// and below it the status area, the only lines that are ever rewritten. Its methods may be
// called by several goroutines.
//
// Between two writes the cursor is in the area, or at the end of the text if there is no
// area. The text may end within a line; the area then begins on the next line, and the
// screen knows the column at which the text goes on.
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
	area    []string
	cursor  Cursor
	changed bool // the area is not what is shown
	shown   shownArea
	line    lastLine
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

func (a *shownArea) empty() bool { return len(a.lines) == 0 }

// Print writes text above the status area, soon. Colours (SGR) and links (OSC 8) in it are
// kept, all else that a terminal might act on is made visible. Tabs become spaces.
func (s *Screen) Print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Resized returns a channel that receives a value after the size has changed.
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

// flush writes all changes, in one write. At the end of all text, an incomplete rune is
// not held back.
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
	there := !s.shown.empty()
	s.erase(&b)
	if there && (text != "" || len(s.area) == 0) {
		s.resume(&b)
	}
	s.write(&b, text)
	s.paint(&b, rows, there && text == "")
	s.changed = false
	s.send(b.String())
}

// measure adapts to a new size.
func (s *Screen) measure() (rows int, resized bool) {
	cols, rows := s.size()
	cols, rows = max(cols, 1), max(rows, 2)
	resized = s.cols != 0 && s.cols != cols && s.mode.fancy
	if resized {
		s.reflow(cols)
		select {
		case s.resized <- struct{}{}:
		default:
		}
	}
	s.cols = cols
	return rows, resized
}

// reflow follows what the terminal has done to the lines above the cursor.
func (s *Screen) reflow(cols int) {
	if !s.shown.empty() && s.mode.reflows {
		s.shown.cursor.Row = s.shown.rowsAbove(cols)
	}
	lost := s.line.reflow(s.cols, cols, s.mode.reflows)
	if lost && s.shown.empty() {
		s.text = append([]byte("\n"), s.text...)
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

func (s *Screen) send(text string) {
	if text == "" || s.err != nil {
		return
	}
	s.last = time.Now()
	if _, err := io.WriteString(s.w, text); err != nil {
		s.err = fmt.Errorf("write to the terminal: %w", err)
	}
}

// take returns the text to write. A rune or an escape sequence that is not complete waits.
func (s *Screen) take(end bool) string {
	n := len(s.text)
	if !end {
		n = complete(s.text)
	}
	text := string(s.text[:n])
	s.text = append(s.text[:0], s.text[n:]...)
	return text
}

// complete returns the length of text without an incomplete rune or sequence at its end.
func complete(text []byte) int {
	const longest = 4 << 10
	from := max(0, len(text)-longest)
	for i := bytes.LastIndexByte(text[from:], esc); i >= 0; i = bytes.LastIndexByte(text[from:from+i], esc) {
		if escape(string(text[from+i:])) < 0 {
			return from + i
		}
	}
	return len(wholeRunes(text))
}

// erase removes the area. The cursor is then where the area began.
func (s *Screen) erase(b *strings.Builder) {
	if s.shown.empty() {
		return
	}
	b.WriteByte('\r')
	move(b, s.shown.cursor.Row, 'A')
	b.WriteString("\x1b[J")
	s.shown = shownArea{}
}

// move writes a movement of the cursor by n: A is up, and C is right.
func move(b *strings.Builder, n int, to byte) {
	if n > 0 {
		fmt.Fprintf(b, "\x1b[%d%c", n, to)
	}
}

// resume moves from the place of an erased area to the end of the text.
func (s *Screen) resume(b *strings.Builder) {
	if s.line.col > 0 {
		move(b, 1, 'A')
		move(b, s.line.col, 'C')
	}
	b.WriteString(s.line.style)
	b.WriteString(s.line.link)
}

// write adds text, and keeps track of the column.
func (s *Screen) write(b *strings.Builder, text string) {
	for text != "" {
		n := plainRun(text)
		switch {
		case n > 0:
			b.WriteString(text[:n])
			s.line.add(text[:n], n, s.cols)
		case text[0] == '\n':
			n = 1
			s.newline(b)
		case text[0] == '\t':
			n = 1
			spaces := "        "[s.line.cells%8:]
			b.WriteString(spaces)
			s.line.add(spaces, len(spaces), s.cols)
		default:
			n, _ = Next(text)
			s.part(b, text[:n])
		}
		text = text[n:]
	}
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

func (s *Screen) newline(b *strings.Builder) {
	if !s.line.ended {
		b.WriteString(s.mode.lineFeed())
	}
	s.line = lastLine{style: s.line.style, link: s.line.link}
}

// lineFeed returns the end of a line: a terminal that delivers single keys needs a
// carriage return.
func (m mode) lineFeed() string {
	if m.fancy {
		return "\r\n"
	}
	return "\n"
}

// part writes one cluster, control character or escape sequence.
func (s *Screen) part(b *strings.Builder, part string) {
	if part[0] == esc && len(part) > 1 && (harmless(part) || !s.mode.fancy) {
		if s.mode.fancy {
			s.line.styled(part)
			b.WriteString(part)
		}
		return
	}
	part = Clean(part)
	b.WriteString(part)
	for rest := part; rest != ""; {
		n, w := Next(rest)
		s.line.add(rest[:n], w, s.cols)
		rest = rest[n:]
	}
}

// harmless reports whether an escape sequence sets a style or a link.
func harmless(seq string) bool {
	if body, ok := strings.CutPrefix(seq, "\x1b["); ok {
		return strings.HasSuffix(body, "m") && strings.Trim(body[:len(body)-1], "0123456789;:") == ""
	}
	return strings.HasPrefix(seq, linkStart)
}

// safe returns a line of the area without anything that moves the cursor.
func safe(line string) string {
	var b strings.Builder
	for line != "" {
		n := plainRun(line)
		if n == 0 {
			n, _ = Next(line)
		}
		if part := line[:n]; part[0] == esc && harmless(part) {
			b.WriteString(part)
		} else {
			b.WriteString(cleanSpaces(part))
		}
		line = line[n:]
	}
	return b.String()
}

// paint writes the area below the text, or where the last one was.
func (s *Screen) paint(b *strings.Builder, rows int, placed bool) {
	if len(s.area) == 0 {
		s.showCursor(b, true)
		return
	}
	if !placed {
		s.line.leave(b, s.cols)
	}
	lines, at := visible(s.area, s.cursor, rows-1)
	b.WriteString("\x1b[?7l") // a line that the terminal thinks is longer does not wrap
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		line = Fit(safe(line), s.cols)
		b.WriteString(line)
		if strings.IndexByte(line, esc) >= 0 {
			b.WriteString(plainStyle + linkEnd)
		}
		s.shown.lines = append(s.shown.lines, line)
	}
	b.WriteString("\x1b[?7h\r")
	s.showCursor(b, at.Row >= 0)
	at = Cursor{max(at.Row, 0), min(at.Col, s.cols-1)}
	move(b, len(lines)-1-at.Row, 'A')
	move(b, at.Col, 'C')
	s.shown.cursor = at
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
