package server

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
)

const (
	keepAlive = 15 * time.Second       // between comments, so that proxies do not end a quiet stream
	settling  = 100 * time.Millisecond // in which the calls beside one that asks begin
	stalled   = 2 * time.Minute        // after which a client that reads nothing is cut off
)

// An encoding is a form of the events of a run for clients of some kind.
type encoding interface {
	// begin returns what comes first.
	begin() [][]byte
	// event encodes an event, given as its JSON form, too. It may return nothing.
	event(ev aycoder.Event, data []byte) [][]byte
	// asks encodes what a run waits for. It is the last of the stream.
	asks(questions []question) [][]byte
	// end returns what comes last, once the run is over or asks.
	end() [][]byte
}

// A sender writes the events of a run to one client.
type sender struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	at   cursor
	run  string   // its id, for a form
	form encoding // nil for the events as they are
	over bool     // the form has told how the run ends, or what it asks
	buf  bytes.Buffer
}

func newSender(w http.ResponseWriter, at cursor, form encoding) *sender {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of a proxy that would collect the stream
	rc := http.NewResponseController(w)
	d := &sender{w: w, rc: rc, at: at, form: form}
	if form != nil {
		d.lines(form.begin())
	}
	return d
}

// lines adds messages of the form to what is sent next.
func (d *sender) lines(all [][]byte) {
	for _, line := range all {
		d.message("", line)
	}
}

// write adds an event to what is sent next.
func (d *sender) write(ev aycoder.Event, data []byte, at cursor) error {
	d.at = at
	if d.form != nil {
		if ev == nil {
			var err error
			if ev, err = aycoder.DecodeEvent(data); err != nil {
				return nil // of a newer kind
			}
		}
		if end, ok := ev.(*aycoder.RunFinished); ok {
			d.over = true
			if end.Result.End == aycoder.EndSuspended && d.suspended(data) {
				return nil
			}
		}
		d.lines(d.form.event(ev, data))
		return nil
	}
	d.message(at.String(), data)
	return nil
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

// stream counts a stream of a principal. The caller must call the function that it returns.
func (s *Server) stream(r *http.Request) (func(), error) {
	who := principalOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[who] >= s.limits.Streams {
		p := tooMany()
		p.Detail = "too many streams at the same time"
		return nil, p
	}
	s.streams[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.streams[who]--; s.streams[who] == 0 {
			delete(s.streams, who)
		}
	}, nil
}

// follow sends what a client misses of a run, and then what comes, until the run is over or the client is gone.
func (s *Server) follow(ctx context.Context, d *sender, r *run) error {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	if err := d.flush(); err != nil { // the client learns at once that it is served
		return err
	}
	for {
		p := r.log.read(d.at)
		if p.behind {
			if err := s.catchUp(ctx, d, r, p); err != nil {
				return err
			}
			continue
		}
		for _, e := range p.entries {
			at := cursor{log: r.log.name, seq: e.seq, position: e.pos}
			if err := d.write(nil, e.data, at); err != nil {
				return err
			}
		}
		if p.closed {
			return s.finish(d)
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
		quiet, err := wait(ctx, d, p.changed, tick.C, settled)
		if err != nil {
			return err
		}
		if quiet && d.asks(r) {
			return s.finish(d)
		}
	}
}

// wait waits until the log has changed, or reports that nothing has come until a run that waits for answers has settled.
func wait(ctx context.Context, d *sender, changed <-chan struct{}, tick, settled <-chan time.Time) (quiet bool, err error) {
	for {
		select {
		case <-changed:
			return false, nil
		case <-settled:
			return true, nil
		case <-tick:
			if err := d.comment("still working"); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// finish sends the end of a stream. If another process goes on with the run, the clients of a form must not take the end
// of the stream for that of the run, so the connection breaks.
func (s *Server) finish(d *sender) error {
	if d.form != nil {
		if !d.over {
			_ = d.flush() // the client is gone
			panic(http.ErrAbortHandler)
		}
		d.lines(d.form.end())
	}
	return d.flush()
}

// catchUp sends events from the journal, up to those that the log has.
func (s *Server) catchUp(ctx context.Context, d *sender, r *run, p page) error {
	if p.base.turn > d.at.turn || p.facts > 0 && !p.base.fresh() {
		_, run, _ := splitRun(r.id)
		if err := s.replay(ctx, d, r.c, run, p.base, p.facts); err != nil {
			return err
		}
	}
	if d.at.turn == p.base.turn && !d.at.fresh() && p.base.fresh() { // what it has of this turn is from another process
		ev := &aycoder.Retrying{Discarded: true, Attempt: 1, Err: errAgain}
		if err := d.write(ev, encode(ev), cursor{log: "-", position: p.base}); err != nil {
			return err
		}
	}
	d.at = cursor{log: r.log.name, seq: p.dropped, position: p.base}
	return d.flush()
}

// replay sends events from the journal.
func (s *Server) replay(ctx context.Context, d *sender, c *conversation, run string, base position, facts int) error {
	_, err := c.replayed(ctx, run, d.at.position, base, facts, func(ev aycoder.Event) error {
		at := cursor{log: "-", position: d.at.after(ev)}
		if err := d.write(ev, encode(ev), at); err != nil {
			return err
		}
		if d.buf.Len() > 64<<10 {
			return d.flush()
		}
		return nil
	})
	return err
}

// past sends a run that is over and of which this process has no log.
func (s *Server) past(ctx context.Context, d *sender, c *conversation, run string) error {
	p, err := c.replayed(ctx, run, d.at.position, position{}, math.MaxInt, func(ev aycoder.Event) error {
		if err := d.write(ev, encode(ev), cursor{log: "-", position: d.at.after(ev)}); err != nil || d.buf.Len() <= 64<<10 {
			return err
		}
		return d.flush()
	})
	if err != nil {
		return err
	}
	res := p.result()
	failed := c.failures.of(run)
	if failed != nil && res.End != aycoder.EndCancelled {
		res.End = aycoder.EndFailed
	}
	if b := c.rt.Session.BranchOf(callsBranch); b != nil && b.Pending() != nil && b.Pending().Run == run {
		res.End, failed = aycoder.EndFailed, refuse(http.StatusConflict, "interrupted", "the server ended while the call worked; its outcome is unknown")
	}
	if err := d.write(&aycoder.RunFinished{Result: res}, ending(res, failed), d.at); err != nil {
		return err
	}
	return s.finish(d)
}

// known reports whether the session has the run.
func (c *conversation) known(run string) bool {
	v := c.rt.Session.View()
	for i := v.Len() - 1; i >= 0; i-- {
		if n := v.Node(nodeID(i)); n != nil && n.Run == run {
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
