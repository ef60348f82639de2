// Package tty is the terminal of a command line: keys with the times at which they came,
// text that scrolls away, and a status area below it that is painted again when it
// changes. It needs no more of a terminal than a few sequences that all understand, and
// gives it back as it was.
//
//	screen, input, err := tty.Open(os.Stdin, os.Stdout, tty.Options{})
//	if err != nil {
//		return err
//	}
//	defer screen.Close()
//	for key := range input.Keys() {
//		…
//		screen.Print("text\n")
//		screen.Status(lines, tty.Cursor{Row: row, Col: col})
//	}
//
// A [Question] decides which keys answer a question. Package line has an editor for keys.
package tty

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Options are the wishes of the user.
type Options struct {
	Plain  bool                // no escape sequences, as for TERM=dumb
	Getenv func(string) string // for TERM and NO_COLOR. Default: os.Getenv
}

// The modes of a terminal while it is ours: paste is bracketed.
const (
	modesOn  = "\x1b[?2004h"
	modesOff = "\x1b[?2004l\x1b[0m\x1b[?7h\x1b[?25h"
)

// A terminal is what has to be restored.
type terminal struct {
	fd    int
	state *term.State
	undo  func() // the mode of the console
	stop  func() // waiting for new sizes
	ended sync.WaitGroup
}

// Open takes over a terminal. If one of the files is not a terminal, or a user asks for
// it with TERM=dumb or an empty TERM, the screen is plain: lines are read and edited by the
// terminal itself, and no escape sequence is written.
func Open(in, out *os.File, o Options) (*Screen, *Input, error) {
	s := New(out, sizeOf(out), o)
	undo, ok := func() {}, false
	if s.mode.fancy && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		undo, ok = openConsole(out)
	}
	s.input = NewInput(in, !ok)
	if !ok {
		s.mode = mode{}
		return s, s.input, nil
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		undo()
		s.input.Close()
		return nil, nil, fmt.Errorf("set up the terminal: %w", err)
	}
	s.term = &terminal{fd: int(in.Fd()), state: state, undo: undo}
	s.watchSize()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(modesOn)
	return s, s.input, s.err
}

// New returns a screen that writes to w. It does not change the modes of a terminal.
func New(w io.Writer, size func() (cols, rows int), o Options) *Screen {
	return &Screen{w: w, size: size, mode: o.mode(), resized: make(chan struct{}, 1)}
}

func (o Options) mode() mode {
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	name := getenv("TERM")
	if o.Plain || name == "dumb" || name == "" && !windowsConsole {
		return mode{}
	}
	return mode{
		fancy: true, color: getenv("NO_COLOR") == "",
		reflows: getenv("XTERM_VERSION") == "" && name != "linux" && (!strings.HasPrefix(name, "screen") || getenv("TMUX") != ""),
	}
}

func sizeOf(f *os.File) func() (cols, rows int) {
	return func() (cols, rows int) {
		cols, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || cols <= 0 || rows <= 0 {
			return 80, 24
		}
		return cols, rows
	}
}

// watchSize repaints the area after a resize.
func (s *Screen) watchSize() {
	sizes, stop := resizes()
	done := make(chan struct{})
	s.term.stop = func() {
		stop()
		close(done)
	}
	s.term.ended.Go(func() {
		for {
			select {
			case <-sizes:
				s.mu.Lock()
				s.touch()
				s.mu.Unlock()
			case <-done:
				return
			}
		}
	})
}

// Lend gives the terminal to f, such as an editor: in its original mode, without the
// status area, and with all keys. Text that is printed meanwhile is written afterwards.
// It returns the error of f, or else of taking the terminal back.
func (s *Screen) Lend(f func() error) (err error) {
	s.lender.Lock()
	defer s.lender.Unlock()
	if s.input != nil {
		defer s.input.Pause()()
	}
	if !s.leave() {
		return fmt.Errorf("lend the terminal: %w", os.ErrClosed)
	}
	defer func() {
		if back := s.takeBack(); err == nil {
			err = back
		}
	}()
	return f()
}

// Suspend stops the process group, as Ctrl-Z does, with the terminal as it was. It returns
// when the group goes on.
func (s *Screen) Suspend() error { return s.Lend(stopGroup) }

// leave restores the terminal, with the cursor below all text. It reports whether the
// terminal was ours.
func (s *Screen) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return false
	}
	s.flush(true)
	var b strings.Builder
	s.erase(&b)
	if s.column > 0 {
		s.endLine(&b, false)
	}
	if s.mode.fancy {
		b.WriteString(modesOff)
		s.hidden = false
		if s.closed && s.titled {
			b.WriteString("\x1b[23;0t")
		}
	}
	s.send(b.String())
	s.paused = true
	if s.term != nil {
		_ = term.Restore(s.term.fd, s.term.state)
	}
	return true
}

func (s *Screen) takeBack() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.paused, s.changed, s.cols = false, true, 0
	if s.term != nil {
		if _, err := term.MakeRaw(s.term.fd); err != nil {
			return fmt.Errorf("take the terminal back: %w", err)
		}
		s.send(modesOn)
	}
	s.tellSize()
	s.flush(false)
	return nil
}

// Close writes all text, removes the status area, restores the terminal and closes the
// input. It may be called again, also while a panic is on its way.
func (s *Screen) Close() error {
	if !s.shut() {
		return s.Flush()
	}
	s.leave()
	if s.input != nil {
		s.input.Close()
	}
	if s.term != nil {
		s.term.stop()
		s.term.ended.Wait()
		s.term.undo()
	}
	return s.Flush()
}

// shut reports whether the screen was open.
func (s *Screen) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
}

// Title sets the title of the window until Close.
func (s *Screen) Title(text string) {
	seq := "\x1b]0;" + CleanLine(text) + "\a"
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.titled {
		seq = "\x1b[22;0t" + seq
	}
	s.titled = s.control(seq)
}

// Bell rings.
func (s *Screen) Bell() { s.locked("\a") }

// Notify shows a message outside of the window, where terminals support that (OSC 9).
func (s *Screen) Notify(text string) {
	// Terminals take a number and a semicolon at the begin for another command.
	s.locked("\x1b]9; " + CleanLine(text) + "\a")
}

// maxCopy is the number of bytes that terminals accept for the clipboard.
const maxCopy = 74 << 10

// Copy puts text on the clipboard of the terminal, which may be on another machine
// (OSC 52). It reports whether the text was sent; a terminal may ignore it.
func (s *Screen) Copy(text string) bool {
	if len(text) > maxCopy {
		return false
	}
	return s.locked("\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + "\a")
}

func (s *Screen) locked(seq string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.control(seq)
}

// control writes a sequence that does not change what is on the screen.
func (s *Screen) control(seq string) bool {
	if !s.mode.fancy || s.paused || s.err != nil {
		return false
	}
	s.send(seq)
	return true
}
