package words

import (
	"bytes"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// maxPlaces is the number of words of a query that count, with the stop words between them.
const maxPlaces = 64

// The quality of a match.
const (
	NoMatch    = iota
	NearWords  // each word, some with a typing error
	NearPhrase // the words in their order, some with a typing error
	AllWords
	Phrase // the words in their order
)

// Query is the words that a text must have. A name of several parts, such as userProfile, is one word at one place, which
// is also that of user-profile and userprofile. A name with underscores or hyphens is its parts, so that max_tokens also
// finds "max tokens", unless the words of a text lack one of the parts.
type Query struct {
	exact sequence
	near  sequence // with typing errors; without words that may be mistyped stop words, if there are others
}

// sequence is words at places, which are counted from the first one.
type sequence struct {
	words []*word
	first int    // the place of the first word in the query
	want  uint64 // a bit for each place with a word; the others have words that do not count
}

// length returns the number of places.
func (s *sequence) length() int { return bits.Len64(s.want) }

// word is a word of a query.
type word struct {
	place   int
	text    []byte // folded
	letters []rune
	fuzzy   bool // a typing error is allowed
	pieces  []piece
}

// NewQuery returns the words of a query, without stop words.
func NewQuery(text string) (q Query) {
	var parts []Word
	size, joined := 0, 0 // joined places are those of parts of which there is only the whole
	for w := range Of(text) {
		switch {
		case w.Part:
			size += len(w.Text)
			w.Text = bytes.Clone(w.Text)
			parts = append(parts, w)
			continue
		case w.Whole && size == len(w.Text) && hyphenated(text[w.Start:]):
			for _, p := range parts {
				q.add(p, p.Place-joined)
			}
		default:
			joined += w.Place - w.First
			q.add(w, w.Place-joined)
		}
		parts, size = nil, 0
	}
	if len(q.near.words) == 0 {
		q.near = q.exact
	}
	return q
}

// Empty reports whether the query has no words.
func (q Query) Empty() bool { return len(q.exact.words) == 0 }

// hyphenated reports whether a text begins with a name that has an underscore or a hyphen.
func hyphenated(text string) bool {
	at := strings.IndexAny(text, "_-")
	return at > 0 && !strings.ContainsFunc(text[:at], func(r rune) bool { return Letter(r) == ' ' })
}

func (q *Query) add(w Word, place int) {
	q.exact.add(w, place)
	if !NearStop([]rune(string(w.Text))) {
		q.near.add(w, place)
	}
}

func (s *sequence) add(w Word, place int) {
	if len(s.words) == 0 {
		s.first = place
	}
	if place -= s.first; place < maxPlaces {
		s.words = append(s.words, newWord(w.Text, place))
		s.want |= 1 << place
	}
}

func newWord(text []byte, place int) *word {
	w := &word{place: place, text: bytes.Clone(text), letters: []rune(string(text))}
	w.fuzzy = Tolerance(w.letters) > 0
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
		Distance([]rune(string(folded)), w.letters, 1) <= 1
}

// Match returns how well a text matches a query, and where the match begins.
func (q Query) Match(text string) (quality, at int) {
	if quality, at = q.exact.match(text, (*word).is); quality == NoMatch {
		quality, at = q.near.match(text, (*word).isNear)
		return max(quality-AllWords+NearWords, NoMatch), at
	}
	return quality, at
}

// match returns Phrase, AllWords or NoMatch. Words of the text match the beginning of the sequence, up to a place, if
// the words before the last one match up to the place before, and the last one is that of the place, or any if that has
// no word. A name of the text is at the places of all its parts, so the words before it end before the first of them.
func (s *sequence) match(text string, same func(*word, []byte) bool) (quality, at int) {
	// For a place of the text, begins has where each match begins that ends there, by the place of the sequence up to
	// which it goes, or -1. The last places are enough: a name has fewer parts.
	length := s.length()
	begins := make([]int, maxPlaces*length)
	of := func(place int) []int {
		i := place % maxPlaces * length
		return begins[i : i+length]
	}
	place, first, seen := -1, -1, uint64(0)
	for w := range Of(text) {
		for place < w.Place {
			place++
			for k := range length {
				if of(place)[k] = -1; k > 0 && place > 0 && s.want>>k&1 == 0 {
					of(place)[k] = of(place - 1)[k-1]
				}
			}
		}
		for _, wanted := range s.words {
			if !same(wanted, w.Text) {
				continue
			}
			if seen |= 1 << wanted.place; first < 0 {
				first = w.Start
			}
			if k := wanted.place; k == 0 {
				of(place)[k] = w.Start
			} else if w.First > 0 && of(w.First - 1)[k-1] >= 0 {
				of(place)[k] = of(w.First - 1)[k-1]
			}
		}
		if at := of(place)[length-1]; at >= 0 {
			return Phrase, at
		}
	}
	if seen == s.want {
		return AllWords, first
	}
	return NoMatch, 0
}
