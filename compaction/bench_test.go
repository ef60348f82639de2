package compaction_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
)

// BenchmarkStep measures the steps of a run, each with a call and an output of 5 kB, with and without a
// compactor. The window has room for all, so that both send the same requests.
func BenchmarkStep(b *testing.B) {
	text := strings.Repeat("func parse(text string) (int, error) { return 0, nil }\n", 100)
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(text), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		b.Fatal(err)
	}
	for _, turns := range []int{60, 200} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("turns=%d/compactor=%t", turns, with), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					n := 0
					model := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
						return func(yield func(aycoder.ModelEvent, error) bool) {
							n++
							stop := aycoder.StopEndTurn
							if n < turns {
								stop = aycoder.StopToolUse
								if !yield(&aycoder.BlockDone{Part: &aycoder.ToolUse{ID: fmt.Sprint("c", n), Name: "look", Args: []byte("{}")}}, nil) {
									return
								}
							}
							yield(&aycoder.MessageDone{Stop: stop, Usage: aycoder.Usage{Input: int64(n) * 1300, Output: 50}}, nil)
						}
					})
					opts := []aycoder.Option{aycoder.WithTools(tool), aycoder.WithLimits(aycoder.Limits{Turns: turns})}
					if with {
						keep, err := compaction.New(model, compaction.WithWindow(10_000_000))
						if err != nil {
							b.Fatal(err)
						}
						opts = append(opts, aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithStrictPrefix(true))
					}
					l, err := aycoder.New(model, opts...)
					if err != nil {
						b.Fatal(err)
					}
					for _, err := range l.Run(b.Context(), aycoder.Input{Prompt: "go"}) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
