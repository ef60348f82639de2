package config

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder/policy"
)

// policy returns the source of rules.
func (s Source) policy() policy.Source {
	switch s {
	case Managed:
		return policy.Managed
	case Project, Local:
		return policy.Project
	}
	return policy.User
}

// now returns the value in force of a node that may be missing.
func (f *field) now(n *node) any {
	if n != nil && n.value != nil {
		return n.value
	}
	text, has := f.tag.Lookup("default")
	switch {
	case has:
		v, _ := f.convert(text)
		return v
	case f.kind == kindTruth && !f.free:
		return false
	}
	return nil
}

// merge puts the values of a source over those of the sources before it.
func (n *node) merge(over *node) {
	switch {
	case n.field.kind != over.field.kind: // of free values
		*n = *over
	case n.field.holds():
		for _, name := range over.names {
			if kid := n.kids[name]; kid != nil {
				kid.merge(over.kids[name])
			} else {
				n.add(name, over.kids[name])
			}
		}
	case n.field.adds():
		n.extend(over.items)
	default:
		if !n.holdsLimit(over) {
			n.text, n.value, n.items, n.from, n.at = over.text, over.value, over.items, over.from, over.at
		}
	}
}

// holdsLimit reports whether a value already keeps the limit of a managed file.
func (n *node) holdsLimit(over *node) bool {
	return over.from.Source == Managed && over.value != nil && n.value != nil &&
		n.field.tag.Get("tight") != "" && n.field.tighter(n.value, over.value)
}

// extend appends items to a list that adds up, each text once. A table is never the same as another.
func (n *node) extend(items []*node) {
	seen := map[any]bool{}
	for _, item := range n.items {
		seen[item.value] = true
	}
	for _, item := range items {
		if item.value == nil || !seen[item.value] {
			n.items = append(n.items, item)
		}
		seen[item.value] = true
	}
}

// A guard keeps out of the tree what a file of a project may not set.
type guard struct {
	*report
	trusts func(*node) bool // asks for an element
}

// restrict removes from the kids of a table what a project may not set, base being the table in force. It
// reports whether anything was removed.
func (g *guard) restrict(n, base *node) bool {
	before := len(n.names)
	n.names = slices.DeleteFunc(n.names, func(name string) bool {
		var now *node
		if base != nil {
			now = base.kids[name]
		}
		refused := g.refuse(n.kids[name], now)
		if refused {
			delete(n.kids, name)
		}
		return refused
	})
	return len(n.names) < before
}

// refuse reports whether the whole node must be left out. Whether the value of a variable is stricter is not known
// here, so it counts as one that is not.
func (g *guard) refuse(n, now *node) bool {
	f := n.field
	switch {
	case f.kind == kindTable && f.asks:
		return g.refuseElement(n, now)
	case f.kind == kindTable, f.kind == kindDict && f.elem.holds():
		return g.restrict(n, now) && now == nil && n.lacking() != nil
	case f.kind == kindList && f.elem.holds():
		n.items = slices.DeleteFunc(n.items, func(item *node) bool {
			if f.elem.asks {
				return g.refuseElement(item, nil)
			}
			return g.restrict(item, nil)
		})
		return len(n.items) == 0
	case n.value == nil && f.project == "tighter":
		if !n.variable() {
			return false // a value of a wrong type, which is reported
		}
	case f.permits(n.value, f.now(now)):
		return false
	}
	g.deny(n)
	return true
}

// deny reports a key that a project may not set.
func (g *guard) deny(n *node) {
	message := "may not be set by a project, and is ignored"
	switch p := n.field.project; {
	case p == "tighter":
		message = "may only be made stricter by a project, and is ignored"
	case p != "" && p != "any":
		message = "may only be " + strings.ReplaceAll(p, "|", " or ") + " in a project, and is ignored"
	}
	g.add(Warning, n.key, n.from, message, "set it in the file of the user")
}

// separate removes from a profile the servers that the rest of the file defines, or would if they were trusted. Each
// question is about a whole element, and not about what a profile and the rest make together.
func (g *guard) separate(profile *node, servers []string) {
	if profile == nil {
		return
	}
	profile.names = slices.DeleteFunc(profile.names, func(name string) bool {
		_, both := slices.BinarySearch(servers, name)
		if n := profile.kids[name]; both {
			g.refuseElement(n, n)
			delete(profile.kids, name)
		}
		return both
	})
}

// refuseElement refuses an element that runs something unless the user trusts it, and one that would change
// an element of another source.
func (g *guard) refuseElement(n, now *node) bool {
	if now != nil {
		g.add(Warning, n.key, n.from, "is defined elsewhere, and may not be changed by a project", "give it another name")
		return true
	}
	if !g.trusts(n) {
		return true
	}
	if kid := n.kids["trust"]; kid != nil { // the question was about the command, and not about what it says
		g.deny(kid)
		n.remove("trust")
	}
	return false
}
