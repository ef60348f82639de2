package compaction

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// However small the budget is, the last prompt keeps its document, so that the request does not fit
// and the user hears of it. Of an older prompt, a notice stays.
func TestDocumentOfLastPrompt(t *testing.T) {
	prompt := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "Read this."},
		&aycoder.Media{Type: "text/plain", Name: "a.txt", Data: make([]byte, 100_000)}}}
	for _, most := range []int{256, 600, 10_000} {
		v := &conversation{messages: []*aycoder.Message{prompt}, note: note{At: 1, Most: most}, pinned: func(*aycoder.Message) bool { return false }}
		require.Equal(t, prompt.Parts, v.shown(0).Parts, most)
		v.note.At = 2
		shown := v.shown(0).Parts
		require.Len(t, shown, 2)
		require.Equal(t, prompt.Parts[0], shown[0])
		require.IsType(t, &aycoder.Text{}, shown[1])
	}
}
