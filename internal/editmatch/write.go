package editmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/diff3"
)

// maxWords is the size of two lines above which they are not compared by words.
const maxWords = 64 << 10

// writer collects what an edit writes. Nothing is written before all of it is known, so an
// error leaves no half of it.
type writer struct {
	src     *source
	splices []Splice
	match   Match
	size    int // of the text that is written
}

// add notes a splice, unless the text has these bytes already.
func (w *writer) add(from, to int, text string) *Error {
	if string(w.src.raw[from:to]) == text {
		return nil
	}
	if w.size += len(text); w.size > maxText {
		return &Error{Kind: TooLarge}
	}
	w.splices = append(w.splices, Splice{from, to, text})
	return nil
}

// write notes what an edit changes in a place where its old string is. Lines that stay are
// not written, so they keep everything in which the text differs from the edit.
func (w *writer) write(h *hit) *Error {
	for _, k := range h.hunks {
		var err *Error
		switch {
		case k.A0 == k.A1:
			err = w.insert(h, k)
		case k.B0 == k.B1:
			from, to := h.removed(k)
			err = w.add(from, to, "")
		case k.A1-k.A0 == k.B1-k.B0:
			err = w.replaceLines(h, k)
		default:
			err = w.replaceBlock(h, k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insert puts new lines between two old ones, or before or after all of them. The line
// break is that of the line above, since a file may have both kinds.
func (w *writer) insert(h *hit, k diff3.Hunk) *Error {
	var b strings.Builder
	br := h.src.lineBreak(h.line + max(0, k.A0-1))
	at, end := 0, k.A0 == len(h.old)
	if end {
		_, at = h.span(k.A0 - 1)
	} else {
		at, _ = h.span(k.A0)
	}
	for i := k.B0; i < k.B1; i++ {
		text, ok := h.newLine(i)
		switch {
		case !ok:
			return h.unclear(i)
		case end:
			b.WriteString(br + text)
		default:
			b.WriteString(text + br)
		}
		if b.Len() > maxText {
			return &Error{Kind: TooLarge}
		}
	}
	if k.A0 == 0 { // the old line keeps the indentation in front of the place
		b.Write(h.src.raw[h.from-h.lead : h.from])
	}
	return w.add(at, at, b.String())
}

// removed returns what goes when old lines do: they and their line breaks, or if
// the last one is among them the line break before them.
func (h *hit) removed(k diff3.Hunk) (from, to int) {
	from, _ = h.span(k.A0)
	if k.A1 < len(h.old) {
		to, _ = h.span(k.A1)
		if k.A0 == 0 {
			from -= h.lead
		}
		return from, to
	}
	_, from = h.span(k.A0 - 1)
	_, to = h.span(k.A1 - 1)
	return from, to
}

// replaceLines replaces lines one by one, so that their line breaks stay.
func (w *writer) replaceLines(h *hit, k diff3.Hunk) *Error {
	for i := range k.A1 - k.A0 {
		text, ok := h.changed(k.A0+i, k.B0+i)
		if !ok {
			return h.unclear(k.B0 + i)
		}
		from, to := h.span(k.A0 + i)
		if err := w.add(from, to, text); err != nil {
			return err
		}
	}
	return nil
}

// replaceBlock replaces lines by another number of lines. Each new line gets the line break
// of the old one in its place, as far as there are some.
func (w *writer) replaceBlock(h *hit, k diff3.Hunk) *Error {
	var b strings.Builder
	for i := k.B0; i < k.B1; i++ {
		text, ok := h.newLine(i)
		if !ok {
			return h.unclear(i)
		}
		if i > k.B0 {
			b.WriteString(h.src.lineBreak(h.line + min(k.A0+i-k.B0, k.A1) - 1))
		}
		if b.WriteString(text); b.Len() > maxText {
			return &Error{Kind: TooLarge}
		}
	}
	from, _ := h.span(k.A0)
	_, to := h.span(k.A1 - 1)
	return w.add(from, to, b.String())
}

// unclear refuses an edit for a new line whose indentation is not known.
func (h *hit) unclear(line int) *Error {
	return &Error{Kind: Unclear, Lines: []int{h.line + 1}, Text: h.new[line],
		Near: h.src.excerpt(h.line, len(h.old))}
}

// newLine returns a new line with the indentation that the text has. A blank line is
// written without blanks.
func (h *hit) newLine(i int) (string, bool) {
	line := h.new[i]
	if h.indent == nil {
		return line, true
	}
	if isBlank(line) {
		return "", true
	}
	was := indentOf(line)
	if i == 0 && h.indent.trimmed && was == "" {
		return indentOf(h.text(0)) + line, true
	}
	to, ok := h.indent.of(was)
	return to + line[len(was):], ok
}

// changed returns what becomes of an old line that a new one replaces. Blanks around
// it and typographic characters in it that the two have in common stay those of the
// text.
func (h *hit) changed(i, k int) (string, bool) {
	old, to, text := h.old[i], h.new[k], h.text(i)
	was, is := indentOf(old), indentOf(to)
	switch {
	case isBlank(old) || isBlank(to) || old == text && was != is:
		return h.newLine(k)
	case old == text:
		return to, true
	}
	has := h.tier.indentOf(text)
	body, tail := strings.Trim(to, blanks), tailOf(to)
	lead := has
	if was != is {
		line, ok := h.newLine(k)
		if !ok {
			return "", false
		}
		lead = indentOf(line)
	}
	if h.tier.fold {
		body = words(strings.Trim(old, blanks), body, text[len(has):])
	}
	if tail == tailOf(old) {
		tail = tailOf(text)
	}
	return lead + body + tail, true
}

// indentOf returns the blanks at the beginning of a line of the text, as the tier
// sees them.
func (t tier) indentOf(text string) string {
	if !t.fold {
		return indentOf(text)
	}
	c := cursor{text: []byte(text)}
	for c.pos < len(text) {
		if form, _ := foldOne(c.text[c.pos:]); !isBlank(form) {
			break
		}
		c.next()
	}
	return text[:c.pos]
}

// words returns the new form of a text that is old but for typographic characters: those in
// words that stay, stay. If the two forms cannot be followed side by side, the new text is
// taken as it is.
func words(old, to, text string) string {
	var b strings.Builder
	was, is := cursor{text: []byte(old)}, cursor{text: []byte(text)}
	done := 0 // of the new form
	for _, k := range compareWords(old, to) {
		from := is.pos
		if !was.toPos(k.A0) || !is.toKey(was.key) {
			return to
		}
		b.WriteString(text[from:is.pos])
		b.WriteString(to[k.B0:k.B1])
		done = k.B1
		if !was.toPos(k.A1) || !is.toKey(was.key) {
			return to
		}
	}
	from := is.pos
	if done > len(to) || !was.toPos(len(old)) || !is.toKey(was.key) {
		return to
	}
	b.WriteString(text[from:is.pos])
	return b.String()
}

// compareWords returns what differs between two lines, in bytes.
func compareWords(a, b string) []diff3.Hunk {
	if len(a)+len(b) > maxWords {
		return []diff3.Hunk{compareEnds(a, b)}
	}
	textA, endsA := cutWords(a)
	textB, endsB := cutWords(b)
	hunks := diff3.Diff(textA, textB).Hunks
	for i, k := range hunks {
		hunks[i] = diff3.Hunk{A0: endsA[k.A0], A1: endsA[k.A1], B0: endsB[k.B0], B1: endsB[k.B1]}
	}
	return hunks
}

// compareEnds returns what lies between what two lines begin and end with. It takes linear
// time, and is right for the one change that most long lines have.
func compareEnds(a, b string) diff3.Hunk {
	n := min(len(a), len(b))
	head := 0
	for head < n && a[head] == b[head] {
		head++
	}
	for head > 0 && head < len(a) && !utf8.RuneStart(a[head]) {
		head--
	}
	tail := 0
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for tail > 0 && !utf8.RuneStart(a[len(a)-tail]) {
		tail--
	}
	return diff3.Hunk{A0: head, A1: len(a) - tail, B0: head, B1: len(b) - tail}
}

// cutWords puts each word, and each character between words, on a separate line. It returns
// where they end, after a 0.
func cutWords(s string) (text []byte, ends []int) {
	ends = []int{0}
	text = make([]byte, 0, 2*len(s))
	word := false
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		letter := unicode.IsLetter(r) || unicode.IsDigit(r)
		if i > 0 && !(word && letter) {
			text, ends = append(text, '\n'), append(ends, i)
		}
		text, word = append(text, s[i:i+size]...), letter
	}
	return append(text, '\n'), append(ends, len(s))
}

// result makes the text.
func (w *writer) result() (*Result, *Error) {
	size := len(w.src.raw) + w.size
	for _, c := range w.splices {
		size -= c.To - c.From
	}
	if size > maxText {
		return nil, &Error{Kind: TooLarge}
	}
	text, last := make([]byte, 0, size), 0
	for _, c := range w.splices {
		text = append(append(text, w.src.raw[last:c.From]...), c.Text...)
		last = c.To
	}
	return &Result{Text: append(text, w.src.raw[last:]...), Splices: w.splices, Match: w.match}, nil
}
