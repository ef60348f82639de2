package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/workspace"
)

// FileAction says what a checkout does to a file.
type FileAction string

// The actions of a checkout.
const (
	ActionCreate FileAction = "create"
	ActionChange FileAction = "change"
	ActionRemove FileAction = "remove"
	// ActionKeep means that the file stays as it is, although the node has another state of it.
	ActionKeep FileAction = "keep"
)

// FileChange is what a checkout does to one file.
type FileChange struct {
	Path   string     `json:"path"`
	Action FileAction `json:"action"`
	// Reason explains ActionKeep.
	Reason string `json:"reason,omitempty"`
	// Now is the present state, and Then is that of the node.
	Now  FileState `json:"now"`
	Then FileState `json:"then"`

	now, then []byte
}

// Diff returns the difference between the present content and that of the node. It has no hunks if
// one of the two is not held.
func (c *FileChange) Diff() *diff.File {
	before, after := c.Path, c.Path
	if c.Now.Kind == "" {
		before = ""
	}
	if c.Then.Kind == "" {
		after = ""
	}
	return diff.Compare(c.now, c.then, diff.WithNames(before, after))
}

// plan returns the changes that make the files as in the node with the states to. From are the
// states of the node that is checked out now. With paths, the plan is restricted to these files
// and to those below these directories. The plan names each tracked file that is not as in the
// node. Changes of the user are stored and are in the next delta, which the caller appends as a
// separate node before the checkout.
func (t *tracker) plan(ctx context.Context, from, to map[string]FileState, paths ...string) ([]FileChange, error) {
	if err := t.lock(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Release(1)
	by := t.now()
	if by == byAgent {
		if err := t.walk(ctx, by); err != nil {
			return nil, err
		}
	}
	if err := t.repo.load(ctx); err != nil {
		return nil, err
	}
	then := targets(from, to)
	var all []FileChange
	for _, name := range slices.Sorted(maps.Keys(then)) {
		if !within(name, paths) {
			continue
		}
		_, known := to[name]
		c, err := t.planFile(ctx, name, then[name], known, by)
		if err != nil {
			return nil, err
		}
		if !c.Now.same(c.Then) {
			all = append(all, c)
		}
	}
	if err := t.loadContents(ctx, all); err != nil {
		return nil, err
	}
	return all, t.keepInTheWay(ctx, all)
}

// keepInTheWay keeps the files that cannot be changed because others stay: a directory with files
// in it that stay, and a file whose directory is something else that stays.
func (t *tracker) keepInTheWay(ctx context.Context, all []FileChange) error {
	byName := map[string]*FileChange{}
	for i := range all {
		byName[all[i].Path] = &all[i]
	}
	keep := func(c *FileChange, reason string) { c.Action, c.Reason = ActionKeep, reason }
	for i := range slices.Backward(all) { // what is in a directory comes after it
		c := &all[i]
		if c.Action == ActionKeep || c.Now.Kind != KindDir || c.Then.Kind == KindDir {
			continue
		}
		entries, err := t.fs.ReadDir(ctx, c.Path)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		stays := func(e fs.DirEntry) bool {
			in := byName[c.Path+"/"+e.Name()]
			return in == nil || in.Action != ActionRemove
		}
		if err != nil || slices.ContainsFunc(entries, stays) {
			keep(c, "there is something in it that stays")
		}
	}
	for i := range all {
		c := &all[i]
		if c.Action == ActionKeep || c.Then.Kind == "" {
			continue
		}
		dirsAbove(c.Path, func(dir string) bool {
			above := byName[dir]
			if above != nil && above.Action != ActionKeep {
				return above.Then.Kind != KindDir
			}
			info, err := t.fs.Lstat(dir)
			if err == nil && !info.IsDir() {
				keep(c, "its directory is something else that stays")
			}
			return err != nil
		})
	}
	return nil
}

// within reports whether a name is one of the paths, or below one.
func within(name string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		p = path.Clean(p)
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}

// targets returns what each file is in the node with the states to. A file that the node does not
// mention is as it was when the session first saw it.
func targets(from, to map[string]FileState) map[string]FileState {
	all := map[string]FileState{}
	for name, s := range to {
		all[name] = s
		dirsAbove(name, func(dir string) bool { // there was a directory where a file was
			_, known := to[dir]
			if first := from[dir].First; !known && s.Kind != "" && first != nil && first.Kind != KindDir {
				all[dir] = FileState{Kind: KindDir, Mode: 0o755}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, known := all[name]; known || from[name].First == nil {
			continue
		}
		all[name] = *from[name].First
		dirsAbove(name, func(dir string) bool { // there was no file where no directory was
			above, known := all[dir]
			if known && above.Kind != KindDir {
				all[name] = FileState{}
			}
			return !known
		})
	}
	return all
}

// planFile decides what becomes of one file. Known says that the node mentions it.
func (t *tracker) planFile(ctx context.Context, name string, then FileState, known bool, by author) (FileChange, error) {
	c := FileChange{Path: name, Action: ActionKeep, Then: then}
	if unspeakable(name) {
		c.Now = FileState{Kind: KindOther}
		c.Reason = "its name is not valid UTF-8"
		return c, nil
	}
	if err := t.look(ctx, name, by, true); err != nil {
		return c, err
	}
	c.Now = t.files[name].state
	switch {
	case c.Now.same(c.Then):
	case c.Now.NotHeld != "":
		c.Reason = "its present content is not held: " + c.Now.NotHeld
	case c.Then.NotHeld != "":
		c.Reason = "its content is not held: " + c.Then.NotHeld
	case c.Then.Kind == "" && !c.Now.Own && !(known && c.Now.Back):
		c.Reason = "the user has created or changed it"
	case c.Then.Kind == "":
		c.Action = ActionRemove
	case c.Now.Kind == "":
		c.Action = ActionCreate
	default:
		c.Action = ActionChange
	}
	return c, nil
}

// loadContents gets what the changes are made of. A file of which a content is missing is kept.
func (t *tracker) loadContents(ctx context.Context, all []FileChange) error {
	blobs := map[string]int64{}
	for _, c := range all {
		for _, s := range []FileState{c.Now, c.Then} {
			if s.Git != "" && !t.stored[s.Hash] {
				blobs[s.Git] = s.Size
			}
		}
	}
	git := t.repo.contents(ctx, blobs)
	for i := range all {
		c := &all[i]
		var err error
		if c.now, err = t.content(ctx, c.Now, git); err == nil {
			c.then, err = t.content(ctx, c.Then, git)
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil && c.Action != ActionKeep {
			c.Action, c.Reason = ActionKeep, "its content is not held: "+err.Error()
		}
	}
	return nil
}

var errGit = errors.New("the repository does not have it any more")

// content returns the bytes of a state.
func (t *tracker) content(ctx context.Context, s FileState, git map[string][]byte) ([]byte, error) {
	if s.NotHeld != "" || s.Hash == "" {
		return nil, nil
	}
	data, ok := git[s.Git]
	var err error
	if !ok || s.Git == "" {
		if data, err = t.get(ctx, s.Hash); errors.Is(err, fs.ErrNotExist) && s.Git != "" {
			err = errGit
		}
	}
	if err == nil && HashOf(data) != s.Hash {
		err = errors.New("it is damaged")
	}
	return data, err
}

// checkout makes the changes of a plan, either all or none. If the user has changed a file since
// the plan was made, the changes are merged; if that is impossible, the error is an
// [*edit.ConflictError]. A file that another process left half done is recovered by
// [recoverCheckout].
func (t *tracker) checkout(ctx context.Context, plan []FileChange) (*edit.Result, error) {
	if err := t.lock(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Release(1)
	var todo []workspace.Restoration
	var made []string
	for _, c := range plan {
		if c.Action == ActionCreate {
			made = t.missingAbove(c.Path, made)
		}
		if c.Action != ActionKeep {
			todo = append(todo, workspace.Restoration{Path: c.Path, From: versionOf(c.Now, c.now), To: versionOf(c.Then, c.then)})
		}
	}
	for _, dir := range made { // so that they count as new
		if err := t.look(ctx, dir, byUser, false); err != nil {
			return nil, err
		}
	}
	res, err := t.fs.Restore(ctx, todo)
	ctx = context.WithoutCancel(ctx)
	errs := []error{err}
	for _, dir := range made {
		errs = append(errs, t.look(ctx, dir, byAgent, false))
	}
	for _, c := range plan {
		if c.Action == ActionKeep {
			continue
		}
		errs = append(errs, t.look(ctx, c.Path, byUser, true))
		if f := t.files[c.Path]; f.state.same(c.Then) {
			f.state.Own, f.state.Back = c.Then.Own, c.Action == ActionCreate || c.Now.Back
		} else if f.state.same(c.Now) {
			f.state.Own, f.state.Back = c.Now.Own, c.Now.Back
		}
	}
	if res != nil {
		for _, f := range res.Files {
			for _, name := range f.Sidecars {
				errs = append(errs, t.look(ctx, name, byUser, true))
			}
		}
	}
	return res, errors.Join(errs...)
}

// missingAbove adds the directories that a new file needs and that do not exist.
func (t *tracker) missingAbove(name string, to []string) []string {
	dirsAbove(name, func(dir string) bool {
		_, err := t.fs.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(to, dir) {
			to = append(to, dir)
		}
		return err != nil
	})
	return to
}

// versionOf returns a state in the form of package workspace.
func versionOf(s FileState, data []byte) workspace.Version {
	v := workspace.Version{Exists: s.Kind != "", Mode: s.Mode, Content: string(data)}
	switch s.Kind {
	case KindDir:
		v.Mode |= fs.ModeDir
	case KindLink:
		v.Mode = fs.ModeSymlink
	}
	return v
}

// recoverCheckout takes back the checkouts that a crash has interrupted. It comes before anything
// else reads the files. It returns the plans of the agent that were interrupted, about which the
// host decides.
func recoverCheckout(ctx context.Context, ws *workspace.Workspace) ([]*workspace.InterruptedPlan, error) {
	var rest []*workspace.InterruptedPlan
	for _, p := range ws.Interrupted() {
		if p.Restores == nil {
			rest = append(rest, p)
		} else if _, err := p.TakeBack(ctx); err != nil {
			return rest, fmt.Errorf("take back an interrupted checkout: %w", err)
		}
	}
	return rest, nil
}
