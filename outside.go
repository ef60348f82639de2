package aycoder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"weak"

	"github.com/aycoder/aycoder/internal/schema"
)

// Calls of declared tools: somebody outside of the loop carries them out. The state of the run holds
// the request, so the result may come while the run lives, or in another run that resumes this one.

// CallRequested asks for the result of a call of a declared tool, see [DeclareTool]. Give it with
// Answer while handling the event, or call [CallRequested.Detach] and answer later. If the program does
// neither before its loop goes on to the next event, the run goes on as long as it can without this
// result, and is then suspended: see [Pending.Calls]. A run inside another call cannot be suspended;
// there, the call gets an error as its output, and ends with a [*ToolError].
//
// CallRequested is also a [Fact], which is recorded before the event comes. When a run is resumed, the
// event comes again. It takes the place of [ToolStarted], which a declared tool does not have.
type CallRequested struct {
	Request CallRequest

	call *openCall
}

// Answer gives the result of the call. It is used like that of a function: see [ToolResult]. If res is
// refused, or if the call waits for no result, the error is a [*ResultError]. A result that was
// accepted is lost if the run is cancelled in the same moment. Answer is safe for concurrent use.
func (c *CallRequested) Answer(res *ToolResult) error { return c.call.answer(c.Request.CallID, res) }

// Detach returns a handle for giving the result later, from any goroutine, while the run lives. If
// the program drops the handle, the call is left open as if it had not called Detach.
func (c *CallRequested) Detach() *OpenCall {
	q, o := c.call, &OpenCall{Request: &c.Request, call: c.call}
	if q == nil {
		return o
	}
	return detach(q.run, &q.detached, &q.handle, o, func() { q.leave(ByAbandoned) })
}

// OpenCall is the handle of a call that was detached with [CallRequested.Detach]. Its methods are safe
// for concurrent use.
type OpenCall struct {
	Request *CallRequest

	call *openCall
}

// Answer does what [CallRequested.Answer] does.
func (o *OpenCall) Answer(res *ToolResult) error {
	defer runtime.KeepAlive(o) // while it is answered it is not lost
	return o.call.answer(o.Request.CallID, res)
}

// Leave leaves the call open, so that the run is suspended when it cannot go on without its result. It
// returns false if the call waits for no result any more.
func (o *OpenCall) Leave() bool {
	defer runtime.KeepAlive(o)
	return o.call.leave(ByUser)
}

// Decided reports whether the call no longer waits for a result from this handle.
func (o *OpenCall) Decided() bool { return o.call.decided() }

// An openCall is a call that waits for its result while the run lives. The mutex of the run guards
// the fields after req.
type openCall struct {
	run    *run
	action *RunTool
	req    *CallRequest

	answered bool        // the call works on its result
	result   *ToolResult // of Input.Results, until then
	told     bool        // the consumer has been, or need not be
	detached bool
	handle   weak.Pointer[OpenCall]
}

// open reports whether a result may be given. The mutex is held.
func (c *openCall) open() bool {
	r, call := c.run, c.action.Call
	i := r.state.find(call.ID)
	return !r.stopping && !c.answered && i >= 0 && r.state.calls[i].use == call &&
		r.state.calls[i].status == callOutside
}

// decided reports whether no result may be given any more, as of the call of an event that was decoded.
func (c *openCall) decided() bool {
	if c == nil {
		return true
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	return !c.open()
}

func (c *CallRequested) over() bool { return c.call != nil && c.call.decided() }

func (c *CallRequested) left() {
	c.call.run.mu.Lock()
	detached := c.call.detached
	c.call.run.mu.Unlock()
	if !detached {
		c.call.leave(ByIgnored)
	}
}

// answer takes a result while the run lives.
func (c *openCall) answer(id string, res *ToolResult) error {
	if c == nil { // the event was decoded
		return notOpen(id)
	}
	fit, err := fit(c.action.prepared.tool, id, res)
	if err != nil {
		return err
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if !c.open() {
		return notOpen(id)
	}
	c.deliver(fit)
	return nil
}

// leave gives up the wait for a result, and reports whether there was one.
func (c *openCall) leave(by DecidedBy) bool {
	if c == nil {
		return false
	}
	r, call := c.run, c.action.Call
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.open() {
		return false
	}
	if r.parent == nil {
		_ = r.step(&Decided{Decision: Decision{CallID: call.ID, Verdict: Suspend(), By: by}})
		return true
	}
	text := stopped(outNobody, c.action.prepared.tool.spec.Effect) // whoever was asked may have begun
	fin := &ToolFinished{Call: call, Subject: c.action.prepared.display, Output: errorOutput(call, text),
		Summary: "no result", Err: &ToolError{Tool: call.Name, CallID: call.ID, Err: errNoResult}}
	if r.recorder != nil {
		r.recorder.ended(r, c.action.Key(), call, fin, "abandoned")
	}
	_ = r.step(&ToolDone{ID: call.ID, Output: fin.Output}, fin)
	return true
}

var errNoResult = errors.New(outNobody)

// deliver lets the call end with a result, in a separate step: middleware may take its time. The
// mutex is held.
func (c *openCall) deliver(res *ToolResult) {
	c.answered, c.result = true, nil // the call holds it until it has its output
	a := *c.action
	a.answer, a.request = res, c.req
	c.run.submit(&a, "/result", func(ctx context.Context) { c.run.runTool(ctx, &a) })
}

// An outsider is the part of a run that waits for results from outside. show is called with the mutex of
// the run held, begins without it, and the others before the run begins. Programs without declared tools do
// not link what implements it.
type outsider interface {
	// begins reports whether a call has a result from outside, or lets it wait for one.
	begins(a *RunTool) bool
	// show asks the consumer for results.
	show()
	// check checks the requests, and take takes a result, of a run that is resumed.
	check(calls []CallRequest) error
	take(id, digest string, parts []Part, isError, untrusted bool, summary string) error
}

// anyResults checks the requests and results of a run that is resumed. Without a declared tool, no call
// waits for a result.
func anyResults(r *run, in *Input) error {
	for _, t := range r.setup.Load().tools {
		of, ok := t.spec.declared.(func(*run) outsider)
		if !ok {
			continue
		}
		o := of(r)
		if err := o.check(in.Pending.Calls); err != nil {
			return &ConfigError{"Input.Pending", err}
		}
		for i := range in.Results {
			c := &in.Results[i]
			if err := o.take(c.CallID, c.Digest, c.Parts, c.IsError, c.Untrusted, c.Summary); err != nil {
				return &ConfigError{"Input.Results", err}
			}
		}
		return nil
	}
	if len(in.Results) > 0 {
		return &ConfigError{"Input.Results", errors.New("the agent has no declared tool")}
	}
	return nil
}

// An outside is the only outsider.
type outside struct {
	run     *run
	calls   map[string]*openCall
	results map[string]*ToolResult // of Input.Results
}

// outsideOf returns that of a run. The mutex is not held.
func outsideOf(r *run) outsider {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outside == nil {
		r.outside = &outside{r, map[string]*openCall{}, map[string]*ToolResult{}}
	}
	return r.outside
}

func (o *outside) begins(a *RunTool) bool {
	r := o.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || !r.state.holds(a.Call) || r.work.Err() != nil {
		return false
	}
	if a.answer != nil {
		if r.again != nil && !r.mayResume(a) {
			return false
		}
		r.running = append(r.running, a)
		return true
	}
	c := &openCall{run: r, action: a, req: a.request, result: o.results[a.Call.ID]}
	if c.req == nil {
		c.req = &CallRequest{Key: a.Key(), Run: r.id, Agent: r.name, CallID: a.Call.ID, Tool: a.Call.Name,
			Args: a.prepared.use.Args, Subject: a.prepared.display, Created: r.loop.clock.Now()}
		c.req.Digest = c.req.digest()
	}
	delete(o.results, a.Call.ID)
	o.calls[a.Call.ID] = c
	o.show()
	return false
}

// show asks for the results in the order of the calls.
func (o *outside) show() {
	r := o.run
	for i := 0; i < len(r.state.calls); i++ {
		call := &r.state.calls[i]
		if !call.outside || call.status != callIssued && call.status != callOutside {
			continue
		}
		c := o.calls[call.use.ID]
		if c == nil || c.action.Call != call.use {
			return // its turn comes
		}
		if !c.told {
			c.told = true
			c.show(call.status)
			r.signal()
		}
	}
}

func (c *openCall) show(status callStatus) {
	r, ev := c.run, &CallRequested{Request: *c.req, call: c}
	switch {
	case c.result != nil:
		c.deliver(c.result)
	case status == callIssued:
		if r.recorder != nil {
			req := &ApprovalRequest{Key: c.req.Key, Reasons: []string{"the result comes from outside"}}
			r.recorder.asked(r, &openQuestion{preparedCall: c.action.prepared, req: req})
		}
		_ = r.step(&CallRequested{Request: *c.req}, ev)
	default:
		r.tell(ev)
	}
}

func (o *outside) check(calls []CallRequest) error {
	seen := map[string]bool{}
	for i := range calls {
		q := &calls[i]
		c := o.run.state.waiting(q.CallID)
		if c == nil || seen[q.CallID] || q.Digest != c.request.Digest || q.digest() != q.Digest || q.Subject != c.request.Subject {
			return fmt.Errorf("the request for call %q is not one of its open ones", q.CallID)
		}
		seen[q.CallID] = true
	}
	return nil
}

func (o *outside) take(id, digest string, parts []Part, isError, untrusted bool, summary string) error {
	c := o.run.state.waiting(id)
	switch {
	case c == nil:
		return notOpen(id)
	case o.results[id] != nil:
		return &ResultError{id, "twice", fmt.Errorf("there are two results: %w", ErrDecided)}
	case digest != c.request.Digest:
		return &ResultError{id, "other_call", errDigest}
	}
	t := o.run.setup.Load().tool(c.use.Name)
	if t == nil || !t.spec.Outside() {
		return &ResultError{id, "not_open", fmt.Errorf("the agent declares no tool %q: %w", c.use.Name, ErrDecided)}
	}
	res, err := fit(t, id, &ToolResult{Parts: parts, IsError: isError, Summary: summary, Untrusted: untrusted})
	if err == nil {
		o.results[id] = res
	}
	return err
}

// applyTo notes that the result of a call comes from outside. So the call is not lost when the run is
// resumed.
func (f *CallRequested) applyTo(calls []call) ([]call, string) {
	q := &f.Request
	i := slices.IndexFunc(calls, func(c call) bool { return c.use.ID == q.CallID })
	if i < 0 {
		return calls, "no such call: " + q.CallID
	}
	if c := &calls[i]; c.status != callIssued || !c.outside || !requestedBy(q, c) {
		return calls, "the call does not wait for this result"
	}
	calls = slices.Clone(calls)
	calls[i].status, calls[i].request = callOutside, q
	return calls, ""
}

// requestedBy reports whether q asks for the result of the call.
func requestedBy(q *CallRequest, c *call) bool {
	return q != nil && q.CallID == c.use.ID && q.Tool == c.use.Name
}

// waiting returns the call with this id if it was requested and has no result, or else nil.
func (s *machine) waiting(id string) *call {
	i := s.find(id)
	if i < 0 || s.calls[i].status != callOutside && s.calls[i].status != callDeferred {
		return nil
	}
	return &s.calls[i]
}

const (
	maxResult   = 16 << 20 // bytes of texts and media
	bytesOfPart = 1 << 10  // that each part counts more
)

// fit checks a result of a tool, and returns a copy of it.
func fit(t *tool, id string, res *ToolResult) (*ToolResult, error) {
	if res == nil {
		return nil, &ResultError{id, "invalid", errContent}
	}
	size := int64(0)
	for _, p := range res.Parts {
		text, isText := p.(*Text)
		media, isMedia := p.(*Media)
		if !(isText && text != nil || isMedia && media != nil) {
			return nil, &ResultError{id, "invalid", errContent}
		}
		size += partSize(p) + bytesOfPart
	}
	if size > maxResult {
		return nil, &ResultError{id, "too_large", &LimitError{Limit: "bytes of a result", Max: maxResult}}
	}
	out := *res
	out.Parts = outputParts(res.Parts)
	if t.spec.Result == nil || res.IsError {
		return &out, nil
	}
	s, err := schema.Compile(t.spec.Result)
	if err != nil {
		return nil, &ResultError{id, "schema", err}
	}
	if problems := s.Validate([]byte(out.Text())); len(problems) > 0 {
		for i, p := range problems {
			problems[i] = strings.TrimPrefix(p, "arguments: ")
		}
		return nil, &ResultError{id, "schema", errors.New(strings.Join(problems, "; "))}
	}
	return &out, nil
}

// OpenCalls returns the calls that were requested and wait for a result from outside, in their order:
// see [DeclareTool].
func (s State) OpenCalls() (out []CallRequest) {
	for i := range s.calls {
		if c := &s.calls[i]; c.status == callOutside || c.status == callDeferred {
			out = append(out, *c.request)
		}
	}
	return out
}
