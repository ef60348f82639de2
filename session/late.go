package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
)

// WithLateCreate makes [New] leave the store alone until something is said: the session is created with the first
// record of a run or of a message, and what was set before, such as a title, is recorded with it. A session in which
// nothing is said leaves nothing in the store, and an error of the store is one of the first run. Default: New
// creates the session.
func WithLateCreate() Option {
	return func(c *config) error { c.late = true; return nil }
}

// A depot is where a session is kept: its journal, which is perhaps created late, and the memory in which a
// session goes on if its journal fails. It implements [snapshot.Objects].
//
// An object that has to be stored before something is said creates the session as well, which is then deleted if
// nothing follows. Once an object is only in memory, no more records are taken: none must name an object that the
// journal does not have.
type depot struct {
	store journal.Store
	id    string
	spare bool // see WithoutStopping

	mu      sync.Mutex
	journal journal.Journal // nil until something is stored
	held    [][]byte        // records that have not been stored
	closed  bool
	failed  error // why an object is only in memory
	memory  snapshot.Memory
}

// says reports whether one of the records is more than a setting of a session in which nothing has been said.
func says(records []*record) bool {
	settings := []string{kindHeader, kindValue, kindKeep, kindHead, kindMove, kindLabel, kindTitle}
	return slices.ContainsFunc(records, func(r *record) bool { return !slices.Contains(settings, r.Kind) })
}

// hold keeps records until something is said. It reports false if that was already.
func (d *depot) hold(records [][]byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.held) == 0 && d.journal != nil {
		return false
	}
	d.held = append(d.held, records...)
	return true
}

// create returns the journal. The mutex is held.
func (d *depot) create(ctx context.Context) (_ journal.Journal, err error) {
	switch {
	case d.closed:
		err = &journal.OpError{Op: "create", Session: d.id, Err: fs.ErrClosed}
	case d.journal == nil:
		var made journal.Journal
		if made, err = d.store.Create(ctx, d.id); err == nil {
			d.journal = made
		}
	}
	return d.journal, err
}

// begin stores the records that were held. It may be called again after an error.
func (d *depot) begin(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	j, err := d.create(ctx)
	if err == nil && len(d.held) > 0 {
		err = j.Append(ctx, false, d.held...) // what follows is durable, or need not be
	}
	if err == nil {
		d.held = nil
	}
	return err
}

// append appends records, after begin.
func (d *depot) append(ctx context.Context, durable bool, records [][]byte) error {
	d.mu.Lock()
	j, err := d.journal, d.failed
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return j.Append(ctx, durable, records...)
}

// now returns the journal, or nil if nothing is stored.
func (d *depot) now() journal.Journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journal
}

// whole returns the journal, or nil if it does not have all records yet.
func (d *depot) whole() journal.Journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.held) > 0 {
		return nil
	}
	return d.journal
}

// Put implements [snapshot.Objects].
func (d *depot) Put(ctx context.Context, hash journal.Hash, data []byte) error {
	d.mu.Lock()
	j, err := d.create(ctx)
	d.mu.Unlock()
	if err == nil {
		err = j.Put(ctx, hash, data)
	}
	if err == nil || ctx.Err() != nil || !d.spare {
		return err
	}
	d.mu.Lock()
	d.failed = err
	d.mu.Unlock()
	if full := d.memory.Put(ctx, hash, data); full != nil {
		return fmt.Errorf("%w: %w", full, err)
	}
	return nil
}

// Get implements [snapshot.Objects].
func (d *depot) Get(ctx context.Context, hash journal.Hash) ([]byte, error) {
	data, err := d.memory.Get(ctx, hash)
	if j := d.now(); err != nil && j != nil {
		return j.Get(ctx, hash)
	}
	return data, err
}

// Paths returns what the tracker leaves alone.
func (d *depot) Paths() []string {
	if s, ok := d.store.(interface{ Paths() []string }); ok {
		return s.Paths()
	}
	return nil
}

// close closes the journal. A second close returns nil.
func (d *depot) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.closed
	if d.closed = true; was || d.journal == nil {
		return nil
	}
	err := d.journal.Close()
	if len(d.held) > 0 {
		err = errors.Join(err, d.store.Delete(context.Background(), d.id))
	}
	return err
}
