package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode/utf8"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/workspace"
)

// A budget bounds how many files are stored, how large each is, and how large all are.
type budget struct {
	count       int
	bytes, size int64
}

// take uses up a part of the budget.
func (b *budget) take(size int64) error {
	if b.count--; b.count < 0 || b.bytes < size {
		return fmt.Errorf("too many files, or too large ones, were new at the same time: %w", ErrNoRoom)
	}
	b.bytes -= size
	return nil
}

// capture returns the state of a file, and stores its content if no commit holds it. An error means
// that the content could not be stored, or that ctx has ended.
func (t *Tracker) capture(ctx context.Context, f *trackedFile, info fs.FileInfo, b *budget) (State, error) {
	s := State{Kind: KindFile, Mode: info.Mode().Perm(), Size: info.Size()}
	data, err := []byte(nil), context.Cause(ctx)
	switch mode := info.Mode(); {
	case err != nil:
		return s, err
	case !utf8.ValidString(f.path):
		err = errors.New("its name is not valid UTF-8")
	case mode.IsDir():
		s.Kind, s.Size = KindDir, 0
		return s, nil
	case mode&fs.ModeSymlink != 0:
		var to string
		to, err = t.ws.ReadLink(f.path)
		s.Kind, s.Mode, data = KindLink, 0, []byte(to)
	case !mode.IsRegular():
		s.Kind, err = KindOther, errors.New("it is not a regular file")
	default:
		data, err = t.read(f.path, b.size)
	}
	if err == nil {
		s.Hash, s.Size = journal.HashOf(data), int64(len(data))
		if was := f.state; was.Hash == s.Hash { // it is held
			s.Git = was.Git
		} else {
			if s.Kind == KindFile {
				repo, name := t.repo.of(f.path)
				s.Git = repo.BlobOf(name, data)
			}
			if s.Git == "" {
				err = b.take(s.Size)
			}
			if s.Git == "" && err == nil {
				err = t.objects.Put(ctx, s.Hash, data)
			}
			if err != nil && !errors.Is(err, ErrNoRoom) {
				return s, fmt.Errorf("store %s: %w", f.path, err)
			}
		}
	}
	if err != nil {
		s.NotHeld, s.Hash, s.Time = err.Error(), "", info.ModTime()
		if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindSensitivePath {
			s.NotHeld = "files of this name hold secrets"
		}
	}
	return s, nil
}

// read returns the content of a regular file.
func (t *Tracker) read(name string, limit int64) ([]byte, error) {
	f, err := t.ws.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data bytes.Buffer
	info, err := f.Stat()
	if err == nil && info.Size() <= limit {
		data.Grow(int(info.Size()) + bytes.MinRead)
		_, err = data.ReadFrom(io.LimitReader(f, limit+1)) // it may grow
	}
	if err == nil && max(info.Size(), int64(data.Len())) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data.Bytes(), err
}
