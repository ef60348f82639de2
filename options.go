package aycoder

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	randv2 "math/rand/v2"
	"slices"
	"time"
)

// Option sets up an agent in [New]. Options are applied in order and the last one
// wins, unless it says that it appends.
type Option func(*config) error

// RunOption sets up one run.
type RunOption func(*RunConfig) error

// RunConfig is what the options of a run set: for those who write an [Agent].
type RunConfig struct {
	Into    *Result
	Control *Control
	Parent  *Invocation
}

// Into fills r when the run is over, however it ends: also after break, error and
// cancel, before the loop statement ends.
func Into(r *Result) RunOption {
	return func(c *RunConfig) error {
		c.Into = r
		return nil
	}
}

// WithControl lets other goroutines look at the run and speak into it.
func WithControl(ctl *Control) RunOption {
	return func(c *RunConfig) error {
		c.Control = ctl
		return nil
	}
}

// newID returns 32 hexadecimal digits, of 128 random bits. They are names, not secrets,
// so they do not cost a call of the kernel for each run.
func newID() string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], randv2.Uint64())
	binary.NativeEndian.PutUint64(b[8:], randv2.Uint64())
	return hex.EncodeToString(b[:])
}

func defaults() config {
	return config{settings: settings{
		builder: plainContext{}, approver: readOnly{}, maxTurns: 50, maxCalls: 128,
		maxOutput: 256 << 10, maxResponse: maxAnswer, keepEncoded: true, parallel: 8, grace: time.Second,
		clock: SystemClock(), newID: newID, random: randv2.Float64,
		log: silent{},
	}}
}

// readOnly is the approver of those who gave none.
type readOnly struct{}

func (readOnly) Decide(_ context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	if spec.Effect == EffectReadOnly && !spec.OpenWorld {
		return Allow()
	}
	return headless(Ask(), call, spec)
}

func option(name string, ok bool, problem string, set func(*config)) Option {
	return func(c *config) error {
		if !ok {
			return &ConfigError{Option: name, Err: errors.New(problem)}
		}
		set(c)
		return nil
	}
}

// WithTools gives the agent tools. It appends; names must differ. Default: none.
func WithTools(tools ...Tool) Option {
	ok := true
	for _, t := range tools {
		ok = ok && t != nil
	}
	return option("WithTools", ok, "a tool is nil", func(c *config) {
		c.given = append(c.given, tools...)
	})
}

// WithSystem sets the system prompt, in blocks, the most stable first. It appends.
// Default: none.
func WithSystem(blocks ...string) Option {
	return option("WithSystem", true, "", func(c *config) {
		for _, b := range blocks {
			c.system = append(c.system, &Text{Text: cleanText(b)})
		}
	})
}

// WithApprover sets who decides about calls. Default: tools that only read, and
// nothing outside the workspace, run; everything else is denied with the rule that
// would allow it. [Rules] asks.
func WithApprover(a Approver) Option {
	return option("WithApprover", a != nil, "is nil", func(c *config) {
		c.approver = a
		c.watch()
	})
}

// WithContext sets who builds the requests. Default: the whole history, or as much of it as
// [ContextInput] says by Elide and Limit: then the first request, a note that some messages
// are left out, what the user has said in the exchange that is under way, and the last
// messages. A message that takes more than a quarter of Limit is shortened.
func WithContext(b ContextBuilder) Option {
	return option("WithContext", b != nil, "is nil", func(c *config) { c.builder = b })
}

// WithContextMiddleware wraps the context builder; the first is the outermost. It
// appends. Default: none.
func WithContextMiddleware(mw ...ContextMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ContextMiddleware) bool { return m == nil })
	return option("WithContextMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapContext = append(c.wrapContext, mw...)
	})
}

// WithModelMiddleware wraps the model client; the first is the outermost. It
// appends. Default: none.
func WithModelMiddleware(mw ...ModelMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ModelMiddleware) bool { return m == nil })
	return option("WithModelMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapModel = append(c.wrapModel, mw...)
	})
}

// WithToolMiddleware wraps the calls of all tools; the first is the outermost. It
// appends. Default: none.
func WithToolMiddleware(mw ...ToolMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ToolMiddleware) bool { return m == nil })
	return option("WithToolMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapTool = append(c.wrapTool, mw...)
	})
}

// Limits bound a run. A field that is 0 leaves what is set already.
type Limits struct {
	// Turns is how many messages the model may send in a run. A run that wants more ends
	// with a [*LimitError]. Default: 50.
	Turns int
	// Calls is how many calls of one message are run; the others get an output that says
	// so. Default: 128.
	Calls int
	// Tokens bounds one answer of the model. Default: the client's.
	Tokens int
	// Response is how many bytes of one answer are held. A longer one fails with a
	// [*LimitError]; what came before stays in the history, and its calls are not run.
	// Default: 32 MiB.
	Response int64
	// ToolOutput is how many bytes of text the model gets from one call, at least 1,024; of
	// a longer one it sees the head and the tail. Default: 256 KiB.
	ToolOutput int
	// Parallel is how many read-only calls work at the same time. Default: 8.
	Parallel int
	// Grace is how long a tool or a model client may take to stop when the run is cancelled,
	// before it is abandoned. Default: 1 second.
	Grace time.Duration
	// Approval is how long a question waits for an answer before it is denied. Default: for
	// ever.
	Approval time.Duration
}

// WithLimits bounds runs.
func WithLimits(l Limits) Option {
	return func(c *config) error {
		var errs []error
		set(&errs, &c.maxTurns, "Turns", l.Turns, 1)
		set(&errs, &c.maxCalls, "Calls", l.Calls, 1)
		set(&errs, &c.maxTokens, "Tokens", l.Tokens, 1)
		set(&errs, &c.maxResponse, "Response", l.Response, 1)
		set(&errs, &c.maxOutput, "ToolOutput", l.ToolOutput, 1024)
		set(&errs, &c.parallel, "Parallel", l.Parallel, 1)
		set(&errs, &c.grace, "Grace", l.Grace, 1)
		set(&errs, &c.askTimeout, "Approval", l.Approval, 1)
		return errors.Join(errs...)
	}
}

// set sets a limit that is given.
func set[T int | int64 | time.Duration](errs *[]error, to *T, name string, given, least T) {
	switch {
	case given >= least:
		*to = given
	case given != 0:
		err := fmt.Errorf("%s is less than %v", name, least)
		*errs = append(*errs, &ConfigError{Option: "WithLimits", Err: err})
	}
}

// WithThinking sets [Request.Thinking]. Default: 0.
func WithThinking(tokens int) Option {
	return option("WithThinking", true, "", func(c *config) { c.thinking = tokens })
}

// WithEncodedHistory says whether the messages of a conversation keep the form in which
// they were sent when its run is over. With it, a run that goes on sends an old message
// as it stands, and an idle conversation holds about twice the bytes of its history;
// without it, each run encodes the history once, and the idle one holds that alone. The
// form goes with the messages in any case, and is not kept of a history of less than 16
// KiB, which is encoded in no time. Default: true.
func WithEncodedHistory(keep bool) Option {
	return option("WithEncodedHistory", true, "", func(c *config) { c.keepEncoded = keep })
}

// WithRetry bounds how the model is asked again. Default: [RetryPolicy]{}.
func WithRetry(p RetryPolicy) Option {
	return option("WithRetry", true, "", func(c *config) { c.retry = p })
}

// A logger is what the loop needs of a [*slog.Logger]. A program that sets none does
// not link the rest.
type logger interface {
	Log(ctx context.Context, level slog.Level, msg string, args ...any)
}

type silent struct{}

func (silent) Log(context.Context, slog.Level, string, ...any) {}

// WithLogger sets where the loop logs what no event tells: abandoned tools, panics.
// Default: nowhere.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", l != nil, "is nil", func(c *config) { c.log = l })
}

// Clock tells the time, for runs that are to be replayed.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own after d, unless stop was called.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock returns the clock of package time.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// WithClock sets the clock. Default: [SystemClock].
func WithClock(clock Clock) Option {
	return option("WithClock", clock != nil, "is nil", func(c *config) { c.clock = clock })
}

// WithIDs sets where the ids of runs come from. It is safe for concurrent use.
// Default: 128 random bits.
func WithIDs(next func() string) Option {
	return option("WithIDs", next != nil, "is nil", func(c *config) { c.newID = next })
}

// WithRandom sets where the spread of retries comes from: numbers in [0, 1). It is
// safe for concurrent use.
// Default: math/rand/v2.
func WithRandom(next func() float64) Option {
	return option("WithRandom", next != nil, "is nil", func(c *config) { c.random = next })
}

// WithExecutor sets the function that starts the steps of a run, which are approvals and
// tool calls: a pool, a recorder. It must call step exactly once, with ctx or a child of
// it, from another goroutine and not before it returns. It may wait for a free place. The
// key is that of the [Action] and serves as an idempotency key. Default: a goroutine for each.
func WithExecutor(start func(ctx context.Context, key string, step func(context.Context))) Option {
	return option("WithExecutor", start != nil, "is nil", func(c *config) { c.execute = start })
}
