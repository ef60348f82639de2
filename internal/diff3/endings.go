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

// endings gives the other side's lines the line endings of the one that changed all of
// them and nothing else. Where that side changed more, people hardly ever did so.
func (c *conflict) endings() ([]byte, bool) {
	o, t := wholeEnding(c.ours), wholeEnding(c.theirs)
	only := func(side []byte, end lineEnd) bool {
		return end != noEnd && !bytes.Equal(c.base, side) &&
			bytes.Equal(withEnding(c.base, end), side)
	}
	switch {
	case o == t:
		return nil, false
	case only(c.ours, o):
		return withEnding(c.theirs, o), true
	case only(c.theirs, t):
		return withEnding(c.ours, t), true
	}
	return nil, false
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
