package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/proc"
)

const (
	maxStarts = 3               // of a server, after which it is given up
	startFor  = 2 * time.Minute // how long a server may take to start
	leaveFor  = time.Second     // how long it may take to end by itself
	maxItems  = 1000            // sections of the configuration that are asked for at once
	maxStderr = 2 << 10         // bytes that are kept of what a server writes to standard error
)

// A server is a language server with its current process.
type server struct {
	Server
	client *Client
	turn   chan struct{} // of capacity 1; held by the call that uses the server

	missed atomic.Int64 // edits in a row whose errors did not come in time

	mu      sync.Mutex
	starts  int
	current *session
}

func (s *server) name() string { return filepath.Base(s.Command[0]) }

// session returns the process of the server, which it starts if there is none, and waits until it is ready.
// If ctx ends before, the server goes on starting.
func (s *server) session(ctx context.Context) (*session, error) {
	if !s.runs() && !s.allowed(ctx) {
		return nil, &Error{Server: s.name(), Op: "start", Err: errDenied}
	}
	x, err := s.begin()
	if err != nil {
		return nil, &Error{Server: s.name(), Op: "start", Err: err}
	}
	select {
	case <-x.ready:
		return x, nil
	case <-x.conn.done:
		return nil, x.wrap("start", x.conn.failure())
	case <-ctx.Done():
		return nil, &Error{Server: s.name(), Op: "start", Err: context.Cause(ctx)}
	}
}

// errDenied says that [WithPermission] refuses the start of a server.
var errDenied = errors.New("it may not run here")

// plain matches words that a shell takes as they are.
var plain = late.Regexp(`^[A-Za-z0-9_./,:@+-]+$`)

// allowed asks whether the process may be started.
func (s *server) allowed(ctx context.Context) bool {
	var words []string
	for _, word := range s.Command {
		if !plain().MatchString(word) {
			word = quote(word)
		}
		words = append(words, word)
	}
	return s.client.may == nil || s.client.may(ctx, Command{Script: s.Command[0], RunsCode: true}, strings.Join(words, " "))
}

// runs reports whether there is a process that works.
func (s *server) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.works()
}

func (s *server) works() bool { return s.current != nil && s.current.conn.failure() == nil }

// begin starts a process unless there is one that works.
func (s *server) begin() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.works() {
		return s.current, nil
	}
	s.client.mu.Lock()
	closed := s.client.closed
	s.client.mu.Unlock()
	if closed {
		return nil, ErrGone
	}
	if s.current != nil {
		s.current.wait()
	}
	if s.starts == maxStarts {
		return nil, ErrGone
	}
	s.starts++
	s.current = start(s)
	return s.current, nil
}

// close ends the process of the server.
func (s *server) close() {
	s.mu.Lock()
	x := s.current
	s.mu.Unlock()
	if x == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveFor)
	defer cancel()
	select { // a server that is busy is not asked to leave
	case <-x.ready:
		if x.conn.call(ctx, "shutdown", nil, nil) == nil && x.conn.notify("exit", nil) == nil {
			select {
			case <-x.ended:
			case <-ctx.Done():
			}
		}
	default:
	}
	x.conn.fail(ErrGone)
	x.wait()
}

// A session is one process of a server, from its start to its end.
type session struct {
	*server
	conn   *conn
	ready  chan struct{} // closed when the server is initialized
	ended  chan struct{} // closed when the process has ended
	owned  sync.WaitGroup
	cancel context.CancelFunc
	stderr proc.Tail

	utf8  bool        // the server counts columns in bytes; set before ready
	saves bool        // the server wants to know of saved files; set before ready
	pull  atomic.Bool // the server is asked for diagnostics
	store store
	docs  documents
	wide  bool   // the server has said what is wrong with all files
	owed  *state // what to compare with if the errors of the last edit have not come in time
}

// start starts a process. It belongs to the session and not to the call that needs it first, which may have
// no time to wait for it.
func start(s *server) *session {
	x := &session{server: s, stderr: proc.Tail{Max: maxStderr}, ready: make(chan struct{}), ended: make(chan struct{}), store: newStore()}
	x.docs.open = map[string]*document{}
	x.conn = newConn(x.serve)
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	in, toServer, err := os.Pipe()
	if err != nil {
		x.abandon(err)
		return x
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		in.Close()
		toServer.Close()
		x.abandon(err)
		return x
	}
	x.owned.Go(func() {
		defer close(x.ended)
		x.run(ctx, in, out)
	})
	x.owned.Go(func() { x.broken(x.conn.write(toServer)) })
	x.owned.Go(func() { x.broken(x.conn.read(fromServer)) })
	x.owned.Go(func() { // whoever fails first ends all
		<-x.conn.done
		cancel()
		toServer.Close()
		fromServer.Close()
	})
	x.owned.Go(func() { x.initialize(ctx) })
	return x
}

// broken ends the connection after an error. If the process has ended, its end says more than a pipe that is closed.
func (x *session) broken(err error) {
	if err != errMessage && err != errFlood {
		late := time.NewTimer(leaveFor)
		defer late.Stop()
		select {
		case <-x.ended:
		case <-x.conn.done:
		case <-late.C:
		}
	}
	x.conn.fail(err)
}

// abandon makes a session of a process that could not be started.
func (x *session) abandon(err error) {
	close(x.ended)
	x.conn.fail(err)
	x.cancel()
}

// wait returns when the process and the goroutines of a session that has failed are gone.
func (x *session) wait() { x.owned.Wait() }

// run runs the process until it ends or ctx does. Its children end with it.
func (x *session) run(ctx context.Context, in, out *os.File) {
	defer in.Close()
	defer out.Close()
	res, err := proc.Run(ctx, &proc.Command{
		Argv: x.Command, Dir: x.client.root, Env: slices.Concat(x.client.environ, x.Env),
		Output: &x.stderr, Memory: x.Memory,
		Start: func(cmd *exec.Cmd) error {
			cmd.Stdin, cmd.Stdout = in, out
			err := x.client.start(ctx, cmd)
			in.Close()
			out.Close()
			return err
		},
	})
	if err == nil && res != nil {
		err = errors.New("the language server has ended")
	}
	x.conn.fail(err)
}

// wrap returns the error of an operation.
func (x *session) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Server: x.name(), Op: op, Err: err}
	if x.conn.failure() != nil {
		e.Output = x.stderr.Text()
	}
	return e
}

// initialize does the handshake.
func (x *session) initialize(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startFor)
	defer cancel()
	root := uriOf(x.client.root)
	x.docs.known, _ = x.client.walk(ctx, x.watches) // what changes from now on is told
	var answer struct {
		Capabilities serverCapabilities `json:"capabilities"`
	}
	params := map[string]any{
		"processId": os.Getpid(), "rootUri": root, "rootPath": x.client.root,
		"workspaceFolders": []any{folder(root)},
		"clientInfo":       map[string]any{"name": "aycoder"},
		"capabilities":     capabilities(),
	}
	if len(x.Settings) > 0 {
		params["initializationOptions"] = x.Settings
	}
	if err := x.conn.call(ctx, "initialize", params, &answer); err != nil {
		x.conn.fail(err)
		return
	}
	x.utf8 = answer.Capabilities.PositionEncoding == "utf-8"
	x.saves = answer.Capabilities.saves()
	if present(answer.Capabilities.DiagnosticProvider) {
		x.pull.Store(true)
	}
	_ = x.conn.notify("initialized", struct{}{})
	_ = x.conn.notify("workspace/didChangeConfiguration", map[string]any{"settings": x.settings("")})
	close(x.ready)
}

func folder(uri string) any { return map[string]string{"uri": uri, "name": "workspace"} }

// capabilities are those of the client. Edits by the server are not among them.
func capabilities() any {
	dynamic := map[string]any{"dynamicRegistration": true}
	return map[string]any{
		"general": map[string]any{"positionEncodings": []string{"utf-8", "utf-16"}},
		"workspace": map[string]any{
			"configuration": true, "workspaceFolders": true, "applyEdit": false,
			"didChangeWatchedFiles": dynamic, "didChangeConfiguration": dynamic,
			"workspaceEdit": map[string]any{"documentChanges": true},
		},
		"textDocument": map[string]any{
			"synchronization":    map[string]any{"didSave": true},
			"publishDiagnostics": map[string]any{"versionSupport": true},
			"diagnostic":         map[string]any{"dynamicRegistration": true, "relatedDocumentSupport": true},
			"definition":         map[string]any{"linkSupport": true},
		},
		"window": map[string]any{"workDoneProgress": true},
	}
}

// serve handles what the server asks or tells. It is called from one goroutine and must not block.
func (x *session) serve(method string, raw json.RawMessage) (any, *ResponseError) {
	switch method {
	case "textDocument/publishDiagnostics":
		var p publishParams
		if json.Unmarshal(raw, &p) == nil {
			x.publish(&p)
		}
		return nil, nil
	case "workspace/configuration":
		var p struct {
			Items []struct {
				Section string `json:"section"`
			} `json:"items"`
		}
		_ = json.Unmarshal(raw, &p) // without items, the answer is empty
		if len(p.Items) > maxItems {
			return nil, &ResponseError{Code: -32602, Message: "too many items"}
		}
		answer := make([]any, 0, len(p.Items))
		for _, item := range p.Items {
			answer = append(answer, x.settings(item.Section))
		}
		return answer, nil
	case "client/registerCapability":
		var p struct {
			Registrations []struct {
				Method string `json:"method"`
			} `json:"registrations"`
		}
		_ = json.Unmarshal(raw, &p)
		for _, r := range p.Registrations {
			if r.Method == "textDocument/diagnostic" {
				x.pull.Store(true)
				x.store.signal()
			}
		}
		return nil, nil
	case "workspace/workspaceFolders":
		return []any{folder(uriOf(x.client.root))}, nil
	case "workspace/applyEdit":
		return map[string]any{"applied": false, "failureReason": "edits by the server are not accepted"}, nil
	case "client/unregisterCapability", "window/workDoneProgress/create", "window/showMessageRequest",
		"workspace/diagnostic/refresh", "workspace/semanticTokens/refresh", "workspace/inlayHint/refresh",
		"workspace/codeLens/refresh", "workspace/inlineValue/refresh", "workspace/foldingRange/refresh":
		return nil, nil
	}
	return nil, &ResponseError{Code: -32601, Message: "method not found"}
}

// settings returns a section of the settings: the object at a path of keys such as "python.analysis". If there
// is none and the section is a single word, such as "gopls", all settings are meant.
func (x *session) settings(section string) any {
	var all any
	if json.Unmarshal(x.Settings, &all) != nil {
		return nil
	}
	at := all
	for key := range strings.SplitSeq(section, ".") {
		m, _ := at.(map[string]any)
		if at = m[key]; at == nil {
			break
		}
	}
	if at == nil && !strings.Contains(section, ".") && section == strings.TrimSuffix(x.name(), ".exe") || section == "" {
		return all
	}
	return at
}

// windows says that paths have the form of Windows.
func windows() bool { return runtime.GOOS == "windows" }
