package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
)

// A Question is one that a server asks the user, during a call or at any time. Its texts are a stranger's, so a host
// says which server asks, and warns of passwords.
type Question struct {
	// Server is the name of the server in the configuration.
	Server string
	// Message says what is asked for.
	Message string
	// Schema is the JSON Schema of the answer, an object of plain values, or nil.
	Schema json.RawMessage
	// URL is an address that the user is asked to visit, or "". Nobody has visited it.
	URL string
}

// An Answer is one to a [Question]. The zero value dismisses it.
type Answer struct {
	// Accept says that the user has answered, and Decline that the user has refused to.
	Accept, Decline bool
	// Content is a JSON object that matches the schema, if there is one.
	Content json.RawMessage
}

// WithElicitation sets the function that puts questions of servers to the user. It may be called several times at once.
// ctx ends with the connection. Default: none, and servers learn that nobody can be asked.
func WithElicitation(ask func(ctx context.Context, q Question) (Answer, error)) Option {
	return func(o *options) error { o.elicit = ask; return nil }
}

// WithSampling sets the function that lets servers ask a model. A host asks its user first, or bounds what it costs:
// the request is a stranger's, and only its texts and images are in it. The protocol has deprecated it. Default: none,
// and servers learn that there is no model.
func WithSampling(sample func(ctx context.Context, server string, req *aycoder.Request) (*aycoder.Response, error)) Option {
	return func(o *options) error { o.sample = sample; return nil }
}

// questions sets what answers the server's own requests.
func (c *client) questions(o *mcp.ClientOptions) {
	if c.elicit != nil {
		o.Capabilities.Elicitation = &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}
		o.ElicitationHandler = c.elicited
	}
	if c.sample != nil {
		o.Capabilities.Sampling = &mcp.SamplingCapabilities{} // without tools
		o.CreateMessageWithToolsHandler = c.sampled
	}
}

func (c *client) elicited(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	ctx, cancel := c.untilClose(ctx)
	defer cancel()
	answered, err := c.asks()
	if err != nil {
		return nil, err
	}
	defer answered()
	q := Question{Server: c.name, Message: clean(req.Params.Message, 4<<10), URL: clean(req.Params.URL, 4<<10)}
	if req.Params.RequestedSchema != nil {
		if q.Schema, err = json.Marshal(req.Params.RequestedSchema); err != nil {
			return nil, err
		} else if len(q.Schema) > maxSchema {
			return nil, refused(fmt.Errorf("the schema has %d bytes, more than %d", len(q.Schema), maxSchema))
		}
	}
	a, err := c.elicit(ctx, q)
	if err != nil {
		return nil, refused(err)
	}
	res := &mcp.ElicitResult{Action: "cancel"}
	switch {
	case a.Decline:
		res.Action = "decline"
	case a.Accept:
		res.Action = "accept"
		if len(a.Content) > 0 {
			if err := json.Unmarshal(a.Content, &res.Content); err != nil {
				return nil, refused(fmt.Errorf("answer to server %s: %w", c.name, err))
			}
		} else if q.URL == "" {
			res.Content = map[string]any{}
		}
	}
	return res, nil
}

// refused is what a server learns of an error of the host. It is not one of the connection.
func refused(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

func (c *client) sampled(ctx context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	ctx, cancel := c.untilClose(ctx)
	defer cancel()
	answered, err := c.asks()
	if err != nil {
		return nil, err
	}
	defer answered()
	p := req.Params
	out := &aycoder.Request{MaxTokens: int(min(max(p.MaxTokens, 1), 1<<20)), Stop: p.StopSequences}
	if p.SystemPrompt != "" {
		out.System = []*aycoder.Text{{Text: p.SystemPrompt}}
	}
	for _, m := range withoutNulls(p.Messages) {
		r := &resulter{left: maxText}
		for _, part := range m.Content {
			r.content(part)
		}
		role := aycoder.RoleUser
		if m.Role == "assistant" {
			role = aycoder.RoleAssistant
		}
		out.Messages = append(out.Messages, &aycoder.Message{Role: role, Parts: r.parts})
	}
	resp, err := c.sample(ctx, c.name, out)
	if err != nil {
		return nil, refused(err)
	}
	if resp == nil || resp.Message == nil {
		return nil, refused(errors.New("the model has not answered"))
	}
	stop := map[aycoder.StopReason]string{aycoder.StopMaxTokens: "maxTokens", aycoder.StopSequence: "stopSequence"}[resp.Stop]
	if stop == "" {
		stop = "endTurn"
	}
	return &mcp.CreateMessageWithToolsResult{
		Content: []mcp.Content{&mcp.TextContent{Text: resp.Text()}}, Model: resp.Model, Role: "assistant", StopReason: stop,
	}, nil
}
