package editmatch

import (
	"slices"
	"strings"
)

// tryElided looks for an edit whose old string leaves out lines and says so with a line
// like "..." or "// ... existing code ...". The new string has to leave them out too. Each
// piece between has to mean one place, in the order of the text, and what was left out
// stays as it is. It is the last form that is tried, because "..." also occurs in texts as
// itself.
func (s *source) tryElided(v variant, all bool) (*finding, *Error) {
	old, to := splitElided(lines(v.old)), splitElided(lines(v.new))
	if all || len(old.pieces) == 1 || len(old.pieces) > maxPieces || !slices.Equal(old.marks, to.marks) {
		return nil, nil
	}
	f := &finding{level: Elided}
	end := 0
	for i := range old.pieces {
		p := variant{old: old.piece(i), new: to.piece(i), level: Elided, whole: true}
		// There may be nothing in front of the first mark or behind the last one, but two
		// marks in a row leave open where the second begins.
		if p.old == "" {
			if p.new != "" || i > 0 && i < len(old.pieces)-1 {
				return nil, nil
			}
			continue
		}
		piece, err := s.tryPiece(p)
		if piece == nil || err != nil || piece.hits[0].from < end {
			return nil, err
		}
		end = piece.hits[0].to
		f.hits = append(f.hits, piece.hits[0])
	}
	if len(f.hits) == 0 {
		return nil, nil
	}
	return f, nil
}

// tryPiece allows a piece blank lines around it, since models set their marks apart.
func (s *source) tryPiece(v variant) (*finding, *Error) {
	if f, err := s.try(v, false); f != nil || err != nil {
		return f, err
	}
	return s.tryEnds(v, false)
}

// elided is a text cut at the lines that stand for others.
type elided struct {
	pieces [][]string
	marks  []string // the lines between them
}

// splitElided always returns one piece more than there are marks.
func splitElided(lines []string) elided {
	e := elided{pieces: [][]string{nil}}
	for _, l := range lines {
		if mark, ok := elision(l); ok {
			e.marks, e.pieces = append(e.marks, mark), append(e.pieces, nil)
			continue
		}
		last := len(e.pieces) - 1
		e.pieces[last] = append(e.pieces[last], l)
	}
	return e
}

// piece returns a piece as text. All but the last end in a line break.
func (e elided) piece(i int) string {
	text := strings.Join(e.pieces[i], "\n")
	if i < len(e.marks) && len(e.pieces[i]) > 0 {
		text += "\n"
	}
	return text
}

// elision reports whether a line stands for others: it is "..." alone, or a comment that
// begins with that. The leads are those of comments in the languages that models write
// most.
func elision(line string) (mark string, ok bool) {
	s := strings.TrimSpace(strings.ReplaceAll(line, "…", "..."))
	for _, lead := range [...]string{"", "//", "#", "--", "/*", "{/*", "<!--", ";", "%"} {
		rest, is := strings.CutPrefix(s, lead)
		rest = strings.TrimLeft(rest, " \t")
		if !is || !strings.HasPrefix(rest, "...") {
			continue
		}
		if lead != "" || strings.Trim(rest, ".") == "" {
			return s, true
		}
	}
	return "", false
}
