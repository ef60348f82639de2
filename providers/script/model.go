package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
)

// Model is a model that answers requests from a script. It implements
// [aycoder.ModelClient] and [aycoder.ModelNamer]. It is safe for concurrent use. A
// request takes the next step of the script when the iteration over its stream starts.
type Model struct {
	config
	steps []Step

	mu       sync.Mutex // guards the fields below
	requests []*aycoder.Request
	calls    int
	seen     history
}

type config struct {
	provider, model string
	pace            time.Duration
	chunk           int
	loop            bool
	noEstimate      bool
}

// New returns a model that answers the first request with the first step, the second
// request with the second step, and so on. A new model always begins with the first step,
// even if its first request continues an earlier run. To continue a run, use one [Func] that
// repeats with [WithLoop]: a Func gets the messages, which show how far the run has come.
func New(steps ...Step) *Model {
	return &Model{config: config{provider: "script", model: "script"}, steps: slices.Clone(steps)}
}

// Option sets a property of a [Model]; see [Model.With].
type Option func(*config)

// With returns a new model with the steps and the options of m. It applies opts to the
// new model; m does not change. The new model begins with the first step.
func (m *Model) With(opts ...Option) *Model {
	c := &Model{config: m.config, steps: m.steps}
	for _, o := range opts {
		if o != nil {
			o(&c.config)
		}
	}
	return c
}

// WithPace sets the time that the model waits before each delta. Default: 0.
func WithPace(d time.Duration) Option { return func(c *config) { c.pace = d } }

// WithChunk sets the number of characters (runes) in a delta. Default: 0, which makes
// each word a delta.
func WithChunk(runes int) Option { return func(c *config) { c.chunk = runes } }

// WithLoop selects whether the script starts again after its last step. Default: false,
// which makes further requests an error.
func WithLoop(loop bool) Option { return func(c *config) { c.loop = loop } }

// WithName sets the provider and the model that [Model.ModelName] returns. Default:
// "script" for both.
func WithName(provider, model string) Option {
	return func(c *config) { c.provider, c.model = provider, model }
}

// WithEstimate selects whether the model estimates the token usage of steps that do not
// have [Step.WithUsage]. The estimate is one token for four bytes. Messages that were
// already in the previous request count as read from the cache. Default: true; if false,
// the usage is zero.
func WithEstimate(estimate bool) Option { return func(c *config) { c.noEstimate = !estimate } }

// ModelName implements [aycoder.ModelNamer]; see [WithName].
func (m *Model) ModelName() (provider, model string) { return m.provider, m.model }

// Requests returns copies of all requests so far, in order. The copies share their
// messages with the conversation, so the messages must not be modified.
func (m *Model) Requests() []*aycoder.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Stream implements [aycoder.ModelClient]. It splits texts into deltas as [WithChunk]
// says, and waits before each delta as [WithPace] says. When ctx is done, the stream ends
// with an [*aycoder.ModelError] that wraps the error of ctx.
func (m *Model) Stream(
	ctx context.Context, req *aycoder.Request,
) iter.Seq2[aycoder.ModelEvent, error] {
	var used atomic.Bool
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if used.Swap(true) {
			yield(nil, aycoder.ErrConsumed)
			return
		}
		e := &emitter{yield: yield, config: m.config, start: time.Now(), left: -1}
		if !e.alive(ctx) {
			return
		}
		m.answer(ctx, e, req)
	}
}

// answer takes the next step and plays it.
func (m *Model) answer(ctx context.Context, e *emitter, req *aycoder.Request) {
	n, usage := m.record(req)
	step, err := m.choose(n, req)
	if err != nil {
		err = fmt.Errorf("request %d: %w", n, err)
		e.fail(&aycoder.BadRequestError{ModelError: e.modelError(err)})
		return
	}
	if step.broken {
		e.left = step.limit
	}
	for _, b := range m.named(step.blocks) {
		if !e.block(ctx, b) {
			break
		}
	}
	switch {
	case e.over:
	case step.err != nil:
		e.fail(step.err)
	case step.broken:
		e.fail(e.brokenOff())
	default:
		usage.Output = int64(e.bytes+3) / bytesPerToken
		e.event(ctx, &aycoder.MessageDone{
			Stop:  step.reason(),
			Usage: m.usage(step, usage),
			Model: cmp.Or(req.Model, m.model),
			ID:    "msg_" + strconv.Itoa(n),

			Provider:  m.provider,
			RequestID: "req_" + strconv.Itoa(n),
		})
	}
}

// record stores the request and returns its number and an estimate of its tokens.
func (m *Model) record(req *aycoder.Request) (int, aycoder.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := *req
	m.requests = append(m.requests, &r)
	if m.noEstimate {
		return len(m.requests), aycoder.Usage{}
	}
	return len(m.requests), m.seen.count(req)
}

// choose returns the step for request n.
func (m *Model) choose(n int, req *aycoder.Request) (Step, error) {
	if n > len(m.steps) && (!m.loop || len(m.steps) == 0) {
		return Step{}, fmt.Errorf("the script has %d steps", len(m.steps))
	}
	s := m.steps[(n-1)%len(m.steps)]
	for range maxChoices {
		if s.choose == nil {
			return s, s.bad
		}
		s = s.choose(req)
	}
	return Step{}, errors.New("a Func that chooses a Func that …")
}

// maxChoices is the maximum number of Funcs that choose each other, so that a Func that
// returns itself does not run forever.
const maxChoices = 100

// named returns the blocks with their ids and signatures. The parts of a step are shared,
// so the changed ones are copied.
func (m *Model) named(blocks []block) []block {
	m.mu.Lock()
	defer m.mu.Unlock()
	named := slices.Clone(blocks)
	for i := range named {
		switch p := named[i].part.(type) {
		case *aycoder.ToolUse:
			m.calls++
			named[i].part = &aycoder.ToolUse{
				ID:    cmp.Or(p.ID, "call_"+strconv.Itoa(m.calls)),
				Name:  p.Name,
				Args:  p.Args,
				Extra: p.Extra,
			}
		case *aycoder.Thinking:
			named[i].part = &aycoder.Thinking{
				Text:      p.Text,
				Signature: cmp.Or(p.Signature, "signed by "+m.model),
				Provider:  cmp.Or(p.Provider, m.provider),
			}
		}
	}
	return named
}

func (m *Model) usage(s Step, estimate aycoder.Usage) aycoder.Usage {
	switch {
	case s.usage != nil:
		return *s.usage
	case m.noEstimate:
		return aycoder.Usage{}
	}
	return estimate
}

func (s Step) reason() aycoder.StopReason {
	reason := aycoder.StopEndTurn
	for _, b := range s.blocks {
		if b.cut {
			reason = aycoder.StopMaxTokens
			break
		}
		if _, ok := b.part.(*aycoder.ToolUse); ok {
			reason = aycoder.StopToolUse
		}
	}
	return cmp.Or(s.stop, reason)
}
