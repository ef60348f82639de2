// Package tools provides the tools of a coding agent. The tools read_file, list_files, glob,
// code_search, edit_file, multi_edit, write_file and apply_patch work on the files of a
// workspace. The tool bash runs commands, and job_output and job_stop are for what works in the
// background. The tool fetch reads web pages, and todo keeps a list of tasks. A host can add [AskUser] and [Subagent].
//
//	ws, err := workspace.Open(dir)
//	…
//	coding, err := tools.Coding(ws)
//	…
//	agent, err := aycoder.New(model, aycoder.WithTools(coding...))
//
// If a call fails in a way that the model can correct, the tool returns an error result. Its text
// begins with a stable word, such as "not_found:", and tells the model which call to make next.
// Only a full disk ends a run. All tools stop soon after their context is cancelled, limit the
// size of their results and the memory they use, and return valid UTF-8 without NUL. Paths in
// results are relative to the workspace and use forward slashes.
//
// The tools that change files implement [aycoder.Planner]. Such a tool computes the change before
// the user is asked, and carries out exactly the approved change. It merges this change with all
// changes that the user has made since the model was shown the file, including those made while
// the approval was open.
//
// The tools of [Coding] replace secrets in their results by placeholders (see [Masker]), and
// write out invisible characters (see [EscapeInvisible]). If the model repeats a placeholder in
// an edit, the file keeps the secret.
//
// The file tools cannot leave the workspace. Commands can, unless [WithSandbox] confines them. A
// command that runs without approval because it only reads is always confined to reading if the
// system supports that: see [NoSandbox].
package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

// Option configures the tools.
type Option func(*config) error

// config holds the options of all tools. Each tool uses only its part, so that [Coding] can pass
// the same options to all of them.
type config struct {
	env     []string
	ignored []byte

	privateHosts []string     // of fetch
	client       *http.Client // of fetch; nil for the default
	todos        *TodoList    // of todo; nil for a new list

	exec     Exec
	local    *localExec      // what exec wraps; nil with [WithExec]
	environ  func() []string // of the machine that runs commands
	wrapExec []func(Exec) Exec
	shell    *Shell
	jobs     *background.Group
	memory   int64 // bytes for a command; 0 for the default

	resolve func(context.Context, *edit.FileResult) (string, bool) // of the tools that change files; nil for none

	masker   *Masker
	unmasked bool

	sandbox        Sandbox // of bash
	requireSandbox bool
	confined       bool          // there is a sandbox, or there must be
	proxy          *egress.Proxy // of bash and fetch; nil for none
}

// WithIgnored adds ignore patterns in the format of a .gitignore file. The tools list_files, glob
// and code_search leave out the files that match. The .gitignore files and .git/info/exclude of
// the workspace take precedence over these patterns. [GitExcludes] returns the patterns that the
// user has set for all repositories. Patterns of several options add up. Default: no patterns.
func WithIgnored(patterns string) Option {
	return func(c *config) error {
		c.ignored = append(append(c.ignored, patterns...), '\n')
		return nil
	}
}

// WithEnv adds variables to the environment of the commands that bash runs: "NAME=value" sets a
// variable, and "NAME" copies one from the host process. Variables of several options add up.
//
// Default: the variables that programs need to run, such as PATH, HOME, and the settings of
// languages and tool chains. A default variable is left out if its value is a URL with a login,
// because the login may be a secret. A variable that WithEnv adds is kept even if its value is
// such a URL.
//
// In commands of bash, git does not read the user's configuration, so it does not know an author
// for commits. To let git commit, set GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and
// GIT_COMMITTER_EMAIL here or in the environment of the host process.
func WithEnv(vars ...string) Option {
	return func(c *config) error {
		for _, v := range vars {
			name, _, _ := strings.Cut(v, "=")
			if name == "" || strings.ContainsRune(v, 0) {
				return &aycoder.ConfigError{Option: "WithEnv",
					Err: fmt.Errorf("not a variable: %q", name)}
			}
		}
		c.env = append(c.env, vars...)
		return nil
	}
}

// WithConflicts sets who resolves a conflict: an edit of the model that does not merge with what somebody
// else has changed in the file since the model was shown it. resolve gets the file with the texts of both
// sides and their merge, and returns the text that the file is to have in place of the present one, or false
// to leave the file as it is. It is called on the goroutine of the tool, may wait for a person, and should
// return when ctx ends; meanwhile other calls of the same tool wait. If the file has changed again by then,
// the resolution is merged with that, and resolve may be called again. The model is told what the file has
// in place of its text. resolve is not called for binary files and deletions. It is not an approval: whether
// the call may run was decided before. Default: none, so that a conflict changes nothing, and the model is
// shown both sides.
func WithConflicts(resolve func(ctx context.Context, file *edit.FileResult) (text string, ok bool)) Option {
	return func(c *config) error {
		c.resolve = resolve
		return nil
	}
}

// Coding returns the tools for a workspace, always in the same order: read_file, list_files,
// glob, code_search, edit_file, multi_edit, write_file, apply_patch, bash, job_output,
// job_stop, fetch, todo. The tools are safe for concurrent use. They share a [Shell], so each
// conversation needs a separate set of tools.
func Coding(ws FS, opts ...Option) ([]aycoder.Tool, error) {
	opts = append([]Option{WithShell(new(Shell))}, opts...)
	all := make([]aycoder.Tool, 0, 13)
	for _, make := range []func(FS, ...Option) (aycoder.Tool, error){
		ReadFile, ListFiles, Glob, CodeSearch, EditFile, MultiEdit, WriteFile, ApplyPatch,
		Bash,
	} {
		t, err := make(ws, opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	for _, make := range []func(...Option) (aycoder.Tool, error){JobOutput, JobStop, Fetch, Todo} {
		t, err := make(opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return maskAll(ws, opts, all)
}

// configure applies options, and requires a workspace.
func configure(ws FS, opts []Option) (*config, error) {
	if ws == nil {
		return nil, errors.New("new tool: workspace is nil")
	}
	return optioned(opts)
}

// optioned applies options.
func optioned(opts []Option) (*config, error) {
	var c config
	if err := option.Apply(&c, opts); err != nil {
		return nil, fmt.Errorf("new tool: %w", err)
	}
	confined := c.sandbox != nil || c.requireSandbox
	c.confined = confined
	if c.sandbox == nil {
		c.sandbox = NoSandbox()
	}
	if c.exec != nil && (confined || c.memory > 0) {
		return nil, errors.New("new tool: WithExec goes without WithSandbox, WithSandboxRequired and WithMemoryLimit, which are for this machine")
	}
	if c.exec == nil {
		c.local = &localExec{
			memory: c.memory, confined: confined, proxy: c.proxy,
			confiner: &confiner{sandbox: c.sandbox, require: c.requireSandbox},
		}
		c.exec = c.local
	}
	if c.proxy != nil && c.client != nil {
		return nil, errors.New("new tool: WithProxy goes without WithHTTPClient, which connects by itself")
	}
	c.environ = os.Environ
	if r, ok := c.exec.(RemoteExec); ok {
		c.environ = r.Environ
	}
	for _, wrap := range c.wrapExec {
		if c.exec = wrap(c.exec); c.exec == nil {
			return nil, errors.New("new tool: WithExecMiddleware returned nil")
		}
	}
	c.shell = cmp.Or(c.shell, new(Shell))
	if c.jobs == nil {
		c.jobs = c.shell.group()
	}
	return &c, nil
}

// Short names for the types in every tool's signature.
type (
	result     = aycoder.ToolResult
	invocation = aycoder.Invocation
)

// toolFunc is the form of a tool's function in this package, before guard makes its errors
// readable for a model.
type toolFunc[In any] func(context.Context, *aycoder.Invocation, In) (*aycoder.ToolResult, error)

// guard wraps the function of a tool. It does not call the function if the call was cancelled or
// if the arguments are not valid text, and it makes the errors of the function readable for a
// model.
func guard[In any](fn toolFunc[In]) toolFunc[In] {
	return func(ctx context.Context, inv *aycoder.Invocation, in In) (*aycoder.ToolResult, error) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := checkText(inv.Args); err != nil {
			return explain(err)
		}
		r, err := fn(workspace.WithCall(ctx, inv), inv, in)
		if err != nil {
			return explain(err)
		}
		return r, nil
	}
}

// problem is an error that the model can correct.
type problem struct{ kind, text string }

func (p *problem) Error() string { return p.kind + ": " + p.text }

// problemf returns a problem. The kind is a stable word that a model or a program can recognize,
// and the text says what to do next.
func problemf(kind, format string, args ...any) error {
	return &problem{kind, fmt.Sprintf(format, args...)}
}

// explain converts an error to an error result, if the model can do something about it. A full
// disk ends the run, because every further change would fail too.
func explain(err error) (*aycoder.ToolResult, error) {
	if e, ok := errors.AsType[*edit.ConflictError](err); ok {
		return conflictResult(e), nil
	}
	kind, text := "", ""
	if p, ok := errors.AsType[*problem](err); ok {
		kind, text = p.kind, p.text
	} else if e, ok := errors.AsType[*workspace.Error](err); ok {
		kind, text = string(e.Kind), e.Error()
	}
	switch kind {
	case "":
		return nil, err
	case string(workspace.KindNoSpace):
		return nil, aycoder.Fatal(err)
	}
	r := aycoder.ErrorResult(kind + ": " + printable(text))
	r.Summary = strings.ReplaceAll(kind, "_", " ")
	return r, nil
}

// kindOf returns the kind of a file error, or "" for another error.
func kindOf(err error) workspace.ErrorKind {
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		return e.Kind
	}
	return ""
}

// textResult returns a result with a text for the model and a short summary for the user.
func textResult(text, summary string) *aycoder.ToolResult {
	r := aycoder.TextResult(text)
	r.Summary = summary
	return r
}

// showEnds makes the model get of the content of a result, which is between begin and end, only the
// first head and the last tail bytes, together with what stands around the content. A content that the
// tool itself has cut to that size is a little longer, because it says so.
func showEnds(r *aycoder.ToolResult, begin, end, head, tail int) {
	if most := head + tail; end-begin > most+most/10 {
		r.Head, r.Tail = begin+head, len(r.Text())-end+tail
	}
}

// shownText returns what the model gets of the text of a result.
func shownText(r *aycoder.ToolResult) string {
	if r.Head+r.Tail == 0 {
		return r.Text()
	}
	return runes.Ends(r.Text(), r.Head, r.Tail)
}

// checkText refuses arguments with NUL or invalid Unicode. It examines the text that the
// model wrote, because package json replaces invalid Unicode.
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
			return 0, problemf("invalid_arguments",
				"the arguments have half a surrogate pair in them")
		}
		return 12, nil
	case 0xDC00 <= r && r <= 0xDFFF:
		return 0, problemf("invalid_arguments", "the arguments have half a surrogate pair in them")
	}
	return 6, nil
}

// unit parses \uXXXX, or returns -1.
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

// showPath quotes a path that has characters which would confuse a reader: a line break,
// an escape sequence, an invisible character.
func showPath(p string) string {
	for _, r := range p {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(p)
		}
	}
	return p
}

// plural formats a number with its noun: "1 line", "2 lines".
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
