package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// typeSet holds the JSON types a value may have; 0 is any type. It is small because most
// checks of a value are one test of these bits.
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

// A property is listed in properties, in required, or in both. An empty place for a schema
// is kept for a name that only required has, since the keywords may come in either order.
type property struct {
	name     string
	node     *node // nil if only required names it
	required bool
}

// The pattern is nil if it is not checked, see [compiler.regexp].
type patternProperty struct {
	pattern *regexp.Regexp
	node    *node
}

// find returns the index of a property, or -1. Up to fewKeys names are compared one by one,
// which is faster than hashing the name.
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

// A compiler turns the cells of a schema into nodes. It goes through the cells once and
// follows references as they come.
type compiler struct {
	doc      doc
	text     string           // of doc
	free     []node           // room for nodes, side by side
	refs     map[string]*node // by JSON pointer, also while they are being filled
	path     []string         // where in the schema, for errors
	nodes    int
	patterns int // bytes
}

// The path is that of the keyword in the schema, which its author has to mend.
func (c *compiler) fail(format string, args ...any) error {
	where := strings.Join(c.path, "/")
	return fmt.Errorf("/%s: "+format, append([]any{where}, args...)...)
}

func (c *compiler) node(at int) (*node, error) {
	n := c.new()
	return n, c.fill(n, at)
}

// new returns an empty node. Nodes are never freed: they are all part of the schema.
func (c *compiler) new() *node {
	if len(c.free) == 0 {
		c.free = make([]node, 16)
	}
	n := &c.free[0]
	c.free = c.free[1:]
	return n
}

// name returns the string in a cell. It shares the memory of the schema, so a caller that
// keeps it should copy it: otherwise all of the schema's text stays in memory.
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
	// Most levels have two names: the keyword, and a property or an index in it.
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

// each calls f for the members of an object, with the path set for errors. On an error the
// path stays as it was, so that the message has it.
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

// keyword compiles one keyword. Those of objects and arrays have separate functions, as do
// the assertions about one value. Unknown keywords are ignored, as the specification wants
// (JSON Schema Core, section 6.5).
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
		switch string(c.doc.raw(at)) {
		case "true":
			n.checks = append(n.checks, uniqueItems{})
		case "false":
		default:
			return c.fail("must be true or false")
		}
	}
	return nil
}
