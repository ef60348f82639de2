package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// references are ${VAR} and ${VAR:-default}, as in .mcp.json.
var references = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// variable reports whether the text of a node has variables in it.
func (n *node) variable() bool {
	return n.field.kind == kindText && n.field.tag.Get("literal") == "" && references.MatchString(n.text)
}

// variables returns the names of the variables in the texts below a node, sorted: those of the elements that are
// asked about by themselves, or all others.
func (n *node) variables(asks bool) []string {
	var out []string
	n.each(func(l *node) {
		if !l.variable() || l.field.asks != asks {
			return
		}
		for _, m := range references.FindAllStringSubmatch(l.text, -1) {
			out = append(out, m[1])
		}
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
		text, missing := filled(l.text, lookup)
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

// filled puts the values of variables into a text. It returns the name of one that is missing, or "".
func filled(text string, lookup func(string) (string, bool)) (out, missing string) {
	out = references.ReplaceAllStringFunc(text, func(ref string) string {
		m := references.FindStringSubmatch(ref)
		if v, ok := lookup(m[1]); ok && (v != "" || m[2] == "") {
			return v
		}
		if m[2] == "" {
			missing = m[1]
		}
		return m[3]
	})
	return out, missing
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
