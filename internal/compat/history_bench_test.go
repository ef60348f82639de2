//go:build unix

package compat

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// A drain sends the same answer to every request. It reads the body like a connection,
// through a small buffer.
type drain struct {
	answer string
	body   int64 // the length of the last request's
}

// RoundTrip implements [http.RoundTripper].
func (d *drain) RoundTrip(r *http.Request) (*http.Response, error) {
	d.body = 0
	for buf := make([]byte, 32<<10); ; {
		n, err := r.Body.Read(buf)
		d.body += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Request: r, Body: io.NopCloser(strings.NewReader(d.answer))}, nil
}

// long returns a conversation of about size bytes: turns of three calls with outputs of one
// kilobyte.
func long(size int) []*aycoder.Message {
	messages := []*aycoder.Message{aycoder.User("go")}
	result := strings.Repeat("the quick brown fox jumps over the \"lazy\" dog\n", 23)
	for turn := 0; size > 0; turn++ {
		said := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
			&aycoder.Text{Text: strings.Repeat("some words ", 20)}}}
		got := &aycoder.Message{Role: aycoder.RoleUser}
		for n := range 3 {
			id := fmt.Sprintf("call_%d_%d", turn, n)
			args := fmt.Appendf(nil, `{"query":"%s"}`, strings.Repeat("words ", 16))
			said.Parts = append(said.Parts, &aycoder.ToolUse{ID: id, Name: "lookup", Args: args})
			got.Parts = append(got.Parts, &aycoder.ToolOutput{ID: id, Name: "lookup",
				Parts: []aycoder.Part{&aycoder.Text{Text: strings.Clone(result)}}})
			size -= len(result) + len(args)
		}
		messages = append(messages, said, got)
	}
	return append(messages, aycoder.Assistant("done"))
}

// BenchmarkNewRun starts a run over a history of 10 MB: with the encoded messages of an
// earlier run, and with [aycoder.WithEncodedHistory] off. The floor sends the same number
// of bytes. It reports the memory of the idle conversation, divided by the length of the
// request.
func BenchmarkNewRun(b *testing.B) {
	const size = 10 << 20
	for _, c := range contests() {
		d := &drain{answer: c.answer}
		for _, keep := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/keep=%t", c.name, keep), func(b *testing.B) {
				loop, err := aycoder.New(c.ours(b, d), aycoder.WithEncodedHistory(keep))
				require.NoError(b, err)
				before := heap()
				history := long(size)
				alone := heap() - before
				once := func() {
					for _, err := range loop.Run(b.Context(), aycoder.Input{Messages: history, Prompt: "go on"}) {
						require.NoError(b, err)
					}
				}
				once()
				perRun(b, once)
				held := heap() - before
				b.ReportMetric(float64(alone)/float64(d.body), "history/sent")
				b.ReportMetric(float64(held)/float64(d.body), "held/sent")
				runtime.KeepAlive(history)
			})
		}
		b.Run(c.name+"/floor", func(b *testing.B) {
			body := bytes.Repeat([]byte("x"), int(d.body)) // without zero pages, which the kernel shares
			hc := &http.Client{Transport: d}
			perRun(b, func() {
				resp, err := hc.Post("http://localhost", "application/json", bytes.NewReader(body))
				require.NoError(b, err)
				resp.Body.Close()
			})
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// perRun reports the cost of one call of f.
func perRun(b *testing.B, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime()
	for b.Loop() {
		f()
	}
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/run")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/1e6, "MB/run")
	b.ReportMetric(0, "ns/op")
}
