package aycoder_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The schema of a type is compiled once, not for each agent.
func TestNewToolAllocatesLittle(t *testing.T) {
	newTool(t, "echo", aycoder.EffectReadOnly, echo)
	bytes := allocated(func() {
		for range 100 {
			newTool(t, "echo", aycoder.EffectReadOnly, echo)
		}
	}) / 100
	assert.LessOrEqual(t, bytes, uint64(800))
}

// A new agent and its first run, with one call and a model of the test, allocate 141 times. Nothing is made
// for a compactor, an error or a wait that does not come.
func TestFirstRunAllocatesLittle(t *testing.T) {
	tool := newTool(t, "echo", aycoder.EffectReadOnly, echo)
	n := testing.AllocsPerRun(20, func() {
		m := &fake{turns: [][]any{calls(use("c", "echo", `{"text":"a"}`)), say("done")}}
		for _, err := range newLoop(t, m, aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
		}
	})
	t.Logf("%.0f allocations", n)
	assert.LessOrEqual(t, n, 146.0)
}

// The arguments of a call that may run at once are checked once: the turn takes about 4,760
// bytes, and a check 576.
func TestCallAllocatesLittle(t *testing.T) {
	run := func(turns int) uint64 {
		m := &fake{}
		for i := range turns {
			m.turns = append(m.turns, calls(use(fmt.Sprint("c", i), "echo", `{"text":"a"}`)))
		}
		m.turns = append(m.turns, say("done"))
		loop := newLoop(t, m, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)),
			aycoder.WithLimits(aycoder.Limits{Turns: turns + 1}))
		return allocated(func() {
			for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
			}
		})
	}
	run(1)
	const turns = 200
	assert.LessOrEqual(t, (run(1+turns)-run(1))/turns, uint64(5000))
}

// The wire form of a message is not copied if its buffer has little room left.
func TestEncodedKeepsABufferThatFits(t *testing.T) {
	for _, tt := range []struct {
		name       string
		len, cap   int
		wantCopied bool
	}{{"fits", 1000, 1000, false}, {"a fifth is free", 1000, 1200, false}, {"a third is free", 1000, 1500, true}} {
		t.Run(tt.name, func(t *testing.T) {
			data := make([]byte, tt.len, tt.cap)
			got, err := aycoder.User("x").Encoded("key", func(*aycoder.Message) ([]byte, error) { return data, nil })
			require.NoError(t, err)
			assert.Equal(t, data, got)
			assert.Equal(t, tt.wantCopied, &data[0] != &got[0])
		})
	}
}
