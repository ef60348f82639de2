package tty

import (
	"errors"
	"io"
	"sync"
	"time"
)

// maxQueue is the number of keys that are read ahead.
const maxQueue = 4096

// An Input delivers the keys of a terminal. It reads all the time, so that a key has the
// time at which it came, even if nobody is waiting for it.
type Input struct {
	src    source
	gate   sync.Mutex    // held during a read, and while the input is paused
	room   chan struct{} // what is read next has room
	chunks chan chunk
	keys   chan Key
	done   chan struct{}
	close  sync.Once
	ended  sync.WaitGroup

	mu  sync.Mutex
	err error
}

// A source is read after wait has returned true. Wake makes wait return false, until rest
// is called.
type source interface {
	io.Reader
	wait() bool
	wake()
	rest()
	half() ([]byte, error) // reads a part of a line that is not delivered yet
	gone() bool            // nobody is at the other end any more
	free()
}

type chunk struct {
	data []byte
	at   time.Time
	err  error
}

// NewInput reads from r until it ends. Lines says that r delivers whole lines, as a pipe or
// a plain terminal does: a line feed is then the key [Enter]. If r is a terminal of Unix, the Input can be paused
// and closed at any time. Otherwise a read that is in progress cannot be interrupted: its
// goroutine stays until the read returns.
func NewInput(r io.Reader, lines bool) *Input {
	in := &Input{
		src: newSource(r), room: make(chan struct{}), chunks: make(chan chunk), keys: make(chan Key),
		done: make(chan struct{}),
	}
	in.ended.Go(in.read)
	in.ended.Go(func() { in.decode(&Decoder{Lines: lines}) })
	return in
}

// Keys returns the channel of the keys. It is closed at the end of the input.
func (in *Input) Keys() <-chan Key { return in.keys }

// ErrHangup is the error of an input whose terminal has gone, as when its window is closed.
var ErrHangup = errors.New("the terminal has gone")

// Err returns the error that ended the input, or nil for its regular end.
func (in *Input) Err() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if errors.Is(in.err, io.EOF) {
		return nil
	}
	return in.err
}

// Pause stops reading until resume is called, so that another program gets what is typed.
func (in *Input) Pause() (resume func()) {
	in.src.wake()
	in.gate.Lock()
	in.src.rest()
	return in.gate.Unlock
}

// Half reads what has been typed of a line into a terminal that delivers whole lines, and
// delivers its keys. Text that is typed later is then known to be later, as the answers to
// a question must be. It does nothing on systems where that is not possible.
func (in *Input) Half() error {
	if _, plain := in.src.(plainSource); plain {
		return nil // it would wait for the read that is in progress
	}
	defer in.Pause()()
	data, err := in.src.half()
	if len(data) == 0 {
		return err
	}
	select {
	case in.chunks <- chunk{data: data, at: time.Now()}:
	case <-in.done:
	}
	return err
}

// Close stops reading for good. Keys that nobody has received are lost.
func (in *Input) Close() {
	in.close.Do(func() {
		close(in.done)
		in.src.wake()
	})
}

func (in *Input) read() {
	defer in.src.free()
	buf := make([]byte, 32<<10)
	for more := true; more; {
		select {
		case <-in.room:
			more = in.readOnce(buf)
		case <-in.done:
			return
		}
	}
}

// readOnce reads something, unless it is woken before. Nobody can read between that and its delivery, which waits for
// no keys. It reports whether more can come.
func (in *Input) readOnce(buf []byte) bool {
	in.gate.Lock()
	defer in.gate.Unlock()
	select {
	case <-in.done:
		return false
	default:
	}
	if !in.src.wait() {
		return true
	}
	n, err := in.src.Read(buf)
	select {
	case in.chunks <- chunk{append([]byte(nil), buf[:n]...), time.Now(), err}:
	case <-in.done:
	}
	return err == nil
}

func (in *Input) decode(d *Decoder) {
	defer close(in.keys)
	var queue []Key
	var late <-chan time.Time
	chunks := in.chunks
	for chunks != nil || len(queue) > 0 {
		var out chan<- Key
		var next Key
		if len(queue) > 0 {
			out, next = in.keys, queue[0]
		}
		room := in.room
		if len(queue) >= maxQueue {
			room = nil
		}
		select {
		case room <- struct{}{}:
			continue
		case out <- next:
			queue = queue[1:]
			continue
		case at := <-late:
			queue = append(queue, d.Flush(at)...)
		case c := <-chunks:
			queue = append(queue, d.Read(c.data, c.at)...)
			if c.err != nil {
				queue = append(queue, d.End(c.at)...)
				if in.src.gone() {
					c.err = ErrHangup
				}
				in.fail(c.err)
				chunks = nil
			}
		case <-in.done:
			return
		}
		if late = nil; d.delay() > 0 {
			late = time.After(d.delay())
		}
	}
}

func (in *Input) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.err = err
}

// A plainSource is read without waiting.
type plainSource struct{ io.Reader }

func (plainSource) wait() bool            { return true }
func (plainSource) wake()                 {}
func (plainSource) rest()                 {}
func (plainSource) half() ([]byte, error) { return nil, nil }
func (plainSource) gone() bool            { return false }
func (plainSource) free()                 {}
