package ttytest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A Terminal is a pseudo terminal with an emulated screen. Its methods fail the test.
type Terminal struct {
	Slave *os.File // the end of the program

	t      testing.TB
	master *os.File
	before *term.State
	cmd    *exec.Cmd
	reader sync.WaitGroup

	mu     sync.Mutex
	came   sync.Cond
	screen *Emulator
	raw    []byte
	ended  bool
}

// Open opens a terminal. It skips the test where there are none.
func Open(t testing.TB, cols, rows int) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	p := &Terminal{t: t, master: master, screen: NewEmulator(cols, rows)}
	p.came.L = &p.mu
	n := 0
	p.control(func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	p.setSize(cols, rows)
	p.Slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	p.check(err)
	p.before, err = term.GetState(int(p.Slave.Fd()))
	p.check(err)
	p.reader.Go(p.read)
	t.Cleanup(p.close)
	return p
}

// Start opens a terminal and starts a program on it, in a session that it controls.
func Start(t testing.TB, cmd *exec.Cmd, cols, rows int) *Terminal {
	t.Helper()
	p := Open(t, cols, rows)
	p.cmd = cmd
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Slave, p.Slave, p.Slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.check(cmd.Start())
	return p
}

func (p *Terminal) close() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	p.Slave.Close()
	p.master.Close()
	p.reader.Wait()
}

func (p *Terminal) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Terminal) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		_, _ = p.screen.Write(buf[:n])
		p.raw = append(p.raw, buf[:n]...)
		p.ended = err != nil
		p.came.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *Terminal) setSize(cols, rows int) {
	p.t.Helper()
	size := &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}
	p.control(func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) })
}

// control calls f with the descriptor of the user's end. The method Fd of a file would let its reads block, so that a
// Close waits for them.
func (p *Terminal) control(f func(fd int) error) {
	p.t.Helper()
	conn, err := p.master.SyscallConn()
	p.check(err)
	var failed error
	p.check(conn.Control(func(fd uintptr) { failed = f(int(fd)) }))
	p.check(failed)
}

// Resize changes the size of the screen, and tells the program.
func (p *Terminal) Resize(cols, rows int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.Resize(cols, rows)
	p.setSize(cols, rows)
}

// Type types keys, each text in a separate write.
func (p *Terminal) Type(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		_, err := p.master.WriteString(k)
		p.check(err)
	}
}

// patience is the time after which a program that shows nothing new has failed.
const patience = time.Minute

// Until waits until the screen is as cond wants it.
func (p *Terminal) Until(what string, cond func(e *Emulator) bool) {
	p.t.Helper()
	late := false
	defer time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.came.Broadcast()
	}).Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !cond(p.screen) {
		if late || p.ended {
			p.t.Fatalf("%s: not on the screen:\n%s\nraw: %q", what, p.screen.Text(), p.raw[max(0, len(p.raw)-4000):])
		}
		p.came.Wait()
	}
}

// Expect waits until the terminal shows a text, in the scrollback or on the screen.
func (p *Terminal) Expect(text string) {
	p.t.Helper()
	p.Until(text, func(e *Emulator) bool { return bytes.Contains([]byte(e.Text()), []byte(text)) })
}

// Raw returns everything that the program has written.
func (p *Terminal) Raw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.raw)
}

// Text returns the scrollback and the screen.
func (p *Terminal) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.Text()
}

// Signal sends a signal to the program.
func (p *Terminal) Signal(sig os.Signal) {
	p.t.Helper()
	p.check(p.cmd.Process.Signal(sig))
}

// Wait waits for the end of the program, and returns its exit code.
func (p *Terminal) Wait() int {
	p.t.Helper()
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	err := p.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		p.t.Fatal(err)
	} else if ok && exit.ExitCode() < 0 {
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Hangup closes the end of the user, as closing a window does.
func (p *Terminal) Hangup() { p.check(p.master.Close()) }

// Mode reports whether a private mode is set, such as "2004" and "25".
func (p *Terminal) Mode(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.Modes[name]
}

// Restored fails the test unless the terminal is as it was: its attributes, and the modes
// that the program has set.
func (p *Terminal) Restored() {
	p.t.Helper()
	now, err := term.GetState(int(p.Slave.Fd()))
	p.check(err)
	if *now != *p.before {
		p.t.Errorf("the attributes of the terminal are %+v, want %+v", now, p.before)
	}
	// All that the program has written is read when this is.
	_, err = p.Slave.WriteString("\r\n[end]")
	p.check(err)
	p.Until("[end]", func(e *Emulator) bool { return bytes.HasSuffix(p.raw, []byte("[end]")) })
	p.mu.Lock()
	defer p.mu.Unlock()
	for mode, set := range p.screen.Modes {
		if want := mode == "25" || mode == "7"; set != want {
			p.t.Errorf("mode %s is %v after the end", mode, set)
		}
	}
}
