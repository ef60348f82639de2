//go:build unix

package compat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

const (
	crowd    = 10_000                 // agents
	perAgent = 30                     // pieces of text
	gap      = 200 * time.Millisecond // between two of them
)

// A server answers all agents at once. Each piece of text is due at a fixed time after all
// agents have begun to read; the times are spread evenly.
type server struct {
	before, piece, after string
	begun                sync.WaitGroup
	ready                chan struct{}
	start                time.Time     // when ready is closed
	half                 chan struct{} // is closed when half of the pieces are handed out
}

// pieces returns a stream with separate pieces of text, for the services whose
// [contest.answer] has none.
func pieces(name string) string {
	w := &writer{}
	switch name {
	case "google":
		const chunk = `{"candidates":[{"content":{"parts":[{"text": "%s"}],"role":"model"}%s,"index":0}],` +
			`"usageMetadata":{"promptTokenCount":21,"candidatesTokenCount":7,"totalTokenCount":28},` +
			`"modelVersion":"gemini-2.5-flash","responseId":"za9caLp-rJ_Psg-Ou6T4BA"}`
		w.data(chunk, "hi", "")
		w.data(chunk, "", `,"finishReason":"STOP"`)
	case "openai-responses":
		const head = `"response":{"id":"resp_0cca","object":"response","created_at":1751569118,"model":"gpt-5",`
		item := func(status, text string) string {
			return `"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"` + status +
				`","content":[{"type":"output_text","annotations":[],"text":"` + text + `"}]}`
		}
		w.event("response.created", `"sequence_number":0,`+head+`"status":"in_progress","output":[]}`)
		w.event("response.output_item.added", `"sequence_number":1,`+item("in_progress", ""))
		w.event("response.output_text.delta", `"sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,`+
			`"logprobs":[],"delta":"hi","obfuscation":"nQtgU7rE2s"`)
		w.event("response.output_item.done", `"sequence_number":3,`+item("completed", strings.Repeat("hi", perAgent)))
		w.event("response.completed", `"sequence_number":4,`+head+`"status":"completed","output":[],`+
			`"usage":{"input_tokens":21,"output_tokens":60,"total_tokens":81}}`)
	}
	return w.String()
}

// newServer finds the one event of an answer with the text "hi", and repeats it.
func newServer(b *testing.B, c *contest) *server {
	mark := c.marks[len(c.marks)-1]
	events := strings.SplitAfter(cmp.Or(pieces(c.name), c.answer), "\n\n")
	i := slices.IndexFunc(events, func(ev string) bool { return strings.Contains(ev, mark) && strings.Contains(ev, `"hi"`) })
	require.GreaterOrEqual(b, i, 0, "no piece of text in the answer")
	s := &server{ready: make(chan struct{}), half: make(chan struct{}),
		before: strings.Join(events[:i], ""), piece: events[i], after: strings.Join(events[i+1:], "")}
	s.begun.Add(crowd)
	return s
}

// begin starts the clock for all agents.
func (s *server) begin() {
	s.begun.Wait()
	s.start = time.Now()
	close(s.ready)
}

// An agent is the server's side of one connection.
type agent struct {
	*server
	number, sent int
	ctx          context.Context
	rest         string
	late         []float32 // µs of each piece
}

func (a *agent) due(piece int) time.Time {
	return a.start.Add(gap*time.Duration(piece) + gap*time.Duration(a.number)/crowd)
}

// got is called when the agent hands out pieces.
func (a *agent) got(pieces int) {
	for now := time.Now(); pieces > 0; pieces-- {
		a.late = append(a.late, float32(now.Sub(a.due(len(a.late))).Nanoseconds())/1e3)
		if a.number == 0 && len(a.late) == perAgent/2 {
			close(a.half)
		}
	}
}

// RoundTrip implements [http.RoundTripper].
func (a *agent) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	a.ctx, a.rest = r.Context(), a.before
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Request: r, Body: a}, nil
}

// Read implements [io.Reader].
func (a *agent) Read(p []byte) (int, error) {
	if a.rest == "" && a.sent > perAgent {
		return 0, io.EOF
	}
	if a.rest == "" {
		if a.sent == 0 {
			a.begun.Done()
			<-a.ready
		}
		wait := time.NewTimer(time.Until(a.due(a.sent)))
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-a.ctx.Done():
			return 0, a.ctx.Err()
		}
		if a.rest = a.piece; a.sent == perAgent {
			a.rest = a.after
		}
		a.sent++
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (a *agent) Close() error { return nil }

// byHand is the floor: the least code that yields the pieces.
func (c *contest) byHand(_ *testing.B, a *agent) error {
	resp, err := (&http.Client{Transport: a}).Post("http://localhost", "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	mark, field := []byte(c.marks[len(c.marks)-1]), []byte(c.fields[len(c.fields)-1])
	var text strings.Builder
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.Contains(line, mark) && bytes.Contains(line, []byte(`"hi"`)) {
			_, rest, _ := bytes.Cut(line, field)
			unquote(&text, rest)
			a.got(1)
		}
	}
}

func (c *contest) byStream(b *testing.B, a *agent) error {
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}
	return follow(a, c.ours(b, a).Stream(b.Context(), req))
}

func (c *contest) byRun(b *testing.B, a *agent) error {
	loop, err := aycoder.New(c.ours(b, a))
	if err != nil {
		return err
	}
	return follow(a, loop.Run(b.Context(), aycoder.Input{Prompt: "go"}))
}

// follow counts the pieces in the events of a client or of a run.
func follow[E any](a *agent, events iter.Seq2[E, error]) error {
	for ev, err := range events {
		if err != nil {
			return err
		}
		if d, ok := any(ev).(*aycoder.TextDelta); ok {
			a.got(len(d.Text) / 2)
		}
	}
	return nil
}

// BenchmarkAgents streams to 10,000 agents at once, five pieces of text a second each: by
// hand, through a client, and through a run. It reports the delays of the pieces and the
// peak memory of an agent.
func BenchmarkAgents(b *testing.B) {
	for _, c := range contests() {
		for _, way := range []struct {
			name string
			run  func(*testing.B, *agent) error
		}{{"floor", c.byHand}, {"stream", c.byStream}, {"run", c.byRun}} {
			b.Run(c.name+"/"+way.name, func(b *testing.B) {
				for b.Loop() {
					measureCrowd(b, c, way.run)
				}
			})
		}
	}
}

func measureCrowd(b *testing.B, c *contest, run func(*testing.B, *agent) error) {
	s := newServer(b, c)
	agents := make([]agent, crowd)
	for i := range agents {
		agents[i] = agent{server: s, number: i, late: make([]float32, 0, perAgent+2)}
	}
	debug.FreeOSMemory()
	rss, routines := resident(b), runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			if err := run(b, &agents[i]); err != nil {
				b.Error(err)
			}
		})
	}
	s.begin()
	cpu := cpuTime()
	<-s.half
	rss, routines = resident(b)-rss, runtime.NumGoroutine()-routines
	all.Wait()
	cpu = cpuTime() - cpu

	var late []float32
	for i := range agents {
		if n := len(agents[i].late); n != perAgent {
			b.Fatalf("agent %d has handed out %d of %d pieces", i, n, perAgent)
		}
		late = append(late, agents[i].late...)
	}
	slices.Sort(late)
	for _, q := range []float64{0.5, 0.99, 0.999} {
		b.ReportMetric(float64(late[int(q*float64(len(late)))]), fmt.Sprintf("µs-late-p%g", 100*q))
	}
	b.ReportMetric(float64(cpu.Microseconds())/crowd/perAgent, "cpu-µs/event")
	b.ReportMetric(float64(rss)/crowd/1e3, "kB-rss/agent")
	b.ReportMetric(float64(routines)/crowd, "goroutines/agent")
	b.ReportMetric(0, "ns/op")
}

// resident returns the resident memory of this process in bytes; Linux only.
func resident(b *testing.B) int {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int
	_, err = fmt.Sscan(string(data), &size, &pages)
	require.NoError(b, err)
	return pages * os.Getpagesize()
}
