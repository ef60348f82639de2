package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
	"github.com/aycoder/aycoder/internal/dialect"
)

const (
	maxHostLine = 64 << 20 // bytes
	maxQueued   = 256      // messages of the user, which have together at most maxHostLine bytes
)

// A claudeFace speaks the protocol of JSON lines by which the Claude SDKs lead their program. The protocol has two layers:
// messages (of the user to the program, and of the agent to the host), and requests that either side makes of the other
// one, which are answered by their ids.
//
// A goroutine reads what the host sends, and carries out its requests; the one that calls serve lets the agent answer one
// message of the user after the other, and asks the host meanwhile.
type claudeFace struct {
	*claudeArgs
	p     cli.Program
	out   *wire
	start chan *startRequest // the first one; later ones are refused

	mu      sync.Mutex
	begun   bool             // the host has made the first request
	rt      *harness.Runtime // nil before it is open
	early   []*hostLine      // requests that came while it was being opened
	queue   []*userMessage
	more    chan struct{}           // there may be something in the queue, or the end
	ended   bool                    // the host has no more to say
	stop    context.CancelCauseFunc // of the answer that is being made, or nil
	silent  bool                    // the host does not want to be asked
	waiting map[string]chan hostAnswer
	tunnels map[string]*tunnel // to the servers inside the host

	inside []string // the names of these servers

	// what follows is used by serve alone
	totals   totals
	unpriced bool  // the host was told that the costs are not all
	denials  []any // of this answer
}

// A hostAnswer is the answer of the host to a request.
type hostAnswer struct {
	data json.RawMessage
	err  error
}

// A hostLine is any line of the host.
type hostLine struct {
	Type     string          `json:"type"`
	ID       string          `json:"request_id"`
	Request  json.RawMessage `json:"request"`
	Response struct {
		Subtype  string          `json:"subtype"`
		ID       string          `json:"request_id"`
		Response json.RawMessage `json:"response"`
		Error    string          `json:"error"`
	} `json:"response"`
	userMessage
}

// A startRequest is the first request of the host.
type startRequest struct {
	id     string
	fields map[string]json.RawMessage
}

var errInterrupted = errors.New("interrupted by the host")

// serveClaude speaks with the host until it has no more to say.
func serveClaude(ctx context.Context, p cli.Program, args []string) error {
	a, err := parseClaudeArgs(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := &claudeFace{
		claudeArgs: a, p: p, start: make(chan *startRequest, 1), more: make(chan struct{}, 1), silent: a.mode == "dontAsk",
		waiting: map[string]chan hostAnswer{}, tunnels: map[string]*tunnel{}, totals: totals{},
	}
	f.out = newWire(ctx, p.Out, func() { cancel(errHostGone) })
	defer f.out.finish()
	go f.read(ctx) // which may hang in reading until the program ends
	select {
	case s := <-f.start:
		return f.serve(ctx, s)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read carries out what the host sends.
func (f *claudeFace) read(ctx context.Context) {
	lines := bufio.NewScanner(f.p.In)
	lines.Buffer(nil, maxHostLine)
	for n := 1; lines.Scan(); n++ {
		var l hostLine
		err := json.Unmarshal(lines.Bytes(), &l)
		if err == nil {
			err = f.take(ctx, &l)
		}
		if err != nil {
			f.note("line %d: %v", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		f.note("what the host sends cannot be read any more: %v", err)
	}
	f.end()
	f.out.beat(`{"type":"keep_alive"}` + "\n")
}

// end notes that the host has no more to say, so that open requests have no answer.
func (f *claudeFace) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for _, answer := range f.waiting {
		answer <- hostAnswer{err: errHostGone}
	}
	clear(f.waiting)
	f.begin(nil)
	f.wake()
}

// begin lets serve start, unless it has. mu is held. Without a request, the host has said all by its arguments.
func (f *claudeFace) begin(s *startRequest) bool {
	if f.begun {
		return false
	}
	f.begun = true
	f.start <- s
	return true
}

func (f *claudeFace) wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// take carries out a line. The error is for lines that nobody waits for an answer to.
func (f *claudeFace) take(ctx context.Context, l *hostLine) error {
	switch l.Type {
	case "user":
		f.mu.Lock()
		defer f.mu.Unlock()
		size := len(l.Message.Content)
		for _, m := range f.queue {
			size += len(m.Message.Content)
		}
		if len(f.queue) >= maxQueued || size > maxHostLine {
			return fmt.Errorf("%d messages wait already, so this one is refused", len(f.queue))
		}
		f.queue = append(f.queue, &l.userMessage)
		f.begin(nil)
		f.wake()
	case "control_request":
		f.request(ctx, l)
	case "control_response":
		r := &l.Response
		a := hostAnswer{data: r.Response}
		if r.Subtype != "success" {
			a.err = errors.New(cmp.Or(r.Error, "the host has answered with "+r.Subtype))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if answer := f.waiting[r.ID]; answer != nil {
			answer <- a
			delete(f.waiting, r.ID)
		}
	case "keep_alive", "control_cancel_request": // requests of the host are answered at once
	default:
		return unsupported("messages of the type %q", l.Type)
	}
	return nil
}

// request carries out a request of the host.
func (f *claudeFace) request(ctx context.Context, l *hostLine) {
	var r struct {
		Subtype string          `json:"subtype"`
		Cancel  bool            `json:"cancel_queued"`
		Mode    string          `json:"mode"`
		Model   string          `json:"model"`
		Server  string          `json:"server_name"`
		Message json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(l.Request, &r); err != nil {
		f.respond(l.ID, nil, err)
		return
	}
	if r.Subtype == "initialize" {
		s := &startRequest{id: l.ID}
		err := json.Unmarshal(l.Request, &s.fields)
		f.mu.Lock()
		if err == nil && !f.begin(s) {
			err = unsupported("a second initialize, or one after the first message")
		}
		f.mu.Unlock()
		if err != nil {
			f.respond(l.ID, nil, err)
		}
		return
	}
	f.mu.Lock()
	rt, begun := f.rt, f.begun
	if rt == nil && begun && r.Subtype != "mcp_message" && r.Subtype != "interrupt" && len(f.early) < maxQueued {
		f.early = append(f.early, l)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	var answer any
	err := errors.New("the session is not open")
	switch {
	case r.Subtype == "mcp_message": // also while the session is being opened
		err = f.fromServer(r.Server, r.Message)
	case r.Subtype == "interrupt" && begun: // at once, since messages that come after it are not meant
		answer, err = f.interrupt(r.Cancel), nil
	case rt == nil:
	case r.Subtype == "set_permission_mode":
		answer, err = map[string]any{"mode": r.Mode}, f.setMode(rt, r.Mode)
	case r.Subtype == "set_model":
		err = f.setModel(ctx, rt, r.Model)
	case r.Subtype == "mcp_status":
		answer, err = map[string]any{"mcpServers": serverStates(rt)}, nil
	default:
		err = unsupported("requests of the type %q", r.Subtype)
	}
	f.respond(l.ID, answer, err)
}

// respond answers a request of the host.
func (f *claudeFace) respond(id string, answer any, err error) {
	r := map[string]any{"subtype": "success", "request_id": id, "response": answer}
	if err != nil {
		r = map[string]any{"subtype": "error", "request_id": id, "error": err.Error()}
		if _, ok := errors.AsType[*unsupportedError](err); ok {
			r["error_code"] = "unsupported_request"
		}
	} else if answer == nil {
		r["response"] = struct{}{}
	}
	f.out.send(map[string]any{"type": "control_response", "response": r})
}

// interrupt stops the answer that is being made.
func (f *claudeFace) interrupt(queued bool) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop(errInterrupted)
	}
	ids := []string{}
	for _, m := range f.queue {
		if m.UUID != "" {
			ids = append(ids, m.UUID)
		}
	}
	if queued {
		f.queue = nil
		return map[string]any{"still_queued": []string{}, "cancelled": ids}
	}
	return map[string]any{"still_queued": ids}
}

func (f *claudeFace) setMode(rt *harness.Runtime, name string) error {
	m, err := f.modeOf(name)
	if err != nil {
		return err
	}
	f.mu.Lock() // so that of two changes at once, one is told and in force
	defer f.mu.Unlock()
	if err = rt.Policy.SetMode(m); err == nil {
		f.mode, f.silent = name, name == "dontAsk"
	}
	return err
}

// modeNow returns the name of the mode in force, which may be another one than the host has set: the configuration may
// have changed. f.mu is held.
func (f *claudeFace) modeNow(rt *harness.Runtime) string {
	if now := rt.Policy.Mode(); claudeModes[f.mode] != now {
		return dialect.Mode(string(now))
	}
	return f.mode
}

// setModel sets the model from the next turn on. Without a name, it is that of the beginning.
func (f *claudeFace) setModel(ctx context.Context, rt *harness.Runtime, name string) error {
	if name == "" || name == "default" {
		name = f.model
	}
	return rt.SetModel(ctx, modelName("anthropic", name))
}

// serverStates tells how the servers are.
func serverStates(rt *harness.Runtime) []map[string]any {
	all := []map[string]any{}
	for _, s := range rt.Servers() {
		state := map[string]any{"name": s.Name, "status": "connected"}
		if s.State != "on" {
			state["status"], state["error"] = "failed", s.State
		}
		all = append(all, state)
	}
	return all
}

// canAsk reports whether the host answers questions about a tool.
func (f *claudeFace) canAsk(tool string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks && !f.silent && !f.ended || f.answered(tool)
}

// answered reports whether the host has answered all questions about a tool: it is a tool inside the host, which has listed
// it among those that are allowed. The policy asks again about such a tool after a stranger's text has come in.
func (f *claudeFace) answered(tool string) bool {
	return slices.ContainsFunc(f.inside, func(server string) bool {
		all := "mcp__" + server
		return strings.HasPrefix(tool, all+"__") && slices.ContainsFunc(f.allow, func(entry string) bool {
			return entry == tool || entry == all || entry == all+"__*"
		})
	})
}

// ask makes a request of the host, and waits for its answer. If ctx ends first, the request is taken back.
func (f *claudeFace) ask(ctx context.Context, request any) (json.RawMessage, error) {
	return f.post(request)(ctx)
}

// post makes a request of the host. The function that is returned waits for the answer.
func (f *claudeFace) post(request any) func(context.Context) (json.RawMessage, error) {
	id, answer := newUUID(), make(chan hostAnswer, 1)
	f.mu.Lock()
	if f.waiting[id] = answer; f.ended {
		delete(f.waiting, id)
		answer <- hostAnswer{err: errHostGone}
	}
	f.mu.Unlock()
	f.out.send(map[string]any{"type": "control_request", "request_id": id, "request": request})
	return func(ctx context.Context) (json.RawMessage, error) {
		select {
		case a := <-answer:
			return a.data, a.err
		case <-ctx.Done():
		}
		f.mu.Lock()
		delete(f.waiting, id)
		f.mu.Unlock()
		f.out.send(map[string]any{"type": "control_cancel_request", "request_id": id})
		return nil, context.Cause(ctx)
	}
}

// serve opens the session, and lets the agent answer. Its error is that of the last answer.
func (f *claudeFace) serve(ctx context.Context, s *startRequest) error {
	rt, end, err := f.open(ctx, s)
	if err != nil {
		if s != nil {
			f.respond(s.id, nil, err)
		}
		return err
	}
	defer end()
	f.mu.Lock()
	f.rt = rt
	early := f.early
	if f.model == "" || f.model == "default" {
		provider, model := modelOf(rt)
		f.model = provider + "/" + model
	}
	f.mu.Unlock()
	if s != nil {
		f.respond(s.id, f.greeting(rt, s), nil)
	}
	for _, l := range early {
		f.request(ctx, l)
	}
	var failed error
	for ctx.Err() == nil {
		f.mu.Lock()
		ended := f.ended
		if len(f.queue) == 0 {
			f.mu.Unlock()
			if ended {
				return failed
			}
			select {
			case <-f.more:
			case <-ctx.Done():
			}
			continue
		}
		m := f.queue[0]
		f.queue = f.queue[1:]
		turn, stop := context.WithCancelCause(ctx)
		f.stop = stop
		f.mu.Unlock()
		failed = f.answer(turn, rt, m)
		f.mu.Lock()
		f.stop = nil
		f.mu.Unlock()
		stop(nil)
	}
	return context.Cause(ctx)
}

// note tells the host something that is not a part of the conversation.
func (f *claudeFace) note(format string, args ...any) {
	f.out.send(f.message("system", map[string]any{"subtype": "informational", "level": "warning", "content": fmt.Sprintf(format, args...)}))
}

// message adds to a message what all have.
func (f *claudeFace) message(kind string, m map[string]any) map[string]any {
	m["type"], m["uuid"], m["session_id"] = kind, newUUID(), ""
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rt != nil {
		m["session_id"] = f.rt.Session.ID()
	}
	return m
}
