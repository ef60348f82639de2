package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// respSigned reports whether p has the encrypted content with the given digest.
func respSigned(p aycoder.Part, s wiretest.Signature) bool {
	th, ok := p.(*aycoder.Thinking)
	if !ok || th.Signature == "" {
		return false
	}
	var item struct {
		Content string `json:"encrypted_content"`
	}
	if json.Unmarshal([]byte(th.Signature), &item) != nil {
		return false
	}
	sum := sha256.Sum256([]byte(item.Content))
	return len(item.Content) == s.Bytes && hex.EncodeToString(sum[:]) == s.SHA256
}

// respWire returns the body that encodeResponses makes.
func respWire(c *Client, req *aycoder.Request) ([]byte, error) {
	p, err := c.encodeResponses(req)
	if err != nil {
		return nil, err
	}
	data := bytes.Join(p.Pieces, nil)
	if int64(len(data)) != p.Size() {
		panic("size is wrong")
	}
	return data, nil
}

// respInput returns the items of a request.
func respInput(body []byte) (items []json.RawMessage) {
	var req struct{ Input json.RawMessage }
	if json.Unmarshal(body, &req) != nil || json.Unmarshal(req.Input, &items) != nil {
		return nil // a string, or a deliberately wrong request
	}
	return items
}

type respCounts struct {
	cases, steps, encrypted, sent, opaque, calls, recordedSame int
}

// Conversations of several steps are replayed: each response is decoded, stored, and
// sent back with the results of its calls.
func TestResponsesRecordedSteps(t *testing.T) {
	var n respCounts
	wiretest.EachWith(t, `"openai-responses"`, func(rec *wiretest.Recording) {
		var steps []*wiretest.Interaction
		for _, i := range rec.Interactions {
			if i.Kind == "inference" && i.Family == "openai-responses" && i.Response.Status == http.StatusOK &&
				i.Expected != nil && i.Expected.Complete && i.Expected.Error == nil {
				steps = append(steps, i)
			}
		}
		if len(steps) < 2 || rec.Origin == "suspect" {
			return
		}
		n.cases++
		respReplay(t, rec, steps, &n)
	})
	t.Logf("%+v", n)
	assert.Greater(t, n.steps, 200)
	assert.Greater(t, n.sent, 20)
	assert.Greater(t, n.recordedSame, 20)
}

func respReplay(t *testing.T, rec *wiretest.Recording, steps []*wiretest.Interaction, n *respCounts) {
	history := []*aycoder.Message{aycoder.User("begin")}
	var before []byte
	for k, i := range steps {
		var opts []Option
		if i.Vendor == "openrouter" {
			opts = append(opts, WithBaseURL("https://openrouter.ai/api/v1"))
		}
		c := respClient(t, i.Transport(i.Body(), 1<<20), opts...)
		a := wiretest.Ask(t.Context(), t, c, &aycoder.Request{Messages: history})
		require.NoError(t, a.Err)
		m := wiretest.Stored(t, a.Message())
		history = append(history, m)
		var outs []aycoder.Part
		for _, call := range m.Calls() {
			outs = append(outs, &aycoder.ToolOutput{ID: call.ID, Name: call.Name,
				Parts: []aycoder.Part{&aycoder.Text{Text: "a result"}}})
		}
		if len(outs) > 0 {
			history = append(history, &aycoder.Message{Role: aycoder.RoleUser, Parts: outs})
		}
		body, err := respWire(c, &aycoder.Request{Messages: history})
		require.NoError(t, err)
		require.True(t, json.Valid(body), rec.ID)
		require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), rec.ID)
		before = body
		respCheckStep(t, rec, i, m, body, n)
		if k+1 < len(steps) {
			n.recordedSame += respCheckNext(t, rec.ID, respInput(body), respInput(steps[k+1].RequestBody()))
		}
		n.steps++
	}
}

// respCheckStep checks that the contents of one response are in the next request.
func respCheckStep(t *testing.T, rec *wiretest.Recording, i *wiretest.Interaction, m *aycoder.Message, body []byte,
	n *respCounts) {
	items := respInput(body)
	has := func(want []byte) bool {
		return slices.ContainsFunc(items, func(raw json.RawMessage) bool { return bytes.Equal(raw, want) })
	}
	for k, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Opaque:
			n.opaque++
			assert.True(t, has(p.Raw), "%s/%d: item is not sent as it came: %s", rec.ID, i.Seq, p.Raw)
			assert.True(t, strings.Contains(i.Body(), string(p.Raw)), "%s/%d: not the bytes it came in", rec.ID, i.Seq)
		case *aycoder.Thinking:
			var item struct {
				Content json.RawMessage `json:"encrypted_content"`
			}
			if p.Signature == "" {
				continue
			}
			require.NoError(t, json.Unmarshal([]byte(p.Signature), &item))
			assert.True(t, strings.Contains(i.Body(), p.Signature), "%s/%d: not the bytes it came in", rec.ID, i.Seq)
			if len(item.Content) < 3 || string(item.Content) == "null" {
				continue
			}
			n.encrypted++
			if k == len(m.Parts)-1 && i.Vendor != "openrouter" {
				continue // it would be refused without the item that it belongs to
			}
			n.sent++
			assert.True(t, bytes.Contains(body, append([]byte(`"encrypted_content":`), item.Content...)),
				"%s/%d: encrypted content is not sent as it came", rec.ID, i.Seq)
		case *aycoder.ToolUse:
			n.calls++
			respCheckOrder(t, rec.ID, items, p)
		}
	}
}

// respCheckOrder checks that the result of a call follows the call.
func respCheckOrder(t *testing.T, id string, items []json.RawMessage, u *aycoder.ToolUse) {
	at := func(typ string) int {
		return slices.IndexFunc(items, func(raw json.RawMessage) bool {
			got, _ := respHead(string(raw))
			return got == typ && bytes.Contains(raw, []byte(`"call_id":"`+u.ID+`"`))
		})
	}
	call, out := at("function_call"), at("function_call_output")
	assert.True(t, call >= 0 && out > call, "%s: call %s at %d, its output at %d", id, u.ID, call, out)
}

// respCheckNext compares with the request of the recorded client: the items that are in
// both are equal. It returns their number.
func respCheckNext(t *testing.T, id string, sent, recorded []json.RawMessage) (n int) {
	key := func(raw json.RawMessage) string {
		var it struct {
			Type      string `json:"type"`
			CallID    string `json:"call_id"`
			Encrypted string `json:"encrypted_content"`
		}
		switch _ = json.Unmarshal(raw, &it); it.Type {
		case "reasoning":
			return it.Type + respElided(it.Encrypted)
		case "function_call":
			return it.Type + it.CallID
		}
		return "" // clients rewrite the others, which are compared with the response
	}
	ours := map[string]json.RawMessage{}
	for _, raw := range sent {
		ours[key(raw)] = raw
	}
	for _, raw := range recorded {
		k := key(raw)
		mine, ok := ours[k]
		if k == "" || !ok {
			continue
		}
		var want, got map[string]any
		require.NoError(t, json.Unmarshal(raw, &want))
		require.NoError(t, json.Unmarshal(mine, &got))
		if assert.True(t, respSame(want, got), "%s:\n%.2000s\n%.2000s", id, raw, mine) {
			n++
		}
	}
	return n
}

const emptySummary = "[map[text: type:summary_text]]"

// respElided returns the form of a long text in the recordings.
func respElided(s string) string {
	if strings.HasPrefix(s, "<elided base64 ") {
		return s
	}
	return fmt.Sprintf("<elided base64 len=%d sha256=%x>", len(s), sha256.Sum256([]byte(s)))
}

// respSame compares items. Ids and status are not sent. Clients add nulls, empty lists
// and texts, and namespaces, and format arguments differently, or quote them twice.
func respSame(want, got map[string]any) bool {
	if got["namespace"] == nil {
		delete(want, "namespace")
	}
	for _, m := range []map[string]any{want, got} {
		maps.DeleteFunc(m, func(k string, v any) bool {
			return v == nil || k == "id" || k == "status" || (k == "content" || k == "summary") && !strings.Contains(fmt.Sprint(v), "text:") || fmt.Sprint(v) == emptySummary
		})
		for s, ok := m["arguments"].(string); ok; s, ok = m["arguments"].(string) {
			var v any
			if json.Unmarshal([]byte(s), &v) != nil {
				break
			}
			m["arguments"] = v
		}
		if s, ok := m["encrypted_content"].(string); ok {
			m["encrypted_content"] = respElided(s)
		}
	}
	return reflect.DeepEqual(want, got)
}
