package google

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

// streaming answers every request with body, in reads of size bytes.
func streaming(body string, size int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
			Body: io.NopCloser(wiretest.Sized(strings.NewReader(body), size))}, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Events in the form that the service sends.
const (
	textEvent = `data: {"candidates": [{"content": {"parts": [{"text": "@"}],"role": "model"},"index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 21,"candidatesTokenCount": 7,"totalTokenCount": 28,` +
		`"promptTokensDetails": [{"modality": "TEXT","tokenCount": 21}]},"modelVersion": "gemini-2.5-flash",` +
		`"responseId": "za9caLp-rJ_Psg-Ou6T4BA"}` + "\r\n\r\n"
	lastEvent = `data: {"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},"finishReason": "STOP",` +
		`"index": 0}],"usageMetadata": {"promptTokenCount": 21,"candidatesTokenCount": 47,"totalTokenCount": 68},` +
		`"modelVersion": "gemini-2.5-flash","responseId": "za9caLp-rJ_Psg-Ou6T4BA"}` + "\r\n\r\n"
)

// deltas returns n events with a text and growing counts, like real ones.
func deltas(n int, text string) string {
	var b strings.Builder
	for i := range n {
		r := strings.NewReplacer("@", text, "7,", fmt.Sprint(7+i, ","), "28,", fmt.Sprint(28+i, ","))
		_, _ = r.WriteString(&b, textEvent)
	}
	return b.String() + lastEvent
}

// floor is the least work of any decoder: find the lines, and the text between two marks.
func floor(r io.Reader) (n int) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), 1<<20)
	for s.Scan() {
		_, rest, ok := strings.Cut(s.Text(), `"text": "`)
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, `"`)
		n += len(text)
	}
	return n
}

// BenchmarkDecode decodes 10,000 deltas: with floor, to the events of Stream, and to
// those of a run.
func BenchmarkDecode(b *testing.B) {
	const n = 10_000
	perDelta := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
	}
	for _, in := range []struct{ name, text string }{{"plain", " to retrieve"}, {"escapes", `a \"b\"\n\u003c`}} {
		body := deltas(n, in.text)
		b.Run(in.name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if floor(strings.NewReader(body)) == 0 {
					b.Fatal("no text")
				}
			}
			perDelta(b)
		})
		b.Run(in.name+"/stream", func(b *testing.B) {
			c := newClient(b, streaming(body, 64<<10))
			b.ReportAllocs()
			for b.Loop() {
				drain(b, c.Stream(b.Context(), hello()))
			}
			perDelta(b)
		})
		b.Run(in.name+"/run", func(b *testing.B) {
			loop, err := aycoder.New(newClient(b, streaming(body, 64<<10)))
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				drain(b, loop.Run(b.Context(), aycoder.Input{Prompt: "hello"}))
			}
			perDelta(b)
		})
	}
}

// BenchmarkLargeEvent reads one event of 10 MB in pieces of 1 kB, and one of a tenth of
// the size, which must take about a tenth of the time.
func BenchmarkLargeEvent(b *testing.B) {
	for _, size := range []int{1 << 20, 10 << 20} {
		b.Run(fmt.Sprintf("%dMB", size>>20), func(b *testing.B) {
			body := deltas(1, strings.Repeat("x", size))
			c := newClient(b, streaming(body, 1<<10))
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				drain(b, c.Stream(b.Context(), hello()))
			}
		})
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
