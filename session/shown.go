package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// shownDelta is what a record says of the files that the model on a branch was shown.
type shownDelta struct {
	// Forgot says that what earlier records say does not count any more.
	Forgot bool `json:"forgot,omitempty"`
	// Shown are the files of which the model was shown another content than before.
	Shown []shownFile `json:"shown,omitempty"`
}

// then returns what both deltas say, of which next is the later one.
func (d shownDelta) then(next shownDelta) shownDelta {
	if next.Forgot {
		return next
	}
	return shownDelta{d.Forgot, append(slices.Clip(d.Shown), next.Shown...)}
}

// objects adds the contents to those that are needed.
func (d shownDelta) objects(needed map[journal.Hash]bool) {
	for _, f := range d.Shown {
		for _, h := range f.Contents {
			needed[h] = true
		}
	}
}

// shownFiles are the files that the model on one branch was shown.
type shownFiles struct {
	*workspace.SeenFiles
	told   map[string]shownSeen // what the records say of them, by path
	forgot bool                 // the records say more than was shown, or less
}

// tellShown completes a record with what the model on the branch was shown since the last one. The
// mutex is held.
func (b *Branch) tellShown(ctx context.Context, r *record) (err error) {
	if b.shown == nil {
		return nil
	}
	r.Forgot, b.shown.forgot = b.shown.forgot, false
	if r.Shown, err = b.session.storeShown(ctx, b.shown); err != nil {
		b.untold()
	}
	return err
}

// untold makes the next record say everything, because this one was not written. The mutex is held.
func (b *Branch) untold() {
	if b.shown != nil {
		b.shown.forgot = true
		clear(b.shown.told)
	}
}

// recallShown finds out what the model on the branch was shown, after a checkout and in a new
// process. The mutex is held.
func (b *Branch) recallShown(ctx context.Context) (err error) {
	s, v := b.session, b.session.View()
	if s.files == nil || b.shown != nil {
		return nil
	}
	if b.reader = nil; b.name != "" { // the first branch has what the host has added
		b.reader = new(workspace.Reader)
	}
	seen := s.config.files.Seen().For(workspace.WithReader(ctx, b.reader)).SeenFiles
	known := shownDelta{Shown: v.shown(v.Head(b.name))}.then(b.asked).Shown
	if b.unsure { // an old content as the base of a merge could take back a change of the user
		known = nil
	}
	b.shown, err = s.restoreShown(ctx, seen, known)
	if err == nil {
		b.shown.forgot, b.unsure = b.unsure, false
	}
	return err
}

// reviewShown makes the next run find out anew what the model was shown, from the records. The mutex is held.
func (b *Branch) reviewShown() {
	if b.shown = nil; b.name == "" && b.session.files != nil {
		b.session.config.files.Seen().Reset()
	}
}

// seeing returns a context in which the tools take into account what the model on the branch was
// shown of the files, and not what the models on other branches were.
func (b *Branch) seeing(ctx context.Context) context.Context {
	if b.shown == nil {
		return ctx
	}
	return workspace.WithReader(ctx, b.reader)
}

// shown returns which contents of files the model was shown on the path to a node. The last one of
// each file counts.
func (v *View) shown(id ID) []shownFile {
	var all []shownFile
	for _, id := range v.path(id) {
		n := v.nodes[id]
		if n.Lost || n.shown.Forgot { // nobody knows what the model was shown at a lost node
			all = nil
		}
		if n.Context != nil { // requests have other messages since
			all = slices.Clone(all)
			for i := range all {
				all[i].hidden = true
			}
		}
		all = append(all, n.shown.Shown...)
	}
	return all
}

// shownFile says which contents of a file the model was shown: see [workspace.SeenFile]. The
// contents are objects.
type shownFile struct {
	Path     string         `json:"path"`
	Hash     journal.Hash   `json:"hash,omitempty"`
	Contents []journal.Hash `json:"contents,omitempty"`

	hidden bool // see workspace.SeenFile
}

// shownSeen is a file that the model was shown, as the workspace remembers it and as records say it.
type shownSeen struct {
	seen  workspace.SeenFile
	shown shownFile
}

// same reports whether the workspace remembers the same. It makes a new slice for each change, so
// most files need not be hashed again.
func (f shownSeen) same(s workspace.SeenFile) bool {
	return f.seen.Hash == s.Hash && len(f.seen.Contents) == len(s.Contents) &&
		(len(s.Contents) == 0 || &f.seen.Contents[0] == &s.Contents[0])
}

// storeShown stores the contents that a model was shown, and returns the files for which they differ
// from those of the last call.
func (s *Session) storeShown(ctx context.Context, to *shownFiles) ([]shownFile, error) {
	var out []shownFile
	for _, seen := range to.All() {
		f, known := to.told[seen.Path]
		if known && f.same(seen) {
			continue
		}
		now := shownFile{Path: seen.Path, Hash: journal.Hash(seen.Hash)}
		for _, c := range seen.Contents {
			h := journal.HashOf([]byte(c))
			switch err := s.journal.Put(ctx, h, []byte(c)); {
			case err == nil:
				now.Contents = append(now.Contents, h)
			case !errors.Is(err, snapshot.ErrNoRoom):
				return out, fmt.Errorf("store %s: %w", seen.Path, err)
			}
		}
		if !known || now.Hash != f.shown.Hash || !slices.Equal(now.Contents, f.shown.Contents) {
			out = append(out, now)
		}
		to.told[seen.Path] = shownSeen{seen, now}
	}
	return out, nil
}

// restoreShown returns what the records of a branch say that its model was shown, so that it is the
// base of merges again. It is added to seen. Contents that cannot be read are left out.
func (s *Session) restoreShown(ctx context.Context, seen *workspace.SeenFiles, files []shownFile) (*shownFiles, error) {
	last := map[string]shownFile{}
	for _, f := range files {
		last[f.Path] = f
	}
	to := &shownFiles{SeenFiles: seen, told: map[string]shownSeen{}}
	for _, f := range last {
		again := workspace.SeenFile{Path: f.Path, Hash: string(f.Hash), Hidden: f.hidden}
		for _, h := range f.Contents {
			if data, err := s.journal.Get(ctx, h); err == nil {
				again.Contents = append(again.Contents, string(data))
			}
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		to.Restore(again)
		to.told[f.Path] = shownSeen{shown: f}
	}
	return to, nil
}
