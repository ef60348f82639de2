package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tools"
)

// AgentConfig configures a tool that gives tasks to another agent: a program that speaks the protocol. Name, Command and
// Files are required.
type AgentConfig struct {
	// Name and Description are the name and the description of the tool, such as "claude". Default: a description that
	// fits any task.
	Name, Description string
	// Command and Args are the program. Env are variables for it, besides PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG,
	// LC_ALL and TMPDIR.
	Command string
	Args    []string
	Env     map[string]string
	// Files returns those of the workspace, which the agent reads and writes. The program starts in their directory. It is
	// called when a call begins, so that it can return the field Files of the runtime that has the tool.
	Files func() tools.FS
	// Options are further options of the run that the agent's requests are calls of, such as the middleware of a budget.
	// They, too, are applied when a call begins.
	Options []aycoder.Option
	// Timeout limits a call. Default: 10 minutes.
	Timeout time.Duration
}

const agentDescription = `Give a task to another coding agent, which works on it alone in the same files and reports back.
It knows nothing of this conversation: write down everything that it has to know and to report.`

type agentArgs struct {
	Task        string `json:"task" jsonschema_description:"What it is to do and to report, with all it has to know."`
	Description string `json:"description,omitempty" jsonschema_description:"The task in a few words, for the user."`
}

// Agent returns a tool with which the model gives a task to another agent. Each call starts the program, and ends it with
// all that it has started.
//
// The requests of the agent to its client are the calls of a nested run (see [aycoder.WithParent]): permissions are questions
// to the approvers of the outer run, a file that it reads or writes is one of Files, and a text that it writes is merged with
// the changes that others have made since it has read the file. All of it is audited. The host sees it as an
// [aycoder.ChildEvent]. An answer allows one call and never more. Nobody sees files that the agent changes, and commands that
// it runs, without a request: a host that does not trust the program runs it in a sandbox.
//
// The tokens and the cost that the agent tells count for the outer run. Its report counts as written by a stranger. If
// the program ends or the call is cancelled, the call has an error for the model, and the history is valid.
func Agent(c AgentConfig) (aycoder.Tool, error) {
	missing := ""
	switch {
	case c.Name == "":
		missing = "Name"
	case c.Command == "":
		missing = "Command"
	case c.Files == nil:
		missing = "Files"
	}
	if missing != "" {
		return nil, &aycoder.ConfigError{Option: "AgentConfig." + missing, Err: errors.New("is missing")}
	}
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	return aycoder.NewTool(c.Name, cmp.Or(c.Description, agentDescription), func(ctx context.Context, inv *aycoder.Invocation, _ agentArgs) (*aycoder.ToolResult, error) {
		return c.call(ctx, inv)
	}, aycoder.WithEffect(aycoder.EffectUnknown), aycoder.WithHints(true, true))
}

// call starts the program for one task.
func (c *AgentConfig) call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("the time of %s is over", c.Name))
	defer cancel()
	files := c.Files()
	p, err := startProgram(*c, files.Dir())
	if err != nil {
		return nil, err
	}
	defer p.Stop(0)
	f := newForeign(*c, files, inv)
	tool, err := f.tool()
	if err != nil {
		return nil, err
	}
	if err := f.connect(ctx, p); err != nil {
		return nil, p.explain(ctx, err)
	}
	f.explain = p.explain
	res, err := tool.Call(ctx, inv)
	f.leave(p)
	if res != nil {
		res.Untrusted = true
	}
	return res, err
}

// foreign is a session of another agent. To the loop, it is the model, whose calls are the requests of the agent.
type foreign struct {
	AgentConfig
	files   tools.FS
	inv     *aycoder.Invocation
	conn    *sdk.Connection
	session sdk.SessionId
	explain func(context.Context, error) error
	work    sync.WaitGroup // the prompt
	wake    chan struct{}  // something has come

	mu      sync.Mutex
	begun   bool
	ended   *ended
	queue   []utterance
	size    int // bytes of texts in the queue
	left    bool
	last    string // text before a request; only for Stream
	count   int
	open    map[string]*agentRequest // by the ids of their calls
	known   map[string]string        // what the agent believes to be in files, by path
	cost    *float64                 // as the agent has told last
	counted float64                  // of it
}

// utterance is something that the agent has said: a text, a thought or a request.
type utterance struct {
	text, thought string
	call          *aycoder.ToolUse
}

// ended is how a prompt ended.
type ended struct {
	resp sdk.PromptResponse
	err  error
}

// agentRequest is one of the agent that is not answered.
type agentRequest struct {
	permission *sdk.RequestPermissionRequest
	content    string // to write
	answer     chan answered
}

type answered struct {
	text string
	err  error
}

func newForeign(c AgentConfig, files tools.FS, inv *aycoder.Invocation) *foreign {
	return &foreign{AgentConfig: c, files: files, inv: inv, wake: make(chan struct{}, 1), open: map[string]*agentRequest{}, known: map[string]string{}}
}

// maxRequests bounds the turns of a session: each is one request of the agent at least.
const maxRequests = 10_000

// tool returns the subagent whose model is the agent.
func (f *foreign) tool() (aycoder.Tool, error) {
	own, err := f.tools()
	if err != nil {
		return nil, err
	}
	return tools.Subagent(tools.SubagentConfig{
		Name: f.Name, Model: f, Tools: own, MaxTurns: maxRequests, MaxDepth: 100, Timeout: f.Timeout,
		Options: append(slices.Clone(f.Options), aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})),
	})
}

// connect begins the session.
func (f *foreign) connect(ctx context.Context, p *program) error {
	ready := make(chan struct{})
	in := newPaced(&gate{p.Out, ready})
	f.conn = sdk.NewConnection(func(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
		if method == sdk.ClientMethodSessionUpdate {
			defer in.handled()
		}
		return f.handle(ctx, method, params)
	}, p.In, in)
	f.conn.SetLogger(slog.New(slog.DiscardHandler))
	close(ready)
	resp, err := sdk.SendRequest[sdk.InitializeResponse](f.conn, ctx, sdk.AgentMethodInitialize, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber, ClientInfo: &sdk.Implementation{Name: "aycoder", Version: "0"},
		ClientCapabilities: sdk.ClientCapabilities{Fs: sdk.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}},
	})
	if err != nil {
		return f.wrong(ctx, "initialize", err)
	}
	if resp.ProtocolVersion != sdk.ProtocolVersionNumber {
		return f.wrong(ctx, "initialize", fmt.Errorf("it speaks version %d of the protocol", resp.ProtocolVersion))
	}
	s, err := sdk.SendRequest[sdk.NewSessionResponse](f.conn, ctx, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Cwd: f.files.Dir(), McpServers: []sdk.McpServer{}})
	if err != nil {
		return f.wrong(ctx, "begin a session", err)
	}
	f.session = s.SessionId
	return nil
}

func (f *foreign) wrong(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("agent %s: %s: %w", f.Name, op, err)
}

// leaveFor is how long an agent may take to stop. A tool must return 100 ms after its context.
const leaveFor = 40 * time.Millisecond

// leave ends the session and the program.
func (f *foreign) leave(p *program) {
	f.mu.Lock()
	working := f.begun && f.ended == nil
	f.left = true
	for id, r := range f.open {
		r.answer <- answered{err: context.Canceled}
		delete(f.open, id)
	}
	f.mu.Unlock()
	patience := time.Second
	if working {
		patience = 0
		_ = f.conn.SendNotification(context.Background(), sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: f.session}) // it may be dead
		late := time.AfterFunc(leaveFor, p.Kill)
		f.work.Wait()
		late.Stop()
	}
	p.Stop(patience)
	f.work.Wait()
}

// handle carries out a request of the agent to its client.
func (f *foreign) handle(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	switch method {
	case sdk.ClientMethodSessionUpdate:
		return handled(ctx, params, f.update)
	case sdk.ClientMethodSessionRequestPermission:
		return handled(ctx, params, f.permission)
	case sdk.ClientMethodFsReadTextFile:
		return handled(ctx, params, f.read)
	case sdk.ClientMethodFsWriteTextFile:
		return handled(ctx, params, f.write)
	}
	return nil, sdk.NewMethodNotFound(method)
}

func handled[P, R any](ctx context.Context, params json.RawMessage, do func(context.Context, P) (R, error)) (any, *sdk.RequestError) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, sdk.NewInvalidParams(err.Error())
	}
	resp, err := do(ctx, p)
	if err != nil {
		e, ok := errors.AsType[*sdk.RequestError](err)
		if !ok {
			e = &sdk.RequestError{Code: codeInternal, Message: err.Error()}
		}
		return nil, e
	}
	return resp, nil
}

// maxQueued bounds the text that waits for the loop, in bytes.
const maxQueued = 16 << 20

// push adds what the agent has said.
func (f *foreign) push(s utterance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size += len(s.text) + len(s.thought); f.size > maxQueued && s.call == nil {
		return
	}
	if last := len(f.queue) - 1; last >= 0 && s.call == nil && f.queue[last].call == nil && (s.text == "") == (f.queue[last].text == "") {
		f.queue[last].text += s.text
		f.queue[last].thought += s.thought
	} else {
		f.queue = append(f.queue, s)
	}
	f.signal()
}

func (f *foreign) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the next thing that the agent has said, or how its prompt ended.
func (f *foreign) take() (utterance, bool, *ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return utterance{}, false, f.ended
	}
	s := f.queue[0]
	f.queue = f.queue[1:]
	f.size -= len(s.text) + len(s.thought)
	return s, true, nil
}

// callNext reports whether the next thing is a request.
func (f *foreign) callNext() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue) > 0 && f.queue[0].call != nil
}

// update takes a notification.
func (f *foreign) update(_ context.Context, n sdk.SessionNotification) (any, error) {
	switch u := n.Update; {
	case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
		f.push(utterance{text: strings.ToValidUTF8(u.AgentMessageChunk.Content.Text.Text, "\ufffd")})
	case u.AgentThoughtChunk != nil && u.AgentThoughtChunk.Content.Text != nil:
		f.push(utterance{thought: strings.ToValidUTF8(u.AgentThoughtChunk.Content.Text.Text, "\ufffd")})
	case u.ToolCall != nil:
		f.inv.Progress(aycoder.Progress{Message: tools.EscapeInvisible(shorten(u.ToolCall.Title))})
	case u.UsageUpdate != nil && u.UsageUpdate.Cost != nil && strings.EqualFold(u.UsageUpdate.Cost.Currency, "USD"):
		f.mu.Lock()
		f.cost = &u.UsageUpdate.Cost.Amount
		f.mu.Unlock()
	}
	return nil, nil
}

// ask makes a call of a request, and waits for the answer.
func (f *foreign) ask(ctx context.Context, tool string, args any, r *agentRequest) answered {
	data, err := json.Marshal(args)
	if err != nil {
		return answered{err: err}
	}
	r.answer = make(chan answered, 1)
	f.mu.Lock()
	if f.left {
		f.mu.Unlock()
		return answered{err: context.Canceled}
	}
	f.count++
	id := f.Name + "-" + strconv.Itoa(f.count)
	f.open[id] = r
	f.mu.Unlock()
	f.push(utterance{call: &aycoder.ToolUse{ID: id, Name: tool, Args: data}})
	select {
	case a := <-r.answer:
		return a
	case <-ctx.Done():
		return answered{err: context.Cause(ctx)}
	}
}

// pending returns the request of a call that is not answered.
func (f *foreign) pending(id string) *agentRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[id]
}

func (f *foreign) reply(id string, a answered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.open[id]; r != nil {
		delete(f.open, id)
		r.answer <- a
	}
}

// Stream implements [aycoder.ModelClient].
func (f *foreign) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		f.refuse(req)
		f.prompt(req)
		var text strings.Builder
		for {
			s, ok, end := f.take()
			switch {
			case ok && s.call != nil:
				f.calls(s.call, text.String(), yield)
				return
			case ok && s.text != "":
				text.WriteString(s.text)
				ok = yield(&aycoder.TextDelta{Text: s.text}, nil)
			case ok:
				ok = s.thought == "" || yield(&aycoder.ThinkingDelta{Text: s.thought}, nil)
			case end != nil:
				f.end(ctx, end, text.String(), yield)
				return
			default:
				ok = true
				select {
				case <-f.wake:
				case <-ctx.Done():
					yield(nil, f.failed(context.Cause(ctx)))
					return
				}
			}
			if !ok {
				return
			}
		}
	}
}

// refuse answers the requests whose calls were not carried out. Those that were are answered by then.
func (f *foreign) refuse(req *aycoder.Request) {
	for _, p := range req.Messages[len(req.Messages)-1].Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok {
			f.reply(out.ID, answered{err: errors.New(out.Text())})
		}
	}
}

// prompt gives the task to the agent, once.
func (f *foreign) prompt(req *aycoder.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun {
		return
	}
	f.begun = true
	task := req.Messages[len(req.Messages)-1].Text()
	f.work.Go(func() {
		resp, err := sdk.SendRequest[sdk.PromptResponse](f.conn, context.Background(), sdk.AgentMethodSessionPrompt,
			sdk.PromptRequest{SessionId: f.session, Prompt: []sdk.ContentBlock{sdk.TextBlock(task)}})
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended = &ended{resp, err}
		f.signal()
	})
}

// calls ends a message with the requests that have come.
func (f *foreign) calls(first *aycoder.ToolUse, text string, yield func(aycoder.ModelEvent, error) bool) {
	if text != "" {
		if f.last = text; !yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) {
			return
		}
	}
	for call := first; ; {
		if !yield(&aycoder.BlockDone{Part: call}, nil) {
			return
		}
		if !f.callNext() {
			break
		}
		next, _, _ := f.take()
		call = next.call
	}
	yield(f.done(aycoder.StopToolUse, aycoder.Usage{}), nil)
}

// end ends the last message.
func (f *foreign) end(ctx context.Context, e *ended, text string, yield func(aycoder.ModelEvent, error) bool) {
	stop := aycoder.StopEndTurn
	switch {
	case e.err != nil:
		yield(nil, f.failed(f.explain(ctx, e.err)))
		return
	case e.resp.StopReason == sdk.StopReasonCancelled:
		yield(nil, f.failed(errors.New("it says that it was cancelled")))
		return
	case e.resp.StopReason == sdk.StopReasonMaxTokens:
		stop = aycoder.StopMaxTokens
	case e.resp.StopReason == sdk.StopReasonRefusal:
		stop = aycoder.StopRefusal
	case e.resp.StopReason == sdk.StopReasonMaxTurnRequests:
		text += "\n[The agent has reached its own limit of turns.]"
	}
	if text = cmp.Or(text, f.last, "[The agent has said nothing.]"); !yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) {
		return
	}
	var u aycoder.Usage
	if told := e.resp.Usage; told != nil {
		u = aycoder.Usage{Input: int64(told.InputTokens), Output: int64(told.OutputTokens), Reasoning: number(told.ThoughtTokens),
			CacheRead: number(told.CachedReadTokens), CacheWrite: number(told.CachedWriteTokens)}
	}
	yield(f.done(stop, u), nil)
}

func number(n *int) int64 {
	if n == nil {
		return 0
	}
	return int64(*n)
}

// done ends a message, with what has been paid since the last one.
func (f *foreign) done(stop aycoder.StopReason, u aycoder.Usage) *aycoder.MessageDone {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &aycoder.MessageDone{Stop: stop, Usage: u, Provider: "acp", Model: f.Name}
	if f.cost != nil {
		m.Cost = new(max(0, *f.cost-f.counted))
		f.counted = max(f.counted, *f.cost)
	}
	return m
}

func (f *foreign) failed(err error) error {
	return &aycoder.ModelError{Provider: "acp", Model: f.Name, Err: err}
}

// ModelName implements [aycoder.ModelNamer].
func (f *foreign) ModelName() (provider, model string) { return "acp", f.Name }
