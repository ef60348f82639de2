package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/vars"
)

// variable reports whether the text of a node has variables in it.
func (n *node) variable() bool {
	return n.field.kind == kindText && n.field.tag.Get("literal") == "" && vars.Names(n.text) != nil
}

// variables returns the names of the variables in the texts below a node, sorted: those of the elements that are
// asked about by themselves, or all others.
func (n *node) variables(asks bool) []string {
	var out []string
	n.each(func(l *node) {
		if !l.variable() || l.field.asks != asks {
			return
		}
		out = append(out, vars.Names(l.text)...)
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// maxExpanded bounds a text with the values of its variables.
const maxExpanded = 1 << 20

// expand puts the values of variables into all texts below a node. Each text is expanded once, so that the
// value of a variable is never read as a reference.
func (r *report) expand(n *node, lookup func(string) (string, bool)) {
	n.each(func(l *node) {
		if !l.variable() {
			return
		}
		text, missing := vars.Fill(l.text, lookup)
		switch {
		case missing != "":
			r.add(Error, l.key, l.at, "needs the variable "+missing+", which is not set",
				"set it, or give a default: ${"+missing+":-default}")
		case len(text) > maxExpanded:
			r.add(Error, l.key, l.at, "is too long with the values of its variables", "")
		default:
			r.settle(l, text)
		}
	})
}

// commandLine returns a command with its variables and arguments as a shell would need them, or "".
func commandLine(env map[string]string, name string, args []string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(env)) {
		words = append(words, quote(key)+"="+quote(env[key]))
	}
	if name != "" || len(args) > 0 {
		words = append(words, quote(name))
	}
	for _, a := range args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

// quote returns a word as a shell would need it.
func quote(word string) string {
	if word == "" || strings.ContainsAny(word, " \t\n'\"\\$&|;<>()*?[]#~`!{}") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
