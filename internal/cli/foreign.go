package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// Sessions of other programs are lines of JSON, for which there is no specification. Claude Code keeps them in
// ~/.claude/projects/<directory>/<id>.jsonl: each line has a message in the form of the Messages API, and the uuid of
// the line before it, so that a file is a tree. Codex keeps them in ~/.codex/sessions/<date>/rollout-<id>.jsonl: the
// lines of the type response_item have the items of the Responses API. Of both, texts and calls with their outputs are
// taken, and not what the model has thought, since only the service that has signed it takes it back.

// A foreignSession is a session of another program.
type foreignSession struct {
	title, dir string
	messages   []*aycoder.Message
	times      []time.Time
}

// A foreignLine is a line of either form.
type foreignLine struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	// of Claude Code
	UUID       string          `json:"uuid"`
	ParentUUID string          `json:"parentUuid"`
	Sidechain  bool            `json:"isSidechain"` // of a subagent
	Meta       bool            `json:"isMeta"`      // what the program has added
	Dir        string          `json:"cwd"`
	Summary    string          `json:"summary"`
	Title      string          `json:"customTitle"`
	Message    json.RawMessage `json:"message"`
	said       foreignMessage  // what is in Message; empty if there is none
	// of Codex
	Payload *foreignItem `json:"payload"`
}

// A foreignMessage is the message of a line of Claude Code.
type foreignMessage struct {
	ID      string          `json:"id"`
	Role    aycoder.Role    `json:"role"`
	Content json.RawMessage `json:"content"`
}

// A foreignItem is the payload of a line of Codex.
type foreignItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Dir       string          `json:"cwd"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	Turns     int             `json:"num_turns"`
}

// A foreignBlock is a part of a message of either form.
type foreignBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	CallID  string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
}

// readForeign reads a session of another program. A line that is not JSON, such as the last one after a crash, is left
// out, and what is not UTF-8 is replaced, which raw JSON would keep.
func readForeign(r io.Reader) (*foreignSession, error) {
	var lines []foreignLine
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	for sc.Scan() {
		var l foreignLine
		if json.Unmarshal(bytes.ToValidUTF8(sc.Bytes(), []byte("\uFFFD")), &l) == nil {
			_ = json.Unmarshal(l.Message, &l.said)
			lines = append(lines, l)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	s := &foreignSession{}
	for _, l := range branchOf(lines) {
		s.add(&l)
	}
	s.messages = aycoder.RepairHistory(s.messages)
	if len(s.messages) == 0 {
		return nil, errors.New("it is neither an export of this program nor a session of Claude Code or Codex")
	}
	return s, nil
}

// branchOf returns the lines that lead to the last message, and those that belong to no branch. Each call of an answer has
// a line, with the id of the answer, and its result has that line as its parent: of several calls, one leads to the last
// message, and the others belong to it.
func branchOf(lines []foreignLine) []foreignLine {
	parents, last := map[string]string{}, ""
	for _, l := range lines {
		if l.UUID != "" && !l.Sidechain {
			parents[l.UUID], last = l.ParentUUID, l.UUID
		}
	}
	on := map[string]bool{}
	for id := last; id != "" && !on[id]; id = parents[id] {
		on[id] = true
	}
	answers := map[string]bool{}
	for _, l := range lines {
		answers[l.said.ID] = answers[l.said.ID] || on[l.UUID]
	}
	for _, l := range lines {
		on[l.UUID] = on[l.UUID] || l.said.ID != "" && answers[l.said.ID] || on[l.ParentUUID] && bytes.Contains(l.said.Content, []byte(`"tool_result"`))
	}
	return slices.DeleteFunc(lines, func(l foreignLine) bool { return l.Sidechain || l.UUID != "" && !on[l.UUID] })
}

func (s *foreignSession) add(l *foreignLine) {
	s.title = cmp.Or(l.Title, s.title, l.Summary)
	switch {
	case l.Payload != nil:
		s.dir = cmp.Or(s.dir, l.Payload.Dir)
		switch {
		case l.Type == "response_item":
			s.item(l.Payload, l.Timestamp)
		case l.Payload.Type == "thread_rolled_back":
			s.takeBack(l.Payload.Turns)
		}
	case l.Message != nil && !l.Meta:
		s.dir = cmp.Or(s.dir, l.Dir)
		s.say(l.said.Role, l.Timestamp, partsOf(l.said.Content)...)
	}
}

// item adds an item of the Responses API.
func (s *foreignSession) item(p *foreignItem, at time.Time) {
	switch p.Type {
	case "message":
		if role := aycoder.Role(p.Role); role == aycoder.RoleUser && !injected(p.Content) || role == aycoder.RoleAssistant {
			s.say(role, at, partsOf(p.Content)...)
		}
	case "function_call", "custom_tool_call":
		args := json.RawMessage(p.Arguments)
		if !json.Valid(args) || len(args) == 0 {
			args, _ = json.Marshal(map[string]string{"input": cmp.Or(p.Input, p.Arguments)})
		}
		s.say(aycoder.RoleAssistant, at, &aycoder.ToolUse{ID: p.ID, Name: p.Name, Args: args})
	case "function_call_output", "custom_tool_call_output":
		s.say(aycoder.RoleUser, at, &aycoder.ToolOutput{ID: p.ID, Name: s.nameOf(p.ID), Parts: []aycoder.Part{&aycoder.Text{Text: textOf(p.Output)}}})
	}
}

// takeBack removes the last turns.
func (s *foreignSession) takeBack(turns int) {
	n := len(s.messages)
	for ; n > 0 && turns > 0; n-- {
		if m := s.messages[n-1]; m.Role == aycoder.RoleUser && m.Text() != "" {
			turns--
		}
	}
	s.messages, s.times = s.messages[:n], s.times[:n]
}

// injected reports whether a message is one that Codex itself has put before those of the user.
func injected(content json.RawMessage) bool {
	text := textOf(content)
	for _, mark := range []string{"<environment_context>", "<user_instructions>", "# AGENTS.md instructions"} {
		if strings.HasPrefix(text, mark) {
			return true
		}
	}
	return false
}

// say adds parts to the last message, if it has the same role and the model has not answered it, or else a new message.
func (s *foreignSession) say(role aycoder.Role, at time.Time, parts ...aycoder.Part) {
	if len(parts) == 0 {
		return
	}
	for _, p := range parts {
		if o, ok := p.(*aycoder.ToolOutput); ok {
			o.Name = cmp.Or(o.Name, s.nameOf(o.ID))
		}
	}
	if n := len(s.messages) - 1; n >= 0 && s.messages[n].Role == role {
		s.messages[n].Parts = append(s.messages[n].Parts, parts...)
		return
	}
	s.messages = append(s.messages, &aycoder.Message{Role: role, Parts: parts})
	s.times = append(s.times, at)
}

// nameOf returns the name of the tool that a call was made of.
func (s *foreignSession) nameOf(id string) string {
	for _, m := range slices.Backward(s.messages) {
		for _, c := range m.Calls() {
			if c.ID == id {
				return c.Name
			}
		}
	}
	return "unknown"
}

// partsOf returns the parts of a message, whose content is a text or a list of blocks.
func partsOf(content json.RawMessage) []aycoder.Part {
	var text string
	if json.Unmarshal(content, &text) == nil && text != "" {
		return []aycoder.Part{&aycoder.Text{Text: text}}
	}
	var blocks []foreignBlock
	_ = json.Unmarshal(content, &blocks) // what is not a list has no parts
	var parts []aycoder.Part
	for _, b := range blocks {
		switch b.Type {
		case "text", "input_text", "output_text":
			if b.Text != "" {
				parts = append(parts, &aycoder.Text{Text: b.Text})
			}
		case "tool_use":
			args := b.Input
			if len(args) == 0 {
				args = json.RawMessage("{}")
			}
			parts = append(parts, &aycoder.ToolUse{ID: b.ID, Name: b.Name, Args: args})
		case "tool_result":
			out := &aycoder.ToolOutput{ID: b.CallID, IsError: b.IsError, Parts: []aycoder.Part{&aycoder.Text{Text: textOf(b.Content)}}}
			parts = append(parts, out)
		case "image", "input_image":
			parts = append(parts, &aycoder.Text{Text: "[an image that was not imported]"})
		}
	}
	return parts
}

// textOf returns the text of an output or of a message.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var texts []string
	for _, p := range partsOf(content) {
		if t, ok := p.(*aycoder.Text); ok {
			texts = append(texts, t.Text)
		}
	}
	if texts == nil && len(content) > 0 && content[0] == '{' {
		return string(content)
	}
	return strings.Join(texts, "\n")
}

// document returns the session in the form that sessions are exported in.
func (s *foreignSession) document() ([]byte, error) {
	type node struct {
		ID      int              `json:"id"`
		Parent  int              `json:"parent"`
		Message *aycoder.Message `json:"message"`
		At      time.Time        `json:"at"`
	}
	var nodes []node
	for i, m := range s.messages {
		at := time.Time{}
		if i < len(s.times) {
			at = s.times[i]
		}
		nodes = append(nodes, node{i + 1, i, m, at})
	}
	return json.Marshal(map[string]any{
		"format": "aycoder-tree", "version": 1, "title": s.title, "heads": map[string]int{"": len(nodes)}, "nodes": nodes,
	})
}

// exportOf returns a file as an export of this program, and the directory that a session of another program worked in.
func exportOf(data []byte) (export []byte, dir string, err error) {
	var head struct {
		Format string `json:"format"`
	}
	if json.Unmarshal(data, &head) == nil && head.Format != "" {
		return data, "", nil
	}
	s, err := readForeign(bytes.NewReader(data))
	if err != nil {
		return nil, "", fmt.Errorf("import session: %w", err)
	}
	export, err = s.document()
	return export, s.dir, err
}
