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
	c, err := New(aycoder.ModelFunc(nil))
	require.NoError(t, err)
	for _, most := range []int{256, 600, 10_000} {
		v := &conversation{messages: []*aycoder.Message{prompt}, note: note{At: 1, Most: most}, Compactor: c}
		m, _ := v.shown(0)
		require.Equal(t, prompt.Parts, m.Parts, most)
		v.messages, v.note.At = append(v.messages, &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{Command("")}}), 2
		m, _ = v.shown(0)
		require.Equal(t, prompt.Parts, m.Parts, "with a command")
		v.messages[1] = model("ok")
		m, _ = v.shown(0)
		shown := m.Parts
		require.Len(t, shown, 2)
		require.Equal(t, prompt.Parts[0], shown[0])
		require.IsType(t, &aycoder.Text{}, shown[1])
	}
}

// The names of calls are sent, too, and many short calls are little else.
func TestSizeOfCalls(t *testing.T) {
	parts := []aycoder.Part{&aycoder.ToolUse{Name: "look", Args: []byte(`{}`)},
		&aycoder.ToolOutput{Name: "look", Parts: []aycoder.Part{&aycoder.Text{Text: "nothing"}}}}
	require.EqualValues(t, len("look")+len("{}")+len("look")+len("nothing"), sizeOf(parts))
}
