package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tokens"
)

// writer is a model for summaries that does what stream does.
func writer(stream func(ctx context.Context, yield func(aycoder.ModelEvent, error) bool)) aycoder.ModelClient {
	return aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) { stream(ctx, yield) }
	})
}

func always(s script.Step) aycoder.ModelClient {
	return script.New(s.WithUsage(aycoder.Usage{Input: 700, Output: 70})).With(script.WithLoop(true), script.WithName("acme", "small"))
}

// A writer is a summarising model, and what is known of its answers.
type writers map[string]struct {
	client aycoder.ModelClient
	says   string // the error that Compacted tells, or ""
	used   bool   // the client tells what it has used
}

func allWriters(forever <-chan struct{}) writers {
	return writers{
		"good":      {always(script.Say("The user wants a parser.")), "", true},
		"fails":     {always(script.Fail(script.Overloaded())), "overloaded", false},
		"too large": {always(script.Fail(script.TooLarge(10, 5))), "too large", false},
		"refuses":   {always(script.Say("No.").WithStop(aycoder.StopRefusal)), "refusal", true},
		"cut":       {always(script.Say("The us").WithStop(aycoder.StopMaxTokens)), "max_tokens", true},
		"empty":     {always(script.Say(" \n")), "empty", true},
		"too long":  {always(script.Say(strings.Repeat("word ", 20_000))), "bytes", true},
		"calls":     {always(script.Call("look", map[string]any{})), "tool_use", true},
		"garbage":   {always(script.Say(strings.Repeat("\x00\x1b\u202e\ufffd", 400))), "", true},
		"breaks off": {writer(func(_ context.Context, yield func(aycoder.ModelEvent, error) bool) {
			yield(&aycoder.TextDelta{Text: "The"}, nil)
		}), "", false},
		"nil":    {writer(func(_ context.Context, yield func(aycoder.ModelEvent, error) bool) { yield(nil, nil) }), "", false},
		"panics": {writer(func(context.Context, func(aycoder.ModelEvent, error) bool) { panic("oops") }), "panicked: oops", false},
		"exits":  {writer(func(context.Context, func(aycoder.ModelEvent, error) bool) { runtime.Goexit() }), "goroutine ended", false},
		"slow": {writer(func(ctx context.Context, yield func(aycoder.ModelEvent, error) bool) {
			<-ctx.Done()
			yield(nil, ctx.Err())
		}), "within 1m", false},
		"endless": {writer(func(_ context.Context, yield func(aycoder.ModelEvent, error) bool) {
			for yield(&aycoder.TextDelta{Text: strings.Repeat("x", 1<<10)}, nil) {
			}
		}), "", false},
		"deaf": {writer(func(context.Context, func(aycoder.ModelEvent, error) bool) { <-forever }), "within 1m", false},
	}
}

// Whatever the summarising model does, the run goes on with a summary, and counts what the model has
// used, once.
func TestSummarizers(t *testing.T) {
	for name := range allWriters(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				forever := make(chan struct{})
				defer close(forever)
				w := allWriters(forever)[name]
				m := worker(4_000, 20)
				c := chatWith(t, m, 200, compaction.WithWindow(4_000), compaction.WithSummarizer(w.client, ""))
				used, summaries, start := int64(0), 0, time.Now()
				for i := range 3 {
					require.NoError(t, c.ask(fmt.Sprintf("Prompt %d: always use the file a%d.go.", i, i)))
					used += c.usage.Output
				}
				spent := int64(0)
				for _, e := range c.events {
					require.Less(t, e.After, e.Before)
					spent += e.Usage.Output
					if e.Replaced == 0 {
						continue
					}
					summaries++
					require.Less(t, len(e.Summary), 8_000)
					require.Contains(t, e.Summary, "made by rules")
					require.Contains(t, e.Error, w.says)
					if name == "good" {
						require.True(t, strings.HasPrefix(e.Summary, "The user wants a parser."))
						require.Equal(t, "acme/small", e.Provider+"/"+e.Model)
					}
					if w.says != "" {
						require.True(t, strings.HasPrefix(e.Summary, "Notes on"), e.Summary)
					}
					require.Equal(t, w.used, e.Usage == aycoder.Usage{Input: 700, Output: 70}, "%+v", e.Usage)
				}
				require.NotZero(t, summaries)
				require.Equal(t, int64(3*21*50)+spent, used, "the result counts the summaries")
				require.Zero(t, m.refused)
				require.Less(t, time.Since(start), time.Duration(summaries+1)*(time.Minute+time.Second), "asked once in a compaction")
			})
		})
	}
}

// A point is a moment of a compaction at which a run is stopped.
type point string

const (
	atBegin   point = "begin"   // the event Compacting
	atAsk     point = "ask"     // the summary is asked for
	atAnswer  point = "answer"  // the summary is there
	atFact    point = "fact"    // the note is recorded
	atEvent   point = "event"   // the event Compacted
	atRequest point = "request" // the smaller request is sent
)

// stopper stops a run at a point of a compaction.
type stopper struct {
	way   string
	at    point
	stop  func() // cancels
	fired atomic.Bool
}

// reach reports whether the run is to be stopped here.
func (s *stopper) reach(p point) bool {
	if p != s.at || s.fired.Swap(true) {
		return false
	}
	if s.way == "cancel" {
		s.stop()
	}
	return true
}

var errStopped = errors.New("stopped")

// A run that is left, cancelled, not recorded or killed at a point of a compaction leaves the history
// as before or as after it. The next run goes on, in the same process and in another one, and both
// send the same requests.
func TestStoppedCompactions(t *testing.T) {
	names := []string{"good", "fails", "refuses", "panics", "slow", "deaf"}
	if timed.Reduced(t) {
		names = []string{"good", "deaf"}
	}
	for _, way := range []string{"break", "cancel", "record", "kill"} {
		for _, at := range []point{atBegin, atAsk, atAnswer, atFact, atEvent, atRequest} {
			for _, name := range names {
				if at == atAnswer && name != "good" && name != "refuses" {
					continue // there is none
				}
				t.Run(fmt.Sprintf("%s at %s, %s", way, at, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { stopAt(t, way, at, name) })
				})
			}
		}
	}
}

func stopAt(t *testing.T, way string, at point, name string) {
	forever := make(chan struct{})
	defer close(forever)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s := &stopper{way: way, at: at, stop: func() { cancel(errStopped) }}
	inner := allWriters(forever)[name].client
	model := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			s.reach(atAsk)
			for ev, err := range inner.Stream(ctx, req) {
				if _, done := ev.(*aycoder.MessageDone); done {
					s.reach(atAnswer)
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	})
	m := worker(4_000, 40)
	step := m.step
	var compacted atomic.Bool
	m.step = func(req *aycoder.Request) script.Step {
		if compacted.Load() {
			s.reach(atRequest)
		}
		return step(req)
	}
	counter := tokens.New() // the same estimates in all processes
	process := func() *chat {
		return chatWith(t, m, 200, compaction.WithWindow(4_000), compaction.WithCounter(counter), compaction.WithSummarizer(model, ""))
	}
	c := process()
	require.NoError(t, c.ask("Always use the file a.go."))
	var res aycoder.Result
	var mu sync.Mutex // of what follows
	var facts []*aycoder.FactRecord
	killed, spent := -1, int64(0)
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		mu.Lock()
		defer mu.Unlock()
		facts = append(facts, rec)
		if f, ok := rec.Fact.(*aycoder.Compacted); ok {
			spent += f.Usage.Output
		}
		if f, ok := rec.Fact.(*aycoder.Compacted); ok && f.Replaced > 0 {
			if s.reach(atFact) {
				killed = len(facts) - 1
				if way == "record" {
					return errStopped
				}
			}
		}
		if s.fired.Load() && killed < 0 {
			killed = len(facts)
		}
		if s.fired.Load() && way == "record" && at != atFact {
			return errStopped
		}
		return nil
	}
	told := 0
	in := aycoder.Input{Messages: c.messages, Prompt: "go"}
	for ev, err := range c.agent.Run(ctx, in, aycoder.Into(&res), aycoder.WithFacts(record)) {
		stop := false
		switch ev := ev.(type) {
		case *aycoder.Compacting:
			stop = s.reach(atBegin)
		case *aycoder.Compacted:
			told++
			mu.Lock()
			require.LessOrEqual(t, told, len(facts))
			mu.Unlock()
			if compacted.Store(ev.Replaced > 0); ev.Replaced > 0 {
				stop = s.reach(atEvent)
			}
		}
		if err != nil || way == "break" && (stop || s.fired.Load()) {
			break
		}
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.True(t, s.fired.Swap(true))
	mu.Lock()
	defer mu.Unlock()
	turns := res.Usage.Output - spent
	require.Zero(t, turns%50, "tokens that no fact told")
	if way == "kill" {
		for _, cut := range []int{killed, killed + 1} {
			if killed >= 0 && cut > 0 && cut <= len(facts) {
				goOn(process(), m, aycoder.Input{Pending: &aycoder.Pending{Run: facts[0].Run, State: facts[cut-1].State}})
			}
		}
		return
	}
	same, first := goOn(c, m, aycoder.Input{Messages: res.Messages, Prompt: "go on"})
	other, second := goOn(process(), m, aycoder.Input{Messages: res.Messages, Prompt: "go on"})
	require.Equal(t, first, second, "one of them left out what no event told")
	require.False(t, first && compacted.Load() && way != "record", "the summary was made again")
	if !first {
		require.Equal(t, same, other)
	}
}

// goOn continues a conversation, and returns the messages of the request of the run, and whether it was
// compacted.
func goOn(c *chat, m *strict, in aycoder.Input) (got []string, compacted bool) {
	t, step := c.t, m.step
	t.Helper()
	defer func() { m.step = step }()
	m.last, m.step = nil, func(req *aycoder.Request) script.Step {
		for _, msg := range req.Messages {
			data, err := msg.MarshalJSON()
			require.NoError(t, err)
			got = append(got, string(data))
		}
		return script.Say("Done.")
	}
	var res aycoder.Result
	for ev, err := range c.agent.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.Compacted); ok {
			compacted = true
		}
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.Equal(t, aycoder.EndDone, res.End)
	require.Zero(t, m.refused)
	return got, compacted
}

// Tokens of a summary count even if the run was cancelled before it could be used.
func TestUsageOfACancelledSummary(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := writer(func(_ context.Context, yield func(aycoder.ModelEvent, error) bool) {
		_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "A summary."}}, nil) &&
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 700, Output: 7}}, nil)
		cancel()
	})
	c := chatWith(t, worker(4_000, 60), 200, compaction.WithWindow(4_000), compaction.WithSummarizer(w, ""))
	var res aycoder.Result
	var state aycoder.State
	var told []*aycoder.Compacted
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		state = rec.State
		return nil
	}
	for ev := range c.agent.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithFacts(record)) {
		if e, ok := ev.(*aycoder.Compacted); ok {
			told = append(told, e)
		}
	}
	last := told[len(told)-1]
	require.Nil(t, last.Note)
	require.Equal(t, aycoder.Usage{Input: 700, Output: 7}, last.Usage)
	require.Equal(t, int64(7), res.Usage.Output%50)
	require.Equal(t, res.Usage, state.Usage())
	require.False(t, slices.ContainsFunc(told[:len(told)-1], func(e *aycoder.Compacted) bool { return e.Usage != aycoder.Usage{} }))
}
