package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/program"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxPrograms    = 128
	defaultTimeout = time.Minute
	longestTimeout = 10 * time.Minute
)

// Program is a tool that is a program. For each call it is started in the directory of the project with a line of JSON
// as its standard input, {"tool": …, "arguments": {…}}, and writes an object to its standard output:
// {"text": …}, or {"error": …} for what the model should do instead. An exit code other than 0 is an error, too.
type Program struct {
	// Name consists of letters, digits, "_" and "-". The model reads it after that of the plugin: "plugin__lint__check".
	Name        string `json:"name"`
	Description string `json:"description"`
	// Schema is the JSON Schema of the arguments, which are an object. Default: any object.
	Schema json.RawMessage `json:"inputSchema"`
	// Effect is "read" or "write". It gives no right: every call is decided on as one that may write, since nobody has
	// checked what the program does. A program that only reads is confined to that where there is a sandbox. Default:
	// write.
	Effect string `json:"effect"`
	// Command is the program with its arguments. ${CLAUDE_PLUGIN_ROOT} in it is the directory of the plugin.
	Command []string `json:"command"`
	// Timeout is in seconds, and at most 600. Default: 60.
	Timeout float64 `json:"timeout"`
}

// programs takes the tools of the manifest that can be used.
func (p *Plugin) programs(list []Program) {
	for _, t := range list {
		tool := p.tool(t, Host{})
		_, err := tool.spec.CheckArgs(json.RawMessage("{}"))
		switch {
		case len(p.Programs) == maxPrograms:
			err = fmt.Errorf("there are more than %d", maxPrograms)
		case !plain().MatchString(t.Name) || strings.Contains(tool.spec.Name, ".") || len(tool.spec.Name) > 64:
			err = errors.New("that is no name for a tool")
		case t.Description == "":
			err = errors.New("it has no description, so nobody could know when to use it")
		case len(t.Command) == 0 || t.Command[0] == "":
			err = errors.New("it has no command")
		case strings.ContainsRune(strings.Join(t.Command, ""), 0):
			err = errors.New("its command has a NUL")
		case t.Effect != "" && t.Effect != "read" && t.Effect != "write":
			err = fmt.Errorf("there is no effect %.80q", t.Effect)
		case t.Timeout < 0:
			err = errors.New("its timeout is negative")
		case len(t.Schema) > 0 && t.Schema[0] != '{':
			err = errors.New("its inputSchema is no object")
		default:
			err = schemaError(err)
		}
		if err != nil {
			p.warn("plugin.json", 0, "tool %.80q is left out: %v", t.Name, err)
			continue
		}
		p.Programs = append(p.Programs, t)
	}
}

// schemaError returns the error that is about the schema and not about missing arguments.
func schemaError(err error) error {
	if _, ok := errors.AsType[*aycoder.ConfigError](err); ok {
		return err
	}
	return nil
}

// Host is where programs run.
type Host struct {
	// Exec runs them, with its sandbox. Root is the directory of the project, and Env the whole environment.
	Exec tools.Exec
	Root string
	Env  []string
	// Allowed is called right before a program is started: its error means that it cannot run. Default: Verify of the
	// plugin.
	Allowed func(context.Context) error
}

// Tools returns the programs as tools of a model.
func (p *Plugin) Tools(h Host) []aycoder.Tool {
	var out []aycoder.Tool
	for _, t := range p.Programs {
		out = append(out, p.tool(t, h))
	}
	return out
}

func (p *Plugin) tool(t Program, h Host) *tool {
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	if h.Allowed == nil {
		h.Allowed = p.Verify
	}
	return &tool{program: t, plugin: p, host: h, spec: aycoder.ToolSpec{
		Name: "plugin__" + p.Name + "__" + t.Name, Description: tools.EscapeInvisible(t.Description), Schema: schema, Effect: aycoder.EffectWrite,
		OpenWorld: true,
	}}
}

// A tool runs a program.
type tool struct {
	program Program
	plugin  *Plugin
	host    Host
	spec    aycoder.ToolSpec
}

// Spec implements aycoder.Tool.
func (t *tool) Spec() aycoder.ToolSpec { return t.spec }

// Call implements aycoder.Tool.
func (t *tool) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	if err := t.host.Allowed(ctx); err != nil {
		return nil, err
	}
	in, err := json.Marshal(map[string]any{"tool": t.program.Name, "arguments": inv.Args})
	if err != nil {
		return nil, err
	}
	reads := t.program.Effect == "read" || inv.ReadOnly
	res, err := program.Run(ctx, t.host.Exec, program.Command{
		Line: t.line(), Input: string(in) + "\n", Root: t.host.Root, Timeout: t.timeout(), ReadOnly: reads, Network: !reads,
		Env: append(t.host.Env[:len(t.host.Env):len(t.host.Env)], rootVariable+"="+t.plugin.Dir),
	})
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("it ended with exit code %d", res.Code)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, t.failed(err, res.Stderr)
	}
	return t.answer(res)
}

func (t *tool) failed(err error, stderr string) error {
	if stderr != "" {
		err = fmt.Errorf("%w: %s", err, stderr)
	}
	return &Error{Op: "run tool " + t.program.Name + " of", Plugin: t.plugin.Name, Err: err}
}

// line is the command for a shell.
func (t *tool) line() string {
	var words []string
	for _, w := range t.program.Command {
		words = append(words, program.Quote(t.plugin.inRoot(w)))
	}
	return strings.Join(words, " ")
}

func (t *tool) timeout() time.Duration {
	if t.program.Timeout == 0 {
		return defaultTimeout
	}
	return time.Duration(min(t.program.Timeout, longestTimeout.Seconds()) * float64(time.Second))
}

// answer reads what the program has written.
func (t *tool) answer(res program.Result) (*aycoder.ToolResult, error) {
	var out struct {
		Text  *string `json:"text"`
		Error string  `json:"error"`
	}
	switch err := json.Unmarshal([]byte(res.Stdout), &out); {
	case err != nil:
		return nil, t.failed(fmt.Errorf("its answer is not understood: %w", err), res.Stderr)
	case out.Error != "":
		return aycoder.ErrorResult(out.Error), nil
	case out.Text == nil:
		return nil, t.failed(errors.New("its answer has neither text nor error"), res.Stderr)
	}
	return aycoder.TextResult(*out.Text), nil
}
