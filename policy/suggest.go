package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
)

const maxSuggested = 1000 // bytes of a command that is suggested as it is

// suggestions returns rules that would answer the question from now on, the narrowest first,
// in the form that [ParseRule] reads.
func (q *inquiry) suggestions() []string {
	var out []string
	for _, s := range q.suggest() {
		if text := s.String(); q.answeredBy(text) {
			out = append(out, text)
		}
	}
	return out
}

// answeredBy reports whether a rule, as it would be read again, allows the call.
func (q *inquiry) answeredBy(text string) bool {
	parsed, err := ParseRule(RuleAllow, text)
	if err != nil {
		return false
	}
	r := rule{Rule: parsed}
	if r.check() != nil {
		return false
	}
	_, ok := (&snapshot{rules: []rule{r}}).allows(q, func(*rule) bool { return true })
	return ok
}

// suggest returns rules that may answer the question. It never suggests a rule for all
// commands.
func (q *inquiry) suggest() []Rule {
	switch {
	case q.script != nil:
		return q.suggestCommand()
	case q.spec.Subject.Arg == "":
		return []Rule{q.allow(quoteStars.Replace(q.spec.Definition))}
	case !q.has:
		return nil
	}
	switch q.spec.Subject.Kind {
	case aycoder.SubjectPath:
		return q.suggestPath(q.subject)
	case aycoder.SubjectPatch:
		if len(q.named) == 1 {
			return q.suggestPath(q.named[0])
		}
		return []Rule{q.allow("")}
	case aycoder.SubjectURL:
		if o, ok := originOf(q.subject); ok {
			return []Rule{q.allow(o.String())}
		}
		return nil
	}
	rules := []Rule{q.allow(quoteStars.Replace(q.subject))}
	if q.spec.Subject.File != "" {
		rules = append(rules, q.allow(""))
	}
	return rules
}

func (q *inquiry) allow(pattern string) Rule {
	return Rule{Action: RuleAllow, Tool: q.call.Name, Pattern: pattern}
}

// suggestCommand suggests the script itself. If all of it that needs a rule consists of calls
// of one subcommand, it also suggests that subcommand, limited to the class of this call: a
// user who allows "touch x" from now on has said nothing about /etc.
func (q *inquiry) suggestCommand() []Rule {
	var out []Rule
	if text := trimBlanks(q.subject); text != "" && len(text) <= maxSuggested {
		r := q.allow(quoteStars.Replace(text))
		if q.online && !slices.ContainsFunc(q.script.Commands, talks) {
			r.Class = q.class.String()
		}
		out = append(out, r)
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
	r := q.allow(strings.Join(words, " ") + " *")
	r.Class = q.class.String()
	return append(out, r)
}

var (
	quoteStars = strings.NewReplacer(`\`, `\\`, `*`, `\*`)
	quoteWord  = strings.NewReplacer(`\`, `\\`, `*`, `\*`, " ", `\ `, "\t", "\\\t")
)

// suggestPath suggests the file and the files in its directory.
func (q *inquiry) suggestPath(name string) []Rule {
	if strings.ContainsAny(name, `*?[]{}\`) {
		return nil
	}
	name = path.Clean(name)
	return []Rule{q.allow(name), q.allow(path.Join(path.Dir(name), "*"))}
}
