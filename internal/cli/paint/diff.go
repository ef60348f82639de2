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
	"github.com/aycoder/aycoder/internal/cli/tty"
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
	if keep <= 0 || len(lines) <= keep {
		return lines
	}
	first, last := keep/2, len(lines)-max(keep-keep/2-1, 0)
	more := fmt.Sprintf("  %s %d more lines", s.glyph("…", "..."), last-first)
	return slices.Concat(lines[:first], []string{s.text(comment, s.fit(more, s.width()))}, lines[last:])
}

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
		d.line(0, "  "+d.style.Clean(line))
	}
	if named && f.name != "" || len(f.notes) > 0 {
		d.title(f)
	}
	for i := range f.hunks {
		d.hunk(&f.hunks[i], f.name, i > 0)
	}
}

func (d *differ) line(l look, text string) {
	text = strings.ReplaceAll(text, "\t", blanks(tab))
	d.out = append(d.out, d.style.text(l, d.style.fit(text, d.style.width())))
}

// title adds the name of a file, how much of it changes, and what else is known of it.
func (d *differ) title(f *patchFile) {
	if len(f.hunks) > 0 || f.plus+f.minus > 0 {
		f.notes = slices.Insert(f.notes, 0, fmt.Sprintf("+%d %s%d", f.plus, d.style.glyph("−", "-"), f.minus))
	}
	right := strings.Join(f.notes, d.style.glyph(" · ", " - "))
	name := d.style.end(d.style.line(f.name), max(d.style.width()-tty.Width(right)-2, d.style.width()/2))
	right = d.style.fit(d.style.line(right), d.style.width()-tty.Width(name)-2)
	d.out = append(d.out, d.style.text(bold, name)+"  "+d.style.text(comment, right))
}

// hunk adds the lines of a hunk. Unchanged lines more than three away from a change are counted.
func (d *differ) hunk(h *hunk, name string, separate bool) {
	d.digits = len(strconv.Itoa(max(h.oldStart+h.oldLines, h.newStart+h.newLines)))
	d.code = highlighter{lang: source.LanguageOf(name, nil)}
	if separate {
		d.line(comment, blanks(d.digits+1)+d.style.glyph("⋮", ":")+d.style.Clean(h.section))
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
	for i := 0; i < len(run); i++ {
		if last-first > 1 && i == first {
			d.line(comment, fmt.Sprintf("%s%s %d unchanged lines", blanks(d.digits+1), d.style.glyph("⋮", ":"), last-first))
			i = last - 1
			continue
		}
		d.row(side{number: before + i, sign: ' ', text: run[i].text}, side{number: now + i, sign: ' ', text: run[i].text})
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
	if !d.split {
		pairs = nil
		for _, o := range olds {
			pairs = append(pairs, [2]side{o})
		}
		for _, n := range news {
			pairs = append(pairs, [2]side{1: n})
		}
	}
	for _, p := range pairs {
		d.row(p[0], p[1])
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

// at returns an element of a list, or nothing after its end.
func at[T any](list []T, i int) (element T) {
	if i < len(list) {
		element = list[i]
	}
	return element
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
			d.out = append(d.out, string(c.render(nil, d.style)))
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
		l, r := at(left, i), at(right, i)
		line := append(l.render(nil, d.style), blanks(half-l.width())+bar...)
		d.out = append(d.out, string(r.render(line, d.style)))
	}
}

// cells returns the lines that one line of a hunk takes in some columns.
func (d *differ) cells(l side, width int) (lines []row) {
	if l.sign == 0 {
		return nil
	}
	gutter := d.digits + 4
	number, sign := fmt.Sprintf("%*d ", d.digits+1, l.number), string(l.sign)+" "
	text := d.text(l)
	for _, part := range text.lines(max(width-gutter, 1), true) {
		r := of(comment, number)
		r.add(signLooks[l.sign], sign)
		if r.addRow(part); len(part.text) == 0 {
			r.trim()
		}
		lines = append(lines, r)
		number, sign = blanks(d.digits)+d.style.glyph("↪", "\\")+" ", "  "
	}
	if !strings.HasSuffix(l.text, "\n") {
		lines = append(lines, of(comment, d.style.fit(blanks(gutter)+"\\ no newline at end", width)))
	}
	return lines
}

// text paints the text of a line.
func (d *differ) text(l side) (r row) {
	text := strings.TrimSuffix(l.text, "\n")
	bare := strings.TrimSuffix(text, "\r")
	if l.sign != '-' {
		d.code.paint(d.style.Clean(bare), true, &r)
	}
	if l.sign != ' ' {
		r = d.style.marked(signLooks[l.sign], bare, l.marks)
	}
	if l.cr && text != bare {
		r.add(signLooks[l.sign]|reverse, d.style.glyph("␍", "^M"))
	}
	return r
}

// marked adds the text of a line, of which some ranges differ from another line.
func (s Style) marked(base look, text string, marks [][2]int) (r row) {
	start := 0
	for _, m := range marks {
		from, to := min(m[0], len(text)), min(m[1], len(text))
		r.add(base, s.Clean(text[start:from]))
		r.add(base|reverse, s.Clean(text[from:to]))
		start = to
	}
	r.add(base, s.Clean(text[start:]))
	return r
}
