package diff3

import (
	"bytes"
	"strings"
)

// Format says how conflicts are written.
type Format struct {
	// Labels follow the markers of ours, base and theirs.
	Ours, Base, Theirs string
	// MarkerSize is the length of the markers. 0 means 7, or more if a line of the
	// texts begins with such a marker.
	MarkerSize int
}

const (
	markerSize = 7
	maxMarker  = 250 // longer runs in the texts do not make markers longer
)

// Chosen returns the texts to use in place of a region, one after the other, and whether
// something was chosen for it.
type Chosen func(region int) (texts [][]byte, ok bool)

// Render returns the merged text, and where each region ends in it. Conflicts for which nothing
// was chosen are written between markers, except that of a binary file, for which ours is
// written. A chosen text without a line end gets one if something follows.
func (r *Result) Render(f Format, chosen Chosen) (text []byte, ends []int) {
	size := max(r.Ours.Offset(r.Ours.Len()), r.Theirs.Offset(r.Theirs.Len()))
	w := writer{r: r, f: f, out: make([]byte, 0, size)}
	w.ends = make([]int, 0, len(r.Regions))
	for i := range r.Regions {
		texts, ok := chosen(i)
		if !ok {
			w.region(&r.Regions[i])
		}
		for _, text := range texts {
			w.text(text)
		}
		w.ends = append(w.ends, len(w.out))
	}
	return w.out, w.ends
}

// text returns the merged text, if there are no conflicts. Unlike in Render, the pieces need
// not be lines.
func (r *Result) text() []byte {
	var out []byte
	for i := range r.Regions {
		out = append(out, r.Text(&r.Regions[i])...)
	}
	return out
}

// Sides returns what base, ours and theirs have in region i.
func (r *Result) Sides(i int) (base, ours, theirs []byte) {
	c := r.conflict(&r.Regions[i])
	return c.base, c.ours, c.theirs
}

// Text returns the text of a region that is not a conflict, or ours of one that is.
func (r *Result) Text(g *Region) []byte {
	if g.Kind == Theirs {
		return r.Theirs.Slice(g.Theirs.Lo, g.Theirs.Hi)
	}
	return r.Ours.Slice(g.Ours.Lo, g.Ours.Hi)
}

// writer writes a merge.
type writer struct {
	r    *Result
	f    Format
	out  []byte
	ends []int // of the regions that were written
}

// text writes lines.
func (w *writer) text(text []byte) {
	if len(text) > 0 {
		w.endLine(text)
	}
	w.out = append(w.out, text...)
}

// endLine ends the line before text, if it has no end: as the line before it does, or else
// the first of text.
func (w *writer) endLine(text []byte) {
	end := len(w.out)
	if end == 0 || w.out[end-1] == '\n' {
		return
	}
	with := w.out[:bytes.LastIndexByte(w.out, '\n')+1]
	if len(with) == 0 {
		with = text[:bytes.IndexByte(text, '\n')+1]
	}
	if bytes.HasSuffix(with, []byte("\r\n")) {
		w.out = append(w.out, '\r')
	}
	w.out = append(w.out, '\n')
	for i := len(w.ends) - 1; i >= 0 && w.ends[i] == end; i-- {
		w.ends[i] = len(w.out)
	}
}

// region writes a region. The order is git's: ours, base if the style shows it,
// theirs.
func (w *writer) region(g *Region) {
	if g.Kind != Conflict || w.r.Binary {
		w.text(w.r.Text(g))
		return
	}
	if w.f.MarkerSize <= 0 {
		w.f.MarkerSize = w.r.freeMarker()
	}
	eol := w.markerEnding(g)
	w.endLine([]byte(eol))
	w.marker('<', w.f.Ours, eol)
	w.side(w.r.Ours, g.Ours, eol)
	if w.r.style != StyleMerge {
		w.marker('|', w.f.Base, eol)
		w.side(w.r.Base, g.Base, eol)
	}
	w.marker('=', "", eol)
	w.side(w.r.Theirs, g.Theirs, eol)
	w.marker('>', w.f.Theirs, eol)
}

func (w *writer) marker(c byte, label, eol string) {
	for range w.f.MarkerSize {
		w.out = append(w.out, c)
	}
	if i := strings.IndexAny(label, "\r\n"); i >= 0 {
		label = label[:i]
	}
	if label != "" {
		w.out = append(w.out, ' ')
		w.out = append(w.out, label...)
	}
	w.out = append(w.out, eol...)
}

// side writes lines of a conflict, and ends the last one if nothing else does.
func (w *writer) side(l *Lines, s Span, eol string) {
	text := l.Slice(s.Lo, s.Hi)
	w.out = append(w.out, text...)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		w.out = append(w.out, eol...)
	}
}

// markerEnding returns how markers end: as the lines before the conflict do, and
// the first of base. Only if none of them says otherwise they end in CRLF.
func (w *writer) markerEnding(g *Region) string {
	end := ending(w.r.Ours, max(g.Ours.Lo-1, 0))
	if end != isLF {
		end = ending(w.r.Theirs, max(g.Theirs.Lo-1, 0))
	}
	if end != isLF {
		end = ending(w.r.Base, 0)
	}
	if end == isCRLF {
		return "\r\n"
	}
	return "\n"
}

// freeMarker returns the length of markers that no line of the texts begins with.
// Lines that begin with a very long run of a marker's characters would make the
// markers, and the merged text, very long. They are told from a marker by not being
// as long.
func (r *Result) freeMarker() int {
	longest, long := markerSize-1, map[int]bool{}
	for _, l := range []*Lines{r.Base, r.Ours, r.Theirs} {
		for i := range l.Len() {
			if n := markerRun(l.Slice(i, i+1)); n <= maxMarker {
				longest = max(longest, n)
			} else {
				long[n] = true
			}
		}
	}
	size := longest + 1
	for long[size] {
		size++
	}
	return size
}

// markerRun returns how often a line repeats the character of a marker that it
// begins with, or 0 if that is too seldom.
func markerRun(line []byte) int {
	if len(line) < markerSize || !strings.ContainsRune("<|=>", rune(line[0])) {
		return 0
	}
	return len(line) - len(bytes.TrimLeft(line, string(line[:1])))
}
