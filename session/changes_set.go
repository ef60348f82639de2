package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/gitpatch"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxChanged  = 2000     // files in a set of changes
	maxDiffs    = 1 << 20  // bytes of their differences
	maxCompared = 8 << 20  // bytes of a file that is compared
	maxLoaded   = 32 << 20 // bytes of files that are in memory at a time
)

// changes returns what the run has changed.
func (l *ledger) changes(ctx context.Context, masker func() *tools.Masker) *edit.Changes {
	t := l.tracker
	t.turn.Lock()
	missing := slices.Clone(l.missing)
	err := t.catchUp(ctx)
	for _, name := range slices.Sorted(maps.Keys(l.steps)) {
		if err == nil {
			err = t.look(ctx, name, false)
		}
		l.settle(name, t.file(name).state)
	}
	if err != nil {
		missing = append(missing, "The files were not looked at again when the run was over: "+err.Error()+".")
	}
	missing = append(missing, l.unseen()...)
	all := maps.Clone(l.steps)
	for name, steps := range all {
		all[name] = slices.Clone(steps)
	}
	t.turn.Unlock()
	s := &changeSet{tracker: t, steps: all, merged: map[Hash][]byte{}, missing: missing, room: maxDiffs}
	s.collect(ctx)
	s.pairMoves()
	if n := len(s.files) - maxChanged; n > 0 {
		s.files = s.files[:maxChanged]
		s.missing = append(s.missing, fmt.Sprintf("%d more files have changed.", n))
	}
	s.compare(ctx, masker)
	files := make([]edit.ChangedFile, len(s.files))
	for i, f := range s.files {
		files[i] = f.ChangedFile
	}
	return edit.NewChanges(files, s.missing)
}

// unseen says what commands may have changed unseen.
func (l *ledger) unseen() (out []string) {
	t := l.tracker
	for _, c := range t.commands {
		if slices.Contains(c.runs, l.run) && !c.ended.Load() {
			out = append(out, "A command still runs.")
			break
		}
	}
	if !l.commands {
		return out
	}
	if ignored := slices.Sorted(maps.Keys(t.unseen.ignored)); len(ignored) > 0 {
		more := ""
		if n := len(ignored) - 5; n > 0 {
			ignored, more = ignored[:5], fmt.Sprintf(" and %d more", n)
		}
		for i, name := range ignored {
			ignored[i] = keyOf(name)
		}
		out = append(out, "Commands are not watched in what git ignores: "+strings.Join(ignored, ", ")+more+".")
	}
	if t.unseen.some {
		out = append(out, "Commands are not watched in all files: there are too many, or some directories cannot be read.")
	}
	return out
}

// A changeSet is about to become an [edit.Changes].
type changeSet struct {
	tracker *tracker
	steps   map[string][]step
	merged  map[Hash][]byte   // contents that never were in a file
	blobs   map[string][]byte // contents that git has
	files   []*changedFile
	missing []string
	room    int // for differences
}

// changedFile is a file with the states between which the difference is.
type changedFile struct {
	edit.ChangedFile
	name, from    string
	before, after FileState
}

// collect finds the files that differ, sorted by path.
func (s *changeSet) collect(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(s.steps)) {
		n := s.net(ctx, name, "")
		if n.before.same(n.after) {
			continue
		}
		f := &changedFile{name: name, from: name, before: n.before, after: n.after}
		f.Path, f.Mixed = keyOf(name), n.mixed
		for _, step := range s.steps[name] {
			f.By = addBy(f.By, step.By...)
		}
		s.files = append(s.files, f)
	}
}

// net is the difference that somebody makes to a file.
type net struct {
	before, after FileState
	mixed         bool // with changes of others
}

// net returns the difference that the run makes to a file, or with the id of a run only that of its
// agent: between what the file would be without it, and what it is. The changes of others are merged
// into what the file would be.
func (s *changeSet) net(ctx context.Context, name, run string) (n net) {
	steps := s.steps[name]
	n.before = steps[0].From
	n.after = n.before
	for _, step := range steps {
		n.after = step.To
		own := func(by edit.ChangedBy) bool { return run == "" || by.Run == run }
		if slices.ContainsFunc(step.By, own) {
			n.mixed = n.mixed || run != "" && len(step.By) > 1
			continue
		}
		if !n.rebase(step, func(state FileState) ([]byte, error) { return s.content(ctx, name, state) }, s.merged) {
			n.mixed = true
		}
	}
	return n
}

// rebase takes a step of somebody else into the state before, and reports whether that was possible.
func (n *net) rebase(step step, content func(FileState) ([]byte, error), merged map[Hash][]byte) bool {
	from, to := step.From, step.To
	if n.before.same(from) || to.Kind == "" || from.Kind == "" || to.Kind != from.Kind {
		n.before = to // the file is wholly theirs
		return true
	}
	if n.before.Kind == "" { // the run has created it
		return false
	}
	mode := n.before.Mode
	if from.Mode != to.Mode {
		mode = to.Mode
	}
	if from.Hash == to.Hash && from.Hash != "" {
		n.before.Mode = mode
		return true
	}
	if n.before.Kind != KindFile || to.Kind != KindFile {
		return false
	}
	base, err := content(from)
	ours, errOurs := content(n.before)
	theirs, errTheirs := content(to)
	if errors.Join(err, errOurs, errTheirs) != nil {
		return false
	}
	m := merge.Merge(base, ours, theirs)
	if !m.Clean() {
		return false
	}
	data := m.Bytes()
	n.before = FileState{Kind: KindFile, Mode: mode, Size: int64(len(data)), Hash: HashOf(data)}
	merged[n.before.Hash] = data
	return true
}

// content returns the bytes of a state.
func (s *changeSet) content(ctx context.Context, name string, state FileState) ([]byte, error) {
	switch data, ok := s.merged[state.Hash]; {
	case ok:
		return data, nil
	case state.Kind == "":
		return nil, nil
	case !utf8.ValidString(name):
		return nil, errors.New("its name is not valid UTF-8")
	case state.NotHeld != "" || state.Hash == "":
		return nil, fmt.Errorf("its content is not held: %s", cmp.Or(state.NotHeld, "it is no file"))
	case state.Size > maxCompared:
		return nil, fmt.Errorf("it is larger than %d bytes", maxCompared)
	}
	git := s.blobs
	if git[state.Git] == nil && state.Git != "" {
		git = s.tracker.repo.contents(ctx, map[string]int64{state.Git: state.Size})
	}
	data, err := s.tracker.content(ctx, state, git)
	if err != nil {
		err = fmt.Errorf("its content is not held: %w", err)
	}
	return data, err
}

// pairMoves finds the files that were moved: one of a name that is gone has the content of one that is
// new.
func (s *changeSet) pairMoves() {
	gone := map[Hash][]*changedFile{}
	for _, f := range s.files {
		if f.before.Kind == KindFile && f.before.Size > 0 && f.before.Hash != "" && f.after.Kind == "" && !f.Mixed {
			gone[f.before.Hash] = append(gone[f.before.Hash], f)
		}
	}
	moved := map[*changedFile]bool{}
	for _, f := range s.files {
		if f.before.Kind != "" || f.after.Kind != KindFile || f.Mixed || len(gone[f.after.Hash]) == 0 {
			continue
		}
		old := gone[f.after.Hash][0]
		gone[f.after.Hash] = gone[f.after.Hash][1:]
		moved[old] = true
		f.from, f.From, f.before, f.By = old.name, old.Path, old.before, addBy(old.By, f.By...)
	}
	s.files = slices.DeleteFunc(s.files, func(f *changedFile) bool { return moved[f] })
}

// compare describes the files and adds their differences, as long as there is room.
func (s *changeSet) compare(ctx context.Context, masker func() *tools.Masker) {
	for rest := s.files; len(rest) > 0; {
		n := s.load(ctx, rest)
		for _, f := range rest[:n] {
			f.describe()
			s.diff(ctx, f)
			if f.Diff != "" {
				f.Secret = hasSecret(masker(), f)
			}
		}
		rest = rest[n:]
	}
}

// load reads the contents of some of the files from git, which takes as long for one as for many. It
// returns how many.
func (s *changeSet) load(ctx context.Context, files []*changedFile) (n int) {
	blobs, size := map[string]int64{}, int64(0)
	for n < len(files) && (n == 0 || size < maxLoaded) {
		for _, state := range []FileState{files[n].before, files[n].after} {
			if state.Git != "" && state.Size <= maxCompared && s.room > 0 {
				blobs[state.Git] = state.Size
				size += state.Size
			}
		}
		n++
	}
	s.blobs = s.tracker.repo.contents(ctx, blobs)
	return n
}

// describe says what became of a file.
func (f *changedFile) describe() {
	a, b := f.before, f.after
	f.Before, f.After = versionIn(a), versionIn(b)
	switch {
	case f.From != "":
		f.Kind = edit.ChangeMoved
	case a.Kind == "":
		f.Kind = edit.ChangeCreated
	case b.Kind == "":
		f.Kind = edit.ChangeDeleted
	case a.Kind == b.Kind && a.Hash == b.Hash && a.Hash != "":
		f.Kind = edit.ChangeMode
	default:
		f.Kind = edit.ChangeModified
	}
}

func versionIn(s FileState) edit.FileVersion {
	v := edit.FileVersion{Mode: s.Mode, Size: s.Size, Hash: string(s.Hash)}
	switch s.Kind {
	case KindLink:
		v.Mode |= fs.ModeSymlink
	case KindOther:
		v.Mode |= fs.ModeIrregular
	}
	return v
}

// diff adds the difference of a file.
func (s *changeSet) diff(ctx context.Context, f *changedFile) {
	var err error
	f.Diff, f.Added, f.Removed, err = s.patch(ctx, f.from, f.name, f.before, f.after)
	if err == nil && f.Diff == "" {
		err = fmt.Errorf("git knows only the executable bit of its permissions, which were %o and are %o", f.before.Mode, f.after.Mode)
	}
	if err != nil {
		f.NoDiff = err.Error()
		return
	}
	if len(f.By) == 1 {
		return
	}
	for i := range f.By {
		by := &f.By[i]
		names := []string{f.from, f.name}
		for _, name := range slices.Compact(names) {
			n := s.net(ctx, name, by.Run)
			if n.mixed {
				by.Diff = ""
				break
			}
			text, _, _, err := s.patch(ctx, name, name, n.before, n.after)
			if err != nil {
				break
			}
			by.Diff += text
		}
	}
}

// patch returns the difference between two states, and uses up room for it.
func (s *changeSet) patch(ctx context.Context, from, to string, before, after FileState) (text string, added, removed int, err error) {
	if s.room <= 0 {
		return "", 0, 0, errNoDiffRoom
	}
	a, err := s.content(ctx, from, before)
	if err != nil {
		return "", 0, 0, fmt.Errorf("before: %w", err)
	}
	b, err := s.content(ctx, to, after)
	if err != nil {
		return "", 0, 0, err
	}
	data, added, removed := gitpatch.Of(from, to, gitpatch.Version{Mode: gitMode(before), Data: a}, gitpatch.Version{Mode: gitMode(after), Data: b})
	if len(data) > s.room {
		return "", 0, 0, errNoDiffRoom
	}
	s.room -= len(data)
	return string(data), added, removed, nil
}

var errNoDiffRoom = fmt.Errorf("the differences of the run are larger than %d bytes", maxDiffs)

// gitMode returns the mode that git gives to a state.
func gitMode(s FileState) int {
	switch {
	case s.Kind == "":
		return 0
	case s.Kind == KindLink:
		return 0o120000
	case s.Mode&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

// hasSecret reports whether the lines of a difference have a secret in them.
func hasSecret(m *tools.Masker, f *changedFile) bool {
	text := f.Diff
	for _, by := range f.By {
		text += by.Diff
	}
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(line[1:]) // without the sign
	}
	plain := lines.String()
	return m.Mask(plain) != tools.EscapeInvisible(plain)
}
