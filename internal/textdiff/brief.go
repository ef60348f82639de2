package textdiff

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	minShare = 200 // minimum bytes for a hunk that is shown
	noteRoom = 100 // bytes reserved for a note on omitted parts
	headRoom = 128 // bytes for the head of a hunk and for missing newlines
	maxLine  = 400 // bytes of a line in a diff with omissions
	cutNote  = "\n[diff cut]\n"
)

// Brief returns the unified diff as valid UTF-8 text of at most limit bytes. If the whole
// diff does not fit, each hunk gets a share of the space, and notes in brackets count the
// omitted lines and hunks. The whole diff is tried first, but only if an estimate says that
// it may fit: making it costs time and memory that most large diffs would waste.
func (d *Diff) Brief(limit int) string {
	if d.size()-len(d.Hunks)*headRoom <= limit {
		if all := strings.ToValidUTF8(string(d.Append(nil)), "\ufffd"); len(all) <= limit {
			return all
		}
	}
	b := brief{d: d, out: d.appendHeader(nil)}
	shares := b.shares(limit - len(b.out) - noteRoom)
	for i, share := range shares {
		b.hunk(&d.Hunks[i], share)
	}
	b.rest(d.Hunks[len(shares):])
	return clip(b.out, limit)
}

// size returns an upper bound of the length of the diff, without the header.
func (d *Diff) size() int {
	n := 0
	for i := range d.Hunks {
		n += d.hunkSize(&d.Hunks[i])
	}
	return n
}

// hunkSize returns an upper bound of the length of a hunk, without a look at its lines.
// Each line has one sign, and each hunk a head and at most two notes on missing newlines.
func (d *Diff) hunkSize(h *Hunk) int {
	n := len(d.Old.Slice(h.Old.Lo, h.Old.Hi)) + h.Old.Len() + headRoom
	for _, c := range h.Changes {
		n += len(d.New.Slice(c.B0, c.B1)) + c.B1 - c.B0
	}
	return n
}

// clip makes a text valid UTF-8 and cuts it if it is too long. That happens when the
// replacement of invalid bytes made it longer, or when there is no room for notes. Each
// invalid byte becomes the three bytes of U+FFFD.
func clip(text []byte, limit int) string {
	s := strings.ToValidUTF8(string(text), "\ufffd")
	if len(s) <= limit {
		return s
	}
	note := cutNote[:min(max(limit, 0), len(cutNote))]
	return s[:runeStart(s, limit-len(note))] + note
}

// runeStart returns the last place before or at i where a rune begins.
func runeStart(s string, i int) int {
	i = max(i, 0)
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// brief is a diff that is being written with omissions.
type brief struct {
	d   *Diff
	out []byte
}

// shares divides the space among the hunks that are shown, which are the first ones. Space
// that a small hunk does not need goes to larger ones. The level is found by going through
// the hunks from the smallest on: each either fits below an equal share of what is left, or
// all that follow get that share.
func (b *brief) shares(room int) []int {
	var sizes []int
	for i, least := 0, 0; i < len(b.d.Hunks); i++ {
		size := b.d.hunkSize(&b.d.Hunks[i])
		if least += min(size, minShare); least > room {
			break
		}
		sizes = append(sizes, size)
	}
	level := 0
	for i, size := range slices.Sorted(slices.Values(sizes)) {
		if level = room / (len(sizes) - i); size > level {
			break
		}
		room -= size
	}
	for i := range sizes {
		sizes[i] = min(sizes[i], level)
	}
	return sizes
}

// hunk appends as many lines of a hunk as fit. Its head keeps the numbers of the whole
// hunk, so that a reader knows where it is, although it cannot be applied.
func (b *brief) hunk(h *Hunk, room int) {
	start := len(b.out)
	if b.d.hunkSize(h) <= room {
		b.out = b.d.appendHunk(b.out, h)
		return
	}
	b.out = h.appendHead(b.out)
	w := writer{brief: b, end: start + room - noteRoom}
	for _, op := range h.ops() {
		if op.Equal {
			w.lines(' ', b.d.Old.Slice(op.A0, op.A1))
			continue
		}
		w.lines('-', b.d.Old.Slice(op.A0, op.A1))
		w.lines('+', b.d.New.Slice(op.B0, op.B1))
	}
	w.note()
}

// rest appends a note on the omitted hunks.
func (b *brief) rest(hunks []Hunk) {
	if len(hunks) == 0 {
		return
	}
	var added, removed int
	for _, h := range hunks {
		for _, c := range h.Changes {
			removed += c.A1 - c.A0
			added += c.B1 - c.B0
		}
	}
	b.out = fmt.Appendf(b.out, "[%s left out, from line %d on: +%d -%d lines]\n",
		count(len(hunks), "hunk"), hunks[0].New.Lo+1, added, removed)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// writer appends lines to a brief diff up to a limit, and counts the omitted ones.
type writer struct {
	*brief
	end                  int
	full                 bool
	same, added, removed int
}

// lines appends lines until one does not fit, and counts the others. After the first one
// that does not fit, none is shown, even if it is short: a gap in the middle would look
// like unchanged text.
func (w *writer) lines(sign byte, text []byte) {
	for line := range bytes.Lines(text) {
		if w.full || !w.line(sign, line) {
			w.full = true
			w.count(sign)
		}
	}
}

// line appends a line, shortened if it is long, and reports whether there was room. A long
// line is cut between characters, with a note of how much is missing.
func (w *writer) line(sign byte, line []byte) bool {
	text, ended := bytes.CutSuffix(line, []byte{'\n'})
	end := "\n"
	if !ended {
		end += noNewline
	}
	if len(text) > maxLine {
		shown := maxLine
		for shown > maxLine-utf8.UTFMax && !utf8.RuneStart(text[shown]) {
			shown--
		}
		end = fmt.Sprintf(" [%d more bytes]%s", len(text)-shown, end)
		text = text[:shown]
	}
	if len(w.out)+1+len(text)+len(end) > w.end {
		return false
	}
	w.out = append(append(append(w.out, sign), text...), end...)
	return true
}

// count counts an omitted line. The notes tell added and removed lines apart, because a
// model judges by them how large the change is.
func (w *writer) count(sign byte) {
	switch sign {
	case '+':
		w.added++
	case '-':
		w.removed++
	default:
		w.same++
	}
}

// note appends a note on the omitted lines of the hunk.
func (w *writer) note() {
	if n := w.added + w.removed + w.same; n > 0 {
		w.out = fmt.Appendf(w.out, "[%s of this hunk left out: +%d -%d]\n", count(n, "line"), w.added, w.removed)
	}
}
