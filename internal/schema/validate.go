package schema

import (
	"bytes"
	"fmt"
)

// Validation goes through the schema and the cells of the document together. It does not
// stop at the first problem, because a model that learns of all of them needs one more try
// and not several. A budget bounds its work: each node that is applied costs a unit, and
// so does the length of texts that are compared, so neither a schema nor arguments of a
// stranger can take time that grows faster than they do. The document is never changed:
// Coerce and Normalize note what to replace, and write a new text.

// The bounds of Validate's work and of its messages.
const (
	maxProblems = 20
	maxQuoted   = 80     // bytes of a value or name that a problem quotes
	minSteps    = 50_000 // nodes that are applied to any document
	cellSteps   = 32     // and as many more for each cell of a document
	stepBytes   = 64     // of a string or a compound value, compared in one step
)

// Validate returns the problems of data, worded for the model that wrote it, each with its
// JSON pointer: "/limit: must be at most 2000, got 5000". It returns nil for valid data. At
// most 20 problems are listed, and the others are counted. If data is not one JSON value,
// or has a duplicate key, that is the only problem, with its offset.
func (s *Schema) Validate(data []byte) []string { return s.validate(newRun(data)) }

// ValidateLoose is Validate, but accepts null for a property that is not required. So does
// encoding/json, and a model that is forced to write all properties has no other way to
// leave one out.
func (s *Schema) ValidateLoose(data []byte) []string {
	r := newRun(data)
	r.loose = true
	return s.validate(r)
}

// A schema that runs out of budget is a problem by itself, since the values that were not
// reached are not known to be valid.
func (s *Schema) validate(r *run) []string {
	if err := r.doc.parse(); err != nil {
		return []string{"arguments: " + err.Error()}
	}
	r.root(s)
	if r.budget <= 0 {
		r.path = r.path[:0]
		r.fail("the schema is too complex to check them")
	}
	if more := r.found.count - len(r.found.problems); more > 0 {
		return append(r.found.problems, fmt.Sprintf("and %d more", more))
	}
	return r.found.problems
}

// Fit returns the arguments in the form that the schema wants, or the problems that
// [Schema.Validate] reports. Strings that spell another value are replaced as by
// [Schema.Coerce], and integers such as 2.0 are written in plain digits as by
// [Schema.Normalize]. Data that needs no change is returned as it is.
func (s *Schema) Fit(data []byte) (args []byte, problems []string) {
	r := newRun(data)
	if problems = s.validate(r); len(problems) > 0 {
		coerced := s.Coerce(data)
		if bytes.Equal(coerced, data) {
			return data, problems
		}
		r = newRun(coerced)
		if problems = s.validate(r); len(problems) > 0 {
			return data, problems
		}
	}
	return r.normalized(), nil
}

// A run is the state of one validation.
type run struct {
	doc    doc
	path   []step
	found  findings
	budget int // nodes that may still be applied; recursive choices explode
	depth  int
	loose  bool           // null counts as a missing property
	trying int            // depth of nested trials
	spoken map[int][]byte // values that strings spell, by cell; nil if not wanted

	cells [16]cell // initial storage of doc.cells and path
	steps [4]step
}

// Its first cells and steps are part of it: most arguments need no other memory.
func newRun(data []byte) *run {
	r := &run{doc: doc{data: data}}
	r.doc.cells, r.path = r.cells[:0], r.steps[:0]
	return r
}

// root checks the whole parsed document.
func (r *run) root(s *Schema) {
	r.budget = minSteps + cellSteps*len(r.doc.cells) + len(r.doc.data)/8
	r.node(s.root, 0)
}

// A step is a key or an index on the way to a value. Names are put into words only if there
// is a problem.
type step struct {
	key   int    // the cell of a key, or 0
	index int    // of an element, if key is 0
	name  string // of a member that is missing, if index is less than 0
}

// node checks a value against a schema. It stops when recursive references or nested
// choices exhaust the budget, so a hostile schema cannot take exponential time.
func (r *run) node(n *node, at int) {
	r.budget--
	if r.budget <= 0 {
		return
	}
	if r.depth > maxNesting+4*maxDepth {
		r.budget = 0
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	if !n.types.holds(&r.doc, at) {
		r.speak(n, at)
		r.wrongType(n, at)
		return
	}
	switch r.doc.cells[at].kind {
	case kindObject:
		r.object(n.object, at)
	case kindArray:
		r.array(n, at)
	case kindNumber:
		r.number(n, at)
	}
	for _, c := range n.checks {
		c.check(r, at)
	}
}

// number refuses integers that fit in no Go type: decoding would fail later with a message
// that means nothing to a model.
func (r *run) number(n *node, at int) {
	if n.types&typeInteger == 0 || n.types&typeNumber != 0 {
		return
	}
	if !fits64(r.doc.raw(at)) {
		r.fail("must be an integer that fits 64 bits, got %s", r.show(at))
		return
	}
	r.doc.cells[at].integer = true
}

// text returns the string in a cell, and charges its length to the budget.
func (r *run) text(at int) []byte {
	r.spend(at)
	return r.doc.str(at)
}

// spend charges the length of a value and its contents to the budget. Patterns, enums and
// uniqueItems read the whole value, and a schema may apply many of them to the same one.
func (r *run) spend(at int) {
	c := r.doc.cells[at]
	r.budget -= int(c.end-c.start)/stepBytes + int(c.next) - at - 1
}

// array checks the elements. An array whose schema says nothing of them is not gone
// through.
func (r *run) array(n *node, at int) {
	if n.items == nil {
		return
	}
	first := 0
	for _, c := range n.checks {
		if p, ok := c.(prefixItems); ok {
			first = len(p) // items applies to the elements after the prefix
		}
	}
	r.doc.elements(at, func(i, value int) bool {
		if i >= first {
			r.inElement(i, n.items, value)
		}
		return r.budget > 0
	})
}

// inElement checks an element with its index in the path.
func (r *run) inElement(i int, n *node, value int) {
	r.path = append(r.path, step{index: i})
	r.node(n, value)
	r.path = r.path[:len(r.path)-1]
}

// object checks the members in the order of the document, and then looks for those that are
// missing. Missing names come in the order of the schema, which the model knows.
func (r *run) object(o *object, at int) {
	if o == nil {
		return
	}
	// It is on the stack, so a usual object costs no allocation.
	var few [32]bool
	seen := few[:]
	if len(o.props) > len(few) {
		seen = make([]bool, len(o.props))
	}
	unknown, cells := 0, r.doc.cells
	for key := at + 1; key < int(cells[at].next) && r.budget > 0; key = int(cells[key+1].next) {
		name := r.doc.str(key)
		i := o.find(name)
		if i >= 0 {
			seen[i] = true
		} else {
			unknown++
		}
		r.path = append(r.path, step{key: key})
		r.member(o, i, name, key+1)
		r.path = r.path[:len(r.path)-1]
	}
	if unknown > 1 && len(o.props) > 0 {
		r.budget -= unknown
		r.twins(o, at)
	}
	for i := range o.props {
		if o.props[i].required && !seen[i] {
			r.path = append(r.path, step{index: -1, name: o.props[i].name})
			r.fail("required")
			r.path = r.path[:len(r.path)-1]
		}
	}
}

// member checks a member; i is the index of its property, or -1 if it has none. Patterns
// apply to a name in addition to its property, and the rest to names that nothing else
// covers (JSON Schema Core, section 10.3.2).
func (r *run) member(o *object, i int, name []byte, value int) {
	if i < 0 && r.misspelt(o, name) {
		return
	}
	known := false
	if i >= 0 && o.props[i].node != nil {
		known = true
		r.property(&o.props[i], value)
	}
	for _, p := range o.patterns {
		if p.pattern == nil || p.pattern.Match(name) {
			known = true
			r.node(p.node, value)
		}
	}
	switch {
	case known || o.extra == nil:
	case o.extra.types&typeNone != 0:
		r.unknown(o, string(name))
	default:
		r.node(o.extra, value)
	}
}

// property decides about a null, which models often write for a property that they mean to
// leave out.
func (r *run) property(p *property, value int) {
	t := p.node.types
	if r.loose && !p.required && r.doc.cells[value].kind == kindNull {
		return
	}
	if r.doc.cells[value].kind == kindNull && !p.required && t != 0 && t&(typeNull|typeNone) == 0 {
		r.fail("must be %s, got null; leave it out instead", t)
		return
	}
	r.node(p.node, value)
}

// holds reports whether a value is of one of the types. The kind of a number does not tell
// whether it is an integer: 1.0 is one.
func (t typeSet) holds(d *doc, at int) bool {
	if t == 0 {
		return true
	}
	switch d.cells[at].kind {
	case kindNull:
		return t&typeNull != 0
	case kindBool:
		return t&typeBool != 0
	case kindString:
		return t&typeString != 0
	case kindArray:
		return t&typeArray != 0
	case kindObject:
		return t&typeObject != 0
	}
	return t&typeNumber != 0 || t&typeInteger != 0 && isInteger(d.raw(at))
}

// isInteger reports whether a number has no fraction: "a number with a zero
// fractional part" is an integer (JSON Schema, 6.1.1).
func isInteger(text []byte) bool {
	return inDigits(text) || parseDecimal(string(text)).integer()
}

// trial checks a value and returns the problems instead of recording them. The budget is
// not restored, so that nested choices cannot multiply the work. Its path is the real one,
// so that its problems can be shown later.
func (r *run) trial(n *node, at int) findings {
	kept := r.found
	r.found = findings{}
	r.trying++
	r.node(n, at)
	r.trying--
	f := r.found
	r.found = kept
	return f
}

// try checks a value against several schemas until enough of them fit: one for anyOf, all
// for oneOf, which must know whether a second one fits. Schemas behind those are not tried,
// so they cost nothing of the budget.
func (r *run) try(nodes []*node, at, enough int) (trials []findings, fit int) {
	for _, n := range nodes {
		f := r.trial(n, at)
		trials = append(trials, f)
		if f.count == 0 {
			fit++
		}
		if fit == enough || r.budget <= 0 {
			break
		}
	}
	return trials, fit
}
