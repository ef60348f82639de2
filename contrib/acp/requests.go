package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The names of the tools that are requests.
const (
	readTool  = "read_text_file"
	writeTool = "write_text_file"
)

// permissionTool is the tool that is a request for a permission. Its name says of whom, so that a rule is about one agent.
func (f *foreign) permissionTool() string { return f.Name + "_permission" }

type permissionArgs struct {
	Title string          `json:"title"`
	Kind  string          `json:"kind,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type pathArgs struct {
	Path string `json:"path"`
}

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func (f *foreign) tools() ([]aycoder.Tool, error) {
	permission, err1 := aycoder.NewTool(f.permissionTool(), "Allows what the agent is about to do.", f.permit,
		aycoder.WithEffect(aycoder.EffectUnknown), aycoder.WithSubject(aycoder.SubjectText, "title"), aycoder.WithHints(true, true))
	read, err2 := aycoder.NewTool(readTool, "Reads a file.", f.readFile,
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
	write, err3 := tools.NewPlanner(f.files, writeTool, "Writes a file.", aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}, f.propose)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return []aycoder.Tool{&permissionPreview{permission, f}, read,
		&written{write, write.(aycoder.Planner), write.(aycoder.Previewer), f}}, nil
}

// permission asks for a permission.
func (f *foreign) permission(ctx context.Context, p sdk.RequestPermissionRequest) (resp sdk.RequestPermissionResponse, err error) {
	args := permissionArgs{Title: cmp.Or(deref(p.ToolCall.Title), string(p.ToolCall.ToolCallId))}
	if p.ToolCall.Kind != nil {
		args.Kind = string(*p.ToolCall.Kind)
	}
	if p.ToolCall.RawInput != nil {
		if args.Input, err = json.Marshal(p.ToolCall.RawInput); err != nil {
			return resp, err
		}
	}
	a := f.ask(ctx, f.permissionTool(), args, &agentRequest{permission: &p})
	kinds := []sdk.PermissionOptionKind{sdk.PermissionOptionKindAllowOnce}
	if a.err != nil {
		kinds = []sdk.PermissionOptionKind{sdk.PermissionOptionKindRejectOnce, sdk.PermissionOptionKindRejectAlways}
	}
	for _, kind := range kinds {
		for _, o := range p.Options {
			if o.Kind == kind && !errors.Is(a.err, context.Canceled) {
				resp.Outcome.Selected = &sdk.RequestPermissionOutcomeSelected{OptionId: o.OptionId}
				return resp, nil
			}
		}
	}
	resp.Outcome.Cancelled = &sdk.RequestPermissionOutcomeCancelled{} // also if it offers only to be allowed for good
	return resp, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (f *foreign) permit(_ context.Context, inv *aycoder.Invocation, _ permissionArgs) (*aycoder.ToolResult, error) {
	f.reply(inv.ID, answered{})
	return aycoder.TextResult("allowed"), nil
}

// permissionPreview shows what the agent says that it will do.
type permissionPreview struct {
	aycoder.Tool
	f *foreign
}

// Preview implements [aycoder.Previewer].
func (p *permissionPreview) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	r := p.f.pending(inv.ID)
	if r == nil || r.permission == nil {
		return "", nil
	}
	var b strings.Builder
	var args permissionArgs
	if json.Unmarshal(inv.Args, &args) == nil && args.Input != nil {
		fmt.Fprintf(&b, "%s\n", args.Input)
	}
	for _, c := range r.permission.ToolCall.Content {
		switch {
		case c.Diff != nil:
			plan, err := edit.NewPlan(edit.File{Path: c.Diff.Path, Kind: edit.Change, Base: deref(c.Diff.OldText), Proposed: c.Diff.NewText})
			if err != nil {
				return "", err
			}
			b.WriteString(plan.Preview())
		case c.Content != nil && c.Content.Content.Text != nil:
			b.WriteString(c.Content.Content.Text.Text + "\n")
		}
	}
	return tools.EscapeInvisible(shorten(b.String())), nil
}

// read reads a file for the agent.
func (f *foreign) read(ctx context.Context, p sdk.ReadTextFileRequest) (resp sdk.ReadTextFileResponse, err error) {
	a := f.ask(ctx, readTool, pathArgs{p.Path}, &agentRequest{})
	if a.err != nil {
		return resp, requestFailure(a.err)
	}
	resp.Content = lines(a.text, p.Line, p.Limit)
	return resp, nil
}

// lines returns a part of a text. Lines are counted from 1.
func lines(text string, first, limit *int) string {
	if first == nil && limit == nil {
		return text
	}
	all := strings.SplitAfter(text, "\n")
	from := max(int(number(first)), 1) - 1
	all = all[min(from, len(all)):]
	if limit != nil {
		all = all[:min(max(*limit, 0), len(all))]
	}
	return strings.Join(all, "")
}

func requestFailure(err error) error {
	if errors.Is(err, context.Canceled) {
		return &sdk.RequestError{Code: codeCancelled, Message: "the task was cancelled"}
	}
	if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindNotFound {
		return notFound(err.Error())
	}
	return &sdk.RequestError{Code: codeInternal, Message: err.Error()}
}

const codeCancelled = -32800

// readFile is the tool that reads. The whole text goes to the agent, and not into the history.
func (f *foreign) readFile(ctx context.Context, inv *aycoder.Invocation, in pathArgs) (*aycoder.ToolResult, error) {
	text, err := f.content(ctx, in.Path)
	if err == nil {
		f.knows(in.Path, text)
	}
	f.reply(inv.ID, answered{text, err})
	if err != nil {
		return nil, err
	}
	return aycoder.TextResult(fmt.Sprintf("%d bytes", len(text))), nil
}

// content returns the text of a file as the tools see it.
func (f *foreign) content(ctx context.Context, name string) (string, error) {
	files := f.files
	if r, ok := files.(tools.RemoteFS); ok {
		files = r.Within(ctx)
	}
	file, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxBuffer+1))
	if err == nil && len(data) > maxBuffer {
		err = &workspace.Error{Op: "read", Path: name, Kind: workspace.KindTooLarge, Err: fmt.Errorf("it has more than %d bytes", maxBuffer)}
	}
	return string(data), err
}

// knows notes what the agent believes to be in a file.
func (f *foreign) knows(name, text string) {
	if rel, err := f.files.Rel(name); err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.known[rel] = text
	}
}

// write writes a file for the agent.
func (f *foreign) write(ctx context.Context, p sdk.WriteTextFileRequest) (resp sdk.WriteTextFileResponse, err error) {
	if len(p.Content) > maxBuffer {
		return resp, requestFailure(fmt.Errorf("the text has more than %d bytes", maxBuffer))
	}
	if now, err := f.content(ctx, p.Path); err == nil && now == p.Content {
		f.knows(p.Path, p.Content)
		return resp, nil // nothing is written
	}
	if a := f.ask(ctx, writeTool, writeArgs{p.Path, p.Content}, &agentRequest{content: p.Content}); a.err != nil {
		return resp, requestFailure(a.err)
	}
	return resp, nil
}

// propose returns the change that a write is: from what the agent believes to be in the file.
func (f *foreign) propose(ctx context.Context, in writeArgs) ([]edit.File, error) {
	rel, err := f.files.Rel(in.Path)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	base, known := f.known[rel]
	f.mu.Unlock()
	if known {
		return []edit.File{{Path: rel, Kind: edit.Change, Base: base, Proposed: in.Content}}, nil
	}
	if _, err = f.content(ctx, in.Path); err == nil {
		return nil, fmt.Errorf("%s is there, and was not read by %s: read it before, so that nobody's changes are lost", rel, readTool)
	}
	if e, ok := errors.AsType[*workspace.Error](err); !ok || e.Kind != workspace.KindNotFound {
		return nil, err
	}
	return []edit.File{{Path: rel, Kind: edit.Create, Proposed: in.Content}}, nil
}

// written is the tool that writes, which answers the agent.
type written struct {
	aycoder.Tool
	aycoder.Planner
	aycoder.Previewer
	f *foreign
}

// Call implements [aycoder.Tool].
func (w *written) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	res, err := w.Tool.Call(ctx, inv)
	a := answered{err: err}
	if err == nil && res.IsError {
		a.err = errors.New(res.Text())
	}
	var in writeArgs
	if a.err == nil {
		if a.err = json.Unmarshal(inv.Args, &in); a.err == nil {
			w.f.knows(in.Path, w.f.pendingContent(inv.ID, in.Content))
		}
	}
	w.f.reply(inv.ID, a)
	return res, err
}

// pendingContent is the text that the agent has sent, whatever the user has made of it.
func (f *foreign) pendingContent(id, otherwise string) string {
	if r := f.pending(id); r != nil {
		return r.content
	}
	return otherwise
}
