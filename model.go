package aycoder

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"
)

// ModelClient streams responses of a language model. It is the only interface that a
// provider must implement.
//
// Stream sends req and yields the response in the order in which it arrives: any number
// of [TextDelta], [ThinkingDelta] and [ToolDelta]; a [BlockDone] for each block that is
// complete, also for a text; a [BlockTruncated] for a tool call that the end of the
// response cut off; and exactly one [MessageDone], as the last event. Deltas of a tool
// call that neither BlockDone nor BlockTruncated follows are an error.
//
// If the model or a filter ends the response with a refusal, the MessageDone has
// [StopRefusal]. If the stream ends without MessageDone, the connection was lost, and
// the client yields a [StreamBrokenError]. An error is yielded once, as the last
// element, with a nil event. It unwraps to a [*ModelError], and its type decides
// whether the request is sent again, see [RetryPolicy.Decide].
//
// A [Retrying] says that the request is sent again, usually by a [ModelMiddleware], and
// that all events before it are void. It must not follow a BlockDone or BlockTruncated,
// because a complete block may already be in use.
//
// The request is sent when the iteration starts. The sequence is single-use. Leaving
// the loop early, or cancelling ctx, closes the connection before Stream returns. A
// client is safe for concurrent use. It does not change req, and may read it until the
// sequence ends. Ids of calls in req may be unknown to the service, see [ToolUse].
//
// A client may have more abilities, which are optional interfaces; find them with [As].
type ModelClient interface {
	Stream(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error]
}

// ModelFunc is an adapter that makes a function a [ModelClient].
type ModelFunc func(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error]

// Stream calls f.
func (f ModelFunc) Stream(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error] {
	return f(ctx, req)
}

// ModelMiddleware wraps a client, for example to retry, to limit the rate, to cache or
// to record. If the wrapper has a method Unwrap() ModelClient, [As] still finds the
// optional abilities of the inner client.
type ModelMiddleware func(ModelClient) ModelClient

// As finds an optional ability of a client. It tries m itself, then what m's
// Unwrap() ModelClient method returns, and so on.
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

// ModelNamer is an optional ability of a [ModelClient]: it reports which model answers.
type ModelNamer interface {
	// ModelName returns the provider ("anthropic") and the model that is asked when
	// [Request.Model] is empty.
	ModelName() (provider, model string)
}

// Request is one request to a model. The zero value of a field means the client's
// default. A request must not be changed once it was passed to a client.
type Request struct {
	// Model overrides the client's model.
	Model string
	// System holds the system prompt, in blocks that change at different rates, the most
	// stable first, so that prompt caches hit.
	System []*Text
	// Tools are the tools the model may call, in a stable order.
	Tools []*ToolSpec
	// ToolChoice says whether the model may, must or must not call a tool.
	ToolChoice ToolChoice
	// Messages is the conversation, oldest first.
	Messages []*Message
	// MaxTokens bounds the length of the answer, in tokens.
	MaxTokens int
	// Temperature is the sampling temperature; nil leaves it to the provider.
	Temperature *float64
	// Stop holds the sequences at which the model stops.
	Stop []string
	// Thinking is the number of tokens that the model may use for thinking. 0 leaves it
	// to the model; a negative value turns thinking off.
	Thinking int
	// NoCache turns off the prompt cache breakpoints that a client sets on its own.
	NoCache bool
	// Output asks for an answer that is a single JSON document. Clients with the ability
	// [OutputFormatter] honour it, others ignore it; see package generate.
	Output *OutputFormat
	// MaxResponse bounds the size of the answer, in bytes. The loop and [Complete] check it
	// themselves; a client may use it to bound its buffers. A run sets it to [Limits].Response.
	MaxResponse int64
	// Extra holds further top-level fields of the provider's wire format.
	Extra map[string]json.RawMessage
}

// OutputFormat describes an answer that is a single JSON document.
type OutputFormat struct {
	// Name is a short name of the document, which the model sees: letters, digits, "_" and "-".
	Name string
	// Schema is the JSON Schema of the document.
	Schema json.RawMessage
}

// OutputFormatter is an optional ability of a [ModelClient]: it can make the model
// answer with a JSON document.
type OutputFormatter interface {
	// FormatsOutput reports whether the model honours [Request.Output]. An empty name
	// stands for the client's model.
	FormatsOutput(model string) bool
}

// ToolChoice says how the model uses tools. The zero value is ToolAuto.
type ToolChoice struct {
	// Mode is one of the Tool… constants.
	Mode ToolMode
	// Name is the tool that must be called, for [ToolNamed].
	Name string
}

// ToolMode is the kind of a [ToolChoice]: whether the model may call tools, has to, or has
// to call a certain one.
type ToolMode int

// The modes of a [ToolChoice].
const (
	// ToolAuto lets the model decide whether it calls tools, and which. It is the default of
	// every provider.
	ToolAuto ToolMode = iota
	// ToolNone keeps the model from calling tools. Where a provider's API cannot say so, its
	// client leaves the tools out of the request.
	ToolNone
	// ToolAny makes the model call at least one of the tools. Which one is the model's choice.
	ToolAny
	// ToolNamed makes the model call the tool that [ToolChoice] names. It may call the
	// tool more than once.
	ToolNamed
)

// ModelEvent is an event that a [ModelClient] yields: [*TextDelta], [*ThinkingDelta],
// [*ToolDelta], [*BlockDone], [*BlockTruncated], [*Retrying] or [*MessageDone].
type ModelEvent interface{ modelEvent() }

// TextDelta is the next piece of the answer's text. Pieces end on rune boundaries. A later
// [Retrying] with Discarded takes back all text since the last [TurnFinished].
type TextDelta struct {
	Text string `json:"text"`
}

// ThinkingDelta is the next piece of the model's thinking, as far as the provider shows it.
// Pieces end on rune boundaries.
type ThinkingDelta struct {
	Text string `json:"text"`
}

// ToolDelta is the next piece of a call's arguments. Args is not valid JSON by itself,
// and is empty in the first delta of some calls. A call that arrives whole may have
// none. Do not act on it before the call is complete: a client says so with
// [BlockDone], a run with [ToolStarted] or, if the call is not run, with [ToolFinished].
type ToolDelta struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// BlockDone is the provider's statement that a block is complete: it said so, began the next block,
// or sends its calls whole. That arguments parse as JSON is not enough. It is also a [Fact].
type BlockDone struct {
	Part Part `json:"-"`
}

// BlockTruncated carries a tool call that the end of the response cut off, with the
// arguments received so far. Such a call is never run. It is also a [Fact].
type BlockTruncated struct {
	Call *ToolUse `json:"-"`
}

// MessageDone ends a response: it is the last event, and comes once. A sequence that ends
// without it has failed. It is also a [Fact].
type MessageDone struct {
	// Stop says why the model stopped.
	Stop StopReason
	// Usage counts the tokens of this response and its request.
	Usage Usage
	// Model is the model that answered, ID the provider's id of the message.
	Model, ID string
}

func (*TextDelta) modelEvent()      {}
func (*ThinkingDelta) modelEvent()  {}
func (*ToolDelta) modelEvent()      {}
func (*BlockDone) modelEvent()      {}
func (*BlockTruncated) modelEvent() {}
func (*Retrying) modelEvent()       {}
func (*MessageDone) modelEvent()    {}

// StopReason says why a model stopped. A value other than the constants is the
// provider's own word, unchanged.
type StopReason string

// The reasons that all providers share.
const (
	// StopEndTurn means that the model finished its answer by itself. Some providers also
	// report a stop sequence in this way.
	StopEndTurn StopReason = "end_turn"
	// StopToolUse means that the model waits for the outputs of the tool calls in its message.
	StopToolUse StopReason = "tool_use"
	// StopMaxTokens means that the answer reached [Request.MaxTokens] or the model's own
	// limit. It is cut off, maybe in a text; of a call, there is a [BlockTruncated].
	StopMaxTokens StopReason = "max_tokens"
	// StopRefusal means that the model, or a filter of the provider, refused to go on. Calls
	// in the message that have not begun do not run.
	StopRefusal StopReason = "refusal"
	// StopSequence means that the model wrote one of the sequences in [Request.Stop], which
	// is not part of the answer.
	StopSequence StopReason = "stop_sequence"
	// StopPaused means that the provider interrupted a long answer. It goes on when it is
	// asked again with the message as the end of the history.
	StopPaused StopReason = "paused"
)

// Usage counts tokens. Input excludes the tokens read from or written to a cache: the
// whole input is Input + CacheRead + CacheWrite. Reasoning is part of Output.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Add returns the sum of u and v, field by field. It is how the usage of a run is made from
// that of its messages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      u.Input + v.Input,
		Output:     u.Output + v.Output,
		Reasoning:  u.Reasoning + v.Reasoning,
		CacheRead:  u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite,
	}
}

// Price is a model's price, in US dollars per million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CacheRead and CacheWrite default to Input if they are 0.
	CacheRead  float64 `json:"cache_read,omitempty"`
	CacheWrite float64 `json:"cache_write,omitempty"`
	// Long is the price of a request with more than LongFrom tokens of input, or nil if
	// the price does not depend on the size.
	Long     *Price `json:"long,omitempty"`
	LongFrom int64  `json:"long_from,omitempty"`
}

// Cost returns the cost of u at price p, in US dollars. It is meant for the usage of a
// single request, since the price may depend on its size.
func (u Usage) Cost(p Price) float64 {
	if p.Long != nil && u.Input+u.CacheRead+u.CacheWrite > p.LongFrom {
		p = *p.Long
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*cmp.Or(p.CacheRead, p.Input) + float64(u.CacheWrite)*cmp.Or(p.CacheWrite, p.Input)) / 1e6
}

// ModelInfo describes a model. The zero value of a field means unknown.
type ModelInfo struct {
	// Provider and Model name the model: "anthropic", "claude-sonnet-4-5".
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Context is the maximum number of tokens of a request with its answer, MaxOutput
	// that of an answer.
	Context   int64 `json:"context,omitempty"`
	MaxOutput int64 `json:"max_output,omitempty"`
	// Price is nil if it is unknown.
	Price *Price `json:"price,omitempty"`
	// Tools, Thinking, Images and Output say that the model calls tools, thinks before
	// it answers, takes images, and answers according to a schema.
	Tools    bool `json:"tools,omitempty"`
	Thinking bool `json:"thinking,omitempty"`
	Images   bool `json:"images,omitempty"`
	Output   bool `json:"output,omitempty"`
}

// ModelInfoer is an optional ability of a [ModelClient]: it describes models.
type ModelInfoer interface {
	// ModelInfo describes a model; an empty name stands for the client's model. It
	// returns false if nothing is known of it.
	ModelInfo(model string) (ModelInfo, bool)
}

// Response is a whole answer of a model, as [Complete] collects it from the events of a
// [ModelClient].
type Response struct {
	// Message is the assistant's message. Calls that were cut off are in Cut instead.
	Message *Message
	Cut     []*ToolUse
	Stop    StopReason
	Usage   Usage
	// Model is the model that answered, ID the provider's id of the message.
	Model, ID string
}

// Text returns the visible text of the answer: its [Text] parts, concatenated, without
// thinking and tool calls.
func (r *Response) Text() string { return r.Message.Text() }

// Complete asks m once and collects the whole answer. It runs no tools and does not retry. If it
// returns an error, the response still holds the blocks that were complete by then. An answer
// that ends in a refusal is not an error here: it has the Stop [StopRefusal].
//
// The message is valid for the history: its text is valid UTF-8, and a call whose id is
// empty or was used before in req.Messages or in the answer gets a new one.
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

// identify gives the calls ids that are not empty and not used before: outputs are matched
// to calls by id.
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
