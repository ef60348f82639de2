package diff3

import "bytes"

// lineEnd is a style of line endings.
type lineEnd int

const (
	noEnd lineEnd = iota // unknown, or not the same in all lines
	isLF
	isCRLF
)

// ending returns how line i ends. If i is a last line without a line ending, it returns the
// ending of the line before.
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

// wholeEnding returns the line ending of all lines in a text, or noEnd if they differ.
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

// endings suggests a resolution if one side changed all line endings and nothing else: the lines
// of the other side with the new line endings. If that side changed more, people rarely chose
// this.
func (c *conflict) endings() ([]byte, Kind, bool) {
	base, ours, theirs := c.text[inBase], c.text[inOurs], c.text[inTheirs]
	o, t := wholeEnding(ours), wholeEnding(theirs)
	only := func(side []byte, end lineEnd) bool {
		return end != noEnd && !bytes.Equal(base, side) &&
			bytes.Equal(withEnding(base, end), side)
	}
	switch {
	case o == t:
		return nil, Conflict, false
	case only(ours, o):
		return withEnding(theirs, o), Both, true
	case only(theirs, t):
		return withEnding(ours, t), Both, true
	}
	return nil, Conflict, false
}

// withEnding returns text with the same line ending on all lines.
func withEnding(text []byte, end lineEnd) []byte {
	lf, crlf := []byte("\n"), []byte("\r\n")
	text = bytes.ReplaceAll(text, crlf, lf)
	if end == isCRLF {
		text = bytes.ReplaceAll(text, lf, crlf)
	}
	return text
}
