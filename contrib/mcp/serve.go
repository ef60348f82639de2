package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

// ServeConfig says what [Serve] and [Handler] offer.
type ServeConfig struct {
	// Tools are the names of the tools. Default: all of the runtime but those that need its model or its
	// user: subagent, ask_user, recall, and those of servers.
	Tools []string
	// Name and Version are told to clients. Default: "aycoder" and "0".
	Name, Version string
}

// Serve offers the tools of a runtime to a client of the protocol, which is at the other end of in and out: those of
// the process, mostly. Nothing else may be written to out. Each call goes through the approver, the hooks and the
// stages of the runtime, and works in its workspace. A question about a call is put to the user of the client, who
// sees what a host would show, and its answer is about exactly that. Commands and skills of the runtime are prompts. If the client cannot ask, the call is denied, with
// the rule that would allow it. The arguments are checked, and results are bounded as those of a run. Serve returns
// when the client has gone or ctx ends; it is then nil or the cause of ctx. No run may work meanwhile.
func Serve(ctx context.Context, rt *harness.Runtime, in io.ReadCloser, out io.WriteCloser, c ServeConfig) error {
	s, err := newServer(rt, c)
	if err != nil {
		return err
	}
	t := &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage}
	if err := s.Run(ctx, t); err != nil && !errors.Is(err, io.EOF) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("serve the tools: %w", err)
	}
	return nil
}

// Handler offers the tools as [Serve] does, by streamable HTTP. It does not know who calls: a host puts its own
// authentication around it, and listens on the loopback interface otherwise. Requests to a loopback address by another
// name are refused, since a web page may have sent them.
func Handler(rt *harness.Runtime, c ServeConfig) (http.Handler, error) {
	s, err := newServer(rt, c)
	if err != nil {
		return nil, err
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil), nil
}

// unserved need the model or the user of the runtime.
var unserved = []string{"subagent", "ask_user", "recall", "tool_search"}

func newServer(rt *harness.Runtime, c ServeConfig) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: cmp.Or(c.Name, "aycoder"), Version: cmp.Or(c.Version, "0")}, nil)
	x := &served{rt: rt, writes: make(chan struct{}, 1), asked: map[string]string{}}
	for _, name := range c.Tools {
		if !slices.ContainsFunc(rt.Tools, func(t aycoder.Tool) bool { return t.Spec().Name == name }) {
			return nil, &aycoder.ConfigError{Option: "ServeConfig.Tools", Err: fmt.Errorf("there is no tool %s", name)}
		}
	}
	for _, t := range rt.Tools {
		spec := t.Spec()
		wanted := slices.Contains(c.Tools, spec.Name)
		if len(c.Tools) == 0 {
			wanted = !slices.Contains(unserved, spec.Name) && !strings.HasPrefix(spec.Name, "mcp__")
		}
		if !wanted {
			continue
		}
		reads := spec.Effect == aycoder.EffectReadOnly
		s.AddTool(&mcp.Tool{
			Name: spec.Name, Description: spec.Description, InputSchema: objectSchema(spec.Schema),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads, DestructiveHint: new(spec.Destructive && !reads), OpenWorldHint: new(spec.OpenWorld)},
		}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return x.call(ctx, req, reads)
		})
	}
	x.prompts(s)
	return s, nil
}

// prompts offers the commands and skills that the runtime has. Their texts come as the user of the runtime would send
// them; what they ask about is denied, since nobody is there.
func (x *served) prompts(s *mcp.Server) {
	if x.rt.Library == nil {
		return
	}
	lib := x.rt.Library.Now()
	add := func(name, description string) {
		s.AddPrompt(&mcp.Prompt{Name: name, Description: description, Arguments: []*mcp.PromptArgument{{Name: "arguments"}}},
			func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				var typed harness.Typed
				for ev, err := range x.rt.Expand(ctx, "/"+name+" "+req.Params.Arguments["arguments"], &typed) {
					if err != nil {
						return nil, err
					}
					if ask, ok := ev.(*aycoder.ApprovalRequested); ok {
						ask.Deny(denial(&ask.Request))
					}
				}
				return &mcp.GetPromptResult{Description: description, Messages: []*mcp.PromptMessage{
					{Role: "user", Content: &mcp.TextContent{Text: typed.Input.Prompt}},
				}}, nil
			})
	}
	for _, c := range lib.Commands {
		add(c.Name, c.Description)
	}
	for _, k := range lib.Skills {
		add(k.Name, k.Description)
	}
}

// served makes the calls of clients.
type served struct {
	rt     *harness.Runtime
	writes chan struct{} // held by a call that may write

	mu    sync.Mutex
	asked map[string]string // the digests of questions that clients were asked, by a word that only they know
	order []string          // of these words
}

// maxAsked bounds the questions that may be open.
const maxAsked = 256

func (x *served) call(ctx context.Context, req *mcp.CallToolRequest, reads bool) (*mcp.CallToolResult, error) {
	if !reads {
		select {
		case x.writes <- struct{}{}:
			defer func() { <-x.writes }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	approved, refused := x.answered(req)
	var question *mcp.CallToolResult
	var done *aycoder.ToolFinished
	for ev, err := range x.rt.Call(ctx, req.Params.Name, req.Params.Arguments) {
		if err != nil {
			return nil, err
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			switch {
			case ev.Request.Digest == approved && refused:
				ev.Deny("the user refused it")
			case ev.Request.Digest == approved:
				ev.Allow()
			case canAsk(req):
				question = x.question(&ev.Request)
				ev.Deny("the user is asked")
			default:
				ev.Deny(denial(&ev.Request))
			}
		case *aycoder.ToolProgress:
			progress(ctx, req, ev.Progress)
		case *aycoder.ToolFinished:
			done = ev
		}
	}
	switch {
	case question != nil:
		return question, nil
	case done == nil:
		return nil, cmp.Or(context.Cause(ctx), errors.New("the call has no result"))
	}
	return output(done.Output), nil
}

// answered returns the digest of the question that the call answers, if it does.
func (x *served) answered(req *mcp.CallToolRequest) (digest string, refused bool) {
	res, ok := req.Params.InputResponses[questionID].(*mcp.ElicitResult)
	if !ok {
		return "", false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	digest = x.asked[req.Params.RequestState]
	delete(x.asked, req.Params.RequestState) // an answer counts once
	allow, _ := res.Content["allow"].(bool)
	return digest, res.Action != "accept" || !allow
}

const questionID = "approval"

func canAsk(req *mcp.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// question makes the result that asks the client's user.
func (x *served) question(q *aycoder.ApprovalRequest) *mcp.CallToolResult {
	word := rand.Text()
	x.mu.Lock()
	x.asked[word], x.order = q.Digest, append(x.order, word)
	if len(x.order) > maxAsked {
		delete(x.asked, x.order[0])
		x.order = x.order[1:]
	}
	x.mu.Unlock()
	text := fmt.Sprintf("Allow %s %s?", q.Tool, cmp.Or(q.Subject, string(q.Args)))
	if len(q.Reasons) > 0 {
		text += "\nIt " + strings.Join(q.Reasons, ", and ") + "."
	}
	if q.Preview != "" {
		text += "\n\n" + q.Preview
	}
	return &mcp.CallToolResult{RequestState: word, InputRequests: mcp.InputRequestMap{questionID: &mcp.ElicitParams{
		Message:         clean(text, 64<<10),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"allow":{"type":"boolean","title":"Allow this call"}},"required":["allow"]}`),
	}}}
}

func denial(q *aycoder.ApprovalRequest) string {
	text := "it needs an approval, and the client cannot ask its user"
	if len(q.Suggested) > 0 {
		text += "; this rule would allow it: " + q.Suggested[0]
	}
	return text
}

func progress(ctx context.Context, req *mcp.CallToolRequest, p aycoder.Progress) {
	if token := req.Params.GetProgressToken(); token != nil {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // lost if the client is gone, as its result is
			ProgressToken: token, Progress: float64(p.Current), Total: float64(p.Total), Message: p.Message,
		})
	}
}

// output returns what a client gets of the output of a call.
func output(o *aycoder.ToolOutput) *mcp.CallToolResult {
	res := &mcp.CallToolResult{Content: []mcp.Content{}, IsError: o.IsError}
	for _, p := range o.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			res.Content = append(res.Content, &mcp.TextContent{Text: p.Text})
		case *aycoder.Media:
			res.Content = append(res.Content, media(p))
		}
	}
	return res
}

func media(m *aycoder.Media) mcp.Content {
	switch kind, _, _ := strings.Cut(m.Type, "/"); {
	case m.URL != "":
		return &mcp.ResourceLink{URI: m.URL, Name: cmp.Or(m.Name, m.URL), MIMEType: m.Type}
	case kind == "image":
		return &mcp.ImageContent{MIMEType: m.Type, Data: m.Data}
	case kind == "audio":
		return &mcp.AudioContent{MIMEType: m.Type, Data: m.Data}
	}
	r := &mcp.ResourceContents{URI: "file:///" + url.PathEscape(cmp.Or(m.Name, "document")), MIMEType: m.Type}
	if strings.HasPrefix(m.Type, "text/") && utf8.Valid(m.Data) {
		r.Text = string(m.Data)
	} else {
		r.Blob = m.Data
	}
	return &mcp.EmbeddedResource{Resource: r}
}

// objectSchema returns a schema that names its type, as the protocol demands.
func objectSchema(schema json.RawMessage) any {
	var m map[string]json.RawMessage
	if json.Unmarshal(schema, &m) != nil || m == nil {
		m = map[string]json.RawMessage{}
	}
	m["type"] = json.RawMessage(`"object"`)
	return m
}
