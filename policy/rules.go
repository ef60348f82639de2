package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/shell"
)

// Source is the origin of a rule.
type Source string

// The sources. Of two rules with the same action, that of the former is named.
const (
	Managed Source = "managed" // the host, or whoever administers it
	User    Source = "user"    // the user's own, also those that were saved
	Session Source = "session" // made for this session
	Project Source = "project" // came with the code: they can only tighten
)

var sources = []Source{Managed, User, Session, Project}

func (s Source) rank() int { return slices.Index(sources, s) }

// Entry is a rule with examples, which are checked when the rule is loaded. A rule that does
// not mean what its author expects is thus an error at the start instead of a surprise later.
type Entry struct {
	aycoder.Rule
	// Match lists subjects (commands, paths, addresses) that the rule must cover, NotMatch
	// those that it must not cover.
	Match    []string `json:"match,omitempty"`
	NotMatch []string `json:"not_match,omitempty"`
}

const (
	maxRules    = 10_000 // of a source
	maxPattern  = 4096   // bytes
	maxExamples = 100    // of a rule
)

// A rule is a checked and compiled rule.
type rule struct {
	aycoder.Rule
	source  Source
	class   shell.Class
	bounded bool     // by class
	words   []string // of the pattern, for commands
	text    string   // the pattern without its stars' meaning
	literal bool     // there is no star in it
}

// bare returns the rule without its class, which the root package does not understand.
func (r *rule) bare() aycoder.Rule {
	b := r.Rule
	b.Class = ""
	return b
}

// add checks rules, and adds those that are new.
func (s *snapshot) add(p *Policy, source Source, entries []Entry) error {
	if len(entries) > maxRules {
		return fmt.Errorf("%s: %d rules, at most %d are taken", source, len(entries), maxRules)
	}
	var errs []error
	rules := slices.Clone(s.rules)
	ignored := slices.Clone(s.ignored)
	for _, e := range entries {
		r, err := p.compile(source, e)
		switch {
		case err != nil:
			errs = append(errs, err)
		case source == Project && r.Action == aycoder.RuleAllow:
			ignored = append(ignored, e)
		default:
			rules = append(rules, r)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.SortFunc(rules, compare)
	s.rules, s.ignored = slices.CompactFunc(rules, func(a, b rule) bool { return compare(a, b) == 0 }), ignored
	return nil
}

// compare orders rules by source, and within a source by length, the longest first.
func compare(a, b rule) int {
	x, y := a.String(), b.String()
	return cmp.Or(
		cmp.Compare(a.source.rank(), b.source.rank()), cmp.Compare(len(y), len(x)),
		cmp.Compare(x, y), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Reason, b.Reason),
	)
}

// compile checks a rule and its examples.
func (p *Policy) compile(source Source, e Entry) (rule, error) {
	r := rule{Rule: e.Rule, source: source}
	r.Tool, r.Pattern = strings.TrimSpace(r.Tool), strings.TrimSpace(r.Pattern)
	err := r.check()
	if err == nil {
		err = p.examples(&r, e)
	}
	if err != nil {
		name := fmt.Sprintf("%s rule %s %s", source, e.Action, short(e.String()))
		return rule{}, &aycoder.ConfigError{Option: name, Err: err}
	}
	return r, nil
}

func (r *rule) check() error {
	switch {
	case r.Action != aycoder.RuleAllow && r.Action != aycoder.RuleAsk && r.Action != aycoder.RuleDeny:
		return fmt.Errorf("no action %q; there are allow, ask and deny", short(string(r.Action)))
	case r.Tool == "":
		return errors.New("no tool is named; * is every tool")
	case len(r.Pattern) > maxPattern:
		return fmt.Errorf("the pattern has %d bytes, at most %d are taken", len(r.Pattern), maxPattern)
	}
	if _, err := glob.Compile(r.Tool); err != nil {
		return err
	}
	if r.Class != "" {
		r.class, r.bounded = shell.ParseClass(r.Class)
		if !r.bounded {
			return fmt.Errorf("no class %q; there are read_only, writes_workspace, needs_approval, writes_outside, "+
				"network, destructive and escalates", short(r.Class))
		}
	}
	r.words = splitPattern(r.Pattern)
	r.text, r.literal = plainText(r.Pattern)
	return nil
}

// examples checks a rule against its examples.
func (p *Policy) examples(r *rule, e Entry) error {
	if len(e.Match)+len(e.NotMatch) > maxExamples {
		return fmt.Errorf("more than %d examples", maxExamples)
	}
	for _, s := range e.Match {
		if !p.fits(r, s) {
			return fmt.Errorf("it does not match %q", short(s))
		}
	}
	for _, s := range e.NotMatch {
		if p.fits(r, s) {
			return fmt.Errorf("it matches %q", short(s))
		}
	}
	return nil
}

// fits reports whether a rule by itself covers a call about the subject.
func (p *Policy) fits(r *rule, subject string) bool {
	spec := aycoder.ToolSpec{Name: strings.ReplaceAll(r.Tool, "*", "x"), Effect: aycoder.EffectWrite}
	spec.Subject = aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}
	if s, ok := p.tools[r.Tool]; ok && s.Arg != "" {
		spec.Subject = s
	}
	args, err := json.Marshal(map[string]string{spec.Subject.Arg: subject})
	if err != nil {
		return false
	}
	q := p.look(context.Background(), &aycoder.ToolUse{Name: spec.Name, Args: args}, &spec)
	one := snapshot{rules: []rule{*r}}
	if r.Action == aycoder.RuleAllow {
		_, ok := one.allows(q, func(*rule) bool { return true })
		return ok
	}
	_, sure, maybe := one.strict(q, r.Action)
	return sure || maybe && r.Action == aycoder.RuleAsk
}

// splitPattern splits a pattern at spaces that no backslash quotes. The words keep
// their backslashes.
func splitPattern(s string) []string {
	var words []string
	start, in := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ' ' || s[i] == '\t':
			if in {
				words = append(words, s[start:i])
			}
			in = false
			continue
		case !in:
			start, in = i, true
		}
		if s[i] == '\\' {
			i++
		}
	}
	if in {
		words = append(words, s[start:])
	}
	return words
}

// plainText removes the backslashes, and reports whether the pattern has no unquoted star.
func plainText(pattern string) (string, bool) {
	var b strings.Builder
	literal := true
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		} else if pattern[i] == '*' {
			literal = false
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), literal
}

// matchWord matches a word against a pattern in which a star is any run of bytes, and a
// backslash quotes. Its time is bounded by the product of the lengths.
func matchWord(pattern, word string) bool {
	p, w := 0, 0
	star, mark := -1, 0
	for w < len(word) {
		lit, n := byte(0), 0
		if p < len(pattern) && pattern[p] != '*' {
			lit, n = pattern[p], 1
			if lit == '\\' && p+1 < len(pattern) {
				lit, n = pattern[p+1], 2
			}
		}
		switch {
		case n > 0 && lit == word[w]:
			p, w = p+n, w+1
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, w
			p++
		case star >= 0:
			mark++
			p, w = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
