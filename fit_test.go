package aycoder

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that continues a history sends what the run before would have sent next, and no
// output without its call.
func FuzzCut(f *testing.F) {
	f.Add([]byte("p0c1c9p3c5c5c5"), uint16(0))
	f.Add([]byte("p9p9p9c9c9c9c9c9c9p1"), uint16(3000))
	f.Fuzz(func(t *testing.T, data []byte, more uint16) {
		var all []*Message
		for i, b := range data[:min(len(data), 200)] {
			text, id := strings.Repeat("x", int(b)<<4), strconv.Itoa(i)
			if b%3 == 0 {
				all = append(all, User(text))
				continue
			}
			all = append(all, &Message{Role: RoleAssistant, Parts: []Part{&ToolUse{ID: id, Name: "t", Args: []byte("{}")}}},
				&Message{Role: RoleUser, Parts: []Part{&ToolOutput{ID: id, Parts: []Part{&Text{Text: text}}}}})
		}
		whole, grown := cut{limit: minLimit + int64(more)}, cut{limit: minLimit + int64(more)}
		whole = whole.at(all)
		for n := range all {
			if all[n].Role == RoleAssistant {
				grown = grown.at(all[:n])
			}
		}
		require.Equal(t, whole, grown.at(all))
		calls := map[string]bool{}
		for _, m := range excerpt(all, whole.from, whole.limit) {
			for _, c := range m.Calls() {
				calls[c.ID] = true
			}
			for _, p := range m.Parts {
				if out, ok := p.(*ToolOutput); ok {
					require.True(t, calls[out.ID], "no call %s", out.ID)
				}
			}
		}
	})
}
