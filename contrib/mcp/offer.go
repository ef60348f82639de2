package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"github.com/aycoder/aycoder"
)

// A Resource is a text or a file that a client of [Serve] reads by its URI. A read is not a call: no approver is asked,
// and nothing is masked, so a host offers only what each client may read.
type Resource struct {
	// URI is what clients read. With braces, it is a template of URIs, as of RFC 6570: "note://{name}".
	URI string
	// Name and Description are told to clients. Type is the media type of all that Read returns, if it is always the
	// same one. Default: the URI, and none.
	Name, Description, Type string
	// Read returns the content of the resource with a URI, or an error, which clients see, that is [fs.ErrNotExist] if
	// there is none. It must be safe for concurrent use.
	Read func(ctx context.Context, uri string) (*aycoder.Media, error)
}

// A Prompt makes messages that a client of [Serve] sends to its model, when its user wants that.
type Prompt struct {
	// Name and Description are told to clients. A command or skill of the same name is not offered.
	Name, Description string
	Arguments         []Argument
	// Messages returns texts and media. args has the arguments that the client has given, at least those that are
	// required. Clients see the error. It must be safe for concurrent use.
	Messages func(ctx context.Context, args map[string]string) ([]*aycoder.Message, error)
}

// An Argument is one of a [Prompt].
type Argument struct {
	Name, Description string
	Required          bool
	// Complete returns values that begin with what the user has typed, the best first, of which a client gets the first
	// 100. Default: none.
	Complete func(ctx context.Context, typed string) []string
}

// Updates tell the clients of a server which resources change. The zero value is ready for use, in several
// configurations. It is safe for concurrent use.
type Updates struct {
	mu      sync.Mutex
	servers []*mcp.Server
}

// Changed tells the clients that have subscribed to a resource that it has changed.
func (u *Updates) Changed(uri string) {
	u.mu.Lock()
	servers := slices.Clone(u.servers)
	u.mu.Unlock()
	for _, s := range servers {
		_ = s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri}) // of clients that have gone
	}
}

// follow adds a server until leave is called.
func (u *Updates) follow(s *mcp.Server) (leave func()) {
	if u == nil {
		return func() {}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.servers = append(u.servers, s)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.servers = slices.DeleteFunc(u.servers, func(o *mcp.Server) bool { return o == s })
	}
}

// options returns those of the server, as far as they depend on what it offers.
func (c *ServeConfig) options() *mcp.ServerOptions {
	o := &mcp.ServerOptions{}
	if c.Updates != nil { // the SDK keeps who has subscribed
		var mu sync.Mutex
		known := map[string]bool{} // the SDK keeps a URI after all who have subscribed to it are gone
		o.SubscribeHandler = func(_ context.Context, req *mcp.SubscribeRequest) error {
			mu.Lock()
			defer mu.Unlock()
			uri := req.Params.URI
			if !known[uri] && (len(uri) > maxURI || len(known) == maxURIs) {
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the URI is too long, or there are too many"}
			}
			known[uri] = true
			return nil
		}
		o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	}
	completes := func(a Argument) bool { return a.Complete != nil }
	if slices.ContainsFunc(c.Prompts, func(p Prompt) bool { return slices.ContainsFunc(p.Arguments, completes) }) {
		o.CompletionHandler = c.complete
	}
	return o
}

const (
	maxCompletions = 100     // of the protocol
	maxURI         = 2 << 10 // bytes of a resource that is subscribed to, or names an image
	maxURIs        = 10_000
)

func (c *ServeConfig) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	res := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	if req.Params.Ref == nil || req.Params.Ref.Type != "ref/prompt" {
		return res, nil
	}
	for _, p := range c.Prompts {
		for _, a := range p.Arguments {
			if p.Name == req.Params.Ref.Name && a.Name == req.Params.Argument.Name && a.Complete != nil {
				all := a.Complete(ctx, req.Params.Argument.Value)
				res.Completion.Values = append(res.Completion.Values, all[:min(len(all), maxCompletions)]...)
				res.Completion.Total, res.Completion.HasMore = len(all), len(all) > maxCompletions
			}
		}
	}
	return res, nil
}

// offer adds the resources and prompts of the host to a server.
func (c *ServeConfig) offer(s *mcp.Server) error {
	for i, r := range c.Resources {
		if err := r.offer(s); err != nil {
			return &aycoder.ConfigError{Option: fmt.Sprintf("ServeConfig.Resources[%d]", i), Err: err}
		}
	}
	for i, p := range c.Prompts {
		if p.Name == "" || p.Messages == nil {
			return &aycoder.ConfigError{Option: fmt.Sprintf("ServeConfig.Prompts[%d]", i), Err: errors.New("needs Name and Messages")}
		}
		p.offer(s)
	}
	return nil
}

func (r *Resource) offer(s *mcp.Server) error {
	if r.Read == nil {
		return errors.New("needs Read")
	}
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		m, err := r.Read(ctx, req.Params.URI)
		if errors.Is(err, fs.ErrNotExist) || err == nil && m == nil {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contentsOf(req.Params.URI, m)}}, nil
	}
	if strings.Contains(r.URI, "{") {
		if _, err := uritemplate.New(r.URI); err != nil {
			return err
		}
		s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: r.URI, Name: cmp.Or(r.Name, r.URI), Description: r.Description, MIMEType: r.Type}, read)
		return nil
	}
	if u, err := url.Parse(r.URI); err != nil {
		return err
	} else if !u.IsAbs() {
		return errors.New("the URI has no scheme")
	}
	s.AddResource(&mcp.Resource{URI: r.URI, Name: cmp.Or(r.Name, r.URI), Description: r.Description, MIMEType: r.Type}, read)
	return nil
}

func (p *Prompt) offer(s *mcp.Server) {
	def := &mcp.Prompt{Name: p.Name, Description: p.Description}
	for _, a := range p.Arguments {
		def.Arguments = append(def.Arguments, &mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	s.AddPrompt(def, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		for _, a := range p.Arguments {
			if _, ok := req.Params.Arguments[a.Name]; a.Required && !ok {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the argument " + a.Name + " is missing"}
			}
		}
		list, err := p.Messages(ctx, req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		res := &mcp.GetPromptResult{Description: p.Description, Messages: []*mcp.PromptMessage{}}
		for _, m := range list {
			for _, c := range contents(m.Parts) {
				res.Messages = append(res.Messages, &mcp.PromptMessage{Role: roleOf(m), Content: c})
			}
		}
		return res, nil
	})
}

func roleOf(m *aycoder.Message) mcp.Role {
	if m.Role == aycoder.RoleAssistant {
		return "assistant"
	}
	return "user"
}
