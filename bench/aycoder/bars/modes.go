//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	address = "http://model.test"
	system  = "You are a careful coding agent. You read before you write."
	gap     = 200 * time.Millisecond // between the events of an agent of the crowd
)

// A setup is what an agent is made with.
type setup struct {
	client *http.Client
	lookup func(lookupArgs) string
	text   func(string) // is to be called with each piece of text
}

// An agent sends a prompt, follows the answer through all calls, and returns the last text. It keeps the
// conversation.
type agent func(ctx context.Context, prompt string) (string, error)

type open func(setup) (agent, error)

var modes = map[string]func(open, *wire, sizes) (map[string]float64, error){"first": first, "step": step, "crowd": crowd}

// texts are n pieces of text.
func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = [...]string{"I will", " look", " at the", " settings", ", and at", " who", " reads them.\n"}[i%7]
	}
	return out
}

// script returns the answers of a conversation, of which each but the last has calls.
func script(w *wire, turns, calls int) [][]string {
	var out [][]string
	made := 0
	for turn := range turns + 1 {
		answer := writer{calls: made}
		w.answer(&answer, texts(either(turn < turns, 20, 3)), either(turn < turns, calls, 0))
		made = answer.calls
		out = append(out, answer.events)
	}
	return out
}

// A model is an [http.RoundTripper] that answers with a script.
type model struct {
	answers [][]string
	asked   int
	check   func(body []byte) // is called with each request if it is set
	// due is when an event is handed out; nil means that all are at once.
	due func(event int) time.Time
}

func (m *model) RoundTrip(r *http.Request) (*http.Response, error) {
	data := io.Discard
	var body strings.Builder
	if m.check != nil {
		data = &body
	}
	// Without its WriteTo, the body is read through a shared buffer, as a connection does it.
	if _, err := io.Copy(data, struct{ io.Reader }{r.Body}); err != nil {
		return nil, err
	}
	if m.check != nil {
		m.check([]byte(body.String()))
	}
	if m.asked == len(m.answers) {
		return nil, errors.New("asked too often")
	}
	a := &answer{model: m, ctx: r.Context(), events: m.answers[m.asked]}
	m.asked++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		ContentLength: -1, Request: r, Body: a}, nil
}

// An answer is the body of a response.
type answer struct {
	*model
	ctx    context.Context
	events []string
	sent   int
	rest   string
}

func (a *answer) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if a.rest != "" {
			k := copy(p[n:], a.rest)
			a.rest, n = a.rest[k:], n+k
			continue
		}
		if a.sent == len(a.events) {
			return n, either(n == 0, io.EOF, nil)
		}
		if a.due != nil {
			if wait := time.Until(a.due(a.sent)); wait > 0 {
				if n > 0 {
					return n, nil
				}
				t := time.NewTimer(wait)
				select {
				case <-t.C:
				case <-a.ctx.Done():
					t.Stop()
					return 0, a.ctx.Err()
				}
			}
		}
		a.rest = a.events[a.sent]
		a.sent++
	}
	return n, nil
}

func (a *answer) Close() error { return nil }

// cost measures what f costs.
func cost(f func() error) (cpu time.Duration, allocs uint64, err error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	err = f()
	cpu = cpuTime() - start
	runtime.ReadMemStats(&after)
	return cpu, after.Mallocs - before.Mallocs, err
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail with these arguments
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }

var output = strings.Repeat("the quick brown fox jumps over the lazy dog; ", 23)

// converse makes an agent and lets it have a conversation. It returns the agent.
func converse(make open, answers [][]string, check func([]byte)) (agent, error) {
	var mu sync.Mutex
	calls := 0
	set := setup{client: &http.Client{Transport: &model{answers: answers, check: check}}, text: func(string) {}}
	set.lookup = func(in lookupArgs) string {
		mu.Lock()
		defer mu.Unlock()
		if calls++; in.Limit != 12 {
			return ""
		}
		return strings.Clone(output)
	}
	a, err := make(set)
	if err != nil {
		return nil, err
	}
	text, err := a(context.Background(), "Find out where the names are set.")
	switch want := strings.Join(texts(3), ""); {
	case err != nil:
		return nil, err
	case text != want:
		return nil, fmt.Errorf("the answer is %q, want %q", text, want)
	case len(answers) > 1 && (calls == 0 || calls%(len(answers)-1) != 0):
		return nil, fmt.Errorf("%d calls", calls)
	}
	return a, nil
}

// first measures agents that are made and have one exchange with a call, and the memory that each holds then.
func first(make open, w *wire, s sizes) (map[string]float64, error) {
	answers := script(w, 1, 1)
	kept := []agent{}
	more := func(n int) error {
		for range n {
			a, err := converse(make, answers, nil)
			if err != nil {
				return err
			}
			kept = append(kept, a)
		}
		return nil
	}
	if err := more(10); err != nil { // what is made once is not an agent's
		return nil, err
	}
	before := held()
	cpu, allocs, err := cost(func() error { return more(s.agents) })
	heap := held() - before
	runtime.KeepAlive(kept)
	n := float64(s.agents)
	return map[string]float64{"cpu": micros(cpu, s.agents), "allocs": float64(allocs) / n, "heap": heap / n / 1e3}, err
}

// held returns the bytes of the heap that are in use.
func held() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// step measures the turns of a long run, with three calls each.
func step(make open, w *wire, s sizes) (map[string]float64, error) {
	answers := script(w, s.turns, 3)
	if _, err := converse(make, answers, nil); err != nil {
		return nil, err
	}
	const runs = 3
	cpu, allocs, err := cost(func() error {
		for range runs {
			if _, err := converse(make, answers, nil); err != nil {
				return err
			}
		}
		return nil
	})
	n := runs * s.turns
	return map[string]float64{"cpu": micros(cpu, n), "allocs": float64(allocs) / float64(n)}, err
}

// crowd measures the runs of agents that stream at once, and how late they hand out what arrives. All events
// are due at even distances: if they counted from the request, those of agents that begin together would
// crowd, and the more so the longer an agent takes to begin.
func crowd(open open, w *wire, s sizes) (map[string]float64, error) {
	pieces := texts(int(time.Duration(s.seconds) * time.Second / gap))
	var events writer
	w.answer(&events, pieces, 0)
	before := slices.IndexFunc(events.events, func(ev string) bool { return strings.Contains(ev, pieces[0]) })
	want := strings.Join(pieces, "")
	late := newLate(s.crowd)
	var made, all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	start := make(chan struct{})
	var first time.Time
	made.Add(s.crowd)
	for i := range s.crowd {
		all.Go(func() {
			phase := gap * time.Duration(i) / time.Duration(s.crowd)
			due := func(event int) time.Time { return first.Add(phase + time.Duration(event)*gap) }
			m := &model{answers: [][]string{events.events}, due: due}
			seen, length, end := 0, 0, len(pieces[0])
			text := func(s string) {
				now := time.Now()
				for length += len(s); seen < len(pieces) && length >= end; {
					late[i] = append(late[i], float32(now.Sub(due(before+seen)).Microseconds())/1e3)
					if seen++; seen < len(pieces) {
						end += len(pieces[seen])
					}
				}
			}
			a, err := open(setup{client: &http.Client{Transport: m}, text: text})
			made.Done()
			<-start
			got := ""
			if err == nil {
				got, err = a(context.Background(), "Go.")
			}
			if err == nil && (got != want || len(late[i]) != len(pieces)) {
				err = fmt.Errorf("got %d pieces, %q", len(late[i]), got)
			}
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	made.Wait()
	cpu, _, _ := cost(func() error {
		first = time.Now().Add(time.Second) // when all have begun
		close(start)
		all.Wait()
		return nil
	})
	sorted := slices.Sorted(slices.Values(slices.Concat(late...)))
	return map[string]float64{"cpu": micros(cpu, s.crowd*len(events.events)), "p99": float64(sorted[len(sorted)*99/100])}, failed
}

func newLate(agents int) [][]float32 {
	late := make([][]float32, agents)
	for i := range late {
		late[i] = make([]float32, 0, 64)
	}
	return late
}
