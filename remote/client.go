package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"golang.org/x/sync/semaphore"
)

// Client is a connection to a workspace on another machine, where [Serve] runs. It is both the files
// and the commands of the tools:
//
//	c, err := remote.Start(ctx, exec.Command("docker", "exec", "-i", name, "/aycoder-remote", "-dir", "/work"))
//	…
//	defer c.Close()
//	list, err := tools.Coding(c, tools.WithExec(c))
//
// A call is one message there and one back; many calls can be under way, and a large one does not
// delay a small one. Each method keeps the contracts of [tools.FS] and [tools.Exec].
//
// If the connection is cut, each call that waits and each later one returns a [DisconnectedError] in
// a [*workspace.Error]. A call that may have changed something is of [workspace.KindInterrupted]. No
// call is ever sent twice, and a Client does not connect again. The commands are killed on the other
// machine as soon as it notices: at the end of the stream, or after 60 to 75 s of silence. The Client
// finds out in the same way.
//
// The Client does not trust the other machine: it checks names, lengths and results, and cuts the
// connection if one cannot be right. The content of files and the output of commands are of course
// what the other machine says. A Client is safe for concurrent use.
type Client struct {
	hello hello
	seen  workspace.SeenFiles
	in    *receiver
	out   *sender
	close func() error // the streams

	slots slots
	room  *semaphore.Weighted // bytes of requests

	work sync.WaitGroup
	done chan struct{}

	mu    sync.Mutex
	err   error // why the connection has ended
	last  uint32
	calls map[uint32]*call
}

var (
	_ tools.RemoteFS   = (*Client)(nil)
	_ tools.RemoteExec = (*Client)(nil)
)

// call is a call that was queued or sent.
type call struct {
	request
	about subject
	id    uint32
	sent  *message
	free  func()

	answer []byte
	err    error // of the connection
	done   chan struct{}
}

// Connect connects to a program that serves a workspace: Connect reads from r what that program
// writes, and writes to w what it reads. The Client closes both in the end, even if Connect returns
// an error. If the program says anything else, such as an error of a shell, the error is a
// [ProtocolError] which quotes it; if it was built from another version, it is a [VersionError]. Connect
// waits for a program that says nothing until ctx ends.
func Connect(ctx context.Context, r io.ReadCloser, w io.WriteCloser) (*Client, error) {
	return connect(ctx, r, w, func() error { return errors.Join(w.Close(), r.Close()) })
}

func connect(ctx context.Context, r io.Reader, w io.Writer, closeBoth func() error) (*Client, error) {
	c := &Client{in: newReceiver(r), out: newSender(w), close: sync.OnceValue(closeBoth), calls: map[uint32]*call{},
		slots: newSlots(), room: semaphore.NewWeighted(maxRequests - maxSmall), done: make(chan struct{})}
	ready := make(chan error, 1)
	c.work.Go(func() {
		if _, err := w.Write(greeting()); err != nil {
			c.fail(err)
			return
		}
		c.fail(c.out.run())
	})
	c.work.Go(func() {
		err := c.greet()
		if ready <- err; err == nil {
			err = c.receive()
		}
		c.fail(err)
	})
	var err error
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		c.fail(err)
		c.work.Wait()
		return nil, fmt.Errorf("connect to workspace: %w", err)
	}
	c.work.Go(func() { beat(c.in, c.out, c.done, c.fail) })
	return c, nil
}

// greet reads what the server says first.
func (c *Client) greet() error {
	if err := greeted(c.in.r); err != nil {
		return err
	}
	f, err := c.in.next()
	if err != nil {
		return err
	}
	d := decoder(f.payload).code(&c.hello)
	if f.kind != frameLast {
		d.fail()
	}
	for _, dir := range []string{c.hello.Dir, c.hello.Real} {
		if !d.failed && (!filepath.IsAbs(dir) || filepath.Clean(dir) != dir) {
			return protocolError("the directory %.200q, which is no absolute path on this machine", dir)
		}
	}
	return d.end()
}

// receive handles frames until the connection ends.
func (c *Client) receive() error {
	for {
		f, err := c.in.next()
		if err != nil {
			return err
		}
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

const firstAnswer = 512 << 10 // bytes that an answer of several frames gets at first

// handle handles a frame. One of an unknown call is an error, as a call stays known until its answer
// has come, even if nobody waits for it any more.
func (c *Client) handle(f frame) error {
	c.mu.Lock()
	k := c.calls[f.id]
	c.mu.Unlock()
	switch {
	case k == nil:
		return protocolError("an answer without a question")
	case f.kind == frameOutput && k.op == opRun:
		_, _ = k.Command.Output.Write(f.payload)
	case f.kind == framePart || f.kind == frameLast:
		most := cmp.Or(maxAnswer[k.op], maxSmall)
		if len(k.answer)+len(f.payload) > most {
			return protocolError("an answer of more than %d bytes", most)
		}
		if k.answer == nil && f.kind == framePart {
			k.answer = make([]byte, 0, min(most, firstAnswer))
		}
		if k.answer = append(k.answer, f.payload...); f.kind == frameLast {
			c.finish(k)
		}
	default:
		return protocolError("a frame of type %d", f.kind)
	}
	return nil
}

// finish ends a call, unless it has ended. It reports whether it did.
func (c *Client) finish(k *call) bool {
	c.mu.Lock()
	known := c.calls[k.id] == k
	delete(c.calls, k.id)
	c.mu.Unlock()
	if known {
		k.free()
		close(k.done)
	}
	return known
}

// fail ends the connection. Nothing waits for its answer after that.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		if c.err = err; err == nil {
			c.err = io.EOF
		}
		close(c.done)
	}
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	c.out.end(c.Err())
	for _, k := range calls {
		k.err = &DisconnectedError{Started: !c.out.abort(k.sent), Err: c.Err()}
		k.free()
		close(k.done)
	}
	_ = c.close()
}

// About returns what the program on the other machine says about itself: see [WithAbout]. Nobody has checked it.
func (c *Client) About(ctx context.Context) (text []byte, err error) {
	err = c.ask(ctx, subject{op: "ask about", path: "."}, request{op: opAbout}, &text)
	return text, err
}

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, or nil. After Close it is [ErrDisconnected].
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits until its goroutines have returned. Calls that wait return; the
// commands that run are killed on the other machine. A program that [Start] has started ends. Close
// can be called several times. The error is that of closing the streams, or of the program.
func (c *Client) Close() error {
	c.fail(ErrDisconnected)
	c.work.Wait()
	return c.close()
}

// begin queues a request. The call counts until its answer has come. One that cannot be queued has an error and no
// message.
func (c *Client) begin(ctx context.Context, about subject, r request) *call {
	k := &call{request: r, about: about, done: make(chan struct{})}
	body := (&coder{b: []byte{byte(r.op)}}).code(&r)
	size := int64(len(body.b))
	if size > maxPlan || size > maxSmall && r.op != opApply {
		k.err = &foreign{"what is asked for is too large", nil}
		return k
	}
	slots := c.slots[r.op]
	err := slots.Acquire(ctx, 1)
	if err == nil {
		if err = c.room.Acquire(ctx, size); err != nil {
			slots.Release(1)
		}
	}
	if err != nil {
		k.err = context.Cause(ctx)
		return k
	}
	k.free = func() {
		c.room.Release(size)
		slots.Release(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		k.free()
		k.err = &DisconnectedError{Err: c.err}
		return k
	}
	k.id = c.next()
	k.sent = &message{id: k.id, kind: frameLast, data: body.b}
	c.calls[k.id] = k
	c.out.put(k.sent)
	return k
}

// next returns the number of a new call. The caller holds the mutex.
func (c *Client) next() uint32 {
	for c.last++; c.last == 0 || c.calls[c.last] != nil; c.last++ {
	}
	return c.last
}

// patience is how long a cancelled call that may change something is waited for.
const patience = 5 * time.Second

var errNoAnswer = errors.New("the other machine did not answer a cancel in time")

// wait waits for the answer. If ctx ends, the call is cancelled there. If the call may change something,
// the answer to the cancel is waited for, since it says what has happened.
func (c *Client) wait(ctx context.Context, k *call) error {
	if k.sent == nil {
		return k.err
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		if !c.cancel(k) || !k.op.effect() {
			return context.Cause(ctx)
		}
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-k.done:
		case <-late.C:
			return &DisconnectedError{Started: true, Err: errNoAnswer}
		}
	}
	return k.err
}

// cancel cancels a call. It returns false if the call was not sent as a whole, so that it does not
// happen.
func (c *Client) cancel(k *call) bool {
	if !c.out.abort(k.sent) {
		c.out.put(&message{id: k.id, kind: frameCancel})
		return true
	}
	if c.finish(k) { // a part of the request may be there
		c.out.put(&message{id: k.id, kind: frameCancel})
	}
	return false
}

// ask makes a call and decodes the answer: see answered.
func (c *Client) ask(ctx context.Context, about subject, r request, into ...any) error {
	return c.answered(ctx, c.begin(ctx, about, r), into...)
}

// answered waits for the answer to a call and decodes it. If the answer cannot be right, it cuts the
// connection.
func (c *Client) answered(ctx context.Context, k *call, into ...any) error {
	if err := c.wait(ctx, k); err != nil {
		return k.about.wrap(err, k.op.effect())
	}
	var f *failure
	d := decoder(k.answer).remember(k.texts()...).code(&f)
	if f == nil || len(d.b) > 0 { // a part of a result can come with an error
		d.code(into...)
	}
	err := d.end()
	if err == nil && f != nil && f.Conflict != nil {
		err = checkChanges(k.Files, f.Conflict.Files, false, c.Rel)
	}
	for _, v := range into {
		v := reflect.ValueOf(v).Elem()
		if err == nil && f == nil && v.Kind() == reflect.Pointer && v.IsNil() {
			err = noResult()
		}
		if err != nil {
			v.SetZero()
		}
	}
	switch cause := context.Cause(ctx); {
	case err != nil:
		return c.reject(k, err)
	case cause != nil && f != nil && f.cancelled():
		return cause
	}
	return k.about.wrap(f.error(&k.request), k.op.effect())
}

// reject cuts the connection because of an answer that cannot be right.
func (c *Client) reject(k *call, err error) error {
	c.fail(err)
	return k.about.wrap(&DisconnectedError{Started: true, Err: err}, k.op.effect())
}

// subject is what a call is about.
type subject struct{ op, path string }

const running = "run a command in" // whose errors are those of [tools.Exec]

// wrap makes an error one of the contract of [tools.FS].
func (s subject) wrap(err error, effect bool) error {
	if e, ok := errors.AsType[*DisconnectedError](err); ok {
		kind := workspace.KindIO
		if effect && e.Started {
			kind = workspace.KindInterrupted
			err = fmt.Errorf("%w; it may have happened or not: look at what is there before you do it again", err)
		}
		return &workspace.Error{Op: s.op, Path: s.path, Kind: kind, Err: err}
	}
	if e, ok := err.(*foreign); ok && s.op != running {
		return &workspace.Error{Op: s.op, Path: s.path, Kind: workspace.KindIO, Err: e}
	}
	return err
}
