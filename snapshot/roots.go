package snapshot

import (
	"context"
	"maps"
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
		all[r.Name] = &gitrepo.Repo{Dir: r.Dir}
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
