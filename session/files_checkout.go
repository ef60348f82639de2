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
	"github.com/aycoder/aycoder/internal/changeset"
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

// plan returns the changes that make the files as in the node with the states to. With paths, the
// plan is restricted to these files and to those below these directories. The plan names each
// tracked file that is not as in the node. Changes of the user are stored and are in the next diff,
// which the caller appends as a separate node before the checkout.
func (t *tracker) plan(ctx context.Context, to map[string]FileState, paths ...string) ([]FileChange, error) {
	if err := t.turn.wait(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Unlock()
	if err := t.catchUp(ctx); err != nil {
		return nil, err
	}
	then, err := t.targets(ctx, to, paths)
	if err != nil {
		return nil, err
	}
	var all []FileChange
	for _, name := range slices.Sorted(maps.Keys(then)) {
		if err := t.look(ctx, name, true); err != nil {
			return nil, err
		}
		c := planFile(name, t.files[name].state, then[name])
		if (then[name].implied || within(name, paths)) && !c.Now.same(c.Then) {
			all = append(all, c)
		}
	}
	if err := t.loadContents(ctx, all); err != nil {
		return nil, err
	}
	return all, t.keepInTheWay(ctx, all)
}

// keepInTheWay keeps the files that cannot be changed because others stay: a directory with files
// in it that stay, and a file whose directory is something else that stays. The files are sorted.
func (t *tracker) keepInTheWay(ctx context.Context, all []FileChange) error {
	byName := map[string]*FileChange{}
	for i := range all {
		byName[all[i].Path] = &all[i]
	}
	for i := range slices.Backward(all) { // what is in a directory comes after it
		c := &all[i]
		if c.Action == ActionKeep || c.Now.Kind != KindDir || c.Then.Kind == KindDir {
			continue
		}
		entries, err := t.ws.ReadDir(ctx, c.Path)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		stays := func(e fs.DirEntry) bool {
			in := byName[c.Path+"/"+e.Name()]
			return in == nil || in.Action != ActionRemove
		}
		if err != nil || slices.ContainsFunc(entries, stays) {
			c.Action, c.Reason = ActionKeep, "there is something in it that stays"
		}
	}
	for i := range all {
		c := &all[i]
		above := byName[path.Dir(c.Path)]
		if c.Action != ActionKeep && above != nil && above.Action == ActionKeep && above.Now.Kind != KindDir {
			c.Action, c.Reason = ActionKeep, "its directory is something else that stays"
		}
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

// target is what a file is in a node.
type target struct {
	FileState
	known   bool // the node mentions it
	implied bool // it is a directory that no node mentions, and that does not exist
}

// targets returns what each file is in the node with the states to. A file that the node does not
// mention is as it was when the session first saw it, and so are the directories above the paths.
func (t *tracker) targets(ctx context.Context, to map[string]FileState, paths []string) (map[string]target, error) {
	all := map[string]target{}
	var failed error
	add := func(name string, s target) {
		var dirs []string
		dirsAbove(name, func(dir string) bool {
			above, ok := all[dir]
			if !ok {
				dirs = append(dirs, dir)
			} else if above.Kind != KindDir { // there was no file where no directory was
				s.FileState = FileState{}
			}
			return !ok
		})
		all[name] = s
		for _, dir := range dirs {
			if s.Kind != "" {
				failed = errors.Join(failed, t.addDir(ctx, all, dir, within(name, paths)))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(to)) {
		add(changeset.Name(key), target{FileState: to[key], known: true})
	}
	for _, f := range slices.SortedFunc(slices.Values(t.tracked), byPath) {
		if _, ok := all[f.path]; !ok {
			add(f.path, target{FileState: *f.state.First})
		}
	}
	return all, failed
}

// addDir adds a directory that the node does not mention, but that has a file in it. If the directory
// is not tracked, it is added if it is missing and the plan has the file.
func (t *tracker) addDir(ctx context.Context, all map[string]target, dir string, planned bool) error {
	first := t.file(dir).state.First
	switch {
	case first == nil:
		err := t.look(ctx, dir, false)
		if planned && t.file(dir).state.Kind != KindDir {
			all[dir] = target{FileState: FileState{Kind: KindDir, Mode: 0o755, Own: true}, implied: true}
		}
		return err
	case first.Kind == KindDir:
		all[dir] = target{FileState: *first}
	default: // it replaces a file
		all[dir] = target{FileState: FileState{Kind: KindDir, Mode: 0o755}}
	}
	return nil
}

func byPath(a, b *trackedFile) int { return strings.Compare(a.path, b.path) }

// planFile decides what becomes of one file.
func planFile(name string, now FileState, then target) FileChange {
	c := FileChange{Path: changeset.Key(name), Action: ActionKeep, Now: now, Then: then.FileState}
	switch {
	case now.same(c.Then):
	case now.NotHeld != "":
		c.Reason = "its present content is not held: " + now.NotHeld
	case then.NotHeld != "":
		c.Reason = "its content is not held: " + then.NotHeld
	case c.Path != name:
		c.Reason = "its name is not valid UTF-8"
	case then.Kind == "" && !now.Own && !(then.known && now.Back), then.implied && now.Kind != "":
		c.Reason = "the user has created or changed it"
	case then.Kind == "":
		c.Action = ActionRemove
	case now.Kind == "":
		c.Action = ActionCreate
	default:
		c.Action = ActionChange
	}
	return c
}

// loadContents gets what the changes are made of. A file of which a content is missing is kept.
func (t *tracker) loadContents(ctx context.Context, all []FileChange) error {
	blobs := map[string]int64{}
	for _, c := range all {
		for _, s := range []FileState{c.Now, c.Then} {
			if s.Git != "" {
				blobs[s.Git] = s.Size
			}
		}
	}
	git := t.repo.Contents(ctx, blobs)
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
		if data, err = t.journal.Get(ctx, s.Hash); errors.Is(err, fs.ErrNotExist) && s.Git != "" {
			err = errGit
		}
	}
	if err == nil && HashOf(data) != s.Hash {
		err = errors.New("it is damaged")
	}
	return data, err
}

// checkout makes the changes of a plan, either all or none, and returns the states after it. If the
// user has changed a file since the plan was made, the changes are merged; if that is impossible,
// the error is an [*edit.ConflictError]. A checkout that another process left half done is recovered by
// [recoverCheckout].
func (t *tracker) checkout(ctx context.Context, plan []FileChange) (map[string]FileState, error) {
	if err := t.turn.wait(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Unlock()
	plan = slices.DeleteFunc(slices.Clone(plan), func(c FileChange) bool { return c.Action == ActionKeep })
	var todo []workspace.Restoration
	var names []string
	for _, c := range plan {
		names = append(names, c.Path)
		todo = append(todo, workspace.Restoration{Path: c.Path, From: versionOf(c.Now, c.now), To: versionOf(c.Then, c.then)})
	}
	res, err := t.ws.Restore(ctx, todo)
	err = errors.Join(err, t.afterPlan(ctx, names, &author{}, res))
	states := map[string]FileState{}
	for _, c := range plan {
		s := &t.files[c.Path].state
		switch {
		case s.same(c.Then):
			s.Own, s.Back = c.Then.Own, c.Action == ActionCreate || c.Now.Back
		case s.same(c.Now):
			s.Own, s.Back = c.Now.Own, c.Now.Back
		default: // the user has changed it
			s.Own = false
		}
		states[c.Path] = *s
	}
	return states, err
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
