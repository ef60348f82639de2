// Package compaction keeps conversations within the window of their model. A [Compactor] wraps the
// builder of the requests, and leaves out of them what the model needs least:
//
//	keep, err := compaction.New(model)
//	loop, err := aycoder.New(model,
//		aycoder.WithTools(append(list, keep.Recall())...),
//		aycoder.WithContextMiddleware(keep.Middleware),
//		aycoder.WithWholeOutputs(keep.KeepOutput))
//
// The history of the run keeps everything. Only the requests get shorter, in this order, and each step
// only as far as needed:
//
//  1. Outputs of tools, and long arguments of calls, are shortened in the middle, first the old and
//     the large ones. With the tool [Compactor.Recall], the model can get the rest again: also what a
//     tool had in hand when it cut its output, such as all that a command has printed (see
//     [Compactor.KeepOutput]). A read of a file is left out if a later one has the same lines.
//  2. Older messages are replaced by a summary. A model writes it (see [WithSummarizer]), or else rules
//     that keep decisions, names of files, errors and open work.
//
// The system prompt, the first request of the user, the last one, the calls whose outputs the model
// has not seen, the tail, and pinned messages (see [WithPin]) always stay. A text that alone takes more
// than a quarter of the budget is shortened in the middle.
//
// The user can ask for a compaction, with words about what to keep: between two runs see
// [Compactor.Compact], and during a run [Command]. With [WithServer], the service of the model writes the
// summaries where it can.
//
// An edit tool of package tools does not guess at a file of which requests do not have all that it has
// shown, but still merges exact edits with what the model was shown: see [aycoder.Invocation.Shows].
//
// A compaction comes as one large step, so that the requests between two steps begin with the same
// bytes, and prompt caches hit. It is an [aycoder.Compacted] event, and its note is kept in the history:
// the next run of the conversation leaves out the same, and a conversation that continues before that
// point (for example after Undo of package session) leaves out nothing. With the option WithCompactor of
// package session, only what requests show is in memory.
package compaction

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/lru"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/tokens"
)

// Compactor keeps the requests of conversations within budgets. It may serve any number of
// conversations, and is safe for concurrent use.
type Compactor struct {
	config
	model   aycoder.ModelClient
	now     atomic.Pointer[bounds] // of the requests that come
	recall  atomic.Bool            // there is such a tool
	outputs *lru.Cache             // whole ones, by key
	asking  chan struct{}          // has an item for each request for a summary from which the client has not returned

	mu   sync.Mutex
	used []*conversation // the last used ones, the newest first
}

// Option configures a [Compactor] in [New].
type Option func(*config) error

type config struct {
	bounds
	pin     func(*aycoder.Message) bool
	counter *tokens.Counter
	writer  aycoder.ModelClient
	name    string
	timeout time.Duration
}

// bounds are what Configure can change.
type bounds struct {
	window int64
	bytes  int64
	fill   float64
	server bool
}

// WithWindow sets the size of the model's context, in tokens, for request and answer. Default: what
// the client tells (see [aycoder.ModelInfoer]), or else what the model says when it refuses a request.
func WithWindow(tokens int64) Option {
	return checked("WithWindow", tokens > 0, "must be positive", func(c *config) { c.window = tokens })
}

// WithBytes bounds the messages of a request in bytes, beside the window. Default: 32 MiB.
func WithBytes(most int64) Option {
	return checked("WithBytes", most > 0, "must be positive", func(c *config) { c.bytes = most })
}

// WithFill sets how much of the budget a request may have after a compaction: a smaller one makes
// compactions rarer. It is between 0.1 and 0.9. Default: 0.5.
func WithFill(fill float64) Option {
	return checked("WithFill", fill >= 0.1 && fill <= 0.9, "must be between 0.1 and 0.9", func(c *config) { c.fill = fill })
}

// WithPin sets which messages of the user are never left out. pin gets the messages of the history. It
// must always return the same for the same message. Default: none.
func WithPin(pin func(*aycoder.Message) bool) Option {
	return checked("WithPin", pin != nil, isNil, func(c *config) { c.pin = pin })
}

// WithCounter sets what counts the tokens, so that others can share its corrections. Default: a new one.
func WithCounter(counter *tokens.Counter) Option {
	return checked("WithCounter", counter != nil, isNil, func(c *config) { c.counter = counter })
}

// WithSummarizer lets a model write the summaries, for example a small one of the same provider. name is
// the model to ask, or "" for the client's default. It is asked at most once in a compaction. If it
// fails, panics, is cut off, refuses, or takes longer than a minute, or if 64 other requests for
// summaries have not returned, rules write the summary, and Error of the [aycoder.Compacted] says why.
// Its tokens count as those of the run, as far as the client has told them. Default: rules.
func WithSummarizer(client aycoder.ModelClient, name string) Option {
	return checked("WithSummarizer", client != nil, isNil, func(c *config) { c.writer, c.name = client, name })
}

const isNil = "is nil"

// checked returns an option that sets something, or is an error if the value is not good.
func checked(option string, good bool, problem string, set func(*config)) Option {
	return func(c *config) error {
		if !good {
			return &aycoder.ConfigError{Option: option, Err: errors.New(problem)}
		}
		set(c)
		return nil
	}
}

const (
	summaryTime = time.Minute
	leastAnswer = 1 << 10 // tokens that are kept free for the answer
	mostAnswer  = 16 << 10
	maxTries    = 8
	maxKnown    = 16       // conversations that are remembered,
	maxRuns     = 1 << 10  // if their runs are not over,
	maxIdle     = 32 << 20 // bytes of those whose runs are over
)

var defaults = bounds{bytes: 32 << 20, fill: 0.5}

// New returns a compactor for requests to a model. If a run has another one (see
// [aycoder.WithSetup]), its requests are kept within the window of that one.
func New(model aycoder.ModelClient, opts ...Option) (*Compactor, error) {
	c := &Compactor{model: model, outputs: lru.New(maxOutputs), asking: make(chan struct{}, mostAsking)}
	c.config = config{bounds: defaults, timeout: summaryTime, counter: tokens.New(),
		pin: func(*aycoder.Message) bool { return false }}
	opts = append(slices.Clip(opts), checked("model", model != nil, isNil, func(*config) {}))
	err := option.Apply(&c.config, opts)
	if err != nil {
		return nil, fmt.Errorf("new compactor: %w", err)
	}
	c.now.Store(&c.bounds)
	return c, nil
}

// Configure sets [WithWindow], [WithBytes], [WithFill] and [WithServer] anew for the requests that come. One that is not
// among opts has its default, and other options have no effect. An error changes nothing. Configure is safe for
// concurrent use.
func (c *Compactor) Configure(opts ...Option) error {
	next := config{bounds: defaults}
	if err := option.Apply(&next, opts); err != nil {
		return fmt.Errorf("configure compactor: %w", err)
	}
	c.now.Store(&next.bounds)
	return nil
}

// Middleware wraps a builder: see [aycoder.WithContextMiddleware]. The builder gets the shortened
// messages. Middleware that adds to requests, for example to their tail, must come after this one, so
// that what it adds is counted. If a request fits in no way, the error is an [*aycoder.ContextError]
// that names its largest parts; a shorter prompt then works again.
func (c *Compactor) Middleware(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		find := original.In(ctx)
		v := c.conversation(&in, ctx.Done(), find)
		v.original = find
		defer func() {
			v.original = nil
			v.mu.Unlock()
		}()
		b := &build{conversation: v, bounds: *c.now.Load(), next: next, in: in, client: c.model}
		if in.Client != nil {
			b.client = in.Client
		}
		b.turn = c.counter.Turn(b.client)
		return b.request(ctx)
	})
}

// A build makes one request.
type build struct {
	*conversation
	bounds
	next   aycoder.ContextBuilder
	in     aycoder.ContextInput
	client aycoder.ModelClient
	model  tokens.Model // that answers, if the builder does not ask for another one
	turn   *tokens.Turn
	budget int64 // of input tokens, or 0 if it is unknown
	before int64 // tokens before the compaction
	summary
	force *string // the words of a command that is not in the history
}

func (b *build) request(ctx context.Context) (*aycoder.Request, error) {
	b.model = tokens.ModelOf(b.client, b.in.Base.Model)
	switch over := b.in.Overflow; {
	case b.sent == nil:
	case over != nil:
		b.counter.Observe(b.model, b.sent, aycoder.Usage{Input: b.refused(over)})
	case b.in.Turn == b.sentTurn+1 && !slices.ContainsFunc(b.in.Messages[len(b.messages):], b.compacted): // a part was replaced
		b.counter.Observe(b.model, b.sent, b.in.Usage)
	}
	begun, made := true, false // what follow and serve leave behind if they panic is incomplete
	defer func() {
		if begun && !made { // nothing of it holds, also if something has panicked
			b.messages = nil
			if b.in.Compact != nil && b.spent.Usage != (aycoder.Usage{}) {
				_ = b.in.Compact(ctx, &b.spent)
			}
		}
	}()
	b.follow(b.in.Messages, b.in.Note)
	if b.listen(b.in.Messages); b.force != nil {
		b.says(*b.force)
	}
	b.budget = b.tokens()
	served := b.serve()
	begun = served
	for try := 0; ; try++ {
		req, err := b.make(ctx)
		if err != nil {
			return nil, err
		}
		count, fits := b.measure(ctx, req)
		done := fits && (try > 0 || b.in.Overflow == nil && !b.commanded())
		if !done && try == 0 {
			begun = true
			done = b.refuses(count, fits)
		}
		if done {
			if try > 0 || served {
				b.before = cmp.Or(b.before, count.Tokens+b.saved)
				if err := b.announce(ctx, count.Tokens); err != nil {
					return nil, err
				}
			}
			b.sent, b.sentTurn, made = req, b.in.Turn, true
			return req, nil
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		obey := fits && b.commanded() // even if nothing can be left out
		if try == maxTries || !b.compact(ctx, req, count, try) && !obey {
			return nil, b.tooLarge(count)
		}
	}
}

// make returns the request with the messages as they are shortened now.
func (b *build) make(ctx context.Context) (*aycoder.Request, error) {
	in := b.in
	in.Messages, in.Elide, in.Limit = b.out[:len(b.out):len(b.out)], 0, 0
	req, err := b.next.Build(ctx, in)
	if err != nil || req == nil {
		return nil, cmp.Or(err, errors.New("the builder returned no request"))
	}
	return b.declare(b.shortTail(req)), nil
}

// context returns the window of the model, or 0 if nobody knows it.
func (b *build) context() int64 {
	window := least(b.window, b.in.Window) // the model may know better
	if info, ok := aycoder.As[aycoder.ModelInfoer](b.client); ok && window == 0 {
		found, _ := info.ModelInfo(b.model.Name)
		window = found.Context
	}
	if b.note.Model == b.model.Provider+"/"+b.model.Name {
		window = least(window, b.note.Window)
	}
	return window
}

// tokens returns the budget of a request, or 0 if nobody knows it.
func (b *build) tokens() int64 {
	window := b.context()
	if window == 0 {
		return 0
	}
	answer := b.answer()
	if answer <= 0 {
		answer = min(max(window/8, leastAnswer), mostAnswer)
	}
	if think := int64(b.in.Base.Thinking); think >= answer { // clients add the answer to such a budget
		answer += think
	}
	return max(window-answer, window/4)
}

// answer returns how many tokens the answer may have, or 0 if the model decides.
func (b *build) answer() int64 {
	if n := b.in.Base.MaxTokens; n > 0 {
		return int64(n)
	}
	if l, ok := aycoder.As[tokens.AnswerLimiter](b.client); ok {
		return l.AnswerLimit()
	}
	return 0
}

// refused returns the number of tokens of the request that the model has refused. Some providers report
// it together with the answer.
func (b *build) refused(over *aycoder.ContextTooLargeError) int64 {
	n, without := b.counter.Estimate(b.model, b.sent).Tokens, over.Actual-b.answer()
	if max(without-n, n-without) < max(over.Actual-n, n-over.Actual) {
		return without
	}
	return over.Actual
}

// measure counts a request, and reports whether it fits.
func (b *build) measure(ctx context.Context, req *aycoder.Request) (tokens.Count, bool) {
	if b.budget == 0 {
		return b.counter.Estimate(tokens.ModelOf(b.client, req.Model), req), b.size <= b.bytes
	}
	n, fits := b.turn.Fits(ctx, req, b.budget)
	return n, fits && b.size <= b.bytes
}

// announce records the compaction before the request is sent.
func (b *build) announce(ctx context.Context, after int64) error {
	raw, err := json.Marshal(b.note)
	if err != nil {
		return &aycoder.ContextError{Op: "compact", Err: err}
	}
	b.text = raw
	if b.in.Compact == nil {
		return context.Cause(ctx)
	}
	c := b.spent
	b.spent = aycoder.Compacted{} // is told now
	c.Note, c.Summary, c.Untrusted = raw, b.note.Summary, b.note.Untrusted
	c.Replaced, c.Shortened, c.Before, c.After = max(0, b.note.From-b.head), b.shortened, b.before, after
	return b.in.Compact(ctx, &c)
}

// refuses tells that a compaction begins, and reports whether somebody refuses that and the request may do without. A
// command is then done with.
func (b *build) refuses(count tokens.Count, fits bool) bool {
	b.before = count.Tokens + b.saved
	if b.in.Compacting == nil {
		return false
	}
	c := &aycoder.Compacting{Reason: "threshold", Tokens: b.before, Budget: b.budget, Needed: !fits && !b.mayFit(count)}
	if over := b.in.Overflow; over != nil {
		c.Reason, c.Budget, c.Needed = "refusal", cmp.Or(over.Max, b.budget), true
	} else if b.commanded() {
		c.Reason = "command"
	}
	if b.in.Compacting(c) == nil || c.Needed {
		return false
	}
	b.command = 0
	return true
}

// mayFit reports whether the model may take a request that is above the budget, if its answer is short.
func (b *build) mayFit(count tokens.Count) bool {
	return count.Tokens+leastAnswer <= b.context() && b.size <= b.bytes
}

// tooLarge names the largest parts of a request that fits in no way.
func (b *build) tooLarge(count tokens.Count) error {
	type part struct {
		name string
		n    int64
	}
	d := count.Breakdown
	parts := []part{{"system prompt", d.System}, {"tools", d.Tools}, {"instructions", d.Instructions}, {"history", d.History},
		{"files", d.Files}, {"outputs of tools", d.Outputs}, {"images and documents", d.Images}}
	slices.SortStableFunc(parts, func(x, y part) int { return cmp.Compare(y.n, x.n) })
	var text []string
	for _, p := range parts[:3] {
		if p.n > 0 {
			text = append(text, fmt.Sprintf("%s %d", p.name, p.n))
		}
	}
	err := fmt.Errorf("the request has about %d tokens, at most %d fit, and nothing more can be left out; its largest parts are: %s",
		count.Tokens, b.budget, strings.Join(text, ", "))
	if b.in.Overflow != nil {
		err = fmt.Errorf("%w (%w)", err, b.in.Overflow)
	}
	return &aycoder.ContextError{Op: "compact", Err: err}
}
