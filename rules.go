package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/glob"
)

// Rule says what to do with the calls it covers.
type Rule struct {
	// Action is "allow", "ask" or "deny".
	Action RuleAction `json:"action"`
	// Tool is the name of a tool; * matches anything.
	Tool string `json:"tool"`
	// Pattern is matched against the call's [Subject]; "" covers every call of the
	// tool. In a path, * stays within a folder and ** does not. In a command, * stands
	// for words of plain characters: no operator, no quote and no substitution gets
	// through a * of an allow rule. A backslash takes the meaning from the next
	// character.
	Pattern string `json:"pattern,omitempty"`
	// Reason is told to the model by a deny rule.
	Reason string `json:"reason,omitempty"`
}

// RuleAction is what a [Rule] does.
type RuleAction string

// The actions of a [Rule].
const (
	RuleAllow RuleAction = "allow"
	RuleAsk   RuleAction = "ask"
	RuleDeny  RuleAction = "deny"
)

// ParseRule reads "tool" or "tool:pattern", as in "bash:go vet *".
func ParseRule(action RuleAction, s string) (Rule, error) {
	tool, pattern, _ := strings.Cut(s, ":")
	r := Rule{Action: action, Tool: strings.TrimSpace(tool), Pattern: strings.TrimSpace(pattern)}
	if r.Tool == "" {
		return Rule{}, &ConfigError{Option: "rule " + s, Err: errors.New("no tool is named")}
	}
	return r, nil
}

// String returns the rule as [ParseRule] reads it.
func (r Rule) String() string {
	if r.Pattern == "" {
		return r.Tool
	}
	return r.Tool + ":" + r.Pattern
}

func (r Rule) in(rules []Rule) bool { return slices.Contains(rules, r) }

// Rules is an [Approver]: deny before ask before allow. A call that no rule covers
// is allowed if its tool only reads, and asked about otherwise. The zero value is
// ready to use.
type Rules []Rule

// Decide implements [Approver].
func (rs Rules) Decide(_ context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	for _, action := range []RuleAction{RuleDeny, RuleAsk, RuleAllow} {
		for _, r := range rs {
			if r.Action == action && r.Covers(call, spec) {
				return r.verdict()
			}
		}
	}
	if spec.Effect == EffectReadOnly {
		return Allow()
	}
	return Ask()
}

func (r Rule) verdict() Verdict {
	switch r.Action {
	case RuleAllow:
		return Allow()
	case RuleDeny:
		if r.Reason != "" {
			return Deny(r.Reason)
		}
		return Deny("the rule " + r.String() + " forbids it")
	}
	return Ask()
}

// Covers reports whether the rule applies to a call. An allow rule covers only
// what it surely means; ask and deny rules cover what they might mean.
func (r Rule) Covers(call *ToolUse, spec *ToolSpec) bool {
	if !glob.Match(r.Tool, call.Name) {
		return false
	}
	if r.Pattern == "" {
		return true
	}
	subject, ok := subjectOf(call, spec)
	if !ok {
		return r.Action != RuleAllow
	}
	allow := r.Action == RuleAllow
	switch spec.Subject.Kind {
	case SubjectPath:
		return coversPath(r.Pattern, subject, allow)
	case SubjectCommand:
		return coversCommand(r.Pattern, subject, allow)
	}
	return wild(r.Pattern, subject, anything)
}

// subjectOf returns what a call is about.
func subjectOf(call *ToolUse, spec *ToolSpec) (string, bool) {
	if spec.Subject.Arg == "" {
		return "", false
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Args, &args) != nil {
		return "", false
	}
	var s string
	if json.Unmarshal(args[spec.Subject.Arg], &s) != nil {
		return "", false
	}
	return s, true
}

// coversPath matches a path as it is written; the workspace resolves it later. A
// path that is absolute or climbs is allowed by no pattern, and denied by one that
// fits any of its ends.
func coversPath(pattern, name string, allow bool) bool {
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	plain := !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
	if allow {
		return plain && glob.Match(pattern, name)
	}
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	for {
		if glob.Match(pattern, name) {
			return true
		}
		_, rest, ok := strings.Cut(name, "/")
		if !ok || plain {
			return false
		}
		name = rest
	}
}

// coversCommand matches a command line. What runs behind an operator is a command
// of its own: a deny rule looks at each.
func coversCommand(pattern, command string, allow bool) bool {
	if allow {
		return wild(pattern, strings.TrimSpace(command), plainWords)
	}
	parts := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune("\n\r;&|()`{}$", r) })
	for _, p := range append(parts, command) {
		words := strings.Join(strings.Fields(p), " ")
		if wild(pattern, words, anything) || wild(pattern, words+" ", anything) {
			return true
		}
	}
	return false
}

func anything(string) bool { return true }

const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+, "

// plainWords reports whether s has only characters that mean nothing to a shell.
func plainWords(s string) bool { return strings.Trim(s, plainChars) == "" }

// wild matches s against a pattern in which * stands for any run of characters
// that ok accepts, and a backslash quotes the next character. Its time is bounded
// by the product of the lengths.
func wild(pattern, s string, ok func(string) bool) bool {
	lits := literals(pattern)
	if len(lits) == 1 {
		return lits[0] == s
	}
	first, last := lits[0], lits[len(lits)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	rest := s[len(first) : len(s)-len(last)]
	for _, lit := range lits[1 : len(lits)-1] {
		gap, after, found := strings.Cut(rest, lit)
		if !found || !ok(gap) {
			return false
		}
		rest = after
	}
	return ok(rest)
}

// literals splits a pattern at its stars.
func literals(pattern string) []string {
	lits := []string{""}
	for i := 0; i < len(pattern); i++ {
		n := len(lits) - 1
		switch {
		case pattern[i] == '*':
			lits = append(lits, "")
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			lits[n] += pattern[i : i+1]
		default:
			lits[n] += pattern[i : i+1]
		}
	}
	return lits
}

var quoteStars = strings.NewReplacer(`\`, `\\`, `*`, `\*`)

// suggest returns the rules that would cover a call and its like, the narrowest
// first: never all calls of a tool that runs commands.
func suggest(call *ToolUse, spec *ToolSpec) []Rule {
	allow := func(pattern string) Rule {
		return Rule{Action: RuleAllow, Tool: call.Name, Pattern: pattern}
	}
	subject, ok := subjectOf(call, spec)
	switch {
	case spec.Subject.Arg == "":
		return []Rule{allow("")}
	case !ok:
		return nil
	case spec.Subject.Kind == SubjectCommand:
		rules := []Rule{allow(quoteStars.Replace(strings.TrimSpace(subject)))}
		words := strings.Fields(subject)
		if len(words) > 1 && plainWords(subject) && subcommand(words[1]) {
			rules = append(rules, allow(words[0]+" "+words[1]+" *"))
		}
		return rules
	case spec.Subject.Kind == SubjectPath:
		return suggestPath(subject, allow)
	}
	return []Rule{allow(quoteStars.Replace(subject))}
}

// suggestPath returns the file, and the files of the same folder.
func suggestPath(name string, allow func(string) Rule) []Rule {
	name = path.Clean(name)
	if strings.ContainsAny(name, `*?[]{}\`) || !coversPath(name, name, true) {
		return nil
	}
	folder := path.Join(path.Dir(name), "*")
	return []Rule{allow(name), allow(folder)}
}

func subcommand(word string) bool {
	return strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-") == "" && !strings.HasPrefix(word, "-")
}
