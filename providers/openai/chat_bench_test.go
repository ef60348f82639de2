package openai

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const chatBenchDeltas = 10_000

// chatBenchStream is a stream of deltas as OpenAI sends them.
func chatBenchStream() string {
	var b strings.Builder
	chunk := func(format string, args ...any) {
		b.WriteString(`data: {"id":"chatcmpl-CoC8iBQCAZ4oQmm3uAGgg8etOGtHL","object":"chat.completion.chunk","created":1766079100,` +
			`"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_deacdd5f6f",`)
		fmt.Fprintf(&b, format+"\n\n", args...)
	}
	chunk(`"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`)
	for n := range chatBenchDeltas {
		chunk(`"choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"h9RiQLLs8"}`, n%10)
	}
	chunk(`"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`)
	chunk(`"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":10000,"total_tokens":10009}}`)
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

// chatServed answers every request with a body.
func chatServed(body string, size int) http.RoundTripper {
	i := &wiretest.Interaction{}
	i.Response.Status = http.StatusOK
	return i.Transport(body, size)
}

// BenchmarkChatDecode decodes 10,000 deltas to the events of the client and of the loop,
// and compares with a floor that only finds the text.
func BenchmarkChatDecode(b *testing.B) {
	body := chatBenchStream()
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chatBenchDeltas, "ns/event")
	}
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.Equal(b, chatBenchDeltas, chatFloor(b, body))
		}
		report(b)
	})
	b.Run("client", func(b *testing.B) {
		c := newChat(b, chatServed(body, 1<<20))
		req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for ev, err := range c.Stream(b.Context(), req) {
				if err != nil {
					b.Fatal(err)
				}
				if _, ok := ev.(*aycoder.TextDelta); ok {
					n++
				}
			}
			require.Equal(b, chatBenchDeltas, n)
		}
		report(b)
	})
	b.Run("loop", func(b *testing.B) {
		loop, err := aycoder.New(newChat(b, chatServed(body, 1<<20)))
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for ev, err := range loop.Run(b.Context(), aycoder.Input{Prompt: "go"}) {
				if err != nil {
					b.Fatal(err)
				}
				if _, ok := ev.(*aycoder.TextDelta); ok {
					n++
				}
			}
			require.NotZero(b, n)
		}
		report(b)
	})
}

// chatFloor reads the lines of a stream and extracts the text of each.
func chatFloor(tb testing.TB, body string) (n int) {
	sc := bufio.NewScanner(strings.NewReader(body))
	var text strings.Builder
	var piece string // as a consumer gets it
	for sc.Scan() {
		line, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		_, rest, ok := bytes.Cut(line, []byte(`"delta":{"content":"`))
		if !ok {
			continue
		}
		end := bytes.IndexByte(rest, '"')
		piece = string(rest[:end])
		text.WriteString(piece)
		n++
	}
	require.NoError(tb, sc.Err())
	require.True(tb, strings.HasSuffix(text.String(), piece))
	return n
}

// BenchmarkChatLargeEvent reads one event of 10 MB, and of 1 MB, in reads of 1 kB.
func BenchmarkChatLargeEvent(b *testing.B) {
	for _, size := range []int{1 << 20, 10 << 20} {
		b.Run(fmt.Sprintf("%dMB", size>>20), func(b *testing.B) {
			body := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", size) +
				`"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
			c := newChat(b, chatServed(body, 1<<10))
			req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}
			for b.Loop() {
				resp, err := aycoder.Complete(b.Context(), c, req)
				require.NoError(b, err)
				require.Len(b, resp.Text(), size)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size), "ns/byte")
		})
	}
}
