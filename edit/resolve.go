package edit

import (
	"slices"

	"github.com/aycoder/aycoder/merge"
)

// Open returns the conflicts of the file that nobody has resolved, with suggestions that follow what was
// resolved in Merge: see Open of [merge.Result]. In the function of [ConflictError.Resolve], they also
// follow what was resolved in the files before it, if that was done with the methods of their Merge.
func (f *FileResult) Open() []merge.OpenConflict {
	if f.Merge == nil {
		return nil
	}
	return f.Merge.Open(f.resolved...)
}

// Resolve returns what remains of a plan that failed with e, after somebody has resolved the conflicts.
// choose returns the text that a file is to have in place of the one that it has now, which is Ours of the
// [FileResult]. A file whose text stays as it is drops out of the plan, so the plan may become empty. If
// others change a file meanwhile, the resolution is merged with that like any other change.
//
// Resolve returns false if choose does, or if a text cannot resolve the conflict of a file: a deletion, a
// binary file, a file that is gone or busy, a text that is too large.
func (e *ConflictError) Resolve(p Plan, choose func(*FileResult) (text string, ok bool)) (Plan, bool) {
	files := p.Files()
	for i := range e.Files {
		f := &e.Files[i]
		at := editOf(files, f.Path)
		if at < 0 || !f.resolvable() {
			return Plan{}, false
		}
		f.resolved = nil
		for _, before := range e.Files[:i] {
			f.resolved = append(f.resolved, *before.Merge)
		}
		text, ok := choose(f)
		if !ok {
			return Plan{}, false
		}
		files[at] = File{Path: files[at].Path, Kind: Change, Base: f.Ours, Proposed: text, Memo: files[at].Memo}
	}
	next, err := NewPlan(files...)
	return next, err == nil && len(e.Files) > 0
}

// resolvable reports whether a text can resolve what prevented the plan.
func (f *FileResult) resolvable() bool {
	return f.Outcome == OutcomeConflicted && f.Kind != Delete && f.Exists && f.Merge != nil && !f.Merge.Binary
}

// Resolved makes r the result of the plan that the model made, after a plan of [ConflictError.Resolve] was
// carried out in its place. Files with another text than the model wanted count as merged, with the changes
// of the user that make the difference. conflicts are the files that were resolved, in order, and those that
// kept their text are added to r. A file that conflicted again is among them several times: the last one counts.
func (r *Result) Resolved(made Plan, conflicts []FileResult) {
	conflicts = slices.Clone(conflicts)
	slices.Reverse(conflicts)
	for i := range conflicts {
		f := conflicts[i] // a copy
		if slices.ContainsFunc(r.Files, func(o FileResult) bool { return o.Path == f.Path }) {
			continue
		}
		f.Outcome, f.Reason, f.Content = OutcomeMerged, "", f.Ours
		r.Files = append(r.Files, f)
	}
	for i := range r.Files {
		f := &r.Files[i]
		wanted, ok := made.File(f.Path)
		at := slices.IndexFunc(conflicts, func(o FileResult) bool { return o.Path == f.Path })
		if !ok || at < 0 || f.Stops() {
			continue
		}
		if c := &conflicts[at]; f.Merge == nil {
			f.Base, f.Ours, f.Theirs, f.Merge = c.Base, c.Ours, c.Theirs, c.Merge
		}
		f.Kind, f.UserChanges = Change, lineChanges(wanted.Proposed, f.Content)
		if f.Outcome = OutcomeMerged; len(f.UserChanges) == 0 {
			f.Outcome = OutcomeApplied
		}
	}
}
