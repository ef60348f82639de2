package rawjson

import (
	"slices"
	"strings"
)

// maxForm is the largest document of which a form is made.
const maxForm = 4 << 10

// A Form is a document without the values that change from one event of a stream to the next. A
// document of the form of a valid one is valid, too, and the values have the same types and places.
// So it need not be parsed.
type Form struct {
	doc    []byte
	places [3]Place // where the values are, in order
	n      int
	text   int // which of them is the one that Match returns
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
	f.n = 0
	if len(doc) > maxForm || len(others) >= len(f.places) || doc[text.From] != '"' {
		return
	}
	f.doc = append(f.doc[:0], doc...)
	f.add(text)
	for _, p := range others {
		if p.To > 0 {
			f.add(p)
		}
	}
	f.text = slices.Index(f.places[:f.n], text)
}

// add inserts a place before those behind it.
func (f *Form) add(p Place) {
	at := f.n
	for ; at > 0 && f.places[at-1].From > p.From; at-- {
		f.places[at] = f.places[at-1]
	}
	f.places[at] = p
	f.n++
}

// Match returns the text of a document that has the form.
func (f *Form) Match(doc string) (text string, ok bool) {
	at := 0
	for i, p := range f.places[:f.n] {
		quoted := f.doc[p.From] == '"'
		if quoted {
			p.From++
		}
		if doc, ok = f.pass(doc, at, p.From); !ok {
			return "", false
		}
		value := ""
		if quoted {
			value, doc, ok = ScanString(doc)
		} else {
			doc, ok = passNumber(doc)
		}
		if !ok {
			return "", false
		}
		if i == f.text {
			text = value
		}
		at = p.To
	}
	rest, ok := f.pass(doc, at, len(f.doc))
	return text, ok && rest == "" && f.n > 0
}

// pass returns what follows in doc after a part of the form.
func (f *Form) pass(doc string, from, to int) (string, bool) {
	n := to - from
	if len(doc) < n || doc[:n] != string(f.doc[from:to]) {
		return "", false
	}
	return doc[n:], true
}

// passNumber returns what follows a short integer that is not negative.
func passNumber(doc string) (string, bool) {
	rest := strings.TrimLeft(doc, "0123456789")
	n := len(doc) - len(rest)
	return rest, n == 1 || n > 1 && n < 16 && doc[0] != '0'
}
