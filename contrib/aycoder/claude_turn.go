package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/dialect"
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
			m := &aycoder.Media{Type: b.Source.MediaType, URL: b.Source.URL}
			if m.URL == "" {
				var err error
				if m, err = harness.Image("", b.Source.Data); err != nil {
					return in, fmt.Errorf("an image of the message: %w", err)
				}
			}
			in.Parts = append(in.Parts, m)
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
	var document json.RawMessage
	t := &claudeTeller{f: f, rt: rt}
	in, failed := m.input()
	if failed == nil {
		res, document, failed = answer(ctx, rt, in, f.schema, func(ev aycoder.Event) { t.event(ctx, ev) })
	}
	t.aborted = failed != nil
	t.flush()
	r := f.result(&res, failed, document)
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
	for _, t := range rt.ToolsNow() {
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
		"permissionMode": f.modeNow(rt), "slash_commands": commands, "skills": skills, "plugins": []any{}, "output_style": "default",
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
func (f *claudeFace) result(res *aycoder.Result, failed error, document json.RawMessage) map[string]any {
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
		if document != nil {
			r["structured_output"] = document
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
