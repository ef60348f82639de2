package google

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func shaped(id string) string {
	return `{"candidates": [{"content": {"parts": [{"text": "hi"}],"role": "model"},"index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 3},"responseId": "` + id + `"}`
}

// Learning stops in a stream in which no two consecutive events have the same shape, and
// starts again when the stream begins to repeat itself.
func TestShapeGivesUp(t *testing.T) {
	const events = 1000
	changing := make([]string, events)
	for i := range changing {
		changing[i] = shaped(fmt.Sprint(i))
	}
	var s shape
	hi := &part{text: "hi"}
	allocs := testing.AllocsPerRun(10, func() {
		s = shape{}
		for _, data := range changing {
			if _, _, ok := s.match(data); ok {
				t.Fatalf("%s has the shape of another event", data)
			}
			s.learn(data, hi)
		}
	})
	t.Logf("%.2f allocations an event", allocs/events)
	assert.LessOrEqual(t, allocs/events, 0.1)

	matched := 0
	for range events {
		if _, _, ok := s.match(shaped("the same")); ok {
			matched++
			continue
		}
		s.learn(shaped("the same"), hi)
	}
	assert.GreaterOrEqual(t, matched, events-relearn-1)
}

// A shape that is seen again makes up for those that were not.
func TestShapeOfTwoForms(t *testing.T) {
	var s shape
	matched := 0
	for i := range 1000 {
		data := shaped(fmt.Sprint(i / 2)) // each comes twice
		if _, _, ok := s.match(data); ok {
			matched++
			continue
		}
		s.learn(data, &part{text: "hi"})
	}
	assert.Equal(t, 500, matched)
}
