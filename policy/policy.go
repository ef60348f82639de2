// Package policy decides which tool calls run unasked: a [Policy] is an
// [aycoder.Approver] that reads shell commands, keeps the rules that users make, and
// grows careful when strangers' text has come in.
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
// # What is decided
//
// Each call has a class, from read_only to escalates: that of a command by its syntax
// tree, that of another tool by what its spec says. Then, in this order:
//
//   - A deny rule that covers the call denies it.
//   - In [Plan] mode everything but reading is denied.
//   - A catastrophic command is denied, unless an allow rule is exactly this command.
//   - An ask rule asks. So does a deny rule that may be meant but not surely, as by a
//     command whose name is a variable.
//   - After a stranger's text came in ([aycoder.ToolResult] says so), what reaches other
//     machines, writes outside of the workspace or is not known, such as make or ./x.sh,
//     asks, whatever else allows it.
//   - A command with the argument "request_approval", by which the model asks that it may
//     do more than read, asks, unless an allow rule is exactly this command.
//   - Names of secrets, and of files that run code though nobody runs them by name (CI
//     configuration, hooks, start files of shells and editors) or steer agents, ask in
//     every mode, unless a rule names them. The question says why they run code. Of a
//     command that is what its text says: nobody knows what a program writes.
//   - An allow rule that covers the call allows it.
//   - At last the [Mode] decides. A command that it lets run because it only reads is held
//     to that by the tool, see [aycoder.Invocation].
//
// A rule's action counts before its source, so no rule can take back a deny or an ask.
// Rules of a [Project] come with the code that is worked on: they can only tighten, and
// an allow rule among them is ignored, see [Policy.Ignored].
//
// # The language of rules
//
// A [Rule] has an action, the name of a tool (in which * is any text), and optionally a class
// and a pattern. Its text, as [ParseRule] reads it, is "tool", "tool:pattern" or
// "tool@class:pattern"; the fields in a file are those of [Rule]. All places read the same
// language: [WithRules], [WithFile], [ReadRules] and [Policy.KeepRule].
//
// Deny rules come before ask rules, and those before allow rules, wherever they come from. An
// allow rule covers only the calls that it certainly means. Ask and deny rules cover all calls
// that they might mean: upper and lower case are the same to them, and texts on which parsers
// disagree count as covered.
//
// The pattern is matched against the subject of a call ([aycoder.Subject]); a rule without one
// covers all calls of the tool. A backslash makes the next character literal. The kind of the
// subject decides how the rest is read:
//
//   - Command: words, separated by blanks, which are the first words of a command. A star is the
//     rest of a word; as the last word it is all further words, or none: see below.
//   - Path, and each path of a patch: below the workspace, separated by slashes. A star stays in
//     its directory, "**/" is any directories, ? is one letter, [a-z] one of a set, {go,md} one
//     of several. An allow rule covers no path that leaves the workspace, and a patch only as a
//     whole. Ask and deny rules also cover the directories above a file. Symbolic links are
//     followed when the call is decided, if the policy knows the workspace: an allow rule covers
//     a file if it covers both its name and what it leads to, other rules if they cover one.
//   - URL: the host, as in "go.dev" or "*.example.com", with the port unless it is the default.
//     A deny rule covers all ports, and "*.example.com" in it also example.com.
//   - Other texts: the whole text, in which a star is any text.
//
// # Rules for commands
//
// "bash:git log *" covers git log with any further words, "bash:npm run test:*" one word that
// begins so. "bash:git push" without a star covers in an allow rule only the command without
// further words, and in an ask or deny rule every command that begins so.
//
// An allow rule covers a script if each of its commands and redirects is covered by a rule, or
// provably only reads. One without a star also covers the script that is exactly its text, as
// the first of the suggested rules does.
//
// An ask or deny rule covers a script if it covers one of its commands: behind an operator, in
// a substitution, or inside of a wrapper such as env, timeout or sh -c; in any directory; with
// other options between its words and its own options in any order. Quotes in its pattern are
// read as a shell does. If the pattern has operators, as "curl * | sh", its words may follow
// each other anywhere in the script, with any number of words for a star.
//
// A class in a rule, as in "bash@writes_workspace", bounds it: an allow rule covers calls up to
// the class, ask and deny rules cover calls from it on. An allow rule with a star, or without a
// pattern, says nothing about the options and files that come in its place, so without a class
// it has a ceiling: it covers calls of the classes read_only, writes_workspace, needs_approval
// and network, and none that writes_outside, is destructive or escalates. "git log *" does not
// cover "git log --output=~/.bashrc", and "bash@destructive:rm *" takes the class to mean what
// it says.
//
// # Headless
//
// Where nobody can be asked wrap the policy: [aycoder.DenyAsks] turns questions into
// denials that name the rule which would allow the call, [aycoder.SuspendAsks] ends the
// run with the question open.
package policy

import (
	"cmp"
	"context"
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
	"github.com/aycoder/aycoder/internal/shell"
)

// Mode decides about calls that no rule covers.
type Mode string

// The modes. The zero value is Ask.
const (
	// Ask runs calls that provably only read, and asks about all others.
	Ask Mode = "ask"
	// AcceptEdits is like Ask, and also lets tools edit files of the workspace.
	AcceptEdits Mode = "accept-edits"
	// Plan runs calls that only read and denies all others, with a text that tells the model to
	// present its plan.
	Plan Mode = "plan"
	// FullAuto runs every call, except for those that a rule restricts, catastrophic commands,
	// and far-reaching calls after text from a stranger has come in.
	FullAuto Mode = "full-auto"
)

// ParseMode returns the mode with the given name: "ask", "accept-edits", "plan" or "full-auto".
func ParseMode(name string) (Mode, error) {
	m := Mode(name)
	if !slices.Contains([]Mode{Ask, AcceptEdits, Plan, FullAuto}, m) {
		return "", fmt.Errorf("no mode %q; there are ask, accept-edits, plan and full-auto", name)
	}
	return m, nil
}

// Policy decides about calls. It is an [aycoder.Approver], an [aycoder.RuleKeeper] for the
// rules that users make, and an [aycoder.Auditor] to learn about text from strangers. A Policy
// represents one session: share it among the agents and subagents of the session, and create
// another for the next session. It is safe for concurrent use, and decides without a lock.
type Policy struct {
	world shell.World
	dir   func(context.Context) string
	tools map[string]aycoder.Subject
	edits map[string]bool
	file  *file
	now   atomic.Pointer[snapshot]

	mu sync.Mutex // held by who changes now
}

// A snapshot holds everything that decisions depend on. It is replaced, never changed, so that
// decisions need no lock.
type snapshot struct {
	mode    Mode
	rules   []rule // sorted, so that their order in a source does not matter
	ignored []Rule
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

// WithMode sets the mode. Default: [Ask].
func WithMode(m Mode) Option {
	return func(s *setup) (err error) {
		if s.first.mode, err = ParseMode(string(cmp.Or(m, Ask))); err != nil {
			return &aycoder.ConfigError{Option: "WithMode", Err: err}
		}
		return nil
	}
}

// WithRules adds rules of a source; several calls add up. Default: none.
func WithRules(source Source, entries ...Rule) Option {
	return func(s *setup) error {
		if source.rank() < 0 {
			return &aycoder.ConfigError{Option: "WithRules",
				Err: fmt.Errorf("no source %q; there are managed, user, session and project", source)}
		}
		s.given[source] = append(s.given[source], entries...)
		return nil
	}
}

// WithFile stores the rules that users save in a JSON file, which is created with the first
// rule. They belong to the source [User]. Several processes can share the file. If it lies in
// the workspace, a call that would change it asks, even if a rule or mode allows the call.
// Default: none, and saving a rule is an error.
func WithFile(path string) Option {
	return func(s *setup) error {
		abs, err := filepath.Abs(path)
		s.file = &file{path: abs}
		return err
	}
}

// WithWorkspace sets the directory of the workspace: commands start there, and paths below it
// are inside. Default: unknown, so that every command that writes counts as writing outside.
func WithWorkspace(dir string) Option {
	return func(s *setup) error {
		abs, err := filepath.Abs(dir)
		s.world.Root = filepath.ToSlash(abs)
		return err
	}
}

// WithDir sets the function that returns the directory in which the next command starts,
// absolute or relative to the workspace. Use it for a shell that keeps its directory, such as
// Shell.DirOf of package tools. The function gets the ctx of the decision, must be safe for
// concurrent use, and returns "" if the directory is unknown. A "working_dir" argument of a
// call takes precedence. Default: the directory of the workspace, which is right only if every
// command starts there.
func WithDir(dir func(context.Context) string) Option {
	return func(s *setup) error {
		s.dir = dir
		return nil
	}
}

// WithTools declares the subjects of tools, so that the examples of rules can be checked.
// Default: the subject of "bash" is a command, that of "fetch" an address, and that of any
// other tool a path.
func WithTools(tools ...aycoder.Tool) Option {
	return func(s *setup) error {
		for _, t := range tools {
			spec := t.Spec()
			s.tools[spec.Name] = spec.Subject
		}
		return nil
	}
}

// WithEditTools sets the names of the tools that count as edit tools: they change files of the
// workspace and do nothing else. Tools with [aycoder.EffectWrite] whose subject is a path always
// count. The names replace the default, which is edit_file, write_file, multi_edit and
// apply_patch.
func WithEditTools(names ...string) Option {
	return func(s *setup) error {
		s.edits = map[string]bool{}
		for _, n := range names {
			s.edits[n] = true
		}
		return nil
	}
}

// WithManagedTrust sets whether allow rules of [Managed] still apply after text from a stranger
// has come in. Default: false.
func WithManagedTrust(trust bool) Option {
	return func(s *setup) error {
		s.first.exempt = trust
		return nil
	}
}

// New returns a policy. It joins all errors of the options and the rules, including that of a
// file of saved rules that cannot be read.
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

// Mode returns the mode.
func (p *Policy) Mode() Mode { return p.now.Load().mode }

// SetMode changes the mode for later decisions.
func (p *Policy) SetMode(m Mode) error {
	m, err := ParseMode(string(cmp.Or(m, Ask)))
	if err != nil {
		return err
	}
	return p.change(func(s *snapshot) error {
		s.mode = m
		return nil
	})
}

// Rules returns the rules of a source that are in force, sorted.
func (p *Policy) Rules(source Source) []Rule {
	var out []Rule
	for _, r := range p.now.Load().rules {
		if r.source == source {
			out = append(out, r.Rule)
		}
	}
	return out
}

// Ignored returns the allow rules of [Project], which are not in force, so that a host can show
// them.
func (p *Policy) Ignored() []Rule { return slices.Clone(p.now.Load().ignored) }

// Tainted reports whether text from an untrusted source has entered the conversation.
func (p *Policy) Tainted() bool { return p.now.Load().tainted }

// Trust resets [Policy.Tainted], for a host that starts a new conversation.
func (p *Policy) Trust() { p.taint(false) }

func (p *Policy) taint(tainted bool) {
	_ = p.change(func(s *snapshot) error {
		s.tainted = tainted
		return nil
	})
}

// Audit implements [aycoder.Auditor]. The loop reports text from a stranger before the model
// reads it.
func (p *Policy) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	if rec.Untrusted {
		p.taint(true)
	}
	return nil
}

// KeepRule implements [aycoder.RuleKeeper]. The rule is an allow rule in the form of
// [ParseRule]. When KeepRule returns, a rule of scope Saved is in the file, together with those
// that other processes saved.
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

// short truncates a text for use in a reason.
func short(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
