// Package editmatch applies the edits of a model to a text: it finds the place that
// an old string means and writes the new string there.
//
// Models copy text with small mistakes. The old string is looked for as it is first,
// and then with one kind of mistake after the other allowed for: see [Level]. There
// is no similarity: each level has one meaning, each has to give one place, and what
// is not found then is refused, with an [Error] that says where to look. A place
// that would have to be guessed is never written to.
//
// The old string is compared with the new one, and only what differs is written.
// The parts that both have in common keep the bytes of the file: indentation, blanks at line
// ends, typographic characters, line endings. Bytes that are not UTF-8 are bytes like others.
//
// Time is linear in the size of the text and of the edits, memory at most about
// eight times the size of the text and 24 bytes for each of its lines, plus what is
// written. Nothing here changes after it was returned; all of it may be used from
// several goroutines.
package editmatch

import "bytes"

const (
	maxText   = 64 << 20 // bytes of a text, before and after, and of an edit
	maxPlaces = 100_000  // that one edit may replace
	maxPieces = 100      // between lines that are left out
	maxCount  = 100      // places that are counted when only one is wanted
	maxListed = 10       // of those, the lines that are named
)

// Edit replaces Old by New. Old has to mean one place in the text, or with
// ReplaceAll any number of places. An empty Old is for an empty text only. With
// WholeLines, Old is not looked for within a line, and neither escapes nor lines left
// out are allowed for.
type Edit struct {
	Old, New   string
	ReplaceAll bool
	WholeLines bool
}

// Result is a text after an edit. Splices are what makes Text of the text before,
// in order and not overlapping.
type Result struct {
	Text    []byte
	Splices []Splice
	Match   Match
}

// Splice puts Text in place of the bytes from From up to To.
type Splice struct {
	From, To int
	Text     string
}

// Match tells where an edit was made, and what had to be allowed for to find it:
// there are no Changes if the old string was found as it is. There are several
// Places if all were replaced, or lines between them were left out.
type Match struct {
	Places  []Place
	Changes []Change
}

// Place is a range of lines of the text before the edit, counted from 1.
type Place struct{ FirstLine, LastLine int }

// Plan makes an edit to a text. An error is an [*Error], and nothing was changed.
func Plan(text []byte, e Edit) (*Result, error) {
	w := &writer{src: newSource(text)}
	if err := w.edit(e); err != nil {
		return nil, err
	}
	r, err := w.result()
	if err != nil {
		return nil, err
	}
	// The text already has everything that the edit would write, or one line of it is taken out
	// where another one of the same form is put in. The model is told, as it believes otherwise.
	if bytes.Equal(r.Text, text) {
		return nil, &Error{Kind: NoChange, Level: TrailingSpace, Lines: []int{w.match.Places[0].FirstLine}}
	}
	return r, nil
}

// edit finds the place of an edit and notes what is to be written there.
func (w *writer) edit(e Edit) *Error {
	switch {
	case len(w.src.raw) > maxText || len(e.Old)+len(e.New) > maxText:
		return &Error{Kind: TooLarge}
	case e.Old == e.New:
		return &Error{Kind: NoChange}
	case e.Old == "" && len(w.src.raw) > w.src.bom:
		return &Error{Kind: EmptyOld}
	case e.Old == "":
		w.match.Places = []Place{{1, 1}}
		return w.add(w.src.bom, w.src.bom, e.New)
	}
	found, err := w.src.locate(e)
	if err != nil {
		return err
	}
	w.match = Match{Places: make([]Place, 0, len(found.hits)), Changes: found.changes()}
	for _, h := range found.hits {
		if err := w.write(h); err != nil {
			return err
		}
		w.match.Places = append(w.match.Places, h.lines())
	}
	return nil
}
