package openai

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/wiretest"
)

// Without indexes, the pieces of parallel calls are identified by the ids of their items,
// and complete calls by their call ids.
func TestResponsesParallelCallsWithoutIndexes(t *testing.T) {
	item := func(id, call, name, args string) string {
		return `{"type":"function_call","id":"` + id + `","call_id":"` + call + `","name":"` + name + `","arguments":"` + args + `"}`
	}
	added := func(item string) string { return `{"type":"response.output_item.added","item":` + item + `}` }
	done := func(item string) string { return `{"type":"response.output_item.done","item":` + item + `}` }
	piece := func(id, args string) string {
		return `{"type":"response.function_call_arguments.delta","item_id":"` + id + `","delta":"` + args + `"}`
	}
	const completed = `{"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[]}}`
	tests := []struct {
		name   string
		events []string
	}{
		{"ids of items", []string{added(item("i1", "a", "x", "")), added(item("i2", "b", "y", "")),
			piece("i1", `{\"p\":`), piece("i2", `{\"q\":`), piece("i1", `1}`), piece("i2", `2}`),
			done(item("i1", "a", "x", `{\"p\":1}`)), done(item("i2", "b", "y", `{\"q\":2}`))}},
		{"no pieces", []string{added(item("i1", "a", "x", "")), added(item("i2", "b", "y", "")),
			done(item("i1", "a", "x", `{\"p\":1}`)), done(item("i2", "b", "y", `{\"q\":2}`))}},
		{"other ids of items in each event", []string{added(item("i1", "a", "x", "")), added(item("i2", "b", "y", "")),
			done(item("i3", "a", "x", `{\"p\":1}`)), done(item("i4", "b", "y", `{\"q\":2}`))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := respEvents(append(tt.events, completed)...)
			a := wiretest.Ask(t.Context(), t, respClient(t, wiretest.Answering(t, wiretest.Stream, body)), respHello())
			assert.Equal(t, "call a x {\"p\":1}\ncall b y {\"q\":2}\ntool_use", chatShow(a))
		})
	}
}
