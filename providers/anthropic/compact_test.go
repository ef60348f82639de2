package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Only requests to services and models that are known to compact ask for it.
func TestCompactFrom(t *testing.T) {
	token := func(context.Context) (string, error) { return "token", nil }
	for _, tt := range []struct {
		model string
		opts  []Option
		want  bool
	}{
		{"claude-opus-4-6", nil, true},
		{"claude-opus-4-7-20260416", nil, true},
		{"claude-sonnet-4-6", nil, true},
		{"claude-opus-5", nil, true},
		{"claude-fable-5-1", nil, true},
		{"claude-sonnet-4-5", nil, false},
		{"claude-haiku-4-5", nil, false},
		{"claude-haiku-5", nil, false},
		{"claude-3-7-sonnet-20250219", nil, false},
		{"other", nil, false},
		{"claude-opus-4-6", []Option{WithBaseURL("https://gateway.example")}, false},
		{"claude-opus-4-6", []Option{WithVertex("p", "global"), WithTokenSource(token)}, false},
		{"us.anthropic.claude-opus-4-6-v1", []Option{WithBedrock("us-east-1")}, false},
	} {
		c, err := New(tt.model, append([]Option{WithAPIKey("key-0123456789")}, tt.opts...)...)
		require.NoError(t, err)
		for _, model := range []string{"", tt.model} {
			name, value := c.CompactFrom(model, 70_000)
			require.Equal(t, tt.want, name != "", "%s %v", tt.model, c)
			require.Equal(t, tt.want, json.Valid(value))
		}
	}
	c, err := New("claude-opus-4-6", WithAPIKey("key-0123456789"))
	require.NoError(t, err)
	for tokens, want := range map[int64]int64{0: 0, 10: 50_000, 50_000: 50_000, 70_000: 70_000} {
		_, value := c.CompactFrom("", tokens)
		var field struct {
			Edits []struct{ Trigger *struct{ Value int64 } }
		}
		require.NoError(t, json.Unmarshal(value, &field))
		if trigger := field.Edits[0].Trigger; tokens == 0 {
			require.Nil(t, trigger)
		} else {
			require.Equal(t, want, trigger.Value)
		}
	}
}

func TestCompactedBy(t *testing.T) {
	c, err := New("claude-opus-4-6", WithAPIKey("key-0123456789"))
	require.NoError(t, err)
	for _, tt := range []struct {
		provider, raw, want string
		ok                  bool
	}{
		{provider, `{"type":"compaction","content":"a \"b\""}`, `a "b"`, true},
		{provider, ` {"encrypted_content":"x","content":"c" , "type" : "compaction"}`, "c", true},
		{provider, `{"type":"compaction","content":null,"encrypted_content":null}`, "", false},
		{provider, `{"type":"compaction"}`, "", false},
		{provider, `{"type":"compaction","content":7}`, "", false},
		{provider, `{"type":"text","content":"compaction"}`, "", false},
		{provider, `{"type":"x","content":"y","z":"compaction"}`, "", false},
		{"openai/responses", `{"type":"compaction","content":"c"}`, "", false},
		{provider, `["compaction"]`, "", false},
		{provider, `{"type":"compaction"`, "", false},
	} {
		got, ok := c.CompactedBy(&aycoder.Opaque{Provider: tt.provider, Raw: json.RawMessage(tt.raw)})
		require.Equal(t, tt.want, got, tt.raw)
		require.Equal(t, tt.ok, ok, tt.raw)
	}
	_, ok := c.CompactedBy(nil)
	require.False(t, ok)
}

// The recorded blocks are recognised, and sent back as they came, but only if the request lets the
// service compact: it refuses them otherwise.
func TestRecordedCompaction(t *testing.T) {
	found := 0
	wiretest.EachWith(t, "anthropic:block:compaction", func(r *wiretest.Recording) {
		for _, i := range r.Interactions {
			found++
			c, err := New("claude-opus-4-6", WithAPIKey("key-0123456789"), WithHTTPClient(&http.Client{Transport: i.Transport(i.Body(), 7)}))
			require.NoError(t, err)
			a := wiretest.Ask(t.Context(), t, c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
			require.NoError(t, a.Err)
			block, ok := a.Parts[0].(*aycoder.Opaque)
			require.True(t, ok)
			summary, ok := c.CompactedBy(block)
			require.True(t, ok)
			require.NotEmpty(t, summary)
			for _, on := range []bool{true, false} {
				data, err := wireKey{on}.encode(&aycoder.Message{Role: aycoder.RoleAssistant, Parts: a.Parts})
				require.NoError(t, err)
				require.Equal(t, on, bytes.Contains(data, block.Raw))
				require.Contains(t, string(data), a.Text)
			}
			forged := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "hello"}, block}}
			data, err := wireKey{true}.encode(forged)
			require.NoError(t, err)
			require.NotContains(t, string(data), "compaction")
		}
	})
	t.Logf("%d recorded compactions", found)
}
