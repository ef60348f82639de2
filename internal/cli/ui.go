package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

const (
	twiceWithin = 2 * time.Second // two interrupts at the prompt within that time quit
	tickEvery   = 100 * time.Millisecond
	paintEvery  = time.Second / 60 // the terminal gets no more
	manyBytes   = 64               // of a read: the keys of one that follow each other are painted together
)

// errInterrupt is the error of a question that the user has interrupted. A signal that ends the program is a
// [*signalled].
var errInterrupt = errors.New("interrupted")

// A ui is the terminal of a chat: what is printed, the keys, and the status area, which shows what the agent is
// doing, the question that is open, and what is being typed. It belongs to one goroutine.
type ui struct {
	*view
	keys    *tty.Input
	signals chan os.Signal
	editor  *line.Editor
	edit    func(ending string, text []byte) ([]byte, error) // the user's editor, or nil
	image   func() (string, error)                           // takes an image from the clipboard, and returns what stands for it

	around   func(works bool) []string // rows about tasks and jobs, or nil
	terminal config.Terminal
	status   statusLine
	below    string           // the last status line
	painted  time.Time        // when the status area was, the last time
	due      <-chan time.Time // when it will be again, if more has come before that
	stepped  bool             // a step is what came last, or a key of many

	asked    *question
	reading  bool      // a line is asked for, besides the one at the prompt
	heading  string    // what that line is for, if it is too long for a prompt
	working  bool      // the status area shows what the agent is doing
	stopping bool      // it is being stopped
	lastKey  time.Time // the newest key
	closed   bool      // the input has ended
	hint     string    // below the line, until the next key
}

// A happening is the next thing to react to. One of the fields is set.
type happening struct {
	key   tty.Key
	ended bool // the input
	sig   os.Signal
	step  *step
	done  bool // the run
	ask   func(*chat)
	tick  bool
}

// wait shows the status area and waits until something happens. Steps and asks are nil if nothing of theirs is
// waited for, and ticks is nil if nothing on the screen changes by itself.
func (u *ui) wait(steps <-chan step, asks <-chan func(*chat), ticks <-chan time.Time) happening {
	for {
		switch wait := paintEvery - time.Since(u.painted); {
		case !u.stepped || wait <= 0:
			u.refresh()
			u.painted, u.due = time.Now(), nil
		case u.due == nil:
			u.due = time.After(wait)
		}
		u.stepped = false
		keys := u.keys.Keys()
		if u.closed {
			if keys = nil; steps == nil { // there is only the user to wait for
				return happening{ended: true}
			}
		}
		select {
		case k, ok := <-keys:
			if !ok {
				u.closed = true
				if errors.Is(u.keys.Err(), tty.ErrHangup) { // the signal may come later
					return happening{sig: syscall.SIGHUP}
				}
				return happening{ended: true}
			}
			u.hint, u.stepped = "", k.Read > manyBytes
			return happening{key: k}
		case sig := <-u.signals:
			return happening{sig: sig}
		case s, ok := <-steps:
			u.stepped = ok
			return happening{step: &s, done: !ok}
		case a := <-asks:
			return happening{ask: a}
		case u.below = <-u.status.lines:
		case <-ticks:
			return happening{tick: true}
		case <-u.due:
		case <-u.Resized():
		}
	}
}

// key waits for a key, or for a tick, at which it is the zero key. The error is that of a signal, or io.EOF at the end of
// the input.
func (u *ui) key(ticks <-chan time.Time) (tty.Key, error) {
	h := u.wait(nil, nil, ticks)
	switch {
	case h.sig != nil:
		return h.key, signalError(h.sig)
	case h.ended:
		return h.key, io.EOF
	}
	return h.key, nil
}

// dropInterrupts forgets the interrupts that have come: they were not for what comes now.
func (u *ui) dropInterrupts() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c) // waits until package signal has passed on what the process has got
	for range len(u.signals) {
		if sig := <-u.signals; sig != os.Interrupt {
			select {
			case u.signals <- sig:
			default: // others have come meanwhile
			}
		}
	}
}

// refresh paints the status area.
func (u *ui) refresh() {
	if !u.Fancy() {
		return
	}
	cols, _ := u.Size()
	lines := u.pending()
	if u.asked == nil && !u.reading {
		if u.around != nil {
			lines = append(lines, u.around(u.working)...)
		}
		if u.working {
			lines = append(lines, u.activity(u.stopping)...)
		}
	}
	if u.asked != nil {
		lines = append(lines, u.asked.line(u))
	}
	if u.heading != "" {
		lines = append(lines, tty.Wrap(u.heading, cols, "  ")...)
	}
	v := u.editor.View(cols)
	at := tty.Cursor{Row: len(lines) + v.Row, Col: v.Col, Drawn: u.working}
	lines = append(lines, v.Lines...)
	below := u.below
	if aside := u.editor.Aside(); aside != "" {
		below = "ctrl-s brings back: " + cleanLine(aside)
	}
	if u.hint != "" {
		below = u.hint
	}
	if below != "" {
		lines = append(lines, u.paint(faint, below))
	}
	u.Status(lines, at)
}

// isKey reports whether a key is one of those names, as tables of bindings write them.
func isKey(k tty.Key, names ...string) bool { return slices.Contains(names, k.String()) }

// isStop reports whether a key stops what goes on. The editor takes some Escs.
func (u *ui) isStop(k tty.Key) bool {
	return isKey(k, "ctrl+c") || isKey(k, "esc") && !u.editor.TakesEsc()
}

func signalError(sig os.Signal) error {
	if sig == os.Interrupt {
		return errInterrupt
	}
	return &signalled{sig}
}

// exitCode returns the exit code for a program that a signal ended.
func exitCode(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitError
}

// readLine asks for a line in place of what is being typed, which comes back afterwards. In a plain terminal, the
// terminal itself edits the line, and Enter accepts the offered text.
func (u *ui) readLine(prompt, fill string) (string, error) {
	was := u.editor
	defer func() { u.editor, u.reading, u.heading = was, false, "" }()
	u.editor, u.reading = line.New(line.Options{Prompt: prompt, Vi: u.terminal.Vi, Bindings: u.terminal.Keys}), true
	if u.Fancy() && columns(prompt) > u.width()/2 {
		u.heading = prompt
		u.editor.SetPrompt("› ")
	}
	u.offer(prompt, fill)
	for {
		k, err := u.key(nil)
		switch {
		case err == io.EOF: // half a line answers nothing
			_, _ = u.half()
			return "", err
		case err != nil:
			return "", err
		case u.isStop(k):
			return "", errInterrupt
		}
		switch ev := u.typed(k); ev.Kind {
		case line.Submit:
			u.echo(prompt, ev.Text)
			return orFill(u, ev.Text, fill), nil
		case line.EndOfInput:
			return "", io.EOF
		}
	}
}

// offer begins a prompt with a text that the user can change.
func (u *ui) offer(prompt, fill string) {
	u.fresh()
	if u.Fancy() {
		if fill != "" {
			u.editor.SetText(fill)
		}
		return
	}
	if fill != "" {
		prompt += "[" + clean(fill) + "] "
	}
	u.Print(prompt)
	_ = u.Flush()
}

// orFill returns what was entered at a prompt with a text that Enter accepts.
func orFill(u *ui, text, fill string) string {
	if text == "" && !u.Fancy() {
		return fill
	}
	return text
}

// half returns a line that the end of the input has cut.
func (u *ui) half() (string, error) {
	text := u.editor.Text()
	u.editor.Clear()
	if !u.Fancy() {
		u.Print("\n")
	}
	if strings.TrimSpace(text) == "" {
		return "", io.EOF
	}
	return text, nil
}

// echo leaves what was entered on the screen. A plain terminal has done that itself.
func (u *ui) echo(prompt, text string) {
	if u.Fancy() {
		u.refresh() // the line is empty now
		u.line(u.paint(cyan, prompt+said(text)))
	}
}

// typed gives a key to the editor.
func (u *ui) typed(k tty.Key) line.Event {
	u.lastKey = k.At
	switch {
	case isKey(k, "ctrl+z"):
		u.lend(func() { _ = u.Suspend() }) // where that is not possible, the key does nothing
		return line.Event{}
	case isKey(k, "ctrl+v") && u.image != nil:
		text, err := u.image()
		if err != nil {
			u.hint = cleanLine(err.Error())
			return line.Event{}
		}
		k = tty.Key{Name: tty.Paste, Text: text, At: k.At, Read: k.Read}
	case k.Dropped > 0:
		u.hint = count(k.Dropped, "byte") + " of the paste were too many and are left out"
	}
	ev := u.editor.Key(k)
	if ev.Kind == line.EditText {
		u.lend(u.editElsewhere)
	}
	return ev
}

// lend does what needs the whole terminal. An open question is not on the screen meanwhile.
func (u *ui) lend(f func()) {
	f()
	if u.asked != nil {
		u.asked.Show(time.Now())
	}
}

// editElsewhere opens what is being typed in the user's editor.
func (u *ui) editElsewhere() {
	if u.edit == nil {
		u.hint = "There is no editor: set EDITOR."
		return
	}
	was := u.editor.Text()
	text, err := u.edit(".md", []byte(was))
	if err != nil {
		u.prose(red, "! "+clean(err.Error()))
		return
	}
	if now := strings.TrimRight(string(text), "\n"); now != strings.TrimRight(was, "\n") { // else pastes stay short
		u.editor.SetText(now)
	}
}
