package script

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

// argsChunk is the number of runes of arguments in a delta if texts are split into words.
// JSON that a model writes may have no spaces at which to split it.
const argsChunk = 16

var errBroken = errors.New("the script breaks off")

// An emitter plays one answer.
type emitter struct {
	yield func(aycoder.ModelEvent, error) bool
	config
	start time.Time
	left  int  // events until the stream breaks off; negative for never
	bytes int  // bytes emitted so far
	over  bool // the consumer has left or got an error
}

// event yields ev, and reports whether to continue.
func (e *emitter) event(ctx context.Context, ev aycoder.ModelEvent) bool {
	if e.left == 0 || !e.alive(ctx) {
		return false
	}
	e.left--
	if !e.yield(ev, nil) {
		e.over = true
	}
	return !e.over
}

// delta yields ev after the time that its text takes.
func (e *emitter) delta(ctx context.Context, ev aycoder.ModelEvent, text string) bool {
	if e.left != 0 {
		e.wait(ctx)
	}
	e.bytes += len(text)
	return e.event(ctx, ev)
}

func (e *emitter) wait(ctx context.Context) {
	if e.pace <= 0 {
		return
	}
	t := time.NewTimer(e.pace)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// alive reports whether the stream continues, and ends it if the context is done.
func (e *emitter) alive(ctx context.Context) bool {
	if e.over {
		return false
	}
	if err := ctx.Err(); err != nil {
		e.fail(e.modelError(err))
	}
	return !e.over
}

// fail ends the stream with err.
func (e *emitter) fail(err error) {
	e.over = true
	e.yield(nil, err)
}

func (e *emitter) modelError(err error) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: e.provider, Model: e.model, Err: err}
}

func (e *emitter) brokenOff() error {
	return &aycoder.StreamBrokenError{ModelError: e.modelError(errBroken),
		After: time.Since(e.start)}
}

// block yields the events that a provider sends for a block, and reports whether to
// continue.
func (e *emitter) block(ctx context.Context, b block) bool {
	switch p := b.part.(type) {
	case *aycoder.Text:
		for text := range pieces(p.Text, e.chunk) {
			if !e.delta(ctx, &aycoder.TextDelta{Text: text}, text) {
				return false
			}
		}
	case *aycoder.Thinking:
		for text := range pieces(p.Text, e.chunk) {
			if !e.delta(ctx, &aycoder.ThinkingDelta{Text: text}, text) {
				return false
			}
		}
	case *aycoder.ToolUse:
		return e.call(ctx, p, b.cut)
	}
	return e.event(ctx, &aycoder.BlockDone{Part: b.part})
}

func (e *emitter) call(ctx context.Context, c *aycoder.ToolUse, cut bool) bool {
	if !e.delta(ctx, &aycoder.ToolDelta{ID: c.ID, Name: c.Name}, c.Name) {
		return false
	}
	chunk := e.chunk
	if chunk <= 0 {
		chunk = argsChunk
	}
	for args := range pieces(string(c.Args), chunk) {
		if !e.delta(ctx, &aycoder.ToolDelta{ID: c.ID, Name: c.Name, Args: args}, args) {
			return false
		}
	}
	if cut {
		return e.event(ctx, &aycoder.BlockTruncated{Call: c})
	}
	return e.event(ctx, &aycoder.BlockDone{Part: c})
}

// pieces splits text into pieces of that many runes or, for 0, into words with the spaces
// after them.
func pieces(text string, runes int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := wordLen(text)
			if runes > 0 {
				n = runesLen(text, runes)
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

func wordLen(text string) int {
	space := strings.IndexFunc(text, unicode.IsSpace)
	if space < 0 {
		return len(text)
	}
	next := strings.IndexFunc(text[space:], func(r rune) bool { return !unicode.IsSpace(r) })
	if next < 0 {
		return len(text)
	}
	return space + next
}

func runesLen(text string, runes int) int {
	n := 0
	for range runes {
		if n == len(text) {
			break
		}
		_, size := utf8.DecodeRuneInString(text[n:])
		n += size
	}
	return n
}

// bytesPerToken is a common rule of thumb.
const bytesPerToken = 4

// history records how far the tokens of a conversation were counted, so that a request
// costs only the work for its new messages.
type history struct {
	last     *aycoder.Message
	messages int
	bytes    int
}

// count estimates the tokens of a request. The messages of the previous request count as
// read from the cache.
func (h *history) count(req *aycoder.Request) aycoder.Usage {
	n := len(req.Messages)
	goesOn := h.messages > 0 && n >= h.messages && req.Messages[h.messages-1] == h.last
	if !goesOn {
		*h = history{bytes: promptBytes(req)}
	}
	known, tail := h.bytes, 0
	for _, t := range req.Tail { // never from the cache
		tail += len(t.Text)
	}
	for _, m := range req.Messages[h.messages:] {
		for _, p := range m.Parts {
			h.bytes += partBytes(p)
		}
	}
	if n > 0 {
		h.messages, h.last = n, req.Messages[n-1]
	}
	if !goesOn {
		known = 0
	}
	cached := int64(known) / bytesPerToken
	return aycoder.Usage{Input: int64(h.bytes+tail)/bytesPerToken - cached, CacheRead: cached}
}

func promptBytes(req *aycoder.Request) int {
	n := 0
	for _, t := range req.System {
		n += len(t.Text)
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

func partBytes(p aycoder.Part) int {
	switch p := p.(type) {
	case *aycoder.Text:
		return len(p.Text)
	case *aycoder.Thinking:
		return len(p.Text) + len(p.Signature)
	case *aycoder.ToolUse:
		return len(p.Name) + len(p.Args)
	case *aycoder.Media:
		return len(p.Data)
	case *aycoder.Opaque:
		return len(p.Raw)
	case *aycoder.ToolOutput:
		n := 0
		for _, o := range p.Parts {
			n += partBytes(o)
		}
		return n
	}
	return 0
}
