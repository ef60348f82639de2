package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxTools       = 512     // of a server
	maxDescription = 8 << 10 // bytes
	maxSchema      = 64 << 10
	maxName        = 64
)

// A tool is a tool of a server, with the definition that it had when the turn began.
type tool struct {
	c      *client
	spec   aycoder.ToolSpec
	remote string            // the server's own name of it
	args   map[string]string // its own names of arguments that have others here
	login  bool              // it is the login tool
	// own does what a tool of this package does, which the server does not have. It is nil for others.
	own func(ctx context.Context, x *conn, args json.RawMessage) (*mcp.CallToolResult, error)
}

// Spec implements [aycoder.Tool].
func (t *tool) Spec() aycoder.ToolSpec { return t.spec }

// Preview implements [aycoder.Previewer]. It names the definition, so that an answer that is given later, perhaps in
// another process, is about this definition.
func (t *tool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	return fmt.Sprintf("tool %s of server %s, definition %s\n%s", visible(t.remote), t.c.name, t.spec.Definition, inv.Args), nil
}

// Call implements [aycoder.Tool].
func (t *tool) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	if t.login {
		return t.c.enter(ctx, inv.Progress)
	}
	ctx, cancel := t.c.limit(ctx)
	defer cancel()
	res, err := t.ask(ctx, inv)
	if errors.Is(err, errUnsent) { // the connection was lost at the same time; the server knows nothing of the call
		res, err = t.ask(ctx, inv)
	}
	if err != nil {
		return nil, err
	}
	return result(res, max(inv.Whole, maxText)), nil
}

func (t *tool) ask(ctx context.Context, inv *aycoder.Invocation) (*mcp.CallToolResult, error) {
	x, err := t.c.prepared(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case t.own != nil:
		return t.own(ctx, x, inv.Args)
	}
	return t.c.call(ctx, x, t.remote, t.ownArgs(inv.Args), inv.Progress)
}

// prepared returns a connection on which the tool is still what it was.
func (c *client) prepared(ctx context.Context, t *tool) (*conn, error) {
	x, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := slices.IndexFunc(c.tools, func(o aycoder.Tool) bool { return o.Spec().Name == t.spec.Name })
	switch {
	case now < 0:
		return nil, &Error{Server: c.name, Op: "call " + visible(t.remote), Err: ErrGone}
	case c.tools[now] != t:
		return nil, &Error{Server: c.name, Op: "call " + visible(t.remote), Err: ErrChanged}
	}
	return x, nil
}

// list asks for the tools. Those whose definitions are as they were stay the same values, so that a runtime sees no
// change where there is none. busy is held.
func (c *client) list(ctx context.Context, x *conn) error {
	c.mu.Lock()
	c.stale = false // a notice that comes from now on counts
	before := c.tools
	c.mu.Unlock()
	defs, err := all(ctx, c, x, "tools", func(ctx context.Context) iter.Seq2[*mcp.Tool, error] { return x.session.Tools(ctx, nil) })
	var prompts []*mcp.Prompt
	if err == nil {
		prompts, err = c.promptsOf(ctx, x)
	}
	if err != nil {
		c.changed()
		return c.failed(ctx, "list tools", x, err)
	}
	c.mu.Lock()
	c.prompts = prompts
	c.mu.Unlock()
	var now []aycoder.Tool
	seen := map[string]bool{}
	for _, d := range defs {
		t, err := c.define(d)
		switch {
		case err != nil:
		case d.Name == "":
			err = errors.New("it has no name")
		case seen[t.spec.Name]:
			err = errors.New("there is another of this name")
		case c.login != nil && d.Name == loginName:
			err = errors.New("the tool that asks for a login has this name")
		}
		if err != nil {
			c.tell("tool %s is left out: %v", visible(d.Name), err)
			continue
		}
		seen[t.spec.Name] = true
		now = append(now, known(before, t))
	}
	for _, t := range c.resourceTools(x) {
		if !seen[t.spec.Name] {
			now = append(now, known(before, t))
		}
	}
	if c.login != nil && c.login.used() {
		now = append(now, known(before, c.loginTool()))
	}
	if !slices.Equal(before, now) {
		c.mu.Lock()
		c.tools = now
		c.mu.Unlock()
	}
	return nil
}

// known returns the value that the tool had before, if it has the same definition.
func known(before []aycoder.Tool, t *tool) aycoder.Tool {
	if i := slices.IndexFunc(before, func(o aycoder.Tool) bool { return o.Spec().Definition == t.spec.Definition }); i >= 0 {
		return before[i]
	}
	return t
}

// all returns at most maxTools of what a list has, without nulls, and at most maxMessage bytes. The sequence asks for one page after the other.
func all[T any](ctx context.Context, c *client, x *conn, what string, list func(context.Context) iter.Seq2[*T, error]) ([]*T, error) {
	found, err := await(ctx, c, x, func(ctx context.Context) (found []*T, err error) {
		bytes := 0
		for v, err := range list(ctx) {
			if err != nil {
				return nil, err
			}
			if v == nil {
				continue
			}
			data, err := json.Marshal(v)
			if bytes += len(data); err != nil || bytes > maxMessage {
				c.tell("its %s have more than %d bytes, and the rest is left out", what, maxMessage)
				break
			}
			if found = append(found, v); len(found) > maxTools {
				break
			}
		}
		return found, nil
	})
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		c.abandon(x)
	}
	if len(found) > maxTools {
		c.tell("it has more than %d %s, and the rest is left out", maxTools, what)
		found = found[:maxTools]
	}
	return found, err
}

// define makes a tool of a definition.
func (c *client) define(d *mcp.Tool) (*tool, error) {
	schema, err := json.Marshal(d.InputSchema)
	switch {
	case err != nil:
		return nil, err
	case len(schema) > maxSchema:
		return nil, fmt.Errorf("its schema has %d bytes, more than %d", len(schema), maxSchema)
	case string(schema) == "null":
		schema = []byte(`{"type":"object"}`)
	}
	definition := c.definition(d, schema)
	schema, args, err := adapt(schema)
	if err != nil {
		return nil, err
	}
	hints := cmp.Or(d.Annotations, &mcp.ToolAnnotations{})
	spec := aycoder.ToolSpec{
		Name: toolName(c.name, d.Name), Description: clean(d.Description, maxDescription), Schema: schema,
		Definition: definition, OpenWorld: true,
		// A hint that warns is taken as it is.
		Destructive: hints.DestructiveHint != nil && *hints.DestructiveHint && !hints.ReadOnlyHint,
	}
	if trusted(c.s) {
		spec.OpenWorld = hints.OpenWorldHint == nil || *hints.OpenWorldHint
		if hints.ReadOnlyHint {
			spec.Effect = aycoder.EffectReadOnly
		}
	}
	if _, err := spec.CheckArgs(json.RawMessage(`{}`)); err != nil {
		if bad, ok := errors.AsType[*aycoder.ConfigError](err); ok {
			return nil, bad.Err
		}
	}
	return &tool{c: c, spec: spec, remote: d.Name, args: args}, nil
}

// trusted reports whether the user, and not a project, has said that the server is to be believed.
func trusted(s config.Server) bool {
	return s.Trust && s.Origin.Source != config.Project && s.Origin.Source != config.Local
}

// definition identifies what is approved: which program or address it is, and what its tool says of itself.
func (c *client) definition(d *mcp.Tool, schema []byte) string {
	data, err := json.Marshal([]any{c.s.Command, c.s.Args, c.s.URL, d.Name, d.Description, json.RawMessage(schema), d.Annotations})
	if err != nil {
		data = fmt.Append(nil, d.Name, d.Description, string(schema)) // of a value that was decoded from JSON, so never
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// plain reports whether a name can be told from the rest of a tool's name.
func plain(name string) bool {
	odd := func(r rune) bool { return !letter(r) }
	return name != "" && len(name) <= 32 && !strings.ContainsFunc(name, odd) && !strings.Contains(name, "__") &&
		name == strings.Trim(name, "_")
}

func letter(r rune) bool {
	return r == '_' || r == '-' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// toolName returns the name of a tool for the model.
func toolName(server, name string) string { return portable("mcp__"+server+"__", name, "") }

// portable returns a name that all services of models take, which may also have the given characters. If it cannot be the
// name itself, a part of its digest keeps it apart.
func portable(prefix, name, also string) string {
	clean := strings.Map(func(r rune) rune {
		if letter(r) || strings.ContainsRune(also, r) {
			return r
		}
		return '_'
	}, name)
	full := prefix + clean
	if clean == name && name != "" && len(full) <= maxName {
		return full
	}
	sum := sha256.Sum256([]byte(name))
	return runes.Cut(full, maxName-9) + "_" + hex.EncodeToString(sum[:4])
}

// visible returns the server's own name of a tool or prompt, as people may see it.
func visible(name string) string { return tools.EscapeInvisible(clean(name, maxName)) }

// clean returns a text of a server as others may see it, in at most n bytes.
func clean(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, runes.Clean(text))
	return runes.Shorten(text, n)
}
