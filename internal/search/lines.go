package search

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"
)

// at is the place of a line in a text: its number from 1, and its byte offsets.
type at struct{ number, start, end int }

// lines finds the matching lines of a text, with their context. Line breaks are counted from one
// match to the next, so that the text is read only once.
func (s *searcher) lines(ctx context.Context, d *machine, name string, text []byte) File {
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // nobody sees a byte order mark, and ^ matches behind it
	file := File{Path: name}
	scan := s.q.Matcher.scan(d, text)
	number, counted, shown := 1, 0, 0 // shown: everything before it was added
	var last at
	for pos := 0; file.Matches <= s.q.Max; {
		start, end, ok := scan.next(ctx, pos)
		if !ok {
			break
		}
		number += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		m := at{number, start, end}
		if file.Matches > 0 {
			shown = file.after(text, last, min(s.q.Context, number-last.number-1))
		}
		file.before(text, m, s.q.Context, shown)
		file.Lines = append(file.Lines, Line{number, s.q.Matcher.show(text[start:end]), true})
		file.Matches++
		pos, last, shown = end+1, m, min(end+1, len(text))
	}
	if file.Matches > 0 {
		file.after(text, last, s.q.Context)
	}
	return file
}

// before adds up to n lines before a match, but none that begins before pos. So no line is shown
// twice if two matches are close to each other.
func (f *File) before(text []byte, m at, n, pos int) {
	start := m.start
	k := 0
	for ; k < n && start > pos; k++ {
		start = bytes.LastIndexByte(text[:start-1], '\n') + 1
	}
	f.add(text, start, m.number-k, k)
}

// after adds up to n lines after a match. It returns the offset where they end.
func (f *File) after(text []byte, m at, n int) int {
	return f.add(text, m.end+1, m.number+1, n)
}

// add adds up to n lines of context, from the offset pos on.
func (f *File) add(text []byte, pos, number, n int) int {
	for ; n > 0 && pos < len(text); n-- {
		end := len(text)
		if i := bytes.IndexByte(text[pos:], '\n'); i >= 0 {
			end = pos + i
		}
		f.Lines = append(f.Lines, Line{number, clip(trimCR(text[pos:end]), 0), false})
		pos, number = end+1, number+1
	}
	return pos
}

// show returns the text of a matching line. If the line is long, it returns the part around the
// match.
func (m *Matcher) show(line []byte) string {
	line = trimCR(line)
	if len(line) <= maxText {
		return clip(line, 0)
	}
	// The expression is not tried on all of a very long line again.
	first := line[:min(len(line), window, maxWork/m.size)]
	if loc := m.re.FindIndex(first); loc != nil {
		return clip(line, max(0, loc[0]-maxText/3))
	}
	if c := m.scan(nil, line).word(0); c > 0 {
		return clip(line, max(0, c-maxText/3))
	}
	return clip(line, 0)
}

// clip cuts a piece out of a line, at rune boundaries. The result is valid UTF-8 without NUL,
// since it goes to models and terminals.
func clip(line []byte, from int) string {
	to := min(len(line), from+maxText)
	for i := 0; i < utf8.UTFMax && from > 0 && from < to && !utf8.RuneStart(line[from]); i++ {
		from++
	}
	for i := 0; i < utf8.UTFMax && to < len(line) && to > from && !utf8.RuneStart(line[to]); i++ {
		to--
	}
	s := strings.ToValidUTF8(strings.ReplaceAll(string(line[from:to]), "\x00", "\uFFFD"), "\uFFFD")
	if from > 0 {
		s = "…" + s
	}
	if to < len(line) {
		s += "…"
	}
	return s
}
