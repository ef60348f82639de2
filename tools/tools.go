// Package tools has the tools of a coding agent. For the files of a workspace there are
// read_file, list_files, glob, code_search, edit_file, multi_edit, write_file and
// apply_patch; for commands bash, bash_output and bash_kill; beside them fetch for pages
// of the web, and todo. A host that has what they need adds [AskUser] and [Subagent].
//
//	ws, err := workspace.Open(dir)
//	…
//	coding, err := tools.Coding(ws)
//	…
//	agent, err := aycoder.New(model, aycoder.WithTools(coding...))
//
// What a model can mend is an error result whose text begins with a stable word,
// such as "not_found:", and says which call to make next. Only a full disk ends a
// run. All tools stop soon after their context is cancelled, keep what they return
// and what they hold in memory within bounds, and return valid UTF-8 without NUL.
// Paths in results are relative to the workspace, with forward slashes.
//
// The tools that change files are [aycoder.Planner]s: they show what they would do
// before anybody is asked, do what was approved, and merge it with what the user has
// changed since the model was shown the file, also while the approval was open.
//
// Secrets in what the tools of [Coding] give are masked, see [Masker], and what nobody
// sees is written out, see [Visible]. An edit that has a placeholder keeps the secret
// that is in the file.
//
// The file tools see the workspace through its fence. The shell does not: what a
// command can reach is up to the system that the host runs on, unless [WithSandbox]
// confines it. A command that runs unasked because it only reads is held to reading in
// any case, where the system can do that: see [NoSandbox].
package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// Option sets a property of the tools.
type Option func(*config) error

type config struct {
	env     []string
	ignored []byte

	privateHosts []string     // of fetch
	client       *http.Client // of fetch; nil for its own
	todos        *TodoList    // of todo; nil for one of its own

	exec   Exec
	shell  *Shell
	memory int64 // of a command; 0 for a part of the machine's

	masker   *Masker
	unmasked bool

	sandbox        Sandbox // of bash
	requireSandbox bool
}

// WithIgnored leaves out of list_files, glob and code_search what these patterns name,
// beside what the workspace itself says in .gitignore and .git/info/exclude: they are
// in the form of a .gitignore file, and weaker than those. [GitExcludes] returns the
// ones that the user has for all repositories. Default: none; patterns add up.
func WithIgnored(patterns string) Option {
	return func(c *config) error {
		c.ignored = append(append(c.ignored, patterns...), '\n')
		return nil
	}
}

// WithEnv gives commands that bash runs more of the environment: "NAME=value" sets a
// variable, "NAME" takes over that of the host. Default: what programs need to run
// (PATH, HOME, the language, the settings of tool chains), and no secrets: also none
// of these whose value is an address with a login in it. Git does not read the user's
// configuration, so to let it commit, give it GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL,
// GIT_COMMITTER_NAME and GIT_COMMITTER_EMAIL here, or have them set in the host.
// Variables add up.
func WithEnv(vars ...string) Option {
	return func(c *config) error {
		for _, v := range vars {
			name, _, _ := strings.Cut(v, "=")
			if name == "" || strings.ContainsRune(v, 0) {
				return fmt.Errorf("WithEnv: not a variable: %q", name)
			}
		}
		c.env = append(c.env, vars...)
		return nil
	}
}

// Coding returns the tools for a workspace, always in the same order: read_file,
// list_files, glob, code_search, edit_file, multi_edit, write_file, apply_patch, bash,
// bash_output, bash_kill, fetch, todo. They are safe for concurrent use. Those of bash
// share a [Shell], so each conversation needs tools of its own.
func Coding(ws FS, opts ...Option) ([]aycoder.Tool, error) {
	opts = append([]Option{WithShell(new(Shell))}, opts...)
	all := make([]aycoder.Tool, 0, 13)
	for _, make := range []func(FS, ...Option) (aycoder.Tool, error){
		ReadFile, ListFiles, Glob, CodeSearch, EditFile, MultiEdit, WriteFile, ApplyPatch,
		Bash, BashOutput, BashKill,
	} {
		t, err := make(ws, opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	for _, make := range []func(...Option) (aycoder.Tool, error){Fetch, Todo} {
		t, err := make(opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return maskAll(ws, opts, all)
}

// configure applies options, and refuses to go on without a workspace.
func configure(ws FS, opts []Option) (*config, error) {
	if ws == nil {
		return nil, errors.New("new tool: workspace is nil")
	}
	return optioned(opts)
}

// optioned applies options.
func optioned(opts []Option) (*config, error) {
	var c config
	for _, opt := range opts {
		if err := opt(&c); err != nil {
			return nil, fmt.Errorf("new tool: %w", err)
		}
	}
	confined := c.sandbox != nil || c.requireSandbox
	if c.sandbox == nil {
		c.sandbox = NoSandbox()
	}
	if c.exec != nil && (confined || c.memory > 0) {
		return nil, errors.New("new tool: WithExec goes without WithSandbox, RequireSandbox and WithMemoryLimit, which are for this machine")
	}
	if c.exec == nil {
		c.exec = &localExec{
			memory: c.memory, confined: confined,
			confiner: &confiner{sandbox: c.sandbox, require: c.requireSandbox},
		}
	}
	c.shell = cmp.Or(c.shell, new(Shell))
	return &c, nil
}

// Short names for what every tool has in its signature.
type (
	result     = aycoder.ToolResult
	invocation = aycoder.Invocation
)

type toolFunc[In any] func(context.Context, *aycoder.Invocation, In) (*aycoder.ToolResult, error)

// guard makes a function one that does nothing for a call that was cancelled or has
// arguments that are no text, and whose errors a model can read.
func guard[In any](fn toolFunc[In]) toolFunc[In] {
	return func(ctx context.Context, inv *aycoder.Invocation, in In) (*aycoder.ToolResult, error) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := checkText(inv.Args); err != nil {
			return explain(err)
		}
		r, err := fn(ctx, inv, in)
		if err != nil {
			return explain(err)
		}
		return r, nil
	}
}

// problem is something that the model can mend.
type problem struct{ kind, text string }

func (p *problem) Error() string { return p.kind + ": " + p.text }

func problemf(kind, format string, args ...any) error {
	return &problem{kind, fmt.Sprintf(format, args...)}
}

// explain makes an error result of an error, unless it is one that the model cannot
// do anything about.
func explain(err error) (*aycoder.ToolResult, error) {
	if e, ok := errors.AsType[*aycoder.ConflictError](err); ok {
		return conflictResult(e), nil
	}
	kind, text := "", ""
	if p, ok := errors.AsType[*problem](err); ok {
		kind, text = p.kind, p.text
	} else if e, ok := errors.AsType[*workspace.Error](err); ok {
		kind, text = e.Kind, e.Error()
	}
	switch kind {
	case "":
		return nil, err
	case "no_space":
		return nil, aycoder.Fatal(err)
	}
	r := aycoder.ErrorResult(kind + ": " + printable(text))
	r.Summary = strings.ReplaceAll(kind, "_", " ")
	return r, nil
}

func kindOf(err error) string {
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		return e.Kind
	}
	return ""
}

func textResult(text, summary string) *aycoder.ToolResult {
	r := aycoder.TextResult(text)
	r.Summary = summary
	return r
}

// checkText refuses arguments with NUL or with what is no Unicode in them. Package
// json replaces the latter, so the text that a model wrote is looked at.
func checkText(raw json.RawMessage) error {
	if !utf8.Valid(raw) {
		return problemf("invalid_arguments", "the arguments are not valid UTF-8; send plain text")
	}
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case 0:
			return problemf("invalid_arguments", "the arguments have a NUL byte in them")
		case '\\':
			n, err := escape(string(raw[i:min(len(raw), i+12)]))
			if err != nil {
				return err
			}
			i += n - 1
		}
	}
	return nil
}

// escape checks an escape sequence and returns its length.
func escape(s string) (int, error) {
	if !strings.HasPrefix(s, `\u`) {
		return 2, nil
	}
	switch r := unit(s); {
	case r == 0:
		return 0, problemf("invalid_arguments",
			"the arguments have a NUL character in them; leave it out")
	case 0xD800 <= r && r < 0xDC00:
		if low := unit(s[min(len(s), 6):]); low < 0xDC00 || low > 0xDFFF {
			return 0, problemf("invalid_arguments", "the arguments have half a surrogate pair in them")
		}
		return 12, nil
	case 0xDC00 <= r && r <= 0xDFFF:
		return 0, problemf("invalid_arguments", "the arguments have half a surrogate pair in them")
	}
	return 6, nil
}

// unit reads \uXXXX, or returns -1.
func unit(s string) int64 {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return int64(n)
}

// printable returns s as valid UTF-8 without NUL.
func printable(s string) string {
	if strings.ContainsRune(s, 0) {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// showPath quotes a path with characters that would confuse who reads it: a line
// break, an escape sequence, an invisible character.
func showPath(p string) string {
	for _, r := range p {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(p)
		}
	}
	return p
}

// plural is "1 line", "2 lines".
func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ch"), strings.HasSuffix(what, "ss"):
		return strconv.Itoa(n) + " " + what + "es"
	case strings.HasSuffix(what, "y"):
		return strconv.Itoa(n) + " " + strings.TrimSuffix(what, "y") + "ies"
	default:
		return strconv.Itoa(n) + " " + what + "s"
	}
}
