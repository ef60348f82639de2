package journal

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Sizer is a [Store] that knows how much space a session takes. The stores of this library
// implement it.
type Sizer interface {
	// Size returns the number of bytes that a session takes.
	Size(ctx context.Context, id string) (int64, error)
}

// Prune deletes the sessions that were last used before the given time. If the other ones take
// more than maxBytes, Prune also deletes the oldest of them, until they take no more than that. It
// returns the ids of the deleted sessions, also if it returns an error.
//
// A session that is open for writing is never deleted, but its bytes count. With a zero time, no
// session is too old. If maxBytes is not positive, or the Store is not a [Sizer], sessions may take
// any space.
func Prune(ctx context.Context, s Store, before time.Time, maxBytes int64) (deleted []string, err error) {
	type sized struct {
		Entry
		bytes int64
	}
	var list []sized
	var total int64
	sizer, ok := s.(Sizer)
	for e, err := range s.List(ctx) {
		if err != nil {
			return nil, err
		}
		x := sized{Entry: e}
		if ok && maxBytes > 0 {
			if x.bytes, err = sizer.Size(ctx, e.ID); ignoreMissing(err) != nil {
				return nil, err
			}
		}
		total += x.bytes
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b sized) int { return a.Used.Compare(b.Used) })
	for _, x := range list {
		if !x.Used.Before(before) && (maxBytes <= 0 || total <= maxBytes) {
			break
		}
		err := s.Delete(ctx, x.ID)
		if _, busy := errors.AsType[*BusyError](err); busy {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have deleted it
			return deleted, err
		}
		total -= x.bytes
		deleted = append(deleted, x.ID)
	}
	return deleted, nil
}
