package changeset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/gitpatch"
	"github.com/aycoder/aycoder/merge"
)

const (
	maxChanged  = 2000     // files in a set of changes
	maxDiffs    = 1 << 20  // bytes of their differences
	maxCompared = 8 << 20  // bytes of a file that is compared
	maxLoaded   = 32 << 20 // bytes of files that are in memory at a time
)

// Source is where the contents of states come from.
type Source struct {
	// Content returns the content of a state, which may be in git, as the result of Git.
	Content func(ctx context.Context, s State, git map[string][]byte) ([]byte, error)
	// Git returns the contents of blobs, of which the sizes are known.
	Git func(ctx context.Context, blobs map[string]int64) map[string][]byte
	// Secret reports whether a text has a secret in it.
	Secret func(text string) bool
}

// Changes returns the difference between the beginning and the end. Missing is what it lacks. The
// ledger must not change meanwhile: see [Ledger.Clone].
func (l *Ledger) Changes(ctx context.Context, from Source, missing []string) *edit.Changes {
	s := &changeSet{Source: from, Ledger: l, merged: map[string][]byte{}, missing: missing, room: maxDiffs}
	s.collect(ctx)
	s.pairMoves()
	if n := len(s.files) - maxChanged; n > 0 {
		s.files = s.files[:maxChanged]
		s.missing = append(s.missing, fmt.Sprintf("%d more files have changed.", n))
	}
	s.compare(ctx)
	files := make([]edit.ChangedFile, len(s.files))
	for i, f := range s.files {
		files[i] = f.ChangedFile
	}
	return edit.NewChanges(files, s.missing)
}

// A changeSet is about to become an [edit.Changes].
type changeSet struct {
	Source
	*Ledger
	merged  map[string][]byte // contents that never were in a file
	blobs   map[string][]byte // contents that git has
	files   []*changedFile
	missing []string
	room    int // for differences
}

// changedFile is a file with the states between which the difference is.
type changedFile struct {
	edit.ChangedFile
	name, from    string
	before, after State
}

// collect finds the files that differ, sorted by path.
func (s *changeSet) collect(ctx context.Context) {
	for _, name := range s.Names() {
		n := s.net(ctx, name, ofRun)
		if n.before.Same(n.after) {
			continue
		}
		f := &changedFile{name: name, from: name, before: n.before, after: n.after}
		f.Path, f.Mixed = Key(name), n.mixed || !s.apart(ctx, name, n)
		for _, step := range s.steps[name] {
			f.By = AddBy(f.By, step.By...)
		}
		s.files = append(s.files, f)
	}
}

// net is the difference that somebody makes to a file.
type net struct {
	before, after State
	mixed         bool // with changes of others
}

// A part decides whether a step belongs to the difference that somebody makes, and whether it may be
// somebody else's all the same.
type part func(Step) (own, shared bool)

func ofRun(s Step) (own, shared bool) { return len(s.By) > 0, s.Other }

func ofOthers(s Step) (own, shared bool) { return s.Other, len(s.By) > 0 }

func ofRuns(s Step) (own, shared bool) { return s.Other || len(s.By) > 0, false }

func ofAgent(run string) part {
	return func(s Step) (own, shared bool) {
		own = slices.ContainsFunc(s.By, func(by edit.ChangedBy) bool { return by.Run == run })
		return own, s.Other || len(s.By) > 1
	}
}

// net returns a difference that is made to a file: between what the file would be without it, and what it
// is. The changes of others are merged into what the file would be.
func (s *changeSet) net(ctx context.Context, name string, of part) (n net) {
	steps := s.steps[name]
	n.before = steps[0].From
	past := make([]net, len(steps)) // before each step
	for i, step := range steps {
		past[i] = n
		n.after = step.To
		if own, shared := of(step); own {
			n.mixed = n.mixed || shared
			continue
		}
		back := slices.IndexFunc(steps[:i], func(s Step) bool { return s.From.Same(step.To) })
		if back >= 0 { // an undo
			n.before, n.mixed = past[back].before, past[back].mixed
			continue
		}
		if !s.rebase(ctx, name, &n, step) {
			n.mixed = true
		}
	}
	return n
}

// apart reports whether the difference that the run makes to a file, and that of the runs at the same time,
// lead together from before both to after both.
func (s *changeSet) apart(ctx context.Context, name string, run net) bool {
	if !slices.ContainsFunc(s.steps[name], func(s Step) bool { return s.Other }) {
		return true
	}
	others, both := s.net(ctx, name, ofOthers), s.net(ctx, name, ofRuns)
	if others.mixed || both.mixed {
		return false
	}
	if !others.before.Same(run.after) {
		return s.rebase(ctx, name, &run, Step{From: run.after, To: others.before}) && run.before.Same(both.before)
	}
	return run.before.Same(both.before)
}

// rebase takes a step of somebody else into the state before, and reports whether that was possible.
func (s *changeSet) rebase(ctx context.Context, name string, n *net, step Step) bool {
	from, to := step.From, step.To
	if n.before.Same(from) || to.Kind == "" || from.Kind == "" || to.Kind != from.Kind {
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
	if n.before.Kind != File || to.Kind != File {
		return false
	}
	base, err := s.content(ctx, name, from)
	ours, errOurs := s.content(ctx, name, n.before)
	theirs, errTheirs := s.content(ctx, name, to)
	if errors.Join(err, errOurs, errTheirs) != nil {
		return false
	}
	m := merge.Merge(base, ours, theirs)
	if !m.Clean() {
		return false
	}
	data := m.Bytes()
	n.before = State{Kind: File, Mode: mode, Size: int64(len(data)), Hash: hashOf(data)}
	s.merged[n.before.Hash] = data
	return true
}

// content returns the bytes of a state.
func (s *changeSet) content(ctx context.Context, name string, state State) ([]byte, error) {
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
		git = s.Git(ctx, map[string]int64{state.Git: state.Size})
	}
	data, err := s.Content(ctx, state, git)
	if err != nil {
		err = fmt.Errorf("its content is not held: %w", err)
	}
	return data, err
}

// pairMoves finds the files that were moved: one of a name that is gone has the content of one that is
// new.
func (s *changeSet) pairMoves() {
	gone := map[string][]*changedFile{}
	for _, f := range s.files {
		if f.before.Kind == File && f.before.Size > 0 && f.before.Hash != "" && f.after.Kind == "" && !f.Mixed {
			gone[f.before.Hash] = append(gone[f.before.Hash], f)
		}
	}
	moved := map[*changedFile]bool{}
	for _, f := range s.files {
		if f.before.Kind != "" || f.after.Kind != File || f.Mixed || len(gone[f.after.Hash]) == 0 {
			continue
		}
		old := gone[f.after.Hash][0]
		gone[f.after.Hash] = gone[f.after.Hash][1:]
		moved[old] = true
		f.from, f.From, f.before, f.By = old.name, old.Path, old.before, AddBy(old.By, f.By...)
	}
	s.files = slices.DeleteFunc(s.files, func(f *changedFile) bool { return moved[f] })
}

// compare describes the files and adds their differences, as long as there is room.
func (s *changeSet) compare(ctx context.Context) {
	for rest := s.files; len(rest) > 0; {
		n := s.load(ctx, rest)
		for _, f := range rest[:n] {
			f.describe()
			s.diff(ctx, f)
			if f.Diff != "" {
				f.Secret = s.hasSecret(f)
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
		for _, state := range []State{files[n].before, files[n].after} {
			if state.Git != "" && state.Size <= maxCompared && s.room > 0 {
				blobs[state.Git] = state.Size
				size += state.Size
			}
		}
		n++
	}
	s.blobs = s.Git(ctx, blobs)
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

func versionIn(s State) edit.FileVersion {
	v := edit.FileVersion{Mode: s.Mode, Size: s.Size, Hash: s.Hash}
	switch s.Kind {
	case Link:
		v.Mode |= fs.ModeSymlink
	case Other:
		v.Mode |= fs.ModeIrregular
	}
	return v
}

// diff adds the difference of a file.
func (s *changeSet) diff(ctx context.Context, f *changedFile) {
	var err error
	f.Diff, f.Added, f.Removed, err = s.patch(ctx, f.from, f.name, f.before, f.after)
	if err == nil && f.Diff == "" {
		err = fmt.Errorf("git knows only the executable bit of its permissions, which were %o and are %o",
			f.before.Mode, f.after.Mode)
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
			n := s.net(ctx, name, ofAgent(by.Run))
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
func (s *changeSet) patch(
	ctx context.Context, from, to string, before, after State,
) (text string, added, removed int, err error) {
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
	data, added, removed := gitpatch.Of(from, to,
		gitpatch.Version{Mode: gitMode(before), Data: a}, gitpatch.Version{Mode: gitMode(after), Data: b})
	if len(data) > s.room {
		return "", 0, 0, errNoDiffRoom
	}
	s.room -= len(data)
	return string(data), added, removed, nil
}

var errNoDiffRoom = fmt.Errorf("the differences of the run are larger than %d bytes", maxDiffs)

// gitMode returns the mode that git gives to a state.
func gitMode(s State) int {
	switch {
	case s.Kind == "":
		return 0
	case s.Kind == Link:
		return 0o120000
	case s.Mode&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

// hasSecret reports whether the lines of a difference have a secret in them.
func (s *changeSet) hasSecret(f *changedFile) bool {
	var text strings.Builder
	text.WriteString(f.Diff)
	for _, by := range f.By {
		text.WriteString(by.Diff)
	}
	var lines strings.Builder
	for line := range strings.Lines(text.String()) {
		lines.WriteString(line[1:]) // without the sign
	}
	return s.Secret(lines.String())
}
