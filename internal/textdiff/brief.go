package textdiff

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	minShare = 200 // bytes that a hunk gets at least, if it is shown
	noteRoom = 100 // bytes kept for a note on what was left out
	headRoom = 128 // bytes for the head of a hunk and for missing newlines
	maxLine  = 400 // bytes of a line, where something is left out anyway
	cutNote  = "\n[diff cut]\n"
)

// Brief returns the unified diff as valid UTF-8 text of at most limit bytes. If that
// is not enough for all, each hunk gets its share, and notes in brackets say what was
// left out.
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

// size returns about how long the diff is: not less than it would be but for its
// header.
func (d *Diff) size() int {
	n := 0
	for i := range d.Hunks {
		n += d.hunkSize(&d.Hunks[i])
	}
	return n
}

// hunkSize returns about how long a hunk is, and not less, without looking at its lines.
func (d *Diff) hunkSize(h *Hunk) int {
	n := len(d.Old.Slice(h.Old.Lo, h.Old.Hi)) + h.Old.Len() + headRoom
	for _, c := range h.Changes {
		n += len(d.New.Slice(c.B0, c.B1)) + c.B1 - c.B0
	}
	return n
}

// clip makes a text valid, and cuts it if it is too long: where only bytes that are
// no UTF-8 made it so, or where there is no room for notes.
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

// brief is a diff of which parts are left out.
type brief struct {
	d   *Diff
	out []byte
}

// shares deals out room to the hunks that are shown, the first ones: what one does not
// need, larger ones get.
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

// hunk appends as many lines of a hunk as fit.
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

// rest says what hunks were left out.
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

// writer appends lines to a brief diff up to an end, and counts those left out.
type writer struct {
	*brief
	end                  int
	full                 bool
	same, added, removed int
}

// lines appends lines until one does not fit, and counts the others.
func (w *writer) lines(sign byte, text []byte) {
	for line := range bytes.Lines(text) {
		if w.full || !w.line(sign, line) {
			w.full = true
			w.count(sign)
		}
	}
}

// line appends a line, shortened if it is long, and reports whether there was room.
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

// note says what of the hunk was left out.
func (w *writer) note() {
	if n := w.added + w.removed + w.same; n > 0 {
		w.out = fmt.Appendf(w.out, "[%s of this hunk left out: +%d -%d]\n", count(n, "line"), w.added, w.removed)
	}
}
