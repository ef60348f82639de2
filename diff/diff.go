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

// Compare compares two versions of a file. The methods of the result present it to people
// ([File.Unified], [Hunk.Rows], [File.Stat]), to programs such as git apply and patch
// ([File.Unified]), and to models ([File.Brief]).
//
// Lines are compared including their line endings, as in [merge.Merge]. The diff preserves every
// byte: line endings, a byte order mark, a missing newline at the end, and bytes that are not
// UTF-8. If an insertion or deletion could be placed in several positions, Compare chooses one at
// the boundary of a block of lines. If two binary files differ, the result has no hunks. A file
// is binary if it has a NUL in its first 8,000 bytes, or if it is larger than 1,023 MiB.
//
// Compare accepts any bytes. For n lines it usually takes time linear in n, at worst O(n·√n), and
// memory linear in n. The result refers to the texts, which must not change while the result is
// in use. The result is safe for concurrent use.
func Compare(before, after []byte, opts ...Option) *File {
	c := config{textdiff.Options{OldName: "file", NewName: "file", Context: 3}}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
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

// WithNames sets the name of the file before and after the change. Names are slash-separated
// paths relative to the directory in which the diff is applied. As git does, the diff adds the
// prefixes a/ and b/, drops leading slashes, and quotes ambiguous names.
//
// Two different names mean that the file was renamed. To compare two texts without a rename, pass
// the same name twice. If the name and the text before the change are both empty, the file was
// created. If the name and the text after the change are both empty, the file was deleted. If a
// name is empty but its text is not, the other name is used for both sides. Default: "file",
// "file".
func WithNames(before, after string) Option {
	return func(c *config) {
		c.OldName, c.NewName = strings.TrimLeft(before, "/"), strings.TrimLeft(after, "/")
	}
}

// WithContext sets the number of unchanged lines that a hunk shows before and after each change.
// With math.MaxInt, one hunk holds the whole file. Default: 3.
func WithContext(lines int) Option {
	return func(c *config) { c.Context = lines }
}

// File is the difference between two versions of a file, as found by [Compare].
type File struct {
	// OldName and NewName are the names as the diff shows them (see [WithNames]). OldName is
	// empty for a file that was created, and NewName for a file that was deleted.
	OldName, NewName string
	// Binary reports that the texts differ and that at least one of them is binary. It is false
	// if the texts are equal, unlike the field Binary of [merge.Result].
	Binary bool
	// Hunks are the parts that differ, in the order of the texts. Two hunks never touch or
	// overlap.
	Hunks []Hunk

	diff textdiff.Diff
}

// Hunk is a part of the two texts that differs, including the unchanged lines shown around it. To
// apply only some of the hunks to the old text, replace the lines of Old with the lines of New
// for each of these hunks.
type Hunk struct {
	// Old is the range in the old text, and New is the corresponding range in the new text.
	Old, New merge.Span

	diff *textdiff.Diff
	hunk *textdiff.Hunk
}

// Changed reports whether the two versions differ in their content or in their name.
func (d *File) Changed() bool {
	return d.OldName != d.NewName || d.Binary || len(d.Hunks) > 0
}

// Unified returns the diff in the unified format, or nothing if there is no difference. The
// programs git apply and patch can turn the old text into the new one with this diff, byte for
// byte. If the option WithContext(0) was used, git apply needs its option --unidiff-zero.
//
// For a binary file, Unified only says that the files differ. Lines are not escaped, so a host
// that writes them to a terminal must handle control characters.
func (d *File) Unified() []byte { return d.diff.Append(nil) }

// Brief returns the unified diff as text for a model: valid UTF-8 of at most limit bytes. If the
// diff does not fit, the limit is divided among the hunks, and a hunk that is longer than its
// share is shortened. If there are so many hunks that the shares would be too small, the last
// hunks are omitted. Lines in brackets say how much is missing. A shortened diff cannot be
// applied.
func (d *File) Brief(limit int) string { return d.diff.Brief(limit) }

// Stat returns the number of lines that were added and removed.
func (d *File) Stat() Stat {
	s := Stat{Insertions: d.diff.Added, Deletions: d.diff.Removed}
	if d.Changed() {
		s.Files = 1
	}
	return s
}

// Stat holds the number of changed files and lines in one or more diffs.
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

// Kind says how the two sides of a [Row] differ.
type Kind int

// The kinds of rows.
const (
	// Equal means that both sides have the same line. Both have a line number, and neither has
	// changed ranges.
	Equal Kind = iota
	// Changed means that a line was reworded. The row has the old line on one side and the new
	// line on the other.
	Changed
	// Removed means that the old line has no counterpart. The new side of the row is empty.
	Removed
	// Added means that the new line has no counterpart. The old side of the row is empty.
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

// Row is a row in a side-by-side view of both texts, as returned by [Hunk.Rows].
type Row struct {
	Kind     Kind
	Old, New Line
}

// Line is the line on one side of a [Row].
type Line struct {
	// Number is the number of the line in its text, counted from 1. It is 0 if the row has no
	// line on this side.
	Number int
	// Text is the line with its line ending.
	Text []byte
	// Changed holds the ranges of Text that differ from the line on the other side of the row.
	// Each range is a start and an end offset in bytes. The ranges are in order, and consist of
	// whole words or the line ending. If the two lines have little in common, one range covers
	// all of Text. Outside of the ranges, the two lines are equal.
	Changed [][2]int
}

// Rows returns the rows of a side-by-side view of the hunk. A line that was reworded is shown
// beside its old version, with the changed words marked.
//
// To find the old version of a line, Rows compares the words of each old line in a change with
// those of each new line. If a change has more than 2,500 such pairs of lines, or more than 16
// KiB on one side, Rows only compares lines at the same position. If more than 8 KiB of a line
// differ, no single words are marked.
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
