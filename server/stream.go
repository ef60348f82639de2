package server

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/session"
)

const (
	keepAlive = 15 * time.Second       // between comments, so that proxies do not end a quiet stream
	settling  = 100 * time.Millisecond // in which the calls beside one that asks begin
	stalled   = 2 * time.Minute        // after which a client that reads nothing is cut off
)

const done = "[DONE]" // ends the streams of OpenAI and of the AI SDK

// A sender writes the events of a run to one client.
type sender struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	at  cursor
	run *run
	buf bytes.Buffer
	telling
}

func newSender(w http.ResponseWriter, at cursor, x *run, f *form) *sender {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of a proxy that would collect the stream
	if x != nil {
		at = at.in(x.id)
	}
	return &sender{w: w, rc: http.NewResponseController(w), at: at, run: x, telling: telling{form: f}}
}

// write adds an event to what is sent next.
func (d *sender) write(ev aycoder.Event, data []byte, at cursor) {
	at.run = d.at.run
	d.at = at
	if d.form == nil {
		d.message(d.at.String(), data)
		return
	}
	if ev == nil {
		var err error
		if ev, err = aycoder.DecodeEvent(data); err != nil {
			return // of a newer kind
		}
	}
	d.event(ev, data)
}

func (d *sender) message(id string, data []byte) {
	m := sse.Message{}
	if id != "" {
		m.ID = sse.ID(id)
	}
	m.AppendData(string(data))
	_, _ = m.WriteTo(&d.buf)
}

// flush sends what was written. A client that takes nothing for a while is cut off.
func (d *sender) flush() error {
	_ = d.rc.SetWriteDeadline(time.Now().Add(stalled)) // not every ResponseWriter can
	if _, err := d.buf.WriteTo(d.w); err != nil {
		return err
	}
	return d.rc.Flush()
}

// comment sends a line that clients ignore.
func (d *sender) comment(text string) error {
	m := sse.Message{}
	m.AppendComment(text)
	_, _ = m.WriteTo(&d.buf)
	return d.flush()
}

// streams makes an operation of one that streams. A principal may have a number of streams at a time.
func (s *Server) streams(serve operation) operation {
	return func(w http.ResponseWriter, r *http.Request) error {
		who := principalOf(r)
		s.mu.Lock()
		if s.streaming[who] >= s.limits.Streams {
			s.mu.Unlock()
			return tooMany("streams at the same time")
		}
		s.streaming[who]++
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.streaming[who]--; s.streaming[who] == 0 {
				delete(s.streaming, who)
			}
		}()
		return serve(w, r)
	}
}

// send sends what a client misses of the run, and then what comes, until the run is over or the client is gone.
func (s *Server) send(r *http.Request, d *sender) error {
	follow := s.follow
	if d.run.log == nil {
		follow = s.past
	}
	if err := follow(r.Context(), d); err != nil && r.Context().Err() == nil {
		s.logger.InfoContext(r.Context(), "a stream broke off", "run", d.run.id, "error", err)
		d.breaks()
	}
	return nil // nobody is there to read an error
}

// breaks breaks the connection to a client of a form, which would take the end of the stream for that of the run. Other clients
// know that by the event run_end.
func (d *sender) breaks() {
	if d.form != nil {
		panic(http.ErrAbortHandler)
	}
}

// follow sends what a client misses of a run, and then what comes.
func (s *Server) follow(ctx context.Context, d *sender) error {
	r := d.run
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	if err := d.flush(); err != nil { // the client learns at once that it is served
		return err
	}
	for {
		p := r.log.read(d.at)
		if p.behind {
			if err := d.catchUp(ctx); err != nil {
				return err
			}
			continue
		}
		for _, e := range p.entries {
			at := cursor{log: r.log.name, seq: e.seq, position: e.pos}
			d.write(nil, e.data, at)
		}
		if p.closed {
			return d.finish()
		}
		if len(p.entries) > 0 {
			if err := d.flush(); err != nil {
				return err
			}
			continue
		}
		var settled <-chan time.Time
		if d.form != nil && len(r.waits()) > 0 {
			settled = time.After(settling)
		}
		select {
		case <-p.changed:
		case <-settled:
			if questions := r.waits(); len(questions) > 0 {
				d.asks(questions)
				return d.finish()
			}
		case <-tick.C:
			if err := d.comment("still working"); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish sends the end of a stream. If another process goes on with the run, that is not the end of a form.
func (d *sender) finish() error {
	if d.form != nil && !d.over {
		_ = d.flush() // the client is gone
		d.breaks()
	}
	if d.form != nil && d.form.last != "" {
		d.message("", []byte(d.form.last))
	}
	return d.flush()
}

// catchUp sends what a client misses before a place in the log from which it can go on: whole turns, from the journal, and of
// the turn in which it stopped, in this process or another, what the log has and it has not.
func (d *sender) catchUp(ctx context.Context) error {
	seen := d.at.position
	base, events, at := d.run.log.turn(seen)
	if base.turn > seen.turn {
		if _, err := d.replay(ctx, base.turn); err != nil {
			return err
		}
	} else {
		for _, ev := range missed(seen.turn, events, seen) {
			if err := d.again(ev); err != nil {
				return err
			}
		}
	}
	at.run = d.at.run
	d.at = at
	return d.flush()
}

// again sends an event that was made again, or is sent again.
func (d *sender) again(ev aycoder.Event) error {
	d.write(ev, encode(ev), cursor{log: "-", position: d.at.after(ev)})
	if d.buf.Len() > 64<<10 {
		return d.flush()
	}
	return nil
}

// replay sends events from the journal, up to a number of turns.
func (d *sender) replay(ctx context.Context, turns int) (*replay, error) {
	return d.run.c.replayed(ctx, d.run.inSession(), d.at.position, turns, d.again)
}

// past sends a run that is over and of which this process has no log.
func (s *Server) past(ctx context.Context, d *sender) error {
	p, err := d.replay(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	c, run := d.run.c, d.run.inSession()
	res, failed := p.result(), error(nil)
	if why := new(problem); c.kept(failedValue+run, why) {
		if failed = why; res.End != aycoder.EndCancelled {
			res.End = aycoder.EndFailed
		}
	}
	if left := c.pending(true); left != nil && left.Run == run {
		res.End, failed = aycoder.EndFailed, interrupted(left, true)
	}
	d.write(&aycoder.RunFinished{Result: res}, ending(res, failed), d.at)
	return d.finish()
}

// pending returns the run that is left to be gone on with, or nil: that of the conversation, or the last call.
func (c *conversation) pending(call bool) *aycoder.Pending {
	if !call {
		return c.rt.Session.Pending()
	}
	if b := c.rt.Session.BranchOf(callsBranch); b != nil {
		return b.Pending()
	}
	return nil
}

// interrupted says what became of a run that its process has left and with which nobody goes on.
func interrupted(p *aycoder.Pending, call bool) *problem {
	why := "the server ended while the call worked; its outcome is unknown"
	if !call {
		why = "the server ended while the run worked, and another message came before it went on"
	} else if slices.ContainsFunc(p.State.Outstanding(), func(a aycoder.Action) bool {
		_, asks := a.(*aycoder.AskApproval)
		_, begins := a.(*aycoder.CallModel)
		return asks || begins && p.State.Turn() == 0
	}) {
		why = "the server ended before the call began; it was not run"
	}
	return refuse(http.StatusConflict, "interrupted", why)
}

// known reports whether the session has the run.
func (c *conversation) known(run string) bool { return hasRun(c.rt.Session.View(), run) }

func hasRun(v *session.View, run string) bool {
	for n := range allNodes(v) {
		if n.Run == run {
			return true
		}
	}
	return false
}

// runStart is the first event of the stream that answers a prompt. It is not an event of the library.
type runStart struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Run     string `json:"run"`
	Session string `json:"session"`
	Model   string `json:"model,omitempty"`
}

func (r *run) start() []byte {
	x := runStart{Type: "run_start", Version: 1, Run: r.id, Session: r.c.id}
	if namer, ok := aycoder.As[aycoder.ModelNamer](r.c.rt.Client); ok {
		provider, model := namer.ModelName()
		x.Model = provider + "/" + model
	}
	data, _ := json.Marshal(x) // texts always encode
	return data
}
