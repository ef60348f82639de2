package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// Client returns a client that wraps next. According to the [Mode], the returned client
// sends a request to next and records the response, or it plays back a recorded response.
// The method can be used as an [aycoder.ModelMiddleware], or be called directly:
//
//	client := tape.Client(inner)
//
// Requests are compared as JSON. The comparison includes everything that a model sees, but
// not the declared effects of tools. In playback the program gets the recorded events one
// by one. Recorded errors have their original types and fields.
//
// The returned client gets the results of [aycoder.ModelNamer], [aycoder.OutputFormatter]
// and [aycoder.ModelInfoer] from next. In mode [Replay], next gets no requests, and may be
// nil. If next is nil, these results come from the recording. In the other modes, Client
// panics if next is nil.
//
// A request that cannot be recorded, for example because a text is not valid UTF-8, is not
// sent and ends with an error. An event that cannot be recorded reaches the program
// unchanged, but [Tape.Close] then returns an error.
func (t *Tape) Client(next aycoder.ModelClient) aycoder.ModelClient {
	if next != nil {
		return &client{t, next}
	}
	if t.cfg.mode != Replay {
		panic("replay: Client of a nil client in mode " + t.cfg.mode.String())
	}
	return &player{client{t, nil}}
}

type client struct {
	tape *Tape
	next aycoder.ModelClient
}

// Unwrap returns the client that is recorded, so that [aycoder.As] finds its abilities.
func (c *client) Unwrap() aycoder.ModelClient { return c.next }

// Stream implements [aycoder.ModelClient].
func (c *client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return c.stream(ctx, req, c.next)
}

func (c *client) stream(
	ctx context.Context, req *aycoder.Request, info aycoder.ModelClient,
) iter.Seq2[aycoder.ModelEvent, error] {
	return part.Once(func(yield func(aycoder.ModelEvent, error) bool) {
		if err := c.run(ctx, req, info, yield); err != nil {
			yield(nil, err)
		}
	})
}

type yieldFunc = func(aycoder.ModelEvent, error) bool

// run answers a request. The error is the last value that the program gets.
func (c *client) run(ctx context.Context, req *aycoder.Request, info aycoder.ModelClient, yield yieldFunc) error {
	t := c.tape
	if ctx.Err() != nil {
		return c.cancelled(ctx, info)
	}
	form, err := encodeRequest(req)
	if err != nil {
		return refusal(fmt.Errorf("%s %s: %w", t.cfg.mode, t.path, err))
	}
	it := &interaction{model: describe(info, req.Model)}
	it.model.Request = form
	t.secrets.learnBody("", form)
	if t.cfg.mode != Record {
		asked, err := t.cleanModel(it.model)
		if err != nil {
			return t.failed(err)
		}
		found, err := t.take(&interaction{model: asked})
		if err != nil {
			return err
		}
		if found != nil {
			return c.replay(ctx, found, info, yield)
		}
	}
	if err := t.begin(it); err != nil {
		return t.failed(err)
	}
	return c.record(ctx, req, it, yield)
}

// describe records the properties of a client.
func describe(m aycoder.ModelClient, model string) *modelLine {
	l := &modelLine{Asked: model}
	if n, ok := aycoder.As[aycoder.ModelNamer](m); ok {
		l.Provider, l.Model = n.ModelName()
	}
	if f, ok := aycoder.As[aycoder.OutputFormatter](m); ok {
		l.Formats = f.FormatsOutput(model)
	}
	if f, ok := aycoder.As[toolFormatter](m); ok {
		l.WithTools = f.FormatsWithTools(model)
	}
	if i, ok := aycoder.As[aycoder.ModelInfoer](m); ok {
		if info, ok := i.ModelInfo(model); ok {
			l.Info = &info
		}
	}
	return l
}

// record passes the events on while it records them, so that the program behaves as it
// does without a recording.
func (c *client) record(ctx context.Context, req *aycoder.Request, it *interaction, yield yieldFunc) error {
	t := c.tape
	defer t.ended(it, endLeft, nil) // unless another ending comes first: the program may panic
	for ev, err := range c.next.Stream(ctx, req) {
		switch {
		case err != nil && ctx.Err() != nil:
			t.ended(it, endCancelled, nil)
		case err != nil:
			t.ended(it, endError, encodeError(err))
		default:
			t.heard(it, ev)
		}
		if !yield(ev, err) {
			return nil
		}
	}
	t.ended(it, endComplete, nil)
	return nil
}

// heard records an event.
func (t *Tape) heard(it *interaction, ev aycoder.ModelEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if it.done || t.err != nil {
		return
	}
	e, err := encodeEvent(ev)
	if err != nil {
		t.spoil(fmt.Errorf("interaction of %s: %w", t.secrets.text(it.label()), err))
		return
	}
	if t.grow(it, eventBytes+len(e.Text)+len(e.Part)) {
		it.events = append(it.events, e)
	}
}

// eventBytes is the approximate size of an event without its text.
const eventBytes = 256

// replay yields the recorded events. If the program canceled the request during the
// recording, replay waits at the same place until the program cancels ctx.
func (c *client) replay(ctx context.Context, it *interaction, info aycoder.ModelClient, yield yieldFunc) error {
	for i := range it.events {
		if ctx.Err() != nil {
			return c.cancelled(ctx, info)
		}
		ev, err := it.events[i].event()
		if err != nil { // it was validated before
			return c.tape.failed(err)
		}
		if !yield(ev, nil) {
			return nil
		}
	}
	switch it.end {
	case endComplete:
		return nil
	case endError:
		return it.fail.err()
	case endCancelled:
		if ctx.Done() != nil {
			<-ctx.Done()
			return c.cancelled(ctx, info)
		}
	}
	return &IncompleteError{File: c.tape.path, Interaction: it.number, Request: it.label()}
}

// cancelled returns the error of a request that the program canceled.
func (c *client) cancelled(ctx context.Context, info aycoder.ModelClient) error {
	e := &aycoder.ModelError{Err: ctx.Err()}
	if cause := context.Cause(ctx); !errors.Is(cause, e.Err) {
		e.Err = fmt.Errorf("%w: %w", e.Err, cause)
	}
	if n, ok := aycoder.As[aycoder.ModelNamer](info); ok {
		e.Provider, e.Model = n.ModelName()
	}
	return e
}

// A player is a client for playback that has no other client behind it. Its name and
// abilities are the recorded ones.
type player struct{ client }

// Stream implements [aycoder.ModelClient].
func (p *player) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return p.stream(ctx, req, p)
}

// recorded returns the recorded properties of a model. An empty name means the client's
// model.
func (p *player) recorded(model string) *modelLine {
	for _, it := range p.tape.recorded {
		if it.model != nil && (it.model.Asked == model || it.model.Model == model) {
			return it.model
		}
	}
	return &modelLine{}
}

// ModelName implements [aycoder.ModelNamer]. It returns the recorded names.
func (p *player) ModelName() (provider, model string) {
	for _, it := range p.tape.recorded {
		if it.model != nil {
			return it.model.Provider, it.model.Model
		}
	}
	return "", ""
}

// FormatsOutput implements [aycoder.OutputFormatter]. It returns the recorded result.
func (p *player) FormatsOutput(model string) bool { return p.recorded(model).Formats }

// toolFormatter is the ToolFormatter of package generate.
type toolFormatter interface{ FormatsWithTools(model string) bool }

// FormatsWithTools implements the ToolFormatter of package generate. It returns the recorded result.
func (p *player) FormatsWithTools(model string) bool { return p.recorded(model).WithTools }

// ModelInfo implements [aycoder.ModelInfoer]. It returns the recorded result.
func (p *player) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	if l := p.recorded(model); l.Info != nil {
		return *l.Info, true
	}
	return aycoder.ModelInfo{}, false
}
