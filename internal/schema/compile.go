package schema

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// typeSet holds the JSON types a value may have; 0 is any type.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
	typeNone // the schema false
)

// typeOrder lists the types in the order of their bits.
var typeOrder = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// A node is a compiled schema. Common keywords have fields and the others are in checks,
// so that a node without them is small.
type node struct {
	types  typeSet
	object *object
	items  *node
	checks []check
}

// object holds the keywords about members.
type object struct {
	props    []property
	index    map[string]int // index into props, if there are many
	patterns []patternProperty
	extra    *node // for members that are not in props or patterns; nil is any
}

// A property is listed in properties, in required, or in both.
type property struct {
	name     string
	node     *node // nil if only required names it
	required bool
}

type patternProperty struct {
	pattern *regexp.Regexp
	node    *node
}

// find returns the index of a property, or -1.
func (o *object) find(name []byte) int {
	if o.index != nil {
		if i, ok := o.index[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range o.props {
		if o.props[i].name == string(name) {
			return i
		}
	}
	return -1
}

// A compiler turns the cells of a schema into nodes.
type compiler struct {
	doc      doc
	text     string           // of doc
	free     []node           // room for nodes, side by side
	refs     map[string]*node // by JSON pointer, also while they are being filled
	path     []string         // where in the schema, for errors
	nodes    int
	patterns int // bytes
}

func (c *compiler) fail(format string, args ...any) error {
	where := strings.Join(c.path, "/")
	return fmt.Errorf("/%s: "+format, append([]any{where}, args...)...)
}

func (c *compiler) node(at int) (*node, error) {
	n := c.new()
	return n, c.fill(n, at)
}

func (c *compiler) new() *node {
	if len(c.free) == 0 {
		c.free = make([]node, 16)
	}
	n := &c.free[0]
	c.free = c.free[1:]
	return n
}

// name returns the string in a cell. It shares the memory of the schema, so a caller that
// keeps it must copy it.
func (c *compiler) name(at int) string {
	if p := &c.doc.cells[at]; !p.escaped {
		return c.text[p.start+1 : p.end-1]
	}
	return string(c.doc.str(at))
}

// fill compiles the schema in a cell into n.
func (c *compiler) fill(n *node, at int) error {
	if c.nodes++; c.nodes > maxNodes {
		return c.fail("more than %d schemas", maxNodes)
	}
	if len(c.path) > 2*maxDepth {
		return c.fail("nested deeper than %d", maxDepth)
	}
	switch c.doc.cells[at].kind {
	case kindBool:
		if c.doc.raw(at)[0] == 'f' {
			n.types = typeNone
		}
		return nil
	case kindObject:
		return c.each(at, func(key string, value int) error { return c.keyword(n, key, value) })
	}
	return c.fail("is not a schema")
}

// each calls f for the members of an object, with the path set for errors.
func (c *compiler) each(at int, f func(key string, value int) error) error {
	if c.doc.cells[at].kind != kindObject {
		return c.fail("must be an object")
	}
	var err error
	c.doc.members(at, func(key, value int) bool {
		name := c.name(key)
		c.path = append(c.path, name)
		if err = f(name, value); err == nil {
			c.path = c.path[:len(c.path)-1]
		}
		return err == nil
	})
	return err
}

// list compiles an array of schemas.
func (c *compiler) list(at int) ([]*node, error) {
	if c.doc.cells[at].kind != kindArray {
		return nil, c.fail("must be an array")
	}
	nodes := make([]*node, 0, c.doc.size(at))
	var err error
	c.doc.elements(at, func(i, value int) bool {
		c.path = append(c.path, strconv.Itoa(i))
		var n *node
		if n, err = c.node(value); err == nil {
			c.path = c.path[:len(c.path)-1]
		}
		nodes = append(nodes, n)
		return err == nil
	})
	return nodes, err
}

// keyword compiles one keyword. Those of objects and arrays have separate
// functions, as do the assertions about one value.
func (c *compiler) keyword(n *node, key string, at int) error {
	switch key {
	case "type":
		return c.types(n, at)
	case "enum", "const":
		return c.enum(n, key, at)
	case "$ref":
		return c.ref(n, at)
	case "anyOf", "oneOf", "allOf", "prefixItems":
		return c.lists(n, key, at)
	case "not":
		m, err := c.node(at)
		n.checks = append(n.checks, notThis{m})
		return err
	case "items", "properties", "patternProperties", "additionalProperties", "required":
		return c.structure(n, key, at)
	case "pattern":
		return c.pattern(n, at)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return c.limit(n, key, at)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return c.count(n, key, at)
	case "uniqueItems":
		if c.doc.raw(at)[0] == 't' {
			n.checks = append(n.checks, uniqueItems{})
		}
	}
	return nil
}

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
