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
	k := &Call{x: &Exchange{Config: &Config{}}, limit: 1 << 20, yield: func(ev aycoder.ModelEvent, _ error) bool {
		got = append(got, ev)
		return true
	}}
	allocs := testing.AllocsPerRun(1, func() {
		got = make([]aycoder.ModelEvent, 0, 3*pieces)
		var text, thinking, args strings.Builder
		for i := range pieces {
			s := "0123456789"[i%10:]
			require.NoError(t, k.EmitText(Grow(&text, s)))
			require.NoError(t, k.EmitThinking(Grow(&thinking, s)))
			require.NoError(t, k.EmitArgs("id", "name", Grow(&args, s)))
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
