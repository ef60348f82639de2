package schema

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A check is one keyword of a schema that a value must satisfy. Most keywords apply to one
// kind of value and accept every other: "minLength" says nothing about a number (JSON
// Schema Validation, section 6). The type alone decides which kinds there may be.
type check interface {
	check(r *run, at int)
}

type (
	refTo       struct{ node *node }
	allOf       []*node
	anyOf       []*node
	oneOf       []*node
	notThis     struct{ node *node }
	prefixItems []*node
	uniqueItems struct{}
	pattern     struct{ re *regexp.Regexp }
	multiple    struct{ of string }
	enum        []enumValue
)

// The canon makes 1 and 1.0 the same value, and objects whose members are in another order.
type enumValue struct {
	kind  kind
	text  string // a string without quotes and escapes; of other values the canon
	shown string // the form for messages; empty for a string
}

func (c refTo) check(r *run, at int) { r.node(c.node, at) }

// All are checked even after one has failed: the model should learn of every problem.
func (c allOf) check(r *run, at int) {
	for _, n := range c {
		r.node(n, at)
	}
}

// One form that fits is enough, so the others need not be tried. An empty list, which the
// specification does not allow, is ignored like other mistakes of a schema.
func (c anyOf) check(r *run, at int) {
	if len(c) == 0 {
		return
	}
	trials, fit := r.try(c, at, 1)
	if fit == 0 {
		r.explain(c, trials, at)
	}
}

func (c oneOf) check(r *run, at int) {
	if len(c) == 0 {
		return
	}
	switch trials, fit := r.try(c, at, len(c)); {
	case fit == 0:
		r.explain(c, trials, at)
	case fit > 1:
		r.fail("must fit exactly one of %d forms, fits %d", len(c), fit)
	}
}

// The problems of the trial are not shown: they say what is right about the value.
func (c notThis) check(r *run, at int) {
	if r.trial(c.node, at).count == 0 {
		r.fail("must not be %s", r.show(at))
	}
}

// An array may be shorter than the list; the elements behind it are for items.
func (c prefixItems) check(r *run, at int) {
	if r.doc.cells[at].kind != kindArray {
		return
	}
	r.doc.elements(at, func(n, value int) bool {
		if n == len(c) {
			return false
		}
		r.inElement(n, c[n], value)
		return true
	})
}

// Elements are compared by their canons in a map, since comparing each with each would take
// the square of their number.
func (c uniqueItems) check(r *run, at int) {
	if r.doc.cells[at].kind != kindArray {
		return
	}
	r.spend(at)
	seen := map[string]int{}
	var buf []byte
	r.doc.elements(at, func(n, value int) bool {
		buf = r.doc.canon(buf[:0], value)
		if first, dup := seen[string(buf)]; dup {
			r.path = append(r.path, step{index: n})
			r.fail("is the same as element %d, elements must differ", first)
			r.path = r.path[:len(r.path)-1]
			return true
		}
		seen[string(buf)] = n
		return true
	})
}

// The expression may match anywhere in the text: patterns are not anchored (JSON Schema
// Validation, section 6.3.3).
func (c pattern) check(r *run, at int) {
	if r.doc.cells[at].kind == kindString && !c.re.Match(r.text(at)) {
		r.fail("must match %s, got %s", short(c.re.String()), r.show(at))
	}
}

func (c multiple) check(r *run, at int) {
	if r.doc.cells[at].kind != kindNumber {
		return
	}
	if text := string(r.doc.raw(at)); !multipleOf(text, c.of) {
		r.fail("must be a multiple of %s, got %s", c.of, short(text))
	}
}

// The model is told the choices, as it has seen the schema and still missed them.
func (c enum) check(r *run, at int) {
	for _, v := range c {
		if v.equals(r, at) {
			return
		}
	}
	if len(c) == 1 {
		r.fail("must be %s, got %s", c.list(), r.show(at))
		return
	}
	r.fail("must be one of %s, got %s", c.list(), r.show(at))
}

// Strings, which nearly all enums consist of, are compared without a canon.
func (v enumValue) equals(r *run, at int) bool {
	if r.doc.cells[at].kind != v.kind || r.budget <= 0 {
		return false
	}
	if v.kind == kindString {
		return string(r.text(at)) == v.text
	}
	r.spend(at)
	return string(r.doc.canon(nil, at)) == v.text
}

// maxListed is how many choices or names a problem lists. More would push the problem
// itself out of the model's attention.
const maxListed = 20

// list returns the choices in words. A long list ends in an ellipsis, so that a problem
// does not fill the context of the model.
func (c enum) list() string {
	var b strings.Builder
	for i, v := range c {
		if i == maxListed {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if v.kind == kindString {
			b.WriteString(short(strconv.Quote(v.text)))
		} else {
			b.WriteString(v.shown)
		}
	}
	return b.String()
}

// A limit bounds a number. The text is kept for the message, since a model finds 0.1 in the
// schema and not 1e-1.
type limit struct {
	rule  *limitRule
	text  string
	value decimal
}

type limitRule struct {
	words string
	ok    func(order int) bool // of the value, compared to the limit
}

// limits are the keywords about the size of numbers (JSON Schema Validation, section 6.2),
// with the words for the model and the comparison.
var limits = map[string]*limitRule{
	"minimum":          {"at least", func(order int) bool { return order >= 0 }},
	"maximum":          {"at most", func(order int) bool { return order <= 0 }},
	"exclusiveMinimum": {"more than", func(order int) bool { return order > 0 }},
	"exclusiveMaximum": {"less than", func(order int) bool { return order < 0 }},
}

func (c limit) check(r *run, at int) {
	if r.doc.cells[at].kind != kindNumber {
		return
	}
	text := string(r.doc.raw(at))
	if !c.rule.ok(parseDecimal(text).compare(c.value)) {
		r.fail("must be %s %s, got %s", c.rule.words, short(c.text), short(text))
	}
}

// A count bounds how many runes, elements or members a value has. Characters are counted as
// runes: a string's length is that of its code points (RFC 8259, section 7), not of its
// bytes.
type count struct {
	rule *countRule
	n    int
}

type countRule struct {
	kind  kind
	most  bool
	words string
}

// counts are the keywords about lengths (JSON Schema Validation, sections 6.3 to 6.5).
var counts = map[string]*countRule{
	"minLength":     {kindString, false, "characters long"},
	"maxLength":     {kindString, true, "characters long"},
	"minItems":      {kindArray, false, "elements long"},
	"maxItems":      {kindArray, true, "elements long"},
	"minProperties": {kindObject, false, "members in size"},
	"maxProperties": {kindObject, true, "members in size"},
}

func (c count) check(r *run, at int) {
	if r.doc.cells[at].kind != c.rule.kind {
		return
	}
	got := 0
	if c.rule.kind == kindString {
		got = utf8.RuneCount(r.text(at))
	} else {
		got = r.doc.size(at)
	}
	switch {
	case c.rule.most && got > c.n:
		r.fail("must be at most %d %s, got %d", c.n, c.rule.words, got)
	case !c.rule.most && got < c.n:
		r.fail("must be at least %d %s, got %d", c.n, c.rule.words, got)
	}
}
