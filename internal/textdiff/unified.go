package textdiff

import (
	"cmp"
	"strconv"

	"github.com/aycoder/aycoder/internal/diff3"
)

const (
	noNewline = "\\ No newline at end of file\n"
	devNull   = "/dev/null"
	emptyBlob = "e69de29" // git's name for an empty file; patch wants it to delete one
)

// Append appends the unified diff to dst, in the form that git apply and patch take.
// Lines come out byte for byte. If nothing differs, nothing is appended.
func (d *Diff) Append(dst []byte) []byte {
	dst = d.appendHeader(dst)
	for i := range d.Hunks {
		dst = d.appendHunk(dst, &d.Hunks[i])
	}
	return dst
}

// appendHeader appends what precedes the hunks. Git's own header is always there, so
// that a file without hunks is not taken for the one that follows it.
func (d *Diff) appendHeader(dst []byte) []byte {
	if len(d.Hunks) == 0 && !d.Binary && d.OldName == d.NewName {
		return dst
	}
	from, to := cmp.Or(d.OldName, d.NewName), cmp.Or(d.NewName, d.OldName)
	dst = append(dst, "diff --git "+word("a/"+from)+" "+word("b/"+to)+"\n"...)
	dst = append(dst, d.extended()...)
	from, to = sideName("a/", d.OldName), sideName("b/", d.NewName)
	switch {
	case d.Binary:
		dst = append(dst, "Binary files "+quote(from)+" and "+quote(to)+" differ\n"...)
	case len(d.Hunks) > 0:
		dst = append(dst, "--- "+field(from)+"\n+++ "+field(to)+"\n"...)
	}
	return dst
}

// extended says what happened to the file as such.
func (d *Diff) extended() string {
	var head, index string
	switch {
	case d.OldName == "":
		head, index = "new file mode 100644\n", "index 0000000.."+emptyBlob+"\n"
	case d.NewName == "":
		head, index = "deleted file mode 100644\n", "index "+emptyBlob+"..0000000\n"
	case d.OldName != d.NewName:
		return "rename from " + quote(d.OldName) + "\nrename to " + quote(d.NewName) + "\n"
	}
	if len(d.Hunks) > 0 || d.Binary {
		return head
	}
	return head + index
}

// sideName returns the name of a side, which is that of no file if it is empty.
func sideName(prefix, name string) string {
	if name == "" {
		return devNull
	}
	return prefix + name
}

// appendHunk appends a hunk. Of each change, what was removed comes first.
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

// appendRange appends a range of lines. An empty one is named by the line before it,
// and a length of 1 is left out.
func appendRange(dst []byte, s diff3.Span) []byte {
	n := s.Len()
	dst = strconv.AppendInt(dst, int64(s.Lo+min(n, 1)), 10)
	if n == 1 {
		return dst
	}
	return strconv.AppendInt(append(dst, ','), int64(n), 10)
}

// appendLines appends lines after their sign. A line without a newline, which only the
// last of a text can be, gets one, and a note that it has none.
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
