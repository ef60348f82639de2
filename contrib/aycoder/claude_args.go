package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/cli"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// claudeArgs are what a host says when it starts the program. A part of it may come with the request initialize instead.
type claudeArgs struct {
	flags    []string // for [cli.Program]
	partial  bool     // the pieces of messages are wanted
	asks     bool     // the host answers questions
	bypass   bool     // it may choose to be asked about what is dangerous only
	mode     string
	model    string
	allow    []string
	deny     []string
	tools    []string // nil for all
	servers  map[string]config.Server
	strict   bool // there are no other servers
	schema   json.RawMessage
	system   string
	appended string
	texts    bool // those of the project may be used
	thinking int
	notes    []string // what the host should know
}

// The modes of the protocol, and ours. In the last one, nothing is asked.
var claudeModes = map[string]policy.Mode{
	"default": policy.Ask, "acceptEdits": policy.AcceptEdits, "plan": policy.Plan, "bypassPermissions": policy.FullAuto, "dontAsk": policy.Ask,
}

// modeOf returns our mode for one of the protocol.
func (a *claudeArgs) modeOf(name string) (policy.Mode, error) {
	m, ok := claudeModes[name]
	switch {
	case !ok:
		return "", unsupported("the permission mode %q", name)
	case m == policy.FullAuto && !a.bypass:
		return "", fmt.Errorf("%w: the mode %s must be allowed when the program is started", cli.ErrUsage, name)
	}
	return m, nil
}

func parseClaudeArgs(args []string) (*claudeArgs, error) {
	a := &claudeArgs{mode: "default", texts: true}
	fs := flag.NewFlagSet("aycoder", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	in, out := "", ""
	fs.StringVar(&in, "input-format", "", "")
	fs.StringVar(&out, "output-format", "", "")
	for _, name := range []string{"verbose", "print", "p", "await-initialize"} { // which this program does anyway
		fs.Bool(name, false, "")
	}
	fs.BoolVar(&a.partial, "include-partial-messages", false, "")
	fs.BoolVar(&a.bypass, "allow-dangerously-skip-permissions", false, "")
	fs.BoolVar(&a.strict, "strict-mcp-config", false, "")
	fs.StringVar(&a.mode, "permission-mode", a.mode, "")
	fs.StringVar(&a.model, "model", "", "")
	fs.StringVar(&a.system, "system-prompt", "", "")
	fs.StringVar(&a.appended, "append-system-prompt", "", "")
	fs.IntVar(&a.thinking, "max-thinking-tokens", 0, "")
	fs.Func("json-schema", "", func(s string) error { a.schema = json.RawMessage(s); return nil })
	fs.Func("mcp-config", "", a.mcpConfig)
	fs.Func("permission-prompt-tool", "", func(s string) error {
		if a.asks = s == "stdio"; !a.asks {
			return unsupported("a tool that answers questions")
		}
		return nil
	})
	fs.Func("thinking", "", func(s string) error {
		if s != "adaptive" {
			return unsupported("thinking %s", s)
		}
		return nil
	})
	fs.Func("setting-sources", "", func(s string) error {
		a.texts = slices.Contains(strings.Split(s, ","), "project")
		return nil
	})
	for _, l := range []struct {
		to    *[]string
		names []string
	}{
		{&a.allow, []string{"allowedTools", "allowed-tools"}}, {&a.deny, []string{"disallowedTools", "disallowed-tools"}}, {&a.tools, []string{"tools"}},
	} {
		for _, name := range l.names {
			fs.Func(name, "", func(s string) error { *l.to = append(append([]string{}, *l.to...), splitTools(s)...); return nil })
		}
	}
	for theirs, ours := range map[string]string{
		"resume": "r", "max-turns": "max-turns", "max-budget-usd": "max-cost", "add-dir": "add-dir", "profile": "profile",
	} {
		fs.Func(theirs, "", func(s string) error {
			if s == "" {
				return errors.New("is empty")
			}
			a.flags = append(a.flags, "-"+ours+"="+s)
			return nil
		})
	}
	for theirs, ours := range map[string]string{"continue": "c", "no-session-persistence": "no-session", "trust": "trust", "sandbox": "sandbox"} {
		fs.BoolFunc(theirs, "", func(s string) error { a.flags = append(a.flags, "-"+ours+"="+s); return nil })
	}
	if err := fs.Parse(args); err != nil {
		return nil, wrongFlag(err)
	}
	switch {
	case in != "stream-json" || out != "stream-json":
		return nil, unsupported("other formats than stream-json in both directions")
	case fs.NArg() > 0:
		return nil, unsupported("a prompt among the arguments")
	}
	if len(a.tools) == 1 && a.tools[0] == "default" {
		a.tools = nil
	}
	mode, err := a.modeOf(a.mode)
	if err != nil {
		return nil, err
	}
	a.flags = append(a.flags, "-mode="+string(mode))
	if a.model != "" && a.model != "default" {
		a.flags = append(a.flags, "-model="+modelName("anthropic", a.model))
	}
	return a, nil
}

// splitTools splits a list at the commas and blanks that are not in parentheses.
func splitTools(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth <= 0 && (r == ',' || r == ' ')
	})
}

// strictly decodes JSON. A key that is not known is an error.
func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// mcpConfig reads servers that the host passes. Those inside the host have no address, and come with initialize.
func (a *claudeArgs) mcpConfig(text string) error {
	var list struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := strictly([]byte(text), &list); err != nil {
		return unsupported("these servers: %v", err)
	}
	return a.addServers(list.Servers)
}

func (a *claudeArgs) addServers(list map[string]json.RawMessage) error {
	for name, data := range list {
		var s struct{ Type string }
		_ = json.Unmarshal(data, &s) // what is not an object is a problem below
		if s.Type == "sdk" {
			continue
		}
		file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: data}})
		if err != nil {
			return err
		}
		parts := plugin.ParseServers(file)
		switch {
		case s.Type == "sse":
			return unsupported("server %s: its type is sse", name)
		case len(parts.Problems) > 0:
			return unsupported("server %s: %s", name, parts.Problems[0].Message)
		case a.servers == nil:
			a.servers = map[string]config.Server{}
		}
		maps.Copy(a.servers, parts.Servers)
	}
	return nil
}

// options are what the arguments say about a runtime.
func (a *claudeArgs) options() ([]harness.Option, error) {
	allow, err1 := a.rules(policy.RuleAllow, a.allow)
	deny, err2 := a.rules(policy.RuleDeny, a.deny)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	opts := []harness.Option{
		harness.WithPolicyOptions(policy.WithRules(policy.User, append(allow, deny...)...)),
		harness.WithToolFilter(a.offered),
	}
	if rules := a.unreadable(); rules != nil {
		opts = append(opts, harness.WithFileMiddleware(func(inner tools.FS) tools.FS { return newUnread(inner, rules) }))
	}
	for _, name := range a.tools {
		if _, ok := project.ParseToolRef(name); !ok {
			a.notes = append(a.notes, "there is no tool like "+strconv.Quote(name)+" here")
		}
	}
	if !a.texts {
		opts = append(opts, harness.WithProjectTexts(false))
	}
	if a.system != "" {
		opts = append(opts, harness.WithSection("base", a.system))
	}
	if a.appended != "" {
		opts = append(opts, harness.WithSection("host", a.appended))
	}
	if a.thinking > 0 {
		opts = append(opts, harness.WithLoopOptions(aycoder.WithThinking(a.thinking)))
	}
	for name, s := range a.servers {
		opts = append(opts, harness.WithServer(name, s))
	}
	return opts, nil
}

// editing are the tools that change files and nothing else.
var editing = []string{"edit_file", "multi_edit", "write_file"}

// rules translates entries such as "Bash(go test:*)".
func (a *claudeArgs) rules(action policy.RuleAction, entries []string) (rules []policy.Rule, err error) {
	for _, entry := range entries {
		ref, ok := project.ParseToolRef(entry)
		if !ok {
			a.notes = append(a.notes, "there is no tool like "+strconv.Quote(entry)+" here")
			continue
		}
		theirs, _, limited := strings.Cut(entry, "(")
		names := []string{ref.Name}
		for _, ours := range editing {
			if ours != ref.Name && (slices.Contains(dialect.Names(ours), theirs) || action == policy.RuleDeny && limited && theirs == "Edit") {
				names = append(names, ours)
			}
		}
		if strings.HasPrefix(theirs, "mcp__") && strings.Count(theirs, "__") == 1 { // all tools of a server
			names = []string{theirs + "__*"}
		}
		pattern, absolute := strings.CutPrefix(strings.TrimPrefix(ref.Rule, "./"), "/")
		patterns := []string{pattern}
		switch path := slices.Contains(editing, ref.Name) || ref.Name == "read_file"; {
		case !path:
			patterns = []string{ref.Rule}
		case absolute && strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, "~"):
			return nil, unsupported("the rule %s about a file outside of the workspace", entry)
		case action == policy.RuleDeny && pattern != "":
			patterns = forbidden(ref.Rule)
		}
		for _, name := range names {
			for _, p := range patterns {
				rules = append(rules, policy.Rule{Action: action, Tool: name, Pattern: p})
			}
		}
	}
	return rules, nil
}

// forbidden returns the patterns of files that may not be read or edited. As in a .gitignore file, a pattern without a slash
// holds in every directory, and one that names a directory holds for what is below.
func forbidden(rule string) []string {
	pattern := strings.TrimSuffix(strings.TrimPrefix(rule, "./"), "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	pattern = strings.TrimPrefix(pattern, "/")
	return []string{pattern, pattern + "/**"}
}

// unread keeps what may not be read from all tools that work on files, by whatever name or link they come to it: to them, it
// is neither listed nor opened. A rule of the policy could only forbid a search as a whole.
type unread struct {
	tools.FS
	rules *policy.Policy
}

// unreadable returns the rules about what may not be read.
func (a *claudeArgs) unreadable() (rules []policy.Rule) {
	for _, entry := range a.deny {
		ref, ok := project.ParseToolRef(entry)
		if !ok || ref.Name != "read_file" || ref.Rule == "" {
			continue
		}
		for _, pattern := range forbidden(ref.Rule) {
			rules = append(rules, policy.Rule{Action: policy.RuleDeny, Tool: "read", Pattern: pattern})
		}
	}
	return rules
}

func newUnread(inner tools.FS, rules []policy.Rule) *unread {
	opts := []policy.Option{policy.WithWorkspace(inner.Dir()), policy.WithRules(policy.User, rules...)}
	u := &unread{FS: inner}
	for _, root := range u.Roots()[1:] {
		opts = append(opts, policy.WithRoot(root.Name, root.Dir))
	}
	u.rules, _ = policy.New(opts...) // nil lets nothing through
	return u
}

// Roots returns the directories of the files.
func (u *unread) Roots() []workspace.Root {
	if r, ok := u.FS.(tools.RootsFS); ok {
		return r.Roots()
	}
	return []workspace.Root{{Dir: u.Dir()}}
}

func (u *unread) denied(name string) bool {
	args, err := json.Marshal(map[string]string{"path": name})
	spec := &aycoder.ToolSpec{Effect: aycoder.EffectReadOnly, Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}}
	return err != nil || u.rules == nil || !u.rules.Decide(context.Background(), &aycoder.ToolUse{Name: "read", Args: args}, spec).Allows()
}

// Open refuses files that may not be read.
func (u *unread) Open(name string) (fs.File, error) {
	if u.denied(name) {
		return nil, &workspace.Error{Op: "read", Path: name, Kind: workspace.KindSensitivePath, Err: errors.New("it may not be read")}
	}
	return u.FS.Open(name)
}

// ReadDir leaves out what may not be read. The directories above it are listed: of them, a rule would forbid all that is below.
func (u *unread) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	entries, err := u.FS.ReadDir(ctx, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		full := path.Join(name, e.Name())
		if !e.Type().IsRegular() {
			full += "/\x01" // a file that only wildcards mean
		}
		return u.denied(full)
	}), err
}

// offered returns the tools that the model may call. A patch has no name in the protocol, and the host cannot answer
// questions of the model.
func (a *claudeArgs) offered(all []aycoder.Tool) []aycoder.Tool {
	return slices.DeleteFunc(slices.Clone(all), func(t aycoder.Tool) bool {
		name := t.Spec().Name
		is := func(entry string) bool {
			ref, _ := project.ParseToolRef(entry)
			return ref.Rule == "" && (ref.Name == name || slices.Contains(dialect.Names(name), entry))
		}
		server := strings.HasPrefix(name, "mcp__") || name == "tool_search"
		return name == "apply_patch" || name == "ask_user" || slices.ContainsFunc(a.deny, is) ||
			a.tools != nil && !server && !slices.ContainsFunc(a.tools, is)
	})
}
