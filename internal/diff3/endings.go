package diff3

import "bytes"

// How a line ends.
type lineEnd int

const (
	noEnd lineEnd = iota // it cannot be told
	isLF
	isCRLF
)

// ending tells how line i ends, going by the line before if it is a last line
// without an end.
func ending(l *Lines, i int) lineEnd {
	if l.Len() == 0 {
		return noEnd
	}
	line := l.Slice(i, i+1)
	if line[len(line)-1] != '\n' {
		if i == 0 {
			return noEnd
		}
		line = l.Slice(i-1, i)
	}
	if bytes.HasSuffix(line, []byte("\r\n")) {
		return isCRLF
	}
	return isLF
}

// wholeEnding tells how all lines of a text end, and noEnd if they differ.
func wholeEnding(text []byte) lineEnd {
	all, with := bytes.Count(text, []byte("\n")), bytes.Count(text, []byte("\r\n"))
	switch {
	case all == 0:
		return noEnd
	case with == all:
		return isCRLF
	case with == 0:
		return isLF
	}
	return noEnd
}

// mergeEndings merges r anew without regard to line endings, if one side changed
// those of the whole text and nothing else. It returns nil if none did.
func mergeEndings(r *Result, o Options) *Result {
	end := onlyEnding(r.Base.data, r.Ours.data, r.Theirs.data)
	if end == noEnd {
		return nil
	}
	e := mergeLines(withEnding(r.Base.data, end), withEnding(r.Ours.data, end), withEnding(r.Theirs.data, end), o)
	// The line numbers are the same in the texts as they came.
	return &Result{
		Base: r.Base, Ours: r.Ours, Theirs: r.Theirs, Regions: e.Regions, style: r.style, ending: end,
	}
}

// onlyEnding returns the line ending that one side gave to the whole text, if that
// is all it changed, and the other side did not do so too.
func onlyEnding(base, ours, theirs []byte) lineEnd {
	o, t := wholeEnding(ours), wholeEnding(theirs)
	switch {
	case o == t:
		return noEnd
	case o != noEnd && bytes.Equal(withEnding(base, o), ours):
		return o
	case t != noEnd && bytes.Equal(withEnding(base, t), theirs):
		return t
	}
	return noEnd
}

// endings merges a conflict without regard to line endings, if one side changed
// them all, whatever else it changed.
func (c *conflict) endings() ([]byte, bool) {
	b, o, t := wholeEnding(c.base), wholeEnding(c.ours), wholeEnding(c.theirs)
	end := o
	switch {
	case b == noEnd || o == t || o != b && t != b:
		return nil, false
	case o == b:
		end = t
	}
	text := conflict{withEnding(c.base, end), withEnding(c.ours, end), withEnding(c.theirs, end)}
	r := mergeLines(text.base, text.ours, text.theirs, Options{Style: StyleDiff3})
	if end == noEnd || r.Conflicts() > 0 {
		return nil, false
	}
	return r.Append(nil, Format{}, unresolved), true
}

// withEnding returns text with all lines that end ending alike.
func withEnding(text []byte, end lineEnd) []byte {
	lf, crlf := []byte("\n"), []byte("\r\n")
	text = bytes.ReplaceAll(text, crlf, lf)
	if end == isCRLF {
		text = bytes.ReplaceAll(text, lf, crlf)
	}
	return text
}

// ended returns text, which is a part of one of the sides, as it is put into the
// merged text.
func (r *Result) ended(text []byte) []byte {
	if r.ending == noEnd {
		return text
	}
	return withEnding(text, r.ending)
}
