package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// eventsAnywhere is events also for a run that works in another process.
func (s *Server) eventsAnywhere(w http.ResponseWriter, r *http.Request) error {
	err := s.inRun(s.events)(w, r)
	if s.feed == nil || !asA[*journal.BusyError](err) {
		return err
	}
	at, err := parseCursor(r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	at = at.in(r.PathValue("run"))
	id, run, _ := splitRun(r.PathValue("run"))
	store := s.host.Store(principalOf(r))
	v, _, err := session.Read(r.Context(), store, id)
	if err == nil && !hasRun(v, run) {
		err = notFound()
	}
	if err != nil {
		return err
	}
	return Stream(w, r, func(ctx context.Context) iter.Seq2[Followed, error] {
		return func(yield func(Followed, error) bool) {
			for f, err := range Follow(ctx, store, s.host.Feed, id, run, opaque(followedID{Run: run, At: at})) {
				var place followedID
				if err == nil && transparent(f.ID, &place) == nil {
					place.At.run = at.run
					f.ID = place.At.String() // which any process understands
				}
				if !yield(f, err) {
					return
				}
			}
		}
	})
}

// Stream answers a request with events, as server-sent events whose ids are those of the elements: see [Follow]. It returns when
// the events end or the client is gone. If there is an error before the first event, within a quarter of a second, nothing was sent
// and Stream returns the error. After any other one, the answer just ends: its client has no [aycoder.RunFinished], and asks again.
func Stream(w http.ResponseWriter, r *http.Request, follow func(ctx context.Context) iter.Seq2[Followed, error]) error {
	ctx, cancel := context.WithCancel(r.Context())
	list := make(chan Followed)
	var failed error
	go func() {
		defer close(list)
		for f, err := range follow(ctx) {
			if failed = err; err != nil {
				return
			}
			select {
			case list <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range list { // until its goroutine has ended
		}
	}()
	var d *sender
	begin := func() {
		if d == nil {
			d = newSender(w, cursor{}, nil, nil)
		}
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	at := time.After(quiet) // by when the client learns that it is served
	for {
		var err error
		select {
		case f, more := <-list:
			if !more && d == nil && failed != nil {
				return failed
			}
			begin()
			if more {
				data := encode(f.Event)
				if end, ok := f.Event.(*aycoder.RunFinished); ok {
					data = ending(end.Result, nil)
				}
				d.message(f.ID, data)
			}
			if err = d.flush(); err == nil && !more {
				return nil
			}
		case <-at:
			begin()
			err = d.flush()
		case <-tick.C:
			begin()
			err = d.comment("still working")
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return nil // nobody is there to read an error
		}
	}
}

// polled is a store whose readers have records that do not end.
type polled struct{ journal.Store }

// Open implements [journal.Store].
func (s polled) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	j, err := s.Store.Open(ctx, id, write)
	if err != nil {
		return nil, err
	}
	return polledJournal{j}, nil
}

type polledJournal struct{ journal.Journal }

var errFewer = errors.New("the journal was rewritten")

// Records implements [journal.Journal].
func (j polledJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for shown := 0; ; {
			n := 0
			for r, err := range j.Journal.Records(ctx) {
				if err != nil && !asA[*journal.DamageError](err) {
					yield(nil, err)
					return
				}
				if n++; n <= shown {
					continue
				}
				if shown = n; !yield(r, err) {
					return
				}
			}
			if n < shown {
				yield(nil, errFewer)
				return
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}
