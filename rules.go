package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/patch"
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
		return coversPath(r.Pattern, subject, allow)
	case SubjectPatch:
		names, ok := patch.Paths(subject)
		covers := func(name string) bool { return coversPath(r.Pattern, name, allow) }
		if !allow {
			return !ok || slices.ContainsFunc(names, covers)
		}
		return ok && !slices.ContainsFunc(names, func(name string) bool { return !covers(name) })
	case SubjectCommand:
		return !(allow && wantsMore(call)) && coversCommand(r.Pattern, subject, allow)
	case SubjectURL:
		return coversURL(r.Pattern, subject, allow)
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

// What is longer than this is covered by every deny rule and by no allow rule: it is
// no name that anybody has, and matching it takes time.
const (
	maxSubject  = 4096 // bytes of a path
	maxSegments = 256
	maxCommand  = 64 << 10 // bytes of a command
	maxWords    = 256
)

// coversPath matches a path as it is written; the workspace resolves it later. A
// path that is absolute, climbs, or is not written with slashes is allowed by no
// pattern, and denied by one that fits any of its ends. A deny rule for what is in a
// folder covers the folder, too, and those above it: a tool may look into them.
func coversPath(pattern, name string, allow bool) bool {
	odd := strings.Contains(name, `\`) || len(name) > 1 && name[1] == ':'
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	plain := !odd && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
	if len(name) > maxSubject || strings.Count(name, "/") > maxSegments {
		return !allow
	}
	if allow {
		return plain && glob.Match(pattern, name)
	}
	pattern, name = foldCase(pattern), foldCase(name)
	g, err := glob.Compile(pattern)
	if err != nil || above(name, pattern) {
		return true
	}
	for {
		if g.Match(name) || g.Match(name+inside) {
			return true
		}
		_, rest, ok := strings.Cut(name, "/")
		if !ok || plain {
			return false
		}
		name = rest
	}
}

// inside is a file that only wildcards match.
const inside = "/\x01\x01"

// above reports whether name is a folder above the fixed part of the pattern.
func above(name, pattern string) bool {
	fixed, _, wild := strings.Cut(pattern, "*")
	if i := strings.IndexAny(fixed, "?[{"); i >= 0 {
		fixed, wild = fixed[:i], true
	}
	if wild {
		fixed = fixed[:strings.LastIndexByte(fixed, '/')+1]
	}
	if fixed = strings.TrimSuffix(fixed, "/"); fixed == "" {
		return false
	}
	return name == "." || name == fixed || strings.HasPrefix(fixed, name+"/")
}

// foldCase makes names that some file system takes for the same equal.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// coversCommand matches a command line. What runs behind an operator, and whatever
// a word may be the name of, is a command of its own: a deny rule looks at each, with
// its quotes taken off. It is a help all the same and no wall: a shell can be told
// in more ways than a pattern can know.
func coversCommand(pattern, command string, allow bool) bool {
	if allow {
		command = strings.Trim(command, " \t")
		return wild(pattern, command, plainWords) && belowCeiling(pattern, command)
	}
	if len(command) > maxCommand {
		return true
	}
	command = strings.NewReplacer("\\\n", "", `"`, "", "'", "", `\`, "").Replace(command)
	parts := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune("\n\r;&|()`{}$", r) })
	for _, p := range append(parts, command) {
		words := strings.Fields(p)
		if len(words) > maxWords {
			return true
		}
		for i := range words {
			words[i] = path.Base(words[i])
			line := strings.Join(words[i:], " ")
			if wild(pattern, line, anything) || wild(pattern, line+" ", anything) {
				return true
			}
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
	case spec.Subject.Kind == SubjectCommand && wantsMore(call):
		return nil
	case spec.Subject.Kind == SubjectCommand:
		rules := []Rule{allow(quoteStars.Replace(strings.TrimSpace(subject)))}
		words := strings.Fields(subject)
		if len(words) > 1 && slices.Contains(subcommands[words[0]], words[1]) {
			if r := allow(words[0] + " " + words[1] + " *"); len(words) == 2 || r.Covers(call, spec) {
				rules = append(rules, r)
			}
		}
		return rules
	case spec.Subject.Kind == SubjectPath:
		return suggestPath(subject, allow)
	case spec.Subject.Kind == SubjectPatch:
		return suggestPatch(subject, allow)
	case spec.Subject.Kind == SubjectURL:
		return suggestURL(subject, allow)
	}
	return []Rule{allow(quoteStars.Replace(subject))}
}

// suggestPath returns the file, and the files of the same folder.
func suggestPath(name string, allow func(string) Rule) []Rule {
	name = path.Clean(name)
	if strings.ContainsAny(name, `*?[]{}\`) || !coversPath(name, name, true) {
		return nil
	}
	if ignore.Runs(name) != "" {
		return []Rule{allow(name)}
	}
	folder := path.Join(path.Dir(name), "*")
	return []Rule{allow(name), allow(folder)}
}

// suggestPatch suggests what it does for the file of a patch of one, and else all
// patches.
func suggestPatch(text string, allow func(string) Rule) []Rule {
	names, ok := patch.Paths(text)
	switch {
	case ok && len(names) == 1:
		return suggestPath(names[0], allow)
	case !ok || slices.ContainsFunc(names, func(name string) bool { return ignore.Runs(name) != "" }):
		return nil
	}
	return []Rule{allow("")}
}

// subcommands are those for which a rule with any arguments can be meant.
var subcommands = map[string][]string{
	"go":    {"build", "vet", "test", "fmt", "list", "doc", "version"},
	"git":   {"status", "diff", "log", "show", "add", "commit", "blame"},
	"cargo": {"build", "check", "test", "clippy", "fmt", "doc"},
	"npm":   {"test", "ls"},
}
