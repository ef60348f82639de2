package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
)

// ErrCannotAsk means that a client cannot ask its user, or has no model.
var ErrCannotAsk = errors.New("the client cannot be asked that")

const (
	parkedFor = 10 * time.Minute // how long a call waits for a client that was asked something, in all
	maxParked = 64
)

// A Caller is the client that has called a tool of [Serve] or [Handler]. A tool gets it by [CallerOf], and uses it while
// its Call works. It is safe for concurrent use.
type Caller struct{ c *calling }

// CallerOf returns the client that has called the tool whose Call has ctx. It returns nil if the tool was called by
// another way.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

type callerKey struct{}

// Ask puts a question to the user of the client. Its Server is not used. The content of an accepted answer matches the
// schema. A call waits ten minutes for its client, in all; then it ends. If the client cannot ask, the error is
// [ErrCannotAsk].
func (k *Caller) Ask(ctx context.Context, q Question) (Answer, error) {
	p := &mcp.ElicitParams{Mode: "form", Message: q.Message}
	if q.Schema == nil && q.URL == "" {
		q.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if p.RequestedSchema = q.Schema; q.URL != "" {
		p.Mode, p.URL, p.ElicitationID, p.RequestedSchema = "url", q.URL, rand.Text(), nil
	}
	res, err := ask[*mcp.ElicitResult](ctx, k.c, p)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the user of the client: %w", err)
	}
	switch res.Action {
	case "decline":
		return Answer{Decline: true}, nil
	case "accept":
	default:
		return Answer{}, nil
	}
	a := Answer{Accept: true}
	if q.URL != "" {
		return a, nil
	}
	if res.Content == nil {
		res.Content = map[string]any{}
	}
	if a.Content, err = json.Marshal(res.Content); err == nil {
		spec := aycoder.ToolSpec{Name: "answer", Schema: q.Schema}
		a.Content, err = spec.CheckArgs(a.Content)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("answer of the client's user: %w", err)
	}
	return a, nil
}

// Sample asks the model of the client, and sends the texts, images and sounds of the request. The protocol has
// deprecated it. If the client has no model for others, the error is [ErrCannotAsk].
func (k *Caller) Sample(ctx context.Context, req *aycoder.Request) (*aycoder.Response, error) {
	p := &mcp.CreateMessageParams{MaxTokens: int64(req.MaxTokens), StopSequences: req.Stop}
	for _, t := range req.System {
		p.SystemPrompt += t.Text
	}
	if p.MaxTokens <= 0 {
		p.MaxTokens = 4096
	}
	for _, m := range req.Messages {
		for _, c := range contents(m.Parts) {
			p.Messages = append(p.Messages, &mcp.SamplingMessage{Role: roleOf(m), Content: c})
		}
	}
	res, err := ask[*mcp.CreateMessageWithToolsResult](ctx, k.c, p)
	if err != nil {
		return nil, fmt.Errorf("ask the model of the client: %w", err)
	}
	r := &resulter{left: maxText}
	for _, c := range res.Content {
		r.content(c)
	}
	stop := map[string]aycoder.StopReason{"maxTokens": aycoder.StopMaxTokens, "stopSequence": aycoder.StopSequence}[res.StopReason]
	if stop == "" {
		stop = aycoder.StopEndTurn
	}
	return &aycoder.Response{Message: &aycoder.Message{Role: aycoder.RoleAssistant, Parts: r.parts}, Stop: stop, Model: res.Model}, nil
}

// Log sends the client a text for its log, if it wants those of the level. The protocol has deprecated it.
func (k *Caller) Log(level slog.Level, text string) {
	name := mcp.LoggingLevel("debug")
	switch {
	case level >= slog.LevelError:
		name = "error"
	case level >= slog.LevelWarn:
		name = "warning"
	case level >= slog.LevelInfo:
		name = "info"
	}
	k.c.log(name, "tool", text)
}

// A calling is a call that a client has made. Later versions of the protocol have no requests of servers: the result of the
// request is a question, and the call goes on with the next request, which has the answer. So it does not end with the
// request that has begun it.
type calling struct {
	name string
	stop context.CancelCauseFunc
	asks chan *asking
	done chan outcome // has room for one

	mu     sync.Mutex
	ctx    context.Context      // of the request that waits now; nil between two requests
	req    *mcp.CallToolRequest // that one, or the last one
	waited time.Duration        // for the client
}

// patience ends the call if its client takes too long to answer, unless answered is called before. It reports whether it was.
// Other calls that write wait meanwhile.
func (c *calling) patience() (answered func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := time.Now()
	timer := time.AfterFunc(parkedFor-c.waited, func() { c.stop(errUnanswered) })
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waited += time.Since(begin)
		return timer.Stop()
	}
}

type outcome struct {
	res *mcp.CallToolResult
	err error
}

// An asking is a question that waits for an answer, which is nil if the client has none.
type asking struct {
	question mcp.InputRequest
	answer   chan mcp.InputResponse // has room for one
}

// now returns the request that waits, and its context, or nil.
func (c *calling) now() (context.Context, *mcp.CallToolRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx, c.req
}

// attach has the call go on for a request, until it is detached.
func (c *calling) attach(ctx context.Context, req *mcp.CallToolRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.req = ctx, req
}

func (c *calling) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = nil
}

func (c *calling) log(level mcp.LoggingLevel, logger, text string) {
	if ctx, req := c.now(); ctx != nil {
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Logger: logger, Data: text}) // lost if the client is gone
	}
}

func (c *calling) progress(p aycoder.Progress) {
	ctx, req := c.now()
	if token := req.Params.GetProgressToken(); ctx != nil && token != nil {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // lost if the client is gone, as its result is
			ProgressToken: token, Progress: float64(p.Current), Total: float64(p.Total), Message: p.Message,
		})
	}
}

// ask asks the client something.
func ask[R mcp.InputResponse](ctx context.Context, c *calling, q mcp.InputRequest) (none R, err error) {
	_, req := c.now()
	if !can(req.ClientCapabilities(), q) {
		return none, ErrCannotAsk
	}
	var answer mcp.InputResponse
	if asksItself(req.Session) {
		answered := c.patience()
		answer, err = request(ctx, req.Session, q)
		answered()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	} else {
		answer, err = c.park(ctx, q)
	}
	if err != nil {
		return none, err
	}
	res, ok := answer.(R)
	if !ok {
		return none, errors.New("the client has not answered it")
	}
	return res, nil
}

// asksItself reports whether a session has a version of the protocol in which servers make requests.
func asksItself(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	return p != nil && p.ProtocolVersion < newest
}

// can reports whether a client has said that it can be asked a question.
func can(has *mcp.ClientCapabilities, q mcp.InputRequest) bool {
	if has == nil {
		return false
	}
	p, isForm := q.(*mcp.ElicitParams)
	switch {
	case !isForm:
		return has.Sampling != nil
	case has.Elicitation == nil:
		return false
	case p.Mode == "url":
		return has.Elicitation.URL != nil
	}
	return has.Elicitation.Form != nil || has.Elicitation.URL == nil // the first version of it had forms alone
}

// request asks a client whose version of the protocol has requests of servers.
func request(ctx context.Context, s *mcp.ServerSession, q mcp.InputRequest) (mcp.InputResponse, error) {
	if p, ok := q.(*mcp.ElicitParams); ok {
		return s.Elicit(ctx, p)
	}
	p := q.(*mcp.CreateMessageParams)
	res, err := s.CreateMessage(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &mcp.CreateMessageWithToolsResult{Model: res.Model, Role: res.Role, StopReason: res.StopReason}
	if res.Content != nil {
		out.Content = []mcp.Content{res.Content}
	}
	return out, nil
}

// park has the request that waits answered by a question, and waits for the next one.
func (c *calling) park(ctx context.Context, q mcp.InputRequest) (mcp.InputResponse, error) {
	a := &asking{q, make(chan mcp.InputResponse, 1)}
	select {
	case c.asks <- a:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case res := <-a.answer:
		return res, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// parked is a call whose client was asked something.
type parked struct {
	c        *calling
	a        *asking
	answered func() bool // see calling.patience
}

var errUnanswered = errors.New("the client was asked something, and has not come back with an answer")

// wait returns the result of a call, or a question of it.
func (x *served) wait(ctx context.Context, c *calling) (*mcp.CallToolResult, error) {
	defer c.detach()
	var poll <-chan time.Time
	if _, req := c.now(); x.poll > 0 && req.Extra != nil && req.Extra.CloseSSEStream != nil {
		timer := time.NewTimer(x.poll)
		defer timer.Stop()
		poll = timer.C
	}
	for {
		select {
		case o := <-c.done:
			return o.res, o.err
		case a := <-c.asks:
			if ctx.Err() != nil {
				continue // nobody would read the question
			}
			word := "call-" + rand.Text()
			p := &parked{c, a, c.patience()}
			x.parked.add(word, p)
			return &mcp.CallToolResult{RequestState: word, InputRequests: mcp.InputRequestMap{questionID: a.question}}, nil
		case <-poll:
			_, req := c.now()
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: x.poll})
			poll = nil
		case <-ctx.Done():
			c.stop(context.Cause(ctx))
			o := <-c.done
			return o.res, o.err
		}
	}
}

// resumed returns the call that a request goes on with.
func (x *served) resumed(ctx context.Context, req *mcp.CallToolRequest) (*calling, error) {
	p, ok := x.parked.take(req.Params.RequestState)
	switch {
	case !ok || !p.answered():
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the call that this answers has ended"}
	case p.c.name != req.Params.Name:
		p.c.stop(errUnanswered)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this answers a call of another tool"}
	}
	p.c.attach(ctx, req)
	p.a.answer <- req.Params.InputResponses[questionID]
	return p.c, nil
}

// A memo keeps values by words that only a client knows. Each can be taken once, and the oldest ones make room.
type memo[T any] struct {
	most    int
	dropped func(T) // what is done with a value that makes room, or nil

	mu     sync.Mutex
	values map[string]T
	order  []string // of the words, also of those that were taken
}

func (m *memo[T]) add(word string, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]T{}
	}
	m.values[word], m.order = value, append(m.order, word)
	if len(m.order) > m.most {
		old, ok := m.values[m.order[0]]
		delete(m.values, m.order[0])
		if m.order = m.order[1:]; ok && m.dropped != nil {
			m.dropped(old)
		}
	}
}

func (m *memo[T]) take(word string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[word]
	delete(m.values, word)
	return value, ok
}
