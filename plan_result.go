package aycoder

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/merge"
)

// Outcome says what happened to a file of a plan. [FileResult.Stops] tells which outcomes
// prevent the plan from being carried out.
type Outcome string

// The outcomes. The first three mean success. Any other outcome keeps the whole plan
// from being carried out, unless the file was written with conflict markers: see
// WithWrittenConflicts of package workspace.
const (
	// OutcomeApplied means that the file now has the proposed content, or is deleted, as the
	// plan wanted.
	OutcomeApplied Outcome = "applied"
	// OutcomeMerged means that the file has both the proposed changes and those that the
	// user made since the model was shown it.
	OutcomeMerged Outcome = "merged"
	// OutcomeUnchanged means that the file already had the proposed content, or was already
	// deleted, so nothing was written.
	OutcomeUnchanged Outcome = "unchanged"
	// OutcomeConflicted means that the user changed the same lines, or changed a file that
	// was to be deleted, or created a file of the same name. See WithWrittenConflicts of
	// package workspace.
	OutcomeConflicted Outcome = "conflicted"
	// OutcomeGone means that the file that was to be changed no longer exists. It is not
	// created again, since the user deleted it.
	OutcomeGone Outcome = "gone"
	// OutcomeKindChanged means that the file is now a directory or a link, or is binary or
	// very large.
	OutcomeKindChanged Outcome = "kind_changed"
	// OutcomeBusy means that another program has the file open for writing, or changes it
	// again and again.
	OutcomeBusy Outcome = "busy"
	// OutcomeSkipped means that this file could have been changed, but the plan was not
	// carried out because of another file.
	OutcomeSkipped Outcome = "skipped"
)

// FileResult reports what Workspace.Apply of package workspace did to a file, and what it
// found in the file's place.
type FileResult struct {
	Path    string   `json:"path"`
	Kind    EditKind `json:"kind"`
	Outcome Outcome  `json:"outcome"`
	// Reason says in words why the outcome is not one of the first three.
	Reason string `json:"reason,omitempty"`
	// Written says that the file was created, changed or deleted.
	Written bool `json:"written"`
	// Content is the current content of the file, as far as it was read; Exists says
	// whether the file exists. A model that gets the result has been shown this content.
	Content string `json:"-"`
	Exists  bool   `json:"exists"`
	// UserChanges are the user's changes in a merged file: the differences between the
	// proposed text, which is the old side, and the merged text, which is the new side.
	UserChanges []LineChange `json:"user_changes,omitempty"`
	// Base, Ours and Theirs are the texts of the most recent merge, and Merge is the
	// result. Ours is the user's text. After a conflict, the Bytes of Merge are the text
	// with conflict markers, for a person to resolve.
	Base   string        `json:"-"`
	Ours   string        `json:"-"`
	Theirs string        `json:"-"`
	Merge  *merge.Result `json:"-"`
	// Sidecars names files that hold a text of the user that is in no other file: their names are
	// that of the file with ".save" appended. They are only written if two programs saved the
	// file while it was being replaced, and what they saved could not be merged.
	Sidecars []string `json:"sidecars,omitempty"`
	// OtherNames says that the file had other hard links, which still lead to the old content.
	OtherNames bool `json:"other_names,omitempty"`
	// Undo is the edit that takes the change back, or nil if nothing was done. It holds
	// the whole content before and after.
	Undo *FileEdit `json:"undo,omitempty"`
}

// Stops reports whether the outcome prevents the plan from being carried out.
func (r *FileResult) Stops() bool {
	switch r.Outcome {
	case OutcomeGone, OutcomeKindChanged, OutcomeBusy:
		return true
	}
	return r.Outcome == OutcomeConflicted && !r.Written
}

// ApplyResult is the result of Workspace.Apply of package workspace, file by file in
// the order of the plan.
type ApplyResult struct {
	Files []FileResult `json:"files"`
}

// Undo returns a plan that takes the changes back. It is applied like any other plan: edits that
// the user has made since are merged, or conflict with it. A deleted file comes back with its
// permissions. A deleted symbolic link does not come back, since a plan cannot make one.
func (r *ApplyResult) Undo() EditPlan {
	var p EditPlan
	for i := range r.Files {
		if e := r.Files[i].Undo; e != nil {
			p.files = append(p.files, *e)
		}
	}
	return p
}

// ConflictError reports that a plan was not carried out, because files have changed
// since the model was shown them and the changes do not merge. No file was changed.
type ConflictError struct {
	// Files are the files that prevented it.
	Files []FileResult
}

// Error implements error.
func (e *ConflictError) Error() string {
	var b strings.Builder
	b.WriteString("apply plan: ")
	for i := range e.Files[:min(len(e.Files), 5)] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(runes.Path(e.Files[i].Path) + ": " + e.Files[i].Reason)
	}
	if n := len(e.Files) - 5; n > 0 {
		fmt.Fprintf(&b, "; and %d more", n)
	}
	return b.String()
}

const (
	maxApplyText = 24 << 10 // bytes of the text for a model about a plan
	maxFileText  = 6 << 10  // bytes of it about one file, at least
)

// ModelText returns a text that tells the model what happened to its plan: for each file, whether
// it was written, which changes of the user it contains or conflicts with, on which lines the
// result is, and how to go on. It is valid UTF-8 of less than 32 KiB.
func (r *ApplyResult) ModelText() string {
	var stopped, done []*FileResult
	for i := range r.Files {
		if f := &r.Files[i]; f.Stops() {
			stopped = append(stopped, f)
		} else {
			done = append(done, f)
		}
	}
	b := modelNote{max: maxApplyText}
	if len(stopped) > 0 {
		b.add("The changes were not made: " + inTheWay(stopped) + ".\n")
	}
	for i, f := range stopped {
		b.file(f, len(stopped)-i)
	}
	for i, f := range done {
		b.file(f, len(done)-i)
	}
	return b.String()
}

// ModelText returns a text that tells the model which files prevented the plan and why,
// in the form of [ApplyResult.ModelText].
func (e *ConflictError) ModelText() string { return (&ApplyResult{e.Files}).ModelText() }

func inTheWay(files []*FileResult) string {
	if len(files) == 1 {
		return "a file is not what you were shown"
	}
	return fmt.Sprintf("%d files are not what you were shown", len(files))
}

// file adds the text about one file, within its share of the room that is left.
func (b *modelNote) file(f *FileResult, left int) {
	note := modelNote{max: min(max((b.max-b.Len())/left, 1024), max(maxFileText, maxApplyText/left))}
	note.outcome(f)
	if f.OtherNames && f.Written {
		note.add("It had other hard links; they keep the old content.\n")
	}
	for _, name := range f.Sidecars {
		note.add("A text that the user saved meanwhile is in " + runes.Path(name) + "; bring the two together.\n")
	}
	b.add(note.String())
}

func (b *modelNote) outcome(f *FileResult) {
	name := runes.Path(f.Path)
	switch f.Outcome {
	case OutcomeApplied:
		b.add(name + ": " + f.did() + ".\n")
	case OutcomeMerged:
		if f.Reason != "" {
			b.add(name + ": " + f.Reason + ".\n")
			return
		}
		b.add(name + ": " + f.did() + " and merged; it had changed since you read it. " +
			"The file now has (+) in place of your text (-):\n")
		b.changes(f.UserChanges)
	case OutcomeUnchanged:
		b.add(name + ": nothing to do; it is already as you want it.\n")
		if len(f.UserChanges) > 0 {
			b.add("It has other changes (+) beside your text (-):\n")
			b.changes(f.UserChanges)
		}
	case OutcomeSkipped:
		b.add(name + ": not changed.\n")
	default:
		b.add(name + ": " + f.Reason + ".\n")
		b.conflict(f)
	}
}

func (f *FileResult) did() string {
	switch f.Kind {
	case EditCreate:
		return "created"
	case EditDelete:
		return "deleted"
	}
	return "changed"
}

// conflict adds what to do about a file that prevents the plan.
func (b *modelNote) conflict(f *FileResult) {
	switch {
	case f.Outcome == OutcomeGone:
		b.add("The user deleted or renamed it. Look for it, or create it if it is still needed.\n")
	case f.Outcome == OutcomeBusy:
		b.add("Try again later, or ask the user to close it.\n")
	case f.Outcome != OutcomeConflicted || f.Merge == nil || f.Merge.Binary:
		b.add("Read it again before you change it.\n")
	case f.Written:
		b.add("Resolve them: read the file, keep what the user wrote, and remove the markers.\n")
		b.regions(f)
	case f.Kind == EditDelete:
		b.add("Read it again, and delete it only if what the user changed is not needed. The changes (+):\n")
		b.changes(lineChanges(f.Base, f.Ours))
	default:
		b.add("Keep what the user has, and make your change again on top of it:\n")
		b.regions(f)
	}
}

// regions adds each conflict.
func (b *modelNote) regions(f *FileResult) {
	base, ours, theirs := []byte(f.Base), []byte(f.Ours), []byte(f.Theirs)
	for _, g := range f.Merge.Regions {
		if g.Kind != merge.Conflict || b.full {
			continue
		}
		b.add(fmt.Sprintf("@@ line %d: when you read it @@\n", g.Ours.FirstLine+1))
		b.lines(" ", string(g.Base.Of(base)))
		if s := g.Suggestion; s != nil && s.Rule == merge.RuleLineEndings {
			b.add("(one side has other line endings, CRLF or LF, in all of these lines)\n")
		}
		b.add("@@ what the user has there now @@\n")
		b.lines(" ", string(g.Ours.Of(ours)))
		b.add("@@ what you wanted @@\n")
		b.lines(" ", string(g.Theirs.Of(theirs)))
	}
}

// Changes returns the files in the form that [ToolFinished] can carry.
func (e *ConflictError) Changes() *ApplyResult { return &ApplyResult{Files: e.Files} }

// Kind returns the kind of the first element of Files, for programs to compare: "conflict",
// "gone", "kind_changed" or "busy".
func (e *ConflictError) Kind() string {
	if len(e.Files) == 0 || e.Files[0].Outcome == OutcomeConflicted {
		return "conflict"
	}
	return string(e.Files[0].Outcome)
}
