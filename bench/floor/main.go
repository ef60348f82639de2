//go:build unix

// Floor is an agent written by hand with only net/http and encoding/json, for the wires of
// the contest. The other contestants are compared with it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
)

func main() {
	contest.Main(context.Background(), map[string]contest.Open{provider.Anthropic: anthropic, provider.OpenAI: openai})
}

// events sends a request and calls each with the data of every event of the answer.
func events(ctx context.Context, url string, body any, each func([]byte) error) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	for lines.Scan() {
		if d, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && string(d) != "[DONE]" {
			if err := each(d); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// A block is a part of a message of Anthropic's API, or of an answer.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`

	streamed []byte
}

type anthropicMessage struct {
	Role    string   `json:"role"`
	Content []*block `json:"content"`
}

func anthropic(s contest.Setup) (func() (contest.Conversation, error), error) {
	tool := map[string]any{"name": contest.ToolName, "description": contest.ToolDescription,
		"input_schema": json.RawMessage(contest.ToolSchema)}
	ask := func(ctx context.Context, history []anthropicMessage) (blocks []*block, err error) {
		body := map[string]any{"model": "claude-sonnet-4-5", "max_tokens": 4096, "stream": true,
			"system": contest.System, "tools": []any{tool}, "messages": history}
		err = events(ctx, s.URL+"/v1/messages", body, func(data []byte) error {
			var ev struct {
				Type         string
				Index        int
				ContentBlock *block `json:"content_block"`
				Delta        struct {
					Text        string
					PartialJSON string `json:"partial_json"`
				}
			}
			if err := json.Unmarshal(data, &ev); err != nil {
				return err
			}
			switch ev.Type {
			case "content_block_start":
				blocks = append(blocks, ev.ContentBlock)
			case "content_block_delta":
				b := blocks[ev.Index]
				b.streamed = append(b.streamed, ev.Delta.Text+ev.Delta.PartialJSON...)
				if b.Type == "text" {
					s.Text(ev.Delta.Text)
				}
			case "content_block_stop":
				if b := blocks[ev.Index]; b.Type == "text" {
					b.Text = string(b.streamed)
				} else {
					b.Input = b.streamed
				}
			}
			return nil
		})
		return blocks, err
	}
	return func() (contest.Conversation, error) {
		var history []anthropicMessage
		return func(ctx context.Context, prompt string) error {
			history = append(history, anthropicMessage{"user", []*block{{Type: "text", Text: prompt}}})
			for {
				blocks, err := ask(ctx, history)
				if err != nil {
					return err
				}
				history = append(history, anthropicMessage{"assistant", blocks})
				var results []*block
				for _, b := range blocks {
					if b.Type != "tool_use" {
						continue
					}
					out, err := call(s, b.Input)
					if err != nil {
						return err
					}
					results = append(results, &block{Type: "tool_result", ToolUseID: b.ID, Content: out})
				}
				if results == nil {
					return nil
				}
				history = append(history, anthropicMessage{"user", results})
			}
		}, nil
	}, nil
}

func call(s contest.Setup, args []byte) (string, error) {
	var in contest.Args
	if err := json.Unmarshal(args, &in); err != nil {
		return "", err
	}
	return s.Lookup(in), nil
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolCall struct {
	Index    int      `json:"-"`
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// A chatAnswer collects an answer from its chunks. The API sends the arguments of a call in
// pieces, which are joined only at the end: adding to a string would copy it each time.
type chatAnswer struct {
	said    func(string)
	message chatMessage
	text    strings.Builder
	args    [][]byte // by call
}

func (a *chatAnswer) chunk(data []byte) error {
	var ev struct {
		Choices []struct {
			Delta struct {
				Content   string
				ToolCalls []struct {
					Index    int
					ID       string
					Function function
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	for _, c := range ev.Choices {
		if c.Delta.Content != "" {
			a.text.WriteString(c.Delta.Content)
			a.said(c.Delta.Content)
		}
		for _, t := range c.Delta.ToolCalls {
			if t.ID != "" { // only the first piece of a call has it
				a.message.ToolCalls = append(a.message.ToolCalls, toolCall{ID: t.ID, Type: "function", Function: t.Function})
				a.args = append(a.args, nil)
			}
			a.args[t.Index] = append(a.args[t.Index], t.Function.Arguments...)
		}
	}
	return nil
}

func (a *chatAnswer) whole() chatMessage {
	a.message.Content = a.text.String()
	for i := range a.message.ToolCalls {
		a.message.ToolCalls[i].Function.Arguments = string(a.args[i])
	}
	return a.message
}

func openai(s contest.Setup) (func() (contest.Conversation, error), error) {
	tool := map[string]any{"type": "function", "function": map[string]any{"name": contest.ToolName,
		"description": contest.ToolDescription, "parameters": json.RawMessage(contest.ToolSchema)}}
	ask := func(ctx context.Context, history []chatMessage) (chatMessage, error) {
		body := map[string]any{"model": "gpt-4o", "stream": true, "tools": []any{tool}, "messages": history}
		a := chatAnswer{said: s.Text, message: chatMessage{Role: "assistant"}}
		err := events(ctx, s.URL+"/v1/chat/completions", body, a.chunk)
		return a.whole(), err
	}
	return func() (contest.Conversation, error) {
		history := []chatMessage{{Role: "system", Content: contest.System}}
		return func(ctx context.Context, prompt string) error {
			history = append(history, chatMessage{Role: "user", Content: prompt})
			for {
				m, err := ask(ctx, history)
				if err != nil {
					return err
				}
				history = append(history, m)
				if len(m.ToolCalls) == 0 {
					return nil
				}
				for _, c := range m.ToolCalls {
					out, err := call(s, []byte(c.Function.Arguments))
					if err != nil {
						return err
					}
					history = append(history, chatMessage{Role: "tool", ToolCallID: c.ID, Content: out})
				}
			}
		}, nil
	}, nil
}
