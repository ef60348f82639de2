package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// A world is the model and the tools of one run, with a log of what happened to them. Every
// scripted call has a unique number as its argument "n". The log identifies calls by the number,
// because the scenarios also contain calls without an id or with the same id.
type world struct {
	found *findings
	// answers are the answers of the model, one for each request. The last one is repeated for
	// all further requests.
	answers [][]any
	seen    chan struct{} // has a value if the body has seen an event; one slot
	huge    int           // the size in bytes of the result of the tool "huge"
	release chan struct{} // closed after the run, to end tools that ignore their context

	mu       sync.Mutex
	asked    int          // the number of requests so far
	held     bool         // the loop body is at work, so the model must not be asked
	complete map[int]bool // the numbers of calls whose message is complete
	calls    []*callLog   // in the order in which they began
	working  int
	writing  bool
	over     bool
	began    map[int]chan struct{}
}

// A callLog is the log entry of a call that began.
type callLog struct {
	n        int
	id, tool string
	args     string
	effect   aycoder.Effect
	returned bool // the call returned before the run was over
	err      error
	text     string
}

// newWorld makes a world whose model gives the answers, one for each request.
func newWorld(found *findings, answers [][]any) *world {
	return &world{
		found: found, answers: answers,
		seen: make(chan struct{}, 1), release: make(chan struct{}),
		complete: map[int]bool{}, began: map[int]chan struct{}{},
	}
}

// Stream implements [aycoder.ModelClient]. It plays the steps of the next answer in the script.
func (w *world) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		var said []int
		for _, step := range w.answer(req) {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			said = w.note(said, step)
			if !play(ctx, w, step, yield) {
				return
			}
		}
	}
}

// A stream is a step that yields events which are computed and not listed, such as an endless
// text.
type stream func(ctx context.Context, yield func(aycoder.ModelEvent) bool) bool

// play does one step of an answer, and reports whether the answer goes on. Any other step, such
// as a nil, yields neither event nor error, which no correct client does.
func play(ctx context.Context, w *world, step any,
	yield func(aycoder.ModelEvent, error) bool) bool {
	switch s := step.(type) {
	case aycoder.ModelEvent:
		return yield(s, nil)
	case error:
		yield(nil, s)
		return false
	case func(context.Context, *world):
		s(ctx, w)
		return true
	case stream:
		return s(ctx, func(ev aycoder.ModelEvent) bool { return yield(ev, nil) })
	}
	return yield(nil, nil)
}

// answer returns the next answer of the script. It checks the request: the history in it must be
// valid, the run must not be over, and the loop body must not be at work.
func (w *world) answer(req *aycoder.Request) []any {
	if err := aycoder.CheckHistory(req.Messages); err != nil {
		w.found.add(ruleHistory, "the model gets a request that is not valid: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.over {
		w.found.add(ruleGone, "the model is asked after the run is over")
	}
	if w.held && w.asked > 1 {
		w.found.add(ruleAhead, "request %d is sent while the body works", w.asked)
	}
	return w.answers[min(w.asked, len(w.answers))-1]
}

// note remembers the calls of a message. When the message is complete, it marks them as complete:
// from then on, calls that write may start. In a refused message they stay incomplete.
func (w *world) note(said []int, step any) []int {
	switch s := step.(type) {
	case *aycoder.BlockDone:
		if u, ok := s.Part.(*aycoder.ToolUse); ok {
			said = append(said, numberOf(u.Args))
		}
	case *aycoder.MessageDone:
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range said {
			w.complete[n] = s.Stop != aycoder.StopRefusal
		}
	}
	return said
}

// hold records whether the loop body is at work. Meanwhile the model must not be asked again.
func (w *world) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
}

// requests returns the number of requests that the model got.
func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// begun returns a channel that is closed when call n begins.
func (w *world) begun(n int) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begunLocked(n)
}

// begunLocked is begun for a caller that holds the mutex.
func (w *world) begunLocked(n int) chan struct{} {
	if w.began[n] == nil {
		w.began[n] = make(chan struct{})
	}
	return w.began[n]
}

// await returns a step that waits until call n has begun. In a bubble of synctest the minute
// passes only if nothing else can happen, which means that the agent did not start the call
// early.
func await(n int) func(context.Context, *world) {
	return func(ctx context.Context, w *world) {
		select {
		case <-w.begun(n):
		case <-time.After(time.Minute):
			w.found.add(ruleEager, "call %d does not start while the model talks", n)
		case <-ctx.Done():
		}
	}
}

// pace is a step that waits until the loop body has seen an event, so that the body keeps up.
func pace(ctx context.Context, w *world) {
	select {
	case <-w.seen:
	case <-ctx.Done():
	}
}

// idle is a step that waits until nothing else can happen, because time in a bubble of synctest
// only passes then. A call that starts too early is noticed in this pause.
func idle(ctx context.Context, _ *world) {
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
	}
}

// begin logs that a call begins, and checks whether it may begin now.
func (w *world) begin(spec *aycoder.ToolSpec, inv *aycoder.Invocation) *callLog {
	c := &callLog{n: numberOf(inv.Args), id: inv.ID, tool: inv.Name, args: string(inv.Args),
		effect: spec.Effect}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		w.found.add(ruleWorking, "call %d starts after the run is over", c.n)
	}
	if slices.ContainsFunc(w.calls, func(o *callLog) bool { return o.n == c.n }) {
		w.found.add(ruleTwice, "call %d (%s) runs twice", c.n, c.tool)
	} else {
		close(w.begunLocked(c.n))
	}
	// The check comes before the call is counted, since it compares the call with the others.
	w.mayBegin(c)
	w.working++
	w.writing = w.writing || c.effect != aycoder.EffectReadOnly
	w.calls = append(w.calls, c)
	return c
}

// mayBegin checks that a call which writes runs alone, that its message is complete, and that no
// later call which writes has begun before it.
func (w *world) mayBegin(c *callLog) {
	if w.writing {
		w.found.add(ruleWrites, "call %d starts beside a call that writes", c.n)
	}
	if c.effect == aycoder.EffectReadOnly {
		return
	}
	if w.working > 0 {
		w.found.add(ruleWrites, "call %d writes, and starts beside another", c.n)
	}
	if !w.complete[c.n] {
		w.found.add(ruleWrites, "call %d starts, and its message is not complete", c.n)
	}
	for _, o := range w.calls {
		if o.effect != aycoder.EffectReadOnly && o.n > c.n {
			w.found.add(ruleWrites, "call %d starts after call %d", c.n, o.n)
		}
	}
}

// end logs how a call ended. The text of "dirty" is left out, since the agent replaces invalid
// UTF-8 in it.
func (w *world) end(c *callLog, res *aycoder.ToolResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working--
	if c.effect != aycoder.EffectReadOnly {
		w.writing = false
	}
	c.returned, c.err = !w.over, err
	if res != nil && err == nil && c.tool != "dirty" {
		c.text = res.Text()
	}
}

// close records that the loop statement has ended, and returns the calls that still run.
func (w *world) close() []*callLog {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	var left []*callLog
	for _, c := range w.calls {
		if !c.returned {
			left = append(left, c)
		}
	}
	return left
}

// log returns a copy of the log.
func (w *world) log() []*callLog {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// ran returns how often call n began.
func (w *world) ran(n int) int {
	count := 0
	for _, c := range w.log() {
		if c.n == n {
			count++
		}
	}
	return count
}

// numberOf returns the number that the scenario gave the call, or -1 if the arguments are
// invalid.
func numberOf(args json.RawMessage) int {
	var in struct {
		N int `json:"n"`
	}
	if json.Unmarshal(args, &in) != nil {
		return -1
	}
	return in.N
}

// A probe is a tool that logs its calls.
type probe struct {
	spec  aycoder.ToolSpec
	world *world
	work  func(ctx context.Context, w *world, inv *aycoder.Invocation) (*aycoder.ToolResult, error)
}

const probeSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`

func (p *probe) Spec() aycoder.ToolSpec { return p.spec }

// Call runs the function of the tool, and logs when the call begins and ends. If the function
// panics, the error that Call logs is errPanicked.
func (p *probe) Call(ctx context.Context, inv *aycoder.Invocation) (res *aycoder.ToolResult,
	err error) {
	c := p.world.begin(&p.spec, inv)
	err = errPanicked
	defer func() { p.world.end(c, res, err) }()
	return p.work(ctx, p.world, inv)
}

var (
	errPanicked = errors.New("panicked")
	errProbe    = errors.New("no such thing")
)

// tools returns the tools of the suite, one for each behaviour and effect that the scenarios
// need.
func (w *world) tools() []aycoder.Tool {
	const reads, writes = aycoder.EffectReadOnly, aycoder.EffectWrite
	tool := func(name string, e aycoder.Effect,
		work func(context.Context, *world, *aycoder.Invocation) (*aycoder.ToolResult,
			error)) aycoder.Tool {
		return &probe{aycoder.ToolSpec{
			Name: name, Description: "A tool of the suite.", Schema: json.RawMessage(probeSchema),
			Effect: e,
		}, w, work}
	}
	return []aycoder.Tool{
		tool("read", reads, echo), tool("write", writes, work),
		tool("unknown_effect", aycoder.EffectUnknown, work),
		tool("fail", reads, fail), tool("panic", reads, crash), tool("panic_write", writes, crash),
		tool("wait", reads, wait), tool("wait_write", writes, wait),
		tool("stuck", reads, stuck), tool("stuck_write", writes, stuck),
		tool("dirty", reads, dirty), tool("huge", reads, huge), tool("report", reads, reports),
	}
}

// echo returns the name of the tool and the number of the call.
func echo(_ context.Context, _ *world, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return aycoder.TextResult(fmt.Sprintf("%s %d ok", inv.Name, numberOf(inv.Args))), nil
}

// work takes a millisecond of simulated time, so that another call that starts meanwhile is
// found.
func work(ctx context.Context, w *world, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
		return echo(ctx, w, inv)
	}
}

// fail returns an error, which the model has to read as the output.
func fail(context.Context, *world, *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return nil, fmt.Errorf("look: %w", errProbe)
}

// crash panics, as a buggy tool does. The panic must not end the host.
func crash(context.Context, *world, *aycoder.Invocation) (*aycoder.ToolResult, error) {
	panic("a tool of the suite panics")
}

// wait returns after a minute, or when it is cancelled.
func wait(ctx context.Context, w *world, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Minute):
		return echo(ctx, w, inv)
	}
}

// stuck ignores its context. The agent has to abandon it, and must discard its late result.
func stuck(ctx context.Context, w *world, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	select {
	case <-w.release:
	case <-time.After(time.Hour):
	}
	return echo(ctx, w, inv)
}

// dirt has invalid UTF-8, NUL, and a surrogate in UTF-8, none of which JSON or databases store.
const dirt = "a\xff\xfe\x00\xc3(\xed\xa0\x80z"

// dirty returns text that cannot be stored as it is, and nil parts. For even numbers it returns
// an error with such a text.
func dirty(_ context.Context, _ *world, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	if numberOf(inv.Args)%2 == 0 {
		return nil, errors.New(dirt)
	}
	return &aycoder.ToolResult{Summary: dirt, Parts: []aycoder.Part{
		&aycoder.Text{Text: dirt}, nil, (*aycoder.Text)(nil),
	}}, nil
}

// huge returns more text than fits into the context of a model.
func huge(_ context.Context, w *world, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return aycoder.TextResult(strings.Repeat("0123456789abcde\n", w.huge/16)), nil
}

// reports sends progress reports faster than a host reads them, and one after it has returned.
// The late report must be dropped, because its call has ended for the host.
func reports(ctx context.Context, w *world, inv *aycoder.Invocation) (*aycoder.ToolResult,
	error) {
	// A host gets only some of these reports, which is allowed.
	for i := range int64(100) {
		inv.Progress(aycoder.Progress{Current: i, Total: 100, Message: dirt})
	}
	go func() {
		<-w.release
		inv.Progress(aycoder.Progress{Message: "late"})
	}()
	return echo(ctx, w, inv)
}
