package schema

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/runes"
)

// The wording of problems. A model reads them, and writes the arguments anew: so each has
// the place, what must be there, and what was. They are short, name neither Go types nor
// keywords, and quote at most a few words of values, which may be secrets or large.

// The number counts on when no more problems are listed.
type findings struct {
	problems []string
	count    int
}

// fail records a problem with the value at the current path.
func (r *run) fail(format string, args ...any) {
	r.found.count++
	if len(r.found.problems) < maxProblems {
		r.found.problems = append(r.found.problems, r.pointer()+": "+fmt.Sprintf(format, args...))
	}
}

// pointer returns the current path as a JSON pointer, RFC 6901, and "arguments" for the
// whole, whose pointer is empty. Line ends in a name are escaped, so that a problem stays
// one line.
func (r *run) pointer() string {
	if len(r.path) == 0 {
		return "arguments"
	}
	var b strings.Builder
	for _, s := range r.path {
		b.WriteByte('/')
		switch {
		case s.index < 0:
			b.WriteString(short(escapePointer.Replace(s.name)))
		case s.key == 0:
			b.WriteString(strconv.Itoa(s.index))
		default:
			b.WriteString(short(escapePointer.Replace(string(r.doc.str(s.key)))))
		}
	}
	return b.String()
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1", "\n", `\n`, "\r", `\r`, "\x00", `\0`)

// unknown reports a name that the schema does not allow. It suggests the closest property, or
// lists the properties if they are few, because a model that only reads "unknown" guesses
// again.
func (r *run) unknown(o *object, name string) {
	if len(r.found.problems) >= maxProblems {
		r.found.count++
		return
	}
	var names []string
	for _, p := range o.props {
		if p.node != nil && len(names) < 1000 {
			names = append(names, p.name)
		}
	}
	if near := closest.Closest(name, names, 1); len(near) > 0 {
		r.fail("unknown, did you mean %s?", short(strconv.Quote(near[0])))
		return
	}
	switch {
	case len(names) == 0:
		r.fail("unknown, there are no properties here")
	case len(names) > maxListed:
		r.fail("unknown")
	default:
		r.fail("unknown, there are %s", quoteAll(names))
	}
}

// quoteAll lists names for a message, each one shortened, since a schema may come from a
// stranger's server.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = short(strconv.Quote(n))
	}
	return strings.Join(quoted, ", ")
}

// wrongType says which types a value may have. A string that holds JSON gets a hint, as
// models often quote a list or an object.
func (r *run) wrongType(n *node, at int) {
	if n.types&typeNone != 0 {
		r.fail("is not allowed")
		return
	}
	hint := ""
	if r.doc.cells[at].kind == kindString && n.types&(typeArray|typeObject) != 0 {
		if text := r.doc.str(at); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
			hint = " (JSON inside a string)"
		}
	}
	r.fail("must be %s, got %s%s", n.types, r.show(at), hint)
}

// String returns the types in words: "a string or null". Articles make it a sentence: "must
// be a string or null, got 3".
func (t typeSet) String() string {
	var names []string
	for i, name := range typeOrder {
		if t&(1<<i) == 0 {
			continue
		}
		switch name {
		case "null":
		case "integer", "array", "object":
			name = "an " + name
		default:
			name = "a " + name
		}
		names = append(names, name)
	}
	if t&typeNull != 0 && bits.OnesCount8(uint8(t)) > 1 { // null reads better last
		names = append(names[1:], names[0])
	}
	return strings.Join(names, " or ")
}

// show returns a value in the form in which problems quote it. A compound value would fill
// the message, so only its type is named.
func (r *run) show(at int) string {
	switch r.doc.cells[at].kind {
	case kindArray:
		return "an array"
	case kindObject:
		return "an object"
	}
	return short(string(r.doc.raw(at)))
}

// short cuts text that a problem quotes.
func short(quoted string) string {
	return runes.Shorten(quoted, maxQuoted)
}

// explain describes why none of several schemas fits. If only one accepts values of this
// type, its problems are the ones that the model has to repair.
func (r *run) explain(nodes []*node, trials []findings, at int) {
	if r.budget <= 0 {
		return
	}
	only, types := -1, typeSet(0)
	for i, n := range nodes {
		types |= typesOf(n)
		if !typesOf(n).holds(&r.doc, at) {
			continue
		}
		if only >= 0 {
			r.explainForms(trials)
			return
		}
		only = i
	}
	if only < 0 {
		if types &^= typeNone; types == 0 {
			types = typeNone
		}
		r.wrongType(&node{types: types}, at)
		return
	}
	for _, p := range trials[only].problems {
		r.add(p)
	}
	r.found.count += trials[only].count - len(trials[only].problems)
}

// typesOf returns the types that a schema accepts. It follows references, at most maxDepth
// of them, because they may form a circle.
func typesOf(n *node) typeSet {
	for range maxDepth {
		if n.types != 0 || len(n.checks) == 0 {
			break
		}
		ref, ok := n.checks[0].(refTo)
		if !ok {
			break
		}
		n = ref.node
	}
	return n.types
}

// add records a problem that has its path already.
func (r *run) add(problem string) {
	r.found.count++
	if len(r.found.problems) < maxProblems {
		r.found.problems = append(r.found.problems, problem)
	}
}

// maxForms limits the alternatives that a problem explains: a model repairs one form, and a
// long list would hide it.
const maxForms = 4

// explainForms shows the first problem of each form. A form is most often distinguished by
// one property.
func (r *run) explainForms(trials []findings) {
	var b strings.Builder
	for i, f := range trials[:min(len(trials), maxForms)] {
		if i > 0 {
			b.WriteString("; or ")
		}
		b.WriteString(f.problems[0])
	}
	r.fail("must fit one of %d forms: %s", len(trials), b.String())
}
