package vocab

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
)

// A meter is a server that answers each request with a call, and notes when each request came.
type meter struct {
	*dialect
	turns int
	bytes []int64
	marks []mark
}

type mark struct {
	at     time.Time
	allocs uint64
}

func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	m.bytes = append(m.bytes, n)
	var mem runtime.MemStats
	if len(m.marks)%20 == 0 { // it takes long
		runtime.ReadMemStats(&mem)
	}
	m.marks = append(m.marks, mark{time.Now(), mem.Mallocs})
	args := ""
	if len(m.marks) < m.turns {
		args = `{"path":"src/main.go"}`
	}
	w.Header().Set("Content-Type", m.media)
	_, _ = w.Write(m.answer(fmt.Sprint("c", len(m.marks)), "I read on.", args, 30_000))
}

// median returns the median time of the turns from one to another whose requests have between least and
// most bytes, and the next of which has more: no compaction comes between.
func (m *meter) median(from, to int, least, most int64) float64 {
	var each []float64
	for i := from; i < to; i++ {
		if i%20 != 0 && m.bytes[i] >= least && m.bytes[i] <= most && m.bytes[i+1] > m.bytes[i] {
			each = append(each, float64(m.marks[i+1].at.Sub(m.marks[i].at)))
		}
	}
	slices.Sort(each)
	if len(each) < 10 {
		return math.NaN() // too few to tell
	}
	return quantile(each, 0.5)
}

// mean returns the mean time and allocations of a turn, compactions included, where from and to are
// multiples of 20.
func (m *meter) mean(from, to int) (times, allocs float64) {
	a, b, n := m.marks[from], m.marks[to], float64(to-from)
	return float64(b.at.Sub(a.at)) / n, float64(b.allocs-a.allocs) / n
}

func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }

// walk runs turns with a wrapper of the builder, after a history.
func (m *meter) walk(t testing.TB, history []*aycoder.Message, wrap func(aycoder.ModelClient) aycoder.ContextMiddleware) {
	m.marks, m.bytes = make([]mark, 0, m.turns+1), make([]int64, 0, m.turns+1)
	s := httptest.NewServer(m)
	defer s.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client, err := m.client(s.URL, &http.Client{Transport: tr})
	require.NoError(t, err)
	text := strings.Repeat("func parse(text string) (int, error) { return 0, nil }\n", outputSize/55)
	tool, err := aycoder.NewTool("look", "Reads a file.", func(context.Context, *aycoder.Invocation, look) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(strings.Clone(text)), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	agent, err := aycoder.New(client, aycoder.WithTools(tool), aycoder.WithLimits(aycoder.Limits{Turns: m.turns}),
		aycoder.WithContextMiddleware(wrap(client)), aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	for _, err := range agent.Run(t.Context(), aycoder.Input{Messages: history, Prompt: "Go on."}) {
		require.NoError(t, err)
	}
	require.Len(t, m.marks, m.turns)
}

// compacted returns the middleware of a new compactor, which calls seen with each of its requests.
func compacted(t testing.TB, window int64, seen func(*aycoder.Request)) func(aycoder.ModelClient) aycoder.ContextMiddleware {
	return func(client aycoder.ModelClient) aycoder.ContextMiddleware {
		keep, err := compaction.New(client, compaction.WithWindow(window))
		require.NoError(t, err)
		return func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			b := keep.Middleware(next)
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				req, err := b.Build(ctx, in)
				if err == nil {
					seen(req)
				}
				return req, err
			})
		}
	}
}

// repeated returns a middleware that sends first, and then what the history gets after its first
// messages: the least that sends the same.
func repeated(first []*aycoder.Message, history int) func(aycoder.ModelClient) aycoder.ContextMiddleware {
	return func(aycoder.ModelClient) aycoder.ContextMiddleware {
		return func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			out := slices.Clone(first)
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				out = append(out, in.Messages[history+len(out)-len(first):]...)
				in.Messages = out
				return next.Build(ctx, in)
			})
		}
	}
}

// past returns the history of turns, of which only the last ones have large outputs.
func past(turns int) []*aycoder.Message {
	text := strings.Repeat("The value of each entry is the sum of the two before it.\n", outputSize/55)
	out := []*aycoder.Message{aycoder.User("Repair the parser.")}
	for i := range turns {
		id, text := fmt.Sprint("h", i), text
		if i < turns-200 {
			text = text[:500]
		}
		out = append(out, &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "I read on."},
			&aycoder.ToolUse{ID: id, Name: "look", Args: fmt.Appendf(nil, `{"path":"src/file%d.go"}`, i)}}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: id, Name: "look", Parts: []aycoder.Part{&aycoder.Text{Text: strings.Clone(text)}}}}})
	}
	return append(out, &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "That is done."}}})
}

// BenchmarkStep compares a step with a compactor to one without it that sends the same bytes, between
// two compactions, after histories of 300 and of 10,000 turns.
func BenchmarkStep(b *testing.B) {
	for _, d := range dialects {
		for _, turns := range []int{300, 10_000} {
			b.Run(fmt.Sprint(d.name, "/", turns), func(b *testing.B) {
				history := past(turns)
				var ratios, allocs []float64
				for range b.N {
					for range 5 { // interleaved rounds
						m := &meter{dialect: d, turns: 41}
						var first []*aycoder.Message
						var announced int
						m.walk(b, history, compacted(b, 200_000, func(req *aycoder.Request) {
							if announced++; announced == 1 {
								first = slices.Clone(req.Messages)
							}
						}))
						times, sent := m.median(1, 40, 0, math.MaxInt64), m.bytes
						_, mallocs := m.mean(20, 40)
						m.walk(b, history, repeated(first, len(history)+1))
						require.Equal(b, sent, m.bytes, "the requests differ")
						_, n := m.mean(20, 40)
						ratios = append(ratios, times/m.median(1, 40, 0, math.MaxInt64))
						allocs = append(allocs, mallocs/n)
					}
				}
				slices.Sort(ratios)
				slices.Sort(allocs)
				b.ReportMetric(quantile(ratios, 0.5), "times-without")
				b.ReportMetric(quantile(allocs, 0.5), "allocs-without")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkGrowth compares the last hundred of many turns with turns 100 to 200, compactions included.
func BenchmarkGrowth(b *testing.B) {
	turns := turnsOf(b, 2000)
	for _, window := range []int64{32_000, 200_000} {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			for range b.N {
				m := &meter{dialect: dialects[0], turns: turns + 1}
				n := 0
				m.walk(b, nil, compacted(b, window, func(*aycoder.Request) { n++ }))
				large := slices.Max(m.bytes)
				first, last := m.median(100, 200, large/2, large), m.median(turns-100, turns, large/2, large)
				b.ReportMetric(last/first, "time-of-first")
				t0, n0 := m.mean(100, 200)
				t1, n1 := m.mean(turns-100, turns)
				b.ReportMetric(t1/t0, "time-of-first-with-compactions")
				b.ReportMetric(n1/n0, "allocs-of-first")
				b.ReportMetric(last/1000, "µs/turn")
				b.ReportMetric(n1, "allocs/turn")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
