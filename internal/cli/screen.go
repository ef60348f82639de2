package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// A screen is the output for people: permanent lines, and at most one status line below
// them, the only line that is overwritten. It belongs to one goroutine.
type screen struct {
	w     io.Writer
	fancy bool // colours, a status line, single keys
	size  func() int

	lend   func(func() error) error // lends the terminal to f while it runs
	flush  func()                   // discards half a line that was typed
	close  func()                   // restores the terminal
	status bool                     // the status line is shown
	asks   string                   // it shows this question
	col    int                      // column of the cursor, as far as it is needed
}

// The styles: parameters of the SGR sequence.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// plainScreen writes text without escape sequences.
func plainScreen(w io.Writer) *screen {
	return &screen{
		w: w, size: func() int { return 80 }, close: func() {}, flush: func() {},
		lend: func(f func() error) error { return f() },
	}
}

// openScreen takes over a terminal. It writes plain text if NO_COLOR is set, or if TERM
// is dumb or empty.
func openScreen(in, out *os.File, getenv func(string) string) (*screen, error) {
	s := plainScreen(out)
	s.size = func() int {
		w, _, err := term.GetSize(int(out.Fd()))
		if err != nil || w < 20 {
			return 80
		}
		return w
	}
	s.flush = func() { flushInput(in) }
	if plainWanted(getenv) {
		return s, nil
	}
	s.fancy = true
	return s, s.raw(in, out)
}

// plainWanted reports whether escape sequences must not be written. TERM is also empty on
// Windows, where a console may not support any.
func plainWanted(getenv func(string) string) bool {
	t := getenv("TERM")
	return getenv("NO_COLOR") != "" || t == "" || t == "dumb"
}

// The sequences that turn bracketed paste on and off.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

// raw makes the terminal deliver single keys.
func (s *screen) raw(in, out *os.File) error {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	s.close = func() {
		_, _ = io.WriteString(out, pasteOff)
		_ = term.Restore(int(in.Fd()), state)
	}
	s.lend = func(f func() error) error {
		s.close()
		err := f()
		_, raw := term.MakeRaw(int(in.Fd()))
		_, _ = io.WriteString(out, pasteOn)
		return errors.Join(err, raw)
	}
	_, err = io.WriteString(out, pasteOn)
	return err
}

// paint formats text in a style. The text must be clean.
func (s *screen) paint(style, text string) string {
	if !s.fancy || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// text writes clean text as it streams.
func (s *screen) text(text string) {
	if text == "" {
		return
	}
	s.eraseStatus()
	s.write(text)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		s.col = columns(text[i+1:])
		return
	}
	s.col += columns(text)
}

// line writes a separate line. The text must be clean, or painted.
func (s *screen) line(text string) {
	s.fresh()
	s.write(text + "\n")
	s.col = 0
}

// fresh moves to the start of a line.
func (s *screen) fresh() {
	s.eraseStatus()
	if s.col > 0 {
		s.write("\n")
		s.col = 0
	}
}

// setStatus shows text in the status line, unless the cursor is in the middle of a line.
func (s *screen) setStatus(text string) {
	if !s.fancy || s.col > 0 {
		return
	}
	s.write("\r\x1b[K" + s.paint(faint, fit(text, s.size()-1)))
	s.status = true
}

// setPrompt shows a question and the possible answers in the status line. It writes only
// changes.
func (s *screen) setPrompt(what, keys string) {
	text := s.paint(bold, what) + fit(keys, s.size()-1-columns(what))
	if !s.status || text != s.asks {
		s.write("\r\x1b[K" + text)
		s.status, s.asks = true, text
	}
}

func (s *screen) eraseStatus() {
	if s.status {
		s.status, s.asks = false, ""
		s.write("\r\x1b[K")
	}
}

// write sends text to the terminal, which needs carriage returns in raw mode.
func (s *screen) write(text string) {
	if s.fancy {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	_, _ = io.WriteString(s.w, text)
}

// glyph chooses between a character and its plain form.
func (s *screen) glyph(sign, plain string) string {
	if s.fancy {
		return sign
	}
	return plain
}
