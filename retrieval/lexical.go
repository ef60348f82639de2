package retrieval

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/words"
)

// The parameters of BM25, and the weights that it does not have: of a word with n typing errors, the power of
// nearby to n, and of words that stand to each other as in the query, compared with the most that both can have.
const (
	k1      = 1.2
	lengthB = 0.75 // b
	nearby  = 0.6
	beside  = 1

	// maxWords is the number of words of a query that count.
	maxWords = 64
	// maxVariants is the number of words that a mistyped one may stand for.
	maxVariants = 4
)

// Lexical is an index of words. It is safe for concurrent use.
//
// The score of a text is that of BM25 with k1 = 1.2 and b = 0.75: it grows with how often the words of the
// query occur, less for each further time, and rare words count for more. Words that stand to each other as
// in the query add to it, so that a text with a phrase comes before others with its words. A word that does
// not occur stands for those that do and differ by a typing error, or two if it has eight letters or more;
// words with less than four letters or with digits must be right. Stop words do not count.
type Lexical struct {
	mu    sync.RWMutex // guards all that follows
	docs  []doc
	byID  map[string]int
	terms map[string]*term
	all   []*term // those of terms
	words int     // in all docs that are there
	dead  int     // of docs
}

type doc struct {
	item  *Item // nil if the doc was deleted
	words int
}

// term is a word and where it occurs.
type term struct {
	text    string
	letters uint64 // a bit for each letter that it has
	// list has for each doc, as uvarints: its number, as the difference to the one before; how often the
	// word occurs; and its places, the second and further as differences.
	list []byte
	last int // the last doc in list
}

// NewLexical returns an empty index.
func NewLexical() *Lexical {
	return &Lexical{byID: map[string]int{}, terms: map[string]*term{}}
}

// Put adds the words of a text, and replaces those of an item with the same ID. It does not keep the text.
func (l *Lexical) Put(item Item, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(item.ID)
	l.compact()
	places, count := map[*term][]int{}, 0 // words come by their places
	for w := range words.Of(text) {
		t := l.terms[string(w.Text)]
		if t == nil {
			t = newTerm(string(w.Text))
			l.terms[t.text] = t
			l.all = append(l.all, t)
		}
		places[t] = append(places[t], w.Place)
		count++
	}
	number := len(l.docs)
	for t, at := range places {
		t.add(number, at)
	}
	l.docs = append(l.docs, doc{&item, count})
	l.byID[item.ID] = number
	l.words += count
}

func newTerm(text string) *term {
	t := &term{text: text, last: -1}
	for _, r := range text {
		t.letters |= 1 << (r & 63)
	}
	return t
}

// add adds the places of the term in the next doc.
func (t *term) add(doc int, places []int) {
	t.list = binary.AppendUvarint(t.list, uint64(doc-t.last))
	t.list = binary.AppendUvarint(t.list, uint64(len(places)))
	last := 0
	for _, p := range places {
		t.list = binary.AppendUvarint(t.list, uint64(p-last))
		last = p
	}
	t.last = doc
}

// cursor goes through the docs of a term.
type cursor struct {
	rest   []byte
	doc    int
	places []int
}

func (t *term) docs() cursor { return cursor{rest: t.list, doc: -1} }

func (c *cursor) next() bool {
	if len(c.rest) == 0 {
		return false
	}
	c.doc += c.number()
	c.places = c.places[:0]
	last := 0
	for n := c.number(); n > 0; n-- {
		last += c.number()
		c.places = append(c.places, last)
	}
	return true
}

func (c *cursor) number() int {
	n, size := binary.Uvarint(c.rest)
	c.rest = c.rest[size:]
	return int(n)
}

// Delete removes items, if they are there.
func (l *Lexical) Delete(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.remove(id)
	}
	l.compact()
}

// remove removes an item. l.mu must be held.
func (l *Lexical) remove(id string) {
	if n, ok := l.byID[id]; ok {
		delete(l.byID, id)
		l.words -= l.docs[n].words
		l.docs[n] = doc{}
		l.dead++
	}
}

// compact removes what is left of items that were removed, if it is more than half. l.mu must be held.
func (l *Lexical) compact() {
	if l.dead <= 100 || l.dead*2 <= len(l.docs) {
		return
	}
	number := make([]int, len(l.docs))
	var kept []doc
	for i, d := range l.docs {
		if number[i] = len(kept); d.item != nil {
			l.byID[d.item.ID] = len(kept)
			kept = append(kept, d)
		}
	}
	for _, t := range l.all {
		old := t.docs()
		t.list, t.last = nil, -1
		for old.next() {
			if l.docs[old.doc].item != nil {
				t.add(number[old.doc], old.places)
			}
		}
		if t.list == nil {
			delete(l.terms, t.text)
		}
	}
	l.all = slices.DeleteFunc(l.all, func(t *term) bool { return t.list == nil })
	l.docs, l.dead = kept, 0
}

// Len returns the number of items.
func (l *Lexical) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.byID)
}

// sought is a word of a query.
type sought struct {
	place    int
	variants []variant
	idf      float64
}

// variant is a word of the index that one of the query may stand for.
type variant struct {
	*term
	weight float64
}

// Search returns the k best items that have a word of a query. If keep is not nil, only those that it
// accepts are found.
func (l *Lexical) Search(query string, k int, keep func(*Item) bool) []Match {
	l.mu.RLock()
	defer l.mu.RUnlock()
	wanted := l.parse(query)
	scores := make([]float64, len(l.docs))
	for i := range wanted {
		l.score(&wanted[i], scores)
	}
	for i := range wanted {
		next := 0 // the place of the next word
		for j := i + 1; j < len(wanted) && (next == 0 || wanted[j].place == next); j++ {
			if wanted[j].place > wanted[i].place {
				next = wanted[j].place
				l.scorePair(&wanted[i], &wanted[j], scores)
			}
		}
	}
	var out []Match
	for n, score := range scores {
		if item := l.docs[n].item; score > 0 && (keep == nil || keep(item)) {
			out = append(out, Match{item, score})
		}
	}
	order.By(out, bestFirst)
	return out[:max(min(k, len(out)), 0)]
}

// parse returns the words of a query that occur, at most 64.
func (l *Lexical) parse(query string) (out []sought) {
	seen := map[string]bool{}
	for w := range words.Of(query) {
		word := string(w.Text)
		if len(seen) == maxWords || seen[word] {
			continue
		}
		seen[word] = true
		if v := l.variants(word); len(v) > 0 {
			out = append(out, sought{place: w.Place, variants: v})
		}
	}
	return out
}

// score adds the scores for a word.
func (l *Lexical) score(w *sought, scores []float64) {
	type hit struct {
		doc, times int
		weight     float64
	}
	var hits []hit
	for _, v := range w.variants {
		for c := v.docs(); c.next(); {
			if l.docs[c.doc].item != nil {
				hits = append(hits, hit{c.doc, len(c.places), v.weight})
			}
		}
	}
	all, found := float64(len(l.byID)), float64(len(hits))
	w.idf = math.Log(1 + max(all-found+0.5, 0.5)/(found+0.5))
	mean := float64(l.words) / all
	for _, h := range hits {
		times := float64(h.times)
		scores[h.doc] += w.idf * h.weight * times * (k1 + 1) / (times + k1*(1-lengthB+lengthB*float64(l.docs[h.doc].words)/mean))
	}
}

// scorePair adds the scores for two words that stand to each other as in the query.
func (l *Lexical) scorePair(first, second *sought, scores []float64) {
	gap := second.place - first.place
	for _, v := range first.variants {
		for _, w := range second.variants {
			score := beside * (k1 + 1) * (first.idf + second.idf) * v.weight * w.weight
			x, y := v.docs(), w.docs()
			for more := x.next() && y.next(); more; {
				switch {
				case x.doc < y.doc:
					more = x.next()
				case x.doc > y.doc:
					more = y.next()
				default:
					if l.docs[x.doc].item != nil && follows(x.places, y.places, gap) {
						scores[x.doc] += score
					}
					more = x.next() && y.next()
				}
			}
		}
	}
}

// follows reports whether one of the places in b is that many places behind one in a. Both are sorted.
func follows(a, b []int, gap int) bool {
	for len(a) > 0 && len(b) > 0 {
		switch d := b[0] - a[0]; {
		case d == gap:
			return true
		case d < gap:
			b = b[1:]
		default:
			a = a[1:]
		}
	}
	return false
}

// variants returns a word if it occurs, or else those that differ from it by the fewest typing errors.
func (l *Lexical) variants(word string) []variant {
	if t := l.terms[word]; t != nil && l.occurs(t) {
		return []variant{{t, 1}}
	}
	letters := []rune(word)
	limit, like := words.Tolerance(letters), newTerm(word)
	if limit == 0 {
		return nil
	}
	var near []variant
	for _, t := range l.all {
		if bits.OnesCount64(t.letters^like.letters) > 2*limit || len(t.text) > len(word)+utf8.UTFMax*limit {
			continue
		}
		d := words.Distance(letters, []rune(t.text), limit)
		if d > limit || !l.occurs(t) {
			continue
		}
		if d < limit {
			near, limit = near[:0], d
		}
		weight := 1.0
		for range d {
			weight *= nearby
		}
		near = append(near, variant{t, weight})
	}
	order.By(near, func(a, b *variant) int { return moreFrequent(a.term, b.term) })
	return near[:min(len(near), maxVariants)]
}

func moreFrequent(a, b *term) int {
	return cmp.Or(cmp.Compare(len(b.list), len(a.list)), strings.Compare(a.text, b.text))
}

// occurs reports whether a term is in a doc that is there.
func (l *Lexical) occurs(t *term) bool {
	for c := t.docs(); c.next(); {
		if l.docs[c.doc].item != nil {
			return true
		}
	}
	return false
}

// Suggest returns at most n ways to complete the last word of a half-typed query, those with the most
// frequent words first. The words are in lower case.
func (l *Lexical) Suggest(query string, n int) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return words.Complete(query, n, func(yield func(string, int) bool) {
		for _, t := range l.all {
			if l.occurs(t) && !yield(t.text, len(t.list)) {
				return
			}
		}
	})
}
