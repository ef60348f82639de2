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
// If the caller knows the text that the model was shown, and the file has changed
// since, [Apply] refuses with [Stale] and carries the edit made to the shown text,
// so that the caller can merge the two.
//
// Time is linear in the size of the text and of the edits, memory at most about
// eight times the size of the text and 24 bytes for each of its lines, plus what is
// written. Nothing here changes after it was returned; all of it may be used from
// several goroutines.
package editmatch

import (
	"bytes"
	"slices"
)

const (
	maxText   = 64 << 20 // bytes of a text, before and after, and of an edit
	maxEdits  = 1000     // at once
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

// Result is a text after its edits. Splices are what makes Text of the text before,
// in order and not overlapping. Matches are one for each edit, in the order of the
// edits.
type Result struct {
	Text    []byte
	Splices []Splice
	Matches []Match
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

// Plan makes edits to a text. Each is looked for in the text as it was given, not in the
// outcome of those before it. All are made, or none: an error is an [*Error]. So edits can
// be given in any order, and none finds what another one wrote.
func Plan(text []byte, edits []Edit) (*Result, error) {
	r, err := plan(text, edits)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Apply makes edits to a file that may have changed since the model was shown it. They are
// made if the lines in which they are found are those that the model was shown, or if they
// cannot be made to the shown text, as when that does not have the old strings. If not, but all edits can be made to the shown
// text, the error is [Stale] and its Plan is that outcome: merge the way from shown to it
// into the file. A nil shown is unknown. A file that has changed elsewhere is edited as it
// is: only the lines that the old strings are in have to be those that the model saw.
func Apply(file, shown []byte, edits []Edit) (*Result, error) {
	if shown == nil || bytes.Equal(file, shown) {
		return Plan(file, edits)
	}
	now, err := plan(file, edits)
	then, shownErr := plan(shown, edits)
	switch {
	case shownErr == nil && err != nil:
		return nil, &Error{Kind: Stale, Edit: err.Edit, Plan: then}
	case shownErr == nil:
		// Both texts have the old strings, but perhaps not in the same lines.
		if i := firstStale(newSource(file), newSource(shown), now, then); i >= 0 {
			return nil, &Error{Kind: Stale, Edit: i, Plan: then}
		}
	case shownErr.Kind == Ambiguous:
		// That one of the places is left now does not make it the one that was meant.
		shownErr.Shown = true
		return nil, shownErr
	case err != nil:
		return nil, err
	}
	return now, nil
}

// firstStale returns the first edit whose lines are others now than then, or -1. The
// numbers of the lines may differ, since lines above them were added or removed.
func firstStale(file, shown *source, now, then *Result) int {
	same := func(p, q Place) bool { return file.sameLines(p, shown, q) }
	for i, m := range now.Matches {
		if !slices.EqualFunc(m.Places, then.Matches[i].Places, same) {
			return i
		}
	}
	return -1
}

// plan makes edits one after the other, without writing: the first that is refused ends it.
func plan(text []byte, edits []Edit) (*Result, *Error) {
	switch {
	case len(text) > maxText || len(edits) > maxEdits:
		return nil, &Error{Kind: TooLarge, Edit: -1}
	case len(edits) == 0:
		return nil, &Error{Kind: NoChange, Edit: -1}
	}
	w := &writer{src: newSource(text)}
	for i, e := range edits {
		if err := w.edit(i, e); err != nil {
			err.Edit = i
			return nil, err
		}
	}
	return w.result()
}

// edit finds the place of an edit and notes what is to be written there.
func (w *writer) edit(i int, e Edit) *Error {
	switch {
	case len(e.Old)+len(e.New) > maxText:
		return &Error{Kind: TooLarge}
	case e.Old == e.New:
		return &Error{Kind: NoChange}
	case e.Old == "" && len(w.src.raw) > w.src.bom:
		return &Error{Kind: EmptyOld}
	case e.Old == "":
		return w.fill(i, e.New)
	}
	found, err := w.src.locate(e)
	if err != nil {
		return err
	}
	m := Match{Places: make([]Place, 0, len(found.hits)), Changes: found.changes()}
	before := len(w.splices)
	for _, h := range found.hits {
		if err := w.write(i, h); err != nil {
			return err
		}
		m.Places = append(m.Places, h.lines())
	}
	// The text already has everything that the edit would write. The model is told, as it
	// believes otherwise.
	if len(w.splices) == before {
		return &Error{Kind: NoChange, Level: TrailingSpace, Lines: []int{m.Places[0].FirstLine}}
	}
	w.matches = append(w.matches, m)
	return nil
}
