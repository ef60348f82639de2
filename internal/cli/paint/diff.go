package paint

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/diff"
)

// DiffOptions says how [Diff] shows a diff.
type DiffOptions struct {
	// SideBySide shows both versions beside each other, if there are 120 columns.
	SideBySide bool
	// Fold is the number of lines from which those in the middle are counted only. Default: all.
	Fold int
}

// Diff paints a unified diff, with line numbers and with the words marked that differ in a line
// that was changed. Lines that are not of a diff are shown as they are.
func Diff(unified string, s Style, o DiffOptions) []string {
	d := differ{style: s, split: o.SideBySide && s.width() >= 120}
	files := parsePatch(unified)
	for _, f := range files {
		d.file(&f, len(files) > 1)
	}
	return s.fold(d.out, o.Fold)
}

// fold keeps the first and the last lines, and counts those between.
func (s Style) fold(lines []string, keep int) []string {
	first, last := folded(len(lines), keep)
	if first == last {
		return lines
	}
	more := s.text(comment, s.fit("  "+s.more(last-first), s.width()))
	return slices.Concat(lines[:first], []string{more}, lines[last:])
}

// folded returns the range of n lines that is left out if only some are kept.
func folded(n, keep int) (first, last int) {
	if keep <= 0 || n <= keep {
		return n, n
	}
	return keep / 2, n - max(keep-keep/2-1, 0)
}

func (s Style) more(n int) string { return fmt.Sprintf("%s %d more lines", s.glyph("…", "..."), n) }

// A differ paints diffs.
type differ struct {
	style Style
	split bool

	digits int
	code   highlighter
	out    []string
}

// A side is a line of a hunk.
type side struct {
	number int
	sign   byte // 0 if there is no line
	text   string
	marks  [][2]int // what differs from the other side
	cr     bool     // a carriage return is shown
}

func (d *differ) file(f *patchFile, named bool) {
	for _, line := range f.text {
		d.line("  " + d.style.Clean(strings.ReplaceAll(line, "\t", blanks(tab))))
	}
	if named && f.name != "" || len(f.notes) > 0 {
		d.title(f)
	}
	for i := range f.hunks {
		d.hunk(&f.hunks[i], i > 0)
	}
}

// line adds a line without a look.
func (d *differ) line(text string) { d.out = append(d.out, d.style.fit(text, d.style.width())) }

// title adds the name of a file, how much of it changes, and what else is known of it.
func (d *differ) title(f *patchFile) {
	plus, minus := 0, 0
	for _, h := range f.hunks {
		for _, l := range h.lines {
			switch l.sign {
			case '+':
				plus++
			case '-':
				minus++
			}
		}
	}
	right := strings.Join(f.notes, d.style.dot())
	if len(f.hunks) > 0 {
		right = strings.TrimSuffix(fmt.Sprintf("+%d %s%d%s%s", plus, d.style.glyph("−", "-"), minus, d.style.dot(), right), d.style.dot())
	}
	name := d.style.end(d.style.line(f.name), max(d.style.width()-Width(right)-2, d.style.width()/2))
	right = d.style.fit(d.style.line(right), d.style.width()-Width(name)-2)
	d.out = append(d.out, d.style.text(bold, name)+"  "+d.style.text(comment, right))
}

// hunk adds the lines of a hunk. Unchanged lines more than three away from a change are counted.
func (d *differ) hunk(h *hunk, separate bool) {
	d.digits = len(strconv.Itoa(max(h.oldStart+h.oldLines, h.newStart+h.newLines)))
	d.code = highlighter{lang: source.LanguageOf(h.file, nil)}
	if separate {
		gap := strings.Repeat(" ", d.digits+1) + d.style.glyph("⋮", ":") + d.style.Clean(h.section)
		d.out = append(d.out, d.style.text(comment, d.style.fit(gap, d.style.width())))
	}
	before, now := max(h.oldStart, 1), max(h.newStart, 1)
	for i := 0; i < len(h.lines); {
		n := 0
		for i+n < len(h.lines) && (h.lines[i+n].sign == ' ') == (h.lines[i].sign == ' ') {
			n++
		}
		run := h.lines[i : i+n]
		if run[0].sign == ' ' {
			d.unchanged(run, before, now, i > 0, i+n < len(h.lines))
			before, now = before+n, now+n
		} else {
			before, now = d.changed(run, before, now)
		}
		i += n
	}
}

// contextLines is how many unchanged lines are shown beside a change.
const contextLines = 3

func (d *differ) unchanged(run []patchLine, before, now int, after, then bool) {
	first, last := 0, len(run)
	if after {
		first = contextLines
	}
	if then {
		last = len(run) - contextLines
	}
	for i, l := range run {
		if last-first > 1 && i >= first && i < last {
			if i == first {
				text := fmt.Sprintf("%s%s %d unchanged lines", strings.Repeat(" ", d.digits+1), d.style.glyph("⋮", ":"), last-first)
				d.out = append(d.out, d.style.text(comment, d.style.fit(text, d.style.width())))
			}
			continue
		}
		d.row(side{number: before + i, sign: ' ', text: l.text}, side{number: now + i, sign: ' ', text: l.text})
	}
}

// changed adds lines that were removed and added. Package diff says which of them are versions of
// each other, and what differs between them.
func (d *differ) changed(run []patchLine, before, now int) (int, int) {
	var olds, news []side
	var x, y []byte
	for _, l := range run {
		if l.sign == '-' {
			olds = append(olds, side{number: before + len(olds), sign: '-', text: l.text})
			x = append(x, l.text...)
			continue
		}
		news = append(news, side{number: now + len(news), sign: '+', text: l.text})
		y = append(y, l.text...)
	}
	pairs := mark(olds, news, x, y)
	if d.split {
		for _, p := range pairs {
			d.row(p[0], p[1])
		}
		return before + len(olds), now + len(news)
	}
	for _, o := range olds {
		d.row(o, side{})
	}
	for _, n := range news {
		d.row(side{}, n)
	}
	return before + len(olds), now + len(news)
}

// mark marks what differs, and returns the lines that belong beside each other.
func mark(olds, news []side, x, y []byte) (pairs [][2]side) {
	f := diff.Compare(x, y, diff.WithContext(math.MaxInt))
	if len(f.Hunks) != 1 {
		for i := range max(len(olds), len(news)) {
			pairs = append(pairs, [2]side{at(olds, i), at(news, i)})
		}
		return pairs
	}
	for _, r := range f.Hunks[0].Rows() {
		var p [2]side
		ends := r.Kind == diff.Changed && bytes.Equal(bytes.TrimRight(r.Old.Text, "\r\n"), bytes.TrimRight(r.New.Text, "\r\n"))
		if k := r.Old.Number; k > 0 && k <= len(olds) {
			olds[k-1].marks, olds[k-1].cr = words(r.Old), ends
			p[0] = olds[k-1]
		}
		if k := r.New.Number; k > 0 && k <= len(news) {
			news[k-1].marks, news[k-1].cr = words(r.New), ends
			p[1] = news[k-1]
		}
		pairs = append(pairs, p)
	}
	return pairs
}

func at(sides []side, i int) side {
	if i < len(sides) {
		return sides[i]
	}
	return side{}
}

// words returns the ranges that differ, unless that is the whole line.
func words(l diff.Line) [][2]int {
	if len(l.Changed) == 1 && l.Changed[0] == [2]int{0, len(l.Text)} {
		return nil
	}
	return l.Changed
}

// row adds a line, or two beside each other.
func (d *differ) row(before, now side) {
	if !d.split {
		if before.sign == '-' {
			now = before
		}
		for _, c := range d.cells(now, d.style.width()) {
			d.out = append(d.out, c.text)
		}
		return
	}
	half := (d.style.width() - 3) / 2
	state := d.code
	left := d.cells(before, half)
	d.code = state
	right := d.cells(now, half)
	bar := d.style.text(comment, d.style.glyph(" │ ", " | "))
	for i := range max(len(left), len(right)) {
		var l, r cellLine
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		d.out = append(d.out, l.text+blanks(half-l.width)+bar+r.text)
	}
}

type cellLine struct {
	text  string
	width int
}

// cells returns the lines that one line of a hunk takes in some columns.
func (d *differ) cells(l side, width int) (lines []cellLine) {
	if l.sign == 0 {
		return nil
	}
	gutter := d.digits + 4
	w := d.wrapped(l, max(width-gutter, 1))
	number, sign := fmt.Sprintf("%*d ", d.digits+1, l.number), string(l.sign)+" "
	w.take(func(text []byte, n int) {
		var r row
		r.add(comment, []byte(number), 0)
		r.add(signLooks[l.sign], []byte(sign), 0)
		width := gutter + n
		if n == 0 {
			r.trim()
			width = Width(string(r.text))
		}
		lines = append(lines, cellLine{string(append(r.render(nil, d.style), text...)), width})
		number, sign = blanks(d.digits)+d.style.glyph("↪", "\\")+" ", "  "
	})
	if !strings.HasSuffix(l.text, "\n") {
		note := d.style.fit(blanks(gutter)+"\\ no newline at end", width)
		lines = append(lines, cellLine{d.style.text(comment, note), Width(note)})
	}
	return lines
}

// wrapped paints the text of a line.
func (d *differ) wrapped(l side, width int) *wrapper {
	w := &wrapper{style: d.style, width: width, pre: true}
	text := strings.TrimSuffix(l.text, "\n")
	bare := strings.TrimSuffix(text, "\r")
	if l.sign == '-' {
		d.style.marked(w, signLooks[l.sign], bare, l.marks)
	} else {
		to := w
		if l.sign == '+' {
			d.style.marked(w, signLooks[l.sign], bare, l.marks)
			to = &wrapper{style: d.style, width: math.MaxInt, pre: true}
		}
		d.code.paint([]byte(d.style.Clean(bare)), true, to)
	}
	if l.cr && text != bare {
		w.add(signLooks[l.sign]|reverse, []byte(d.style.glyph("␍", "^M")))
	}
	w.closeLine()
	return w
}

// marked adds the text of a line, of which some ranges differ from another line.
func (s Style) marked(w *wrapper, base look, text string, marks [][2]int) {
	start := 0
	for _, m := range marks {
		from, to := min(m[0], len(text)), min(m[1], len(text))
		w.add(base, []byte(s.Clean(text[start:from])))
		w.add(base|reverse, []byte(s.Clean(text[from:to])))
		start = to
	}
	w.add(base, []byte(s.Clean(text[start:])))
}
