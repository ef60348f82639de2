package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/whole"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
)

// maxOutputs bounds the whole outputs of tools that a session keeps, in bytes.
const maxOutputs = 64 << 20

// keptOutput is the whole output of a call, of which the conversation has only a part. It is an object.
// Only a key that is recorded leads to one: other objects are contents of files, with their secrets.
type keptOutput struct {
	Key  string       `json:"key"`
	Hash journal.Hash `json:"hash"`
	Size int64        `json:"size"`
}

// outputs are the outputs that a session keeps, the oldest first.
type outputs struct {
	list []*keptOutput
	size int64
	gone []journal.Hash // those that made room, and may not be removed yet
}

// add adds an output. The oldest ones make room for it.
func (o *outputs) add(k *keptOutput) {
	if k == nil || k.Size < 0 || k.Size > maxOutputs { // of a record that another program wrote
		return
	}
	o.list, o.size = append(o.list, k), o.size+k.Size
	n := 0
	for ; o.size > maxOutputs; n++ {
		o.size -= o.list[n].Size
		o.gone = append(o.gone, o.list[n].Hash)
	}
	o.list = slices.Delete(o.list, 0, n)
}

func (o *outputs) find(key string) *keptOutput {
	if i := slices.IndexFunc(o.list, func(k *keptOutput) bool { return k.Key == key }); i >= 0 {
		return o.list[i]
	}
	return nil
}

// outputStore is the [whole.Store] of a session.
type outputStore struct{ *Session }

// Put implements [whole.Store].
func (s outputStore) Put(ctx context.Context, key string, data []byte) error {
	object := append([]byte("output "+key+" of session "+s.id+"\n"), data...)
	k := &keptOutput{Key: key, Hash: journal.HashOf(object), Size: int64(len(object))}
	remover, removes := s.journal.now().(remover)
	s.mu.Lock()
	err := s.usable("keep an output")
	if err == nil && (k.Size > maxOutputs || !removes && s.outputs.size+k.Size > maxOutputs) {
		err = snapshot.ErrNoRoom
	}
	known := s.outputs.find(key) != nil
	s.mu.Unlock()
	if err != nil || known {
		return err
	}
	if err := s.journal.Put(ctx, k.Hash, object); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("keep an output"); err != nil {
		return err
	}
	if s.outputs.find(key) == nil {
		if err := s.write(ctx, false, &record{Kind: kindOutput, Output: k}); err != nil {
			return err
		}
	}
	for _, h := range s.outputs.gone {
		if removes {
			_ = remover.Remove(ctx, h) // if it stays, Trim removes it
		}
	}
	s.outputs.gone = nil
	return nil
}

// Get implements [whole.Store].
func (s outputStore) Get(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	k := s.outputs.find(key)
	s.mu.Unlock()
	if k == nil {
		return nil, fmt.Errorf("output %.80q: %w", key, fs.ErrNotExist)
	}
	data, err := s.journal.Get(ctx, k.Hash)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(data), "\n")
	return []byte(rest), nil
}

// A remover is a [journal.Journal] that can remove an object.
type remover interface {
	Remove(ctx context.Context, hash journal.Hash) error
}

// outputsOn returns the outputs to which some nodes point.
func (s *Session) outputsOn(v *View, ids []ID) []*keptOutput {
	const pointer = 256 // bytes at the end of an output
	keys := map[string]bool{}
	for _, m := range v.loaded(ids) {
		if m == nil {
			continue
		}
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				text := o.Text()
				for _, key := range whole.Keys(text[max(0, len(text)-pointer):]) {
					keys[key] = true
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.outputs.list), func(k *keptOutput) bool { return !keys[k.Key] })
}

// copyOutputs copies outputs into another session. Those that made room meanwhile are left out.
func (s *Session) copyOutputs(ctx context.Context, to *Session, all []*keptOutput) error {
	for _, k := range all {
		data, err := outputStore{s}.Get(ctx, k.Key)
		if err == nil {
			err = outputStore{to}.Put(ctx, k.Key, data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
