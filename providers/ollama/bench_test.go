package ollama_test

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const deltas = 10_000

// stream returns an answer of many small lines, as the server writes them.
func stream(text string) string {
	return strings.Repeat(`{"model":"qwen3:4b","created_at":"2026-02-17T18:29:03.412345678Z",`+
		`"message":{"role":"assistant","content":"`+text+`"},"done":false}`+"\n", deltas) + done
}

// floor is the least work of any decoder: find the lines, and the text between two marks.
func floor(r io.Reader) (n int) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		_, rest, _ := strings.Cut(s.Text(), `"content":"`)
		text, _, _ := strings.Cut(rest, `"`)
		n += len(text)
	}
	return n
}

// BenchmarkDecode decodes 10,000 deltas: with floor, to the events of Stream, and to
// those of a run.
func BenchmarkDecode(b *testing.B) {
	per := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
	}
	for _, in := range []struct{ name, text string }{{"plain", " to retrieve"}, {"escapes", `a \"b\"\n\u003c`}} {
		body := stream(in.text)
		rt := says(http.StatusOK, body, 64<<10)
		b.Run(in.name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if floor(wiretest.Sized(strings.NewReader(body), 64<<10)) == 0 {
					b.Fatal("no text")
				}
			}
			per(b)
		})
		b.Run(in.name+"/stream", func(b *testing.B) {
			c := clientOf(b, rt)
			b.ReportAllocs()
			for b.Loop() {
				drain(b, c.Stream(b.Context(), hello()))
			}
			per(b)
		})
		b.Run(in.name+"/run", func(b *testing.B) {
			loop, err := aycoder.New(clientOf(b, rt))
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				drain(b, loop.Run(b.Context(), aycoder.Input{Prompt: "hello"}))
			}
			per(b)
		})
	}
}

// BenchmarkLargeLine reads one line of 10 MB in pieces of 1 kB, and one of a tenth of the
// size, which must take about a tenth of the time.
func BenchmarkLargeLine(b *testing.B) {
	for _, size := range []int{1 << 20, 10 << 20} {
		b.Run(fmt.Sprintf("%dMB", size>>20), func(b *testing.B) {
			body := said("content", strings.Repeat("x", size)) + done
			c := clientOf(b, says(http.StatusOK, body, 1<<10))
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				drain(b, c.Stream(b.Context(), hello()))
			}
		})
	}
}

// BenchmarkEncode sends a conversation of 200 messages with 20 tools, in which only the
// last message is new.
func BenchmarkEncode(b *testing.B) {
	schema := []byte(`{"type":"object","properties":{"path":{"type":"string","description":"The path."},"lines":{"type":"array","items":{"type":"integer"}}},"required":["path"],"additionalProperties":false}`)
	req := hello()
	for i := range 20 {
		req.Tools = append(req.Tools, &aycoder.ToolSpec{Name: fmt.Sprint("tool", i), Description: "Does something.", Schema: schema})
	}
	for range 200 {
		req.Messages = append(req.Messages, aycoder.User(strings.Repeat("some words ", 100)))
	}
	c := clientOf(b, says(http.StatusOK, done, 1<<10))
	b.ReportAllocs()
	for b.Loop() {
		req.Messages[len(req.Messages)-1] = aycoder.User("new")
		drain(b, c.Stream(b.Context(), req))
	}
}

// drain ranges over a sequence to its end.
func drain[E any](b *testing.B, seq iter.Seq2[E, error]) {
	for _, err := range seq {
		if err != nil {
			b.Fatal(err)
		}
	}
}

func hello() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}
