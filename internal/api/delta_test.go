package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// A piece keeps its text while the block grows on, and costs an eighth of an allocation, and its part of
// the buffers.
func TestPiecesShareTheMemoryOfTheirBlock(t *testing.T) {
	const pieces = 1000
	var got []aycoder.ModelEvent
	k := &Call{x: &Exchange{Config: &Config{}}, limit: 1 << 20}
	emitted := func(err error) {
		require.NoError(t, err)
		ev, err := k.Next()
		require.NoError(t, err)
		got = append(got, ev)
	}
	allocs := testing.AllocsPerRun(1, func() {
		got = make([]aycoder.ModelEvent, 0, 3*pieces)
		var text, thinking, args strings.Builder
		for i := range pieces {
			s := "0123456789"[i%10:]
			emitted(k.EmitText(Grow(&text, s)))
			emitted(k.EmitThinking(Grow(&thinking, s)))
			emitted(k.EmitArgs("id", "name", Grow(&args, s)))
		}
	})
	assert.Less(t, allocs/(3*pieces), 0.2)
	require.Len(t, got, 3*pieces)
	for i := range pieces {
		s := "0123456789"[i%10:]
		assert.Equal(t, &aycoder.TextDelta{Text: s}, got[3*i])
		assert.Equal(t, &aycoder.ThinkingDelta{Text: s}, got[3*i+1])
		assert.Equal(t, &aycoder.ToolDelta{ID: "id", Name: "name", Args: s}, got[3*i+2])
	}
}
