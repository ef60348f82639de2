package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/aycoder/aycoder/tools"
)

// Serve makes files and commands available to one client, a [Client] of the same version: it reads
// from r what the client writes, and writes to w what the client reads. It returns when the client
// has closed the connection, when ctx ends, or when the client breaks the protocol or is silent for a
// minute. Whatever the reason, all calls are cancelled first and all commands killed, with their
// processes. The error is nil if the client has closed the connection.
//
// Serve relies on files and e for confinement, not on the client: a [workspace.Workspace] keeps all
// names within its directory, and commands run only in the directory of files. The client is believed
// about approvals, as it is the host of the agent. If e is nil, commands are refused.
//
// If r and w implement [io.Closer], Serve closes them and leaves no goroutine. Otherwise, and with
// [os.Stdin] and [os.Stdout], a goroutine can remain until Read or Write returns. If w is os.Stdout,
// nothing else may write to it, and until Serve returns, a broken pipe does not end the process, so
// that commands can be killed.
func Serve(ctx context.Context, r io.Reader, w io.Writer, files tools.FS, e tools.Exec, opts ...ServeOption) error {
	stdio := w == io.Writer(os.Stdout)
	if stdio {
		broken := make(chan os.Signal, 1)
		signal.Notify(broken, syscall.SIGPIPE)
		defer signal.Stop(broken)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{fs: files, exec: e, in: newReceiver(r), out: newSender(w), w: w, ctx: ctx, end: cancel,
		calls: map[uint32]*serverCall{}, files: map[uint32]fs.File{},
		slots: newSlots()}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	s.io.Go(func() { cancel(s.receive()) })
	s.io.Go(func() { beat(s.in, s.out, ctx.Done(), cancel) })
	<-ctx.Done()
	s.out.end(context.Cause(ctx))
	s.stop()
	rc, rOK := r.(io.Closer)
	wc, wOK := w.(io.Closer)
	if rOK && wOK && !stdio {
		_, _ = rc.Close(), wc.Close()
		s.io.Wait()
	}
	s.mu.Lock()
	for id, f := range s.files {
		f.Close()
		delete(s.files, id)
	}
	s.mu.Unlock()
	err := context.Cause(ctx)
	for _, closed := range []error{io.EOF, io.ErrClosedPipe, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return nil
		}
	}
	return fmt.Errorf("serve workspace: %w", err)
}

// ServeOption configures [Serve].
type ServeOption func(*server)

// WithAbout sets what answers [Client.About]: a text of at most 4 MiB in a form that both programs know. It is called
// for each question, also several times at once. Default: the text is empty.
func WithAbout(describe func(ctx context.Context) ([]byte, error)) ServeOption {
	return func(s *server) { s.describe = describe }
}

// server serves one connection.
type server struct {
	fs   tools.FS
	exec tools.Exec
	in   *receiver
	out  *sender
	w    io.Writer
	ctx  context.Context // of the connection
	end  context.CancelCauseFunc

	describe func(context.Context) ([]byte, error) // or nil

	io, work sync.WaitGroup // goroutines that read or write; calls until they are done
	slots    slots

	mu      sync.Mutex
	stopped bool // no call begins any more
	calls   map[uint32]*serverCall
	last    uint32             // the newest call
	bytes   int                // of all requests
	files   map[uint32]fs.File // by the calls that have opened them
}

// serverCall is a call from its first frame until its answer is sent.
type serverCall struct {
	request []byte
	cancel  context.CancelCauseFunc // nil until the request is complete
}

// stop waits until nothing of a call is left, such as a command.
func (s *server) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.work.Wait()
}

// greeting is what each side says first. The server does when it has heard that of the client.
func greeting() []byte { return binary.BigEndian.AppendUint16([]byte(magic), version) }

// greeted reads the greeting of the other side. The error quotes the beginning of anything else, such
// as a message of ssh.
func greeted(r io.Reader) error {
	buf := make([]byte, len(magic)+2)
	n, err := io.ReadFull(r, buf)
	if string(buf[:min(n, len(magic))]) != magic[:min(n, len(magic))] {
		more := make([]byte, 200)
		if n == len(buf) {
			m, _ := r.Read(more)
			buf = append(buf, more[:m]...)
			n += m
		}
		return protocolError("%q in the place of a greeting", buf[:n])
	}
	if err != nil {
		return err
	}
	if v := int(binary.BigEndian.Uint16(buf[len(magic):])); v != version {
		return &VersionError{version, v}
	}
	return nil
}

// receive handles frames until the connection ends.
func (s *server) receive() error {
	err := greeted(s.in.r)
	if _, other := errors.AsType[*VersionError](err); err == nil || other {
		if _, errWrite := s.w.Write(greeting()); err == nil {
			err = errWrite
		}
	}
	if err != nil {
		return err
	}
	s.io.Go(func() { s.end(s.out.run()) })
	s.sayHello()
	for {
		f, err := s.in.next()
		if err == nil {
			err = s.handle(f)
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) sayHello() {
	h := hello{Dir: s.fs.Dir()}
	h.Real = h.Dir
	if real, err := filepath.EvalSymlinks(h.Dir); err == nil {
		h.Real = real
	}
	if e, ok := s.exec.(tools.RemoteExec); ok {
		room := maxFrame / 2
		for _, v := range e.Environ() {
			if room -= len(v) + 3; room >= 0 {
				h.Environ = append(h.Environ, v)
			}
		}
	}
	s.out.put(&message{kind: frameLast, data: new(coder).code(&h).b})
}

// handle handles a frame.
func (s *server) handle(f frame) error {
	switch f.kind {
	case frameCancel:
		s.cancel(f.id)
		return nil
	case framePart, frameLast:
		return s.request(f)
	}
	return protocolError("a frame of type %d", f.kind)
}

// cancel cancels a call, and closes the file that it has opened.
func (s *server) cancel(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call := s.calls[id]; call != nil && call.cancel != nil {
		call.cancel(errCancelled)
	} else if call != nil {
		s.forget(id)
	}
	if f := s.files[id]; f != nil {
		f.Close()
		delete(s.files, id)
	}
}

// request takes a frame of a request, and begins the call when it is complete.
func (s *server) request(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.calls[f.id]
	if call == nil {
		if int32(f.id-s.last) <= 0 { // a client numbers its calls in order: this one was there before
			return protocolError("a request again")
		}
		s.last = f.id
		call = new(serverCall)
		s.calls[f.id] = call
	}
	s.bytes += len(f.payload)
	if s.stopped {
		return context.Cause(s.ctx)
	}
	if call.cancel != nil || len(s.calls) > 4*(maxCalls+maxCommands) || s.bytes > maxRequests {
		return protocolError("too much")
	}
	call.request = append(call.request, f.payload...)
	if f.kind == framePart {
		return nil
	}
	if len(call.request) == 0 || call.request[0] == 0 || op(call.request[0]) >= opEnd {
		return protocolError("an unknown request")
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	call.cancel = cancel
	request := call.request
	s.work.Go(func() { s.serve(ctx, f.id, request) })
	return nil
}

// forget drops a call. The caller holds the mutex.
func (s *server) forget(id uint32) {
	if call := s.calls[id]; call != nil {
		s.bytes -= len(call.request)
		if call.cancel != nil {
			call.cancel(nil)
		}
		delete(s.calls, id)
	}
}

// serve carries out a call and sends its answer. The slot of the call is free when the answer is
// sent, so the answers that wait are bounded.
func (s *server) serve(ctx context.Context, id uint32, data []byte) {
	r := request{op: op(data[0])}
	slots := s.slots[r.op]
	var answer []byte
	if slots.Acquire(ctx, 1) != nil {
		answer, slots = reply(context.Cause(ctx)), nil
	} else {
		if err := decoder(data[1:]).code(&r).end(); err != nil {
			s.end(err)
		} else {
			answer = s.answer(ctx, id, &r)
		}
	}
	s.mu.Lock()
	s.forget(id)
	s.mu.Unlock()
	if s.ctx.Err() != nil && r.op.effect() {
		return // the end of the connection may have cut it short: for the client it is interrupted
	}
	s.out.put(&message{id: id, kind: frameLast, data: answer, sent: func() {
		if slots != nil {
			slots.Release(1)
		}
	}})
}
