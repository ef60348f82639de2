//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tty

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A fileSource waits for a file or for a byte in a pipe, whichever comes first.
type fileSource struct {
	*os.File

	fd      int
	pipe, w *os.File
}

// maxFD is the number of descriptors that select(2) knows.
const maxFD = 1024

func newSource(r io.Reader) source {
	f, ok := r.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return plainSource{r}
	}
	pr, pw, err := os.Pipe()
	if err != nil || f.Fd() >= maxFD || pr.Fd() >= maxFD {
		return plainSource{r}
	}
	return &fileSource{f, int(f.Fd()), pr, pw}
}

func (s *fileSource) wait() bool {
	for {
		var set unix.FdSet
		wake := int(s.pipe.Fd())
		set.Set(s.fd)
		set.Set(wake)
		_, err := unix.Select(max(s.fd, wake)+1, &set, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true // the read reports it
		default:
			return !set.IsSet(wake)
		}
	}
}

func (s *fileSource) wake() { _, _ = s.w.Write([]byte{0}) }

func (s *fileSource) free() {
	_ = s.pipe.Close()
	_ = s.w.Close()
}

func (s *fileSource) rest() { _, _ = s.pipe.Read(make([]byte, 1)) }

// gone reports whether the terminal itself has gone, and not only the input ended, as with Ctrl-D.
func (s *fileSource) gone() bool {
	_, err := unix.IoctlGetTermios(s.fd, getTermios)
	return err != nil
}

// ready reports whether a read would return at once.
func (s *fileSource) ready() bool {
	var set unix.FdSet
	set.Set(s.fd)
	n, err := unix.Select(s.fd+1, &set, nil, nil, &unix.Timeval{})
	return err == nil && n > 0
}

// half reads the part of a line that was typed into a terminal that delivers whole lines.
// Such a terminal delivers it when it is told to deliver single bytes for a moment.
func (s *fileSource) half() ([]byte, error) {
	state, err := unix.IoctlGetTermios(s.fd, getTermios)
	if err != nil || state.Lflag&unix.ICANON == 0 {
		return nil, err
	}
	single := *state
	single.Lflag &^= unix.ICANON
	if err := unix.IoctlSetTermios(s.fd, setTermios, &single); err != nil {
		return nil, err
	}
	defer func() { _ = unix.IoctlSetTermios(s.fd, setTermios, state) }()
	var out []byte
	for buf := make([]byte, 4096); s.ready(); {
		n, err := s.Read(buf)
		out = append(out, buf[:n]...)
		if err != nil || n == 0 {
			return out, err
		}
	}
	return out, nil
}

// resizes returns a channel that tells when the size of the terminal has changed.
func resizes() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// stopGroup stops the process group, as Ctrl-Z does, and returns when it goes on. A group
// that no shell can continue is not stopped by the system. No process is started meanwhile: if one stopped
// before it runs its program, this process would wait for it, and the shell for both.
func stopGroup() error {
	if p, err := os.FindProcess(os.Getpid()); err == nil { // package os has tried then, without the lock, what the system can
		_ = p.Release()
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCONT)
	defer signal.Stop(c)
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	select {
	case <-c:
	case <-time.After(100 * time.Millisecond):
	}
	return nil
}
