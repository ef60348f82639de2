package edit

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/merge"
)

// Outcome says what happened to a file of a plan. Some outcomes prevent the whole plan from being
// carried out: see [FileResult.Stops].
type Outcome string

// The outcomes of a file. Applied, merged and unchanged mean success. A file with any other
// outcome prevents the whole plan, so that no file is changed. The exception is a file that was
// written with conflict markers: see WithWrittenConflicts of package workspace.
const (
	// OutcomeApplied means that the file now has the proposed content, or was deleted as planned.
	OutcomeApplied Outcome = "applied"
	// OutcomeMerged means that the file now has both the proposed changes and those that the user
	// made after the model read the file.
	OutcomeMerged Outcome = "merged"
	// OutcomeUnchanged means that the file already had the proposed content, or was already
	// deleted, so nothing was written.
	OutcomeUnchanged Outcome = "unchanged"
	// OutcomeConflicted means that the user changed the same lines as the plan, changed a file
	// that the plan deletes, or created a file that the plan creates. The file may be written
	// with conflict markers: see WithWrittenConflicts of package workspace.
	OutcomeConflicted Outcome = "conflicted"
	// OutcomeGone means that the plan changes a file that no longer exists. The file is not
	// created again, since the user deleted it.
	OutcomeGone Outcome = "gone"
	// OutcomeKindChanged means that the path is now a directory, a link, a binary or a huge file.
	OutcomeKindChanged Outcome = "kind_changed"
	// OutcomeBusy means that another program has the file open for writing, or keeps changing it.
	OutcomeBusy Outcome = "busy"
	// OutcomeSkipped means that this file could have been changed, but the plan was not
	// carried out because of another file.
	OutcomeSkipped Outcome = "skipped"
)

// FileResult reports what Workspace.Apply of package workspace did to one file of a plan, and
// what it found at the path of the file.
type FileResult struct {
	Path    string  `json:"path"`
	Kind    Kind    `json:"kind"`
	Outcome Outcome `json:"outcome"`
	// Reason explains the outcome in words. It is "" if the plan was simply carried out.
	Reason string `json:"reason,omitempty"`
	// Written says that the file was created, changed or deleted.
	Written bool `json:"written"`
	// Content is the whole content of the file after Apply, or "" if there is no file or Apply
	// could not read it. Exists says whether the file exists. After a plan was carried out, the
	// tools of package tools normally count Content as read by the model.
	Content string `json:"-"`
	Exists  bool   `json:"exists"`
	// UserChanges are the user's changes in a merged file. In each change, Old is a part of the
	// proposed text, and New is the part of the merged text that replaces Old.
	UserChanges []LineChange `json:"user_changes,omitempty"`
	// Base, Ours and Theirs are the texts of the most recent merge: what the model was shown,
	// what the user has, and what the model proposed. Merge is the result. After a conflict, the
	// Bytes of Merge are the text with conflict markers, for a person to resolve.
	Base   string        `json:"-"`
	Ours   string        `json:"-"`
	Theirs string        `json:"-"`
	Merge  *merge.Result `json:"-"`
	// Sidecars are the names of files, each with a text of the user that is nowhere else. Apply
	// writes a sidecar if another program saved the file while Apply replaced it, and the saved
	// text could not be merged. Its name is that of the file plus ".save", or ".save~" if taken.
	Sidecars []string `json:"sidecars,omitempty"`
	// OtherNames says that the file has other hard links, which still lead to the old content.
	OtherNames bool `json:"other_names,omitempty"`
	// Undo is the edit that undoes the change, or nil if the file was not changed. It holds the
	// whole content before and after the change. Its path is that of the file which a link led to if
	// the edit created that file through the link.
	Undo *File `json:"undo,omitempty"`

	resolved []merge.Result // of the files before this one: see Open
}

// Stops reports whether the outcome of this file prevents the whole plan from being carried out.
func (r *FileResult) Stops() bool {
	switch r.Outcome {
	case OutcomeGone, OutcomeKindChanged, OutcomeBusy:
		return true
	}
	return r.Outcome == OutcomeConflicted && !r.Written
}

// Result is the result of Workspace.Apply of package workspace. It has one element for each
// file of the plan, in the same order.
type Result struct {
	Files []FileResult `json:"files"`
}

// Undo returns a plan that undoes the changes. Apply it like any other plan: if the user has
// edited a file since, the edits are merged or cause a conflict. A deleted file is restored with
// its permissions, but without its extended attributes. A deleted symbolic link is not restored: a
// plan cannot create links. Directories that the changes have created remain.
func (r *Result) Undo() Plan {
	var p Plan
	for i := range r.Files {
		if e := r.Files[i].Undo; e != nil {
			p.files = append(p.files, *e)
		}
	}
	return p
}

// ConflictError reports that a plan was not carried out and wrote nothing, because somebody else
// has changed its files since the model was shown them, and the changes cannot be merged.
type ConflictError struct {
	// Files are the files that prevented the plan.
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

// ModelText returns a report for the model about its plan: for each file, whether it was written,
// and how to deal with a problem such as a conflict. The text lists the user's changes that were
// merged or that conflict, with line numbers. It is valid UTF-8 of less than 32 KiB.
func (r *Result) ModelText() string {
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
// in the form of [Result.ModelText].
func (e *ConflictError) ModelText() string { return (&Result{e.Files}).ModelText() }

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
	case Create:
		return "created"
	case Delete:
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
	case f.Kind == Delete:
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

// Changes returns Files as a [Result], the type of Changes in aycoder.ToolFinished.
func (e *ConflictError) Changes() *Result { return &Result{Files: e.Files} }

// Kind returns a word for the outcome of the first element of Files, for programs to compare:
// "conflict", "gone", "kind_changed" or "busy".
func (e *ConflictError) Kind() string {
	if len(e.Files) == 0 || e.Files[0].Outcome == OutcomeConflicted {
		return "conflict"
	}
	return string(e.Files[0].Outcome)
}
