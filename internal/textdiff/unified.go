package textdiff

import (
	"cmp"
	"strconv"

	"github.com/aycoder/aycoder/internal/diff3"
)

const (
	noNewline = "\\ No newline at end of file\n"
	devNull   = "/dev/null"
	emptyBlob = "e69de29" // the hash that git prints for an empty file; patch needs it to delete one
)

// Append appends the unified diff to dst, in a form that git apply and patch accept. Lines
// are copied byte for byte. If the texts are equal, it appends nothing.
func (d *Diff) Append(dst []byte) []byte {
	dst = d.appendHeader(dst)
	for i := range d.Hunks {
		dst = d.appendHunk(dst, &d.Hunks[i])
	}
	return dst
}

// appendHeader appends the lines before the hunks.
func (d *Diff) appendHeader(dst []byte) []byte {
	if len(d.Hunks) == 0 && !d.Binary && d.OldName == d.NewName {
		return dst
	}
	dst = append(d.AppendNames(dst), d.extended()...)
	if d.Binary {
		from, to := sideName("a/", d.OldName), sideName("b/", d.NewName)
		return append(dst, "Binary files "+quote(from)+" and "+quote(to)+" differ\n"...)
	}
	return d.appendSides(dst)
}

func (d *Diff) appendSides(dst []byte) []byte {
	if len(d.Hunks) == 0 {
		return dst
	}
	return append(dst, "--- "+field(sideName("a/", d.OldName))+"\n+++ "+field(sideName("b/", d.NewName))+"\n"...)
}

// AppendNames appends the first line of git's header. A diff always begins with it, because a file
// without hunks would otherwise be taken for a part of the next one.
func (d *Diff) AppendNames(dst []byte) []byte {
	from, to := cmp.Or(d.OldName, d.NewName), cmp.Or(d.NewName, d.OldName)
	return append(dst, "diff --git "+word("a/"+from)+" "+word("b/"+to)+"\n"...)
}

// AppendRename appends the lines of git's header about two names.
func (d *Diff) AppendRename(dst []byte) []byte {
	return append(dst, "rename from "+quote(d.OldName)+"\nrename to "+quote(d.NewName)+"\n"...)
}

// AppendHunks appends the hunks, after the names of both sides.
func (d *Diff) AppendHunks(dst []byte) []byte {
	dst = d.appendSides(dst)
	for i := range d.Hunks {
		dst = d.appendHunk(dst, &d.Hunks[i])
	}
	return dst
}

// extended returns the header lines about a file that was created, deleted or renamed. A
// mode has to be given; that of an ordinary file is what git apply uses for one that it
// creates. An index line is only needed where there are no hunks to apply.
func (d *Diff) extended() string {
	var head, index string
	switch {
	case d.OldName == "":
		head, index = "new file mode 100644\n", "index 0000000.."+emptyBlob+"\n"
	case d.NewName == "":
		head, index = "deleted file mode 100644\n", "index "+emptyBlob+"..0000000\n"
	case d.OldName != d.NewName:
		return string(d.AppendRename(nil))
	}
	if len(d.Hunks) > 0 || d.Binary {
		return head
	}
	return head + index
}

// sideName returns the name of a side, or /dev/null for an empty name.
func sideName(prefix, name string) string {
	if name == "" {
		return devNull
	}
	return prefix + name
}

// appendHunk appends a hunk. In each change, removed lines come before added ones.
func (d *Diff) appendHunk(dst []byte, h *Hunk) []byte {
	dst = h.appendHead(dst)
	for _, op := range h.ops() {
		if op.Equal {
			dst = appendLines(dst, ' ', d.Old, op.A0, op.A1)
			continue
		}
		dst = appendLines(dst, '-', d.Old, op.A0, op.A1)
		dst = appendLines(dst, '+', d.New, op.B0, op.B1)
	}
	return dst
}

func (h *Hunk) appendHead(dst []byte) []byte {
	dst = appendRange(append(dst, "@@ -"...), h.Old)
	dst = appendRange(append(dst, " +"...), h.New)
	return append(dst, " @@\n"...)
}

// appendRange appends a range of lines. By the convention of diff, an empty range has the
// number of the line before it, and a length of 1 is left out. The length of an empty range
// is 0, and its number may be 0, too, before the first line.
func appendRange(dst []byte, s diff3.Span) []byte {
	n := s.Len()
	dst = strconv.AppendInt(dst, int64(s.Lo+min(n, 1)), 10)
	if n == 1 {
		return dst
	}
	return strconv.AppendInt(append(dst, ','), int64(n), 10)
}

// appendLines appends lines with their sign. The last line of a text may lack a newline;
// then one is added, followed by the note "\ No newline at end of file".
func appendLines(dst []byte, sign byte, l *diff3.Lines, lo, hi int) []byte {
	for i := lo; i < hi; i++ {
		line := l.Slice(i, i+1)
		dst = append(append(dst, sign), line...)
		if line[len(line)-1] != '\n' {
			dst = append(dst, "\n"+noNewline...)
		}
	}
	return dst
}
