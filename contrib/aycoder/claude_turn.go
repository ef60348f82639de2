package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/policy"
)

// A userMessage is a message of the user.
type userMessage struct {
	UUID    string `json:"uuid"`
	Parent  string `json:"parent_tool_use_id"`
	Query   *bool  `json:"shouldQuery"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// A block is a part of a message in the Messages API.
type block struct {
	Type   string `json:"type"`
	Text   string `json:"text,omitempty"`
	Source *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type,omitempty"`
		Data      []byte `json:"data,omitempty"`
		URL       string `json:"url,omitempty"`
	} `json:"source,omitempty"`
}

// input makes the input of a run. A text alone may call a command.
func (m *userMessage) input() (in aycoder.Input, err error) {
	switch {
	case m.Parent != "":
		return in, unsupported("messages for a subagent")
	case m.Query != nil && !*m.Query:
		return in, unsupported("messages that wait for the next one")
	case json.Unmarshal(m.Message.Content, &in.Prompt) == nil:
		if in.Prompt == "" {
			err = errors.New("the message is empty")
		}
		return in, err
	}
	var blocks []block
	if err := json.Unmarshal(m.Message.Content, &blocks); err != nil {
		return in, err
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			in.Parts = append(in.Parts, &aycoder.Text{Text: b.Text})
		case b.Type == "image" && b.Source != nil && (len(b.Source.Data) > 0 || b.Source.URL != ""):
			in.Parts = append(in.Parts, &aycoder.Media{Type: b.Source.MediaType, Data: b.Source.Data, URL: b.Source.URL})
		default:
			return in, unsupported("parts of messages of the type %q", b.Type)
		}
	}
	if len(in.Parts) == 0 {
		return in, errors.New("the message is empty")
	}
	if text, ok := in.Parts[0].(*aycoder.Text); ok && len(in.Parts) == 1 {
		in.Parts, in.Prompt = nil, text.Text
	}
	return in, nil
}

// answer lets the agent answer a message. An interrupt is not an error.
func (f *claudeFace) answer(ctx context.Context, rt *harness.Runtime, m *userMessage) error {
	began := time.Now()
	f.out.send(f.message("system", f.session(rt)))
	for _, text := range f.notes {
		f.note("%s", text)
	}
	f.notes = nil
	var res aycoder.Result
	var value json.RawMessage
	t := &claudeTeller{f: f, rt: rt}
	in, failed := m.input()
	if failed == nil {
		for ev, err := range answers(ctx, rt, in, f.schema, &value, &res) {
			if failed = err; err == nil {
				t.event(ctx, ev)
			}
		}
	}
	t.aborted = failed != nil
	t.flush()
	if failed = causeOf(ctx, failed); failed == nil && res.End == aycoder.EndSuspended {
		failed = errors.New("the run waits for an approval or a result that nobody here can give")
	}
	r := f.result(&res, failed, value)
	r["duration_ms"] = time.Since(began).Milliseconds()
	f.out.send(f.message("result", r))
	f.denials = nil
	if errors.Is(failed, errInterrupted) {
		return nil
	}
	return failed
}

// session tells what the agent has and may do.
func (f *claudeFace) session(rt *harness.Runtime) map[string]any {
	tools, commands, skills := []string{}, []string{}, []string{}
	for _, t := range rt.Tools {
		tools = append(tools, dialect.Names(t.Spec().Name)[0])
	}
	if rt.Library != nil {
		for _, c := range rt.Library.Now().Commands {
			commands = append(commands, c.Name)
		}
		for _, s := range rt.Library.Now().Skills {
			skills = append(skills, s.Name)
		}
	}
	_, model := modelOf(rt)
	f.mu.Lock()
	defer f.mu.Unlock()
	return map[string]any{
		"subtype": "init", "cwd": rt.Files.Dir(), "tools": tools, "mcp_servers": serverStates(rt), "model": model,
		"permissionMode": f.mode, "slash_commands": commands, "skills": skills, "plugins": []any{}, "output_style": "default",
		"apiKeySource": "user", "claude_code_version": version(), "capabilities": []string{"interrupt_receipt_v1", "interrupt_cancel_queued_v1"},
	}
}

// version is that of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// result tells how a run has ended.
func (f *claudeFace) result(res *aycoder.Result, failed error, value json.RawMessage) map[string]any {
	cost, unpriced := f.totals.add(res.Spent)
	if unpriced && !f.unpriced {
		f.unpriced = true
		f.note("total_cost_usd is without what has no known price")
	}
	r := map[string]any{
		"subtype": "success", "is_error": failed != nil, "num_turns": res.Turns, "stop_reason": res.Stop,
		"total_cost_usd": cost, "usage": usageOf(res.Usage), "modelUsage": f.totals,
		"permission_denials": append([]any{}, f.denials...),
	}
	if failed == nil {
		r["result"] = res.Text()
		if value != nil {
			r["structured_output"] = value
		}
		return r
	}
	r["subtype"], r["errors"] = "error_during_execution", []string{failed.Error()}
	if _, ok := errors.AsType[*budget.ExhaustedError](failed); ok {
		r["subtype"] = "error_max_budget_usd"
	} else if _, ok := errors.AsType[*generate.Error](failed); ok {
		r["subtype"] = "error_max_structured_output_retries"
	} else if res.End == aycoder.EndTurns {
		r["subtype"] = "error_max_turns"
	}
	return r
}

func usageOf(u aycoder.Usage) map[string]any {
	return map[string]any{
		"input_tokens": u.Input, "output_tokens": u.Output, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
	}
}

// totals are what each model has used since the program was started.
type totals map[string]*modelTotal

type modelTotal struct {
	Input      int64   `json:"inputTokens"`
	Output     int64   `json:"outputTokens"`
	CacheRead  int64   `json:"cacheReadInputTokens"`
	CacheWrite int64   `json:"cacheCreationInputTokens"`
	Cost       float64 `json:"costUSD"`
	unpriced   bool
}

// add adds what a run has spent. It returns the sum of the costs, and whether some are not known.
func (t totals) add(spent []aycoder.Spent) (cost float64, unpriced bool) {
	for _, s := range spent {
		m := t[s.Model]
		if m == nil {
			m = &modelTotal{}
			t[s.Model] = m
		}
		m.Input += s.Usage.Input
		m.Output += s.Usage.Output
		m.CacheRead += s.Usage.CacheRead
		m.CacheWrite += s.Usage.CacheWrite
		m.Cost += s.Cost
		m.unpriced = m.unpriced || s.Unpriced > 0
	}
	for _, m := range t {
		cost, unpriced = cost+m.Cost, unpriced || m.unpriced
	}
	return cost, unpriced
}

// A claudeTeller tells the host what happens in a run, or in one inside of a call. Each block of the model's message is a
// message of its own: it is sent when it is whole, or when something happens after it.
type claudeTeller struct {
	f      *claudeFace
	rt     *harness.Runtime
	parent string // the id of the call that the run is inside of

	id       string // of the message
	aborted  bool   // it will not be whole
	text     strings.Builder
	thinking strings.Builder
	told     map[string]bool // the calls that the host knows
	asked    map[string]bool // those that it was asked about
	inner    map[string]*claudeTeller

	open  string // the type of the block that is being streamed
	index int    // its number
}

func (t *claudeTeller) event(ctx context.Context, ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		t.thought()
		t.text.WriteString(ev.Text)
		t.piece("text", map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": ev.Text})
	case *aycoder.ThinkingDelta:
		t.said()
		t.thinking.WriteString(ev.Text)
		t.piece("thinking", map[string]any{"type": "thinking", "thinking": "", "signature": ""}, map[string]any{"type": "thinking_delta", "thinking": ev.Text})
	case *aycoder.Retrying:
		t.retrying(ev)
	case *aycoder.ToolStarted:
		t.call(ev.Call)
	case *aycoder.ApprovalRequested:
		t.approve(ctx, ev)
	case *aycoder.CallRequested:
		_ = ev.Answer(aycoder.ErrorResult("nobody can answer this here")) // the run may have ended
	case *aycoder.ToolFinished:
		t.finished(ev)
	case *aycoder.ChildEvent:
		t.child(ev.CallID).event(ctx, ev.Event)
	case *aycoder.TurnFinished:
		t.flush()
		t.streamEnd(ev)
		t.id = ""
	case *aycoder.Compacted:
		if ev.Note != nil {
			t.f.out.send(t.f.message("system", map[string]any{"subtype": "compact_boundary", "compact_metadata": map[string]any{
				"trigger": "auto", "pre_tokens": ev.Before, "post_tokens": ev.After,
			}}))
		}
	case *aycoder.Notice:
		t.f.note("[%s] %s", ev.Source, ev.Text)
	}
}

func (t *claudeTeller) child(id string) *claudeTeller {
	if t.inner == nil {
		t.inner = map[string]*claudeTeller{}
	}
	if t.inner[id] == nil {
		t.inner[id] = &claudeTeller{f: t.f, rt: t.rt, parent: id}
	}
	return t.inner[id]
}

// flush sends what the model has said so far.
func (t *claudeTeller) flush() {
	t.thought()
	t.said()
}

func (t *claudeTeller) thought() {
	if text := t.thinking.String(); text != "" {
		t.thinking.Reset()
		t.block(map[string]any{"type": "thinking", "thinking": text, "signature": ""})
	}
}

func (t *claudeTeller) said() {
	if text := t.text.String(); text != "" {
		t.text.Reset()
		t.block(map[string]any{"type": "text", "text": text})
	}
}

// block sends a block of the model's message. What subagents say is only for the agent that has started them.
func (t *claudeTeller) block(b map[string]any) {
	t.closeBlock()
	if t.parent != "" && b["type"] != "tool_use" {
		return
	}
	m := map[string]any{"message": t.envelope(b)}
	if t.aborted {
		m["aborted"] = true
	}
	t.send("assistant", m)
}

// envelope returns the message that is being made, with blocks.
func (t *claudeTeller) envelope(blocks ...any) map[string]any {
	_, model := modelOf(t.rt)
	return map[string]any{
		"id": t.message(), "type": "message", "role": "assistant", "model": model, "content": append([]any{}, blocks...), "stop_reason": nil,
		"stop_sequence": nil, "usage": usageOf(aycoder.Usage{}), // which the result has
	}
}

// message returns the id of the message that is being made.
func (t *claudeTeller) message() string {
	t.id = cmp.Or(t.id, "msg_"+newUUID())
	return t.id
}

func (t *claudeTeller) send(kind string, m map[string]any) {
	m["parent_tool_use_id"] = nil
	if t.parent != "" {
		m["parent_tool_use_id"] = t.parent
	}
	t.f.out.send(t.f.message(kind, m))
}

// view returns a call as the host knows it.
func (t *claudeTeller) view(tool string, args json.RawMessage) dialect.View {
	if all, err := dialect.Views(t.rt.Files.Dir(), tool, args); err == nil {
		return all[0]
	}
	return dialect.View{Name: dialect.Names(tool)[0], Input: map[string]any{}} // the arguments are not an object
}

// call tells the host of a call, unless it knows it.
func (t *claudeTeller) call(c *aycoder.ToolUse) {
	if t.told[c.ID] {
		return
	}
	t.flush()
	if t.told == nil {
		t.told = map[string]bool{}
	}
	t.told[c.ID] = true
	v := t.view(c.Name, c.Args)
	if t.f.partial {
		args, _ := json.Marshal(v.Input) // which was decoded from JSON
		t.piece("tool_use", map[string]any{"type": "tool_use", "id": c.ID, "name": v.Name, "input": struct{}{}},
			map[string]any{"type": "input_json_delta", "partial_json": string(args)})
	}
	t.block(map[string]any{"type": "tool_use", "id": c.ID, "name": v.Name, "input": v.Input})
}

func (t *claudeTeller) finished(ev *aycoder.ToolFinished) {
	t.call(ev.Call)
	content := []any{}
	for _, p := range ev.Output.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			content = append(content, map[string]any{"type": "text", "text": p.Text})
		case *aycoder.Media:
			content = append(content, map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": p.Type, "data": p.Data}})
		}
	}
	if denied, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err); ok {
		t.denied(ev.Call, denied)
	}
	t.send("user", map[string]any{"message": map[string]any{"role": "user", "content": []any{map[string]any{
		"type": "tool_result", "tool_use_id": ev.Call.ID, "content": content, "is_error": ev.Output.IsError || ev.Err != nil,
	}}}})
}

// denied notes a call that was not run. Of one that the host was not asked about, it is told.
func (t *claudeTeller) denied(c *aycoder.ToolUse, why *aycoder.ToolDeniedError) {
	v := t.view(c.Name, c.Args)
	t.f.denials = append(t.f.denials, map[string]any{"tool_name": v.Name, "tool_use_id": c.ID, "tool_input": v.Input})
	if !t.asked[c.ID] {
		t.f.out.send(t.f.message("system", map[string]any{
			"subtype": "permission_denied", "tool_name": v.Name, "tool_use_id": c.ID, "message": cmp.Or(why.Reason, why.Error()),
		}))
	}
}

func (t *claudeTeller) retrying(ev *aycoder.Retrying) {
	t.text.Reset()
	t.thinking.Reset()
	t.closeBlock()
	if ev.Discarded {
		t.id = ""
	}
	var status any
	kind := "unknown"
	if e, ok := errors.AsType[*aycoder.ModelError](ev.Err); ok && e.Status != 0 {
		status, kind = e.Status, "server_error"
	}
	t.f.out.send(t.f.message("system", map[string]any{
		"subtype": "api_retry", "attempt": ev.Attempt, "retry_delay_ms": ev.After.Milliseconds(), "error_status": status, "error": kind,
	}))
}

// A permission is the answer of the host to a question.
type permission struct {
	Behavior  string            `json:"behavior"`
	Input     json.RawMessage   `json:"updatedInput"`
	Updates   []json.RawMessage `json:"updatedPermissions"`
	Message   string            `json:"message"`
	Interrupt bool              `json:"interrupt"`
}

// approve puts a question to the host. Whatever is not a clear yes is a no.
func (t *claudeTeller) approve(ctx context.Context, q *aycoder.ApprovalRequested) {
	r := &q.Request
	t.call(&aycoder.ToolUse{ID: r.CallID, Name: r.Tool, Args: r.Args})
	if t.f.answered(r.Tool) {
		q.Allow()
		return
	}
	if t.asked == nil {
		t.asked = map[string]bool{}
	}
	t.asked[r.CallID] = true
	v, offers, suggestions := t.view(r.Tool, r.Args), offersOf(r), []any{}
	for _, o := range offers {
		suggestions = append(suggestions, o.update)
	}
	request := map[string]any{
		"subtype": "can_use_tool", "tool_name": v.Name, "input": v.Input, "tool_use_id": r.CallID, "title": r.Subject, "description": r.Preview,
		"decision_reason": strings.Join(r.Reasons, ", "), "permission_suggestions": suggestions,
	}
	if t.parent != "" {
		request["agent_id"] = t.parent
	}
	data, err := t.f.ask(ctx, request)
	var p permission
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err == nil {
		err = t.decide(q, v, offers, &p)
	}
	if err != nil {
		q.Deny("the host has not allowed it: " + err.Error())
	}
}

// An offer is what the host may answer to allow more than one call, and the rule that this is.
type offer struct {
	rule   string
	update any
}

func offersOf(r *aycoder.ApprovalRequest) (offers []offer) {
	for _, text := range r.Suggested {
		if rule, err := policy.ParseRule(policy.RuleAllow, text); err == nil {
			offers = append(offers, offer{text, map[string]any{
				"type": "addRules", "behavior": "allow", "destination": "session",
				"rules": []any{map[string]any{"toolName": dialect.Names(rule.Tool)[0], "ruleContent": rule.Pattern}},
			}})
		}
	}
	return offers
}

// decide answers a question as the host wants. An error is a no.
func (t *claudeTeller) decide(q *aycoder.ApprovalRequested, v dialect.View, offers []offer, p *permission) error {
	switch p.Behavior {
	case "allow":
	case "deny":
		q.Deny(cmp.Or(p.Message, "the host said no"))
		if p.Interrupt {
			t.f.interrupt(false)
		}
		return nil
	default:
		return unsupported("the answer %q", p.Behavior)
	}
	rule, err := t.f.updates(t.rt, offers, p.Updates)
	if err != nil {
		return err
	}
	same, err := json.Marshal(v.Input)
	switch {
	case err != nil:
		return err
	case len(p.Input) > 0 && jsontext.Canonical(p.Input) != jsontext.Canonical(same):
		args, err := dialect.Inward(t.rt.Files.Dir(), q.Request.Tool, v, p.Input)
		if err == nil && rule != "" {
			err = unsupported("another input together with a rule")
		}
		if err == nil {
			err = q.AllowWith(args)
		}
		return err
	case rule != "":
		return q.AllowFor(aycoder.Session, rule)
	}
	q.Allow()
	return nil
}

// updates carries out what the host wants besides, and returns the rule that it allows: one of those that it was offered.
func (f *claudeFace) updates(rt *harness.Runtime, offers []offer, updates []json.RawMessage) (rule string, err error) {
	for _, u := range updates {
		var mode struct{ Type, Mode, Destination string }
		if json.Unmarshal(u, &mode) == nil && mode.Type == "setMode" && mode.Destination == "session" {
			if err := f.setMode(rt, mode.Mode); err != nil {
				return "", err
			}
			continue
		}
		i := slices.IndexFunc(offers, func(o offer) bool {
			data, err := json.Marshal(o.update)
			return err == nil && jsontext.Canonical(data) == jsontext.Canonical(u)
		})
		if i < 0 || rule != "" {
			return "", unsupported("a change of permissions that was not suggested")
		}
		rule = offers[i].rule
	}
	return rule, nil
}

// piece streams a piece of a block, if the host wants the pieces. The first one begins the block.
func (t *claudeTeller) piece(kind string, start, delta map[string]any) {
	if !t.f.partial || t.parent != "" {
		return
	}
	if t.open != "" && t.open != kind {
		t.closeBlock()
	}
	if t.id == "" {
		t.index = 0
		t.stream(map[string]any{"type": "message_start", "message": t.envelope()})
	}
	if t.open == "" {
		t.open = kind
		t.stream(map[string]any{"type": "content_block_start", "index": t.index, "content_block": start})
	}
	t.stream(map[string]any{"type": "content_block_delta", "index": t.index, "delta": delta})
}

func (t *claudeTeller) closeBlock() {
	if t.open == "" {
		return
	}
	t.stream(map[string]any{"type": "content_block_stop", "index": t.index})
	t.open = ""
	t.index++
}

func (t *claudeTeller) streamEnd(ev *aycoder.TurnFinished) {
	if !t.f.partial || t.id == "" || t.parent != "" {
		return
	}
	t.stream(map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": ev.Stop, "stop_sequence": nil}, "usage": usageOf(ev.Usage)})
	t.stream(map[string]any{"type": "message_stop"})
}

func (t *claudeTeller) stream(event map[string]any) {
	t.send("stream_event", map[string]any{"event": event})
}
