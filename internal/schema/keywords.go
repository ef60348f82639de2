package schema

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The keywords, each with what its value may be. A value of a wrong kind is an error,
// since a schema that was meant to refuse something would let it through otherwise; the
// message has the path of the keyword. Keywords come in any order, so none relies on
// another one: if two have to be seen together, as prefixItems and items, the check looks
// for both.

// types compiles "type", which is one name or a list of them (JSON Schema Validation,
// section 6.1.1).
func (c *compiler) types(n *node, at int) error {
	switch c.doc.cells[at].kind {
	case kindString:
		return c.typeName(n, at)
	case kindArray:
		var err error
		c.doc.elements(at, func(_, value int) bool {
			err = c.typeName(n, value)
			return err == nil
		})
		return err
	}
	return c.fail("must be a string or an array of strings")
}

// typeName adds a type. The case of its name does not matter: Gemini's API writes "STRING".
func (c *compiler) typeName(n *node, at int) error {
	if c.doc.cells[at].kind != kindString {
		return c.fail("must be a string or an array of strings")
	}
	name := c.name(at)
	for i, known := range typeOrder {
		if strings.EqualFold(name, known) {
			n.types |= 1 << i
			return nil
		}
	}
	return c.fail("no such type: %s", short(strconv.Quote(name)))
}

// lists compiles the keywords that take a list of schemas. They are checked in the order of
// the schema.
func (c *compiler) lists(n *node, key string, at int) error {
	nodes, err := c.list(at)
	if err != nil {
		return err
	}
	switch key {
	case "anyOf":
		n.checks = append(n.checks, anyOf(nodes))
	case "oneOf":
		n.checks = append(n.checks, oneOf(nodes))
	case "allOf":
		n.checks = append(n.checks, allOf(nodes))
	case "prefixItems":
		n.checks = append(n.checks, prefixItems(nodes))
	}
	return nil
}

// structure compiles the keywords about elements and members, which a node has fields for.
// The default of additionalProperties is any value.
func (c *compiler) structure(n *node, key string, at int) error {
	if key == "items" {
		return c.items(n, at)
	}
	if n.object == nil {
		n.object = &object{}
	}
	switch key {
	case "properties":
		n.object.props = slices.Grow(n.object.props, c.doc.size(at))
		return c.each(at, func(name string, value int) error { return c.property(n.object, name, value) })
	case "patternProperties":
		return c.each(at, func(name string, value int) error {
			return c.patternProperty(n.object, name, value)
		})
	case "required":
		return c.required(n.object, at)
	}
	m, err := c.node(at)
	n.object.extra = m
	return err
}

// items also accepts the array form of older drafts, which is prefixItems since draft
// 2020-12.
func (c *compiler) items(n *node, at int) error {
	if c.doc.cells[at].kind == kindArray {
		return c.lists(n, "prefixItems", at)
	}
	m, err := c.node(at)
	n.items = m
	return err
}

func (c *compiler) property(o *object, name string, at int) error {
	n, err := c.node(at)
	o.add(name).node = n
	return err
}

// required marks properties, also those that the schema does not describe.
func (c *compiler) required(o *object, at int) error {
	if c.doc.cells[at].kind != kindArray {
		return c.fail("must be an array of strings")
	}
	var err error
	c.doc.elements(at, func(_, value int) bool {
		if c.doc.cells[value].kind != kindString {
			err = c.fail("must be an array of strings")
			return false
		}
		o.add(c.name(value)).required = true
		return true
	})
	return err
}

// add returns the property with the name, and creates it if it is missing.
func (o *object) add(name string) *property {
	if i := o.find([]byte(name)); i >= 0 {
		return &o.props[i]
	}
	// The name would keep the text of the whole schema in memory otherwise.
	name = strings.Clone(name)
	o.props = append(o.props, property{name: name})
	switch n := len(o.props); {
	case o.index != nil:
		o.index[name] = n - 1
	case n > fewKeys:
		o.index = make(map[string]int, 2*n)
		for i := range o.props {
			o.index[o.props[i].name] = i
		}
	}
	return &o.props[len(o.props)-1]
}

// patternProperty compiles a schema for all members whose names match.
func (c *compiler) patternProperty(o *object, name string, at int) error {
	n, err := c.node(at)
	// An ignored pattern might match any name, so its schema must accept any value.
	p := patternProperty{c.regexp(strings.Clone(name)), n}
	if p.pattern == nil {
		p.node = &node{}
	}
	o.patterns = append(o.patterns, p)
	return err
}

// pattern adds a check of strings, unless the pattern is one that is ignored.
func (c *compiler) pattern(n *node, at int) error {
	if c.doc.cells[at].kind != kindString {
		return c.fail("must be a string")
	}
	if re := c.regexp(string(c.doc.str(at))); re != nil {
		n.checks = append(n.checks, pattern{re})
	}
	return nil
}

// regexp returns nil for a pattern that is not checked. JSON Schema uses ECMAScript
// patterns, whose look-ahead RE2 does not have because it cannot be matched in linear time.
// The bounds are there because RE2 takes memory in proportion to an expression with its
// repetitions written out.
func (c *compiler) regexp(text string) *regexp.Regexp {
	c.patterns += len(text)
	if len(text) > maxPattern || c.patterns > maxPatterns {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}

// enum compiles "enum" and "const", which is an enum of one value.
func (c *compiler) enum(n *node, key string, at int) error {
	var e enum
	if key == "const" {
		e = enum{c.value(at)}
	} else if c.doc.cells[at].kind != kindArray {
		return c.fail("must be an array")
	} else {
		e = make(enum, 0, c.doc.size(at))
		c.doc.elements(at, func(_, value int) bool {
			e = append(e, c.value(value))
			return true
		})
	}
	n.checks = append(n.checks, e)
	return nil
}

// value returns a choice in the form in which it is compared and shown.
func (c *compiler) value(at int) enumValue {
	v := enumValue{kind: c.doc.cells[at].kind}
	if v.kind == kindString {
		v.text = string(c.doc.str(at))
	} else {
		v.text = string(c.doc.canon(nil, at))
	}
	if v.kind != kindString {
		v.shown = short(string(c.doc.raw(at)))
	}
	return v
}

// limit compiles the keywords about the size of a number. Their values are kept as text, so
// that large ones lose no digits.
func (c *compiler) limit(n *node, key string, at int) error {
	if c.doc.cells[at].kind != kindNumber {
		// In draft 4 these are booleans that change minimum and maximum.
		if c.doc.cells[at].kind == kindBool && strings.HasPrefix(key, "exclusive") {
			return nil
		}
		return c.fail("must be a number")
	}
	text := string(c.doc.raw(at))
	if key == "multipleOf" {
		n.checks = append(n.checks, multiple{text})
		return nil
	}
	n.checks = append(n.checks, limit{limits[key], text, parseDecimal(text)})
	return nil
}

// count compiles the keywords about lengths. 2.0 is a whole number in JSON Schema.
func (c *compiler) count(n *node, key string, at int) error {
	if c.doc.cells[at].kind != kindNumber {
		return c.fail("must be a number")
	}
	d := parseDecimal(string(c.doc.raw(at)))
	if d.negative || !d.integer() {
		return c.fail("must be a whole number, 0 or more")
	}
	n.checks = append(n.checks, count{counts[key], d.clamp()})
	return nil
}

// clamp returns the number as an int, limited to a value that no document reaches.
func (d decimal) clamp() int {
	if d.point > 9 {
		return math.MaxInt32
	}
	v, _ := strconv.Atoi(d.digits + strings.Repeat("0", d.point-len(d.digits)))
	return v
}

// ref resolves a reference to a place in this schema, a JSON pointer in a fragment (RFC
// 6901, section 6). Each place is compiled once, and a recursive reference gets the node
// that is still being filled.
func (c *compiler) ref(n *node, at int) error {
	if c.doc.cells[at].kind != kindString {
		return c.fail("must be a string")
	}
	text := string(c.doc.str(at))
	pointer, local := strings.CutPrefix(text, "#")
	if !local || pointer != "" && pointer[0] != '/' {
		return nil // another document, or an anchor
	}
	// A schema that refers to itself ends here: the node is known before it is complete.
	to, ok := c.refs[pointer]
	if !ok {
		place, err := c.lookUp(pointer)
		if err != nil {
			return err
		}
		to = c.new()
		c.refs[pointer] = to
		if err := c.fill(to, place); err != nil {
			return err
		}
	}
	n.checks = append(n.checks, refTo{to})
	return nil
}

// lookUp finds the cell that a JSON pointer leads to. In a fragment it is percent-encoded
// first, and ~1 and ~0 stand for / and ~ (RFC 6901, sections 4 and 6).
func (c *compiler) lookUp(pointer string) (int, error) {
	path, err := url.PathUnescape(pointer)
	if err != nil {
		return 0, c.fail("not a reference: %s", short(strconv.Quote(pointer)))
	}
	at := 0
	for token := range strings.SplitSeq(path[1:], "/") {
		name := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if at = c.child(at, name); at < 0 {
			return 0, c.fail("no such place in the schema: %s", short(strconv.Quote("#"+pointer)))
		}
	}
	return at, nil
}

// child returns the member or element of that name, or -1.
func (c *compiler) child(at int, name string) int {
	found := -1
	switch c.doc.cells[at].kind {
	case kindObject:
		c.doc.members(at, func(key, value int) bool {
			if string(c.doc.str(key)) == name {
				found = value
			}
			return found < 0
		})
	case kindArray:
		c.doc.elements(at, func(n, value int) bool {
			if strconv.Itoa(n) == name {
				found = value
			}
			return found < 0
		})
	}
	return found
}
