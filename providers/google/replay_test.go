package google

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// A wireContent is a content of a request.
type wireContent struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

func contentsOf(t testing.TB, body []byte) []wireContent {
	var req struct {
		Contents []wireContent `json:"contents"`
	}
	require.NoError(t, json.Unmarshal(body, &req), "%.500s", body)
	return req.Contents
}

// wire returns the body of a request.
func (c *Client) wire(req *aycoder.Request) ([]byte, error) {
	p, err := c.encode(req, parseModel(c.model))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(p.Reader())
}

type replayCounts struct{ cases, steps, signatures, opaque, calls, asRecorded int }

// Conversations of several steps are replayed: each response is decoded, stored, and sent
// back with results of its calls. Signed parts are in the next request with the same
// signature, at the same place among the parts; opaque parts are there byte for byte;
// each request begins with the previous one.
func TestRecordedSteps(t *testing.T) {
	var n replayCounts
	byCase := map[string][]*wiretest.Interaction{}
	var order []string
	suite(t).Each(t, func(r *wiretest.Recording, i *wiretest.Interaction) {
		if i.Response.Status != http.StatusOK || !i.Expected.Complete {
			return
		}
		if byCase[r.ID] == nil {
			order = append(order, r.ID)
		}
		byCase[r.ID] = append(byCase[r.ID], i)
	})
	for _, id := range order {
		if len(byCase[id]) > 1 {
			n.cases++
			replay(t, id, byCase[id], &n)
		}
	}
	t.Logf("%+v", n)
	assert.Greater(t, n.steps, 300)
	assert.Greater(t, n.signatures, 200)
	assert.Greater(t, n.asRecorded, 50)
}

func replay(t *testing.T, id string, steps []*wiretest.Interaction, n *replayCounts) {
	history := []*aycoder.Message{aycoder.User("begin")}
	var before []byte
	for k, i := range steps {
		n.steps++
		c := newClient(t, i.Transport(i.Body(), 1<<20))
		a := wiretest.Ask(t.Context(), t, c, hello())
		require.NoError(t, a.Err)
		m := wiretest.Stored(t, a.Message())
		results := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "Go on."}}}
		for _, call := range m.Calls() {
			results.Parts = append(results.Parts, &aycoder.ToolOutput{ID: call.ID, Name: call.Name,
				Parts: []aycoder.Part{&aycoder.Text{Text: "done"}}})
		}
		history = append(history, m, results)
		body, err := c.wire(&aycoder.Request{Messages: history})
		require.NoError(t, err)
		if len(m.Parts) > 0 { // an empty answer is not sent, and the user's messages are joined
			require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), "%s/%d", id, i.Seq)
		}
		before = body
		checkPlaces(t, id, i, m, body, n)
		if k+1 < len(steps) {
			checkRecorded(t, i, m, steps[k+1].RequestBody(), n)
		}
	}
}

// checkPlaces checks that the signed and opaque parts of a message are in the body, in
// the same order and on the same kinds of parts.
func checkPlaces(t *testing.T, id string, i *wiretest.Interaction, m *aycoder.Message, body []byte, n *replayCounts) {
	var sent []signature
	var parts []json.RawMessage
	for _, c := range contentsOf(t, body) {
		if c.Role == "model" {
			parts = append(parts, c.Parts...)
		}
	}
	for _, raw := range parts {
		sent = append(sent, signatures([]aycoder.Part{&aycoder.Opaque{Raw: raw}})...)
	}
	want := signatures(m.Parts)
	n.signatures += len(want)
	if !assert.GreaterOrEqual(t, len(sent), len(want), "%s/%d", id, i.Seq) {
		return
	}
	for k, s := range sent[len(sent)-len(want):] {
		assert.Equal(t, want[k].text, s.text, "%s/%d", id, i.Seq)
		if want[k].on != "thought" && want[k].on != "text" {
			assert.Equal(t, want[k].on, s.on, "%s/%d", id, i.Seq)
		}
	}
	for _, p := range m.Parts {
		o, ok := p.(*aycoder.Opaque)
		if !ok || bytes.Contains(o.Raw, []byte("Metadata\"")) {
			continue
		}
		n.opaque++
		same := func(raw json.RawMessage) bool { return bytes.Equal(raw, o.Raw) }
		assert.True(t, slices.ContainsFunc(parts, same), "%s/%d: %s", id, i.Seq, o.Raw)
	}
}

// checkRecorded counts the calls that the recorded client sent back with the same
// signature, which proves that the service accepts it.
func checkRecorded(t *testing.T, i *wiretest.Interaction, m *aycoder.Message, next []byte, n *replayCounts) {
	var req struct {
		Contents []struct{ Parts []map[string]json.RawMessage }
	}
	if json.Unmarshal(next, &req) != nil {
		return // of another dialect
	}
	var recorded []string
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			var sig string
			if _, ok := p["functionCall"]; ok && json.Unmarshal(p[signatureField], &sig) == nil {
				recorded = append(recorded, sig)
			}
		}
	}
	for _, p := range m.Parts {
		if u, ok := p.(*aycoder.ToolUse); ok {
			n.calls++
			sigs := signatures([]aycoder.Part{u})
			if len(sigs) == 1 && slices.Contains(recorded, sigs[0].text) {
				n.asRecorded++
			}
		}
	}
}
