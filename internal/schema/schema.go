// Package schema makes JSON schemas of Go types and checks the arguments of tool
// calls against schemas.
//
// [Compile] knows the keywords that [Reflect] emits and those that other tools
// commonly use: type, properties, required, additionalProperties,
// patternProperties, items, prefixItems, enum, const, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, pattern,
// minItems, maxItems, uniqueItems, minProperties, maxProperties, anyOf, oneOf,
// allOf, not, and $ref to a place in the same schema. Schemas may be true and false.
//
// It is lenient by design. It ignores format and unknown keywords, patterns that are very
// long or that Go's regexp does not accept, and $refs to other documents; data is not
// refused because of them. The names of types may be in upper case, as Gemini writes them.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The bounds of a schema.
const (
	maxSchema   = 1 << 20 // bytes
	maxNodes    = 20_000
	maxDepth    = 128
	maxPattern  = 1 << 10 // bytes in one pattern
	maxPatterns = 1 << 14 // bytes in all patterns
)

// Schema is a compiled schema. It is immutable and safe for concurrent use. Checking a
// value allocates only for what is wrong with it, and for large objects.
type Schema struct{ root *node }

// Compile parses the schema of a tool's arguments, which must be an object. Nil or
// empty raw is the schema of any object. A schema that is larger than 1 MiB, nested
// deeper than 128, or whose keywords have values of the wrong type is an error that
// says where.
func Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) == 0 {
		return &Schema{&node{types: typeObject}}, nil
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("schema is %d bytes, more than %d", len(raw), maxSchema)
	}
	c := &compiler{doc: doc{data: raw}, text: string(raw), refs: map[string]*node{}}
	if err := c.doc.parse(); err != nil {
		return nil, err
	}
	if c.doc.cells[0].kind != kindObject {
		return nil, errors.New("schema is not a JSON object")
	}
	// Nodes that lie side by side are one allocation, and are in one cache line when they
	// are checked.
	c.free = make([]node, 1+min(bytes.Count(raw, []byte("{")), 64)) // roughly the number of nodes
	root := c.new()
	c.refs[""] = root
	if err := c.fill(root, 0); err != nil {
		return nil, err
	}
	if !takesObject(root, maxDepth) {
		return nil, errors.New("schema is not that of an object")
	}
	if root.types != typeObject { // others may refer to root, so it stays as it is
		root = &node{types: typeObject, checks: []check{refTo{root}}}
	}
	return &Schema{root}, nil
}

// takesObject follows $refs, because generators often put the object behind one. A circle
// of them is cut off at a depth, and then the schema counts as one for objects.
func takesObject(n *node, depth int) bool {
	if n.types != 0 && n.types&typeObject == 0 {
		return false
	}
	for _, c := range n.checks {
		if r, ok := c.(refTo); ok && depth > 0 && !takesObject(r.node, depth-1) {
			return false
		}
	}
	return true
}

// HasProperty reports whether the schema names a property at its top level, directly or in
// an allOf or a $ref, so that a subject of a tool can be checked to be one of its arguments.
func (s *Schema) HasProperty(name string) bool {
	return s.root.hasProperty(name, map[*node]bool{})
}

// hasProperty looks at each node once: references may go in circles.
func (n *node) hasProperty(name string, seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	if n.object != nil {
		if p := n.object.find([]byte(name)); p >= 0 && n.object.props[p].node != nil {
			return true
		}
	}
	for _, c := range n.checks {
		switch c := c.(type) {
		case refTo:
			if c.node.hasProperty(name, seen) {
				return true
			}
		case allOf:
			for _, m := range c {
				if m.hasProperty(name, seen) {
					return true
				}
			}
		}
	}
	return false
}

// CheckName returns an error unless s can be the name of a tool or a document: 1 to 64
// letters, digits, "_" and "-", which all providers take.
func CheckName(s string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if s == "" || len(s) > 64 || strings.Trim(s, letters) != "" {
		return errors.New("name must be 1 to 64 letters, digits, _ and -")
	}
	return nil
}
