package rawjson

import (
	"hash/maphash"
	"strings"
)

// maxForm is the largest document of which a form is made.
const maxForm = 4 << 10

// A Form is a document without the values that change from one event of a stream to the next. A
// document of the form of a valid one is valid, too, and the values have the same types and places.
// So it need not be parsed.
//
// Thousands of streams may wait at the same time, and then each event finds the processor's cache
// cold. So a form does not keep the document, but a hash of it. The seed is random, so nobody can
// make another document with the same hash, and one in 2⁶⁴ has it by chance.
type Form struct {
	seed   maphash.Seed
	sum    uint64    // hash of what is between the values
	before [4]uint16 // lengths of what is before each value, and after the last; a quote belongs to it
	quoted [3]bool   // the value is a string
	n      uint8     // number of values
	text   uint8     // which of them is the one that Match returns
}

// add returns the hash of two texts, of which the first one has the hash sum.
func (f *Form) add(sum uint64, s string) uint64 {
	const odd = 0x9e3779b97f4a7c15 // so that the order matters
	return sum*odd + maphash.String(f.seed, s)
}

// A Place is where a value is in a document, see [Reader.Offset]. The zero value is none.
type Place struct{ From, To int }

// Here returns the place of the next value, which is skipped.
func (r *Reader) Here() Place {
	from := r.Offset()
	r.Skip()
	return Place{from, r.Offset()}
}

// Learn makes f the form of a valid document. The values that change are strings, or integers that are
// not negative: the text, and at most two others.
func (f *Form) Learn(doc string, text Place, others ...Place) {
	*f = Form{seed: maphash.MakeSeed()}
	if len(doc) > maxForm || len(others) >= len(f.quoted) || doc[text.From] != '"' {
		return
	}
	var places [len(f.quoted)]Place // in order
	for k := range len(others) + 1 {
		p := text
		if k < len(others) {
			p = others[k]
		}
		if p.To == 0 {
			continue
		}
		i := int(f.n)
		for ; i > 0 && places[i-1].From > p.From; i-- {
			places[i] = places[i-1]
		}
		places[i] = p
		f.n++
	}
	at := 0
	for i, p := range places[:f.n] {
		if p == text {
			f.text = uint8(i)
		}
		if f.quoted[i] = doc[p.From] == '"'; f.quoted[i] {
			p.From++
		}
		f.before[i] = uint16(p.From - at)
		f.sum = f.add(f.sum, doc[at:p.From])
		at = p.To
	}
	f.before[f.n] = uint16(len(doc) - at)
	f.sum = f.add(f.sum, doc[at:])
}

// Match returns the text of a document that has the form.
func (f *Form) Match(doc string) (text string, ok bool) {
	sum := uint64(0)
	for i := range f.n {
		n := int(f.before[i])
		if len(doc) < n {
			return "", false
		}
		sum = f.add(sum, doc[:n])
		value := ""
		if f.quoted[i] {
			value, doc, ok = ScanString(doc[n:])
		} else {
			doc, ok = passNumber(doc[n:])
		}
		if !ok {
			return "", false
		}
		if i == f.text {
			text = value
		}
	}
	return text, f.n > 0 && len(doc) == int(f.before[f.n]) && f.add(sum, doc) == f.sum
}

// passNumber returns what follows a short integer that is not negative.
func passNumber(doc string) (string, bool) {
	rest := strings.TrimLeft(doc, "0123456789")
	n := len(doc) - len(rest)
	return rest, n == 1 || n > 1 && n < 16 && doc[0] != '0'
}
