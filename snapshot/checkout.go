package snapshot

import (
	"cmp"
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
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/workspace"
)

// Action says what a checkout does to a file.
type Action string

// The actions of a checkout.
const (
	ActionCreate Action = "create"
	ActionChange Action = "change"
	ActionRemove Action = "remove"
	// ActionKeep means that the file stays as it is, although the point has another state of it.
	ActionKeep Action = "keep"
)

// Change is what a checkout does to one file.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	// Reason explains ActionKeep.
	Reason string `json:"reason,omitempty"`
	// Now is the present state, and Then is that of the point.
	Now  State `json:"now"`
	Then State `json:"then"`

	now, then []byte
}

// Diff returns the difference between the present content and that of the point. It has no hunks if
// one of the two is not held.
func (c *Change) Diff() *diff.File {
	before, after := c.Path, c.Path
	if c.Now.Kind == "" {
		before = ""
	}
	if c.Then.Kind == "" {
		after = ""
	}
	return diff.Compare(c.now, c.then, diff.WithNames(before, after))
}

// Plan returns the changes that make the files as at the point with the states to. With paths, the
// plan is restricted to these files and to those below these directories. The plan names each
// tracked file that is not as at the point. Changes of the user are stored and are in the next Diff,
// which the caller keeps as a separate point before the Checkout.
func (t *Tracker) Plan(ctx context.Context, to map[string]State, paths ...string) ([]Change, error) {
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
	var all []Change
	for _, name := range slices.Sorted(maps.Keys(then)) {
		if then[name].aside {
			continue
		}
		if err := t.look(ctx, name, true); err != nil {
			return nil, err
		}
		f := t.files[name]
		c := planFile(name, f.state, then[name])
		if f.lost != nil {
			c.Action, c.Reason = ActionKeep, f.lost.Error()
		}
		if (then[name].implied || within(name, paths)) && !c.Now.Same(c.Then) {
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
func (t *Tracker) keepInTheWay(ctx context.Context, all []Change) error {
	byName := map[string]*Change{}
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
		p = rootpath.Clean(p)
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}

// target is what a file is at a point.
type target struct {
	State
	known   bool // the point mentions it
	implied bool // it is a directory that no point mentions, and that does not exist
	aside   bool // it is one that exists, and not part of the plan
}

// targets returns what each file is at the point with the states to. A file that the point does not
// mention is as it was when the Tracker first saw it, and so are the directories above the paths.
func (t *Tracker) targets(ctx context.Context, to map[string]State, paths []string) (map[string]target, error) {
	all := map[string]target{}
	var failed error
	add := func(name string, s target) {
		var dirs []string
		dirsAbove(name, func(dir string) bool {
			above, ok := all[dir]
			if !ok {
				dirs = append(dirs, dir)
			} else if above.Kind != KindDir { // there was no file where no directory was
				s.State = State{}
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
		if name := changeset.Name(key); !t.isApart(name) {
			add(name, target{State: to[key], known: true})
		}
	}
	for _, f := range slices.SortedFunc(slices.Values(t.tracked), byPath) {
		if _, ok := all[f.path]; !ok && !t.isApart(f.path) {
			add(f.path, target{State: *f.state.First})
		}
	}
	return all, failed
}

// addDir adds a directory that the point does not mention, but that has a file in it. If the directory
// is not tracked, it is not part of the plan, unless it is missing and the plan has the file.
func (t *Tracker) addDir(ctx context.Context, all map[string]target, dir string, planned bool) error {
	first := t.file(dir).state.First
	switch {
	case first == nil:
		err := t.look(ctx, dir, false)
		if t.file(dir).state.Kind == KindDir {
			all[dir] = target{State: State{Kind: KindDir}, aside: true}
		} else if planned {
			all[dir] = target{State: State{Kind: KindDir, Mode: 0o755, Own: true}, implied: true}
		}
		return err
	case first.Kind == KindDir:
		all[dir] = target{State: *first}
	default: // it replaces a file
		all[dir] = target{State: State{Kind: KindDir, Mode: 0o755}}
	}
	return nil
}

func byPath(a, b *trackedFile) int { return strings.Compare(a.path, b.path) }

// planFile decides what becomes of one file.
func planFile(name string, now State, then target) Change {
	c := Change{Path: changeset.Key(name), Action: ActionKeep, Now: now, Then: then.State}
	switch {
	case now.Same(c.Then):
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

// Compare returns the files that differ between two points, in the order of their paths. Now is the state at from, and
// Then that at to. A difference that is unknown, since a content is not held, has ActionKeep and a Reason.
func (t *Tracker) Compare(ctx context.Context, from, to map[string]State) ([]Change, error) {
	var all []Change
	names := maps.Clone(from)
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := Change{Path: name, Now: stateAt(name, from, to), Then: stateAt(name, to, from), Action: ActionChange}
		switch {
		case c.Now.Same(c.Then):
			continue
		case c.Now.NotHeld != "" || c.Then.NotHeld != "":
			c.Action, c.Reason = ActionKeep, "its content is not held: "+cmp.Or(c.Now.NotHeld, c.Then.NotHeld)
		case c.Now.Kind == "":
			c.Action = ActionCreate
		case c.Then.Kind == "":
			c.Action = ActionRemove
		}
		all = append(all, c)
	}
	return all, t.loadContents(ctx, all)
}

// stateAt returns the state of a file at a point. If only another point mentions the file, that one says how it was.
func stateAt(name string, point, other map[string]State) State {
	if s, ok := point[name]; ok {
		return s
	}
	return *other[name].first()
}

// loadContents gets what the changes are made of. A file of which a content is missing is kept.
func (t *Tracker) loadContents(ctx context.Context, all []Change) error {
	blobs := map[string]int64{}
	for _, c := range all {
		for _, s := range []State{c.Now, c.Then} {
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
func (t *Tracker) content(ctx context.Context, s State, git map[string][]byte) ([]byte, error) {
	if s.NotHeld != "" || s.Hash == "" {
		return nil, nil
	}
	data, ok := git[s.Git]
	var err error
	if !ok || s.Git == "" {
		if data, err = t.objects.Get(ctx, s.Hash); errors.Is(err, fs.ErrNotExist) && s.Git != "" {
			err = errGit
		}
	}
	if err == nil && journal.HashOf(data) != s.Hash {
		err = errors.New("it is damaged")
	}
	return data, err
}

// Checkout makes the changes of a plan, either all or none, and returns the states after it. If the
// user has changed a file since the plan was made, the changes are merged; if that is impossible,
// the error is an [*edit.ConflictError]. A Checkout that another process left half done is recovered by
// [Files.Attach].
func (t *Tracker) Checkout(ctx context.Context, plan []Change) (map[string]State, error) {
	if err := t.turn.wait(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Unlock()
	plan = slices.DeleteFunc(slices.Clone(plan), func(c Change) bool { return c.Action == ActionKeep })
	var todo []workspace.Restoration
	var names []string
	for _, c := range plan {
		names = append(names, c.Path)
		todo = append(todo, workspace.Restoration{Path: c.Path, From: versionOf(c.Now, c.now), To: versionOf(c.Then, c.then)})
	}
	res, err := t.ws.Restore(ctx, todo)
	err = errors.Join(err, t.afterPlan(ctx, names, &author{}, res))
	states := map[string]State{}
	for _, c := range plan {
		s := &t.files[c.Path].state
		switch {
		case s.Same(c.Then):
			s.Own, s.Back = c.Then.Own, c.Action == ActionCreate || c.Now.Back
		case s.Same(c.Now):
			s.Own, s.Back = c.Now.Own, c.Now.Back
		default: // the user has changed it
			s.Own = false
		}
		states[c.Path] = *s
	}
	return states, err
}

// versionOf returns a state in the form of package workspace.
func versionOf(s State, data []byte) workspace.Version {
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
