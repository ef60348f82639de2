package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode/utf8"

	"github.com/aycoder/aycoder/workspace"
)

// A budget bounds what is stored.
type budget struct {
	count       int
	bytes, size int64
}

// capture returns the state of a file, and stores its content if no commit holds it. An error means
// that the content could not be stored, or that ctx has ended.
func (t *tracker) capture(ctx context.Context, name string, info fs.FileInfo, b *budget) (FileState, error) {
	s := FileState{Kind: KindFile, Mode: info.Mode().Perm(), Size: info.Size()}
	var data []byte
	var err error
	switch mode := info.Mode(); {
	case mode.IsDir():
		s.Kind, s.Size = KindDir, 0
	case mode&fs.ModeSymlink != 0:
		var to string
		to, err = t.fs.ReadLink(name)
		s.Kind, s.Mode, data = KindLink, 0, []byte(to)
	case !mode.IsRegular():
		s.Kind, s.NotHeld = KindOther, "it is not a regular file"
	case s.Size > b.size:
		s.NotHeld = fmt.Sprintf("it is larger than %d bytes", b.size)
	default:
		data, err = t.read(name, b.size)
	}
	if err != nil {
		s.NotHeld = reasonOf(err)
	}
	if !utf8.ValidString(name) {
		s.NotHeld = "its name is not valid UTF-8"
	}
	if s.NotHeld != "" {
		s.Time = info.ModTime()
	}
	if s.NotHeld != "" || s.Kind == KindDir {
		return s, context.Cause(ctx)
	}
	s.Hash, s.Size = HashOf(data), int64(len(data))
	t.mu.Lock()
	stored := t.stored[s.Hash]
	if !stored {
		if s.Git = t.repo.blobOf(name, s.Kind, data); s.Git == "" {
			if b.count--; b.count >= 0 {
				b.bytes -= s.Size
			}
		}
	}
	over := b.count < 0 || b.bytes < 0
	t.mu.Unlock()
	switch {
	case stored || s.Git != "":
	case over:
		s.NotHeld, s.Hash, s.Time = "too many files, or too large ones, were new at the same time", "", info.ModTime()
	default:
		return s, t.store(ctx, name, s.Hash, data)
	}
	return s, nil
}

// store stores an object, unless that was done before.
func (t *tracker) store(ctx context.Context, name string, hash Hash, data []byte) error {
	t.mu.Lock()
	stored := t.stored[hash]
	t.mu.Unlock()
	if stored {
		return nil
	}
	if err := t.put(ctx, hash, data); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	t.mu.Lock()
	t.stored[hash] = true
	t.mu.Unlock()
	return nil
}

// reasonOf returns why a file cannot be read.
func reasonOf(err error) string {
	e, ok := errors.AsType[*workspace.Error](err)
	switch {
	case ok && e.Kind == workspace.KindSensitivePath:
		return "files of this name hold secrets"
	case ok:
		return e.Err.Error()
	}
	return err.Error()
}

// read returns the content of a regular file.
func (t *tracker) read(name string, limit int64) ([]byte, error) {
	f, err := t.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}
