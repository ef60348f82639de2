package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// chatWire has the compared fields of a request.
type chatWire struct {
	Messages []struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"tool_call_id"`
		Details   json.RawMessage `json:"reasoning_details"`
		Reasoning *string         `json:"reasoning_content"`
		Calls     []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
}

// chatEncoded returns the body of a request.
func chatEncoded(t testing.TB, c *Client, req *aycoder.Request) []byte {
	t.Helper()
	p, err := c.encodeChat(req)
	require.NoError(t, err)
	body, err := io.ReadAll(p.Reader())
	require.NoError(t, err)
	require.True(t, json.Valid(body), "%s", body)
	return body
}

type chatReplayCounts struct {
	cases, steps, calls, details, exact, sameDetails, reasoning int
}

// Conversations of several steps are replayed: each response is decoded, stored, and
// sent back with the results of its calls.
func TestChatRecordedSteps(t *testing.T) {
	var n chatReplayCounts
	suite := chatSuite(t)
	last := ""
	var steps []*wiretest.Interaction
	flush := func() {
		if len(steps) > 1 {
			n.cases++
			chatReplay(t, last, steps, &n)
		}
		steps = nil
	}
	suite.Each(t, func(r *wiretest.Recording, i *wiretest.Interaction) {
		if r.ID != last {
			flush()
			last = r.ID
		}
		if i.Response.Status == http.StatusOK && i.Expected.Complete && i.Expected.Error == nil {
			steps = append(steps, i)
		}
	})
	flush()
	t.Logf("%+v", n)
	assert.Greater(t, n.steps, 400)
	assert.Greater(t, n.details, 40)
	assert.Greater(t, n.exact, 10)
	assert.Greater(t, n.sameDetails, 20)
}

func chatReplay(t *testing.T, id string, steps []*wiretest.Interaction, n *chatReplayCounts) {
	history := []*aycoder.Message{aycoder.User("begin")}
	var before []byte
	for k, i := range steps {
		c := newChat(t, i.Transport(i.Body(), 1<<20), WithThinkingField("reasoning_content"))
		m := wiretest.Stored(t, wiretest.Ask(t.Context(), t, c, &aycoder.Request{Messages: history}).Message())
		history = append(history, m)
		if calls := m.Calls(); len(calls) > 0 {
			out := &aycoder.Message{Role: aycoder.RoleUser}
			for _, u := range calls {
				out.Parts = append(out.Parts, &aycoder.ToolOutput{ID: u.ID, Name: u.Name})
			}
			history = append(history, out)
		}
		body := chatEncoded(t, c, &aycoder.Request{Messages: history})
		require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), id)
		before = body
		n.steps++
		chatCheckStep(t, id, i, m, body, n)
		if k+1 < len(steps) {
			chatCheckNext(t, id, body, steps[k+1].RequestBody(), n)
		}
	}
}

// chatCheckStep checks that the contents of one response are in the next request.
func chatCheckStep(t *testing.T, id string, i *wiretest.Interaction, m *aycoder.Message, body []byte, n *chatReplayCounts) {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Opaque:
			inner, ok := strings.CutPrefix(string(p.Raw), `{"reasoning_details":[`)
			if !ok {
				continue
			}
			inner = strings.TrimSuffix(inner, "]}")
			n.details++
			assert.Contains(t, string(body), `"reasoning_details":[`+inner+`]`, id)
			if !i.Streaming {
				n.exact++
				assert.Contains(t, i.Body(), inner, id)
			}
		case *aycoder.Thinking:
			if len(m.Calls()) > 0 {
				n.reasoning++
				quoted, _ := json.Marshal(p.Text)
				var sent chatWire
				require.NoError(t, json.Unmarshal(body, &sent))
				found := false
				for _, w := range sent.Messages {
					found = found || w.Reasoning != nil && strings.Contains(*w.Reasoning, p.Text)
				}
				assert.True(t, found, "%s: %s is gone", id, quoted)
			}
		case *aycoder.ToolUse:
			n.calls++
			quoted, _ := json.Marshal(p.ID)
			if len(p.ID) <= 40 {
				assert.Contains(t, string(body), `"id":`+string(quoted), id)
				assert.Contains(t, string(body), `"tool_call_id":`+string(quoted), id)
			}
		}
	}
}

// chatCheckNext compares with the request of the recorded client: signatures and
// encrypted data are equal.
func chatCheckNext(t *testing.T, id string, sent, recorded []byte, n *chatReplayCounts) {
	var ours, theirs chatWire
	require.NoError(t, json.Unmarshal(sent, &ours))
	if json.Unmarshal(recorded, &theirs) != nil {
		return
	}
	got := map[string]any{}
	each := func(w *chatWire, f func(map[string]any)) {
		for _, m := range w.Messages {
			var list []map[string]any
			if json.Unmarshal(m.Details, &list) == nil {
				for _, d := range list {
					f(d)
				}
			}
		}
	}
	secret := func(d map[string]any) string {
		for _, key := range []string{"data", "signature"} {
			if s, ok := d[key].(string); ok && s != "" {
				return s
			}
		}
		return ""
	}
	each(&ours, func(d map[string]any) {
		s := secret(d)
		got[s] = d
		got[fmt.Sprintf("<elided base64 len=%d sha256=%x>", len(s), sha256.Sum256([]byte(s)))] = d
	})
	each(&theirs, func(d map[string]any) {
		s := secret(d)
		own, ok := got[s].(map[string]any)
		if s == "" || !ok {
			return // the step is not in the recording
		}
		n.sameDetails++
		for key, want := range d {
			switch key {
			case "data", "signature", "index": // the client renumbered them
			case "text", "summary": // the recorded client lost the first piece
				assert.True(t, strings.HasSuffix(own[key].(string), want.(string)), "%s: %s is %v, want %v", id, key, own[key], want)
			default:
				assert.True(t, want == nil || reflect.DeepEqual(want, own[key]), "%s: %s is %v, want %v", id, key, own[key], want)
			}
		}
	})
}
