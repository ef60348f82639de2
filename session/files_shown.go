package session

import (
	"context"
	"fmt"

	"github.com/aycoder/aycoder/workspace"
)

// trackShown tracks the files that the model was shown.
func (t *tracker) trackShown(ctx context.Context) error {
	for _, s := range t.fs.Seen().All() {
		name, err := t.fs.Resolve(s.Path)
		if err != nil || t.file(name).shown {
			continue
		}
		if err := t.look(ctx, name, t.now(), true); err != nil {
			return err
		}
	}
	return nil
}

// ShownFile says which contents of a file the model was shown: see [workspace.SeenFile]. The
// contents are objects.
type ShownFile struct {
	Path     string `json:"path"`
	Hash     Hash   `json:"hash,omitempty"`
	Contents []Hash `json:"contents,omitempty"`
}

// shown stores the contents that the model was shown, and returns the files for which they differ
// from those of the last call.
func (t *tracker) shown(ctx context.Context) ([]ShownFile, error) {
	if err := t.lock(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Release(1)
	var out []ShownFile
	for _, s := range t.fs.Seen().All() {
		f := ShownFile{Path: s.Path, Hash: Hash(s.Hash)}
		for _, c := range s.Contents {
			f.Contents = append(f.Contents, HashOf([]byte(c)))
		}
		key := fmt.Sprint(f)
		if t.told[s.Path] == key {
			continue
		}
		for i, h := range f.Contents {
			if err := t.store(ctx, s.Path, h, []byte(s.Contents[i])); err != nil {
				return out, err
			}
		}
		t.told[s.Path] = key
		out = append(out, f)
	}
	return out, nil
}

// untell forgets which files the model was shown.
func (t *tracker) untell() {
	_ = t.lock(context.Background())
	defer t.turn.Release(1)
	t.fs.Seen().Reset()
	clear(t.told)
}

// restoreShown gives the workspace the contents that the model was shown by another process, so
// that they are the bases of merges again. Contents that cannot be read are left out.
func (t *tracker) restoreShown(ctx context.Context, files []ShownFile) error {
	for _, f := range files {
		s := workspace.SeenFile{Path: f.Path, Hash: string(f.Hash)}
		for _, h := range f.Contents {
			if data, err := t.get(ctx, h); err == nil {
				s.Contents = append(s.Contents, string(data))
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		t.fs.Seen().Restore(s)
		t.told[f.Path] = fmt.Sprint(f)
	}
	return nil
}
