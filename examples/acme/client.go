// Package acme is a client for Acme's chat API, a made-up service. It shows how to write a
// model client.
//
// A request is a JSON object. The answer is a stream of server-sent events, each with one
// JSON object: {"thinking":"Hm"}, {"signature":"c2ln"} after the thinking, {"text":"Hel"},
// {"call":{"id":"c1","name":"read","args":"{\"pa"}}, and at the end
// {"done":{"stop":"end","input":12,"output":3}}. Other reasons to stop are "call", "length"
// and, if Acme's filter ends the answer, "filter".
package acme

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

const (
	provider = "acme"

	maxLine  = 4 << 20  // bytes of one event
	maxError = 64 << 10 // bytes of an error's text
)

// Client is an [aycoder.ModelClient]. It is safe for concurrent use.
type Client struct {
	base, model string
	http        *http.Client
	// The key is in closures, so that printing a Client does not show it.
	authorize func(http.Header)
	redact    func(string) string
}

// New returns a client of the service at base.
func New(base, model, key string, hc *http.Client) *Client {
	own := *hc
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would get the conversation
	return &Client{
		base: base, model: model, http: &own,
		authorize: func(h http.Header) { h.Set("Authorization", "Bearer "+key) },
		redact: func(text string) string {
			if key == "" {
				return text
			}
			return strings.ReplaceAll(text, key, "[key]")
		},
	}
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (provider, model string) { return provider, c.model }

// Stream implements [aycoder.ModelClient]. Nothing happens before the sequence is ranged
// over, and everything happens on the goroutine that ranges.
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		err := c.stream(ctx, req, func(ev aycoder.ModelEvent) bool { return yield(ev, nil) })
		if err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// errLeft says that the caller has left the loop, so that nothing may be yielded any more.
var errLeft = errors.New("the caller has left the loop")

func (c *Client) stream(ctx context.Context, req *aycoder.Request, yield func(aycoder.ModelEvent) bool) error {
	start := time.Now()
	base := &aycoder.ModelError{Provider: provider, Model: cmp.Or(req.Model, c.model)}
	// broken turns the failure of a connection, even one that was never made, into an error
	// that the loop retries.
	broken := func(err error) error {
		base.Err = cmp.Or(ctx.Err(), err)
		if ctx.Err() != nil {
			return base
		}
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() { // of the http.Client
			return &aycoder.TimeoutError{ModelError: base, Elapsed: time.Since(start)}
		}
		return &aycoder.StreamBrokenError{ModelError: base, After: time.Since(start)}
	}
	body, err := encode(base.Model, req)
	if err != nil {
		base.Err = err
		return &aycoder.BadRequestError{ModelError: base}
	}
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/chat", bytes.NewReader(body))
	if err != nil {
		base.Err = err
		return base
	}
	c.authorize(hr.Header)
	hr.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(hr)
	if err != nil {
		return broken(err)
	}
	defer resp.Body.Close() // also when the caller leaves the loop
	if resp.StatusCode != http.StatusOK {
		return c.failure(base, resp)
	}
	d := &decoder{yield: yield, done: aycoder.MessageDone{Model: base.Model}}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if over, err := d.decode(data); errors.Is(err, errLeft) || over {
			return err
		} else if err != nil {
			return broken(err)
		}
	}
	return broken(cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// failure returns the typed error for an answer that is not a stream. The loop decides by
// the type whether it retries.
func (c *Client) failure(base *aycoder.ModelError, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	var body struct {
		Code, Message string
		Size, Max     int64 // in tokens
	}
	if json.Unmarshal(text, &body) != nil {
		body.Message = string(text)
	}
	base.Status, base.Kind, base.Err = resp.StatusCode, body.Code, errors.New(c.redact(body.Message))
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return &aycoder.AuthError{ModelError: base}
	case s == http.StatusNotFound:
		return &aycoder.UnknownModelError{ModelError: base}
	case s == http.StatusTooManyRequests:
		return &aycoder.RateLimitError{ModelError: base, RetryAfter: wait}
	case s >= 500:
		return &aycoder.OverloadedError{ModelError: base, RetryAfter: wait}
	case body.Code == "context_too_large":
		return &aycoder.ContextTooLargeError{ModelError: base, Actual: body.Size, Max: body.Max}
	case s >= http.StatusBadRequest:
		return &aycoder.BadRequestError{ModelError: base}
	}
	return base
}

// The request. The messages come last, so that each request begins with the bytes of the
// one before and the prompt cache of the service hits. The tail, which changes, is behind them.
type (
	wireRequest struct {
		Model     string            `json:"model"`
		MaxTokens int               `json:"max_tokens,omitempty"`
		System    []string          `json:"system,omitempty"`
		Tools     []wireTool        `json:"tools,omitempty"`
		Messages  []json.RawMessage `json:"messages"`
	}
	wireTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
	}
	wireMessage struct {
		Role     string         `json:"role"`
		Outputs  []wireOutput   `json:"outputs,omitempty"`
		Thinking []wireThinking `json:"thinking,omitempty"`
		Text     string         `json:"text,omitempty"`
		Calls    []wireCall     `json:"calls,omitempty"`
	}
	wireThinking struct {
		Text      string `json:"text"`
		Signature string `json:"signature"`
	}
	wireCall struct {
		ID   string `json:"id"`
		Name string `json:"name,omitempty"`
		Args string `json:"args"`
	}
	wireOutput struct {
		ID    string `json:"id"`
		Text  string `json:"text"`
		Error bool   `json:"error,omitempty"`
	}
)

func encode(model string, req *aycoder.Request) ([]byte, error) {
	w := wireRequest{Model: model, MaxTokens: req.MaxTokens}
	for _, s := range req.System {
		w.System = append(w.System, s.Text)
	}
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, wireTool{t.Name, t.Description, t.Schema})
	}
	for _, m := range req.Messages {
		data, err := m.Encoded(wireKey{}, encodeMessage)
		if err != nil {
			return nil, err
		}
		w.Messages = append(w.Messages, data)
	}
	n := len(req.Messages)
	if len(req.Tail) > 0 && (n == 0 || req.Messages[n-1].Role != aycoder.RoleAssistant) {
		tail := wireMessage{Role: string(aycoder.RoleUser)}
		for _, t := range req.Tail {
			tail.Text += t.Text
		}
		data, err := json.Marshal(tail)
		if err != nil {
			return nil, err
		}
		w.Messages = append(w.Messages, data)
	}
	return json.Marshal(w)
}

// wireKey is the key under which a message keeps its wire form, so that each message is
// encoded once and not once for each request.
type wireKey struct{}

// encodeMessage leaves out the parts that only another provider understands: its thinking,
// and its opaque blocks. Acme knows all three roles, also "system" among the messages.
func encodeMessage(m *aycoder.Message) ([]byte, error) {
	w := wireMessage{Role: string(m.Role)}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			w.Text += p.Text
		case *aycoder.Thinking:
			if p.Provider == provider {
				w.Thinking = append(w.Thinking, wireThinking{p.Text, p.Signature})
			}
		case *aycoder.Media:
			w.Text += "[an attachment that this model cannot read]"
		case *aycoder.ToolUse:
			w.Calls = append(w.Calls, wireCall{p.ID, p.Name, string(p.Args)})
		case *aycoder.ToolOutput:
			w.Outputs = append(w.Outputs, wireOutput{p.ID, p.Text(), p.IsError})
		}
	}
	return json.Marshal(w)
}

// A decoder turns the events of the service into those of aycoder. It joins the deltas of a
// block, because the complete block follows them.
type decoder struct {
	yield func(aycoder.ModelEvent) bool
	done  aycoder.MessageDone

	block     string // "thinking", "text", "call ID", or "" between blocks
	text      strings.Builder
	signature string
	call      *aycoder.ToolUse
}

// decode handles one event, and reports whether it was the last.
func (d *decoder) decode(data string) (over bool, err error) {
	var ev struct {
		Thinking, Signature, Text string

		Call *wireCall
		Done *struct {
			Stop          string
			Input, Output int64
		}
	}
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		return false, fmt.Errorf("read event: %w", err)
	}
	switch {
	case ev.Done != nil:
		d.done.Usage = aycoder.Usage{Input: ev.Done.Input, Output: ev.Done.Output}
		return true, d.finish(ev.Done.Stop)
	case ev.Call != nil:
		return false, d.addCall(ev.Call)
	case ev.Thinking != "":
		return false, d.addText("thinking", ev.Thinking, &aycoder.ThinkingDelta{Text: ev.Thinking})
	case ev.Signature != "":
		d.signature = ev.Signature
	case ev.Text != "":
		return false, d.addText("text", ev.Text, &aycoder.TextDelta{Text: ev.Text})
	}
	return false, nil // an event that this version does not know
}

func (d *decoder) addText(block, text string, delta aycoder.ModelEvent) error {
	if err := d.begin(block); err != nil {
		return err
	}
	d.text.WriteString(text)
	return d.send(delta)
}

func (d *decoder) addCall(c *wireCall) error {
	if err := d.begin("call " + c.ID); err != nil {
		return err
	}
	if d.call == nil {
		d.call = &aycoder.ToolUse{ID: c.ID, Name: c.Name}
	}
	d.call.Args = append(d.call.Args, c.Args...)
	return d.send(&aycoder.ToolDelta{ID: d.call.ID, Name: d.call.Name, Args: c.Args})
}

// begin ends the block before, unless the event belongs to the same one.
func (d *decoder) begin(block string) error {
	if d.block == block {
		return nil
	}
	err := d.end()
	d.block = block
	return err
}

// end sends the block whose events have come so far.
func (d *decoder) end() error {
	var part aycoder.Part
	switch {
	case d.block == "":
		return nil
	case d.block == "thinking":
		part = &aycoder.Thinking{Text: d.text.String(), Signature: d.signature, Provider: provider}
	case d.block == "text":
		part = &aycoder.Text{Text: d.text.String()}
	case len(d.call.Args) == 0:
		d.call.Args = json.RawMessage("{}")
		part = d.call
	case !json.Valid(d.call.Args):
		return fmt.Errorf("call %s: arguments are not JSON", d.call.ID)
	default:
		part = d.call
	}
	d.text.Reset()
	d.block, d.signature, d.call = "", "", nil
	return d.send(&aycoder.BlockDone{Part: part})
}

// finish ends the message. If the token limit or the filter ended it, the last call may be
// incomplete, even if its arguments happen to be valid JSON; such a call must not run.
func (d *decoder) finish(stop string) error {
	reasons := map[string]aycoder.StopReason{
		"end": aycoder.StopEndTurn, "call": aycoder.StopToolUse, "length": aycoder.StopMaxTokens,
		"filter": aycoder.StopRefusal,
	}
	d.done.Stop = cmp.Or(reasons[stop], aycoder.StopReason(stop))
	var err error
	if cut := d.done.Stop == aycoder.StopMaxTokens || d.done.Stop == aycoder.StopRefusal; cut && d.call != nil {
		err = d.send(&aycoder.BlockTruncated{Call: d.call})
	} else {
		err = d.end()
	}
	if err != nil {
		return err
	}
	return d.send(&d.done)
}

func (d *decoder) send(ev aycoder.ModelEvent) error {
	if !d.yield(ev) {
		return errLeft
	}
	return nil
}
