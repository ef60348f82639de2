package openai

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// respServing answers every request with body, in reads of size bytes.
func respServing(body string, size int) http.RoundTripper {
	i := &wiretest.Interaction{}
	i.Response.Status = http.StatusOK
	return i.Transport(body, size)
}

// respStream returns a stream of n pieces of text, in the form that the service sends.
func respStream(n int, piece string) string {
	var b strings.Builder
	event := func(typ, format string, args ...any) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":\"%s\","+format+"}\n\n", append([]any{typ, typ}, args...)...)
	}
	const head = `"id":"resp_0cca","object":"response","created_at":1751569118,"model":"gpt-5.4"`
	const item = `"item_id":"msg_6866d2df1c0c819c885ca369ba853e7f0847a84b87aad89c"`
	event("response.created", `"sequence_number":0,"response":{%s,"status":"in_progress","output":[],"usage":null}`, head)
	event("response.output_item.added", `"sequence_number":1,"output_index":0,"item":{"id":"msg_68","type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	for k := range n {
		event("response.output_text.delta", `"sequence_number":%d,%s,"output_index":0,"content_index":0,"delta":"%s","logprobs":[],"obfuscation":"nQtgU7rE2s"`, k+2, item, piece)
	}
	done := fmt.Sprintf(`{"id":"msg_68","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"%s"}],"role":"assistant"}`, strings.Repeat(piece, n))
	event("response.output_item.done", `"sequence_number":%d,"output_index":0,"item":%s`, n+2, done)
	event("response.completed", `"sequence_number":%d,"response":{%s,"status":"completed","output":[%s],"usage":{"input_tokens":21,"output_tokens":%d}}`, n+3, head, done, n)
	return b.String()
}

// respFloor is the least work of any decoder: find the lines, and the string behind a
// mark.
func respFloor(r io.Reader) string {
	var text strings.Builder
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), 32<<20)
	for s.Scan() {
		line, ok := strings.CutPrefix(s.Text(), "data: ")
		if !ok {
			continue
		}
		_, rest, ok := strings.Cut(line, `"delta":"`)
		if !ok {
			continue
		}
		piece, _, _ := rawjson.ScanString(rest)
		text.WriteString(piece)
	}
	return text.String()
}

// BenchmarkResponses decodes 10,000 pieces: with the floor, to the events of Stream, and
// to those of a run.
func BenchmarkResponses(b *testing.B) {
	const n = 10_000
	perDelta := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
	}
	for _, in := range []struct{ name, text string }{{"plain", " to retrieve"}, {"escapes", `a \"b\"\n\u003c`}} {
		body := respStream(n, in.text)
		b.Run(in.name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if respFloor(strings.NewReader(body)) == "" {
					b.Fatal("no text")
				}
			}
			perDelta(b)
		})
		b.Run(in.name+"/stream", func(b *testing.B) {
			c := respClient(b, respServing(body, 64<<10))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range c.Stream(b.Context(), respHello()) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			perDelta(b)
		})
		b.Run(in.name+"/run", func(b *testing.B) {
			loop, err := aycoder.New(respClient(b, respServing(body, 64<<10)))
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range loop.Run(b.Context(), aycoder.Input{Prompt: "hello"}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			perDelta(b)
		})
	}
}

// BenchmarkResponsesLarge reads one event of 10 MB in pieces of 1 kB, and one of a tenth
// of the size, which must take about a tenth of the time.
func BenchmarkResponsesLarge(b *testing.B) {
	for _, size := range []int{1 << 20, 10 << 20} {
		b.Run(fmt.Sprintf("%dMB", size>>20), func(b *testing.B) {
			body := respStream(1, strings.Repeat("x", size))
			c := respClient(b, respServing(body, 1<<10))
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				for _, err := range c.Stream(b.Context(), respHello()) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func respHello() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}
