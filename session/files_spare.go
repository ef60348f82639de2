package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// maxSpare bounds the objects that are kept in memory, in bytes.
const maxSpare = 64 << 20

var errNoJournal = errors.New("there is no session")

// spareJournal is the journal of a session that goes on in memory: see [WithoutStopping]. Once an
// object cannot be stored, it keeps objects in memory, within a bound, and refuses records: none
// must name an object that the journal does not have. Without a journal, it only keeps objects.
type spareJournal struct {
	Journal

	mu     sync.Mutex
	failed error
	held   map[Hash][]byte
	size   int
}

// spare returns a journal that goes on in memory if the host wants that.
func (c *config) spare(j Journal) Journal {
	if !c.memory {
		return j
	}
	return &spareJournal{Journal: j, held: map[Hash][]byte{}}
}

// Put implements [Journal].
func (j *spareJournal) Put(ctx context.Context, hash Hash, data []byte) error {
	err := errNoJournal
	if j.Journal != nil {
		err = j.Journal.Put(ctx, hash, data)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = err
	if j.held[hash] != nil {
		return nil
	}
	if j.size += len(data); j.size > maxSpare {
		j.size -= len(data)
		return fmt.Errorf("%w: %w", errNoRoom, err)
	}
	j.held[hash] = append([]byte{}, data...)
	return nil
}

// Get implements [Journal].
func (j *spareJournal) Get(ctx context.Context, hash Hash) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if data := j.held[hash]; data != nil {
		return bytes.Clone(data), nil
	}
	if j.Journal == nil {
		return nil, fs.ErrNotExist
	}
	return j.Journal.Get(ctx, hash)
}

// Append implements [Journal].
func (j *spareJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return j.failed
	}
	return j.Journal.Append(ctx, durable, records...)
}
