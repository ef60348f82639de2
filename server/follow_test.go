package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/session"
)

// A memoryFeed is a feed within a process. fate returns after what times a message arrives, of which there may be none or several.
type memoryFeed struct {
	fate func() []time.Duration

	mu      sync.Mutex
	readers map[chan []byte]string
	largest int
	sent    int
}

func newFeed(fate func() []time.Duration) *memoryFeed {
	return &memoryFeed{fate: fate, readers: map[chan []byte]string{}}
}

func (f *memoryFeed) Publish(session string, message []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent++
	f.largest = max(f.largest, len(message))
	for c, of := range f.readers {
		for _, wait := range f.fate() {
			if of == session {
				time.AfterFunc(wait, func() {
					select {
					case c <- message:
					default:
					}
				})
			}
		}
	}
}

func (f *memoryFeed) Subscribe(ctx context.Context, session string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		c := make(chan []byte, 1000)
		f.mu.Lock()
		f.readers[c] = session
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.readers, c)
		}()
		for {
			select {
			case m := <-c:
				if !yield(m, nil) {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// A display shows events as somebody sees them at the end: without what was discarded.
type display struct {
	shown, turn []string
	live        int // parts of texts
}

func (d *display) add(ev aycoder.Event) {
	text := func(kind, s string) {
		d.live++
		if n := len(d.turn); n > 0 && strings.HasPrefix(d.turn[n-1], kind) {
			d.turn[n-1] += s
			return
		}
		d.turn = append(d.turn, kind+s)
	}
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		text("says ", ev.Text)
	case *aycoder.ThinkingDelta:
		text("thinks ", ev.Text)
	case *aycoder.ToolStarted:
		d.turn = append(d.turn, "starts "+ev.Call.ID)
	case *aycoder.ToolFinished:
		d.turn = append(d.turn, "ends "+ev.Call.ID+" "+fmt.Sprint(ev.Output.IsError))
	case *aycoder.Retrying:
		if ev.Discarded {
			d.turn = nil
		}
	case *aycoder.TurnFinished:
		slices.Sort(d.turn) // parallel calls
		d.shown = append(append(d.shown, d.turn...), fmt.Sprint("turn ", ev.Turn))
		d.turn = nil
	case *aycoder.RunFinished:
		d.shown = append(append(d.shown, d.turn...), "end "+string(ev.Result.End))
		d.turn = nil
	}
}

// long is a text with characters of all sizes, and such that JSON escapes.
func long(seed, n int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString([]string{"word ", "é", "世界 ", "\n", "\t<b>&\"", "😀", "\x01"}[r.IntN(7)])
	}
	return b.String()
}

// followedRun runs an agent in a session and publishes its events as a worker does. It returns what a display shows of the run.
func followedRun(t *testing.T, s *session.Session, p *server.Publisher, prompt string) *display {
	t.Helper()
	var d display
	var run atomic.Value // facts come on another goroutine
	var turn int
	facts := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
		run.Store(rec.Run)
		return nil
	})
	for ev, err := range s.Run(t.Context(), aycoder.Input{Prompt: prompt}, facts) {
		require.NoError(t, err)
		d.add(ev)
		if p != nil {
			p.Event(s.ID(), run.Load().(string), turn, ev)
		}
		if end, ok := ev.(*aycoder.TurnFinished); ok {
			turn = end.Turn
		}
		if ask, ok := ev.(*aycoder.ApprovalRequested); ok {
			ask.Allow()
		}
	}
	return &d
}

func followedSession(t *testing.T, store journal.Store, pace time.Duration) *session.Session {
	t.Helper()
	type none struct{}
	tool := func(name string, effect aycoder.Effect) aycoder.Tool {
		made, err := aycoder.NewTool(name, name, func(_ context.Context, inv *aycoder.Invocation, _ none) (*aycoder.ToolResult, error) {
			for i := range 5 {
				inv.Progress(aycoder.Progress{Current: int64(i)})
				time.Sleep(200 * time.Millisecond)
			}
			return aycoder.TextResult(strings.Repeat("output ", 5000)), nil
		}, aycoder.WithEffect(effect))
		require.NoError(t, err)
		return made
	}
	var steps []script.Step
	for run := range 2 {
		steps = append(steps,
			script.Reply(script.Think(long(run, 300)), script.Say(long(run+10, 900)), script.Call("look", nil), script.Call("look", nil)),
			script.Reply(script.Say(long(run+20, 500)), script.Call("forbidden", nil), script.Call("edit", nil)),
			script.Break(5, &aycoder.StreamBrokenError{ModelError: &aycoder.ModelError{Err: errors.New("cut")}}, script.Say(long(run+40, 800))),
			script.Say(long(run+30, 8000)))
	}
	loop, err := aycoder.New(script.New(steps...).With(script.WithPace(pace), script.WithChunk(100)), aycoder.WithTools(tool("look", aycoder.EffectReadOnly), tool("edit", aycoder.EffectWrite),
		tool("forbidden", aycoder.EffectWrite)), aycoder.WithApprover(aycoder.ApproverFunc(
		func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			switch c.Name {
			case "edit":
				return aycoder.Ask()
			case "forbidden":
				return aycoder.Deny("no")
			}
			return aycoder.Allow()
		})))
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, loop)
	require.NoError(t, err)
	return s
}

// TestFollow follows runs through feeds that lose, delay, repeat and reorder, and with readers that come and go. All see
// what the run itself has shown.
func TestFollow(t *testing.T) {
	fates := map[string]func() []time.Duration{
		"whole":   func() []time.Duration { return []time.Duration{0} },
		"nothing": func() []time.Duration { return nil },
		"half": func() []time.Duration {
			return make([]time.Duration, rand.IntN(2))
		},
		"repeated and out of order": func() []time.Duration {
			waits := make([]time.Duration, rand.IntN(4))
			for i := range waits {
				waits[i] = rand.N(2 * time.Second)
			}
			return waits
		},
		"three seconds late": func() []time.Duration { return []time.Duration{3 * time.Second} },
	}
	for name, fate := range fates {
		for _, leaves := range []int{0, 7} {
			if leaves > 0 && name != "half" && name != "nothing" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, leaves), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testFollow(t, newFeed(fate), leaves, name) })
			})
		}
	}
}

// testFollow follows two runs of a session. A reader that leaves comes again after as many events.
func testFollow(t *testing.T, feed *memoryFeed, leaves int, name string) {
	store := journal.Memory()
	s := followedSession(t, store, 20*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got display
	var reader sync.WaitGroup
	reader.Go(func() {
		after, ends := "", 0
		for ends < 2 && ctx.Err() == nil {
			n := 0
			for f, err := range server.Follow(ctx, store, feed, s.ID(), "", after) {
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				data, err := json.Marshal(f.Event)
				if err != nil || len(data) == 0 {
					t.Error(err)
				}
				got.add(f.Event)
				after = f.ID
				if _, over := f.Event.(*aycoder.RunFinished); over {
					ends++
				}
				if n++; ends == 2 || leaves > 0 && n%leaves == 0 {
					break
				}
			}
		}
	})
	publisher := server.NewPublisher(feed)
	want := followedRun(t, s, publisher, "one")
	second := followedRun(t, s, publisher, "two")
	done := make(chan struct{})
	go func() {
		reader.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Hour):
		t.Error("no end within an hour")
		cancel()
		<-done
	}
	require.Equal(t, append(want.shown, second.shown...), got.shown)
	require.LessOrEqual(t, feed.largest, server.MaxMessage)
	require.NoError(t, s.Close())
	switch {
	case name == "nothing":
		require.Less(t, got.live, 15)
	case name == "whole" && leaves == 0:
		require.Greater(t, got.live, 25) // texts came while they were written, and not only when their part was whole
	}
	time.Sleep(time.Hour) // late messages
}

// A server streams the events of a run that works in another one, also to a client that has begun to read there, and refuses
// what it cannot find.
func TestFollowAnotherServer(t *testing.T) {
	feed := newFeed(func() []time.Duration { return []time.Duration{0} })
	goOn := make(chan struct{})
	model := script.New(script.Call("wait", nil), script.Say(long(1, 2000)))
	tool, err := aycoder.NewTool("wait", "Waits", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		<-goOn
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	a := newSite(t, model)
	a.more, a.host.Feed = []harness.Option{harness.WithTools(tool)}, feed
	a.start()
	b := newSite(t, script.New())
	b.store, b.host.Feed = a.store, feed
	b.start()
	var begun struct{ Run, Session string }
	a.get(http.StatusAccepted, &begun, "POST", "/api/prompt", map[string]any{"prompt": "go"}, "Accept", "application/json")
	res := b.do("GET", "/api/runs/"+begun.Run+"/events", nil)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	close(goOn)
	var d display
	last := ""
	for m, err := range sse.Read(res.Body, nil) {
		require.NoError(t, err)
		ev, err := aycoder.DecodeEvent([]byte(m.Data))
		require.NoError(t, err)
		if d.add(ev); len(d.shown) == 0 {
			last = m.LastEventID
		}
	}
	require.Equal(t, []string{"ends call_1 false", "starts call_1", "turn 1", "says " + long(1, 2000), "turn 2", "end done"}, d.shown)
	require.NotEmpty(t, last)
	for _, at := range []*site{a, b} {
		res := at.do("GET", "/api/runs/"+begun.Run+"/events", nil, "Last-Event-ID", last)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), "turn_end")
		require.NotContains(t, string(body), "tool_start")
		res.Body.Close()
	}
	require.Equal(t, http.StatusNotFound, b.do("GET", "/api/runs/"+begun.Session+".other/events", nil).StatusCode)
}

// A reader that begins behind a run that the session does not hold, or with an id that is none, is told so.
func TestFollowGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := journal.Memory()
		s, other := followedSession(t, store, 0), followedSession(t, store, 0)
		last := ""
		followedRun(t, other, nil, "one")
		for f, err := range server.Follow(t.Context(), store, nil, other.ID(), "", "") {
			require.NoError(t, err)
			last = f.ID
			break
		}
		followedRun(t, s, nil, "one")
		for _, after := range []string{last, "x", "!", strings.Repeat("a", 100_000)} {
			var failed error
			for f, err := range server.Follow(t.Context(), store, nil, s.ID(), "", after) {
				require.Nil(t, f.Event)
				failed = err
			}
			require.Error(t, failed, "%.10s", after)
		}
		require.NoError(t, errors.Join(s.Close(), other.Close()))
	})
}

// A reader that begins behind the end of a run gets nothing of the runs before it, also if the journal is read again from its first
// record.
func TestFollowAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: journal.Memory()}
		s := followedSession(t, store, 0)
		var got display
		after := ""
		read := func(ends int) {
			t.Helper()
			for f, err := range server.Follow(t.Context(), store, nil, s.ID(), "", after) {
				require.NoError(t, err)
				got.add(f.Event)
				after = f.ID
				if _, over := f.Event.(*aycoder.RunFinished); over {
					if ends--; ends == 0 {
						return
					}
				}
			}
		}
		want := followedRun(t, s, nil, "one").shown
		read(1)
		var second []string
		time.AfterFunc(10*time.Second, func() { store.fails.Store(true) })
		time.AfterFunc(time.Minute, func() { second = followedRun(t, s, nil, "two").shown })
		read(1) // from another reader, which reads the records twice
		require.False(t, store.fails.Load())
		want = append(want, second...)
		require.True(t, slices.Equal(want, got.shown), "%d, not %d events", len(got.shown), len(want))
		time.AfterFunc(10*time.Second, func() { store.fails.Store(true) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for f, err := range server.Follow(ctx, store, nil, s.ID(), "", after) {
			require.Error(t, err)
			require.Nil(t, f.Event) // both are over
		}
		got, after = display{}, ""
		time.AfterFunc(10*time.Second, func() { store.fails.Store(true) })
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for f, err := range server.Follow(ctx, store, nil, s.ID(), "", "") {
			if err == nil {
				got.add(f.Event)
			}
		}
		require.False(t, store.fails.Load())
		require.True(t, slices.Equal(want, got.shown), "%d, not %d events", len(got.shown), len(want))
		require.NoError(t, s.Close())
	})
}

// A run whose answers and calls take minutes is not over before, whatever its branch.
func TestFollowSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := journal.Memory()
		slow := func(name string) aycoder.Tool {
			made, err := aycoder.NewTool(name, name, func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				time.Sleep(5 * time.Minute)
				return aycoder.TextResult("output"), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			return made
		}
		model := script.New(script.Call("look", nil), script.Say("end")).With(script.WithLoop(true))
		loop, err := aycoder.New(aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			time.Sleep(5 * time.Minute)
			return model.Stream(ctx, req)
		}), aycoder.WithTools(slow("look")))
		require.NoError(t, err)
		s, err := session.New(t.Context(), store, loop)
		require.NoError(t, err)
		var got display
		var run atomic.Value // a string
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		readers.Go(func() {
			for f, err := range server.Follow(ctx, store, nil, s.ID(), "", "") {
				if err != nil {
					return
				}
				got.add(f.Event)
			}
		})
		begun := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
			run.Store(rec.Run)
			return nil
		})
		var one display
		readers.Go(func() {
			time.Sleep(time.Second)
			for f, err := range server.Follow(ctx, store, nil, s.ID(), run.Load().(string), "") {
				require.NoError(t, err)
				one.add(f.Event)
			}
		})
		var want display
		for ev, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, begun) {
			require.NoError(t, err)
			want.add(ev)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, want.shown, got.shown)
		require.Equal(t, want.shown, one.shown)
		calls, err := s.NewBranch(t.Context(), "calls", session.Root, loop)
		require.NoError(t, err)
		for ev, err := range calls.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			want.add(ev)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, want.shown, got.shown)
		cancel()
		readers.Wait()
		require.NoError(t, s.Close())
	})
}

// A failingStore has journals that fail once behind their last record.
type failingStore struct {
	journal.Store
	fails atomic.Bool
}

func (s *failingStore) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	j, err := s.Store.Open(ctx, id, write)
	if err != nil || write {
		return j, err
	}
	return failingJournal{j, s}, nil
}

type failingJournal struct {
	journal.Journal
	store *failingStore
}

func (j failingJournal) Records(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range j.Journal.Records(ctx) {
			if !yield(r, err) {
				return
			}
		}
		if j.store.fails.CompareAndSwap(true, false) {
			yield(nil, errors.New("the connection broke"))
		}
	}
}
