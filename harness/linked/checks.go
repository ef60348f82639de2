package linked

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/insight/forecast"
	"github.com/aycoder/aycoder/insight/suggest"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/tools"
)

// Checks is a [harness.Checker]: see [lsp.KnownCommand] and [lsp.Known]. A language server starts when it is first needed. It, and
// a checker that runs code of the workspace, runs only where the approver of the runtime would allow the same command of bash
// without a question, in this mode and with these rules. Otherwise a notice says once which rule would allow it, or that none can. eslint
// and tsc are those of node_modules/.bin, if they are there. A call that changes files waits at most 10 seconds for all of them.
func Checks(rt *harness.Runtime, e tools.Exec, start func(context.Context, *exec.Cmd) error, s config.Settings) (checks harness.Checks, err error) {
	opts := []lsp.Option{lsp.WithExec(e), lsp.WithWait(10 * time.Second), lsp.WithPermission((&permission{rt: rt, told: map[string]bool{}}).may)}
	if start != nil {
		opts = append(opts, lsp.WithStart(start))
	}
	for _, name := range slices.Sorted(maps.Keys(s.LanguageServers)) {
		server, err := languageServer(name, s.LanguageServers[name])
		if err != nil {
			return checks, fmt.Errorf("settings of language server %q: %w", name, err)
		}
		opts = append(opts, lsp.WithServer(server))
	}
	for _, check := range s.Tools.Checks {
		name := string(check)
		if local := "node_modules/.bin/" + name; exists(rt.Files, local) {
			if _, ok := lsp.KnownCommand(local); ok {
				name = local
			}
		}
		cmd, ok := lsp.KnownCommand(name)
		if !ok {
			return checks, fmt.Errorf("there is no checker %q", name)
		}
		opts = append(opts, lsp.WithCommand(cmd))
	}
	c, err := lsp.New(rt.Files, opts...)
	if err != nil {
		return checks, err
	}
	list, err := c.Tools()
	return harness.Checks{Around: c.Middleware, Tools: list, Close: c.Close}, err
}

// languageServer returns a server of the configuration, with what is known of one of its name.
func languageServer(name string, c config.LanguageServer) (s lsp.Server, err error) {
	s, _ = lsp.Known(name)
	if c.Command != "" {
		s.Command = append([]string{c.Command}, c.Args...)
	} else if c.Args != nil && len(s.Command) > 0 {
		s.Command = append(s.Command[:1], c.Args...)
	}
	if len(c.Languages) > 0 {
		s.Languages = c.Languages
	}
	for _, key := range slices.Sorted(maps.Keys(c.Env)) {
		s.Env = append(s.Env, key+"="+c.Env[key])
	}
	if len(c.Settings) > 0 {
		var known map[string]any
		_ = json.Unmarshal(s.Settings, &known) // there may be none
		s.Settings, err = json.Marshal(merged(known, c.Settings))
	}
	return s, err
}

// merged returns the values of both, also those of tables in them. Over takes precedence.
func merged(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range over {
		below, ok := out[name].(map[string]any)
		above, both := v.(map[string]any)
		if ok && both {
			v = merged(below, above)
		}
		out[name] = v
	}
	return out
}

func exists(files tools.FS, name string) bool {
	f, err := files.Open(name)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// permission asks the approver of a runtime about commands that run code of the workspace.
type permission struct {
	rt *harness.Runtime

	mu   sync.Mutex
	told map[string]bool
}

func (p *permission) may(ctx context.Context, cmd lsp.Command, script string) bool {
	program, pattern := ruleFor(cmd, script)
	why := " without the tool bash"
	i := slices.IndexFunc(p.rt.Tools, func(t aycoder.Tool) bool { return t.Spec().Name == "bash" })
	args, err := json.Marshal(map[string]string{"command": script})
	if i >= 0 && err == nil {
		spec := p.rt.Tools[i].Spec()
		v := p.rt.Approver.Decide(ctx, &aycoder.ToolUse{ID: "check", Name: "bash", Args: args}, &spec)
		if v.Allows() {
			return true
		}
		why = ": no rule can allow that here"
		if len(v.Grounds().Suggested) > 0 {
			why = " unless a rule allows it: bash:" + pattern
		}
	}
	text := program + " runs code of this project, so it does not run" + why
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.told[text] {
		p.told[text] = true
		p.rt.Notify("checks", text)
	}
	return false
}

// ruleFor returns what a command is called, and the pattern of a rule that allows it. For a server, that is exactly its command.
func ruleFor(cmd lsp.Command, script string) (program, pattern string) {
	if cmd.Files == "" {
		return cmd.Script, strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(script)
	}
	_, after, ok := strings.Cut(cmd.Script, "&& ")
	if !ok {
		after = cmd.Script
	}
	words, n := strings.Fields(after), 1
	if words[0] == "cargo" || words[0] == "golangci-lint" {
		n = 2
	}
	program = strings.Join(words[:n], " ")
	return program, program + " *"
}

// Insight returns a [harness.Insighter] for the tools of package insight: what could be done next in the workspace, what a task
// may take by what was done there before, and what has become of a file. They work on this machine: a workspace on another
// machine is an error. dismissed returns the file with the suggestions for a directory that the user has dismissed: see
// [suggest.Load]. It may be nil, and it may return "".
func Insight(dismissed func(dir string) string) harness.Insighter {
	return func(rt *harness.Runtime, store journal.Store, names []config.Insight) (list []aycoder.Tool, err error) {
		if rt.Workspace == nil {
			return nil, fmt.Errorf("the workspace is on another machine")
		}
		dir := rt.Files.Dir()
		for _, name := range names {
			var t aycoder.Tool
			switch name {
			case "suggestions":
				o := suggest.Options{Files: rt.Files, Dir: dir}
				if dismissed != nil {
					if file := dismissed(dir); file != "" {
						if o.Dismissed, err = suggest.Load(file); err != nil {
							return nil, err
						}
					}
				}
				t, err = suggest.Tool(o)
			case "forecast":
				t, err = forecast.Tool(forecast.Sources{Store: store, Files: rt.Files, Dir: dir,
					Keep: func(e *journal.Entry) bool { return e.Dir == dir }})
			case "file_history":
				t, err = code.FileTool(dir, rt.Files.Rel)
			default:
				err = fmt.Errorf("there is no tool %q", name)
			}
			if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
		return list, nil
	}
}
