package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/shell"
)

// Source says where a rule comes from.
type Source string

// The sources. If rules of several sources with the same action cover a call, the verdict names
// the rule whose source is listed first here.
const (
	// Managed rules come from the host program or its administrator.
	Managed Source = "managed"
	// User rules come from the user. They include the rules that the user saved when answering a
	// question.
	User Source = "user"
	// Session rules were made by the user for this session. They last as long as the [Policy].
	Session Source = "session"
	// Project rules come with the code that is worked on, and so perhaps from an untrusted
	// author. They can only add restrictions: allow rules among them are ignored.
	Project Source = "project"
)

var sources = []Source{Managed, User, Session, Project}

func (s Source) rank() int { return slices.Index(sources, s) }

// Rule tells the policy to allow a set of tool calls, to deny them, or to ask the user about
// them. The package comment describes the language of the fields.
type Rule struct {
	// Action is "allow", "ask" or "deny".
	Action RuleAction `json:"action"`
	// Tool is the name of a tool. A star in the name matches any text.
	Tool string `json:"tool"`
	// Pattern is matched against the subject of the call, such as the command or the path: see
	// [aycoder.Subject]. If empty, the rule covers every call of the tool.
	Pattern string `json:"pattern,omitempty"`
	// Class limits the rule to some classes of calls. The classes, from the lowest to the
	// highest, are read_only, writes_workspace, needs_approval, writes_outside, network,
	// destructive and escalates. An allow rule covers calls of Class and of lower classes. An ask
	// or deny rule covers calls of Class and of higher classes. If Class is empty, an ask or deny
	// rule covers all classes, and an allow rule has the limits that the package comment
	// describes.
	Class string `json:"class,omitempty"`
	// Reason is the text that the model reads when a deny rule denies a call.
	Reason string `json:"reason,omitempty"`
	// Match lists example subjects (commands, paths, URLs) that the rule must cover, and NotMatch
	// lists examples that it must not cover. [New] returns an error if an example contradicts the
	// rule. Thus a mistake in a rule is found at the start.
	Match    []string `json:"match,omitempty"`
	NotMatch []string `json:"not_match,omitempty"`
}

// RuleAction says what the policy does with a call that a [Rule] covers.
type RuleAction string

// The actions of a [Rule].
const (
	// RuleAllow lets a call run without asking the user, unless an ask or deny rule also covers
	// the call.
	RuleAllow RuleAction = "allow"
	// RuleAsk asks the user about a call, even if an allow rule also covers the call.
	RuleAsk RuleAction = "ask"
	// RuleDeny denies a call, even if other rules also cover the call.
	RuleDeny RuleAction = "deny"
)

// ParseRule parses a rule in the form "tool[@class][:pattern]", such as "bash:go vet *",
// "bash@network" or "*@writes_outside:curl *". For the meaning of the parts, see the fields of
// [Rule]. The error is an [*aycoder.ConfigError].
func ParseRule(action RuleAction, s string) (Rule, error) {
	tool, pattern, _ := strings.Cut(s, ":")
	tool, class, _ := strings.Cut(tool, "@")
	r := Rule{
		Action: action, Tool: strings.TrimSpace(tool), Class: strings.TrimSpace(class),
		Pattern: strings.TrimSpace(pattern),
	}
	if r.Tool == "" {
		return Rule{}, &aycoder.ConfigError{Option: "rule " + short(s), Err: errNoTool}
	}
	return r, nil
}

var errNoTool = errors.New("no tool is named; * is every tool")

// String returns the tool, class and pattern of the rule in the form that [ParseRule] parses. The
// action is not included.
func (r Rule) String() string {
	s := r.Tool
	if r.Class != "" {
		s += "@" + r.Class
	}
	if r.Pattern != "" {
		s += ":" + r.Pattern
	}
	return s
}

const (
	maxRules    = 10_000 // of a source
	maxPattern  = 4096   // bytes
	maxExamples = 100    // of a rule
)

// A rule is a checked and compiled rule.
type rule struct {
	Rule
	source  Source
	class   shell.Class
	bounded bool     // by class
	words   []string // of the pattern, for commands
	tokens  []string // of the pattern with quotes and operators read as a shell does
	several bool     // there is an operator in them
	text    string   // the pattern without its stars' meaning
	literal bool     // there is no star in it

	order int // 1 for those of [Policy.Configure], which come after equal ones that stay
}

// add checks rules, and adds those that are new.
func (s *snapshot) add(p *Policy, source Source, entries []Rule) error {
	return s.insert(p, source, entries, 0)
}

func (s *snapshot) insert(p *Policy, source Source, entries []Rule, order int) error {
	if len(entries) > maxRules {
		return fmt.Errorf("%s: %d rules, at most %d are taken", source, len(entries), maxRules)
	}
	var errs []error
	rules := slices.Clone(s.rules)
	ignored := slices.Clone(s.ignored)
	for _, e := range entries {
		r, err := p.compile(source, e)
		r.order = order
		switch {
		case err != nil:
			errs = append(errs, err)
		case source == Project && r.Action == RuleAllow:
			ignored = append(ignored, r)
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
	return cmp.Or(cmp.Compare(a.source.rank(), b.source.rank()), compareRules(a.Rule, b.Rule), cmp.Compare(a.order, b.order))
}

// compareRules returns 0 for rules that mean the same, whatever their examples are.
func compareRules(a, b Rule) int {
	x, y := a.String(), b.String()
	return cmp.Or(
		cmp.Compare(len(y), len(x)), cmp.Compare(x, y),
		cmp.Compare(a.Action, b.Action), cmp.Compare(a.Reason, b.Reason),
	)
}

// same reports whether two rules decide the same about the same calls.
func (r Rule) same(o Rule) bool { return r.Action == o.Action && r.String() == o.String() }

// compile checks a rule and its examples.
func (p *Policy) compile(source Source, e Rule) (rule, error) {
	r := rule{Rule: e, source: source}
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
	case r.Action != RuleAllow && r.Action != RuleAsk && r.Action != RuleDeny:
		return fmt.Errorf("no action %q; there are allow, ask and deny", short(string(r.Action)))
	case r.Tool == "":
		return errNoTool
	case len(r.Pattern) > maxPattern:
		return fmt.Errorf("the pattern has %d bytes, at most %d are taken",
			len(r.Pattern), maxPattern)
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
	r.words, r.tokens = splitPattern(r.Pattern), tokens(r.Pattern, true)
	r.several = slices.ContainsFunc(r.tokens, func(w string) bool { return len(w) == 1 && strings.Contains(operators, w) })
	r.text, r.literal = plainText(r.Pattern)
	return nil
}

// examples checks a rule against its examples.
func (p *Policy) examples(r *rule, e Rule) error {
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
	spec := aycoder.ToolSpec{Name: strings.ReplaceAll(r.Tool, "*", "x"),
		Effect: aycoder.EffectWrite}
	spec.Subject = aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}
	if s, ok := p.tools[r.Tool]; ok && s.Arg != "" {
		spec.Subject = s
	}
	args, err := json.Marshal(map[string]string{spec.Subject.Arg: subject})
	if err != nil {
		return false
	}
	// An example is about the workspace: it must not depend on where a shell stands when the
	// rules are loaded.
	q := &inquiry{call: &aycoder.ToolUse{Name: spec.Name, Args: args}, spec: &spec, world: p.world}
	q.world.Dir = q.world.Root
	p.study(q)
	one := snapshot{rules: []rule{*r}}
	if r.Action == RuleAllow {
		_, ok := one.allows(q, func(*rule) bool { return true })
		return ok
	}
	_, sure, maybe := one.strict(q, r.Action)
	return sure || maybe && r.Action == RuleAsk
}
