package session

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"sync"
)

// WithLateCreate makes [New] leave the store alone until something is said: the session is created with the first
// record of a run or of a message, and what was set before, such as a title, is recorded with it. A session in which
// nothing is said leaves nothing in the store, and an error of the store is one of the first run. Default: New
// creates the session.
func WithLateCreate() Option {
	return func(c *config) error {
		c.late = true
		return nil
	}
}

// lateJournal is the journal of a session that is created late. An object that has to be stored before something is
// said creates the session as well, which is then deleted if nothing follows.
type lateJournal struct {
	store Store
	id    string

	mu     sync.Mutex
	made   Journal  // nil until something is stored
	held   [][]byte // records that have not been stored
	closed bool
}

// says reports whether one of the records is more than a setting of a session in which nothing has been said.
func says(records []*record) bool {
	settings := []string{kindHeader, kindValue, kindKeep, kindHead, kindMove, kindLabel, kindTitle}
	return slices.ContainsFunc(records, func(r *record) bool { return !slices.Contains(settings, r.Kind) })
}

// hold keeps records until something is said. It reports false if that was already.
func (j *lateJournal) hold(records [][]byte) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.whole() {
		return false
	}
	j.held = append(j.held, records...)
	return true
}

// create returns the journal of the store.
func (j *lateJournal) create(ctx context.Context) (Journal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return nil, &JournalError{Op: "create", Session: j.id, Err: fs.ErrClosed}
	case j.made != nil:
		return j.made, nil
	}
	made, err := j.store.Create(ctx, j.id)
	if err == nil {
		j.made = made
	}
	return made, err
}

// begin creates the journal, with the records that were held. It may be called again after an error.
func (j *lateJournal) begin(ctx context.Context) error {
	made, err := j.create(ctx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.held) == 0 {
		return nil
	}
	if err := made.Append(ctx, false, j.held...); err != nil { // what follows is durable, or need not be
		return err
	}
	j.held = nil
	return nil
}

// said reports whether something has been said, so that everything is in the store.
func (j *lateJournal) said() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.whole()
}

// whole is said, with the mutex held.
func (j *lateJournal) whole() bool { return len(j.held) == 0 && j.made != nil }

// now returns the journal of the store, or nil.
func (j *lateJournal) now() Journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.made
}

// Append implements [Journal].
func (j *lateJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	if err := j.begin(ctx); err != nil {
		return err
	}
	return j.now().Append(ctx, durable, records...)
}

// Records implements [Journal].
func (j *lateJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.whole() {
		return j.made.Records(ctx)
	}
	held := slices.Clone(j.held)
	return func(yield func([]byte, error) bool) {
		for _, r := range held {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Put implements [Journal].
func (j *lateJournal) Put(ctx context.Context, hash Hash, data []byte) error {
	made, err := j.create(ctx)
	if err != nil {
		return err
	}
	return made.Put(ctx, hash, data)
}

// Get implements [Journal].
func (j *lateJournal) Get(ctx context.Context, hash Hash) ([]byte, error) {
	if made := j.now(); made != nil {
		return made.Get(ctx, hash)
	}
	return nil, &JournalError{Op: "read from", Session: j.id, Err: fs.ErrNotExist}
}

// Rewrite implements [Journal]. Records that are held are as short as they can be.
func (j *lateJournal) Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(Hash) bool) error {
	if !j.said() {
		return ctx.Err()
	}
	return j.now().Rewrite(ctx, records, keep)
}

// Describe implements [Journal]. There is nothing to list before something is said.
func (j *lateJournal) Describe(ctx context.Context, e Entry) error {
	if !j.said() {
		return ctx.Err()
	}
	return j.now().Describe(ctx, e)
}

// Close implements [Journal].
func (j *lateJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.closed
	j.closed = true
	if was || j.made == nil {
		return nil
	}
	err := j.made.Close()
	if len(j.held) > 0 {
		err = errors.Join(err, j.store.Delete(context.Background(), j.id))
	}
	return err
}

// inStore returns what a journal writes to: that of the store, or nil if there is none yet.
func inStore(j Journal) Journal {
	if spare, ok := j.(*spareJournal); ok {
		j = spare.Journal
	}
	if late, ok := j.(*lateJournal); ok {
		j = late.now()
	}
	return j
}
