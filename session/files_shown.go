package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder/workspace"
)

// ShownFile says which contents of a file the model was shown: see [workspace.SeenFile]. The
// contents are objects.
type ShownFile struct {
	Path     string `json:"path"`
	Hash     Hash   `json:"hash,omitempty"`
	Contents []Hash `json:"contents,omitempty"`
}

// shownSeen is a file that the model was shown, as the workspace remembers it and as nodes mention it.
type shownSeen struct {
	seen  workspace.SeenFile
	shown ShownFile
}

// shownSince tracks the files that the model was shown, and stores the contents. It returns the
// files for which they are not as in was.
func (t *tracker) shownSince(ctx context.Context, was map[string]ShownFile) ([]ShownFile, error) {
	var out []ShownFile
	for _, s := range t.ws.Seen().All() {
		f, known := t.shown[s.Path]
		// The workspace makes a new slice for each change, so most files need not be hashed again.
		if !known || f.seen.Hash != s.Hash || len(f.seen.Contents) != len(s.Contents) ||
			len(s.Contents) > 0 && &f.seen.Contents[0] != &s.Contents[0] {
			var err error
			if f, err = t.showed(ctx, s); err != nil {
				return nil, err
			}
		}
		if w, ok := was[s.Path]; !ok || w.Hash != f.shown.Hash || !slices.Equal(w.Contents, f.shown.Contents) {
			out = append(out, f.shown)
		}
	}
	return out, nil
}

// showed tracks a file and stores the contents that the model was shown.
func (t *tracker) showed(ctx context.Context, s workspace.SeenFile) (shownSeen, error) {
	f := shownSeen{s, ShownFile{Path: s.Path, Hash: Hash(s.Hash)}}
	if name, err := t.ws.Resolve(s.Path); err == nil && t.file(name).state.First == nil {
		if err := t.look(ctx, name, true); err != nil {
			return f, err
		}
	}
	for _, c := range s.Contents {
		h := HashOf([]byte(c))
		switch err := t.journal.Put(ctx, h, []byte(c)); {
		case err == nil:
			f.shown.Contents = append(f.shown.Contents, h)
		case !errors.Is(err, errNoRoom):
			return f, fmt.Errorf("store %s: %w", s.Path, err)
		}
	}
	t.shown[s.Path] = f
	return f, nil
}

// restoreShown gives the workspace the contents that the model was shown by another process, so
// that they are the bases of merges again. Contents that cannot be read are left out.
func (t *tracker) restoreShown(ctx context.Context, files map[string]ShownFile) error {
	for _, f := range files {
		s := workspace.SeenFile{Path: f.Path, Hash: string(f.Hash)}
		for _, h := range f.Contents {
			if data, err := t.journal.Get(ctx, h); err == nil {
				s.Contents = append(s.Contents, string(data))
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		t.ws.Seen().Restore(s)
	}
	return nil
}
