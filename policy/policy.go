// Package policy decides which tool calls run without asking the user. A [Policy] is an
// [aycoder.Approver] that analyzes shell commands, keeps the rules that users make, and becomes
// stricter after the model has read text from an untrusted source, such as a web page: the
// output of a tool that marks it so. The output of a command does not count.
//
//	shell := new(tools.Shell)
//	coding, err := tools.Coding(ws, tools.WithShell(shell))
//	…
//	p, err := policy.New(
//		policy.WithWorkspace(ws.Dir()),
//		policy.WithDir(shell.DirOf),
//		policy.WithFile(filepath.Join(config, "rules.json")),
//		policy.WithRules(policy.Project, entries...),
//	)
//	…
//	agent, err := aycoder.New(model, aycoder.WithTools(coding...), aycoder.WithApprover(p))
//
// # Order of decisions
//
// Each call has a class, from read_only to escalates. The class of a command follows from its
// syntax tree, and that of another call from the specification of its tool. The policy then takes
// the first of these steps that applies:
//
//   - A deny rule that covers the call denies the call.
//   - In [Plan] mode, every call that does more than read is denied.
//   - A catastrophic command is denied, unless the pattern of an allow rule is exactly this
//     command.
//   - If an ask rule covers the call, the user is asked. The user is also asked if a deny rule
//     covers only a possible meaning of the call, for example if the name of the command is in a
//     variable.
//   - After text from an untrusted source has come in (see [aycoder.ToolResult]; fetch and MCP mark
//     their results, bash marks none, even of curl), the user is asked about every call that reaches
//     other machines, writes outside of the workspace, or has unknown effects, such as make or
//     ./x.sh. Only allow rules of [Managed] can change that: see [WithManagedTrust].
//   - If the model requests approval by the argument "request_approval", so that a command may do
//     more than read, the user is asked, unless the pattern of an allow rule is exactly this
//     command.
//   - In every mode, the user is asked about a call that names a file of secrets, or that writes
//     a file which runs code implicitly (CI configuration, hooks, start files of shells and
//     editors) or instructs agents. Only a rule that names the file allows such a call. The
//     question says why the file runs code. For a command, only the names in its text count,
//     because the files that a program writes are unknown. A tool that writes one such file and no
//     other, as [aycoder.Subject] says, is there for this file: a rule that names the tool allows
//     it, and so does [FullAuto].
//   - An allow rule that covers the call allows the call.
//   - Otherwise the [Mode] decides. If the mode lets a command run because the command only
//     reads, the tool confines the command to reading: see [aycoder.Invocation].
//
// The action of a rule counts before its source: an allow rule never overrides an ask or deny
// rule, whatever their sources. Rules of a [Project] come with the code that is worked on. They can only add
// restrictions: an allow rule among them is ignored, see [Policy.Ignored].
//
// # The language of rules
//
// A [Rule] has an action, the name of a tool (in which * matches any text), and optionally a
// class and a pattern. As a text for [ParseRule], a rule has the form "tool", "tool:pattern" or
// "tool@class:pattern". In a file, it has the fields of [Rule]. [WithRules], [WithFile],
// [ReadRules] and [Policy.KeepRule] all use the same language.
//
// Deny rules take precedence over ask rules, and ask rules over allow rules, wherever they come
// from. An allow rule covers only the calls that it certainly means. Ask and deny rules cover all
// calls that they might mean: they ignore the difference between upper and lower case, and in paths
// that between composed and decomposed letters, and cover a text that different parsers read
// differently.
//
// The pattern of a rule is matched against the subject of a call ([aycoder.Subject]). A rule
// without a pattern covers all calls of the tool. A backslash makes the next character of a
// pattern literal. The kind of the subject decides how the rest is read:
//
//   - Command: the pattern is a list of words, separated by blanks, that a command must begin
//     with. A star matches the rest of a word. A star as the last word matches any number of
//     further words, or none: see below.
//   - Path, and each path of a patch: the pattern is a slash-separated path below the workspace.
//     A star matches within one directory, "**/" any number of directories, ? one letter, [a-z]
//     one letter of a set, and {go,md} one of several texts. An allow rule never covers a path
//     that leaves the workspace, and covers a patch only if it covers all paths of the patch. Ask
//     and deny rules also cover the directories above a file. A slash at the end stands for all that is below. If the policy knows the workspace,
//     it follows symbolic links when it decides: an allow rule covers a file only if the rule
//     covers both the name of the file and the target of the link, and another rule if it covers
//     one of the two.
//   - URL: the pattern is the host, such as "go.dev" or "*.example.com", with the port unless the
//     port is the default. A deny rule covers all ports, and "*.example.com" in a deny rule also
//     covers example.com.
//   - Other texts: the pattern is the whole text, in which a star matches any text.
//
// If a tool has no subject, but its [aycoder.ToolSpec] has a Definition, an allow rule with a pattern covers only this
// definition. So a rule that answers a question about a tool of a server does not cover what the server may offer by
// the same name later.
//
// # Rules for commands
//
// "bash:git log *" covers git log with any further words, and "bash:npm run test:*" covers npm
// run with one word that begins with "test:". Without a star, "bash:git push" means different
// things: an allow rule covers only the command without further words, but an ask or deny rule
// covers every command that begins with these words.
//
// An allow rule covers a script if each command and redirection of the script is covered by an
// allow rule or provably only reads. An allow rule without a star also covers the script whose
// text equals the pattern, as does the first of the rules that a question suggests.
//
// An ask or deny rule covers a script if it covers one of the commands in the script. The command
// may follow an operator, stand in a substitution, or be run by a wrapper such as env, timeout or
// sh -c, in any directory. It may have other options between its words, and its own options in
// any order. A long option that is cut short may be that of the rule, so the user is asked. Quotes in the pattern are read as a shell reads them. If the pattern contains
// operators, such as "curl * | sh", its words may follow each other anywhere in the script, with
// any number of words in place of a star.
//
// An ask or deny rule with a pattern for read_file also covers commands that are known to read such a file, and one for an edit
// tool (see [WithEditTools]) those that are known to write it. Names such as private/* count as they are written. Nobody knows
// the files of a command that searches a directory above, or of a program such as make, so that such rules do not cover these.
//
// A class in a rule, such as "bash@writes_workspace", limits the rule: an allow rule covers calls
// of this class and of lower classes, and ask and deny rules cover calls of this class and of
// higher classes. Without a class, an allow rule with a star or without a pattern is limited as
// well, because it does not say which options and files may stand in place of the star. It covers
// calls of the classes read_only, writes_workspace, needs_approval and network, but not of the
// classes writes_outside, destructive and escalates. For example, "git log *" does not cover "git
// log --output=~/.bashrc". To lift the limit, name the class, as in "bash@destructive:rm *".
//
// # Headless
//
// If there is no user to ask, wrap the policy. [aycoder.DenyAsks] turns questions into denials
// that name the rule which would allow the call. [aycoder.SuspendAsks] ends the run and leaves
// the question open.
package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/shell"
)

// Mode decides about calls that no rule covers. The mode [Plan] also overrides allow rules.
type Mode string

// The modes. The zero value is Ask.
const (
	// Ask runs calls that provably only read, and asks the user about all others.
	Ask Mode = "ask"
	// AcceptEdits is like [Ask], but also runs calls of tools that only edit files of the
	// workspace: see [WithEditTools].
	AcceptEdits Mode = "accept-edits"
	// Plan runs calls that only read and denies all others, even if an allow rule covers them.
	// The reason for a denial tells the model to present its plan.
	Plan Mode = "plan"
	// FullAuto runs every call, with exceptions that the package comment describes. It denies a
	// call that a deny rule covers, and a catastrophic command. It asks the user about a call
	// that an ask rule covers, a call that reads secrets or writes files that run code, and a
	// command for which the model requests approval. After text from an untrusted source has come
	// in, it also asks about calls that may have effects outside of the workspace.
	FullAuto Mode = "full-auto"
)

// ParseMode returns the mode with the given name: "ask", "accept-edits", "plan" or "full-auto".
// Any other name is an error.
func ParseMode(name string) (Mode, error) {
	m := Mode(name)
	if !slices.Contains([]Mode{Ask, AcceptEdits, Plan, FullAuto}, m) {
		return "", fmt.Errorf("no mode %q; there are ask, accept-edits, plan and full-auto", name)
	}
	return m, nil
}

// Policy decides which tool calls run. It implements [aycoder.Approver], [aycoder.RuleKeeper] to
// store the rules that users make, and [aycoder.Auditor] to learn when text from an untrusted
// source comes in. A Policy represents one session: share it among the agents and subagents of
// the session, and create another Policy for the next session. A Policy is safe for concurrent
// use, and decides without taking a lock.
type Policy struct {
	world shell.World
	dir   func(context.Context) string
	tools map[string]aycoder.Subject
	edits map[string]bool
	file  *file
	now   atomic.Pointer[snapshot]

	mu sync.Mutex // serializes changes of now
}

// A snapshot holds everything that decisions depend on. It is replaced, never changed, so that
// decisions need no lock.
type snapshot struct {
	mode    Mode
	least   Mode   // see Configured
	rules   []rule // sorted, so that their order in a source does not matter
	ignored []rule
	tainted bool
	exempt  bool
}

// Option configures a [Policy] in [New].
type Option func(*setup) error

type setup struct {
	*Policy
	first snapshot
	given map[Source][]Rule
}

// WithMode sets the mode, which decides about calls that no rule covers. Default: [Ask].
func WithMode(m Mode) Option {
	return func(s *setup) (err error) {
		if s.first.mode, err = ParseMode(string(cmp.Or(m, Ask))); err != nil {
			return &aycoder.ConfigError{Option: "WithMode", Err: err}
		}
		return nil
	}
}

// WithRules adds rules of a source. The rules of several WithRules options add up. Default: no
// rules.
func WithRules(source Source, entries ...Rule) Option {
	return func(s *setup) error {
		if source.rank() < 0 {
			return &aycoder.ConfigError{Option: "WithRules", Err: noSource(source)}
		}
		s.given[source] = append(s.given[source], entries...)
		return nil
	}
}

// WithFile sets the JSON file that stores the rules which users save. The file is created when
// the first rule is saved. Its rules belong to the source [User]. Several processes can share the
// file. If the file is in the workspace, the policy asks the user about every call that would
// change the file, even if a rule or the mode allows the call. Default: no file, so that saving a
// rule is an error.
func WithFile(path string) Option {
	return func(s *setup) error {
		abs, err := filepath.Abs(path)
		s.file = &file{path: abs}
		return err
	}
}

// WithWorkspace sets the directory of the workspace. The policy assumes that commands start in
// this directory (see [WithDir]), and that the paths below it are inside the workspace. It resolves the
// symbolic links of this machine. If the workspace is on another one, names count as they are written;
// what a link there leads to is left to that machine, which refuses what its workspace protects. Default:
// no directory, so that every command that writes counts as writing outside of the workspace.
func WithWorkspace(dir string) Option {
	return func(s *setup) error {
		abs, err := filepath.Abs(dir)
		s.world.Root = filepath.ToSlash(abs)
		return err
	}
}

// WithRoot adds a further directory of the workspace, under the name that it has there: see WithRoot of
// package workspace. Files in it count like those of the first directory. A rule names them by their
// path in the workspace, such as "lib:/src/**". An ask or deny rule without a name of a root holds in
// all of them, and an allow rule only if it begins with "**". Default: no further directories.
func WithRoot(name, dir string) Option {
	return func(s *setup) error {
		if !rootpath.Valid(name) {
			return &aycoder.ConfigError{Option: "WithRoot", Err: fmt.Errorf("%q cannot be the name of a directory", name)}
		}
		abs, err := filepath.Abs(dir)
		if s.world.More == nil {
			s.world.More = map[string]string{}
		}
		s.world.More[name] = filepath.ToSlash(abs)
		return err
	}
}

// WithDir sets the function that returns the directory in which the next command starts. The
// directory is absolute, or relative to the workspace, or "" if it is unknown. Use the option if
// the shell keeps its directory from one command to the next, as the shell of package tools does:
// pass Shell.DirOf. The function receives the ctx of the decision and must be safe for concurrent
// use. If a call has the argument "working_dir", that argument takes precedence. Default: the
// directory of the workspace, which is correct only if every command starts there.
func WithDir(dir func(context.Context) string) Option {
	return func(s *setup) error {
		s.dir = dir
		return nil
	}
}

// WithTools tells the policy the [aycoder.Subject] of each tool: whether rules for the tool match
// a command, a URL, a path or another text. [New] needs the subjects to check the examples in
// rules (the fields Match and NotMatch of [Rule]). Default: rules for "bash" match a command,
// rules for "fetch" match a URL, and rules for any other tool match a path.
func WithTools(tools ...aycoder.Tool) Option {
	return func(s *setup) error {
		for _, t := range tools {
			spec := t.Spec()
			s.tools[spec.Name] = spec.Subject
		}
		return nil
	}
}

// WithEditTools sets the names of the edit tools, which change files of the workspace and do
// nothing else. The mode [AcceptEdits] runs the calls of edit tools. Default: edit_file,
// write_file, multi_edit and apply_patch. Given names replace the default names.
//
// A tool without one of these names is an edit tool too if it has [aycoder.EffectWrite] and its
// [aycoder.Subject] is a path or a patch. As an exception, a tool is never an edit tool if its
// specification says that it is destructive or reaches beyond the workspace.
func WithEditTools(names ...string) Option {
	return func(s *setup) error {
		s.edits = map[string]bool{}
		for _, n := range names {
			s.edits[n] = true
		}
		return nil
	}
}

// WithManagedTrust sets whether allow rules of the source [Managed] still apply after text from
// an untrusted source has come in (see [Policy.Tainted]). After such a text, the policy normally
// asks the user about each call that may have effects outside of the workspace. If trust is true,
// the policy does not ask about a call that a Managed rule allows. Default: false.
func WithManagedTrust(trust bool) Option {
	return func(s *setup) error {
		s.first.exempt = trust
		return nil
	}
}

// New returns a policy. The error joins all errors of the options, the rules and the examples in
// the rules. A file of saved rules that exists but cannot be read is an error as well.
func New(opts ...Option) (*Policy, error) {
	home, _ := os.UserHomeDir() // not known is stricter
	s := &setup{
		Policy: &Policy{
			world: shell.World{Home: filepath.ToSlash(home)},
			edits: map[string]bool{"edit_file": true, "write_file": true, "multi_edit": true, "apply_patch": true},
			tools: map[string]aycoder.Subject{
				"bash":  {Arg: "command", Kind: aycoder.SubjectCommand},
				"fetch": {Arg: "url", Kind: aycoder.SubjectURL},
			},
		},
		first: snapshot{mode: Ask},
		given: map[Source][]Rule{},
	}
	errs := []error{option.Apply(s, opts)}
	if s.file != nil {
		saved, err := s.file.load()
		errs = append(errs, err)
		s.given[User] = append(s.given[User], saved...)
	}
	for _, source := range sources {
		errs = append(errs, s.first.add(s.Policy, source, s.given[source]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new policy: %w", err)
	}
	s.now.Store(&s.first)
	return s.Policy, nil
}

// change replaces the snapshot.
func (p *Policy) change(f func(*snapshot) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.now.Load()
	if err := f(&next); err != nil {
		return err
	}
	p.now.Store(&next)
	return nil
}

// Mode returns the mode that is in force.
func (p *Policy) Mode() Mode { return p.now.Load().mode }

// SetMode changes the mode. Decisions that the policy has already made do not change. A mode that is less strict than
// the configuration permits is an error: see [Configured].
func (p *Policy) SetMode(m Mode) error {
	m, err := ParseMode(string(cmp.Or(m, Ask)))
	if err != nil {
		return err
	}
	return p.change(func(s *snapshot) error {
		if s.atLeast(m) != m {
			return &aycoder.ConfigError{Option: "mode " + string(m), Err: fmt.Errorf("the configuration permits none that is less strict than %s", s.least)}
		}
		s.mode = m
		return nil
	})
}

// Rules returns the rules of a source that are in force, sorted by the length of their text, the
// longest first. Allow rules of [Project] are not in force: see [Policy.Ignored].
func (p *Policy) Rules(source Source) []Rule {
	var out []Rule
	for _, r := range p.now.Load().rules {
		if r.source == source {
			out = append(out, r.Rule)
		}
	}
	return slices.CompactFunc(out, func(a, b Rule) bool { return compareRules(a, b) == 0 })
}

// Ignored returns the allow rules of [Project]. The policy ignores them, because a project could
// otherwise grant itself rights; a host can show them to the user.
func (p *Policy) Ignored() []Rule {
	var out []Rule
	for _, r := range p.now.Load().ignored {
		out = append(out, r.Rule)
	}
	return out
}

// kept is the JSON form of what a session has of a policy.
type kept struct {
	Mode    Mode   `json:"mode"`
	Rules   []Rule `json:"rules,omitempty"` // of the session
	Tainted bool   `json:"tainted,omitempty"`
}

// MarshalJSON returns what belongs to the session: the mode, the rules of [Session], and whether the
// policy is tainted.
func (p *Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(&kept{Mode: p.Mode(), Rules: p.Rules(Session), Tainted: p.Tainted()})
}

// UnmarshalJSON sets the mode, adds the rules of [Session], and makes the policy tainted if the other
// one was, so that a session continues with them. A host that lets the user choose a mode calls
// SetMode afterwards. If it returns an error, nothing has changed.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	mode, err := ParseMode(string(k.Mode))
	if err != nil {
		return err
	}
	return p.change(func(s *snapshot) error {
		s.mode, s.tainted = s.atLeast(mode), s.tainted || k.Tainted
		return s.add(p, Session, k.Rules)
	})
}

// Tainted reports whether the session has read text from an untrusted source, such as a web page.
// If so, the policy asks the user about calls that may have effects outside of the workspace.
func (p *Policy) Tainted() bool { return p.now.Load().tainted }

// Trust makes [Policy.Tainted] false again. Call it when a new conversation starts.
func (p *Policy) Trust() { p.taint(false) }

func (p *Policy) taint(tainted bool) {
	_ = p.change(func(s *snapshot) error {
		s.tainted = tainted
		return nil
	})
}

// Audit implements [aycoder.Auditor]. [aycoder.Loop] calls Audit with each record. The record
// about a text from an untrusted source arrives before the model reads that text.
func (p *Policy) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	if rec.Untrusted {
		p.taint(true)
	}
	return nil
}

// KeepRule implements [aycoder.RuleKeeper]. It adds an allow rule, written in the form that
// [ParseRule] accepts. With [aycoder.Session], the rule lasts as long as the Policy. With
// [aycoder.Saved], KeepRule writes the rule to the file of [WithFile] before it returns, and
// loads the rules that other processes have saved there. With [aycoder.Once], KeepRule does
// nothing.
func (p *Policy) KeepRule(ctx context.Context, scope aycoder.Scope, text string) error {
	r, err := ParseRule(RuleAllow, text)
	switch {
	case scope == aycoder.Once:
		return nil
	case scope != aycoder.Session && scope != aycoder.Saved:
		return fmt.Errorf("no such scope: %s", scope)
	case err != nil:
		return err
	case scope == aycoder.Session:
		return p.change(func(s *snapshot) error { return s.add(p, Session, []Rule{r}) })
	case p.file == nil:
		return errors.New("there is no file for rules: use scope session")
	}
	if _, err := p.compile(User, r); err != nil {
		return err
	}
	saved, err := p.file.keep(ctx, r)
	if err != nil {
		return err
	}
	return p.change(func(s *snapshot) error { return s.add(p, User, saved) })
}

// DropRule takes back an allow rule, written as [Policy.KeepRule] got it or as Rule.String writes it,
// and reports whether there was such a rule. With [aycoder.Session], it is one of [Session]. With
// [aycoder.Saved], it is one in the file of [WithFile], from which DropRule removes it before it
// returns. Rules that are not in the file, such as those of a configuration, stay; to take one of them
// back is to change the configuration. A decision that has begun may still be made with the rule.
func (p *Policy) DropRule(ctx context.Context, scope aycoder.Scope, text string) (found bool, err error) {
	r, err := ParseRule(RuleAllow, text)
	if err != nil {
		return false, err
	}
	source := Session
	switch {
	case scope == aycoder.Session:
	case scope != aycoder.Saved:
		return false, fmt.Errorf("no rules of scope %s are kept", scope)
	case p.file == nil:
		return false, nil
	default:
		source = User
		if found, err = p.file.drop(ctx, r); err != nil || !found {
			return false, err
		}
	}
	err = p.change(func(s *snapshot) error {
		left := slices.DeleteFunc(slices.Clone(s.rules), func(o rule) bool {
			return o.source == source && o.order == 0 && o.same(r)
		})
		found = found || len(left) < len(s.rules)
		s.rules = left
		return nil
	})
	return found, err
}

// short truncates a text for use in a reason.
func short(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
