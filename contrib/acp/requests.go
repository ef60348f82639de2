package acp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The names of the tools that are requests: those of package tools, so that rules, modes and hooks are about them, too.
const (
	readTool  = "read_file"
	editTool  = "edit_file"
	writeTool = "write_file"
)

// permissionTool is the tool that is a request for a permission. Its name says of whom, so that a rule is about one agent.
func (f *foreign) permissionTool() string { return f.Name + "_permission" }

// agentRequest is a request of the agent that is not answered.
type agentRequest struct {
	*incoming
	call       string // the id of its call
	args       json.RawMessage
	permission *sdk.RequestPermissionRequest
	read       *sdk.ReadTextFileRequest
	write      *sdk.WriteTextFileRequest
	asked      map[string]string // what is in the files that are to change, as it is when the question is asked
}

// permissionArgs are what the agent says that it will do. The field What identifies all that would be allowed, so that a rule
// about it is about nothing else, whatever the title says.
type permissionArgs struct {
	What  string          `json:"what"`
	Kind  string          `json:"kind,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty"`
	Limit  *int   `json:"limit,omitempty"`
}

type editArgs struct {
	Path string `json:"path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
}

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func (f *foreign) tools() ([]aycoder.Tool, error) {
	permission, err1 := aycoder.NewTool(f.permissionTool(), "Allows what the agent is about to do.", f.permit,
		aycoder.WithEffect(aycoder.EffectUnknown), aycoder.WithSubject(aycoder.SubjectText, "what"), aycoder.WithHints(true, true))
	read, err2 := aycoder.NewTool(readTool, "Reads a file.", f.readFile,
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
	path := aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}
	change, err3 := tools.NewPlanner(f.files, editTool, "Changes a file.", path, f.change)
	create, err4 := tools.NewPlanner(f.files, writeTool, "Creates a file.", path, f.create)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return []aycoder.Tool{f.Masker.Wrap(f.files, &permissionPreview{permission, f}), read, f.writes(change), f.writes(create)}, nil
}

// writes puts a tool that writes into one that answers the agent. Secrets that it was not shown are put back.
func (f *foreign) writes(t aycoder.Tool) aycoder.Tool {
	t = f.Masker.Wrap(f.files, t)
	return &written{t, t.(aycoder.Planner), t.(aycoder.Previewer), f}
}

const maxNamed = 1000 // by a request for a permission

// request takes a request of the agent to its client. It runs on the goroutine that reads.
func (f *foreign) request(in *incoming) {
	r := &agentRequest{incoming: in}
	into, ok := map[string]any{
		sdk.ClientMethodSessionRequestPermission: &r.permission,
		sdk.ClientMethodFsReadTextFile:           &r.read,
		sdk.ClientMethodFsWriteTextFile:          &r.write,
	}[in.method]
	if !ok {
		f.link.reply(in, nil, sdk.NewMethodNotFound(in.method))
		return
	}
	var of struct {
		SessionId sdk.SessionId `json:"sessionId"`
	}
	if in.method == sdk.ClientMethodSessionRequestPermission {
		in.params = f.completed(in.params)
	}
	err := cmp.Or(json.Unmarshal(in.params, &of), json.Unmarshal(in.params, into))
	switch {
	case err != nil:
		err = invalid(err.Error())
	case !f.ours(of.SessionId):
		err = invalid("there is no such session")
	case f.count >= f.bounds.requests:
		err = invalid(fmt.Sprintf("there were %d requests, which is all that a task may make", f.bounds.requests))
	case r.permission != nil && len(r.permission.ToolCall.Content)+len(r.permission.ToolCall.Locations) > maxNamed:
		err = invalid(fmt.Sprintf("it names more than %d files", maxNamed))
	case r.write != nil && len(r.write.Content) > maxBuffer:
		err = invalid(fmt.Sprintf("the text has more than %d bytes", maxBuffer))
	case !f.push(&utterance{request: r}):
		err = errLeft
	}
	if err != nil {
		f.link.reply(in, nil, err)
	}
}

// object is one of JSON, with the fields as they came.
type object map[string]json.RawMessage

// over returns the fields of an object, and those of another one that it does not have.
func (o object) over(under object) object {
	all := object{}
	for _, part := range []object{under, o} {
		for k, v := range part {
			if s := string(v); s != "null" && s != "[]" {
				all[k] = v
			}
		}
	}
	return all
}

// maxTold bounds what is kept of what the agent says of its calls. Questions that are open may each have a copy.
const maxTold = 1 << 20

// note keeps what the agent says of a call before it asks about it.
func (f *foreign) note(params json.RawMessage) {
	var n struct {
		Update object `json:"update"`
	}
	if json.Unmarshal(params, &n) != nil { // it was decoded before
		return
	}
	id := string(n.Update["toolCallId"])
	for _, k := range []string{"sessionUpdate", "status", "rawOutput", "_meta"} {
		delete(n.Update, k)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.toldBytes += len(params); f.toldBytes > maxTold {
		clear(f.told)
		if f.toldBytes = len(params); f.toldBytes > maxTold {
			return
		}
	}
	f.told[id] = n.Update.over(f.told[id])
}

// completed returns the parameters of a question, with what the agent has said before of the call that it is about: some
// agents show what they will do in the call, and not in the question.
func (f *foreign) completed(params json.RawMessage) json.RawMessage {
	var all, call object
	if json.Unmarshal(params, &all) != nil || json.Unmarshal(all["toolCall"], &call) != nil {
		return params
	}
	f.mu.Lock()
	under := f.told[string(call["toolCallId"])]
	f.mu.Unlock()
	var err error
	if all["toolCall"], err = json.Marshal(call.over(under)); err != nil {
		return params
	}
	if whole, err := json.Marshal(all); err == nil {
		return whole
	}
	return params
}

// callOf returns the call that a request is, or nil if it is answered.
func (f *foreign) callOf(ctx context.Context, r *agentRequest) *aycoder.ToolUse {
	name, args := f.permissionTool(), any(nil)
	var err error
	switch {
	case r.permission != nil:
		args, err = permissionArgsOf(r.permission)
		r.asked = f.states(ctx, r.permission)
	case r.read != nil:
		name, args = readTool, readArgs{f.path(r.read.Path), int(number(r.read.Line)), r.read.Limit}
	default:
		path := f.path(r.write.Path)
		known, ok := f.believes(path)
		now, wrong := f.content(ctx, path)
		switch {
		case ok && wrong == nil && (now == r.write.Content || now == known.text && r.write.Content == known.shown):
			f.reply(r.call, sdk.WriteTextFileResponse{}, nil) // nothing would be written, and it has read the file
			return nil
		case ok || wrong == nil:
			name, args = editTool, editArgs{path, known.shown, r.write.Content}
		default:
			name, args = writeTool, writeArgs{path, r.write.Content}
		}
	}
	if err == nil {
		r.args, err = json.Marshal(args)
	}
	if err != nil {
		f.reply(r.call, nil, err)
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said += len(r.args)
	return &aycoder.ToolUse{ID: r.call, Name: name, Args: r.args}
}

// path returns a path as the tools name files. A path outside of the workspace stays as it is, and is refused by them.
func (f *foreign) path(name string) string {
	if rel, err := f.files.Rel(name); err == nil {
		return rel
	}
	return name
}

// maxDetail bounds what a question says of a permission in one line. The preview has all of it.
const maxDetail = 300

func permissionArgsOf(p *sdk.RequestPermissionRequest) (args permissionArgs, err error) {
	call := p.ToolCall
	args.Kind = string(deref(call.Kind))
	if call.RawInput != nil {
		if args.Input, err = json.Marshal(call.RawInput); err != nil {
			return args, err
		}
	}
	title := oneLine(cmp.Or(deref(call.Title), string(call.ToolCallId)))
	call.ToolCallId, call.Status = "", nil
	all, err := json.Marshal(call)
	if err != nil {
		return args, err
	}
	detail := string(args.Input)
	if len(call.Content) > 0 || len(call.Locations) > 0 || len(detail) > maxDetail || title != deref(call.Title) ||
		tools.EscapeInvisible(detail) != detail {
		sum := sha256.Sum256(all)
		detail = "[" + hex.EncodeToString(sum[:16]) + "]"
	}
	args.What = strings.TrimSpace(title + " " + detail)
	return args, nil
}

// oneLine returns a text of the agent for a line of a screen.
func oneLine(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most || len(text) > 4*most {
		text = string(runes[:min(most, len(runes))]) + " …"
	}
	return tools.EscapeInvisible(text)
}

func deref[T ~string](s *T) T {
	if s == nil {
		return ""
	}
	return *s
}

// outcome is the answer to a request for a permission.
func (r *agentRequest) outcome(err error) (resp sdk.RequestPermissionResponse) {
	if o := r.option(err); o != nil && !errors.Is(err, context.Canceled) {
		resp.Outcome.Selected = &sdk.RequestPermissionOutcomeSelected{OptionId: o.OptionId}
	} else {
		resp.Outcome.Cancelled = &sdk.RequestPermissionOutcomeCancelled{} // also if it offers only to be allowed for good
	}
	return resp
}

// option returns the option of the agent that is chosen.
func (r *agentRequest) option(denied error) *sdk.PermissionOption {
	kinds := []sdk.PermissionOptionKind{sdk.PermissionOptionKindAllowOnce}
	if denied != nil {
		kinds = []sdk.PermissionOptionKind{sdk.PermissionOptionKindRejectOnce, sdk.PermissionOptionKindRejectAlways}
	}
	for _, kind := range kinds {
		for i, o := range r.permission.Options {
			if o.Kind == kind {
				return &r.permission.Options[i]
			}
		}
	}
	return nil
}

func (f *foreign) permit(ctx context.Context, inv *aycoder.Invocation, _ permissionArgs) (*aycoder.ToolResult, error) {
	if r := f.pending(inv.ID); r != nil {
		now := f.states(ctx, r.permission)
		for path, was := range r.asked {
			if _, ok := f.believes(path); ok || now[path] == was {
				continue
			}
			err := fmt.Errorf("%s has changed since this was asked, and the agent would write over it: it was not allowed", path)
			f.reply(inv.ID, nil, err)
			return nil, err
		}
	}
	f.reply(inv.ID, nil, nil)
	return aycoder.TextResult("allowed " + inv.ID), nil
}

// maxCompared bounds the bytes that are read to compare the files of a question. Of those behind it, only the sizes are compared.
const maxCompared = 1 << 30

// states returns what is in the files that a request is about to change, by their paths. An agent that has not read a file
// by a request will not write it by one: it writes a text that it made before it asked.
func (f *foreign) states(ctx context.Context, p *sdk.RequestPermissionRequest) map[string]string {
	states, rest := map[string]string{}, &io.LimitedReader{N: maxCompared}
	add := func(name string) {
		path := f.path(name)
		if _, ok := states[path]; ok || ctx.Err() != nil {
			return
		}
		hash, size := sha256.New(), int64(0)
		file, err := f.openFile(ctx, path)
		if err == nil { // it may be larger than what the agent can ask for
			if info, err := file.Stat(); err == nil {
				size = info.Size()
			}
			rest.R = file
			_, err = io.Copy(hash, rest)
			file.Close()
		}
		states[path] = fmt.Sprintf("%x %d %v", hash.Sum(nil), size, err)
	}
	for _, c := range p.ToolCall.Content {
		if c.Diff != nil {
			add(c.Diff.Path)
		}
	}
	if k := deref(p.ToolCall.Kind); k == sdk.ToolKindEdit || k == sdk.ToolKindDelete || k == sdk.ToolKindMove {
		for _, l := range p.ToolCall.Locations {
			add(l.Path)
		}
	}
	return states
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
			plan, err := edit.NewPlan(edit.File{Path: p.f.path(c.Diff.Path), Kind: edit.Change, Base: deref(c.Diff.OldText), Proposed: c.Diff.NewText})
			if err != nil {
				return "", err
			}
			b.WriteString(plan.Preview())
		case c.Content != nil && c.Content.Content.Text != nil:
			b.WriteString(c.Content.Content.Text.Text + "\n")
		}
	}
	var text strings.Builder
	text.WriteString(shorten(b.String()))
	for _, l := range r.permission.ToolCall.Locations {
		text.WriteString("\n" + oneLine(l.Path))
	}
	if o := r.option(nil); o != nil { // there may be several that allow once
		text.WriteString("\nTo allow it answers: " + oneLine(o.Name))
	} else {
		text.WriteString("\nIt cannot be allowed: the agent does not offer to be allowed once.")
	}
	return tools.EscapeInvisible(strings.TrimPrefix(text.String(), "\n")), nil
}

// lines returns a part of a text. Lines are counted from 1.
func lines(text string, first int, limit *int) string {
	if first <= 1 && limit == nil {
		return text
	}
	all := strings.SplitAfter(text, "\n")
	all = all[min(max(first, 1)-1, len(all)):]
	if limit != nil {
		all = all[:min(max(*limit, 0), len(all))]
	}
	return strings.Join(all, "")
}

func requestFailure(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return errLeft
	}
	if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindNotFound {
		return notFound(err.Error())
	}
	return &sdk.RequestError{Code: codeInternal, Message: err.Error()}
}

const codeCancelled = -32800

// readFile is the tool that reads. The text goes to the agent, and not into the history.
func (f *foreign) readFile(ctx context.Context, inv *aycoder.Invocation, in readArgs) (*aycoder.ToolResult, error) {
	var text string
	masked := tools.Masking(f.Masker)(func(ctx context.Context, _ *aycoder.Invocation) (_ *aycoder.ToolResult, err error) {
		text, err = f.content(ctx, in.Path)
		return aycoder.TextResult(text), err
	})
	res, err := masked(ctx, inv)
	if err != nil {
		f.reply(inv.ID, nil, err)
		return nil, err
	}
	shown := res.Text()
	if whole(text, shown) {
		f.knows(in.Path, belief{text, shown})
	}
	part := lines(shown, in.Offset, in.Limit)
	f.reply(inv.ID, sdk.ReadTextFileResponse{Content: part}, nil)
	return aycoder.TextResult(fmt.Sprintf("%d bytes for request %s", len(part), inv.ID)), nil // not a repetition: the agent decides
}

// whole reports whether what was masked in a text can be put back. Too many invisible characters become others.
func whole(text, shown string) bool {
	for _, mark := range []string{"\ufffd", "?"} {
		if text != shown && strings.Count(text, mark) != strings.Count(shown, mark) {
			return false
		}
	}
	return utf8.ValidString(text)
}

func (f *foreign) openFile(ctx context.Context, name string) (fs.File, error) {
	files := f.files
	if r, ok := files.(tools.RemoteFS); ok {
		files = r.Within(ctx)
	}
	return files.Open(name)
}

// content returns the text of a file as the tools see it.
func (f *foreign) content(ctx context.Context, name string) (string, error) {
	file, err := f.openFile(ctx, name)
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

// belief is what the agent believes to be in a file: its text, and how that was shown to it.
type belief struct{ text, shown string }

func (b belief) size() int { return len(b.text) + len(b.shown) + 256 } // with the entry of the map

func (f *foreign) believes(rel string) (belief, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.known[rel]
	return b, ok
}

// knows notes what the agent believes to be in a file. If that is too much, all is forgotten: it has to read files again.
func (f *foreign) knows(rel string, b belief) {
	f.forgets(rel)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.memory += b.size() + len(rel); f.memory > f.bounds.known {
		clear(f.known)
		f.memory = b.size() + len(rel)
	}
	f.known[rel] = b
}

func (f *foreign) forgets(rel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.known[rel]; ok {
		f.memory -= b.size() + len(rel)
		delete(f.known, rel)
	}
}

// change returns the change of a file: from what the agent believes to be in it.
func (f *foreign) change(_ context.Context, in editArgs) ([]edit.File, error) {
	b, ok := f.believes(in.Path)
	if !ok {
		return nil, fmt.Errorf("%s is there, and was not read by fs/read_text_file: read it before, so that nobody's changes are lost", in.Path)
	}
	return []edit.File{{Path: in.Path, Kind: edit.Change, Base: b.text, Proposed: in.New}}, nil
}

// create returns a new file.
func (f *foreign) create(ctx context.Context, in writeArgs) ([]edit.File, error) {
	_, err := f.content(ctx, in.Path)
	if err == nil {
		return f.change(ctx, editArgs{Path: in.Path})
	}
	if e, ok := errors.AsType[*workspace.Error](err); !ok || e.Kind != workspace.KindNotFound {
		return nil, err
	}
	return []edit.File{{Path: in.Path, Kind: edit.Create, Proposed: in.Content}}, nil
}

// written is a tool that writes, which answers the agent.
type written struct {
	aycoder.Tool
	aycoder.Planner
	aycoder.Previewer
	f *foreign
}

// Call implements [aycoder.Tool].
func (w *written) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	r := w.f.pending(inv.ID)
	sent, known := w.sent(ctx, inv, r)
	res, err := w.Tool.Call(ctx, inv)
	failed := err
	if failed == nil && res.IsError {
		failed = errors.New(res.Text())
	}
	if failed == nil && r != nil {
		w.f.forgets(w.f.path(r.write.Path))
		if known {
			w.f.knows(w.f.path(r.write.Path), sent)
		}
	}
	w.f.reply(inv.ID, sdk.WriteTextFileResponse{}, failed)
	return res, err
}

// sent returns what the agent will believe to be in the file: the text that it has sent, with the secrets put back, whatever
// the user has made of it. That is the base of its next change.
func (w *written) sent(ctx context.Context, inv *aycoder.Invocation, r *agentRequest) (b belief, known bool) {
	if r == nil {
		return b, false
	}
	own := *inv
	own.Args, own.Plan = r.args, nil
	plan, err := w.Plan(ctx, &own)
	if err != nil {
		return b, false
	}
	files := plan.Files()
	if len(files) == 0 { // it has sent what it believes
		return w.f.believes(w.f.path(r.write.Path))
	}
	return belief{files[0].Proposed, r.write.Content}, true
}
