package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
)

const maxSuggested = 1000 // bytes of a command that is suggested as it is

// suggest returns rules that would answer the question in the future, the narrowest first. It
// never suggests a rule for all commands.
func (q *inquiry) suggest() []aycoder.Rule {
	switch {
	case q.script != nil:
		return q.suggestCommand()
	case q.inside:
		return q.suggestPath()
	case q.spec.Subject.Arg != "" && q.spec.Subject.Kind == aycoder.SubjectPath:
		return []aycoder.Rule{}
	}
	return nil // the loop knows what to say
}

func (q *inquiry) allow(pattern string) aycoder.Rule {
	return aycoder.Rule{Action: aycoder.RuleAllow, Tool: q.call.Name, Pattern: pattern}
}

// suggestCommand suggests the script itself. If all of it that needs a rule consists of calls
// of one subcommand, it also suggests that subcommand, limited to the class of this call: a
// user who allows "touch x" from now on has said nothing about /etc.
func (q *inquiry) suggestCommand() []aycoder.Rule {
	out := []aycoder.Rule{}
	if text := strings.TrimSpace(q.subject); text != "" && len(text) <= maxSuggested {
		e := q.allow(quoteStars.Replace(text))
		if q.online && !slices.ContainsFunc(q.script.Commands, talks) {
			e.Class = q.class.String()
		}
		out = append(out, e)
	}
	prefixes := q.script.Prefixes()
	if len(prefixes) == 0 {
		return out
	}
	for _, p := range prefixes[1:] {
		if !slices.Equal(p, prefixes[0]) {
			return out
		}
	}
	words := make([]string, len(prefixes[0]))
	for i, w := range prefixes[0] {
		words[i] = quoteWord.Replace(w)
	}
	e := q.allow(strings.Join(words, " ") + " *")
	e.Class = q.class.String()
	r := rule{Rule: e}
	if r.check() == nil {
		if _, ok := covered(q, []*rule{&r}); ok && q.guarded == nil {
			out = append(out, e)
		}
	}
	return out
}

var (
	quoteStars = strings.NewReplacer(`\`, `\\`, `*`, `\*`)
	quoteWord  = strings.NewReplacer(`\`, `\\`, `*`, `\*`, " ", `\ `, "\t", "\\\t")
)

// suggestPath suggests the file and the files in its directory.
func (q *inquiry) suggestPath() []aycoder.Rule {
	if strings.ContainsAny(q.subject, `*?[]{}\`) {
		return []aycoder.Rule{}
	}
	name := path.Clean(q.subject)
	out := []aycoder.Rule{q.allow(name)}
	if q.guarded == nil {
		out = append(out, q.allow(path.Join(path.Dir(name), "*")))
	}
	return out
}
