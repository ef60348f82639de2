package aycoder_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/timed"
)

// opened is a client that is asked for each event. The client inside must return when its context is done.
type opened struct {
	aycoder.ModelClient
	*taken
}

// taken counts what became of the answers.
type taken struct {
	mu              sync.Mutex
	opened, stopped int
	here, ahead     int // events that the goroutine of the loop body has read, and those that another one has
}

func (c *taken) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func open(m aycoder.ModelClient) opened { return opened{m, &taken{}} }

func (o opened) Open(ctx context.Context, req *aycoder.Request) aycoder.ModelReader {
	o.add(&o.opened)
	next, stop := iter.Pull2(o.Stream(ctx, req))
	return &openReader{taken: o.taken, next: next, stop: stop}
}

func (o opened) Opens(m aycoder.ModelClient) bool { return m == aycoder.ModelClient(o) }

// An openReader has a field that the race detector watches: two may not read at once.
type openReader struct {
	*taken
	next func() (aycoder.ModelEvent, error, bool)
	stop func()
	over bool
}

func (r *openReader) Next() (aycoder.ModelEvent, error) {
	if r.over {
		panic("read after the end")
	}
	if strings.Contains(string(debug.Stack()), "(*run).askModel") {
		r.add(&r.ahead)
	} else {
		r.add(&r.here)
	}
	ev, err, ok := r.next()
	if !ok {
		return nil, io.EOF
	}
	return ev, err
}

func (r *openReader) Stop() {
	if !r.over {
		r.over = true
		r.add(&r.stopped)
	}
	r.stop()
}

// A client that is asked for each event makes no difference for the contract.
func TestOpenedIsAnAgent(t *testing.T) {
	timed.Long(t, "the whole contract of agents once more")
	agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
		return newLoop(t, open(s.Model), aycoder.WithTools(s.Tools...), aycoder.WithApprover(s.Approver), aycoder.WithStrictPrefix(true))
	})
}

// An answer is read in the goroutine of the loop body until there is a call. With a builder, which may make it wait, it
// is not opened.
func TestWhoReads(t *testing.T) {
	builder := aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req := *in.Base
		req.Messages = in.Messages
		return &req, nil
	})
	text, call := say("hello"), use("a", "echo", `{"text":"x"}`)
	for _, tt := range []struct {
		name        string
		first       []any
		opts        []aycoder.Option
		record      bool
		here, ahead int
	}{
		{name: "text", first: text, here: 3},
		{name: "a builder", first: text, opts: []aycoder.Option{aycoder.WithContext(builder)}},
		{name: "a call", first: calls(text[0], text[1], call, use("b", "echo", `{"text":"y"}`)), here: 3 + 3, ahead: 2},
		{name: "facts", first: text, record: true, here: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := open(&fake{turns: [][]any{tt.first, text}})
			loop := newLoop(t, m, append(tt.opts, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))...)
			opts := []aycoder.RunOption{aycoder.WithControl(new(aycoder.Control))}
			if tt.record {
				opts = append(opts, aycoder.WithFacts(func(context.Context, *aycoder.FactRecord) error { return nil }))
			}
			var res aycoder.Result
			_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, append(opts, aycoder.Into(&res))...))
			require.NoError(t, err)
			require.Equal(t, "hello", res.Text())
			require.Equal(t, m.opened, m.stopped)
			if tt.record { // it depends on how long the record takes
				require.Equal(t, tt.here, m.here+m.ahead)
				return
			}
			require.Equal(t, []int{tt.here, tt.ahead}, []int{m.here, m.ahead})
		})
	}
}

// limited is a client that embeds another one and has another Stream.
type limited struct {
	opened
	asked *int
}

func (l limited) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	*l.asked++
	return l.opened.Stream(ctx, req)
}

// Nobody gets round the Stream of a client because this client embeds an opener.
func TestEmbeddedOpener(t *testing.T) {
	asked := 0
	m := limited{open(&fake{turns: [][]any{say("hello")}}), &asked}
	_, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{asked, m.taken.opened})
}

// Once the loop body was slow, the run reads ahead of it.
func TestReadsAheadOfASlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(&fake{turns: [][]any{append(slices.Repeat([]any{&aycoder.TextDelta{Text: "a"}}, 100), say("")[2]), say("done")}})
		n := 0
		control := new(aycoder.Control)
		control.FollowUp("go on")
		for _, err := range newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithControl(control)) {
			require.NoError(t, err)
			switch n++; n {
			case 1:
				synctest.Wait()
				require.Equal(t, 1, m.here)
			case 2:
				<-time.After(20 * time.Millisecond)
			case 3:
				synctest.Wait()
				require.Equal(t, []int{2, 99}, []int{m.here, m.ahead})
			}
		}
		require.Equal(t, []int{2, 99 + 3}, []int{m.here, m.ahead})
	})
}

// A loop body that does not return delays a tool by two seconds at most.
func TestReadsAheadOfAStuckBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began time.Duration
		tool := newTool(t, "echo", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			began = time.Since(start)
			return "", nil
		})
		m := open(&fake{turns: [][]any{calls(&aycoder.TextDelta{Text: "a"}, use("a", "echo", `{"text":"x"}`)), say("done")}})
		for range newLoop(t, m, aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			<-time.After(time.Hour)
		}
		require.Equal(t, 2*time.Second, began)
	})
}

// Nor do loop bodies that each take a few milliseconds delay tools again and again.
func TestReadsAheadOfManyBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began []time.Duration
		tool := newTool(t, "echo", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			began = append(began, time.Since(start))
			return "", nil
		})
		f := &fake{}
		for i := range 5 {
			turn := slices.Repeat([]any{&aycoder.TextDelta{Text: "a"}}, 300)
			f.turns = append(f.turns, calls(append(turn, use(fmt.Sprint(i), "echo", `{"text":"x"}`))...))
		}
		f.turns = append(f.turns, say("done"))
		for range newLoop(t, open(f), aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			<-time.After(5 * time.Millisecond)
		}
		require.Len(t, began, 5)
		require.Less(t, began[4], 1500*time.Millisecond, "1.5 s in each turn, if the run never reads ahead")
	})
}

// talker is a client that sends text without end.
type talker struct{ sent int }

func (e *talker) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for e.sent++; yield(&aycoder.TextDelta{Text: "a"}, nil); e.sent++ {
		}
	}
}

// However the loop body ends, the client is asked for nothing more, and is not blamed.
func TestOpenedAndTheBodyEnds(t *testing.T) {
	boom := errors.New("boom")
	for name, body := range map[string]func(cancel func()) bool{
		"break":             func(func()) bool { return false },
		"cancel":            func(cancel func()) bool { cancel(); return true },
		"cancel and break":  func(cancel func()) bool { cancel(); return false },
		"panic":             func(func()) bool { panic(boom) },
		"exit":              func(func()) bool { runtime.Goexit(); return true },
		"break after a day": func(func()) bool { pause(context.Background(), 24*time.Hour); return false },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				e := &talker{}
				m := open(e)
				loop := newLoop(t, m, aycoder.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
					aycoder.WithLimits(aycoder.Limits{Response: 1000}), aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var res aycoder.Result
				var got any
				var last error
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { got = recover() }()
					for _, err := range loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
						if last = err; !body(cancel) {
							break
						}
					}
				}()
				<-done
				require.Equal(t, name == "panic", got == boom)
				require.Equal(t, name == "cancel", errors.Is(last, context.Canceled))
				require.Equal(t, []int{1, 1}, []int{m.opened, m.stopped})
				require.NoError(t, aycoder.CheckHistory(res.Messages))
				require.Empty(t, log.String())
				if name == "break after a day" {
					require.Equal(t, 1001, e.sent, "it was read ahead, up to its limit")
					return
				}
				require.Equal(t, 1, e.sent)
				require.Equal(t, aycoder.EndCancelled, res.End)
				require.Equal(t, "a", res.Text())
			})
		})
	}
}

// oddReader is an answer that is complete at once, unless it says something else.
type oddReader struct {
	next func() (aycoder.ModelEvent, error)
	stop func()
}

func (r *oddReader) Next() (aycoder.ModelEvent, error) {
	if r.next != nil {
		return r.next()
	}
	return &aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil
}

func (r *oddReader) Stop() {
	if r.stop != nil {
		r.stop()
	}
}

type oddOpener struct{ open func() aycoder.ModelReader }

func (o *oddOpener) Open(context.Context, *aycoder.Request) aycoder.ModelReader { return o.open() }

func (o *oddOpener) Opens(m aycoder.ModelClient) bool { return m == o }

func (o *oddOpener) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	panic("it can be opened")
}

// A client that breaks the contract of an opener fails its answer, and nothing else.
func TestOddReaders(t *testing.T) {
	boom := func() { panic("boom") }
	fails := func() (aycoder.ModelEvent, error) { panic("boom") }
	ends := func() (aycoder.ModelEvent, error) { return nil, io.EOF }
	for name, tt := range map[string]struct {
		open func() aycoder.ModelReader
		want string
	}{
		"nothing":           {func() aycoder.ModelReader { return nil }, "opened nothing"},
		"panics at once":    {func() aycoder.ModelReader { boom(); return nil }, "client panicked: boom"},
		"panics":            {func() aycoder.ModelReader { return &oddReader{next: fails} }, "client panicked: boom"},
		"ends too early":    {func() aycoder.ModelReader { return &oddReader{next: ends} }, "stream ended"},
		"panics in the end": {func() aycoder.ModelReader { return &oddReader{stop: boom} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			loop := newLoop(t, &oddOpener{tt.open}, aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}))
			_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			_, typed := errors.AsType[*aycoder.ModelError](err)
			require.True(t, typed)
		})
	}
}

// A record that fails ends a run, also while the answer goes on and nobody reads anything else.
func TestOpenedAndARecordFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		silent := func(ctx context.Context) { <-ctx.Done() }
		m := open(&fake{turns: [][]any{{say("a")[1], silent}}})
		record := aycoder.WithFacts(func(_ context.Context, r *aycoder.FactRecord) error {
			if _, done := r.Fact.(*aycoder.BlockDone); !done {
				return nil
			}
			<-time.After(time.Second)
			return full
		})
		_, err := collect(newLoop(t, m).Run(t.Context(), aycoder.Input{Prompt: "go"}, record))
		require.ErrorIs(t, err, full)
	})
}

// Whoever reads, at whatever speeds, and wherever it ends, the conversation is the same.
func TestOpenedIsTheSame(t *testing.T) {
	n := 3000
	if timed.Reduced(t) {
		n = 300
	}
	for seed := range n {
		run := func(wrap func(aycoder.ModelClient) aycoder.ModelClient) (said string, res aycoder.Result) {
			synctest.Test(t, func(t *testing.T) {
				said, res = randomTalk(t, rand.New(rand.NewPCG(1, uint64(seed))), wrap)
			})
			return said, res
		}
		said, res := run(func(m aycoder.ModelClient) aycoder.ModelClient { return m })
		said2, res2 := run(func(m aycoder.ModelClient) aycoder.ModelClient { return open(m) })
		require.Equal(t, said, said2, "seed %d", seed)
		require.Equal(t, res.Messages, res2.Messages, "seed %d", seed)
		require.Equal(t, res.Usage, res2.Usage, "seed %d", seed)
		require.Equal(t, res.End, res2.End, "seed %d", seed)
	}
}

// pause waits in a bubble.
func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// randomTalk runs a random script whose body and model take random times, and returns what the body has got. Deltas are
// put together, since they are joined for a slow body.
func randomTalk(t *testing.T, rnd *rand.Rand, wrap func(aycoder.ModelClient) aycoder.ModelClient) (string, aycoder.Result) {
	wait := func(d time.Duration) func(context.Context) {
		return func(ctx context.Context) { pause(ctx, d) }
	}
	times := []time.Duration{0, 0, 0, time.Millisecond, 30 * time.Millisecond, 3 * time.Second}
	f := &fake{}
	for turn := range 1 + rnd.IntN(4) {
		var script []any
		for range rnd.IntN(4) {
			script = append(script, &aycoder.TextDelta{Text: "a"}, wait(times[rnd.IntN(len(times))]), &aycoder.TextDelta{Text: "b"},
				&aycoder.BlockDone{Part: &aycoder.Text{Text: "ab"}})
		}
		if turn < 3 && rnd.IntN(2) > 0 {
			script = append(script, use(fmt.Sprint("c", turn), "echo", `{"text":"x"}`), wait(time.Millisecond))
		}
		switch rnd.IntN(8) {
		case 0:
			script = append(script, &aycoder.OverloadedError{ModelError: &aycoder.ModelError{Err: errors.New("busy")}})
		default:
			script = append(script, &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 10, Output: 1}})
		}
		f.turns = append(f.turns, script)
	}
	f.turns = append(f.turns, say("done"), say("done"))
	tool := newTool(t, "echo", aycoder.EffectReadOnly, echo)
	loop := newLoop(t, wrap(f), aycoder.WithTools(tool), aycoder.WithRandom(func() float64 { return 0 }))
	bodies := rand.New(rand.NewPCG(2, rnd.Uint64()))
	var said strings.Builder
	var res aycoder.Result
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			said.WriteString(ev.Text)
		case *aycoder.ToolFinished:
			said.WriteString(ev.Call.ID)
		case *aycoder.TurnFinished:
			fmt.Fprintln(&said, "turn", ev.Turn)
		case *aycoder.Retrying:
			fmt.Fprintln(&said, "again", ev.Discarded)
		}
		if err != nil {
			fmt.Fprintln(&said, err)
		}
		pause(context.Background(), times[bodies.IntN(len(times))])
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	return said.String(), res
}

// An answer that neither goroutine reads any more is closed, also if a function of the host does not end.
func TestOpenedIsClosed(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			tool, err := aycoder.NewTool("stay", "A tool.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
				inv.Cleanup(func() { <-release })
				return aycoder.TextResult(""), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			answers := [][]any{calls(use("a", "stay", `{}`)), {use("b", "stay", `{}`)}}
			opened := 0
			var stopped atomic.Int64 // two answers may be stopped at once
			m := &oddOpener{func() aycoder.ModelReader {
				events := answers[opened]
				opened++
				return &oddReader{func() (aycoder.ModelEvent, error) {
					if opened == 2 {
						cancel()
					}
					ev := events[0]
					events = events[1:]
					return ev.(aycoder.ModelEvent), nil
				}, func() { stopped.Add(1) }}
			}}
			_, err = collect(newLoop(t, m, aycoder.WithTools(tool)).Run(ctx, aycoder.Input{Prompt: "go"}))
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, 2, opened)
			require.EqualValues(t, 2, stopped.Load())
		})
	}
}
