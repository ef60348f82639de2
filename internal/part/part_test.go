package part_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

func TestMarks(t *testing.T) {
	keep := "the API"
	mark := part.Mark{Compact: &keep, Note: json.RawMessage(`{"v":1}`), Untrusted: true}
	p := mark.Part()
	require.JSONEq(t, `{"compact":"the API","note":{"v":1},"untrusted":true}`, string(p.(*aycoder.Opaque).Raw))
	got, ok := part.MarkOf(p)
	require.True(t, ok)
	require.Equal(t, mark, got)
	for _, other := range []aycoder.Part{&aycoder.Text{Text: "{}"}, &aycoder.Opaque{Provider: "x", Raw: []byte("{}")}, (*aycoder.Opaque)(nil), nil} {
		_, ok := part.MarkOf(other)
		require.False(t, ok)
		require.False(t, part.IsMark(other))
	}
	_, ok = part.MarkOf(&aycoder.Opaque{Provider: part.Loop, Raw: []byte("[]")})
	require.False(t, ok, "it is none of these")
}

func TestUntrusted(t *testing.T) {
	for want, list := range map[bool][][]aycoder.Part{
		true: {
			{&aycoder.Text{}, &aycoder.ToolOutput{Untrusted: true}},
			{part.Mark{Untrusted: true}.Part()},
		},
		false: {
			{&aycoder.Text{}, &aycoder.ToolOutput{}},
			{part.Mark{}.Part()},
			{&aycoder.Opaque{Provider: "x", Raw: []byte(`{"untrusted":true}`)}},
		},
	} {
		for _, p := range list {
			require.Equal(t, want, part.Untrusted(&aycoder.Message{Role: aycoder.RoleUser, Parts: p}))
		}
	}
}
