// Package vars puts the values of variables into texts with ${VAR} and ${VAR:-default}, as in .mcp.json.
package vars

import "github.com/aycoder/aycoder/internal/late"

// Pattern matches a variable in a text, as a regular expression of Go and of JSON Schema.
const Pattern = `\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`

var references = late.Regexp(Pattern)

// Names returns the names of the variables in a text, in order.
func Names(text string) (names []string) {
	for _, m := range references().FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Fill puts the values of variables into a text. The text is expanded once, so that a value is never read as a
// reference. It returns the name of a variable that is not set and has no default, or "".
func Fill(text string, lookup func(string) (string, bool)) (out, missing string) {
	out = references().ReplaceAllStringFunc(text, func(ref string) string {
		m := references().FindStringSubmatch(ref)
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
