package acp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// Config says what [Serve] offers. Only Open is required.
type Config struct {
	// Open composes the runtime of a session in the directory s.Dir, and must pass s.Options, last, to [harness.New].
	// Serve closes the runtime. It may be called several times at once.
	Open func(ctx context.Context, s Start) (*harness.Runtime, error)
	// Store keeps the conversations. Default: [journal.Memory], so that they end with Serve.
	Store journal.Store
	// Servers connects to the servers of the Model Context Protocol that the client passes to a session, such as the
	// Connector of contrib/mcp. The client decides which programs start: they count as the user's own servers, which start
	// with the session and without a question. Their tools are asked about. At most 64 are taken, each with its own name,
	// and with a command that is an absolute path or the name of a program in PATH, so that it is not a file of the project.
	// Default: none, so that a session with servers is
	// refused. A program that serves editors needs one, since the protocol requires it of every agent.
	Servers harness.Connector
	// Models returns those that the user may choose in a session, by its runtime. To change models, a runtime needs
	// [harness.WithReloader]. Default: none.
	Models func(*harness.Runtime) []Model
	// Name and Version are told to clients. Default: "aycoder" and "0".
	Name, Version string
	// Logger gets what is wrong with the messages of a client. Default: nobody.
	Logger *slog.Logger
}

// Model is a model that the user may choose.
type Model struct {
	// ID is a name for [harness.Runtime.SetModel], such as "anthropic/claude-sonnet-4-5".
	ID string
	// Name and Description are for the user. Default: the ID, and nothing.
	Name, Description string
}

// Start says which session a client begins or continues.
type Start struct {
	// Dir is the absolute path of the directory.
	Dir string
	// Options are what the protocol adds to a runtime: the session, the files of the editor and its servers.
	Options []harness.Option
}

// Serve answers a client of the protocol, which is at the other end of in and out: those of the process, mostly. Nothing
// else may be written to out, so a program that may print something sets [os.Stdout] to [os.Stderr] before. Serve closes
// both. It returns when the client has gone or ctx ends, after the sessions are closed; it is then nil or the cause of ctx.
func Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser, c Config) error {
	if c.Open == nil {
		return &aycoder.ConfigError{Option: "Config.Open", Err: errors.New("is nil")}
	}
	if c.Store == nil {
		c.Store = journal.Memory()
	}
	life, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &agent{Config: c, life: life, sessions: map[sdk.SessionId]*conversation{}, out: &wire{to: proc.Until(life, out)},
		begun: make(chan struct{}, 100)}
	ready := make(chan struct{})
	a.conn = sdk.NewAgentSideConnection(a, a.out, &input{in: bufio.NewReader(in), ready: ready, begun: a.begun})
	a.conn.SetLogger(cmp.Or(c.Logger, slog.New(slog.DiscardHandler)))
	close(ready)
	select {
	case <-a.conn.Done():
	case <-ctx.Done():
	}
	cancel(errGone)
	_ = in.Close() // what was not read does not matter
	_ = out.Close()
	return errors.Join(a.close(), context.Cause(ctx))
}

// ServeStdio is [Serve] with the standard input and output of the process. From then on, whatever else is printed goes to
// the standard error, and a client that has gone does not end the process by a signal.
func ServeStdio(ctx context.Context, c Config) error {
	out := os.Stdout
	os.Stdout = os.Stderr
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE) // unlike Ignore, it does not go on in the commands of tools
	defer signal.Stop(ignored)
	return Serve(ctx, os.Stdin, out, c)
}

var errGone = errors.New("the client has gone")

// input is what the client sends, held back until the connection is complete, as the SDK reads at once. The SDK also handles
// requests and notifications at the same time, so that a cancel right behind a prompt would find nothing to cancel: it waits until
// the prompt has begun.
type input struct {
	in    *bufio.Reader
	ready <-chan struct{}
	begun <-chan struct{} // has a value for each prompt
	open  int             // prompts that have come, and have not begun as far as is known
	rest  []byte
}

func (i *input) Read(p []byte) (int, error) {
	<-i.ready
	if len(i.rest) == 0 {
		line, err := i.in.ReadSlice('\n') // or a part of it
		if len(line) == 0 {
			return 0, err
		}
		if bytes.Contains(line, []byte(`"session/cancel"`)) {
			i.wait()
		}
		if bytes.Contains(line, []byte(`"session/prompt"`)) {
			for ; len(i.begun) > 0; i.open-- { // those before
				<-i.begun
			}
			i.open = max(i.open, 0) + 1 // one that began after its time was up is not counted twice
		}
		i.rest = line
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// wait waits for the prompts that have come. One that the SDK refuses does not begin.
func (i *input) wait() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for ; i.open > 0; i.open-- {
		select {
		case <-i.begun:
		case <-timer.C:
			i.open = 0
			return
		}
	}
}

// wire writes to the client, and notices when the answer with the id of a new session was written: before, the client does
// not know the session.
type wire struct {
	to io.Writer

	mu    sync.Mutex
	await map[string]chan struct{}
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, told := range w.await {
		if err != nil || bytes.Contains(p, []byte(`"result":{`)) && bytes.Contains(p, []byte(`"sessionId":"`+id+`"`)) {
			close(told)
			delete(w.await, id)
		}
	}
	return n, err
}

func (w *wire) told(id string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.await == nil {
		w.await = map[string]chan struct{}{}
	}
	told := make(chan struct{})
	w.await[id] = told
	return told
}

// agent implements the methods of the protocol.
type agent struct {
	Config
	life context.Context
	conn *sdk.AgentSideConnection
	out  *wire

	begun  chan struct{} // see input
	common common

	mu       sync.Mutex
	client   sdk.ClientCapabilities
	closed   bool
	sessions map[sdk.SessionId]*conversation
	work     sync.WaitGroup // requests and what follows them
}

var (
	_ sdk.Agent       = (*agent)(nil)
	_ sdk.AgentLoader = (*agent)(nil)
)

// request carries out a request. Its context also ends with the connection.
func request[R any](ctx context.Context, a *agent, do func(context.Context) (R, error)) (resp R, err error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return resp, failure(errGone)
	}
	a.work.Add(1)
	a.mu.Unlock()
	defer a.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.life, func() { cancel(context.Cause(a.life)) })()
	return do(ctx)
}

// close ends all sessions.
func (a *agent) close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.work.Wait()
	var errs []error
	for _, s := range a.sessions {
		errs = append(errs, s.rt.Close())
	}
	return errors.Join(errs...)
}

// Initialize implements [sdk.Agent]. The newest version that both know is the only one there is.
func (a *agent) Initialize(_ context.Context, req sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = req.ClientCapabilities
	return sdk.InitializeResponse{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		AuthMethods:     []sdk.AuthMethod{},
		AgentInfo:       &sdk.Implementation{Name: cmp.Or(a.Name, "aycoder"), Version: cmp.Or(a.Version, "0")},
		AgentCapabilities: sdk.AgentCapabilities{
			LoadSession:        true,
			McpCapabilities:    sdk.McpCapabilities{Http: a.Servers != nil},
			PromptCapabilities: sdk.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: true},
			SessionCapabilities: sdk.SessionCapabilities{
				List: &sdk.SessionListCapabilities{}, Resume: &sdk.SessionResumeCapabilities{}, Close: &sdk.SessionCloseCapabilities{},
			},
		},
	}, nil
}

// Authenticate implements [sdk.Agent]. There is nothing to choose: the keys of models are the configuration's.
func (a *agent) Authenticate(context.Context, sdk.AuthenticateRequest) (sdk.AuthenticateResponse, error) {
	return sdk.AuthenticateResponse{}, invalid("there are no methods to authenticate")
}

// NewSession implements [sdk.Agent].
func (a *agent) NewSession(ctx context.Context, req sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	return request(ctx, a, func(ctx context.Context) (resp sdk.NewSessionResponse, err error) {
		s, err := a.open(ctx, "", req.Cwd, req.McpServers)
		if err != nil {
			return resp, err
		}
		told := a.out.told(string(s.id))
		a.work.Go(func() {
			select {
			case <-told:
				s.tellCommands()
			case <-a.life.Done():
			}
		})
		return sdk.NewSessionResponse{SessionId: s.id, Modes: s.modes(), ConfigOptions: s.options()}, nil
	})
}

// LoadSession implements [sdk.AgentLoader]. The whole conversation is told before the answer.
func (a *agent) LoadSession(ctx context.Context, req sdk.LoadSessionRequest) (sdk.LoadSessionResponse, error) {
	return request(ctx, a, func(ctx context.Context) (resp sdk.LoadSessionResponse, err error) {
		s, err := a.open(ctx, req.SessionId, req.Cwd, req.McpServers)
		if err != nil {
			return resp, err
		}
		s.replay()
		s.tellCommands()
		return sdk.LoadSessionResponse{Modes: s.modes(), ConfigOptions: s.options()}, nil
	})
}

// ResumeSession implements [sdk.Agent].
func (a *agent) ResumeSession(ctx context.Context, req sdk.ResumeSessionRequest) (sdk.ResumeSessionResponse, error) {
	return request(ctx, a, func(ctx context.Context) (resp sdk.ResumeSessionResponse, err error) {
		s, err := a.open(ctx, req.SessionId, req.Cwd, req.McpServers)
		if err != nil {
			return resp, err
		}
		s.tellCommands()
		return sdk.ResumeSessionResponse{Modes: s.modes(), ConfigOptions: s.options()}, nil
	})
}

// CloseSession implements [sdk.Agent].
func (a *agent) CloseSession(ctx context.Context, req sdk.CloseSessionRequest) (sdk.CloseSessionResponse, error) {
	return request(ctx, a, func(ctx context.Context) (resp sdk.CloseSessionResponse, err error) {
		if _, err := a.session(req.SessionId); err != nil {
			return resp, err
		}
		if err := a.drop(ctx, req.SessionId); err != nil {
			return resp, failure(err)
		}
		return resp, nil
	})
}

// drop closes a session, if it is open.
func (a *agent) drop(ctx context.Context, id sdk.SessionId) error {
	a.mu.Lock()
	s := a.sessions[id]
	delete(a.sessions, id)
	a.mu.Unlock()
	if s == nil {
		return nil
	}
	s.stop(errClosed)
	select {
	case s.turn <- struct{}{}: // forever
		return s.rt.Close()
	case <-ctx.Done():
		a.work.Go(func() {
			s.turn <- struct{}{}
			_ = s.rt.Close() // whoever would get the error has gone
		})
		return context.Cause(ctx)
	}
}

var errClosed = errors.New("the session was closed")

// pageSize is the number of sessions in an answer.
const pageSize = 100

// ListSessions implements [sdk.Agent].
func (a *agent) ListSessions(ctx context.Context, req sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	return request(ctx, a, func(ctx context.Context) (sdk.ListSessionsResponse, error) { return a.list(ctx, req) })
}

func (a *agent) list(ctx context.Context, req sdk.ListSessionsRequest) (resp sdk.ListSessionsResponse, err error) {
	from := 0
	if req.Cursor != nil {
		if from, err = strconv.Atoi(*req.Cursor); err != nil || from < 0 {
			return resp, invalid("the cursor is not one of session/list")
		}
	}
	dir := ""
	if req.Cwd != nil {
		dir = resolved(*req.Cwd)
	}
	list, err := session.List(ctx, a.Store, func(e *journal.Entry) bool { return dir == "" || resolved(e.Dir) == dir })
	if err != nil {
		return resp, failure(err)
	}
	resp.Sessions = []sdk.SessionInfo{}
	list = list[min(from, len(list)):]
	for i, e := range list {
		if i == pageSize {
			resp.NextCursor = new(strconv.Itoa(from + i))
			break
		}
		info := sdk.SessionInfo{SessionId: sdk.SessionId(e.ID), Cwd: e.Dir}
		if title := cmp.Or(e.Title, e.Prompt); title != "" {
			info.Title = &title
		}
		if !e.Used.IsZero() {
			info.UpdatedAt = new(e.Used.UTC().Format(time.RFC3339))
		}
		resp.Sessions = append(resp.Sessions, info)
	}
	return resp, nil
}

// resolved returns a directory by its real name, if it has one.
func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return filepath.Clean(dir)
}

// Prompt implements [sdk.Agent]. The context of the SDK also ends when there is another prompt, so a prompt
// does not follow it: it ends by [agent.Cancel] and with the connection.
func (a *agent) Prompt(ctx context.Context, req sdk.PromptRequest) (sdk.PromptResponse, error) {
	return request(context.WithoutCancel(ctx), a, func(ctx context.Context) (resp sdk.PromptResponse, err error) {
		s, err := a.session(req.SessionId)
		if err == nil {
			var done func()
			ctx, done = s.cancellable(ctx)
			defer done()
		}
		select {
		case a.begun <- struct{}{}:
		default: // nobody cancels one of so many
		}
		if err != nil {
			return resp, err
		}
		return s.prompt(ctx, req)
	})
}

// Cancel implements [sdk.Agent].
func (a *agent) Cancel(_ context.Context, req sdk.CancelNotification) error {
	s, err := a.session(req.SessionId)
	if err == nil {
		s.cancel()
	}
	return err
}

// SetSessionMode implements [sdk.Agent].
func (a *agent) SetSessionMode(ctx context.Context, req sdk.SetSessionModeRequest) (sdk.SetSessionModeResponse, error) {
	return request(ctx, a, func(context.Context) (resp sdk.SetSessionModeResponse, err error) {
		s, err := a.session(req.SessionId)
		if err != nil {
			return resp, err
		}
		if err := s.setMode(string(req.ModeId)); err != nil {
			return resp, err
		}
		s.tell(sdk.SessionUpdate{ConfigOptionUpdate: &sdk.SessionConfigOptionUpdate{ConfigOptions: s.options()}})
		return resp, nil
	})
}

// SetSessionConfigOption implements [sdk.Agent].
func (a *agent) SetSessionConfigOption(ctx context.Context, req sdk.SetSessionConfigOptionRequest) (sdk.SetSessionConfigOptionResponse, error) {
	return request(ctx, a, func(ctx context.Context) (resp sdk.SetSessionConfigOptionResponse, err error) {
		v := req.ValueId
		if v == nil {
			return resp, invalid("the options of a session are chosen from a list")
		}
		s, err := a.session(v.SessionId)
		if err != nil {
			return resp, err
		}
		switch v.ConfigId {
		case optionMode:
			if err = s.setMode(string(v.Value)); err == nil {
				s.tell(sdk.SessionUpdate{CurrentModeUpdate: &sdk.SessionCurrentModeUpdate{CurrentModeId: sdk.SessionModeId(v.Value)}})
			}
		case optionModel:
			err = s.setModel(ctx, string(v.Value))
		default:
			err = invalid("there is no option " + string(v.ConfigId))
		}
		return sdk.SetSessionConfigOptionResponse{ConfigOptions: s.options()}, err
	})
}

func (a *agent) session(id sdk.SessionId) (*conversation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, notFound("session " + string(id) + " is not open")
}

// open begins a session, or continues the one with the id.
func (a *agent) open(ctx context.Context, id sdk.SessionId, dir string, servers []sdk.McpServer) (s *conversation, err error) {
	if !filepath.IsAbs(dir) {
		return nil, invalid("cwd is not an absolute path")
	}
	a.mu.Lock()
	client := a.client
	a.mu.Unlock()
	opts, err := a.servers(servers)
	if err != nil {
		return nil, err
	}
	if id != "" {
		if err := a.belongs(ctx, id, dir); err != nil {
			return nil, err
		}
		if err := a.drop(ctx, id); err != nil {
			return nil, failure(err)
		}
	}
	s = &conversation{agent: a, dir: dir, turn: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancelCause(a.life)
	defer func(s *conversation) {
		if err != nil {
			s.stop(err)
		}
	}(s)
	opts = append(opts, harness.WithStore(a.Store, string(id), session.WithLateCreate()))
	if client.Fs.ReadTextFile {
		opts = append(opts, s.files(client.Fs.WriteTextFile))
	}
	s.rt, err = a.Open(ctx, Start{Dir: dir, Options: opts})
	switch {
	case err != nil:
		return nil, failure(err)
	case s.rt.Session == nil:
		return nil, failure(errors.Join(errors.New("the runtime has no session: Start.Options were not passed to it"), s.rt.Close()))
	}
	s.id = sdk.SessionId(s.rt.Session.ID())
	a.mu.Lock()
	if _, ok := a.sessions[s.id]; ok { // somebody else has loaded it meanwhile
		a.mu.Unlock()
		return nil, failure(errors.Join(errors.New("the session is open"), s.rt.Close()))
	}
	defer a.mu.Unlock()
	a.sessions[s.id] = s
	return s, nil
}

// belongs returns an error if a session is one of another directory: its files and what was said about them are not those
// of this one. A session whose directory is gone may continue elsewhere.
func (a *agent) belongs(ctx context.Context, id sdk.SessionId, dir string) error {
	list, err := session.List(ctx, a.Store, func(e *journal.Entry) bool { return e.ID == string(id) })
	if err != nil {
		return failure(err)
	}
	was := ""
	if s, err := a.session(id); err == nil {
		was = s.dir
	} else if len(list) > 0 {
		was = list[0].Dir
	}
	if _, err := os.Stat(was); was == "" || errors.Is(err, fs.ErrNotExist) || resolved(was) == resolved(dir) {
		return nil
	}
	return invalid("the session belongs to " + was)
}

// maxServers bounds the servers of a session.
const maxServers = 64

// servers are the options for the servers of a client. A program that the user cannot have configured is refused:
// one of the project, which a relative path names, and one that takes the name of another.
func (a *agent) servers(list []sdk.McpServer) (opts []harness.Option, err error) {
	if len(list) > 0 && a.Servers == nil {
		return nil, invalid("this program does not connect to servers of the Model Context Protocol")
	}
	if a.Servers != nil {
		opts = append(opts, harness.WithServers(a.Servers))
	}
	if len(list) > maxServers {
		return nil, invalid(fmt.Sprintf("there are more than %d servers", maxServers))
	}
	names := map[string]string{}
	for _, s := range list {
		c, name := config.Server{}, ""
		switch {
		case s.Stdio != nil:
			name, c.Command, c.Args, c.Env = s.Stdio.Name, s.Stdio.Command, slices.Clone(s.Stdio.Args), map[string]string{}
			for _, v := range s.Stdio.Env {
				c.Env[v.Name] = v.Value
			}
		case s.Http != nil:
			name, c.URL, c.Headers = s.Http.Name, s.Http.Url, map[string]string{}
			for _, h := range s.Http.Headers {
				c.Headers[h.Name] = h.Value
			}
		default:
			return nil, invalid("servers are reached by stdio or http")
		}
		if s.Stdio != nil && (c.Command == "" || !filepath.IsAbs(c.Command) && filepath.Base(c.Command) != c.Command) {
			return nil, invalid(fmt.Sprintf("the command %q of server %s is neither an absolute path nor the name of a program", c.Command, name))
		}
		short := serverName(name)
		if other, ok := names[short]; ok {
			return nil, invalid(fmt.Sprintf("the servers %q and %q have the same name", other, name))
		}
		names[short] = name
		opts = append(opts, harness.WithServer(short, c))
	}
	return opts, nil
}

// serverName makes a name of a server that can be a part of the names of its tools.
func serverName(name string) string {
	var out []rune
	for _, r := range name {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			out = append(out, r)
		} else if len(out) > 0 && out[len(out)-1] != '-' {
			out = append(out, '-')
		}
	}
	return cmp.Or(string(bytes.Trim([]byte(string(out)), "-")), "server")
}

func invalid(text string) error { return &sdk.RequestError{Code: codeInvalidParams, Message: text} }

func notFound(text string) error { return &sdk.RequestError{Code: codeNotFound, Message: text} }

// The codes of JSON-RPC and of the protocol.
const (
	codeInvalidParams = -32602
	codeInternal      = -32603
	codeAuth          = -32000
	codeNotFound      = -32002
)

// failure makes an error for a client, which shows its message.
func failure(err error) error {
	e := &sdk.RequestError{Code: codeInternal, Message: err.Error()}
	if _, ok := errors.AsType[*aycoder.AuthError](err); ok {
		e.Code = codeAuth
	} else if errors.Is(err, fs.ErrNotExist) {
		e.Code = codeNotFound
	}
	return e
}
