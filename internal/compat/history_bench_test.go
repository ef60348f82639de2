//go:build unix

package compat

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func TestMain(m *testing.M) {
	if !wiretest.ServeSelf(http.HandlerFunc(answerContest)) {
		os.Exit(m.Run())
	}
}

// answerContest is the server of [BenchmarkNewRun].
func answerContest(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, c := range contests() {
		if c.name == r.Header.Get(contestHeader) {
			_, _ = io.WriteString(w, c.answer)
		}
	}
}

// contestHeader names the contest whose answer the server sends.
const contestHeader = "X-Contest"

// A link sends requests over TCP to a server in another process, which discards them.
type link struct {
	*http.Transport
	host, contest string
	body          int64 // the length of the last request's
}

// RoundTrip implements [http.RoundTripper].
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.body = r.ContentLength
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", l.host
	r.Header.Set(contestHeader, l.contest)
	return l.Transport.RoundTrip(r)
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
// of bytes with net/http, both over TCP. It reports the memory of the idle conversation,
// divided by the length of the request.
func BenchmarkNewRun(b *testing.B) {
	const size = 10 << 20
	for _, c := range contests() {
		d := &link{Transport: &http.Transport{}, host: wiretest.StartSelf(b), contest: c.name}
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
				_, err = io.Copy(io.Discard, resp.Body)
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
