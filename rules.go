package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/internal/rule"
	"github.com/aycoder/aycoder/internal/runes"
)

// Rule says what to do with the calls that it covers.
type Rule struct {
	// Action is "allow", "ask" or "deny".
	Action RuleAction `json:"action"`
	// Tool is the name of a tool; * matches any text.
	Tool string `json:"tool"`
	// Pattern is matched against the call's [Subject]; "" covers every call of the tool.
	// A backslash makes the next character literal.
	//
	// In a path, * stays within a directory and ** does not.
	//
	// In a URL, the host is matched: "example.com" or "*.example.com", with the port
	// unless it is the default.
	//
	// In a command, * stands for words of plain characters. In an allow rule it does not
	// match operators, quotes or substitutions, nor anything that could make the command
	// destroy data, gain privileges or write outside the workspace: paths that leave it,
	// files that run code by themselves, and options of programs apart from a few. A
	// rule with a pattern never covers a call whose argument "network" or
	// "request_approval" is true.
	Pattern string `json:"pattern,omitempty"`
	// Class limits the rule to a class of calls, for an [Approver] that knows classes,
	// such as package policy: an allow rule covers calls up to this class, ask and deny
	// rules cover calls from it on. [Rules] does not know classes: there, an allow rule
	// with a class covers nothing, and the other rules cover calls of every class.
	Class string `json:"class,omitempty"`
	// Reason is the reason that the model reads if a deny rule covers its call.
	Reason string `json:"reason,omitempty"`
}

// RuleAction is the action of a [Rule].
type RuleAction string

// The actions of a [Rule].
const (
	RuleAllow RuleAction = "allow"
	RuleAsk   RuleAction = "ask"
	RuleDeny  RuleAction = "deny"
)

// ParseRule parses "tool" or "tool:pattern", such as "bash:go vet *". A class follows
// the tool after "@", as in "bash@network" or "*@writes_outside:curl *".
func ParseRule(action RuleAction, s string) (Rule, error) {
	tool, pattern, _ := strings.Cut(s, ":")
	tool, class, _ := strings.Cut(tool, "@")
	r := Rule{
		Action: action, Tool: strings.TrimSpace(tool), Class: strings.TrimSpace(class),
		Pattern: strings.TrimSpace(pattern),
	}
	if r.Tool == "" {
		return Rule{}, &ConfigError{Option: "rule " + s, Err: errors.New("no tool is named")}
	}
	return r, nil
}

// String returns the rule in the form that [ParseRule] parses.
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

func (r Rule) in(rules []Rule) bool { return slices.Contains(rules, r) }

// Rules is an [Approver]. Deny rules come before ask rules, and those before allow
// rules. A call that no rule covers is allowed if its tool only reads and stays within
// the workspace; otherwise the user is asked. The zero value is ready to use.
type Rules []Rule

// Decide implements [Approver].
func (rs Rules) Decide(_ context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	for _, action := range []RuleAction{RuleDeny, RuleAsk, RuleAllow} {
		for _, r := range rs {
			if r.Action = r.action(); r.Action == action && r.Covers(call, spec) {
				return r.verdict().allNamed(call, spec)
			}
		}
	}
	if spec.Effect == EffectReadOnly && !spec.OpenWorld {
		return Allow()
	}
	return Ask()
}

// action returns the action of the rule; an unknown one denies.
func (r Rule) action() RuleAction {
	switch a := RuleAction(strings.ToLower(string(r.Action))); a {
	case RuleAllow, RuleAsk:
		return a
	}
	return RuleDeny
}

func (r Rule) verdict() Verdict {
	switch r.Action {
	case RuleAllow:
		return Allow()
	case RuleDeny:
		if r.Reason != "" {
			return Deny(r.Reason)
		}
		return Deny("the rule " + runes.Shorten(r.String(), 500) + " forbids it")
	}
	return Ask()
}

// Covers reports whether the rule applies to a call. An allow rule covers only calls
// that it certainly means, and it covers files that run code only if its pattern names
// them: see package workspace. Ask and deny rules cover all calls that they might mean.
func (r Rule) Covers(call *ToolUse, spec *ToolSpec) bool {
	if !glob.Match(r.Tool, call.Name) || r.Class != "" && r.action() == RuleAllow {
		return false
	}
	if r.action() == RuleAllow && !r.names(call, spec) {
		return false
	}
	if r.Pattern == "" {
		return true
	}
	subject, ok := subjectOf(call, spec)
	if !ok {
		return r.action() != RuleAllow
	}
	allow := r.action() == RuleAllow
	switch spec.Subject.Kind {
	case SubjectPath:
		return rule.Path(r.Pattern, subject, allow)
	case SubjectPatch:
		names, ok := patch.Paths(subject)
		covers := func(name string) bool { return rule.Path(r.Pattern, name, allow) }
		if !allow {
			return !ok || slices.ContainsFunc(names, covers)
		}
		return ok && !slices.ContainsFunc(names, func(name string) bool { return !covers(name) })
	case SubjectCommand:
		return !(allow && wantsMore(call)) && rule.Command(r.Pattern, subject, allow)
	case SubjectURL:
		return rule.URL(r.Pattern, subject, allow)
	}
	return rule.Text(r.Pattern, subject)
}

// wantsMore reports whether an argument of the call opens the sandbox for its command:
// for the network, or to do more than read. The words of the command do not show that,
// so no pattern for them can mean it.
func wantsMore(call *ToolUse) bool {
	var args struct {
		Network json.RawMessage `json:"network"`
		Request json.RawMessage `json:"request_approval"`
	}
	if json.Unmarshal(call.Args, &args) != nil {
		return true
	}
	return isSet(args.Network) || isSet(args.Request)
}

func isSet(flag json.RawMessage) bool {
	return len(flag) > 0 && string(flag) != "false" && string(flag) != "null"
}

// suggest returns rules that would cover the call and similar ones, the narrowest
// first. It never suggests all calls of a tool that runs commands.
func suggest(call *ToolUse, spec *ToolSpec, subject string, ok bool) []Rule {
	if !ok && spec.Subject.Arg != "" {
		return nil
	}
	patterns := []string{""}
	switch kind := spec.Subject.Kind; {
	case spec.Subject.Arg == "":
	case kind == SubjectCommand:
		if patterns = nil; !wantsMore(call) {
			patterns = rule.SuggestCommand(subject)
		}
	case kind == SubjectPath:
		patterns = rule.SuggestPath(subject)
	case kind == SubjectPatch:
		patterns = suggestPatch(subject)
	case kind == SubjectURL:
		patterns = rule.SuggestURL(subject)
	default:
		patterns[0] = rule.Quote(subject)
	}
	rules := make([]Rule, len(patterns))
	for i, p := range patterns {
		rules[i] = Rule{Action: RuleAllow, Tool: call.Name, Pattern: p}
	}
	return rules
}

// suggestPatch suggests the file of a patch that changes only one, and otherwise all
// patches.
func suggestPatch(text string) []string {
	names, ok := patch.Paths(text)
	switch {
	case ok && len(names) == 1:
		return rule.SuggestPath(names[0])
	case !ok || slices.ContainsFunc(names, func(name string) bool { return ignore.Runs(name) != "" }):
		return nil
	}
	return []string{""}
}

// names reports whether the rule names those files that the call writes and that must
// be named.
func (r Rule) names(call *ToolUse, spec *ToolSpec) bool {
	return !slices.ContainsFunc(written(call, spec), func(name string) bool {
		return ignore.Runs(name) != "" && !ignore.Names(r.Pattern, name)
	})
}
