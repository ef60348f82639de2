package tokens

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/aycoder/aycoder"
)

// TokenCounter is an optional ability of an [aycoder.ModelClient], which [aycoder.As] finds: it
// counts the input tokens of a request exactly, usually by a request over the network.
type TokenCounter interface {
	CountTokens(ctx context.Context, req *aycoder.Request) (int64, error)
}

// AnswerLimiter is an optional ability of an [aycoder.ModelClient], which [aycoder.As] finds: it
// returns the limit of an answer, in tokens, that the client sends with requests whose
// [aycoder.Request.MaxTokens] is 0, or 0 if it sends none. Some providers refuse a request that has
// no room for such an answer.
type AnswerLimiter interface {
	AnswerLimit() int64
}

// fileTool is the tool whose outputs are the contents of files, see [Breakdown].Files.
const fileTool = "read_file"

// askTime is how long a [TokenCounter] may take.
const askTime = 5 * time.Second

// A Counter counts requests. It remembers what it counted: of a request that repeats the one before
// and appends messages, it reads only the new ones. It keeps only the messages of the last request
// alive. A Counter may serve any number of conversations, and is safe for concurrent use.
type Counter struct {
	scales scales

	mu       sync.Mutex
	last     prefix
	messages memo[aycoder.Message, measure]
	tools    memo[aycoder.ToolSpec, measure]
	texts    memo[aycoder.Text, measure]
	observed memo[aycoder.Message, *observation] // by the last message
}

// New returns a counter that knows no model.
func New() *Counter { return &Counter{} }

// Scale returns by which factor c corrects its estimates for a model, and by what factor, the margin, the
// model may count still more, both for much ordinary text in the Latin alphabet. The margin is 1.35 for a
// model that is unknown, and at least 1.05. That of a short text is larger.
func (c *Counter) Scale(m Model) (factor, margin float64) { return c.scales.of(m, size{1 << 40}) }

// Count is the number of tokens of a request, as far as it is known.
type Count struct {
	// Breakdown is where the tokens are. Its sum may differ from Tokens by rounding, and after an
	// exact count by the error of the estimate.
	Breakdown Breakdown
	// Tokens is the number of tokens: exact, or an estimate that is corrected for the model.
	Tokens int64
	// Margin is the factor by which the true number may exceed Tokens; 1 if Tokens is exact.
	Margin float64
	// Exact reports whether a [TokenCounter] counted this request.
	Exact bool
	// Err is the error with which the TokenCounter failed when it was asked, or nil.
	Err error

	raw Breakdown // the estimate without a correction
}

// Max returns the number of tokens that a budget must have room for: Tokens × Margin.
func (c Count) Max() int64 { return int64(math.Ceil(float64(c.Tokens) * c.Margin)) }

// Estimate estimates a request to a model, and asks nobody. If the request repeats one that was
// observed, only the rest is estimated: see [Counter.Observe].
func (c *Counter) Estimate(m Model, req *aycoder.Request) Count {
	raw := c.measure(m.Provider, req)
	n := Count{raw: raw.Breakdown}
	o := c.repeated(m, req.Messages, &raw)
	if o == nil {
		factor, margin := c.scales.of(m, raw.size)
		n.Breakdown, n.Margin = raw.scaled(factor), margin
		n.Tokens = n.Breakdown.Total()
		return n
	}
	grown, images := raw.minus(o.size), float64(raw.Images-o.Images)
	factor, margin := c.scales.of(m, grown)
	known, more := float64(o.count), grown.tokens()*factor+images
	n.Breakdown = raw.scaled((known + more - float64(raw.Images)) / float64(raw.Total()-raw.Images))
	n.Tokens = int64(math.Round(known + more))
	n.Margin = (known*knownMargin + more*margin) / (known + more)
	return n
}

// measure estimates a request to a provider, without a correction for the model.
func (c *Counter) measure(provider string, req *aycoder.Request) (sum measure) {
	r := reader{provider}
	sum.System = sum.fixed(perRequest)
	if len(req.Tools) > 0 && (provider == "anthropic" || provider == "bedrock") {
		sum.Tools = sum.fixed(toolPrompt)
	}
	if req.Output != nil {
		sum.Tools += sum.fixed(perTool) + sum.text(req.Output.Name) + sum.bytes(req.Output.Schema)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range req.System {
		sum.add(c.texts.get(t, provider, r.system))
	}
	if len(req.Tail) > 0 { // usually different in each request, so there is no point in remembering it
		tail := &aycoder.Message{Role: aycoder.RoleSystem}
		for _, t := range req.Tail {
			tail.Parts = append(tail.Parts, t)
		}
		sum.add(r.message(tail))
	}
	for _, t := range req.Tools {
		sum.add(c.tools.get(t, provider, r.tool))
	}
	if !c.last.begins(provider, req.Messages) {
		clear(c.last.messages)
		c.last = prefix{provider: provider, messages: c.last.messages[:0]}
	}
	for _, m := range req.Messages[len(c.last.messages):] {
		c.last.sum.add(c.messages.get(m, provider, r.message))
	}
	c.last.messages = append(c.last.messages, req.Messages[len(c.last.messages):]...)
	sum.add(c.last.sum)
	return sum
}

// A prefix is the messages of the last request, with their sum. The next request of a conversation
// usually begins with them, and comparing pointers is cheaper than adding up.
type prefix struct {
	provider string
	messages []*aycoder.Message
	sum      measure
}

func (p *prefix) begins(provider string, messages []*aycoder.Message) bool {
	n := len(p.messages)
	return p.provider == provider && n <= len(messages) && slices.Equal(p.messages, messages[:n])
}

// An observation is a request that a model counted. The next request of a conversation repeats it: that
// part need not be estimated again, and teaches nothing new. If all of each request did, one text would
// count as many, and the scale would become surer than it may be.
type observation struct {
	Model
	at int // the number of messages
	measure
	count int64

	learned      size // the request before which the scale knows all
	learnedCount int64
}

const (
	// lookBack is the number of messages that are looked at for the end of an observed request.
	lookBack = 16
	// minGrowth is how many tokens must have been appended to teach something: the overhead of messages
	// is little in as many.
	minGrowth = 500
	// knownMargin is the margin of what was counted, as services leave out a little, or add it, later.
	knownMargin = 1.01
	// maxObserved is the maximum number of requests that are remembered.
	maxObserved = 4096
)

// repeated returns what was observed of a request that another one of these messages repeats and only
// adds to, or nil.
func (c *Counter) repeated(m Model, messages []*aycoder.Message, now *measure) *observation {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, _ := c.find(m, messages)
	if o == nil || o.System != now.System || o.Tools != now.Tools || o.Images > now.Images {
		return nil
	}
	if grown := now.minus(o.size); slices.Min(grown[:]) < 0 {
		return nil
	}
	return o
}

func (c *Counter) find(m Model, messages []*aycoder.Message) (*observation, memoKey[aycoder.Message]) {
	for i := len(messages) - 1; i >= max(0, len(messages)-lookBack); i-- {
		key := memoKey[aycoder.Message]{weak.Make(messages[i]), m.Provider}
		if o, ok := c.observed.entries[key]; ok {
			if o.Model == m && o.at == i+1 {
				return o, key
			}
			return nil, key
		}
	}
	return nil, memoKey[aycoder.Message]{}
}

// Observe corrects the scale of a model by the usage that it reported for a request. The input
// counts, with what was read from a cache and written to it. Estimates of requests that begin with the
// same messages start from that count. Only what a request adds to such a one corrects the scale. Observe
// ignores usage that cannot be of this request, and learns nothing from images.
func (c *Counter) Observe(m Model, req *aycoder.Request, usage aycoder.Usage) {
	c.observe(m, req, usage.Input+usage.CacheRead+usage.CacheWrite)
}

func (c *Counter) observe(m Model, req *aycoder.Request, count int64) {
	sum := c.measure(m.Provider, req)
	if len(req.Messages) == 0 || !plausible(sum.size, count-sum.Images) {
		return
	}
	now := &observation{Model: m, at: len(req.Messages), measure: sum, count: count, learned: sum.size, learnedCount: count}
	grown, more := sum.size, count
	c.mu.Lock()
	o, key := c.find(m, req.Messages)
	delete(c.observed.entries, key) // of the same conversation
	if o != nil {
		grown, more = sum.minus(o.learned), count-o.learnedCount
		if grown.tokens() < minGrowth || slices.Min(grown[:]) < 0 {
			now.learned, now.learnedCount, more = o.learned, o.learnedCount, 0
		}
	}
	if len(c.observed.entries) >= maxObserved {
		clear(c.observed.entries)
	}
	c.observed.put(memoKey[aycoder.Message]{weak.Make(req.Messages[now.at-1]), m.Provider}, now)
	c.mu.Unlock()
	if sum.Images == 0 {
		c.scales.observe(m, grown, more)
	}
}

// A Turn counts the candidates for the next request of a conversation. In all of a turn, it asks
// the client's [TokenCounter] at most once. A Turn is not safe for concurrent use.
type Turn struct {
	counter *Counter
	client  aycoder.ModelClient
	asked   bool
	exactOf *aycoder.Request // the request that was counted exactly
	exact   Count
}

// Turn begins a turn of a conversation with a client. A nil client is never asked.
func (c *Counter) Turn(client aycoder.ModelClient) *Turn {
	return &Turn{counter: c, client: client}
}

// Fits counts a request, and reports whether it is within a budget of input tokens. It asks the
// client's [TokenCounter], if there is one, only if the estimate alone cannot tell, and only once
// a turn. If the TokenCounter fails or takes too long, [Count].Err is its error, and the request
// fits if the estimate with its margin does. After a successful count, further requests of the
// turn are estimated in proportion to it.
func (t *Turn) Fits(ctx context.Context, req *aycoder.Request, budget int64) (Count, bool) {
	model := ModelOf(t.client, req.Model)
	n := t.estimate(model, req)
	if n.Max() <= budget || float64(n.Tokens) > float64(budget)*n.Margin || t.asked {
		return n, n.Max() <= budget
	}
	exact, ok := aycoder.As[TokenCounter](t.client)
	if !ok {
		return n, false
	}
	t.asked = true
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	count, err := exact.CountTokens(ctx, req)
	if err == nil && (count < n.Tokens/mismatch || count > n.Tokens*mismatch) {
		err = fmt.Errorf("%d tokens where about %d were expected", count, n.Tokens)
	}
	if err != nil {
		n.Err = fmt.Errorf("count tokens: %w", err)
		return n, false
	}
	t.counter.observe(model, req, count)
	n.Tokens, n.Margin, n.Exact = count, 1, true
	t.exactOf, t.exact = req, n
	return n, count <= budget
}

// estimate counts a request by what is known in this turn.
func (t *Turn) estimate(m Model, req *aycoder.Request) Count {
	switch {
	case t.exactOf == nil:
		return t.counter.Estimate(m, req)
	case t.exactOf == req:
		return t.exact
	}
	n := t.counter.Estimate(m, req)
	ratio := float64(n.raw.Total()) / float64(t.exact.raw.Total())
	n.Tokens = int64(math.Ceil(float64(t.exact.Tokens) * ratio))
	return n
}

// minSweep is the number of entries from which on a memo looks for dead ones.
const minSweep = 1024

// A memo keeps what is known of values that never change, as long as the values live. It
// does not keep them alive, so it may serve any number of conversations.
type memo[T, V any] struct {
	entries map[memoKey[T]]V
	sweep   int // number of entries at which the dead ones are removed
}

type memoKey[T any] struct {
	of       weak.Pointer[T]
	provider string
}

func (m *memo[T, V]) get(of *T, provider string, compute func(*T) V) (known V) {
	if of == nil {
		return known
	}
	key := memoKey[T]{weak.Make(of), provider}
	known, ok := m.entries[key]
	if !ok {
		known = compute(of)
		m.put(key, known)
	}
	return known
}

func (m *memo[T, V]) put(key memoKey[T], known V) {
	if len(m.entries) >= max(m.sweep, minSweep) {
		for k := range m.entries {
			if k.of.Value() == nil {
				delete(m.entries, k)
			}
		}
		m.sweep = 2 * len(m.entries)
	}
	if m.entries == nil {
		m.entries = map[memoKey[T]]V{}
	}
	m.entries[key] = known
}
