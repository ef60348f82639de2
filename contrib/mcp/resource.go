package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

// capabilities returns what the server says that it has.
func (x *conn) capabilities() *mcp.ServerCapabilities {
	if res := x.session.InitializeResult(); res != nil && res.Capabilities != nil {
		return res.Capabilities
	}
	return &mcp.ServerCapabilities{}
}

// resourceTools are the tools by which the model lists and reads the resources of a server that has some. If the server
// has a tool of the same name, it has that one.
func (c *client) resourceTools(x *conn) []*tool {
	if x.capabilities().Resources == nil {
		return nil
	}
	define := func(name, description, schema string) *tool {
		d := &mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
		t, err := c.define(d)
		if err != nil { // the schemas are valid
			c.tell("%s: %v", name, err)
		}
		return t
	}
	list := define("list_resources", "Lists the resources of the server "+c.name+": their URIs, with names and descriptions.",
		`{"type":"object","additionalProperties":false}`)
	list.own = func(ctx context.Context, x *conn, _ json.RawMessage) (*mcp.CallToolResult, error) {
		text, err := answer(ctx, c, x, "list resources", func(ctx context.Context) (string, error) { return c.resources(ctx, x) })
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
	}
	read := define("read_resource", "Reads a resource of the server "+c.name+".",
		`{"type":"object","properties":{"uri":{"type":"string","description":"The URI, as it is listed or made from a template."}},"required":["uri"],"additionalProperties":false}`)
	read.own = func(ctx context.Context, x *conn, args json.RawMessage) (*mcp.CallToolResult, error) {
		var in struct{ URI string }
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		return c.read(ctx, x, in.URI)
	}
	return []*tool{list, read}
}

// resources describes the resources and the templates of resources.
func (c *client) resources(ctx context.Context, x *conn) (string, error) {
	list, err := all(ctx, c, x, "resources", func(ctx context.Context) iter.Seq2[*mcp.Resource, error] { return x.session.Resources(ctx, nil) })
	if err != nil {
		return "", err
	}
	templates, err := all(ctx, c, x, "templates", func(ctx context.Context) iter.Seq2[*mcp.ResourceTemplate, error] {
		return x.session.ResourceTemplates(ctx, nil)
	})
	if err != nil && !unknownMethod(err) {
		return "", err
	}
	var b strings.Builder
	line := func(uri, name, kind, description string) {
		fmt.Fprintf(&b, "%s: %s\n", uri, strings.Join(slices.DeleteFunc([]string{name, kind, description}, func(s string) bool { return s == "" }), "; "))
	}
	for _, r := range list {
		line(r.URI, r.Name, r.MIMEType, r.Description)
	}
	for _, r := range templates {
		line("template "+r.URITemplate, r.Name, r.MIMEType, r.Description)
	}
	if b.Len() == 0 {
		return "There are no resources.", nil
	}
	return b.String(), nil
}

func (c *client) read(ctx context.Context, x *conn, uri string) (*mcp.CallToolResult, error) {
	res, err := answer(ctx, c, x, "read "+clean(uri, 256), func(ctx context.Context) (*mcp.ReadResourceResult, error) {
		return x.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	})
	if err != nil {
		return nil, err
	}
	out := &mcp.CallToolResult{}
	for _, r := range res.Contents {
		out.Content = append(out.Content, &mcp.EmbeddedResource{Resource: r})
	}
	return out, nil
}

// Resource implements [harness.TextSource].
func (c *client) Resource(ctx context.Context, uri string) ([]aycoder.Part, error) {
	return c.texts(ctx, func(ctx context.Context, x *conn) ([]aycoder.Part, error) {
		if x.capabilities().Resources == nil {
			return nil, &Error{Server: c.name, Op: "read " + clean(uri, 256), Err: errors.New("the server has no resources")}
		}
		res, err := c.read(ctx, x, uri)
		if err != nil {
			return nil, err
		}
		return result(res, maxText).Parts, nil
	})
}

// texts gets something that the user has asked for.
func (c *client) texts(ctx context.Context, get func(context.Context, *conn) ([]aycoder.Part, error)) ([]aycoder.Part, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	x, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	return get(ctx, x)
}

// promptsOf asks for the prompts of a server that has some.
func (c *client) promptsOf(ctx context.Context, x *conn) ([]*mcp.Prompt, error) {
	if x.capabilities().Prompts == nil {
		return nil, nil
	}
	list, err := all(ctx, c, x, "prompts", func(ctx context.Context) iter.Seq2[*mcp.Prompt, error] { return x.session.Prompts(ctx, nil) })
	if unknownMethod(err) {
		return nil, nil
	}
	for _, p := range list {
		p.Arguments = withoutNulls(p.Arguments)
	}
	return list, err
}

// withoutNulls returns the values of a list of a server that are there.
func withoutNulls[T any](list []*T) []*T {
	return slices.DeleteFunc(list, func(v *T) bool { return v == nil })
}

// Prompts implements [harness.TextSource].
func (c *client) Prompts() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.prompts {
		if plainName := toolName(c.name, p.Name); !slices.Contains(names, plainName) {
			names = append(names, plainName)
		}
	}
	return names
}

// Prompt implements [harness.TextSource]. The words are the arguments, in their order; the last argument has the rest.
func (c *client) Prompt(ctx context.Context, name, words string) ([]aycoder.Part, error) {
	c.mu.Lock()
	i := slices.IndexFunc(c.prompts, func(p *mcp.Prompt) bool { return toolName(c.name, p.Name) == name })
	if i < 0 {
		c.mu.Unlock()
		return nil, &Error{Server: c.name, Op: "get prompt " + visible(name), Err: ErrGone}
	}
	p := c.prompts[i]
	c.mu.Unlock()
	op := "get prompt " + visible(p.Name)
	args, err := arguments(p.Arguments, words)
	if err != nil {
		return nil, &Error{Server: c.name, Op: op, Err: err}
	}
	return c.texts(ctx, func(ctx context.Context, x *conn) ([]aycoder.Part, error) {
		res, err := answer(ctx, c, x, op, func(ctx context.Context) (*mcp.GetPromptResult, error) {
			return x.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: args})
		})
		if err != nil {
			return nil, err
		}
		out := &mcp.CallToolResult{}
		for _, m := range withoutNulls(res.Messages) {
			if m.Role == "assistant" {
				out.Content = append(out.Content, &mcp.TextContent{Text: "[an example of an answer]"})
			}
			out.Content = append(out.Content, m.Content)
		}
		return result(out, maxText).Parts, nil
	})
}

// arguments gives words to the arguments of a prompt.
func arguments(want []*mcp.PromptArgument, words string) (map[string]string, error) {
	args := map[string]string{}
	rest := strings.TrimSpace(words)
	for i, a := range want {
		word := rest
		if i < len(want)-1 {
			word, rest, _ = strings.Cut(rest, " ")
			rest = strings.TrimSpace(rest)
		}
		switch {
		case word != "":
			args[a.Name] = word
		case a.Required:
			return nil, fmt.Errorf("the argument %s is missing", visible(a.Name))
		}
	}
	if len(want) == 0 && rest != "" {
		return nil, errors.New("it takes no arguments")
	}
	return args, nil
}

var _ harness.TextSource = (*client)(nil)
