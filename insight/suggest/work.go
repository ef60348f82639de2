package suggest

import (
	"context"
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/regular"
)

// work tells what is not committed, and what is not pushed.
func (f *finder) work(ctx context.Context, g *codegraph.Graph) error {
	state, err := g.GitState(ctx, f.s)
	repo := &gitrepo.Repo{Dir: f.Dir}
	if err != nil {
		return err
	}
	if state == nil {
		if f.Dir == "" {
			return nil
		}
		if inside, _ := repo.Text(ctx, "rev-parse", "--is-inside-work-tree"); strings.TrimSpace(inside) == "true" {
			f.skip("what is not committed: git keeps its index outside of this directory")
			f.ahead(ctx, repo)
		}
		return nil
	}
	if state.Partial && !f.s.Partial() {
		f.skip("all of what is not committed: the index of git is damaged or split")
	}
	if n := len(state.Conflicts); n > 0 {
		f.add(Work, "", 0, "conflicts", "%s left by a merge; resolve them: %s", count(n, "conflict"), some(state.Conflicts))
	}
	if state.Doing != "" {
		f.add(Work, "", 0, "doing", "a %s has begun and is not finished", state.Doing)
	}
	changed := slices.Concat(state.Changed, state.Deleted)
	if f.Dir != "" {
		staged, err := f.staged(ctx, repo)
		if err != nil {
			return err
		}
		changed = append(changed, staged...)
	}
	slices.Sort(changed)
	if changed = slices.Compact(changed); len(changed) > 0 {
		f.add(Work, "", 0, "changed", "%s not committed: %s", count(len(changed), "changed file"), some(changed))
	}
	if n := len(state.Untracked); n > 0 {
		f.add(Work, "", 0, "untracked", "%s not in git: %s", count(n, "new file"), some(state.Untracked))
	}
	f.open = slices.Sorted(slices.Values(slices.Concat(changed, state.Untracked, state.Conflicts)))
	if f.Dir != "" {
		f.ahead(ctx, repo)
	}
	return nil
}

// ahead tells which commits are not pushed.
func (f *finder) ahead(ctx context.Context, repo *gitrepo.Repo) {
	remote, _ := repo.Text(ctx, "for-each-ref", "--count=1", "refs/remotes")
	text, err := repo.Text(ctx, "rev-list", "--count", "HEAD", "--not", "--remotes")
	if ahead, _ := strconv.Atoi(strings.TrimSpace(text)); err == nil && remote != "" && ahead > 0 {
		f.add(Work, "", 0, "ahead", "%s not pushed", count(ahead, "commit"))
	}
}

// A lister tells the permissions of files, as a workspace does.
type lister interface {
	Lstat(name string) (fs.FileInfo, error)
}

// staged returns the files that the index has otherwise than the commit that is checked out, files that have another permission
// than in the index, and submodules with another commit.
func (f *finder) staged(ctx context.Context, repo *gitrepo.Repo) (names []string, err error) {
	tree := map[string]string{}
	if _, err := repo.Text(ctx, "rev-parse", "-q", "--verify", "HEAD"); err == nil { // else there is no commit yet
		err = repo.Tree(ctx, func(about []string, name string) {
			if len(about) == 3 {
				tree[name] = version(about[0] == "100755", about[2])
			}
		})
		if err != nil {
			return nil, context.Cause(ctx)
		}
	} else if _, err := repo.Text(ctx, "rev-parse", "--git-dir"); err != nil {
		f.skip("what is staged: git does not read this repository, or is not installed")
		return nil, context.Cause(ctx)
	}
	text, _ := repo.Text(ctx, "config", "--type=bool", "core.fileMode")
	modes := strings.TrimSpace(text) != "false"
	var modules []string
	sparse := map[string]bool{}
	whole := gitrepo.Entries(f.index(), func(e gitrepo.Entry) {
		if e.Type == gitrepo.Directory { // whose files are not checked out
			sparse[path.Clean(e.Name)] = true
		}
		if e.Type == gitrepo.Directory || e.Intended {
			return
		}
		changed := tree[e.Name] != version(e.Executable && e.Type == gitrepo.Regular, hex.EncodeToString(e.Blob))
		delete(tree, e.Name)
		switch files, ok := f.Files.(lister); {
		case !ok || e.Unchecked:
		case e.Type == gitrepo.Module && len(modules) < maxOpen:
			if now, there := f.module(ctx, files, e.Name); there {
				modules = append(modules, e.Name)
				changed = changed || now != "" && now != hex.EncodeToString(e.Blob)
			}
		case e.Type == gitrepo.Regular && modes:
			info, err := files.Lstat(e.Name)
			changed = changed || err == nil && info.Mode().IsRegular() && (info.Mode()&0o100 != 0) != e.Executable
		}
		if changed {
			names = append(names, e.Name)
		}
	})
	if len(modules) > 0 {
		f.skip("what is not committed inside of submodules: %s", some(modules))
	}
	if !whole {
		return nil, nil
	}
	for name := range tree { // removed from the index
		dir := path.Dir(name)
		for dir != path.Dir(dir) && !sparse[dir] {
			dir = path.Dir(dir)
		}
		if !sparse[dir] {
			names = append(names, name)
		}
	}
	return names, nil
}

// index returns the content of the index of git, or nil.
func (f *finder) index() []byte {
	file, err := f.Files.Open(".git/index")
	if dir := gitrepo.Worktree(f.Dir); err != nil && dir != "" {
		file, err = regular.Open(filepath.Join(dir, "index"))
	}
	if err != nil {
		return nil
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxLock))
	if err != nil {
		return nil
	}
	return data
}

// module returns the commit of a submodule, and whether it is checked out: git would else look in the repository around it.
func (f *finder) module(ctx context.Context, files lister, name string) (commit string, there bool) {
	if _, err := files.Lstat(name + "/.git"); err != nil {
		return "", false
	}
	repo := &gitrepo.Repo{Dir: filepath.Join(f.Dir, filepath.FromSlash(name))}
	text, _ := repo.Text(ctx, "rev-parse", "-q", "--verify", "HEAD")
	return strings.TrimSpace(text), true
}

// version is what git keeps of a file.
func version(executable bool, id string) string {
	if executable {
		return id + "+x"
	}
	return id
}
