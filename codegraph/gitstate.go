package codegraph

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/rootpath"
)

// GitState is what moves in a repository of git: what is checked out, and how the files differ from git's index. The
// index has what was committed or staged last. Whether something is staged is not known. The lists are sorted.
type GitState struct {
	// Branch is what is checked out, or what is rebased, or "" if that has no name.
	Branch string
	// Doing is "merge", "rebase", "am", "cherry-pick", "revert", "bisect" or "".
	Doing string
	// Changed are tracked files that are not as in the index, Deleted those that are gone, Untracked new ones that
	// no pattern ignores, and Conflicts those that a merge has left to somebody.
	Changed, Deleted, Untracked, Conflicts []string
	// Partial says that the index could not be read as a whole, or has another part elsewhere, or that there are
	// more files than a graph may have. Then the lists are incomplete, and Untracked is empty.
	Partial bool
}

// maxCompared is the size of the largest file that is compared with git's index by its content, in bytes.
const maxCompared = 32 << 20

// GitState returns the state of the repository whose root is the root of the workspace, with the files of a
// snapshot, or nil if there is none or it is kept elsewhere: see [WithDir]. It reads what is in .git, and runs no
// program. A file is compared as git does: by its size and time, and where only the time differs, by its
// content. Not seen are changes of permissions and of targets of symbolic links. A file that a filter of git converts,
// that cannot be read, or that has more than 32 MiB, counts as changed when its time has. The error is that of ctx.
func (g *Graph) GitState(ctx context.Context, s *Snapshot) (*GitState, error) {
	git := g.git()
	head := string(readAll(git, ".git/HEAD", 4<<10))
	if head == "" {
		return nil, nil
	}
	state := &GitState{}
	for _, d := range gitDoing {
		if exists(git, d.file) {
			state.Doing = d.name
			if d.head != "" {
				head = "ref: " + string(readAll(git, d.head, 4<<10))
			}
			break
		}
	}
	if name, ok := strings.CutPrefix(strings.TrimSpace(head), "ref: refs/heads/"); ok && name != ".invalid" {
		state.Branch = name // .invalid stands for one that is kept in a reftable
	}
	c := comparison{g: g, git: git, s: s, state: state, tracked: map[string]bool{}}
	c.lists = lists{g.files, map[string][]fs.DirEntry{}}
	c.known, c.compared = *g.compared.Load(), map[string]compared{}
	err := c.run(ctx)
	if err != nil { // the next one goes on where this one ended
		for path, known := range c.known {
			if _, again := c.compared[path]; !again && s.file(path) != nil {
				c.compared[path] = known
			}
		}
	}
	g.compared.Store(&c.compared)
	return state, err
}

// git returns what has the files of .git of the workspace: the workspace itself, or where it is a linked worktree and [WithDir]
// says where, the directory in which git keeps them.
func (g *Graph) git() FS {
	if g.dir != "" && !exists(g.files, ".git/HEAD") {
		if dir := gitrepo.Worktree(g.dir); dir != "" {
			return gitFiles(dir)
		}
	}
	return g.files
}

// gitFiles are the files of .git of a worktree, which are in another directory.
type gitFiles string

// Open implements [FS].
func (d gitFiles) Open(name string) (fs.File, error) {
	return regular.Open(filepath.Join(string(d), filepath.FromSlash(strings.TrimPrefix(name, ".git/"))))
}

// ReadDir implements [FS].
func (d gitFiles) ReadDir(context.Context, string) ([]fs.DirEntry, error) {
	return nil, errors.ErrUnsupported
}

// gitDoing are the files by which git knows what it is doing, the innermost first.
var gitDoing = []struct{ name, file, head string }{
	{"cherry-pick", ".git/CHERRY_PICK_HEAD", ""},
	{"revert", ".git/REVERT_HEAD", ""},
	{"merge", ".git/MERGE_HEAD", ""},
	{"rebase", ".git/rebase-merge/head-name", ".git/rebase-merge/head-name"},
	{"rebase", ".git/rebase-apply/head-name", ".git/rebase-apply/head-name"},
	{"am", ".git/rebase-apply/applying", ""},
	{"bisect", ".git/BISECT_LOG", ""},
}

// A comparison compares files with git's index.
type comparison struct {
	g       *Graph
	git     FS
	s       *Snapshot
	state   *GitState
	lists   lists
	tracked map[string]bool
	index   int64 // when the index was written, in microseconds since 1970

	known    map[string]compared // of an earlier comparison
	compared map[string]compared // what a later one need not read
}

// compared is the result of a comparison by content, by which a file with this stamp need not be read again.
type compared struct {
	stamp
	blob string
	same bool
}

func (c *comparison) run(ctx context.Context) error {
	st, there := stat(c.git, ".git/index")
	c.index = st.time
	whole := gitrepo.Entries(readAll(c.git, ".git/index", maxIndex), func(e gitrepo.Entry) {
		c.tracked[e.Name] = true
		if ctx.Err() == nil && fs.ValidPath(e.Name) {
			c.entry(ctx, e)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.state.Partial = there && !whole || c.s.Partial(); c.state.Partial {
		return nil
	}
	for _, f := range c.s.files {
		if root, _ := rootpath.Cut(f.path); root == "" && !c.tracked[f.path] { // another root does not belong to the repository
			c.state.Untracked = append(c.state.Untracked, f.path)
		}
	}
	return nil
}

// entry compares a file with its entry in the index.
func (c *comparison) entry(ctx context.Context, e gitrepo.Entry) {
	state := c.state
	switch {
	case e.Stage > 0:
		if n := len(state.Conflicts); n == 0 || state.Conflicts[n-1] != e.Name {
			state.Conflicts = append(state.Conflicts, e.Name)
		}
		return
	case e.Unchecked || e.Type != gitrepo.Regular && e.Type != gitrepo.Link:
		return
	}
	f := c.s.file(e.Name)
	if f != nil && e.Type == gitrepo.Regular {
		if e.Intended || !c.same(ctx, f, e) {
			state.Changed = append(state.Changed, e.Name)
		}
		return
	}
	switch d := c.lists.entry(ctx, e.Name); {
	case d == nil || d.IsDir():
		state.Deleted = append(state.Deleted, e.Name)
	case d.Type().IsRegular() != (e.Type == gitrepo.Regular): // a symbolic link in the place of a file, or the reverse
		state.Changed = append(state.Changed, e.Name)
	}
}

// same reports whether a file is as in the index. A file that has changed in the moment in which the index was
// written can have the same size and time.
func (c *comparison) same(ctx context.Context, f *file, e gitrepo.Entry) bool {
	now := f.stamp
	if now.size == unread {
		if d := c.lists.entry(ctx, e.Name); d != nil {
			now = stampOf(d)
		}
	}
	if e.Size != 0 && uint32(now.size) != e.Size {
		return false
	}
	then := time.Unix(int64(e.Seconds), int64(e.Nanoseconds)).UnixMicro()
	if e.Size != 0 && now.time == then && then < c.index {
		return true
	}
	return c.sameContent(f.path, now, e)
}

// sameContent reads a file, unless an earlier comparison has done so. A file that has changed a moment ago can change
// again without getting another time.
func (c *comparison) sameContent(path string, now stamp, e gitrepo.Entry) bool {
	if k, ok := c.known[path]; ok && k.stamp == now && k.blob == string(e.Blob) {
		c.compared[path] = k
		return k.same
	}
	start := time.Now().UnixMicro()
	data := readAll(c.g.files, path, maxCompared)
	if data == nil {
		return false
	}
	same := e.Is(data)
	if now.size != unread && start-now.time >= unsettled {
		c.compared[path] = compared{now, string(e.Blob), same}
	}
	return same
}

const maxListed = 400 // bytes of a list in a text

// Text describes the state in a few lines. Of nil, it is empty.
func (s *GitState) Text() string {
	if s == nil {
		return ""
	}
	var out strings.Builder
	out.WriteString("Repository: ")
	if s.Branch != "" {
		out.WriteString("branch " + quoted(s.Branch))
	} else {
		out.WriteString("no branch")
	}
	if s.Doing != "" {
		out.WriteString(", in the middle of: " + s.Doing)
	}
	out.WriteString("\n")
	for _, list := range []struct {
		title string
		paths []string
	}{
		{"In conflict", s.Conflicts},
		{"Changed since they were committed or staged", s.Changed},
		{"Deleted since then", s.Deleted},
		{"Not tracked", s.Untracked},
	} {
		if len(list.paths) > 0 {
			out.WriteString(list.title + ": " + firstOf(list.paths, maxListed) + "\n")
		}
	}
	if s.Partial {
		out.WriteString("There may be more such files.\n")
	}
	return out.String()
}

// gitWait is how long a request waits for the graph.
const gitWait = time.Second

const gitHead = "[The repository as the program sees it now. This is not a message of the user.]\n"

// GitTail is an [aycoder.ContextMiddleware] that adds the state of the repository to the tail of each request (see
// [aycoder.Request]), as [GitState.Text] describes it. Each request brings the graph up to date. If
// that takes longer than a second, or fails, or there is no repository, the request goes out without: a host with a
// large workspace calls [Graph.Refresh] when it starts.
func (g *Graph) GitTail(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return part.Tail(next, func(ctx context.Context, _ aycoder.ContextInput) string {
		ctx, cancel := context.WithTimeout(ctx, gitWait)
		defer cancel()
		s, err := g.Refresh(ctx)
		if err != nil {
			return ""
		}
		state, err := g.GitState(ctx, s)
		if err != nil || state == nil {
			return ""
		}
		return gitHead + state.Text()
	})
}
