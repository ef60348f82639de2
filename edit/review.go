package edit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/textdiff"
	"github.com/aycoder/aycoder/internal/view"
)

// LineChange is a change of whole lines, including line ends, from Old to New. OldLine and
// NewLine are the 1-based numbers of the first lines of Old and New. If Old or New is empty, its
// number is that of the line after the change.
type LineChange struct {
	OldLine int    `json:"old_line"`
	NewLine int    `json:"new_line"`
	Old     string `json:"old"`
	New     string `json:"new"`
}

// Hunk is a part of a plan that a review can keep or drop: either neighboring lines of one
// file that change together, or the creation or deletion of a whole file.
type Hunk struct {
	// ID identifies the hunk for [Plan.Keep] and [Plan.Without]. It depends on the whole
	// edit of the file: if that edit changes, all its hunks get new IDs.
	ID   string
	Path string
	Kind Kind
	LineChange
}

// Hunks returns the hunks of the plan: file by file, and within a file from top to bottom.
func (p Plan) Hunks() []Hunk {
	var out []Hunk
	for _, e := range p.files {
		out = append(out, e.hunks()...)
	}
	return out
}

func (e File) hunks() []Hunk {
	changes := []LineChange{{OldLine: 1, NewLine: 1, Old: e.Base, New: e.Proposed}}
	if e.Kind == Change {
		changes = lineChanges(e.Base, e.Proposed)
	}
	sum := sha256.New()
	e.hash(sum)
	all := sum.Sum(nil)
	out := make([]Hunk, len(changes))
	for i, c := range changes {
		id := sha256.Sum256(strconv.AppendInt(slices.Clip(all), int64(i), 10))
		out[i] = Hunk{hex.EncodeToString(id[:8]), e.Path, e.Kind, c}
	}
	return out
}

// lineChanges returns the differences of two texts.
func lineChanges(a, b string) []LineChange {
	changes := diff3.Diff(view.Bytes(a), view.Bytes(b)).Changes()
	out := make([]LineChange, len(changes))
	for i, c := range changes {
		out[i] = LineChange(c)
	}
	return out
}

// Keep returns the plan reduced to the hunks with these IDs. A file without any of these hunks is
// not part of the new plan. An unknown ID is an error. A rename is a [Create] and a [Delete]: keep both
// or neither, because a plan does not know which files belong together.
func (p Plan) Keep(ids ...string) (Plan, error) {
	return p.choose(ids, true)
}

// Without returns the plan without the hunks that have these IDs. An unknown ID is an error.
func (p Plan) Without(ids ...string) (Plan, error) {
	return p.choose(ids, false)
}

func (p Plan) choose(ids []string, keep bool) (Plan, error) {
	named := make(map[string]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	var files []File
	for _, e := range p.files {
		hunks := e.hunks()
		kept := slices.DeleteFunc(slices.Clone(hunks), func(h Hunk) bool { return named[h.ID] != keep })
		for _, h := range hunks {
			delete(named, h.ID)
		}
		switch {
		case len(kept) == 0:
		case len(kept) == len(hunks):
			files = append(files, e)
		default:
			e.Proposed = withChanges(e.Base, kept)
			files = append(files, e)
		}
	}
	if len(named) > 0 {
		return Plan{}, fmt.Errorf("review edit plan: %d of %d hunks are not of this plan",
			len(named), len(ids))
	}
	return p.reviewed(files), nil
}

// withChanges applies some of the changes to a text.
func withChanges(base string, hunks []Hunk) string {
	var b strings.Builder
	line := 1
	for _, h := range hunks {
		for ; line < h.OldLine; line++ {
			end := strings.IndexByte(base, '\n') + 1
			b.WriteString(base[:end])
			base = base[end:]
		}
		line += runes.Lines(h.Old)
		base = base[len(h.Old):]
		b.WriteString(h.New)
	}
	b.WriteString(base)
	return b.String()
}

// KeepFiles returns the plan reduced to these paths. A path that is not in the plan is an error.
func (p Plan) KeepFiles(paths ...string) (Plan, error) {
	for _, name := range paths {
		if editOf(p.files, name) < 0 {
			return Plan{}, fmt.Errorf("review edit plan: %s: is not in the plan", runes.Path(name))
		}
	}
	files := slices.DeleteFunc(p.Files(), func(e File) bool { return !slices.Contains(paths, e.Path) })
	return p.reviewed(files), nil
}

// WithProposed returns the plan with text as the proposed content of the file called name, for
// example after a person has edited it. Pass [File.Base] to leave an existing file as it is.
func (p Plan) WithProposed(name, text string) (Plan, error) {
	i := editOf(p.files, name)
	if i < 0 {
		return Plan{}, fmt.Errorf("review edit plan: %s: is not in the plan", runes.Path(name))
	}
	files := p.Files()
	files[i].Proposed = text
	if files[i].Kind == Delete {
		files[i].Kind = Change
	}
	plan, err := NewPlan(files...)
	if err != nil {
		return Plan{}, fmt.Errorf("review edit plan: %w", err)
	}
	return p.reviewed(plan.files), nil
}

// reviewed returns a plan with other files that still contains the model's proposal.
func (p Plan) reviewed(files []File) Plan {
	asked := p.asked
	if asked == nil {
		asked = p.files
	}
	if sameEdits(asked, files) {
		asked = nil
	}
	return Plan{files, asked}
}

const maxPreview = 64 << 10 // bytes

// Preview returns the plan as a unified diff, for the person who is asked to approve it. The text
// is valid UTF-8 of at most 64 KiB. If the whole diff is longer, the diff of each file is cut to
// its share of that size, and ends with a line that says how much is missing.
func (p Plan) Preview() string {
	diffs := make([]*textdiff.Diff, len(p.files))
	var b strings.Builder
	for i, e := range p.files {
		from, to := e.Path, e.Path
		switch e.Kind {
		case Create:
			from = ""
		case Delete:
			to = ""
		}
		diffs[i] = textdiff.Compare(view.Bytes(e.Base), view.Bytes(e.Proposed),
			textdiff.Options{OldName: from, NewName: to, Context: 3})
		if b.Len() <= maxPreview {
			b.WriteString(e.withMode(string(diffs[i].Append(nil))))
		}
	}
	if text := runes.Clean(b.String()); max(b.Len(), len(text)) <= maxPreview {
		return text
	}
	b.Reset()
	for i, d := range diffs {
		b.WriteString(p.files[i].withMode(d.Brief((maxPreview - b.Len()) / (len(diffs) - i))))
	}
	return runes.Shorten(runes.Clean(b.String()), maxPreview)
}

// withMode adds to a diff that a new file is executable.
func (e File) withMode(diff string) string {
	if e.Mode&0o111 == 0 {
		return diff
	}
	return strings.Replace(diff, "new file mode 100644\n", "new file mode 100755\n", 1)
}

const maxLeftOut = 12 << 10 // bytes of the text for a model about a review

// OmittedText returns a text that tells the model what a review removed from the plan or changed
// in it. If no review changed the plan, it returns "". The text is valid UTF-8 of at most 16 KiB.
func (p Plan) OmittedText() string {
	if p.asked == nil {
		return ""
	}
	b := modelNote{max: maxLeftOut}
	b.add("The user reviewed your changes and left out a part, or changed it. " +
		"Do not make these changes again unless asked to.\n")
	for _, was := range p.asked {
		i := editOf(p.files, was.Path)
		switch {
		case i < 0:
			b.add("\n" + runes.Path(was.Path) + ": left out; the file stays as it is.\n")
		case p.files[i] != was:
			b.leftOut(was, p.files[i])
		}
	}
	return b.String()
}

// leftOut shows how the change to a file differs from the proposed one.
func (b *modelNote) leftOut(was, now File) {
	if was.Kind == Delete {
		b.add("\n" + runes.Path(was.Path) + ": changed instead of deleted.\n")
	} else {
		b.add("\n" + runes.Path(was.Path) + ": your text (-) and what was approved (+):\n")
	}
	b.changes(lineChanges(was.Proposed, now.Proposed))
}

// modelNote collects text for a model, up to a maximum size.
type modelNote struct {
	strings.Builder
	max  int
	full bool
}

// add adds the whole text, or else a note that there is more.
func (b *modelNote) add(s string) {
	if b.full {
		return
	}
	s = strings.ToValidUTF8(s[:min(len(s), b.max+1)], "\uFFFD")
	if left := max(0, b.max-b.Len()); len(s) > left {
		s, b.full = strings.ToValidUTF8(s[:left], "")+"\n[more is not shown]\n", true
	}
	b.WriteString(s)
}

// changes adds changes in the form of a diff.
func (b *modelNote) changes(changes []LineChange) {
	for _, c := range changes {
		if b.full {
			return
		}
		b.add(fmt.Sprintf("@@ line %d @@\n", c.NewLine))
		b.lines("-", c.Old)
		b.lines("+", c.New)
	}
}

// lines adds lines with a sign before each.
func (b *modelNote) lines(sign, text string) {
	for line := range strings.Lines(text) {
		if b.full {
			return
		}
		b.add(sign + strings.TrimSuffix(line, "\n") + "\n")
	}
}

// original returns the edits that the model proposed.
func (p Plan) original() []File {
	if p.asked != nil {
		return p.asked
	}
	return p.files
}

var (
	errNoPlan    = errors.New("allow plan: the request has none")
	errNotReview = errors.New("allow plan: it is not what is left of the request's plan after a review")
)

// Reviews returns an error unless p is a review of another plan: what the methods Keep, Without,
// KeepFiles and WithProposed made of it, so that it has only files of that plan, with their bases.
func (p Plan) Reviews(of *Plan) error {
	if of == nil {
		return errNoPlan
	}
	asked := p.original()
	if !sameEdits(asked, of.original()) {
		return errNotReview
	}
	for _, e := range p.files {
		i := editOf(asked, e.Path)
		if i < 0 || asked[i].Base != e.Base {
			return errNotReview
		}
		if asked[i].Kind != e.Kind && (asked[i].Kind != Delete || e.Kind != Change) {
			return errNotReview
		}
	}
	return nil
}
