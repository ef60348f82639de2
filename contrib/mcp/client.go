package mcp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/proc"
)

// Option configures a [Connector]. Options are applied in order, and the last one of a kind wins.
type Option func(*options) error

type options struct {
	dir    string
	elicit func(context.Context, Question) (Answer, error)
	sample func(context.Context, string, *aycoder.Request) (*aycoder.Response, error)

	stream   func(name string) io.ReadWriteCloser
	logins   string
	document string
	browse   func(ctx context.Context, address string) error

	refreshFor time.Duration // how long an authorization server may take
	pause      time.Duration // after the second loss of a connection in a row; doubled after each further one
	leave      time.Duration // how long a program may take to end when its input is closed
	listen     time.Duration // how long an address may take to begin with what it says unasked
}

// WithDir sets the directory in which programs are started. Default: that of this process.
func WithDir(dir string) Option {
	return func(o *options) error { o.dir = dir; return nil }
}

// WithStream sets a function that connects to servers which are neither a program nor at an address, such as those inside
// a program that speaks to this one. Each message is a line of JSON on the stream, in either direction, which is written by
// one Write, and closing the stream ends the connection. If the function returns nil, the server is reached as its configuration says. Default: no
// streams.
func WithStream(open func(name string) io.ReadWriteCloser) Option {
	return func(o *options) error { o.stream = open; return nil }
}

// Connector returns what connects to the servers of a configuration, for [harness.WithServers]. It connects with ctx, or
// for at most the timeout of the server. An invalid option is the error of each connection.
func Connector(opts ...Option) harness.Connector {
	var o options
	err := option.Apply(&o, opts)
	return func(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
		if err != nil {
			return nil, err
		}
		c, err := newClient(name, s, o)
		if err != nil {
			return nil, err
		}
		err = c.begin(ctx)
		if c.login != nil && isLogin(err) {
			c.logOut() // the login comes outside of the handshake
			c.tell("it wants a login")
			return c, nil
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
}

// A client is a server of the configuration. Its connections come and go.
type client struct {
	name string
	s    config.Server
	options
	life   context.Context // until Close
	cancel context.CancelFunc

	login *login // nil if a login is out of the question

	notes struct {
		sync.Mutex
		all  []string
		told int
	}

	busy  chan struct{} // held by whoever connects or lists tools
	owned sync.WaitGroup

	mu       sync.Mutex // guards all that follows
	closed   bool
	conn     *conn // the newest one, or nil
	tools    []aycoder.Tool
	prompts  []*mcp.Prompt
	out      bool // the server wants a login
	stale    bool // the server says that its tools or prompts have changed
	losses   int  // of connections in a row
	next     time.Time
	progress map[int64]func(aycoder.Progress)
	token    int64
	limits   map[*time.Timer]time.Duration // of what is being done
	asking   int                           // questions that the host has not answered
}

func newClient(name string, s config.Server, o options) (*client, error) {
	if !plain(name) {
		return nil, &Error{Server: name, Op: "connect", Err: errors.New("its name must consist of letters, digits, - and _, " +
			"without a _ at the ends or beside another one, so that no tool of it has the name of another server's")}
	}
	if o.pause == 0 {
		o.pause, o.leave = time.Second, time.Second
	}
	c := &client{name: name, s: s, options: o, busy: make(chan struct{}, 1),
		progress: map[int64]func(aycoder.Progress){}, limits: map[*time.Timer]time.Duration{}}
	c.refreshFor, c.listen = cmp.Or(c.refreshFor, 10*time.Second), cmp.Or(c.listen, 3*time.Second)
	c.life, c.cancel = context.WithCancel(context.Background())
	if keys := slices.Collect(maps.Keys(s.Headers)); s.URL != "" && o.logins != "" && !slices.ContainsFunc(keys, isAuthorization) {
		c.login = c.newLogin()
	}
	return c, nil
}

func isAuthorization(header string) bool { return strings.EqualFold(header, "Authorization") }

// begin makes a connection.
func (c *client) begin(ctx context.Context) error {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	_, err := c.connection(ctx)
	return err
}

// connection returns a connection, perhaps a new one.
func (c *client) connection(ctx context.Context) (*conn, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	return c.connected(ctx)
}

// tell notes what the user may want to know, once.
func (c *client) tell(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.notes.Lock()
	defer c.notes.Unlock()
	if len(c.notes.all) < maxNotes && !slices.Contains(c.notes.all, text) {
		c.notes.all = append(c.notes.all, text)
	}
}

// maxNotes bounds what a user is told of a server.
const maxNotes = 16

// Notices returns what the user may want to know and was not told yet, such as why a tool is left out: see
// [harness.ToolSource].
func (c *client) Notices() []string {
	c.notes.Lock()
	defer c.notes.Unlock()
	news := c.notes.all[c.notes.told:]
	c.notes.told = len(c.notes.all)
	return news
}

// spawn runs f in a goroutine that Close waits for. It returns false if the client is closed.
func (c *client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.owned.Go(f)
	}
	return !c.closed
}

// limit bounds what is done with the server by its timeout.
func (c *client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.s.Timeout
	if limit <= 0 {
		limit = time.Minute
	}
	return c.within(ctx, limit)
}

// within bounds what is done with the server. The time does not pass while the host is asked something.
func (c *client) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := c.untilClose(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("server %s has not answered within %v: %w", c.name, limit, context.DeadlineExceeded))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits[timer] = limit; c.asking > 0 {
		timer.Stop() // the answer starts it
	}
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		timer.Stop()
		delete(c.limits, timer)
		cancel(nil)
		stop()
	}
}

// maxAsking is how many questions of a server the host is asked at once.
const maxAsking = 16

// asks stops the time while the host is asked something. Afterwards, the server has as long as at the beginning.
func (c *client) asks() (answered func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == maxAsking {
		return nil, refused(errors.New("too many questions at once"))
	}
	c.asking++
	for timer := range c.limits {
		timer.Stop()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asking--; c.asking == 0 {
			for timer, limit := range c.limits {
				timer.Reset(limit)
			}
		}
	}, nil
}

// untilClose returns a context that also ends with the client.
func (c *client) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (c *client) lock(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return &Error{Server: c.name, Op: "wait for the connection", Err: context.Cause(ctx)}
	}
	if c.life.Err() != nil {
		c.unlock()
		return &Error{Server: c.name, Op: "connect", Err: ErrClosed}
	}
	return nil
}

func (c *client) unlock() { <-c.busy }

// A conn is one connection. Its goroutine ends with it.
type conn struct {
	session *mcp.ClientSession
	proc    *process // of these three, two are nil
	remote  *remote
	stream  io.Closer
	ended   chan struct{}
	dead    atomic.Bool // it hangs, and will end
	broken  atomic.Bool // nothing more can be read from a program or a stream, or written to it
	lost    atomic.Bool // it is one of the client's losses, however many calls were on it
}

// connected returns a connection with the tools that it has. busy is held.
func (c *client) connected(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	x, wait := c.conn, time.Until(c.next)
	c.mu.Unlock()
	if c.login != nil {
		if err := c.loggedOut(); err != nil {
			return nil, &Error{Server: c.name, Op: "connect", Err: c.wanted(err)}
		}
	}
	if x.alive() {
		return x, nil
	}
	if err := c.pauseFor(ctx, wait); err != nil {
		return nil, err
	}
	x, err := c.open(ctx)
	if err != nil {
		c.missed(err)
		return nil, err
	}
	c.mu.Lock()
	c.conn = x
	c.mu.Unlock()
	if err := c.list(ctx, x); err != nil {
		x.close()
		c.missed(err)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = false
	return x, nil
}

// missed notes that a connection could not be made.
func (c *client) missed(err error) {
	if c.login == nil || !isLogin(err) {
		c.lost()
	}
}

// pauseFor waits before the next attempt. If that is long, it is an error, with which the model can do something else.
func (c *client) pauseFor(ctx context.Context, wait time.Duration) error {
	switch {
	case wait <= 0:
		return nil
	case wait > 5*c.pause:
		return &Error{Server: c.name, Op: "connect", Err: fmt.Errorf("%w, and is tried again in %v", ErrDown, wait.Round(time.Second))}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &Error{Server: c.name, Op: "connect", Err: context.Cause(ctx)}
	}
}

// lost notes that a connection was lost, or could not be made. After the first one, there is no wait.
func (c *client) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses++; c.losses > 1 {
		c.next = time.Now().Add(min(c.pause<<min(c.losses-2, 6), 60*c.pause))
	}
}

// works notes that the server has answered a call.
func (c *client) works() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses, c.next = 0, time.Time{}
}

// open makes a connection. Some servers end when they are asked for what is newer than they are, so it is tried again
// with the handshake that all of them know.
func (c *client) open(ctx context.Context) (*conn, error) {
	x, err := c.openWith(ctx, "")
	if err != nil && ctx.Err() == nil && c.s.URL == "" && !errors.Is(err, errStart) {
		if again, err := c.openWith(ctx, "2025-11-25"); err == nil {
			return again, nil
		}
	}
	return x, err
}

var errStart = errors.New("start the program")

func (c *client) openWith(ctx context.Context, version string) (*conn, error) {
	x := &conn{ended: make(chan struct{})}
	var transport mcp.Transport
	if stream := c.streamOf(); stream != nil {
		x.stream, transport = stream, &pipe{mcp.IOTransport{Reader: stream, Writer: stream, MaxLineLength: maxMessage}, &x.broken}
	} else if c.s.URL != "" {
		x.remote, transport = dial(c.s, c.login, c.listen)
		transport = &kept{Transport: transport, remote: x.remote}
	} else {
		p, err := start(c.s, c.options)
		if err != nil {
			return nil, &Error{Server: c.name, Op: "connect", Err: err}
		}
		out := &messages{Peer: p.Peer, in: bufio.NewReader(p.Out)}
		x.proc, transport = p, &pipe{mcp.IOTransport{Reader: out, Writer: p.In, MaxLineLength: maxMessage}, &x.broken}
	}
	done := make(chan error, 1)
	go func() { // the SDK may hang in writing to a program that reads nothing
		var err error
		x.session, err = c.newClient().Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		x.drop()
		<-done
		if x.session != nil {
			_ = x.session.Close()
		}
		x.drop()
		return nil, c.failed(ctx, "connect", x, ctx.Err())
	}
	if err != nil {
		x.drop()
		return nil, c.failed(ctx, "connect", x, err)
	}
	if !c.spawn(func() {
		defer close(x.ended)
		_ = x.session.Wait() // its error is that of the calls, too
		_ = x.session.Close()
		x.drop()
	}) {
		_ = x.session.Close()
		x.drop()
		return nil, &Error{Server: c.name, Op: "connect", Err: ErrClosed}
	}
	return x, nil
}

func (c *client) streamOf() io.ReadWriteCloser {
	if c.stream == nil {
		return nil
	}
	return c.stream(c.name)
}

// newClient makes the client of one connection, which does not share what the SDK remembers with others.
func (c *client) newClient() *mcp.Client {
	o := &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { c.changed() },
		PromptListChangedHandler:    func(context.Context, *mcp.PromptListChangedRequest) { c.changed() },
		ProgressNotificationHandler: c.progressed,
	}
	c.questions(o)
	m := mcp.NewClient(&mcp.Implementation{Name: "aycoder", Version: "0"}, o)
	m.AddReceivingMiddleware(withParams)
	return m
}

// withParams refuses what has no parameters and which the SDK would take as if it had some.
func withParams(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		missing := false
		switch r := req.(type) {
		case *mcp.ElicitRequest:
			missing = r.Params == nil
		case *mcp.ElicitationCompleteNotificationRequest:
			missing = r.Params == nil
		}
		if missing {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + " needs parameters"}
		}
		return next(ctx, method, req)
	}
}

func (c *client) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = true
}

func (x *conn) alive() bool {
	if x == nil || x.dead.Load() {
		return false
	}
	select {
	case <-x.ended:
		return false
	default:
		return true
	}
}

// drop ends what the connection goes through.
func (x *conn) drop() {
	x.cut()
	if x.remote != nil {
		x.remote.close()
	}
}

// cut ends a program or a stream, so that nobody who reads or writes hangs.
func (x *conn) cut() {
	if x.proc != nil {
		x.proc.stop()
	} else if x.stream != nil {
		_ = x.stream.Close()
	}
}

// abandon ends a connection to a server that hangs, without waiting for its end.
func (c *client) abandon(x *conn) {
	if x.dead.Swap(true) {
		return
	}
	c.spawn(func() { // otherwise Close ends it
		x.cut()
		_ = x.session.Close()
	})
}

// close ends the connection and waits until nothing of it is left.
func (x *conn) close() {
	x.cut()
	_ = x.session.Close()
	<-x.ended
}

// listFor is how long a turn waits for the tools of a server that says that they have changed.
const listFor = 10 * time.Second

// Tools implements [harness.ToolSource].
func (c *client) Tools(ctx context.Context) ([]aycoder.Tool, error) {
	c.mu.Lock()
	tools, out := c.tools, c.out
	same := !out && (!c.stale || !c.conn.alive()) // the next call of a tool connects
	c.mu.Unlock()
	if same {
		return tools, nil
	}
	ctx, cancel := c.within(ctx, listFor)
	defer cancel()
	_, err := c.current(ctx)
	if out && isLogin(err) {
		return tools, nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tools, nil
}

// current returns a connection, after the tools that its server has now were listed.
func (c *client) current(ctx context.Context) (*conn, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	x, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	stale := c.stale
	c.mu.Unlock()
	if stale {
		err = c.list(ctx, x)
	}
	return x, err
}

// Close implements [harness.ToolSource].
func (c *client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.busy <- struct{}{} // whoever connects has noticed
	defer c.unlock()
	c.mu.Lock()
	x := c.conn
	c.mu.Unlock()
	if x != nil {
		x.close()
	}
	c.owned.Wait()
	return nil
}

// rejected is the code of the SDK's error for a request that the transport did not take.
const rejected = -32005

// failed makes the error of an operation on a connection. An error that the server has answered with has its code.
func (c *client) failed(ctx context.Context, op string, x *conn, err error) error {
	err = withoutKeys(err, c.s.URL)
	e := &Error{Server: c.name, Op: op, Err: err}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code != rejected && !(answer.Code == jsonrpc.CodeInvalidRequest && x.broken.Load()) {
		e.Code, e.Err = answer.Code, errors.New(clean(answer.Message, 2<<10))
		return e
	}
	var why *error
	if x.remote != nil {
		why = x.remote.why(ctx)
	}
	switch {
	case ctx.Err() != nil:
		if e.Err = context.Cause(ctx); x.proc != nil {
			e.Stderr = clean(x.proc.Stderr.Text(), proc.MaxStderr)
		}
	case why != nil:
		e.Err = fmt.Errorf("%w (%v)", *why, err)
		if c.login != nil && errors.Is(e.Err, ErrUnauthorized) {
			e.Err = c.wanted(e.Err)
			c.logOut()
		}
	case x.proc != nil:
		late := time.NewTimer(abandonFor) // its end may come a little after that of its output
		defer late.Stop()
		select {
		case <-x.proc.Ended:
			if x.proc.Failed != nil && !errors.Is(x.proc.Failed, context.Canceled) {
				e.Err = fmt.Errorf("%w: %w", errStart, x.proc.Failed)
			}
		case <-late.C:
		}
		e.Stderr = clean(x.proc.Stderr.Text(), proc.MaxStderr)
	}
	return e
}

// call calls a tool.
func (c *client) call(ctx context.Context, x *conn, name string, args json.RawMessage, report func(aycoder.Progress)) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	token := c.follow(report)
	defer c.unfollow(token)
	params.SetProgressToken(token)
	return answer(ctx, c, x, "call "+visible(name), func(ctx context.Context) (*mcp.CallToolResult, error) { return x.session.CallTool(ctx, params) })
}

// await waits for what asks the server. If that does not end with ctx, the connection is given up. The SDK panics on some
// answers, such as one that has null in the place of an object.
func await[T any](ctx context.Context, c *client, x *conn, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what an address may still send
	type outcome struct {
		res T
		err error
	}
	done := make(chan outcome, 1)
	open := c.spawn(func() {
		out := outcome{err: errPanic}
		defer func() {
			_ = recover()
			done <- out
		}()
		out.res, out.err = ask(ctx)
	})
	var out outcome
	if !open {
		return out.res, ErrClosed
	}
	select {
	case out = <-done:
		return out.res, out.err
	case <-ctx.Done():
	}
	late := time.NewTimer(abandonFor)
	defer late.Stop()
	select {
	case out = <-done:
		return out.res, out.err
	case <-late.C: // it writes to a program that reads nothing, or is taken up with an address
		c.abandon(x)
		return out.res, context.Cause(ctx)
	}
}

var errPanic = errors.New("the answer is malformed")

// errMalformed means that the server has answered, and the connection works.
var errMalformed = errors.New("the server has answered, but not as the protocol demands, so the result is not known; the call is not repeated")

// errForgotten means that an address does not know the session any more, such as after it was started again.
var errForgotten = errors.New("the server has ended the session, and has not carried out the call; the next call begins another session")

// tooManyRounds is in the SDK's error for a server that answers a request with ten questions in a row.
const tooManyRounds = "multi-round-trip: exceeded maximum"

// errUnsent means that the connection was lost before a request was sent on it.
var errUnsent = errors.New("the connection was lost before the request was sent")

// answer waits for the answer to a request, and notes whether the connection works.
func answer[T any](ctx context.Context, c *client, x *conn, op string, ask func(context.Context) (T, error)) (T, error) {
	p, others := new(posted), int64(0)
	ctx = context.WithValue(ctx, postedKey{}, p)
	if x.remote != nil {
		others = x.remote.others.Load()
	}
	res, asked := await(ctx, c, x, ask)
	if asked == nil {
		c.works()
		return res, nil
	}
	if errors.Is(asked, ErrClosed) {
		return res, &Error{Server: c.name, Op: op, Err: ErrClosed}
	}
	if strings.Contains(asked.Error(), tooManyRounds) {
		c.works() // the server has answered, with a question each time
		return res, &Error{Server: c.name, Op: op, Err: ErrAsks}
	}
	asked = withoutKeys(asked, c.s.URL)
	err := c.failed(ctx, op, x, asked)
	if e, _ := err.(*Error); e.Code == 0 && ctx.Err() == nil && !isLogin(err) && !errors.Is(err, errForbidden) {
		_, refused := errors.AsType[*jsonrpc.Error](asked)
		lost := ErrLost
		switch {
		case x.remote == nil && !refused && !errors.Is(asked, errPanic) && !x.broken.Load() && !errors.Is(asked, mcp.ErrConnectionClosed):
			lost = errMalformed
			c.works()
		case p.missing.Load() && errors.Is(asked, mcp.ErrSessionMissing):
			lost = errForgotten
		case x.remote != nil && !p.sent.Load() && x.remote.others.Load() == others:
			lost = errUnsent
		}
		if lost != errMalformed {
			if !x.lost.Swap(true) {
				c.lost()
			}
			if !refused { // more than one request to an address has failed
				c.abandon(x)
			}
		}
		e.Err = fmt.Errorf("%w (%v)", lost, clean(strings.TrimPrefix(asked.Error(), "calling \"tools/call\": "), 1<<10))
	} else if e.Code != 0 {
		c.works()
	}
	return res, err
}

// wanted adds to an error what the model can do about it.
func (c *client) wanted(err error) error {
	return fmt.Errorf("%w; the tool %s asks the user for it", err, toolName(c.name, loginName))
}

// State says how the server is, as [harness.Runtime.Servers] does.
func (c *client) State() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.out:
		return "wants a login"
	case c.conn.alive():
		return "on"
	case c.next.After(time.Now()):
		return "down"
	}
	return "not connected; the next call does that"
}

// abandonFor is how long the SDK may take to give up a call. A tool must return 100 ms after its context.
const abandonFor = 50 * time.Millisecond

func (c *client) follow(report func(aycoder.Progress)) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token++
	c.progress[c.token] = report
	return c.token
}

func (c *client) unfollow(token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.progress, token)
}

// progressed passes on the progress of a call. The last notice may come after the result, when nobody waits for it.
func (c *client) progressed(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	token, ok := req.Params.ProgressToken.(float64)
	if !ok {
		return
	}
	c.mu.Lock()
	report := c.progress[int64(token)]
	c.mu.Unlock()
	if report != nil {
		report(aycoder.Progress{
			Current: int64(req.Params.Progress), Total: int64(req.Params.Total), Message: clean(req.Params.Message, 1<<10),
		})
	}
}
