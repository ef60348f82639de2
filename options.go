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

// Option configures an agent in [New]. Options are applied in order. A later option replaces an
// earlier one of the same kind, except for options that append, as their comments say.
type Option func(*config) error

// RunOption configures a single run. It is passed to the Run method of an [Agent].
type RunOption func(*RunConfig) error

// RunConfig holds the settings of one run. It is for types other than [Loop] that implement
// [Agent]: they learn the settings by applying each [RunOption] to a RunConfig.
type RunConfig struct {
	Into    *Result
	Control *Control
	Parent  *Invocation
	Facts   func(context.Context, *FactRecord) error
	// Extension is a [*RunExtension] or nil. It is not of that type, so that a program without one
	// does not link its code.
	Extension interface{ extend(r *run) error }

	// These are linked only with their options.
	control func(*Control) controller
	log     func(*run, func(context.Context, *FactRecord) error) factLog
	extra   []interface{ extend(r *run) error } // of WithChanges and WithSteps
}

// RunExtension holds what a package that builds on runs, such as package generate, adds to one run of
// any agent: its [RunOption] sets [RunConfig].Extension. Each field may be nil.
type RunExtension struct {
	// Tools are tools of this run alone. They follow those of the agent and of [WithSetup], and the
	// agent's middleware and [Approver] apply to them. Their names must differ from all others.
	Tools []Tool
	// Context wraps the builder of this run's requests, around all middleware of the agent.
	Context ContextMiddleware
	// Continue is asked when the run would end with [EndDone] and has turns left. If it returns a
	// message of the user, the run sends it to the model and continues; nil lets the run end. It is
	// called on the goroutine of the range loop, with the result so far.
	Continue func(*Result) *Message
	// Begin is called when the run begins, and the function that it returns when the run is over, unless
	// it is nil. Both are called on the goroutine of the range loop.
	Begin func(*ActiveRun) (end func())
}

// Into stores the outcome of the run in r. It does so however the run ends: also after a break,
// an error or a cancelled context. r is filled before the loop statement ends.
func Into(r *Result) RunOption {
	return func(c *RunConfig) error {
		c.Into = r
		return nil
	}
}

// WithControl connects ctl to the run, so that other goroutines can look at the run and send
// messages into it while it works. A [Control] serves one run at a time.
func WithControl(ctl *Control) RunOption {
	return func(c *RunConfig) error {
		c.Control, c.control = ctl, func(ctl *Control) controller { return ctl }
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

func defaults() settings {
	return settings{
		builder: plainContext{}, approver: readOnly{}, keepEncoded: true,
		environment: &defaultEnvironment,
	}
}

func defaultLimits() Limits {
	return Limits{Turns: 50, Calls: 128, Response: maxAnswer, ToolOutput: 256 << 10, Parallel: 8, Grace: time.Second}
}

var defaultEnvironment = environment{clock: SystemClock(), newID: newID, random: randv2.Float64, log: silent}

// around returns an environment that an option may change.
func (c *config) around() *environment {
	if c.environment == &defaultEnvironment {
		c.environment = new(defaultEnvironment)
	}
	return c.environment
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

// WithTools appends tools to those of earlier options. Their names must differ. Default: no tools.
func WithTools(tools ...Tool) Option {
	return option("WithTools", !slices.Contains(tools, nil), "a tool is nil", func(c *config) {
		c.given = append(c.given, tools...)
	})
}

// WithSystem appends blocks to the system prompt. Put the most stable block first. Default: none.
func WithSystem(blocks ...string) Option {
	return option("WithSystem", true, "", func(c *config) {
		for _, b := range blocks {
			c.system = append(c.system, &Text{Text: runes.Clean(b)})
		}
	})
}

// WithApprover sets the [Approver] that decides about calls. Default: read-only tools may run if
// they stay within the workspace, and all other calls are denied. Package policy has an Approver
// that decides by rules and can ask the user.
func WithApprover(a Approver) Option {
	return option("WithApprover", a != nil, "is nil", func(c *config) {
		c.approver = a
		c.watch()
	})
}

// WithContext sets the builder of requests. The default builder sends the whole history until the
// model refuses a request as too large. From then on, it sends the user's first prompt, a note
// that messages are left out, the prompts since the model last finished its work, and the last
// messages. It follows Elide and Limit of [ContextInput], and shortens messages over Limit/4.
func WithContext(b ContextBuilder) Option {
	return option("WithContext", b != nil, "is nil", func(c *config) { c.builder = b })
}

// WithContextMiddleware wraps the context builder in each mw, the first one outermost. It appends
// to the middleware of earlier options. Default: none.
func WithContextMiddleware(mw ...ContextMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ContextMiddleware) bool { return m == nil })
	return option("WithContextMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapContext = append(c.wrapContext, mw...)
	})
}

// WithModelMiddleware wraps the model client in each mw, the first one outermost. It appends to
// the middleware of earlier options. Default: none.
func WithModelMiddleware(mw ...ModelMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ModelMiddleware) bool { return m == nil })
	return option("WithModelMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapModel = append(c.wrapModel, mw...)
	})
}

// WithName names the agent in what its guards see, and those of the runs around its runs: see [Place].
// Default: no name.
func WithName(name string) Option {
	return option("WithName", runes.Clean(name) == name && len(name) <= 256, "is no plain text of at most 256 bytes",
		func(c *config) { c.name = name })
}

// WithToolMiddleware wraps the calls of all tools in each mw, the first one outermost. It also wraps
// the calls of the runs inside of calls, see [WithParent]: there each mw is called once for each
// tool and run. It appends to the middleware of earlier options. Default: none.
func WithToolMiddleware(mw ...ToolMiddleware) Option {
	ok := !slices.ContainsFunc(mw, func(m ToolMiddleware) bool { return m == nil })
	return option("WithToolMiddleware", ok, "a middleware is nil", func(c *config) {
		c.wrapTool = append(c.wrapTool, mw...)
	})
}

// WithWholeOutputs gives keep each output of a call that is too large for the model, before it is cut:
// see [ToolResult].Head. The output is as all middleware has left it, so it is masked as the model's is,
// and has at most 4 MiB of text. keep returns a line that tells the model how to get the rest, or "" if
// the output was not kept. It must be safe for concurrent use, and must not change the output. Default:
// what is cut off is lost.
func WithWholeOutputs(keep func(context.Context, *ToolOutput) string) Option {
	return option("WithWholeOutputs", keep != nil, "is nil", func(c *config) { c.keepOutput = keep })
}

// Limits are the limits of a run. If a field is 0, the limit keeps its default, or the value from
// an earlier [WithLimits].
type Limits struct {
	// Turns is the maximum number of messages that the model may send in a run. A run
	// that needs more ends with a [*LimitError]. Default: 50.
	Turns int
	// Calls is the maximum number of calls that are run for one message of the model. Each
	// further call is not run, and its output says so. After as many more, calls are left out of the
	// message. Default: 128.
	Calls int
	// Tokens is the maximum number of tokens of one answer. Default: the [ModelClient] decides.
	Tokens int
	// Total is the number of tokens that a run may use, in and out, with cached ones and those of runs
	// inside its calls. A run that has used as many, and the runs inside of it, ask the model no more and
	// end with a [*LimitError]; a request that has begun goes on. Default: no limit.
	Total int64
	// Response is the maximum size of one answer in bytes. A larger answer ends the run with a
	// [*LimitError]. Its complete blocks are kept, but no more calls start. Default: 32 MiB.
	Response int64
	// ToolOutput is the maximum size of the text that the model gets from one call, in bytes. It
	// must be at least 1,024. In a larger text, a note replaces the middle and says how many
	// bytes are left out. The note counts toward the maximum. Default: 256 KiB.
	ToolOutput int
	// Parallel is the maximum number of read-only calls that run at the same time. Default: 8.
	Parallel int
	// Grace is how long a cancelled run waits for its tools and the model client to return before
	// it abandons them. Default: 1 second.
	Grace time.Duration
	// Approval is how long a question waits for an answer after the program has received its
	// event. After that the call is denied. A suspended run has no such limit. Default: no limit.
	Approval time.Duration
}

// WithLimits sets the limits of runs. Default: see the fields of [Limits].
func WithLimits(l Limits) Option {
	return func(c *config) (err error) {
		c.limits, err = c.limits.with(l, "WithLimits")
		return err
	}
}

// with returns l with the limits of next that are not 0. option names what sets them.
func (l Limits) with(next Limits, option string) (Limits, error) {
	var errs []error
	set(&errs, &l.Turns, option, "Turns", next.Turns, 1)
	set(&errs, &l.Calls, option, "Calls", next.Calls, 1)
	set(&errs, &l.Tokens, option, "Tokens", next.Tokens, 1)
	set(&errs, &l.Total, option, "Total", next.Total, 1)
	set(&errs, &l.Response, option, "Response", next.Response, 1)
	set(&errs, &l.ToolOutput, option, "ToolOutput", next.ToolOutput, 1024)
	set(&errs, &l.Parallel, option, "Parallel", next.Parallel, 1)
	set(&errs, &l.Grace, option, "Grace", next.Grace, 1)
	set(&errs, &l.Approval, option, "Approval", next.Approval, 1)
	return l, errors.Join(errs...)
}

// set sets a limit unless it is 0.
func set[T int | int64 | time.Duration](errs *[]error, to *T, option, name string, given, least T) {
	switch {
	case given >= least:
		*to = given
	case given != 0:
		err := fmt.Errorf("%s is less than %v", name, least)
		*errs = append(*errs, &ConfigError{Option: option, Err: err})
	}
}

// WithThinking sets [Request.Thinking], the number of tokens that the model may use for thinking.
// Default: 0, which means that the model decides.
func WithThinking(tokens int) Option {
	return option("WithThinking", true, "", func(c *config) { c.thinking = tokens })
}

// WithEncodedHistory sets whether messages keep their encoded form (see [Message.Encoded])
// between runs. If true, the next run does not encode old messages again, but an idle
// conversation takes about twice the memory until its messages are freed. If false, each run
// encodes the history once. A history of up to 16 KiB never keeps its form. Default: true.
func WithEncodedHistory(keep bool) Option {
	return option("WithEncodedHistory", true, "", func(c *config) { c.keepEncoded = keep })
}

// WithRetry sets the policy for repeating failed requests to the model. Default: [RetryPolicy]{}.
func WithRetry(p RetryPolicy) Option {
	return option("WithRetry", true, "", func(c *config) { c.around().retry = p })
}

// A logFunc is the Log method of a [*slog.Logger]. The loop uses only this method, so that
// programs without a logger do not link package slog's handlers.
type logFunc = func(ctx context.Context, level slog.Level, msg string, args ...any)

func silent(context.Context, slog.Level, string, ...any) {}

// Clock is a replaceable source of time for the waits, timeouts and event times of a run.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a new goroutine after d, unless stop is called first. stop reports
	// whether it prevented the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock returns the clock of package time, which uses the system's time and monotonic timers.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// WithSteps hands the steps of one run to an engine that outlives the program. start takes the place of that of
// [WithExecutor], and gets a step for each wait, too, with the key of the [Wait]: it starts the step when
// the time is over. A step whose context has ended does nothing.
//
// Leaving the run early, or cancelling its context, does not cancel it. Calls that work are stopped, and [Result.Pending] is set,
// so that another run continues it: at once, or in another program. A call that fails as its step is stopped has no result
// then: it was interrupted. But if the engine cancels the context of this step alone, with a cause, it wants the result: the time of
// the call is over, say, or the run will not go on. An error ends the run as usual. The engine sees to it that only one run
// continues another: a [Loop] does not remember the calls of such runs. Runs inside its calls are ordinary ones. Default: the run
// belongs to the program.
func WithSteps(start func(ctx context.Context, key string, step func(context.Context))) RunOption {
	return func(c *RunConfig) error {
		if start == nil {
			return isNilError("WithSteps")
		}
		c.extra = append(slices.Clip(c.extra), engine(start))
		return nil
	}
}

// An engine starts the steps of a run, see [WithSteps].
type engine func(ctx context.Context, key string, step func(context.Context))

func (start engine) extend(r *run) error {
	r.outlives = r.parent == nil
	r.loop = &Loop{settings: r.loop.settings, first: r.loop.first} // which remembers no calls of resumed runs
	r.execute = starter(func(ctx context.Context, key string, step func(context.Context)) {
		start(ctx, key, func(ctx context.Context) {
			if ctx.Err() == nil {
				step(ctx)
			} else {
				r.gone()
			}
		})
	})
	// A call that was stopped is left to another run, which repeats it if it only reads.
	r.leaves = func(ctx context.Context, out *ToolOutput) bool {
		cause := context.Cause(ctx)
		return out.IsError && cause != nil && (cause == context.Canceled || errors.Is(cause, context.Cause(r.work)))
	}
	r.wait = func(a *Wait) {
		r.submit(a, "", func(context.Context) {
			defer r.gone()
			r.mu.Lock()
			defer r.mu.Unlock()
			_ = r.step(&Waited{})
		})
	}
	return nil
}

// WithClock sets the clock for the waits, timeouts and event times of runs. Default: [SystemClock].
func WithClock(clock Clock) Option {
	return option("WithClock", clock != nil, "is nil", func(c *config) { c.around().clock = clock })
}

// WithIDs sets the function that returns the id of each new run. next must be safe for concurrent
// use. Default: 128 random bits in hexadecimal.
func WithIDs(next func() string) Option {
	return option("WithIDs", next != nil, "is nil", func(c *config) { c.around().newID = next })
}

// WithRandom sets the source of random numbers in [0, 1). They vary the waits before retries, so
// that clients do not all retry at once. next must be safe for concurrent use. Default:
// math/rand/v2.
func WithRandom(next func() float64) Option {
	return option("WithRandom", next != nil, "is nil", func(c *config) { c.around().random = next })
}

// WithExecutor sets the function that starts the steps of a run, for example in a worker pool. A
// step decides about a tool call or runs it. start must call step exactly once, on another
// goroutine, with ctx or a child of ctx. start may block until a worker is free. key is the key
// of the [Action], with a suffix such as "/1" if the step is started again. It is unique in the
// run and can be an idempotency key. Default: each step runs in a new goroutine.
func WithExecutor(start func(ctx context.Context, key string, step func(context.Context))) Option {
	return option("WithExecutor", start != nil, "is nil", func(c *config) { c.execute = starter(start) })
}

// starter returns what starts a step with a function of the host. If that panics, or ends its goroutine, nobody
// knows whether the step will begin: the run fails.
func starter(start func(context.Context, string, func(context.Context))) func(*run, step) {
	return func(r *run, s step) {
		err := errExited
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			if err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.fail(fmt.Errorf("executor broke down: %w", err))
			}
		}()
		start(r.work, s.key, s.run)
		err = nil
	}
}
