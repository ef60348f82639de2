package diff3

import (
	"bytes"
	"strings"
)

// Format says how conflicts are written.
type Format struct {
	// Ours, Base and Theirs are the labels that follow the conflict markers.
	Ours, Base, Theirs string
	// MarkerSize is the length of the markers in bytes. If it is 0, the length is 7, or more if a
	// line of the texts begins with such a marker.
	MarkerSize int
}

const (
	markerSize = 7
	maxMarker  = 250 // longer runs in the texts do not make markers longer
)

// Chosen returns the texts that replace a region, one after the other. The result ok is false if
// nothing was chosen for the region.
type Chosen func(region int) (texts [][]byte, ok bool)

// Render returns the merged text, and the offset at which each region ends in it. A conflict for
// which nothing was chosen is written between markers; in a binary file, it is written as ours.
// If a chosen text does not end in a line ending and more text follows, a line ending is added.
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

// text returns the merged text if there are no conflicts. Unlike in Render, the pieces need not
// be lines.
func (r *Result) text() []byte {
	var out []byte
	for i := range r.Regions {
		out = append(out, r.Text(&r.Regions[i])...)
	}
	return out
}

// Sides returns the texts of region i in base, ours and theirs.
func (r *Result) Sides(i int) (base, ours, theirs []byte) {
	g := &r.Regions[i]
	return r.Base.Slice(g.Base.Lo, g.Base.Hi), r.Ours.Slice(g.Ours.Lo, g.Ours.Hi),
		r.Theirs.Slice(g.Theirs.Lo, g.Theirs.Hi)
}

// Around returns some lines of ours before region i, and as many after it.
func (r *Result) Around(i, lines int) (before, after []byte) {
	at := r.Regions[i].Ours
	return r.Ours.Slice(max(at.Lo-lines, 0), at.Lo), r.Ours.Slice(at.Hi, min(at.Hi+lines, r.Ours.Len()))
}

// Text returns the merged text of a region. For a conflict it returns the text of ours.
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

// text writes a text that begins with a new line.
func (w *writer) text(text []byte) {
	if len(text) > 0 {
		w.endLine(text)
	}
	w.out = append(w.out, text...)
}

// endLine adds a line ending before text, if the last line written has none. The ending is that
// of the line before or, if there is none, that of the first line of text.
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
	// The line ending belongs to the text before, so regions that ended there end after it.
	for i := len(w.ends) - 1; i >= 0 && w.ends[i] == end; i-- {
		w.ends[i] = len(w.out)
	}
}

// region writes a region. The order of the sides is that of git: ours, then base if the style
// shows it, then theirs.
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

// marker writes a marker. A line break in a label would end the marker, and its rest would become
// a line of the file.
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

// side writes one side of a conflict, and adds a line ending if the last line has none.
func (w *writer) side(l *Lines, s Span, eol string) {
	text := l.Slice(s.Lo, s.Hi)
	w.out = append(w.out, text...)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		w.out = append(w.out, eol...)
	}
}

// markerEnding returns the line ending of the markers. As in git, it is CRLF only if the first
// line of base ends in CRLF, and if neither of the lines before the conflict ends in LF.
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

// freeMarker returns a length for markers with which no line of the texts can be confused. Lines
// that begin with a very long run of a marker's characters would make the markers very long, too.
// Such lines are ignored, as long as their length differs from that of the markers.
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

// markerRun returns how many times a line repeats the marker character that it begins with. It
// returns 0 if the line is too short for a marker.
func markerRun(line []byte) int {
	if len(line) < markerSize || !strings.ContainsRune("<|=>", rune(line[0])) {
		return 0
	}
	return len(line) - len(bytes.TrimLeft(line, string(line[:1])))
}
