package api

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A text that came in pieces takes little more memory than its length, because it is kept
// as long as the conversation.
func TestFitted(t *testing.T) {
	const texts, size = 1000, 5000
	kept := make([]string, texts)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for i := range kept {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString("pieces of text, ")
		}
		kept[i] = Fitted(&b)
		assert.Equal(t, b.String(), kept[i])
	}
	each := float64(used()-before) / texts
	t.Logf("%.0f bytes a text of %d", each, size)
	assert.Less(t, each, 1.125*size)
	runtime.KeepAlive(kept)
}
