package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/proc"
)

// ServeConfig says what [Serve] and [Handler] offer.
type ServeConfig struct {
	// Tools are the names of the tools. Default: all of the runtime but those that need its model or its
	// user: subagent, ask_user, recall, and those of servers.
	Tools []string
	// Name and Version are told to clients. Default: "aycoder" and "0".
	Name, Version string
	// Resources and Prompts are offered beside the tools, commands and skills of the runtime. Default: none.
	Resources []Resource
	Prompts   []Prompt
	// Updates lets clients subscribe to resources. Default: they cannot.
	Updates *Updates
	// Poll is how long a [Handler] keeps the connection of a call. A call that takes longer is not ended: the client comes
	// back for the result. It is for hosts behind a proxy that ends long answers. Version 2026-07-28 of the protocol
	// does not have it. Default: as long as the call takes.
	Poll time.Duration
}

// Serve offers the tools of a runtime to a client of the protocol, which is at the other end of in and out: those of
// the process, mostly. Nothing else may be written to out. Each call goes through the approver, the hooks and the
// stages of the runtime, and works in its workspace. A question about a call is put to the user of the client, who
// sees what a host would show, and its answer is about exactly that. Commands and skills of the runtime are prompts. If the client cannot ask, the call is denied, with
// the rule that would allow it. The arguments are checked, and results are bounded as those of a run. Serve returns
// when the client has gone or ctx ends; it is then nil or the cause of ctx. No run may work meanwhile.
func Serve(ctx context.Context, rt *harness.Runtime, in io.ReadCloser, out io.WriteCloser, c ServeConfig) error {
	s, x, err := newServer(rt, c)
	if err != nil {
		return err
	}
	defer c.Updates.follow(s)()
	defer x.close()
	t := &mcp.IOTransport{Reader: in, Writer: until{proc.Until(ctx, out), out}, MaxLineLength: maxMessage}
	switch err := s.Run(ctx, t); {
	case err == nil || errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.EPIPE): // the client has gone
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("serve the tools: %w", err)
	}
}

// until writes to a client until the end of a context.
type until struct {
	io.Writer
	io.Closer
}

// A Service offers tools by streamable HTTP, see [Handler].
type Service struct {
	x              *served
	server         *mcp.Server
	alone, session *mcp.StreamableHTTPHandler
	most           int // sessions
	leave          func()
}

// Handler offers the tools as [Serve] does, by streamable HTTP. It does not know who calls: a host puts its own
// authentication around it, and listens on the loopback interface otherwise. Requests to a loopback address by another
// name are refused, since a web page may have sent them. At most 256 clients have a session at once; one that is not used
// for an hour ends.
func Handler(rt *harness.Runtime, c ServeConfig) (*Service, error) {
	server, x, err := newServer(rt, c)
	if err != nil {
		return nil, err
	}
	own := func(*http.Request) *mcp.Server { return server }
	// Since version 2026-07-28, each request stands for itself; before, there are sessions. The result of a call whose
	// connection breaks is kept for the client of a session that comes back.
	return &Service{
		x: x, server: server, most: maxSessions, leave: c.Updates.follow(server),
		alone:   mcp.NewStreamableHTTPHandler(own, &mcp.StreamableHTTPOptions{Stateless: true}),
		session: mcp.NewStreamableHTTPHandler(own, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil), SessionTimeout: sessionFor}),
	}, nil
}

// ServeHTTP implements [http.Handler].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begins := r.Header.Get("Mcp-Session-Id") == ""
	switch {
	case s.x.life.Err() != nil:
		http.Error(w, "the server is closed", http.StatusServiceUnavailable)
	case begins && r.Header.Get("Mcp-Protocol-Version") >= newest:
		s.alone.ServeHTTP(w, r)
	case begins && s.full():
		http.Error(w, "too many clients have a session", http.StatusServiceUnavailable)
	default:
		s.session.ServeHTTP(w, r)
	}
}

// full reports whether there is no room for another session.
func (s *Service) full() bool {
	n := 0
	for range s.server.Sessions() {
		n++
	}
	return n >= s.most
}

// Close ends all calls, also those that wait for an answer of a client, and all sessions. It returns when no call works
// any more. Close the service before its runtime. It returns nil, and may be called again.
func (s *Service) Close() error {
	s.x.close()
	s.leave()
	for session := range s.server.Sessions() {
		_ = session.Close() // its client has gone then
	}
	return nil
}

// newest is the version of the protocol since which servers make no requests.
const newest = "2026-07-28"

const (
	sessionFor  = time.Hour // how long a client may leave its session unused
	maxSessions = 256
)

// unserved need the model or the user of the runtime.
var unserved = []string{"subagent", "ask_user", "recall", "tool_search"}

func newServer(rt *harness.Runtime, c ServeConfig) (*mcp.Server, *served, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: cmp.Or(c.Name, "aycoder"), Version: cmp.Or(c.Version, "0")}, c.options())
	x := &served{rt: rt, poll: c.Poll, writes: make(chan struct{}, 1)}
	x.asked.most, x.parked.most = maxAsked, maxParked
	x.parked.dropped = func(p *parked) { p.answered(); p.c.stop(errUnanswered) }
	x.life, x.end = context.WithCancelCause(context.Background())
	for _, name := range c.Tools {
		if !slices.ContainsFunc(rt.Tools, func(t aycoder.Tool) bool { return t.Spec().Name == name }) {
			return nil, nil, &aycoder.ConfigError{Option: "ServeConfig.Tools", Err: fmt.Errorf("there is no tool %s", name)}
		}
	}
	for _, t := range rt.Tools {
		spec := t.Spec()
		wanted := slices.Contains(c.Tools, spec.Name)
		if len(c.Tools) == 0 {
			wanted = !slices.Contains(unserved, spec.Name) && !strings.HasPrefix(spec.Name, "mcp__")
		}
		if !wanted {
			continue
		}
		reads := spec.Effect == aycoder.EffectReadOnly
		s.AddTool(&mcp.Tool{
			Name: spec.Name, Description: spec.Description, InputSchema: objectSchema(spec.Schema),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads, DestructiveHint: new(spec.Destructive && !reads), OpenWorldHint: new(spec.OpenWorld)},
		}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return x.call(ctx, req, reads)
		})
	}
	x.prompts(s)
	if err := c.offer(s); err != nil { // after the prompts of the runtime, whose names it may have
		return nil, nil, err
	}
	return s, x, nil
}

// prompts offers the commands and skills that the runtime has. Their texts come as the user of the runtime would send
// them; what they ask about is denied, since nobody is there.
func (x *served) prompts(s *mcp.Server) {
	if x.rt.Library == nil {
		return
	}
	lib := x.rt.Library.Now()
	add := func(name, description string) {
		s.AddPrompt(&mcp.Prompt{Name: name, Description: description, Arguments: []*mcp.PromptArgument{{Name: "arguments"}}},
			func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				var typed harness.Typed
				for ev, err := range x.rt.Expand(ctx, "/"+name+" "+req.Params.Arguments["arguments"], &typed) {
					if err != nil {
						return nil, err
					}
					if ask, ok := ev.(*aycoder.ApprovalRequested); ok {
						ask.Deny(denial(&ask.Request))
					}
				}
				return &mcp.GetPromptResult{Description: description, Messages: []*mcp.PromptMessage{
					{Role: "user", Content: &mcp.TextContent{Text: typed.Input.Prompt}},
				}}, nil
			})
	}
	for _, c := range lib.Commands {
		add(c.Name, c.Description)
	}
	for _, k := range lib.Skills {
		add(k.Name, k.Description)
	}
}

// served makes the calls of clients.
type served struct {
	rt     *harness.Runtime
	poll   time.Duration
	writes chan struct{} // held by a call that may write
	asked  memo[string]  // the digests of questions about calls that clients were asked
	parked memo[*parked] // calls that have asked a client something
	life   context.Context
	end    context.CancelCauseFunc
	ending sync.Mutex // held while a call is added and when none is any more
	calls  sync.WaitGroup
}

// maxAsked bounds the questions that may be open.
const maxAsked = 256

// close ends all calls.
func (x *served) close() {
	x.ending.Lock()
	x.end(ErrClosed)
	x.ending.Unlock()
	x.calls.Wait()
}

func (x *served) call(ctx context.Context, req *mcp.CallToolRequest, reads bool) (*mcp.CallToolResult, error) {
	if strings.HasPrefix(req.Params.RequestState, "call-") {
		c, err := x.resumed(ctx, req)
		if err != nil {
			return nil, err
		}
		return x.wait(ctx, c)
	}
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &calling{name: req.Params.Name, stop: stop, asks: make(chan *asking), done: make(chan outcome, 1), ctx: ctx, req: req}
	run = context.WithValue(run, callerKey{}, &Caller{c})
	x.ending.Lock()
	if x.life.Err() != nil {
		x.ending.Unlock()
		stop(nil)
		return nil, ErrClosed
	}
	x.calls.Add(1)
	x.ending.Unlock()
	go func() {
		defer x.calls.Done()
		defer stop(nil)
		defer context.AfterFunc(x.life, func() { stop(ErrClosed) })()
		res, err := x.carryOut(run, c, reads)
		c.done <- outcome{res, err}
	}()
	return x.wait(ctx, c)
}

func (x *served) carryOut(ctx context.Context, c *calling, reads bool) (*mcp.CallToolResult, error) {
	if !reads {
		select {
		case x.writes <- struct{}{}:
			defer func() { <-x.writes }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	_, req := c.now()
	approved, refused := x.answered(req)
	var question *mcp.CallToolResult
	var done *aycoder.ToolFinished
	for ev, err := range x.rt.Call(ctx, req.Params.Name, req.Params.Arguments) {
		if err != nil {
			return nil, err
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			switch {
			case ev.Request.Digest == approved && refused:
				ev.Deny("the user refused it")
			case ev.Request.Digest == approved:
				ev.Allow()
			case can(req.ClientCapabilities(), &mcp.ElicitParams{}):
				question = x.question(&ev.Request)
				ev.Deny("the user is asked")
			default:
				ev.Deny(denial(&ev.Request))
			}
		case *aycoder.ToolProgress:
			c.progress(ev.Progress)
		case *aycoder.Notice:
			c.log("notice", ev.Source, ev.Text)
		case *aycoder.ToolFinished:
			done = ev
		}
	}
	switch {
	case question != nil && req.Params.InputResponses != nil && asksItself(req.Session):
		// The SDK puts one question of a call to such a client, which would take another one for an empty result.
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{
			Text: "what this call would do has changed while the user was asked, so it was not carried out; call it again"}}}, nil
	case question != nil:
		return question, nil
	case done == nil:
		return nil, cmp.Or(context.Cause(ctx), errors.New("the call has no result"))
	}
	return &mcp.CallToolResult{Content: contents(done.Output.Parts), IsError: done.Output.IsError}, nil
}

// answered returns the digest of the question that the call answers, if it does.
func (x *served) answered(req *mcp.CallToolRequest) (digest string, refused bool) {
	res, ok := req.Params.InputResponses[questionID].(*mcp.ElicitResult)
	if !ok {
		return "", false
	}
	digest, _ = x.asked.take(req.Params.RequestState) // an answer counts once
	allow, _ := res.Content["allow"].(bool)
	return digest, res.Action != "accept" || !allow
}

// questionID names the question of a result, which has one.
const questionID = "question"

// question makes the result that asks the client's user.
func (x *served) question(q *aycoder.ApprovalRequest) *mcp.CallToolResult {
	word := rand.Text()
	x.asked.add(word, q.Digest)
	text := fmt.Sprintf("Allow %s %s?", q.Tool, cmp.Or(q.Subject, string(q.Args)))
	if len(q.Reasons) > 0 {
		text += "\nIt " + strings.Join(q.Reasons, ", and ") + "."
	}
	if q.Preview != "" {
		text += "\n\n" + q.Preview
	}
	return &mcp.CallToolResult{RequestState: word, InputRequests: mcp.InputRequestMap{questionID: &mcp.ElicitParams{
		Message:         clean(text, 64<<10),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"allow":{"type":"boolean","title":"Allow this call"}},"required":["allow"]}`),
	}}}
}

func denial(q *aycoder.ApprovalRequest) string {
	text := "it needs an approval, and the client cannot ask its user"
	if len(q.Suggested) > 0 {
		text += "; this rule would allow it: " + q.Suggested[0]
	}
	return text
}

// contents returns what a client gets of parts of a message.
func contents(parts []aycoder.Part) []mcp.Content {
	out := []mcp.Content{}
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			out = append(out, &mcp.TextContent{Text: p.Text})
		case *aycoder.Media:
			out = append(out, media(p))
		}
	}
	return out
}

func media(m *aycoder.Media) mcp.Content {
	switch kind, _, _ := strings.Cut(m.Type, "/"); {
	case m.URL != "":
		return &mcp.ResourceLink{URI: m.URL, Name: cmp.Or(m.Name, m.URL), MIMEType: m.Type}
	case kind == "image":
		return &mcp.ImageContent{MIMEType: m.Type, Data: m.Data}
	case kind == "audio":
		return &mcp.AudioContent{MIMEType: m.Type, Data: m.Data}
	}
	return &mcp.EmbeddedResource{Resource: contentsOf("file:///"+url.PathEscape(cmp.Or(m.Name, "document")), m)}
}

// contentsOf returns the content of a resource.
func contentsOf(uri string, m *aycoder.Media) *mcp.ResourceContents {
	r := &mcp.ResourceContents{URI: uri, MIMEType: m.Type}
	if isText(m.Type, m.Data) {
		r.Text = string(m.Data)
	} else {
		r.Blob = m.Data
	}
	return r
}

// isText reports whether data of a media type are a text.
func isText(kind string, data []byte) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return (strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml")) && utf8.Valid(data)
}

// objectSchema returns a schema that names its type, as the protocol demands.
func objectSchema(schema json.RawMessage) any {
	var m map[string]json.RawMessage
	if json.Unmarshal(schema, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	m["type"] = json.RawMessage(`"object"`)
	return m
}
