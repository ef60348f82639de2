package session

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aycoder/aycoder/snapshot"
)

// spareJournal is the journal of a session that goes on in memory: see [WithoutStopping]. Once an
// object cannot be stored, it keeps objects in memory, within a bound, and refuses records: none
// must name an object that the journal does not have.
type spareJournal struct {
	Journal
	held   snapshot.Memory
	failed atomic.Pointer[error]
}

// spare returns a journal that goes on in memory if the host wants that.
func (c *config) spare(j Journal) Journal {
	if !c.memory {
		return j
	}
	return &spareJournal{Journal: j}
}

// Put implements [Journal].
func (j *spareJournal) Put(ctx context.Context, hash Hash, data []byte) error {
	err := j.Journal.Put(ctx, hash, data)
	if err == nil || ctx.Err() != nil {
		return err
	}
	j.failed.Store(&err)
	if full := j.held.Put(ctx, hash, data); full != nil {
		return fmt.Errorf("%w: %w", full, err)
	}
	return nil
}

// Get implements [Journal].
func (j *spareJournal) Get(ctx context.Context, hash Hash) ([]byte, error) {
	if data, err := j.held.Get(ctx, hash); err == nil {
		return data, nil
	}
	return j.Journal.Get(ctx, hash)
}

// Append implements [Journal].
func (j *spareJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	if failed := j.failed.Load(); failed != nil {
		return *failed
	}
	return j.Journal.Append(ctx, durable, records...)
}
