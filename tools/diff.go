package tools

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/aycoder/aycoder/internal/runes"
)

const (
	contextLines = 3
	maxDiffed    = 600       // lines that are compared with one another; more are replaced as a whole
	maxDiff      = 48 * 1024 // bytes of a diff
)

// diff is a unified diff, and what it counts.
type diff struct {
	text           string
	added, removed int
}

// hunkPart is a change of whole lines: before[lo:hi], which starts at a line with so
// many before it, becomes lines.
type hunkPart struct {
	lo, hi int
	line   int
	lines  []string
}

// unified makes the diff of some splices. What lies between them is not compared, so
// that its cost depends on the change, not on the file.
func unified(path string, create bool, before []byte, splices []splice) diff {
	d := differ{before: string(before)}
	d.collect(splices)
	from, to := "a/"+path, "b/"+path
	if create {
		from = "/dev/null"
	}
	d.out.WriteString("--- " + quoteName(from) + "\n+++ " + quoteName(to) + "\n")
	for len(d.parts) > 0 {
		n := 1
		for n < len(d.parts) && d.gap(n) <= 2*contextLines {
			n++
		}
		d.hunk(d.parts[:n])
		d.parts = d.parts[n:]
	}
	text := printable(d.out.String())
	if len(text) > maxDiff {
		text = runes.Cut(text, maxDiff) + "\n[diff truncated]\n"
	}
	return diff{text, d.added, d.removed}
}

// quoteName quotes a name as git does, where a reader would take it for another.
func quoteName(p string) string {
	if shown := showPath(p); shown != p {
		return shown
	}
	if strings.ContainsAny(p, "\"\\") {
		return strconv.Quote(p)
	}
	return p
}

type differ struct {
	before         string
	parts          []hunkPart
	out            strings.Builder
	added, removed int
}

// collect widens the splices to whole lines, joins those that share a line, and
// compares.
func (d *differ) collect(splices []splice) {
	line, counted := 0, 0
	for len(splices) > 0 {
		lo := strings.LastIndexByte(d.before[:splices[0].from], '\n') + 1
		last, hi, n := lo, d.lineEnd(splices[0]), 1
		for ; n < len(splices) && splices[n].from < hi; n++ {
			if splices[n].to >= hi { // else the line ends at hi; do not look for it again
				hi = max(hi, d.lineEnd(splices[n]))
			}
		}
		var text strings.Builder
		for _, s := range splices[:n] {
			text.WriteString(d.before[last:s.from] + s.text)
			last = s.to
		}
		text.WriteString(d.before[last:hi])
		line += strings.Count(d.before[counted:lo], "\n")
		counted = lo
		d.compare(hunkPart{lo, hi, line, splitLines(text.String())})
		splices = splices[n:]
	}
}

// lineEnd returns where the last line that a splice touches ends.
func (d *differ) lineEnd(s splice) int {
	atStart := s.to == 0 || d.before[s.to-1] == '\n'
	fromStart := s.from == 0 || d.before[s.from-1] == '\n'
	if atStart && (strings.HasSuffix(s.text, "\n") || s.text == "" && fromStart) {
		return s.to
	}
	if i := strings.IndexByte(d.before[s.to:], '\n'); i >= 0 {
		return s.to + i + 1
	}
	return len(d.before)
}

func splitLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if n := len(lines); lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines
}

// compare adds what differs between the lines of a part.
func (d *differ) compare(p hunkPart) {
	old := splitLines(d.before[p.lo:p.hi])
	if len(old) > maxDiffed || len(p.lines) > maxDiffed {
		d.parts = append(d.parts, p)
		return
	}
	lo := p.lo
	for _, op := range difflib.NewMatcher(old, p.lines).GetOpCodes() {
		hi := lo + len(strings.Join(old[op.I1:op.I2], ""))
		if op.Tag != 'e' {
			d.parts = append(d.parts, hunkPart{lo, hi, p.line + op.I1, p.lines[op.J1:op.J2]})
		}
		lo = hi
	}
}

// gap returns how many lines are between two parts.
func (d *differ) gap(i int) int {
	return strings.Count(d.before[d.parts[i-1].hi:d.parts[i].lo], "\n")
}

// hunk writes some parts with what is around them.
func (d *differ) hunk(parts []hunkPart) {
	var body strings.Builder
	olds, news := 0, 0
	write := func(sign string, lines []string) {
		for _, l := range lines {
			body.WriteString(sign + l)
			if !strings.HasSuffix(l, "\n") {
				body.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	same := func(lines []string) {
		write(" ", lines)
		olds, news = olds+len(lines), news+len(lines)
	}
	first := parts[0]
	before := d.linesBefore(first.lo)
	same(before)
	net := d.added - d.removed
	for i, p := range parts {
		if i > 0 {
			same(splitLines(d.before[parts[i-1].hi:p.lo]))
		}
		old := splitLines(d.before[p.lo:p.hi])
		write("-", old)
		write("+", p.lines)
		olds, news = olds+len(old), news+len(p.lines)
		d.removed += len(old)
		d.added += len(p.lines)
	}
	same(d.linesAfter(parts[len(parts)-1].hi))
	start := first.line - len(before)
	fmt.Fprintf(&d.out, "@@ -%s +%s @@\n%s", span(start, olds), span(start+net, news), body.String())
}

// span is a range in a hunk's header. An empty one is named by the line before it.
func span(start, n int) string {
	if n > 0 {
		start++
	}
	if n == 1 {
		return strconv.Itoa(start)
	}
	return fmt.Sprintf("%d,%d", start, n)
}

func (d *differ) linesBefore(pos int) []string {
	from := pos
	for range contextLines {
		if from > 0 {
			from = strings.LastIndexByte(d.before[:from-1], '\n') + 1
		}
	}
	return splitLines(d.before[from:pos])
}

func (d *differ) linesAfter(pos int) []string {
	to := pos
	for range contextLines {
		if i := strings.IndexByte(d.before[to:], '\n'); i >= 0 {
			to += i + 1
		} else {
			to = len(d.before)
		}
	}
	return splitLines(d.before[pos:to])
}
