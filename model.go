package aycoder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// ModelClient streams one response of a language model. It is everything a
// provider must do.
//
// Stream sends req and yields what comes back, in the order it arrives:
// any number of [TextDelta], [ThinkingDelta] and [ToolDelta], a [BlockDone] for
// each block that is complete, a [BlockTruncated] for a tool call that the end of the
// response cut off, and exactly one [MessageDone], which is the last event. Text of
// deltas for which no BlockDone has come by then is kept as a block; a call of which
// there are only deltas is an error. A
// stream that ends without MessageDone has broken off, and the client says so
// with a [StreamBrokenError]. An error is yielded once, last, with a nil event.
//
// A [Retrying] says that the request is sent again, by a [ModelMiddleware] mostly:
// what came before it is void. It comes before the first BlockDone or BlockTruncated
// only, since what is complete may be in use already.
//
// The request goes out when the iteration starts. The sequence is single-use.
// Leaving the loop early, or cancelling ctx, closes the connection before Stream
// returns. A client is safe for concurrent use and does not change req, which it
// may read until the sequence ends.
//
// More abilities are optional interfaces, found with [As].
type ModelClient interface {
	Stream(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error]
}

// ModelFunc is a function that is a [ModelClient].
type ModelFunc func(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error]

// Stream calls f.
func (f ModelFunc) Stream(ctx context.Context, req *Request) iter.Seq2[ModelEvent, error] {
	return f(ctx, req)
}

// ModelMiddleware wraps a client: retry, fallback, rate limit, cache, record. A
// wrapper that has an Unwrap() ModelClient method keeps the optional abilities of
// the inner client visible to [As].
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

// ModelNamer is an optional ability of a [ModelClient]: it tells who answers.
type ModelNamer interface {
	// ModelName returns the provider ("anthropic") and the model that is asked when
	// [Request.Model] is empty.
	ModelName() (provider, model string)
}

// Request is one question to a model. The zero value of every field means the
// client's default. A request is read-only once it was given to a client.
type Request struct {
	// Model overrides the client's model.
	Model string
	// System holds the system prompt, in blocks that change at different rates, the
	// most stable first.
	System []*Text
	// Tools are the tools the model may call, in a stable order.
	Tools []*ToolSpec
	// ToolChoice says whether the model may, must or must not call a tool.
	ToolChoice ToolChoice
	// Messages is the conversation, oldest first.
	Messages []*Message
	// MaxTokens bounds the length of the answer.
	MaxTokens int
	// Temperature is passed on when it is not nil.
	Temperature *float64
	// Stop holds the sequences at which the model stops.
	Stop []string
	// Thinking is the number of tokens the model may think; 0 leaves it to the
	// model, less than 0 turns thinking off.
	Thinking int
	// NoCache turns off the prompt cache breakpoints that a client sets on its own.
	NoCache bool
	// Output asks for an answer that is one JSON document. Clients that have the
	// ability [OutputFormatter] honour it, others leave it out; see [Generate].
	Output *OutputFormat
	// MaxResponse bounds the bytes of the answer that a client holds. In a run it is
	// that of [Limits].Response.
	MaxResponse int64
	// Extra holds further top-level fields of the provider's wire format.
	Extra map[string]json.RawMessage
}

// OutputFormat says what an answer looks like that is one JSON document.
type OutputFormat struct {
	// Name is a short name of the document for the model, of letters, digits, "_" and
	// "-".
	Name string
	// Schema is the JSON Schema of the document.
	Schema json.RawMessage
}

// OutputFormatter is an optional ability of a [ModelClient]: it makes answers that
// are JSON documents.
type OutputFormatter interface {
	// FormatsOutput reports whether [Request.Output] is honoured by the model, which
	// is the client's if it is empty.
	FormatsOutput(model string) bool
}

// ToolChoice says how the model uses tools. The zero value is ToolAuto.
type ToolChoice struct {
	// Mode is one of the Tool… constants.
	Mode ToolMode
	// Name is the tool that must be called, with [ToolNamed].
	Name string
}

// ToolMode is the kind of a [ToolChoice].
type ToolMode int

// The modes of a [ToolChoice].
const (
	ToolAuto  ToolMode = iota // the model decides
	ToolNone                  // no tool
	ToolAny                   // some tool
	ToolNamed                 // the tool that is named
)

// ModelEvent is what a [ModelClient] yields: [*TextDelta], [*ThinkingDelta],
// [*ToolDelta], [*BlockDone], [*BlockTruncated], [*Retrying] or [*MessageDone].
type ModelEvent interface{ modelEvent() }

// TextDelta is a further piece of the answer's text. Pieces end on rune
// boundaries.
type TextDelta struct {
	Text string `json:"text"`
}

// ThinkingDelta is a further piece of what the model thinks.
type ThinkingDelta struct {
	Text string `json:"text"`
}

// ToolDelta is a further piece of a call's arguments. Args is not valid JSON by
// itself; the first delta of a call may be empty. Wait for [BlockDone] before
// doing anything with a call.
type ToolDelta struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// BlockDone is the provider's promise that a block is complete. That arguments
// parse as JSON is no such promise. It is also a [Fact].
type BlockDone struct {
	Part Part `json:"-"`
}

// BlockTruncated carries a tool call that the end of the response cut off, with the
// arguments as far as they came. It is never run. It is also a [Fact].
type BlockTruncated struct {
	Call *ToolUse `json:"-"`
}

// MessageDone ends a response. It is also a [Fact].
type MessageDone struct {
	// Stop is why the model stopped.
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

// StopReason is why a model stopped. A reason that is none of the constants is
// the provider's own word, kept as it came.
type StopReason string

// The reasons all providers share.
const (
	StopEndTurn   StopReason = "end_turn"
	StopToolUse   StopReason = "tool_use"
	StopMaxTokens StopReason = "max_tokens"
	StopRefusal   StopReason = "refusal"
	StopSequence  StopReason = "stop_sequence"
	StopPaused    StopReason = "paused" // the provider wants to be called again to go on
)

// Usage counts tokens. Input is what was read without a cache; all input is Input
// + CacheRead + CacheWrite. Reasoning is part of Output.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      u.Input + v.Input,
		Output:     u.Output + v.Output,
		Reasoning:  u.Reasoning + v.Reasoning,
		CacheRead:  u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite,
	}
}

// Price is what tokens cost, in US dollars for a million of them.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CacheRead and CacheWrite are the price of Input if they are 0.
	CacheRead  float64 `json:"cache_read,omitempty"`
	CacheWrite float64 `json:"cache_write,omitempty"`
	// Long is the price of a request whose input is more than LongFrom tokens, nil
	// if there is one price for all.
	Long     *Price `json:"long,omitempty"`
	LongFrom int64  `json:"long_from,omitempty"`
}

// Cost returns what u costs at p, in US dollars. It is meant for the usage of one
// request: the price may depend on its size.
func (u Usage) Cost(p Price) float64 {
	if p.Long != nil && u.Input+u.CacheRead+u.CacheWrite > p.LongFrom {
		p = *p.Long
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*cmp.Or(p.CacheRead, p.Input) + float64(u.CacheWrite)*cmp.Or(p.CacheWrite, p.Input)) / 1e6
}

// ModelInfo is what is known of a model. The zero value of a field means unknown.
type ModelInfo struct {
	// Provider and Model name it: "anthropic", "claude-sonnet-4-5".
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Context and MaxOutput are the most tokens of a request with its answer, and of
	// an answer.
	Context   int64 `json:"context,omitempty"`
	MaxOutput int64 `json:"max_output,omitempty"`
	// Price is nil if it is not known.
	Price *Price `json:"price,omitempty"`
	// Tools, Thinking, Images and Output say that it calls tools, thinks before it
	// answers, sees images, and makes answers of a schema.
	Tools    bool `json:"tools,omitempty"`
	Thinking bool `json:"thinking,omitempty"`
	Images   bool `json:"images,omitempty"`
	Output   bool `json:"output,omitempty"`
}

// ModelInfoer is an optional ability of a [ModelClient]: it knows about models.
type ModelInfoer interface {
	// ModelInfo returns what is known of a model, which is the client's if it is
	// empty, and false if that is nothing.
	ModelInfo(model string) (ModelInfo, bool)
}

// Response is a whole answer.
type Response struct {
	// Message is the assistant's message. Calls that were cut off are in Cut and
	// not in Message.
	Message *Message
	Cut     []*ToolUse
	Stop    StopReason
	Usage   Usage
	// Model is the model that answered, ID the provider's id of the message.
	Model, ID string
}

// Text returns the visible text of the answer.
func (r *Response) Text() string { return r.Message.Text() }

// Complete asks m once and collects the whole answer. It runs no tools and does
// not retry. On an error the response holds the blocks that were complete by then
// and the error is returned beside it.
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
	start := time.Now()
	in := incoming{max: cmp.Or(req.MaxResponse, maxAnswer)}
	done := false
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			return r, err
		}
		missed, err := in.note(ev)
		if missed != nil {
			r.Message.Parts = append(r.Message.Parts, missed)
		}
		if err != nil {
			return r, &ModelError{Err: err}
		}
		switch ev := ev.(type) {
		case *BlockDone:
			r.Message.Parts = append(r.Message.Parts, ev.Part)
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

// maxAnswer is the default of [Limits].Response and [Request.MaxResponse].
const maxAnswer = 32 << 20

var errLostCall = errors.New("client told of a call and ended the message without BlockDone or BlockTruncated for it")

// An incoming is what a response has come to: how much of it is held, and what its
// deltas said of which no block has come.
type incoming struct {
	max int64

	blocks, open int64 // bytes: of blocks, of deltas since the last one
	text         []byte
	told, called bool // of a call: by deltas, by a block
}

// next makes in ready for the next message. A buffer of usual size is used again.
func (in *incoming) next() {
	text := in.text[:0]
	if cap(text) > maxSpare {
		text = nil
	}
	*in = incoming{max: in.max, text: text}
}

const maxSpare = 8 << 10

// note takes an event. It returns the text that the client has closed no block for,
// which belongs before the event, and an error if the response is over its bound.
func (in *incoming) note(ev ModelEvent) (missed *Text, err error) {
	if in.count(ev); in.blocks+in.open > in.max {
		return in.rest(), &LimitError{Limit: "response bytes", Max: in.max}
	}
	switch ev := ev.(type) {
	case *TextDelta:
		if in.text == nil {
			in.text = make([]byte, 0, max(512, len(ev.Text)))
		}
		in.text = append(in.text, ev.Text...)
	case *ToolDelta:
		in.told = true
	case *BlockTruncated:
		in.called = true
	case *BlockDone:
		switch p := ev.Part.(type) {
		case *ToolUse:
			in.called = true
		case *Text:
			return in.close(p), nil
		}
	case *Retrying:
		in.void()
	case *MessageDone:
		if in.told && !in.called {
			return nil, errLostCall
		}
		return in.rest(), nil
	}
	return nil, nil
}

// count counts what is held: the text of deltas until the block that repeats it. An
// event without any counts, too, so that there is an end of them.
func (in *incoming) count(ev ModelEvent) {
	n := max(eventSize(ev), 1)
	switch ev.(type) {
	case *BlockDone, *BlockTruncated, *Retrying:
		in.blocks += max(n, in.open)
		in.open = 0
	default:
		in.open += n
	}
}

// close takes the text of a block off that of the deltas. What stood before it had no
// block.
func (in *incoming) close(p *Text) *Text {
	text := in.text
	in.text = in.text[:0]
	if p == nil || len(text) <= len(p.Text) {
		return nil
	}
	before, block := text[:len(text)-len(p.Text)], text[len(text)-len(p.Text):]
	if string(block) != p.Text || len(bytes.TrimSpace(before)) == 0 {
		return nil
	}
	return &Text{Text: string(before)}
}

// rest is the text that is open.
func (in *incoming) rest() *Text {
	text := string(in.text)
	in.text = in.text[:0]
	if text == "" {
		return nil
	}
	return &Text{Text: text}
}

// void forgets the deltas that came, as the client asks again.
func (in *incoming) void() { in.text, in.told = in.text[:0], false }

func streamEnded(m ModelClient, after time.Duration) error {
	e := &StreamBrokenError{ModelError: &ModelError{Err: errNoMessageDone}, After: after}
	if n, ok := As[ModelNamer](m); ok {
		e.Provider, e.Model = n.ModelName()
	}
	return e
}
