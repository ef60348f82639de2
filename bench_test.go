package aycoder_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// endless is a model that makes n calls in each of its turns. It records the time of
// each request.
type endless struct {
	turns, n int
	at       []time.Time
}

func (m *endless) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		m.at = append(m.at, time.Now())
		turn := len(m.at)
		if turn > m.turns {
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			return
		}
		for i := range m.n {
			if !yield(use(fmt.Sprint("c", turn, "_", i), "echo", `{"text":"x"}`), nil) {
				return
			}
		}
		yield(&aycoder.MessageDone{Stop: aycoder.StopToolUse}, nil)
	}
}

// BenchmarkRunGrowth runs 1,000 turns of one small tool. The time per step in the
// last hundred turns is compared with that in the first hundred.
func BenchmarkRunGrowth(b *testing.B) {
	l := func(m aycoder.ModelClient) *aycoder.Loop {
		return newLoop(b, m, aycoder.WithLimits(aycoder.Limits{Turns: 2000}), aycoder.WithTools(newTool(b, "echo", aycoder.EffectReadOnly, echo)))
	}
	var first, last []time.Duration
	for b.Loop() {
		m := &endless{turns: 1000, n: 1}
		_, err := collect(l(m).Run(b.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(b, err)
		for i := range 100 {
			first = append(first, m.at[i+1].Sub(m.at[i]))
			last = append(last, m.at[i+901].Sub(m.at[i+900]))
		}
	}
	f, g := median(first), median(last)
	b.ReportMetric(float64(f.Nanoseconds()), "ns/first-step")
	b.ReportMetric(float64(g.Nanoseconds()), "ns/last-step")
	b.ReportMetric(float64(g)/float64(f), "last/first")
}

func median(x []time.Duration) time.Duration {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkOverlap runs a response whose read-only call is complete at once, whose text
// takes 500 ms, and whose tool takes 400 ms. The ideal time is the longer of the two.
func BenchmarkOverlap(b *testing.B) {
	const stream, work = 500 * time.Millisecond, 400 * time.Millisecond
	tool := newTool(b, "slow", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
		<-time.After(work)
		return "", nil
	})
	for b.Loop() {
		m := &fake{turns: [][]any{
			calls(use("a", "slow", `{"text":"x"}`), func(context.Context) { <-time.After(stream) }, textDone("…")), say("done"),
		}}
		_, err := collect(newLoop(b, m, aycoder.WithTools(tool)).Run(b.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(max(stream, work)), "wall/ideal")
}

// BenchmarkIdleAgent counts the heap and the goroutines that an agent holds after
// a run.
func BenchmarkIdleAgent(b *testing.B) {
	heap := func() uint64 {
		var ms runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc
	}
	make1 := func() *aycoder.Loop {
		l := newLoop(b, &endless{turns: 1, n: 1}, aycoder.WithTools(newTool(b, "echo", aycoder.EffectReadOnly, echo)))
		_, err := collect(l.Run(b.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(b, err)
		return l
	}
	make1()
	const n = 1000
	for b.Loop() {
		keep := make([]*aycoder.Loop, 0, n)
		before, goroutines := heap(), runtime.NumGoroutine()
		for range n {
			keep = append(keep, make1())
		}
		b.ReportMetric(float64(heap()-before)/n, "B/agent")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/agent")
		runtime.KeepAlive(keep)
	}
}
