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

// Rule says what to do with the calls it covers.
type Rule struct {
	// Action is "allow", "ask" or "deny".
	Action RuleAction `json:"action"`
	// Tool is the name of a tool; * matches anything.
	Tool string `json:"tool"`
	// Pattern is matched against the call's [Subject]; "" covers every call of the
	// tool. In a path, * stays within a folder and ** does not. In a command, * stands
	// for words of plain characters: no operator, no quote and no substitution gets
	// through a * of an allow rule, and none that could make the command destroy, gain
	// power or write outside of the workspace: no path out of it, no file that runs code
	// by itself, no option of a program but a few. A call whose argument "network" or
	// "request_approval" is true is covered by none with a pattern. Of an
	// address, the host is matched: "example.com" or "*.example.com", with the port if
	// it is not the usual one. A backslash takes the meaning from the next character.
	Pattern string `json:"pattern,omitempty"`
	// Class bounds how far a call may reach, for an [Approver] that knows classes, such
	// as package policy: an allow rule covers calls up to it, ask and deny rules those
	// from it on. [Rules] knows none: there an allow rule with a class covers nothing,
	// and the others cover calls of every class.
	Class string `json:"class,omitempty"`
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

// ParseRule reads "tool" or "tool:pattern", as in "bash:go vet *", with "@class" behind
// the tool if there is one, as in "bash@network" or "*@writes_outside:curl *".
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

// String returns the rule as [ParseRule] reads it.
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

// Rules is an [Approver]: deny before ask before allow. A call that no rule covers
// is allowed if its tool only reads, and nothing outside the workspace; otherwise it
// is asked about. The zero value is ready to use.
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

// action is what the rule does; one that says nothing known forbids.
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

// Covers reports whether the rule applies to a call. An allow rule covers only
// what it surely means, and files that run code only if its pattern names them: see
// [Workspace]. Ask and deny rules cover what they might mean.
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

// wantsMore reports whether a command is to get by an argument what a sandbox keeps from
// it otherwise: the network, or to do more than read. Its words do not say so, and no
// pattern for them means it.
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

// suggest returns the rules that would cover a call and its like, the narrowest
// first: never all calls of a tool that runs commands.
func suggest(call *ToolUse, spec *ToolSpec) []Rule {
	subject, ok := subjectOf(call, spec)
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

// suggestPatch suggests what it does for the file of a patch of one, and else all
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

// names reports whether the rule names the files that a call writes, as far as they have
// to be named.
func (r Rule) names(call *ToolUse, spec *ToolSpec) bool {
	return !slices.ContainsFunc(written(call, spec), func(name string) bool {
		return ignore.Runs(name) != "" && !ignore.Names(r.Pattern, name)
	})
}

// shownSubject returns what a call is about, for display: of a patch its files.
func shownSubject(call *ToolUse, spec *ToolSpec) string {
	s, _ := subjectOf(call, spec)
	if spec.Subject.Kind == SubjectPatch {
		names, _ := patch.Paths(s)
		return strings.Join(names, ", ")
	}
	return s
}
