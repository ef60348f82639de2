package aycoder

import (
	"fmt"

	"github.com/aycoder/aycoder/internal/diff3"
)

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
		if f := &r.Files[i]; f.stops() {
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
	for _, name := range f.Beside {
		note.add("A text that the user saved meanwhile is in " + showPath(name) + "; bring the two together.\n")
	}
	b.add(note.String())
}

func (b *modelNote) outcome(f *FileResult) {
	name := showPath(f.Path)
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
		b.changes(f.Kept)
	case OutcomeUnchanged:
		b.add(name + ": nothing to do; it is so already.\n")
		if len(f.Kept) > 0 {
			b.add("It has other changes (+) beside your text (-):\n")
			b.changes(f.Kept)
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
		if g.Kind != MergeConflict || b.full {
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
