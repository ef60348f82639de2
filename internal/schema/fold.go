package schema

import (
	"strconv"
	"strings"
	"unicode"
)

// Names that differ only in case. encoding/json takes them for the same, a schema does
// not, and between the two lies room for a call that is not what was approved.

// foldSteps is the number of names that are compared for one unit of the budget. A
// comparison is much cheaper than applying a schema, which is what a unit stands for.
const foldSteps = 8

// misspelt refuses a name that differs from a property only in case. To the schema and to
// the approver of a call it is a different name, but encoding/json would decode it into the
// property: "preferring an exact match but also accepting a case-insensitive match". A call
// could otherwise be approved for "path" and run for "Path".
func (r *run) misspelt(o *object, name []byte) bool {
	r.budget -= len(o.props) / foldSteps
	text := string(name)
	for i := range o.props {
		if p := o.props[i].name; strings.EqualFold(p, text) {
			r.fail("write it as %s", short(strconv.Quote(p)))
			return true
		}
	}
	return false
}

// twins refuses unknown names that differ only in case, because readers disagree about
// which of them counts. An object whose schema names no property is a map, whose keys are
// data: there "http_proxy" and "HTTP_PROXY" are two keys. Two spellings of an unknown name
// would both be decoded into one field, or into two, depending on who reads.
func (r *run) twins(o *object, at int) {
	seen := map[string]int{} // the cells of the keys
	r.doc.members(at, func(key, _ int) bool {
		name := r.doc.str(key)
		if o.find(name) >= 0 {
			return true
		}
		folded := fold(string(name))
		first, dup := seen[folded]
		if !dup {
			seen[folded] = key
			return true
		}
		r.path = append(r.path, step{key: key})
		r.fail("is the same as %s but for case", short(string(r.doc.raw(first))))
		r.path = r.path[:len(r.path)-1]
		return true
	})
}

// fold returns the same text for texts that strings.EqualFold calls equal. EqualFold
// compares by Unicode's simple folding, in which K, k and the Kelvin sign are one letter;
// lower case alone would miss that.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r { // the first of those that are equal
				return next
			}
			r = next
		}
	}, s)
}
