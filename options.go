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

	"github.com/aycoder/aycoder/internal/runes"
)

// Option configures an agent in [New]. Options are applied in order and the last one
// wins, unless its documentation says that it appends.
type Option func(*config) error

// RunOption configures one run.
type RunOption func(*RunConfig) error

// RunConfig holds the values that run options set. It is for other implementations of [Agent].
type RunConfig struct {
	Into    *Result
	Control *Control
	Parent  *Invocation
}

// Into fills r when the run is over, however it ends. That includes break, an error and
// a cancelled context; r is filled before the loop statement ends.
func Into(r *Result) RunOption {
	return func(c *RunConfig) error {
		c.Into = r
		return nil
	}
}

// WithControl lets other goroutines look at the run and send messages into it while it
// works. A Control serves one run at a time.
func WithControl(ctl *Control) RunOption {
	return func(c *RunConfig) error {
		c.Control = ctl
		return nil
	}
}

// newID returns 32 hexadecimal digits for 128 random bits. Ids are names, not secrets,
// so they do not need a system call for each run.
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
		log: silent,
	}}
}

// readOnly is the default approver.
type readOnly struct{}

func (readOnly) Decide(_ context.Context, _ *ToolUse, spec *ToolSpec) Verdict {
	if spec.Effect == EffectReadOnly && !spec.OpenWorld {
		return Allow()
	}
	return headless(Ask().WithRationale(Grounds{Reasons: []string{"the host has set no approver"}}))
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

// WithTools adds tools; their names must differ. It appends. Default: none.
func WithTools(tools ...Tool) Option {
	ok := true
	for _, t := range tools {
		ok = ok && t != nil
	}
	return option("WithTools", ok, "a tool is nil", func(c *config) {
		c.given = append(c.given, tools...)
	})
}

// WithSystem adds blocks to the system prompt, the most stable first. It appends. Default: none.
func WithSystem(blocks ...string) Option {
	return option("WithSystem", true, "", func(c *config) {
		for _, b := range blocks {
			c.system = append(c.system, &Text{Text: runes.Clean(b)})
		}
	})
}

// WithApprover sets the [Approver] that decides about calls. Default: read-only tools
// that stay within the workspace run; all other calls are denied. Package policy has an
// Approver that decides by rules, and asks about other calls.
func WithApprover(a Approver) Option {
	return option("WithApprover", a != nil, "is nil", func(c *config) {
		c.approver = a
		c.watch()
	})
}

// WithContext sets the builder of requests. The default builder sends the whole history as long
// as that fits. If Elide or Limit of [ContextInput] is set, it keeps the first request, notes
// that some messages were left out, and continues with the prompts of the current exchange and
// with the last messages. It shortens messages that take more than a quarter of Limit.
func WithContext(b ContextBuilder) Option {
	return option("WithContext", b != nil, "is nil", func(c *config) { c.builder = b })
}

// WithContextMiddleware wraps the context builder; the first middleware is the
// outermost. It appends. Default: none.
func WithContextMiddleware(mw ...ContextMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ContextMiddleware) bool { return m == nil })
	return option("WithContextMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapContext = append(c.wrapContext, mw...)
	})
}

// WithModelMiddleware wraps the model client; the first middleware is the outermost. It
// appends. Default: none.
func WithModelMiddleware(mw ...ModelMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ModelMiddleware) bool { return m == nil })
	return option("WithModelMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapModel = append(c.wrapModel, mw...)
	})
}

// WithToolMiddleware wraps the calls of all tools; the first middleware is the
// outermost. It appends. Default: none.
func WithToolMiddleware(mw ...ToolMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ToolMiddleware) bool { return m == nil })
	return option("WithToolMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapTool = append(c.wrapTool, mw...)
	})
}

// Limits are the limits of a run. A field that is 0 leaves the default, or the value of
// an earlier [WithLimits], as it is.
type Limits struct {
	// Turns is the maximum number of messages that the model may send in a run. A run
	// that needs more ends with a [*LimitError]. Default: 50.
	Turns int
	// Calls is the maximum number of calls of one message that are run; the others get
	// an output that says so. Default: 128.
	Calls int
	// Tokens is the maximum number of tokens of one answer of the model. Default: the client's.
	Tokens int
	// Response is the maximum size of one answer in bytes. A longer one fails with a [*LimitError];
	// its complete blocks stay in the history, and its calls are not run. Default: 32 MiB.
	Response int64
	// ToolOutput is the maximum number of bytes of text that the model gets from one
	// call, at least 1,024. Of a longer text it sees the head and the tail, and between
	// them how many bytes are left out, all within the maximum. Default: 256 KiB.
	ToolOutput int
	// Parallel is the maximum number of read-only calls that run at the same time. Default: 8.
	Parallel int
	// Grace is how long the run, when it is cancelled, waits for a tool or a model
	// client to stop before it abandons it. Default: 1 second.
	Grace time.Duration
	// Approval is how long a question waits for an answer before it is denied. It
	// does not apply to a run that is suspended. Default: no limit.
	Approval time.Duration
}

// WithLimits sets the limits of runs. Default: see the fields of [Limits].
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

// set sets a limit unless it is 0.
func set[T int | int64 | time.Duration](errs *[]error, to *T, name string, given, least T) {
	switch {
	case given >= least:
		*to = given
	case given != 0:
		err := fmt.Errorf("%s is less than %v", name, least)
		*errs = append(*errs, &ConfigError{Option: "WithLimits", Err: err})
	}
}

// WithThinking sets [Request.Thinking], the number of tokens that the model may use for
// thinking. Default: 0, which leaves it to the model.
func WithThinking(tokens int) Option {
	return option("WithThinking", true, "", func(c *config) { c.thinking = tokens })
}

// WithEncodedHistory says whether the messages of a conversation keep their encoded form after a
// run. With it, the next run sends old messages as they are, and an idle conversation takes about
// twice the bytes of its history. Without it, each run encodes the history once, and an idle
// conversation takes only its history. The form is freed with the messages in any case, and is
// not kept for histories of less than 16 KiB, which are quick to encode. Default: true.
func WithEncodedHistory(keep bool) Option {
	return option("WithEncodedHistory", true, "", func(c *config) { c.keepEncoded = keep })
}

// WithRetry sets the policy for retries of the model. Default: [RetryPolicy]{}.
func WithRetry(p RetryPolicy) Option {
	return option("WithRetry", true, "", func(c *config) { c.retry = p })
}

// A logFunc is the Log method of a [*slog.Logger]. That the loop needs no more of it keeps
// the rest out of programs that set none.
type logFunc = func(ctx context.Context, level slog.Level, msg string, args ...any)

func silent(context.Context, slog.Level, string, ...any) {}

// WithLogger sets the logger for problems that no event reports, such as abandoned
// tools and panics. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", l != nil, "is nil", func(c *config) { c.log = l.Log })
}

// Clock is the source of time for waits, timeouts and times in events, so that runs can be
// replayed.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a new goroutine after d, unless stop was called.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock returns the clock of package time: the time of the system, and its monotonic timers.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// WithClock sets the clock by which a run waits, times out and measures. Default: [SystemClock].
func WithClock(clock Clock) Option {
	return option("WithClock", clock != nil, "is nil", func(c *config) { c.clock = clock })
}

// WithIDs sets the function that makes the ids of runs. It must be safe for concurrent
// use. Default: 128 random bits.
func WithIDs(next func() string) Option {
	return option("WithIDs", next != nil, "is nil", func(c *config) { c.newID = next })
}

// WithRandom sets the source of random numbers in [0, 1), which spread retries over
// time. It must be safe for concurrent use. Default: math/rand/v2.
func WithRandom(next func() float64) Option {
	return option("WithRandom", next != nil, "is nil", func(c *config) { c.random = next })
}

// WithExecutor sets the function that starts the steps of a run, which are approvals and tool
// calls: a pool, a recorder. It must call step exactly once, with ctx or a child of it, and never
// on the goroutine that called it. It may block until there is a free worker. The key is that of
// the [Action] and serves as an idempotency key. Default: each step runs in a new goroutine.
func WithExecutor(start func(ctx context.Context, key string, step func(context.Context))) Option {
	return option("WithExecutor", start != nil, "is nil", func(c *config) { c.execute = start })
}
