package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// The keys with a function outside of line editing.
const (
	keyCtrlC = 0x03
	keyCtrlD = 0x04
	keyCtrlU = 0x15
	keyEsc   = 0x1b
)

var (
	errInterrupt = errors.New("interrupted")
	errHangup    = errors.New("terminated")
)

// A chunk is the result of one read.
type chunk struct {
	data []byte
	err  error
	at   time.Time // time of the read
}

// A keyboard delivers typed text. It reads only while somebody waits for text, so that an
// editor that is started in between gets the text typed into it.
type keyboard struct {
	src     io.Reader
	signals <-chan os.Signal

	start   sync.Once
	want    chan struct{}
	got     chan chunk
	waiting bool      // a read is in progress
	ahead   []byte    // typed, but not requested yet
	at      time.Time // time of its newest part
	closed  bool      // the input has ended
}

func newKeyboard(src io.Reader, signals <-chan os.Signal) *keyboard {
	return &keyboard{
		src: src, signals: signals,
		want: make(chan struct{}, 1), got: make(chan chunk, 1),
	}
}

// listen returns the channel for text that is typed from now on. A receiver must call
// took.
func (k *keyboard) listen() <-chan chunk {
	if k.closed {
		return nil
	}
	// There is one goroutine for the life of the program, because a read from a terminal
	// cannot be interrupted.
	k.start.Do(func() { go k.read() })
	if !k.waiting {
		k.waiting = true
		k.want <- struct{}{}
	}
	return k.got
}

func (k *keyboard) read() {
	buf := make([]byte, 4096)
	for range k.want {
		n, err := k.src.Read(buf)
		k.got <- chunk{append([]byte(nil), buf[:n]...), err, time.Now()}
		if err != nil {
			return
		}
	}
}

// took registers that c was received.
func (k *keyboard) took(c chunk) {
	k.waiting, k.at = false, c.at
	k.closed = k.closed || c.err != nil
}

// fill waits until something is typed, for line editors.
func (k *keyboard) fill() error {
	for len(k.ahead) == 0 {
		if k.closed {
			return io.EOF
		}
		select {
		case c := <-k.listen():
			k.took(c)
			k.ahead = append(k.ahead, c.data...)
		case sig := <-k.signals:
			return signalError(sig)
		}
	}
	return nil
}

func signalError(sig os.Signal) error {
	if sig == os.Interrupt {
		return errInterrupt
	}
	return errHangup
}

// Read returns typed text, one byte at a time, so that text after the end of a line stays
// for the next one.
func (k *keyboard) Read(p []byte) (int, error) {
	if err := k.fill(); err != nil {
		return 0, err
	}
	b := k.ahead[0]
	k.ahead = k.ahead[1:]
	if b == keyCtrlC {
		return 0, errInterrupt
	}
	p[0] = b
	return 1, nil
}

// exitCode returns the exit code for a program that a signal ended.
func exitCode(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitError
}
