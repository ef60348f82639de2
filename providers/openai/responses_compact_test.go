package openai

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Only requests to OpenAI's own Responses API ask it to compact.
func TestCompactFrom(t *testing.T) {
	for want, list := range map[string][][]Option{
		`[{"type":"compaction","compact_threshold":70000}]`: {{WithResponses(true)}},
		"": {
			{WithResponses(false)},
			{WithResponses(true), WithBaseURL("https://gateway.example/v1")},
			{WithResponses(true), WithExtra("context_management", []any{})},
		},
	} {
		for _, opts := range list {
			c, err := New("gpt-5.2", append([]Option{WithAPIKey("key-0123456789")}, opts...)...)
			require.NoError(t, err)
			name, value := c.CompactFrom("", 70_000)
			require.Equal(t, want != "", name != "")
			require.Equal(t, want, string(value))
		}
	}
	c, err := New("gpt-5.2", WithResponses(true), WithAPIKey("key-0123456789"))
	require.NoError(t, err)
	_, value := c.CompactFrom("", 0)
	require.JSONEq(t, `[{"type":"compaction"}]`, string(value))
	_, value = c.CompactFrom("", 1)
	require.JSONEq(t, `[{"type":"compaction","compact_threshold":1000}]`, string(value))
}

func TestCompactedBy(t *testing.T) {
	c, err := New("gpt-5.2", WithResponses(true), WithAPIKey("key-0123456789"))
	require.NoError(t, err)
	for _, tt := range []struct {
		provider, raw string
		want          bool
	}{
		{"openai/responses", `{"id":"cmp_1","type":"compaction","encrypted_content":"x"}`, true},
		{"openai", `{"type":"compaction"}`, false},
		{"openai/responses", `{"type":"reasoning","x":"compaction"}`, false},
		{"openai/responses", `["compaction"]`, false},
	} {
		_, ok := c.CompactedBy(&aycoder.Opaque{Provider: tt.provider, Raw: json.RawMessage(tt.raw)})
		require.Equal(t, tt.want, ok, tt.raw)
	}
	_, ok := c.CompactedBy(nil)
	require.False(t, ok)
}

// The recorded items are recognised.
func TestRecordedCompaction(t *testing.T) {
	found := 0
	wiretest.EachWith(t, `"compact_threshold"`, func(r *wiretest.Recording) {
		for _, i := range r.Interactions {
			var body struct{ Stream bool }
			if json.Unmarshal(i.RequestBody(), &body) != nil || !body.Stream {
				continue
			}
			c, err := New("gpt-4.1", WithResponses(true), WithAPIKey("key-0123456789"), WithHTTPClient(&http.Client{Transport: i.Transport(i.Body(), 100)}))
			require.NoError(t, err)
			a := wiretest.Ask(t.Context(), t, c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
			require.NoError(t, a.Err)
			for _, p := range a.Parts {
				if o, ok := p.(*aycoder.Opaque); ok {
					_, ok := c.CompactedBy(o)
					require.True(t, ok)
					found++
				}
			}
		}
	})
	t.Logf("%d recorded compactions", found)
}
