package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	// Auth is the id of the method by which the agent authenticates itself, for one that does nothing before, such as one
	// that takes a key from Env. A method that shows a page to the user does not fit. Default: none.
	Auth string
	// Mode is the id of the agent's mode, such as the one in which it asks before it changes something: many begin in one in
	// which they decide for themselves. If the agent does not offer it, the call fails. Default: that in which it begins.
	Mode string
	// Files returns those of the workspace, which the agent reads and writes. The program starts in their directory. It is
	// called when a call begins, so that it can return the field Files of the runtime that has the tool.
	Files func() tools.FS
	// Masker hides secrets in the files that the agent reads, and puts them back into those that it writes. Default: a new
	// one. The same one as that of other tools gives the same placeholders.
	Masker *tools.Masker
	// Options are further options of the run that the agent's requests are calls of, such as the middleware of a budget.
	// They, too, are applied when a call begins.
	Options []aycoder.Option
	// Timeout limits a call. Default: 10 minutes.
	Timeout time.Duration

	bounds bounds // of a test
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
// to the approvers of the outer run. A file that it reads is a call of read_file, one that it changes a call of edit_file,
// and a new one a call of write_file, with the arguments of the tools of these names in package tools. So rules, modes, hooks
// and audit are those of the agent's own tools, secrets are masked, and a text that the agent writes is merged with
// the changes that others have made since it has read the file. Some agents ask for a permission, and then write a file themselves:
// if the file has changed meanwhile, it is not allowed. The host sees it as an [aycoder.ChildEvent]. An answer to a
// permission allows one call and never more. Nobody sees files that the agent changes, and commands that
// it runs, without a request: a host that does not trust the program runs it in a sandbox. It gets no terminals.
//
// An agent that sends more than the bounds, or does not read what it is sent, ends with an error for the model.
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
	c.bounds = cmp.Or(c.bounds, bounds{maxRequests, maxSaid, maxKnown})
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
	f := newForeign(*c, files, inv, p)
	defer f.leave()
	f.work.Go(f.read)
	tool, err := f.tool()
	if err != nil {
		return nil, err
	}
	if err := f.connect(ctx); err != nil {
		return nil, f.explain(ctx, err)
	}
	res, err := tool.Call(ctx, inv)
	if res != nil {
		res.Untrusted = true
	}
	return res, err
}

// foreign is a session of another agent. To the loop, it is the model, whose calls are the requests of the agent.
type foreign struct {
	AgentConfig
	*link
	files    tools.FS
	inv      *aycoder.Invocation
	work     sync.WaitGroup // reads what the agent sends
	prompted sync.WaitGroup
	wake     chan struct{} // something has come
	forget   context.CancelFunc

	mu        sync.Mutex
	room      *sync.Cond // there is room in the queue
	session   sdk.SessionId
	begun     bool
	ended     *ended
	queue     []*utterance
	size      int // bytes of texts in the queue
	said      int // bytes of all that the history will have
	left      bool
	last      string // text before a request; only for Stream
	count     int
	open      map[string]*agentRequest // by the ids of their calls
	known     map[string]belief        // what the agent believes to be in files, by path
	memory    int                      // bytes of known
	told      map[string]object        // what the agent has said of its calls, by the JSON of their ids
	toldBytes int                      // of told, and of what was in it
	cost      *float64                 // as the agent has told last
	counted   float64                  // of it
}

// utterance is something that the agent has said: a text, a thought or a request.
type utterance struct {
	text    []byte
	thought bool
	request *agentRequest
}

// ended is how a prompt ended.
type ended struct {
	resp sdk.PromptResponse
	err  error
}

func newForeign(c AgentConfig, files tools.FS, inv *aycoder.Invocation, p *program) *foreign {
	if c.Masker == nil {
		c.Masker = tools.NewMasker(nil)
	}
	life, forget := context.WithCancel(context.Background())
	f := &foreign{AgentConfig: c, link: newLink(life, p), files: files, inv: inv, wake: make(chan struct{}, 1), forget: forget,
		open: map[string]*agentRequest{}, known: map[string]belief{}, told: map[string]object{}}
	f.room = sync.NewCond(&f.mu)
	f.notified, f.requested = f.update, f.request
	return f
}

// bounds are those of a call. An agent that exceeds them gets errors, or is ended.
type bounds struct {
	requests int
	said     int // bytes of all texts and requests, which the history of the call has
	known    int // bytes of the files that the agent has read
}

const (
	maxRequests = 10_000
	maxSaid     = 64 << 20
	maxKnown    = 64 << 20
	maxQueued   = 4 << 20 // bytes of text that wait for the loop: the agent is not read while there are more
)

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
func (f *foreign) connect(ctx context.Context) error {
	var resp sdk.InitializeResponse
	if err := f.link.call(ctx, sdk.AgentMethodInitialize, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber, ClientInfo: &sdk.Implementation{Name: "aycoder", Version: "0"},
		ClientCapabilities: sdk.ClientCapabilities{Fs: sdk.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}},
	}, &resp); err != nil {
		return f.wrong("initialize", err)
	}
	if resp.ProtocolVersion != sdk.ProtocolVersionNumber {
		return f.wrong("initialize", fmt.Errorf("it speaks version %d of the protocol", resp.ProtocolVersion))
	}
	if f.Auth != "" {
		if err := f.link.call(ctx, sdk.AgentMethodAuthenticate, sdk.AuthenticateRequest{MethodId: f.Auth}, new(json.RawMessage)); err != nil {
			return f.wrong("authenticate", offers(err, resp.AuthMethods))
		}
	}
	var s sdk.NewSessionResponse
	err := f.link.call(ctx, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Cwd: f.files.Dir(), McpServers: []sdk.McpServer{}}, &s)
	if e, ok := errors.AsType[*sdk.RequestError](err); ok && e.Code == codeAuth && f.Auth == "" {
		err = offers(err, resp.AuthMethods)
	}
	if err == nil && s.SessionId == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		return f.wrong("begin a session", err)
	}
	if err := f.setMode(ctx, &s); err != nil {
		return f.wrong("set the mode", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session = s.SessionId
	return nil
}

// offers adds to an error how the agent can authenticate itself.
func offers(err error, methods []sdk.AuthMethod) error {
	var ids []string
	for _, m := range methods {
		if m.Agent != nil {
			ids = append(ids, oneLine(m.Agent.Id))
		}
	}
	return fmt.Errorf("%w; it offers to authenticate itself by %q", err, ids)
}

// setMode sets the mode of the configuration. An agent that does not know a mode may stay in its own without a word.
func (f *foreign) setMode(ctx context.Context, s *sdk.NewSessionResponse) error {
	if f.Mode == "" {
		return nil
	}
	var ids []string
	if s.Modes != nil {
		for _, m := range s.Modes.AvailableModes {
			ids = append(ids, oneLine(string(m.Id)))
			if m.Id == sdk.SessionModeId(f.Mode) {
				return f.link.call(ctx, sdk.AgentMethodSessionSetMode, sdk.SetSessionModeRequest{SessionId: s.SessionId, ModeId: m.Id}, new(json.RawMessage))
			}
		}
	}
	return fmt.Errorf("it has no mode %q, but %q", f.Mode, ids)
}

// explain adds to an error why the program has ended, if it has.
func (f *foreign) explain(ctx context.Context, err error) error {
	select {
	case <-f.link.ended:
		return f.p.explain(ctx, err)
	default:
		return err
	}
}

func (f *foreign) wrong(op string, err error) error {
	return fmt.Errorf("agent %s: %s: %w", f.Name, op, err)
}

// leaveFor is how long an agent may take to stop. A tool must return 100 ms after its context.
const leaveFor = 40 * time.Millisecond

// leave ends the session and the program.
func (f *foreign) leave() {
	f.mu.Lock()
	working := f.begun && f.ended == nil
	well := f.ended != nil && f.ended.err == nil
	f.left = true
	f.room.Broadcast()
	for _, r := range f.open {
		f.link.reply(r.incoming, nil, errLeft)
	}
	clear(f.open)
	f.mu.Unlock()
	f.forget()
	patience := time.Duration(0)
	if well {
		patience = time.Second
	}
	if working {
		// It may have stopped reading, so that nothing can be sent.
		late := time.AfterFunc(leaveFor, func() { f.p.Kill(); f.p.In.Close(); f.p.Out.Close() })
		_ = f.send(&message{Method: sdk.AgentMethodSessionCancel}, sdk.CancelNotification{SessionId: f.session})
		f.prompted.Wait()
		late.Stop()
	}
	f.p.Stop(patience)
	f.work.Wait()
	f.prompted.Wait()
	f.link.work.Wait()
}

// errLeft is the answer to requests that come too late.
var errLeft = &sdk.RequestError{Code: codeCancelled, Message: "the task was cancelled"}

// take returns the next thing that the agent has said, or how its prompt ended.
func (f *foreign) take() (*utterance, *ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return nil, f.ended
	}
	u := f.queue[0]
	f.queue = f.queue[1:]
	f.size -= len(u.text)
	f.room.Broadcast()
	return u, nil
}

// push adds what the agent has said. It waits while too much waits for the loop, and returns false if nobody listens.
func (f *foreign) push(u *utterance) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.size > maxQueued && !f.left {
		f.room.Wait()
	}
	if f.left || f.ended != nil {
		return false
	}
	defer f.signal()
	if f.said += len(u.text); f.said > f.bounds.said {
		f.ended = &ended{err: fmt.Errorf("it has said more than %d bytes", f.bounds.said)}
		return false
	}
	f.size += len(u.text)
	if last := len(f.queue) - 1; last >= 0 && u.request == nil && f.queue[last].request == nil && f.queue[last].thought == u.thought {
		f.queue[last].text = append(f.queue[last].text, u.text...)
		return true
	}
	if f.queue = append(f.queue, u); u.request != nil {
		f.count++
		u.request.call = f.Name + "-" + strconv.Itoa(f.count)
		f.open[u.request.call] = u.request
	}
	return true
}

func (f *foreign) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// requestNext reports whether the next thing is a request.
func (f *foreign) requestNext() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue) > 0 && f.queue[0].request != nil
}

// update takes a notification. It is about this session or about nothing.
func (f *foreign) update(method string, params json.RawMessage) {
	var n sdk.SessionNotification
	if method != sdk.ClientMethodSessionUpdate || json.Unmarshal(params, &n) != nil || !f.ours(n.SessionId) {
		return
	}
	switch u := n.Update; {
	case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
		f.push(&utterance{text: []byte(strings.ToValidUTF8(u.AgentMessageChunk.Content.Text.Text, "\ufffd"))})
	case u.AgentThoughtChunk != nil && u.AgentThoughtChunk.Content.Text != nil:
		f.push(&utterance{thought: true, text: []byte(strings.ToValidUTF8(u.AgentThoughtChunk.Content.Text.Text, "\ufffd"))})
	case u.ToolCall != nil:
		f.inv.Progress(aycoder.Progress{Message: oneLine(u.ToolCall.Title)})
		f.note(params)
	case u.ToolCallUpdate != nil:
		f.note(params)
	case u.UsageUpdate != nil && u.UsageUpdate.Cost != nil && strings.EqualFold(u.UsageUpdate.Cost.Currency, "USD"):
		f.mu.Lock()
		f.cost = &u.UsageUpdate.Cost.Amount
		f.mu.Unlock()
	}
}

func (f *foreign) ours(id sdk.SessionId) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return id != "" && id == f.session
}

// reply answers the request of a call, if it is open.
func (f *foreign) reply(call string, result any, err error) {
	f.mu.Lock()
	r := f.open[call]
	delete(f.open, call)
	f.mu.Unlock()
	if r == nil {
		return
	}
	if r.permission != nil {
		result, err = r.outcome(err), nil
	}
	f.link.reply(r.incoming, result, requestFailure(err))
}

// pending returns the request of a call that is not answered.
func (f *foreign) pending(call string) *agentRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[call]
}

// Stream implements [aycoder.ModelClient].
func (f *foreign) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		f.refuse(req)
		f.prompt(req)
		var text strings.Builder
		for {
			u, end := f.take()
			ok := true
			switch {
			case u != nil && u.request != nil:
				if call := f.callOf(ctx, u.request); call != nil {
					f.calls(ctx, call, text.String(), yield)
					return
				}
			case u != nil && u.thought:
				ok = yield(&aycoder.ThinkingDelta{Text: string(u.text)}, nil)
			case u != nil:
				text.Write(u.text)
				ok = len(u.text) == 0 || yield(&aycoder.TextDelta{Text: string(u.text)}, nil)
			case end != nil:
				f.end(ctx, end, text.String(), yield)
				return
			default:
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
			f.reply(out.ID, nil, errors.New(out.Text()))
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
	task := sdk.PromptRequest{SessionId: f.session, Prompt: []sdk.ContentBlock{sdk.TextBlock(req.Messages[len(req.Messages)-1].Text())}}
	f.prompted.Go(func() {
		var resp sdk.PromptResponse
		err := f.link.call(context.Background(), sdk.AgentMethodSessionPrompt, task, &resp) // until leave
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.ended == nil {
			f.ended = &ended{resp, err}
		}
		f.signal()
	})
}

// calls ends a message with the requests that have come.
func (f *foreign) calls(ctx context.Context, call *aycoder.ToolUse, text string, yield func(aycoder.ModelEvent, error) bool) {
	if text != "" {
		if f.last = text; !yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) {
			return
		}
	}
	for {
		if call != nil && !yield(&aycoder.BlockDone{Part: call}, nil) {
			return
		}
		if !f.requestNext() {
			break
		}
		u, _ := f.take()
		call = f.callOf(ctx, u.request)
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
		u = aycoder.Usage{Input: number(&told.InputTokens), Output: number(&told.OutputTokens), Reasoning: number(told.ThoughtTokens),
			CacheRead: number(told.CachedReadTokens), CacheWrite: number(told.CachedWriteTokens)}
	}
	yield(f.done(stop, u), nil)
}

// number returns a number of tokens, if it is one.
func number(n *int) int64 {
	if n == nil {
		return 0
	}
	return min(max(int64(*n), 0), 1<<40)
}

// done ends a message, with what has been paid since the last one.
func (f *foreign) done(stop aycoder.StopReason, u aycoder.Usage) *aycoder.MessageDone {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := &aycoder.MessageDone{Stop: stop, Usage: u, Provider: "acp", Model: f.Name}
	switch {
	case f.cost != nil:
		m.Cost = new(max(0, *f.cost-f.counted))
		f.counted = max(f.counted, *f.cost)
	case stop == aycoder.StopToolUse: // what the agent tells later is for the whole task
		m.Cost = new(0.0)
	}
	return m
}

func (f *foreign) failed(err error) error {
	return &aycoder.ModelError{Provider: "acp", Model: f.Name, Err: err}
}

// ModelName implements [aycoder.ModelNamer].
func (f *foreign) ModelName() (provider, model string) { return "acp", f.Name }
