package aycoder

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"
)

// ModelClient streams responses of a language model. A provider need not implement anything else.
//
// Stream sends req and yields the events of the response in the order in which they arrive:
//
//   - any number of [TextDelta], [ThinkingDelta] and [ToolDelta], which are pieces of blocks;
//   - a [BlockDone] for each block that is complete, including blocks of text;
//   - a [BlockTruncated] for a tool call that the end of the response cut off;
//   - exactly one [MessageDone], as the last event.
//
// Each tool call that has deltas must also have a BlockDone or a BlockTruncated; otherwise the
// request fails. If an answer ends in a refusal, its MessageDone has [StopRefusal].
//
// A failure is yielded once, as the last element, with a nil event. If the stream ends before
// MessageDone, the error is a [*StreamBrokenError]. Every error unwraps to a [*ModelError], and
// its type decides whether the loop sends the request again, see [RetryPolicy.Decide].
//
// A client, usually a [ModelMiddleware], may send the request again. It then yields [Retrying],
// which makes all earlier events void. A Retrying must not follow a BlockDone or BlockTruncated,
// because the loop may already have used the complete block.
//
// The client sends the request when the iteration starts. The sequence is single-use. If its
// consumer leaves the iteration early, or cancels ctx, the client closes the connection before the
// sequence returns. A client is safe for concurrent use. It may read req until the sequence ends,
// but must not change req. Calls in req may have ids that another provider issued, see [ToolUse].
//
// A client may have optional abilities, such as [ModelNamer]. [As] finds them.
type ModelClient interface {
	Stream(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error]
}

// ModelOpener is an optional ability of a [ModelClient]: its answers can also be read event by event. A run then needs
// no goroutine for the model while nothing else happens in it, and an event costs less, which counts in programs with
// thousands of runs at once. A run uses this ability of the client that it asks, but not of one that a
// [ModelMiddleware] wraps, since it would go round the middleware. So [As] is not for this ability.
type ModelOpener interface {
	// Open returns the answer to req, with the events of Stream. Nothing is sent before the first call of Next.
	Open(ctx context.Context, req *Request) ModelReader
	// Opens reports whether m is this client itself. A client that embeds this one has its Open, too, but may have
	// another Stream, which a run calls then.
	Opens(m ModelClient) bool
}

// ModelReader is an answer of a model that is read event by event. Its methods are called one at a time, but not
// always by the same goroutine.
type ModelReader interface {
	// Next waits for the next event. Its error is one that Stream yields, or io.EOF after [MessageDone]. The answer has
	// then ended, and further calls return the same error. Next returns soon when the ctx of Open is done, whatever it
	// calls: a run cannot leave it.
	Next() (ModelEvent, error)
	// Stop ends the request, and must be called. More calls do nothing. It waits for the service only after the last
	// event, for the end of the answer, and only for milliseconds: the connection can then be used again.
	Stop()
}

// ModelFunc is an adapter that lets a function serve as a [ModelClient].
type ModelFunc func(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error]

// Stream calls f(ctx, req).
func (f ModelFunc) Stream(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error] {
	return f(ctx, req)
}

// ModelMiddleware wraps a client, for example to retry, to limit the rate, to cache or to record.
// The new client should have a method Unwrap() ModelClient that returns the wrapped one. [As]
// then finds the optional abilities of the wrapped client, too.
type ModelMiddleware func(ModelClient) ModelClient

// As finds an optional ability of a client: the interface T. If m implements T, As returns m. If
// not, and m has a method Unwrap() ModelClient, As goes on with the client that Unwrap returns.
// The result is false if none of these clients implements T.
//
//	if info, ok := aycoder.As[aycoder.ModelNamer](client); ok { … }
func As[T any](m ModelClient) (T, bool) {
	for m != nil {
		if t, ok := m.(T); ok {
			return t, true
		}
		u, ok := m.(interface{ Unwrap() ModelClient })
		if !ok {
			break
		}
		m = u.Unwrap()
	}
	var zero T
	return zero, false
}

// ModelNamer is an optional ability of a [ModelClient]: it reports the name of the client's model.
type ModelNamer interface {
	// ModelName returns the name of the provider, such as "anthropic", and the name of the model
	// that the client asks if [Request.Model] is empty.
	ModelName() (provider, model string)
}

// Request is one request to a model. If a field has its zero value, the client's default applies.
// A request must not be changed after it was passed to a client.
type Request struct {
	// Model is the name of the model to ask. If empty, the client asks its default model.
	Model string
	// System holds the blocks of the system prompt, the most stable first, to help prompt caches.
	System []*Text
	// Tools are the tools that the model may call. Keep their order, so that prompt caches hit.
	Tools []*ToolSpec
	// ToolChoice says whether the model may, must or must not call a tool.
	ToolChoice ToolChoice
	// Messages is the conversation, with the oldest message first.
	Messages []*Message
	// Tail holds what changes from turn to turn, such as reminders, open tasks and open files. The
	// model reads it after all messages, but it does not become a part of the history. Cache
	// breakpoints come before it, so a change of it costs only the tail itself. Each text should
	// say what it is, because it may stand beside the outputs of tools. The tail is left out if
	// Messages ends with a message of the model, which is then continued.
	Tail []*Text
	// MaxTokens is the maximum length of the answer, in tokens.
	MaxTokens int
	// Temperature is the sampling temperature. If nil, the provider chooses it.
	Temperature *float64
	// Stop holds stop sequences: the answer ends when the model writes one of these strings.
	Stop []string
	// Thinking is the number of tokens that the model may use for thinking. If 0, the model
	// decides. A negative number turns thinking off.
	Thinking int
	// NoCache turns off the prompt cache breakpoints that a client adds by default.
	NoCache bool
	// Output asks for an answer that is a single JSON document, see package generate. It may be
	// nil. Clients without the ability [OutputFormatter] ignore this field.
	Output *OutputFormat
	// MaxResponse is the maximum size of the answer, in bytes. The loop and [Complete] enforce it;
	// a client may use it to bound buffers. A run sets it to [Limits].Response. Default: 32 MiB.
	MaxResponse int64
	// Extra holds additional top-level fields of the request, in the provider's wire format.
	Extra map[string]json.RawMessage
}

// OutputFormat describes the single JSON document with which the model has to answer.
type OutputFormat struct {
	// Name is a short name for the document, with letters, digits, "_" and "-". The model sees it.
	Name string
	// Schema is the JSON Schema of the document.
	Schema json.RawMessage
}

// OutputFormatter is an optional ability of a [ModelClient]: it can make the model answer with a
// JSON document that follows a schema.
type OutputFormatter interface {
	// FormatsOutput reports whether the named model obeys [Request.Output]. An empty name means
	// the client's default model.
	FormatsOutput(model string) bool
}

// ToolChoice says whether the model may, must or must not call a tool. The zero value is ToolAuto.
type ToolChoice struct {
	// Mode is [ToolAuto], [ToolNone], [ToolAny] or [ToolNamed].
	Mode ToolMode
	// Name is the name of the tool that the model must call if Mode is [ToolNamed].
	Name string
}

// ToolMode says whether the model may, must or must not call tools, or must call a certain one.
type ToolMode int

// The modes of a [ToolChoice].
const (
	// ToolAuto lets the model decide whether to call tools, and which. All providers default to it.
	ToolAuto ToolMode = iota
	// ToolNone keeps the model from calling tools. If a provider's API has no such setting, its
	// client leaves the tools out of the request.
	ToolNone
	// ToolAny makes the model call at least one tool, which the model chooses.
	ToolAny
	// ToolNamed makes the model call the tool in [ToolChoice].Name, possibly more than once.
	ToolNamed
)

// ModelEvent is an event that a [ModelClient] yields. It is a [*TextDelta], [*ThinkingDelta],
// [*ToolDelta], [*BlockDone], [*BlockTruncated], [*Retrying] or [*MessageDone].
type ModelEvent interface{ modelEvent() }

// TextDelta is the next piece of the answer's text. It never ends in the middle of a rune. If a
// later [Retrying] has Discarded set, all text since the last [TurnFinished] is void.
type TextDelta struct {
	Text string `json:"text"`
}

// ThinkingDelta is the next piece of the model's thinking, if the provider reveals thinking. It
// never ends in the middle of a rune.
type ThinkingDelta struct {
	Text string `json:"text"`
}

// ToolDelta is the next piece of a tool call. Args is a piece of the JSON text of the arguments,
// so it is not valid JSON by itself. It may be empty in the first delta. A call that arrives in
// one piece may have no deltas. Do not act on a call before it is complete. A client reports that
// with a [BlockDone], and a run with a [ToolStarted] or [ToolFinished].
type ToolDelta struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// BlockDone reports that a block of the answer, such as a text or a tool call, is complete. A
// client yields it when the provider says so, begins the next block, or sends a call in one
// piece. Valid JSON in the arguments does not mean that the call is complete. A BlockDone is also
// a [Fact].
type BlockDone struct {
	Part Part `json:"-"`
}

// BlockTruncated reports that the end of the response cut off a tool call. Call holds the
// arguments received so far. Such a call is never run. A BlockTruncated is also a [Fact].
type BlockTruncated struct {
	Call *ToolUse `json:"-"`
}

// MessageDone is the last event of a response, and comes exactly once. If a sequence ends without
// a MessageDone, the request has failed. A MessageDone is also a [Fact].
type MessageDone struct {
	// Stop says why the model stopped.
	Stop StopReason
	// Usage is the number of tokens that the request and its response used. Cost is what they cost in
	// US dollars, or nil if the client does not know: a run then takes the price of [ModelInfo].
	Usage Usage
	Cost  *float64
	// Model is the name of the model that answered. ID is the provider's id of the message.
	Model, ID string
	// Provider is the name of the provider that answered, as in [ModelNamer]. RequestID is the
	// provider's id of the request, see [ModelError]. Both may be empty.
	Provider, RequestID string
}

func (*TextDelta) modelEvent()      {}
func (*ThinkingDelta) modelEvent()  {}
func (*ToolDelta) modelEvent()      {}
func (*BlockDone) modelEvent()      {}
func (*BlockTruncated) modelEvent() {}
func (*Retrying) modelEvent()       {}
func (*MessageDone) modelEvent()    {}

// StopReason says why a model stopped. If no constant fits, the value is the provider's own word.
type StopReason string

// The stop reasons into which clients translate the words of the providers.
const (
	// StopEndTurn means that the model finished its answer. Some providers also report this reason
	// when the model wrote a stop sequence.
	StopEndTurn StopReason = "end_turn"
	// StopToolUse means that the model waits for the outputs of the tool calls in its message.
	StopToolUse StopReason = "tool_use"
	// StopMaxTokens means that the answer was cut off at [Request.MaxTokens] or at the model's own
	// limit. The last text may be incomplete. An incomplete call is a [BlockTruncated].
	StopMaxTokens StopReason = "max_tokens"
	// StopRefusal means that the model, or a filter of the provider, refused to go on. Any calls
	// in the message that have not started are not run.
	StopRefusal StopReason = "refusal"
	// StopSequence means that the model wrote a string of [Request.Stop]. The answer ends before
	// that string.
	StopSequence StopReason = "stop_sequence"
	// StopPaused means that the provider interrupted a long answer. The model continues it if the
	// next request has this message as the last one.
	StopPaused StopReason = "paused"
)

// Usage counts tokens. Input excludes the tokens that were read from a prompt cache or written to
// it, so the whole input is Input + CacheRead + CacheWrite. Output includes Reasoning.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Add returns the sum of u and v, field by field, for example to total several messages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      u.Input + v.Input,
		Output:     u.Output + v.Output,
		Reasoning:  u.Reasoning + v.Reasoning,
		CacheRead:  u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite,
	}
}

// Price is the price of a model, in US dollars per million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CacheRead and CacheWrite are the prices of input read from and written to a prompt cache. If
	// one of them is 0, the price in Input applies.
	CacheRead  float64 `json:"cache_read,omitempty"`
	CacheWrite float64 `json:"cache_write,omitempty"`
	// Long is the price of a request whose input, including cached input, has more than LongFrom
	// tokens. If nil, the price does not depend on the size.
	Long     *Price `json:"long,omitempty"`
	LongFrom int64  `json:"long_from,omitempty"`
}

// Cost returns the cost of u at price p, in US dollars. If p.Long is set, the price depends on the
// size of each request, so u must be the usage of a single request.
func (u Usage) Cost(p Price) float64 {
	if p.Long != nil && u.Input+u.CacheRead+u.CacheWrite > p.LongFrom {
		p = *p.Long
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*cmp.Or(p.CacheRead, p.Input) +
		float64(u.CacheWrite)*cmp.Or(p.CacheWrite, p.Input)) / 1e6
}

// ModelInfo describes a model. If a field has its zero value, the property is unknown.
type ModelInfo struct {
	// Provider and Model name the model, such as "anthropic" and "claude-sonnet-4-5".
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Context is the maximum number of tokens in a request and its answer together. MaxOutput is
	// the maximum number of tokens in the answer.
	Context   int64 `json:"context,omitempty"`
	MaxOutput int64 `json:"max_output,omitempty"`
	// Price is the price of the model, or nil if it is unknown.
	Price *Price `json:"price,omitempty"`
	// Tools, Thinking, Images and Output say whether the model can call tools, think before it
	// answers, accept images, and answer in JSON (see [Request.Output]).
	Tools    bool `json:"tools,omitempty"`
	Thinking bool `json:"thinking,omitempty"`
	Images   bool `json:"images,omitempty"`
	Output   bool `json:"output,omitempty"`
}

// ModelInfoer is an optional ability of a [ModelClient]: it describes the client's models.
type ModelInfoer interface {
	// ModelInfo describes the named model, or the client's default model if the name is empty. It
	// returns false if the client does not know the model.
	ModelInfo(model string) (ModelInfo, bool)
}

// Response is a complete answer of a model, as [Complete] collects it from a client's events.
type Response struct {
	// Message is the model's message, without the calls that were cut off; field Cut holds those.
	Message *Message
	Cut     []*ToolUse
	Stop    StopReason
	// Usage to RequestID are those of [MessageDone].
	Usage                          Usage
	Cost                           *float64
	Model, ID, Provider, RequestID string
}

// Text returns the visible text of the answer: its [Text] parts, concatenated, without thinking.
func (r *Response) Text() string { return r.Message.Text() }

// Complete sends one request to m and collects the answer. It runs no tools and does not retry.
// If Complete returns an error, the response still holds the blocks that were complete before the
// error. An answer that ends in a refusal is not an error: Stop is then [StopRefusal].
//
// The message can be used in a history: its text is valid UTF-8, and its calls have unique ids.
// Complete replaces an id that is empty or occurs earlier in req.Messages or in the answer.
func Complete(ctx context.Context, m ModelClient, req *Request) (*Response, error) {
	r := &Response{Message: &Message{Role: RoleAssistant}}
	switch {
	case ctx == nil:
		return r, isNilError("ctx")
	case m == nil:
		return r, isNilError("model")
	case req == nil:
		return r, isNilError("Request")
	}
	defer r.identify(req.Messages)
	start := time.Now()
	in := incoming{max: cmp.Or(req.MaxResponse, maxAnswer)}
	done := false
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			return r, err
		}
		missed, err := in.note(ev)
		if missed != nil {
			r.add(missed)
		}
		if err != nil {
			return r, &ModelError{Err: err}
		}
		switch ev := ev.(type) {
		case *BlockDone:
			r.add(ev.Part)
		case *BlockTruncated:
			r.Cut = append(r.Cut, ev.Call)
		case *MessageDone:
			r.Stop, r.Usage, r.Model, r.ID = ev.Stop, ev.Usage, ev.Model, ev.ID
			r.Provider, r.RequestID, r.Cost = ev.Provider, ev.RequestID, ev.Cost
			done = true
		}
	}
	if !done {
		return r, streamEnded(m, time.Since(start))
	}
	return r, nil
}

// add appends a part if an assistant's message can have it.
func (r *Response) add(p Part) {
	if isNil(p) || isOutput(p) {
		return
	}
	if p, ok := cleanPart(p); ok {
		r.Message.Parts = append(r.Message.Parts, p)
	}
}

// identify makes the ids of the calls unique and not empty, because an output is found by its id.
func (r *Response) identify(history []*Message) {
	calls := r.Message.Calls()
	if len(calls) == 0 {
		return
	}
	used := map[string]bool{"": true}
	for _, m := range history {
		if m == nil {
			continue
		}
		for _, c := range m.Calls() {
			used[c.ID] = true
		}
	}
	n := 0
	for _, c := range calls { // copies, see cleanCall
		for used[c.ID] {
			n++
			c.ID = "call_" + strconv.Itoa(n)
		}
		used[c.ID] = true
	}
}

// maxAnswer is the default of [Limits].Response and [Request.MaxResponse], in bytes.
const maxAnswer = 32 << 20

func streamEnded(m ModelClient, after time.Duration) error {
	e := &StreamBrokenError{ModelError: &ModelError{Err: errNoMessageDone}, After: after}
	if n, ok := As[ModelNamer](m); ok {
		e.Provider, e.Model = n.ModelName()
	}
	return e
}
