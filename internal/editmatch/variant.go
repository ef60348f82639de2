package editmatch

import (
	"slices"
	"strings"
)

// tryEnds looks for the edit without the last line break if the text has none, and without the
// blank lines around its old string. Blank lines are taken off the new string too, as far as it has
// them, so that those of the file stay.
func (s *source) tryEnds(v variant, all bool) (*finding, *Error) {
	old, to := lines(v.old), lines(v.new)
	head := leadingBlank(old)
	if head == len(old) {
		return nil, nil
	}
	v.whole = true
	if f, err := s.tryLast(v, old, to); f != nil || err != nil {
		return f, err
	}
	old, to = old[head:], to[min(head, leadingBlank(to), len(to)-1):]
	tail := trailingBlank(old) - 1
	if tail > 0 {
		old, to = old[:len(old)-tail], to[:len(to)-max(0, min(tail, trailingBlank(to)-1))]
		old[len(old)-1] = ""
		if end := &to[len(to)-1]; isBlankLine(*end) {
			*end = "" // its blanks would come before the next line
		}
	}
	if head == 0 && tail <= 0 {
		return nil, nil
	}
	v.level, v.old, v.new = BlankLines, strings.Join(old, "\n"), strings.Join(to, "\n")
	if f, err := s.try(v, all); f != nil || err != nil {
		return f, err
	}
	return s.tryLast(v, old, to)
}

// tryLast looks for the edit at the end of a text that has no last line break, without that of the
// edit.
func (s *source) tryLast(v variant, old, to []string) (*finding, *Error) {
	last := len(old) - 1
	if last == 0 || old[last] != "" || s.end(len(s.starts)-1) == s.start(len(s.starts)-1) {
		return nil, nil
	}
	v.level, v.atEnd = LineEndings, true
	v.old, v.new = strings.Join(old[:last], "\n"), strings.TrimSuffix(strings.Join(to, "\n"), "\n")
	return s.try(v, false)
}

// leadingBlank returns how many lines at the beginning are blank.
func leadingBlank(lines []string) int {
	n := 0
	for n < len(lines) && isBlankLine(lines[n]) {
		n++
	}
	return n
}

// trailingBlank returns how many lines at the end are blank.
func trailingBlank(lines []string) int {
	n := 0
	for n < len(lines) && isBlankLine(lines[len(lines)-1-n]) {
		n++
	}
	return n
}

func isBlankLine(s string) bool { return isBlank(strings.TrimSuffix(s, "\r")) }

// tryNumbers looks for the edit without the line numbers that tools show. They have
// to be those of consecutive lines, and the number of a single line has to be right. A
// new string without numbers was not copied as the old one was: what it means is open.
func (s *source) tryNumbers(v variant, all bool) (*finding, *Error) {
	old, to := cutNumbers(lines(v.old)), cutNumbers(lines(v.new))
	if !old.numbered() || !old.consecutive || !to.numbered() && strings.TrimSpace(v.new) != "" {
		return nil, nil
	}
	// "12| text": the space belongs to the number if all lines have one.
	if old.spaced && (to.spaced || !to.some) {
		old.trim()
		to.trim()
	}
	v = variant{old: strings.Join(old.lines, "\n"), new: strings.Join(to.lines, "\n"), level: LineNumbers, whole: true}
	f, err := s.try(v, all)
	if f != nil && old.single && f.hits[0].line+1 != old.first {
		return nil, nil
	}
	return f, err
}

// numbered is a text without the line numbers in front of its lines.
type numbered struct {
	lines       []string
	first       int  // number
	some        bool // has line numbers
	bare        bool // has lines without, other than blank ones
	single      bool // has one number only
	consecutive bool // the numbers are
	spaced      bool // all have a space after them, which may be part of the line
}

// numbered reports whether all lines have numbers.
func (n *numbered) numbered() bool { return n.some && !n.bare }

// trim takes the spaces off. A blank line may have lost the space.
func (n *numbered) trim() {
	for i := range n.lines {
		if n.some {
			n.lines[i] = strings.TrimPrefix(n.lines[i], " ")
		}
	}
}

// cutNumbers takes the numbers off all lines that have one. Blank lines need none.
func cutNumbers(lines []string) *numbered {
	n := &numbered{lines: lines, consecutive: true, spaced: true}
	next := 0
	for i, l := range lines {
		no, rest, ok := cutNumber(l)
		switch {
		case !ok:
			n.bare = n.bare || !isBlankLine(l)
			next++
			continue
		case !n.some:
			n.first, n.some, n.single = no, true, true
		default:
			n.single = false
			n.consecutive = n.consecutive && no == next
		}
		next = no + 1
		n.lines[i] = rest
		n.spaced = n.spaced && !strings.HasSuffix(l[:len(l)-len(rest)], "\t") &&
			(isBlankLine(rest) || rest[0] == ' ')
	}
	return n
}

// cutNumber splits "12\ttext", "12| text", "12: text" or "12→text". A number has at most
// eight digits; longer ones are data.
func cutNumber(line string) (n int, rest string, ok bool) {
	s := strings.TrimLeft(line, " ")
	digits := 0
	for digits < len(s) && digits < 8 && '0' <= s[digits] && s[digits] <= '9' {
		n = 10*n + int(s[digits]-'0')
		digits++
	}
	if digits == 0 {
		return 0, "", false
	}
	s = strings.TrimLeft(s[digits:], " ")
	for _, sep := range [...]string{"\t", "|", ":", "→", "│"} {
		if rest, ok := strings.CutPrefix(s, sep); ok {
			return n, rest, true
		}
	}
	return 0, "", false
}

// tryEscapes looks for the edit with escapes like \n and \" taken for what they stand for.
// It may not be open what a backslash means. Each way to read them is tried, and the place
// has to be found by one only.
func (s *source) tryEscapes(v variant, all bool) (*finding, *Error) {
	if !strings.Contains(v.old, `\`) {
		return nil, nil
	}
	var found *finding
	var tried []string
	for _, un := range []func(string) (string, bool){unquote, unescape, unbreak} {
		old, ok := un(v.old)
		if !ok || old == v.old || slices.Contains(tried, old) {
			continue
		}
		tried = append(tried, old)
		to, ok := alike(v.new, un)
		if !ok || strings.Count(old, "\n") > strings.Count(v.old, "\n") && v.new != "" && v.new == to {
			continue // a new string that is not escaped says that the old one need not be
		}
		f, err := s.try(variant{old: old, new: to, level: Escapes}, all)
		switch {
		case err != nil:
			return nil, err
		case f != nil && found != nil:
			return nil, nil // two readings
		case f != nil:
			found = f
		}
	}
	return found, nil
}

// alike takes escapes out of the new string as was done in the old one. A new string
// that has none of them stays.
func alike(s string, un func(string) (string, bool)) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	return un(s)
}

// unquote reads \" and \' as quotes, if no quote of that kind stands without.
func unquote(s string) (string, bool) {
	for _, q := range [...]string{`"`, `'`} {
		if n := strings.Count(s, `\`+q); n > 0 && n == strings.Count(s, q) {
			s = strings.ReplaceAll(s, `\`+q, q)
		} else if n > 0 {
			return "", false
		}
	}
	return s, true
}

// unescape reads a text as the inside of a JSON string, which it has to be: on one
// line, every quote and every backslash escaped.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '"' || c == '\n' {
			return "", false
		}
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		n := strings.IndexByte(`nrt"\/'`, s[i])
		if n < 0 {
			return "", false
		}
		b.WriteByte("\n\r\t\"\\/'"[n])
	}
	return b.String(), true
}

// unbreak reads \n and \t as a line break and a tab, in a text of one line that has
// no quotes, in which they would mean themselves.
func unbreak(s string) (string, bool) {
	if strings.ContainsAny(s, "\n\"'`") {
		return "", false
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(s), true
}
