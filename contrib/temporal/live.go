package temporal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aycoder/aycoder/journal"
)

// live is a session that this process has open, or is about to open. Steps that work at the same time share it, and the
// run in it.
type live struct {
	worker *Worker
	id     string
	turn   chan struct{} // one slot: opens and closes the session
	agent  *Agent        // nil if it is not open

	// The mutex of the worker guards these.
	users  int
	broken bool // it must be opened again
	idle   *time.Timer

	mu  sync.Mutex
	run *attempt // that works, or nil
}

// enter opens a session, and waits while another process has it. release must follow.
func (w *Worker) enter(ctx context.Context, id string) (*live, error) {
	w.mu.Lock()
	l := w.lives[id]
	if l == nil {
		l = &live{worker: w, id: id, turn: make(chan struct{}, 1)}
		w.lives[id] = l
	}
	l.users++
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	w.mu.Unlock()
	err := l.open(ctx)
	if err != nil {
		_ = l.release(true)
		return nil, failure(err)
	}
	return l, nil
}

func (l *live) open(ctx context.Context) (err error) {
	defer guard(&err)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for wait := 5 * time.Millisecond; l.agent == nil; wait = min(2*wait, time.Second) {
		agent, err := l.worker.config.Open(ctx, l.id)
		if _, busy := errors.AsType[*journal.BusyError](err); busy {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err != nil {
			return err
		}
		if agent == nil || agent.Session == nil {
			return errors.New("Config.Open has opened no session")
		}
		if agent.Agent == nil {
			agent.Agent = agent.Session
		}
		if agent.Close == nil {
			agent.Close = agent.Session.Close
		}
		l.agent = agent
	}
	return nil
}

// release ends a use of the session. If it was the last one, the session is closed now or, for the next step, later.
func (l *live) release(now bool) error {
	w := l.worker
	w.mu.Lock()
	l.users--
	last := l.users <= 0
	if last && !now && !l.broken {
		l.users = 0
		l.idle = time.AfterFunc(w.config.Keep, func() {
			w.mu.Lock()
			l.users++
			w.mu.Unlock()
			_ = l.release(true) // what was acknowledged is stored
		})
		last = false
	}
	w.mu.Unlock()
	if !last {
		return nil
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	w.mu.Lock()
	agent := l.agent
	if l.users > 0 { // the next step was quicker
		agent = nil
	} else {
		l.users, l.agent, l.broken = 0, nil, false
		delete(w.lives, l.id)
	}
	w.mu.Unlock()
	if agent == nil {
		return nil
	}
	return agent.Close()
}
