// Package diff compares two versions of a file, and presents the result to people, programs and
// models.
package diff

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/textdiff"
	"github.com/aycoder/aycoder/merge"
)

// Compare compares two versions of a file. The result can be shown to people ([File.Unified],
// [Hunk.Rows], [File.Stat]), applied by programs ([File.Unified], which git apply and patch
// accept), and given to models ([File.Brief]).
//
// Lines are compared with their line endings, as in [merge.Merge]. Line endings, a byte order
// mark, a missing newline at the end, and bytes that are not UTF-8 are therefore preserved. If
// an insertion or deletion could be placed in several positions, Compare chooses one at the
// boundary of a block. A binary file (with a NUL in its first 8,000 bytes, or larger than 1,023
// MiB) differs as a whole, without hunks.
//
// Compare accepts any bytes. For n lines it usually takes time linear in n, at worst O(n·√n),
// and memory linear in n. The result refers to the texts, which must not change while it is in
// use. The result is safe for concurrent use.
func Compare(before, after []byte, opts ...Option) *File {
	c := config{textdiff.Options{OldName: "file", NewName: "file", Context: 3}}
	for _, o := range opts {
		o(&c)
	}
	if c.OldName == "" && (len(before) > 0 || c.NewName == "") {
		c.OldName = cmp.Or(c.NewName, "file")
	}
	if c.NewName == "" && len(after) > 0 {
		c.NewName = c.OldName
	}
	d := textdiff.Compare(before, after, c.Options)
	f := &File{OldName: c.OldName, NewName: c.NewName, Binary: d.Binary, diff: *d}
	f.Hunks = make([]Hunk, len(d.Hunks))
	for i := range d.Hunks {
		h := &d.Hunks[i]
		f.Hunks[i] = Hunk{Old: span(d.Old, h.Old), New: span(d.New, h.New), diff: d, hunk: h}
	}
	return f
}

// Option configures [Compare].
type Option func(*config)

type config struct{ textdiff.Options }

// WithNames sets the slash-separated paths of the file before and after, relative to the
// directory in which the diff is applied: as in git, the diff adds a/ and b/, and a slash at
// the start is dropped. Names that differ mean that the file was renamed, so give texts that are
// only compared the same name twice. An empty name means that the file was created or
// deleted, if that text is empty, too; otherwise it stands for the other name. Ambiguous names
// are quoted as git does. Default: "file", "file".
func WithNames(before, after string) Option {
	return func(c *config) {
		c.OldName, c.NewName = strings.TrimLeft(before, "/"), strings.TrimLeft(after, "/")
	}
}

// WithContext sets the number of unchanged lines around a change. With math.MaxInt, one hunk
// holds the whole file. Default: 3.
func WithContext(lines int) Option {
	return func(c *config) { c.Context = lines }
}

// File is the difference between two versions of a file.
type File struct {
	// OldName and NewName are the names as the diff shows them, empty for a file that was
	// created or deleted: see [WithNames].
	OldName, NewName string
	// Binary reports that the texts differ and that one of them is binary. Equal texts are
	// not a difference, binary or not. (Binary of a [merge.Result] is true for equal texts, too.)
	Binary bool
	// Hunks are what differs, in the order of the texts. They do not touch.
	Hunks []Hunk

	diff textdiff.Diff
}

// Hunk is a part of the texts that differs, with the lines around it. To apply only some of the
// hunks, replace their Old in the old text by their New.
type Hunk struct {
	// Old and New are the part in the old and in the new text.
	Old, New merge.Span

	diff *textdiff.Diff
	hunk *textdiff.Hunk
}

// Changed reports whether there is a difference, even if only in the name.
func (d *File) Changed() bool {
	return d.OldName != d.NewName || d.Binary || len(d.Hunks) > 0
}

// Unified returns the unified diff, or nothing if there is no difference. With it, git apply
// and patch turn the old text into the new one byte for byte; with WithContext(0), git needs
// its option --unidiff-zero. For a binary file it only says that the file differs. Lines are not escaped: a host that
// writes to a terminal must deal with control characters.
func (d *File) Unified() []byte { return d.diff.Append(nil) }

// Brief returns the unified diff as text for a model: valid UTF-8 of at most limit bytes. If
// the diff does not fit, each hunk is shortened to its share of the limit, or the last hunks
// are omitted if there are very many. Lines in brackets say how much is missing. A shortened
// diff cannot be applied.
func (d *File) Brief(limit int) string { return d.diff.Brief(limit) }

// Stat counts the lines that were added and removed.
func (d *File) Stat() Stat {
	s := Stat{Insertions: d.diff.Added, Deletions: d.diff.Removed}
	if d.Changed() {
		s.Files = 1
	}
	return s
}

// Stat counts the changes of one or more diffs.
type Stat struct {
	Files      int `json:"files"`
	Insertions int `json:"insertions"` // lines
	Deletions  int `json:"deletions"`  // lines
}

// Add returns the sum of s and t.
func (s Stat) Add(t Stat) Stat {
	return Stat{s.Files + t.Files, s.Insertions + t.Insertions, s.Deletions + t.Deletions}
}

// String formats s as git does: "2 files changed, 3 insertions(+), 1 deletion(-)".
func (s Stat) String() string {
	var b strings.Builder
	b.WriteString(counted(s.Files, "file") + " changed")
	if s.Insertions > 0 || s.Deletions == 0 && s.Files > 0 {
		b.WriteString(", " + counted(s.Insertions, "insertion") + "(+)")
	}
	if s.Deletions > 0 || s.Insertions == 0 && s.Files > 0 {
		b.WriteString(", " + counted(s.Deletions, "deletion") + "(-)")
	}
	return b.String()
}

func span(l *diff3.Lines, s diff3.Span) merge.Span {
	return merge.Span{FirstLine: s.Lo, EndLine: s.Hi, Start: l.Offset(s.Lo), End: l.Offset(s.Hi)}
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Kind is the kind of a [Row].
type Kind int

// The kinds of rows.
const (
	// Equal means that the line is the same on both sides. Both have a number, and no ranges
	// of them have changed.
	Equal Kind = iota
	// Changed means that a line was reworded: the row has the old line and the new one in its
	// place.
	Changed
	// Removed means that there is an old line only; the new side of the row is empty.
	Removed
	// Added means that there is a new line only; the old side of the row is empty.
	Added
)

// String returns the name of the kind, such as "changed".
func (k Kind) String() string {
	names := [...]string{"equal", "changed", "removed", "added"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}

// Row is a row of a side-by-side view of both texts.
type Row struct {
	Kind     Kind
	Old, New Line
}

// Line is one side of a [Row].
type Line struct {
	// Number is the line's, from 1, or 0 if the row has nothing on this side.
	Number int
	// Text is the line with its end.
	Text []byte
	// Changed holds the ranges of Text, in bytes, that are not in the line beside it, in
	// order: whole words, the line's end, or all of Text if the lines have little in
	// common. The lines outside of them are the same on both sides.
	Changed [][2]int
}

// Rows returns the hunk side by side: lines that were reworded beside each other, with
// the words that changed. Which lines belong together is found by their words in
// changes of up to 2,500 pairs of lines and 16 KiB, above that by their order; in lines
// of which more than 8 KiB differ, no words are told apart.
func (h *Hunk) Rows() []Row {
	if h.diff == nil {
		return nil
	}
	rows := h.diff.Rows(h.hunk)
	out := make([]Row, len(rows))
	for i, r := range rows {
		out[i] = Row{Kind(r.Kind), Line(r.Old), Line(r.New)}
	}
	return out
}
