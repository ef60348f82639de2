package snapshot

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/workspace"
)

// repos are the repositories of the roots of a workspace, by the name of the root.
type repos map[string]*gitrepo.Repo

func reposOf(ws *workspace.Workspace) repos {
	all := repos{}
	for _, r := range ws.Roots() {
		all[r.Name] = &gitrepo.Repo{Dir: r.Dir, Own: true}
	}
	return all
}

// of returns the repository of a file, and the path of the file in it. The workspace may not have
// the root of an older name.
func (r repos) of(name string) (*gitrepo.Repo, string) {
	root, rest := rootpath.Cut(name)
	if r[root] == nil {
		return &gitrepo.Repo{}, rest
	}
	return r[root], rest
}

// namesOf returns the names that absolute paths have in a workspace, if they are in it.
func namesOf(ws *workspace.Workspace, paths []string) (names []string) {
	real := func(p string) string {
		return cmp.Or(evaluated(p), filepath.Join(evaluated(filepath.Dir(p)), filepath.Base(p)))
	}
	for _, p := range paths {
		for _, r := range ws.Roots() {
			rel, err := filepath.Rel(real(r.Dir), real(p))
			if err == nil && rel != "." && filepath.IsLocal(rel) {
				names = append(names, rootpath.Join(r.Name, filepath.ToSlash(rel)))
			}
		}
	}
	return names
}

// evaluated returns a path without symbolic links, or "" if there is nothing.
func evaluated(p string) string {
	p, _ = filepath.EvalSymlinks(p)
	return p
}

// isApart reports whether a file is one of those that keep sessions.
func (t *Tracker) isApart(name string) bool { return len(t.apart) > 0 && within(name, t.apart) }

// Load is [gitrepo.Repo.Load] for all of them.
func (r repos) Load(ctx context.Context) error {
	for _, repo := range r {
		if err := repo.Load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Contents is [gitrepo.Repo.Contents]. A blob may be in any of them.
func (r repos) Contents(ctx context.Context, blobs map[string]int64) map[string][]byte {
	found := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		left := maps.Clone(blobs)
		maps.DeleteFunc(left, func(id string, _ int64) bool { return found[id] != nil })
		maps.Copy(found, r[name].Contents(ctx, left))
	}
	return found
}
