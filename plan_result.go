package aycoder

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/merge"
)

// Outcome says what became of a file of a plan.
type Outcome string

// The outcomes. With the first four nothing stands in the way of the plan, with the
// others nothing of it is done.
const (
	// OutcomeApplied: the file is what was proposed.
	OutcomeApplied Outcome = "applied"
	// OutcomeMerged: the file has what was proposed and what the user changed since
	// the model was shown it.
	OutcomeMerged Outcome = "merged"
	// OutcomeUnchanged: the file was what was to be made of it already.
	OutcomeUnchanged Outcome = "unchanged"
	// OutcomeConflicted: the user changed the same lines, or a file that was to be
	// deleted, or created one of the name. See WithWrittenConflicts of package workspace.
	OutcomeConflicted Outcome = "conflicted"
	// OutcomeGone: the file that was to be changed is not there any more.
	OutcomeGone Outcome = "gone"
	// OutcomeKindChanged: the file is a folder now, or a link, binary, or very large.
	OutcomeKindChanged Outcome = "kind_changed"
	// OutcomeBusy: another program has the file open for writing, or changes it again
	// and again.
	OutcomeBusy Outcome = "busy"
	// OutcomeSkipped: nothing was wrong with this file, but with another.
	OutcomeSkipped Outcome = "skipped"
)

// FileResult says what Workspace.Apply of package workspace did to a file.
type FileResult struct {
	Path    string   `json:"path"`
	Kind    EditKind `json:"kind"`
	Outcome Outcome  `json:"outcome"`
	// Reason says in words why the outcome is none of the first three.
	Reason string `json:"reason,omitempty"`
	// Written says that the plan is in the file: it was created, changed or deleted.
	Written bool `json:"written"`
	// Content is what is in the file now, as far as it was read; Exists whether there
	// is one. A model that is told of the result has been shown this.
	Content string `json:"-"`
	Exists  bool   `json:"exists"`
	// UserChanges are the changes of the user in a merged file: what it has beside what was
	// proposed, which is the old side, with the lines that they have now.
	UserChanges []LineChange `json:"user_changes,omitempty"`
	// Base, Ours and Theirs were merged last, and Merge is what came of it. Of a
	// conflict its Bytes are the text with markers, for a person to resolve. Ours is
	// what the user has.
	Base   string        `json:"-"`
	Ours   string        `json:"-"`
	Theirs string        `json:"-"`
	Merge  *merge.Result `json:"-"`
	// Sidecars names files that hold a text of the user's that is in no other file: they are
	// called as the file with ".save" at the end. There are some only if two programs saved
	// a file while it was replaced, and what they saved does not merge.
	Sidecars []string `json:"sidecars,omitempty"`
	// OtherNames says that the file had other hard links, which keep the old content.
	OtherNames bool `json:"other_names,omitempty"`
	// Undo takes back what was done to the file; nil if nothing was. It holds the whole
	// file, before and after.
	Undo *FileEdit `json:"undo,omitempty"`
}

// Stops reports whether the outcome keeps the plan from being done.
func (r *FileResult) Stops() bool {
	switch r.Outcome {
	case OutcomeGone, OutcomeKindChanged, OutcomeBusy:
		return true
	}
	return r.Outcome == OutcomeConflicted && !r.Written
}

// ApplyResult says what Workspace.Apply of package workspace did, file by file in the order of the plan.
type ApplyResult struct {
	Files []FileResult `json:"files"`
}

// Undo returns the plan that takes back what was done. It is applied like any other, so
// that what the user changed since is merged with it or in its way. A file that was
// deleted comes back with its permissions. A symbolic link that was deleted does not come
// back: no plan makes one.
func (r *ApplyResult) Undo() EditPlan {
	var p EditPlan
	for i := range r.Files {
		if e := r.Files[i].Undo; e != nil {
			p.files = append(p.files, *e)
		}
	}
	return p
}

// ConflictError says that a plan was not carried out, since files are not any more
// what the model was shown, and the changes do not merge. No file was changed.
type ConflictError struct {
	// Files are those that stood in the way.
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
	maxApplyText = 24 << 10 // bytes of what a model is told about a plan
	maxFileText  = 6 << 10  // and about one file of it, at least
)

// ModelText tells the model what became of its plan: for each file whether it was
// written, what of the user's is in it or stands in the way, on which lines it is now,
// and how to go on. It is valid UTF-8 and less than 32 KiB long.
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

// ModelText tells the model what stands in the way, as [ApplyResult.ModelText] does.
func (e *ConflictError) ModelText() string { return (&ApplyResult{e.Files}).ModelText() }

func inTheWay(files []*FileResult) string {
	if len(files) == 1 {
		return "a file is not what you were shown"
	}
	return fmt.Sprintf("%d files are not what you were shown", len(files))
}

// file tells about one file, in its share of the room that is left.
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
			"What is in it now (+) in place of your text (-):\n")
		b.changes(f.UserChanges)
	case OutcomeUnchanged:
		b.add(name + ": nothing to do; it is so already.\n")
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

// conflict says what to do about a file that stands in the way.
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

// regions shows each conflict.
func (b *modelNote) regions(f *FileResult) {
	base, ours, theirs := []byte(f.Base), []byte(f.Ours), []byte(f.Theirs)
	for _, g := range f.Merge.Regions {
		if g.Kind != merge.Conflict || b.full {
			continue
		}
		b.add(fmt.Sprintf("@@ line %d: when you read it @@\n", g.Ours.FirstLine+1))
		b.lines(" ", string(g.Base.Of(base)))
		if s := g.Suggestion; s != nil && s.Rule == diff3.RuleEndings {
			b.add("(one side has other line endings, CRLF or LF, in all of these lines)\n")
		}
		b.add("@@ what the user has there now @@\n")
		b.lines(" ", string(g.Ours.Of(ours)))
		b.add("@@ what you wanted @@\n")
		b.lines(" ", string(g.Theirs.Of(theirs)))
	}
}

// Changes returns the files as a result that [ToolFinished] can carry.
func (e *ConflictError) Changes() *ApplyResult { return &ApplyResult{Files: e.Files} }

// Kind returns a word for programs: "conflict", "gone", "kind_changed" or "busy". It is
// that of the first file that stands in the way.
func (e *ConflictError) Kind() string {
	if len(e.Files) == 0 || e.Files[0].Outcome == OutcomeConflicted {
		return "conflict"
	}
	return string(e.Files[0].Outcome)
}
