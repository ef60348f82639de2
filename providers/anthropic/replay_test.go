package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// wireBlock has the compared fields of a block in a request.
type wireBlock struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Content   json.RawMessage `json:"content"`

	raw json.RawMessage
}

// blocksOf returns the blocks of the messages of one role in a request.
func blocksOf(t *testing.T, body []byte, role string) []wireBlock {
	var req struct {
		Messages json.RawMessage
	}
	var messages []struct {
		Role    string
		Content json.RawMessage
	}
	if json.Unmarshal(body, &req) != nil || json.Unmarshal(req.Messages, &messages) != nil {
		return nil // a deliberately wrong request
	}
	var blocks []wireBlock
	for _, m := range messages {
		var raws []json.RawMessage
		if m.Role != role || json.Unmarshal(m.Content, &raws) != nil {
			continue
		}
		for _, raw := range raws {
			b := wireBlock{raw: raw}
			require.NoError(t, json.Unmarshal(raw, &b))
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// outputs are the recorded results of the calls of m, or made-up ones.
func outputs(m *aycoder.Message, recorded []wireBlock) []aycoder.Part {
	var parts []aycoder.Part
	for _, call := range m.Calls() {
		text := "no result was recorded"
		for _, b := range recorded {
			if b.Type == "tool_result" && b.ToolUseID == call.ID {
				text = string(b.Content)
			}
		}
		parts = append(parts, &aycoder.ToolOutput{ID: call.ID, Name: call.Name,
			Parts: []aycoder.Part{&aycoder.Text{Text: text}}})
	}
	return parts
}

type replayCounts struct {
	cases, steps, signatures, sameSignatures, opaque, sameBytes, sameOpaque, noNext int
}

// Conversations of several steps are replayed: each response is decoded, stored, and sent
// back with the results of its calls.
func TestRecordedSteps(t *testing.T) {
	var n replayCounts
	wiretest.Each(t, func(rec *wiretest.Recording) {
		var steps []*wiretest.Interaction
		for _, i := range rec.Interactions {
			if i.Kind == "inference" && (i.Family == "anthropic-messages" || i.Family == "bedrock-invoke") && i.Expected != nil && i.Response.Status == http.StatusOK && i.Expected.Complete {
				steps = append(steps, i)
			}
		}
		if len(steps) < 2 || rec.Origin == "suspect" {
			return
		}
		n.cases++
		replay(t, rec, steps, &n)
	})
	t.Logf("%+v", n)
	assert.Greater(t, n.steps, 100)
	assert.Greater(t, n.sameSignatures, 5)
	assert.Greater(t, n.sameBytes, 5)
}

func replay(t *testing.T, rec *wiretest.Recording, steps []*wiretest.Interaction, n *replayCounts) {
	history := []*aycoder.Message{aycoder.User("begin")}
	var before []byte
	for k, i := range steps {
		var opts []Option
		if i.Family == "bedrock-invoke" {
			opts = append(opts, WithBedrock("us-east-1"))
		}
		c := newClient(t, i.Transport(i.Body(), 1<<20), opts...)
		a := ask(c)
		require.NoError(t, a.err)
		var next []byte
		if k+1 < len(steps) {
			next = steps[k+1].RequestBody()
		} else {
			n.noNext++
		}
		m := wiretest.Stored(t, a.Message)
		history = append(history, m)
		if out := outputs(m, blocksOf(t, next, "user")); len(out) > 0 {
			history = append(history, &aycoder.Message{Role: aycoder.RoleUser, Parts: out})
		}
		body, err := c.wire(&aycoder.Request{Messages: history, NoCache: true})
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), rec.ID)
		before = body
		checkStep(t, rec.ID, i, m, blocksOf(t, body, "assistant"), n)
		checkNext(t, rec.ID, blocksOf(t, body, "assistant"), blocksOf(t, next, "assistant"), n)
		n.steps++
	}
}

// checkStep checks that the contents of one response are in the next request.
func checkStep(t *testing.T, id string, i *wiretest.Interaction, m *aycoder.Message, sent []wireBlock, n *replayCounts) {
	raw := func(want []byte) bool {
		for _, b := range sent {
			if bytes.Equal(b.raw, want) {
				return true
			}
		}
		return false
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Thinking:
			n.signatures++
			found := false
			for _, b := range sent {
				found = found || b.Signature == p.Signature
			}
			assert.True(t, found || p.Signature == "", "%s/%d: signature is gone", id, i.Seq)
		case *aycoder.Opaque:
			n.opaque++
			assert.True(t, raw(p.Raw), "%s/%d: block is not sent as it came: %s", id, i.Seq, p.Raw)
			if strings.HasPrefix(strings.TrimSpace(i.Response.Body), "{") {
				assert.Contains(t, i.Response.Body, string(p.Raw), "%s/%d", id, i.Seq)
				n.sameBytes++
			}
		}
	}
}

// checkNext compares with the request of the recorded client: the blocks that are in
// both, matched by their unique fields, are equal.
func checkNext(t *testing.T, id string, sent, recorded []wireBlock, n *replayCounts) {
	for _, r := range recorded {
		for _, s := range sent {
			switch {
			case r.Type != s.Type:
			case r.Type == "thinking" && r.Signature == s.Signature:
				n.sameSignatures++
			case strings.HasSuffix(r.Type, "_tool_use") && r.ID == s.ID,
				strings.HasSuffix(r.Type, "_tool_result") && r.ToolUseID == s.ToolUseID,
				r.Type == "redacted_thinking" && r.Data == s.Data:
				var want, got any
				require.NoError(t, json.Unmarshal(r.raw, &want))
				require.NoError(t, json.Unmarshal(s.raw, &got))
				if assert.True(t, same(want, got), "%s:\n%.2000s\n%.2000s", id, r.raw, s.raw) {
					n.sameOpaque++
				}
			}
		}
	}
}

// same compares a recorded value with ours. The recordings replace long base64 texts by
// length and digest. Their clients added nulls and breakpoints, and dropped the caller
// field of tool uses.
func same(want, got any) bool {
	switch want := want.(type) {
	case string:
		s, ok := got.(string)
		elided := fmt.Sprintf("<elided base64 len=%d sha256=%x>", len(s), sha256.Sum256([]byte(s)))
		return ok && (want == s || want == elided)
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(want, list, same)
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			return false
		}
		noise := func(k string, v any) bool { return v == nil || k == "cache_control" || k == "caller" }
		maps.DeleteFunc(want, noise)
		maps.DeleteFunc(m, noise)
		return maps.EqualFunc(want, m, same)
	}
	return reflect.DeepEqual(want, got)
}
