package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/dialect"
)

// A claudeTeller tells the host what happens in a run, or in one inside of a call. Each block of the model's message is a
// separate message: it is sent when it is whole, or when something happens after it.
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

// block sends a block of the model's message. The words of subagents are only for the agent that has started them.
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
