package session

import (
	"bytes"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/words"
)

// maxPlaces is the number of words of a query that count, with the stop words between them.
const maxPlaces = 64

// The quality of a match.
const (
	noMatch    = iota
	nearWords  // each word, some with a typing error
	nearPhrase // the words in their order, some with a typing error
	allWords
	phrase // the words in their order
)

// query is the words that a text must have. A name of several parts, such as userProfile, is one word, which is also
// that of user-profile and userprofile. A name with underscores or hyphens is its parts, so that max_tokens also
// finds "max tokens", unless the words of a text lack one of the parts.
type query struct {
	exact sequence
	near  sequence // with typing errors; without words that may be mistyped stop words, if there are others
}

// sequence is words at places, which are counted from the first one.
type sequence struct {
	words []*word
	first int    // the place of the first word in the query
	want  uint64 // a bit for each place with a word; the others have words that do not count
}

// word is a word of a query.
type word struct {
	bit     uint64 // of its place
	text    []byte // folded
	letters []rune
	fuzzy   bool // a typing error is allowed
	pieces  []piece
}

// newQuery returns the words of a query, without stop words.
func newQuery(text string) (q query) {
	var parts []words.Word
	size := 0
	for w := range words.Of(text) {
		switch {
		case w.Part:
			size += len(w.Text)
			w.Text = bytes.Clone(w.Text)
			parts = append(parts, w)
			continue
		case w.Whole && size == len(w.Text) && hyphenated(text[w.Start:]):
			for _, p := range parts {
				q.add(p)
			}
		default:
			q.add(w)
		}
		parts, size = nil, 0
	}
	if len(q.near.words) == 0 {
		q.near = q.exact
	}
	return q
}

// hyphenated reports whether a text begins with a name that has an underscore or a hyphen.
func hyphenated(text string) bool {
	at := strings.IndexAny(text, "_-")
	return at > 0 && !strings.ContainsFunc(text[:at], func(r rune) bool { return words.Letter(r) == ' ' })
}

func (q *query) add(w words.Word) {
	q.exact.add(w)
	if !words.NearStop([]rune(string(w.Text))) {
		q.near.add(w)
	}
}

func (s *sequence) add(w words.Word) {
	if len(s.words) == 0 {
		s.first = w.Place
	}
	if place := w.Place - s.first; place < maxPlaces {
		s.words = append(s.words, newWord(w.Text, place))
		s.want |= 1 << place
	}
}

func newWord(text []byte, place int) *word {
	w := &word{bit: 1 << place, text: bytes.Clone(text), letters: []rune(string(text))}
	w.fuzzy = words.Tolerance(w.letters) > 0
	if !w.fuzzy {
		w.pieces = []piece{newPiece(w.letters, false)}
		return w
	}
	middle := len(w.letters) / 2
	w.pieces = []piece{newPiece(w.letters[:middle], false), newPiece(w.letters[middle+1:], true)}
	return w
}

// is reports whether a folded word is w.
func (w *word) is(folded []byte) bool { return bytes.Equal(folded, w.text) }

// isNear reports whether a folded word is w, perhaps with a typing error.
func (w *word) isNear(folded []byte) bool {
	return w.is(folded) || w.fuzzy && len(folded) <= utf8.UTFMax*(len(w.letters)+1) &&
		words.Distance([]rune(string(folded)), w.letters, 1) <= 1
}

// match returns how well a text matches a query, and where the match begins.
func (q query) match(text string) (quality, at int) {
	if quality, at = q.exact.match(text, (*word).is); quality == noMatch {
		quality, at = q.near.match(text, (*word).isNear)
		return max(quality-allWords+nearWords, noMatch), at
	}
	return quality, at
}

// match returns phrase, allWords or noMatch. Words of the text match the beginning of the sequence, up to a place, if
// the words before the last one match up to the place before, and the last one is that of the place, or any if that has
// no word. The bits of matched are the places for which this is so.
func (s *sequence) match(text string, same func(*word, []byte) bool) (quality, at int) {
	length := bits.Len64(s.want)
	gaps := ^s.want & (1<<length - 1)
	var seen, matched, here uint64 // here is the bits of the words at a place
	var starts [maxPlaces]int      // of the words at the last places
	place, first := 0, -1
	for w := range words.Of(text) {
		if w.Place != place {
			if matched = (matched<<1 | 1) & (here | gaps); matched>>(length-1) != 0 {
				break
			}
			for ; place+1 < w.Place && matched != 0; place++ {
				matched = matched << 1 & gaps
			}
			place, here = w.Place, 0
		}
		starts[place%maxPlaces] = w.Start
		for _, wanted := range s.words {
			if same(wanted, w.Text) {
				here |= wanted.bit
			}
		}
		if seen |= here; first < 0 && here != 0 {
			first = w.Start
		}
	}
	matched |= (matched<<1 | 1) & (here | gaps)
	switch {
	case matched>>(length-1) != 0:
		return phrase, starts[(place-length+1)%maxPlaces]
	case seen == s.want:
		return allWords, first
	}
	return noMatch, 0
}

// excerpt returns the text around a match in one line, without control characters.
func excerpt(text string, at int) string {
	const before, after = 60, 140
	a, b := max(0, at-before), min(len(text), at+after)
	whole := strings.ToValidUTF8(text[a:b], "") // without the rest of a rune at either end
	clean := oneLine(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, whole))
	if a > 0 {
		clean = "…" + clean
	}
	if b < len(text) {
		clean += "…"
	}
	return clean
}
