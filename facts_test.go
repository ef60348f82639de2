package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// factLog records the facts of a run slowly, and knows what may start after those that it has.
type factLog struct {
	t      *testing.T
	random *rand.Rand
	delay  time.Duration
	failAt int64 // -1 for never
	fail   func() error

	mu      sync.Mutex
	busy    bool
	run     string
	first   aycoder.State
	state   aycoder.State // after the facts that are recorded
	records [][]byte
	facts   []aycoder.Fact
	states  [][]byte
	ran     map[string]int

	interrupted []string
	may         map[string]bool // keys of actions that may start
	began       map[string]bool
	failed      bool
}

// rest lets time pass in the bubble.
func rest(d time.Duration) { time.Sleep(d) }

func (l *factLog) record(ctx context.Context, rec *aycoder.FactRecord) error {
	l.mu.Lock()
	require.False(l.t, l.busy, "two records at once")
	require.False(l.t, l.failed, "a record after the error")
	l.busy = true
	l.mu.Unlock()
	rest(l.delay) // whatever does not wait for the record starts now
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	require.NoError(l.t, ctx.Err())
	require.Equal(l.t, int64(len(l.records)), rec.Seq, "records come in order")
	if l.failAt == rec.Seq {
		l.failed = true
		return l.fail()
	}
	data, err := json.Marshal(rec)
	require.NoError(l.t, err)
	l.records = append(l.records, data)
	want, err := json.Marshal(rec.State)
	require.NoError(l.t, err)
	l.states = append(l.states, want)
	if rec.Seq == 0 {
		require.Nil(l.t, rec.Fact)
		l.run, l.first, l.state = rec.Run, rec.State, rec.State
		l.allow(rec.State.Outstanding())
		return nil
	}
	require.Equal(l.t, l.run, rec.Run)
	var back aycoder.FactRecord
	require.NoError(l.t, json.Unmarshal(data, &back))
	next, actions, err := l.state.Apply(back.Fact)
	require.NoError(l.t, err, "%s", data)
	got, err := json.Marshal(next)
	require.NoError(l.t, err)
	require.Equal(l.t, string(want), string(got), "the state after %s", data)
	again, err := json.Marshal(back)
	require.NoError(l.t, err)
	require.Equal(l.t, string(data), string(again))
	if b, ok := back.Fact.(*aycoder.ToolBegan); ok {
		l.began[b.ID] = true
	}
	l.state = next
	l.facts = append(l.facts, back.Fact)
	l.allow(actions)
	return nil
}

func (l *factLog) allow(actions []aycoder.Action) {
	for _, a := range actions {
		l.may[a.Key()] = true
	}
}

// starts checks that the facts which lead to an action are recorded.
func (l *factLog) starts(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.False(l.t, l.failed, "%s starts after the error", key)
	require.True(l.t, l.may[key], "%s starts too early", key)
}

// asked checks that the call which the policy judges is recorded.
func (l *factLog) asked(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.may {
		if strings.HasSuffix(key, "/ask/"+id) {
			return
		}
	}
	l.t.Errorf("the policy is asked about %s too early", id)
}

// sees checks that all messages of a request are recorded.
func (l *factLog) sees(messages int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(l.t, l.state.Messages(), messages, "the model sees what is not recorded")
}

func (l *factLog) hasBegun(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.True(l.t, l.began[id], "%s has begun and is not recorded", id)
	l.ran[id]++
}

// told checks that the facts of an event are recorded.
func (l *factLog) told(ev aycoder.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return
	}
	settled := func(id string) bool {
		for _, m := range l.state.Messages() {
			for _, p := range m.Parts {
				if o, ok := p.(*aycoder.ToolOutput); ok && o.ID == id {
					return true
				}
			}
		}
		for _, f := range l.facts {
			switch f := f.(type) {
			case *aycoder.ToolDone:
				if f.ID == id {
					return true
				}
			case *aycoder.Decided:
				if f.Decision.CallID == id {
					return true
				}
			case *aycoder.Resumed: // settles what was interrupted
				return true
			}
		}
		return false
	}
	switch ev := ev.(type) {
	case *aycoder.ToolStarted:
		require.True(l.t, l.began[ev.Call.ID], "told that %s has started", ev.Call.ID)
	case *aycoder.ToolFinished:
		require.True(l.t, settled(ev.Call.ID), "told that %s is finished", ev.Call.ID)
	case *aycoder.ApprovalRequested:
		require.True(l.t, l.may[ev.Request.Key], "asked about %s", ev.Request.Key)
	case *aycoder.TurnFinished:
		require.LessOrEqual(l.t, ev.Turn, l.state.Turn(), "told that a turn is over")
	case *aycoder.Retrying:
		require.Positive(l.t, l.state.Attempt(), "told of a retry")
	case *aycoder.RunFinished:
		require.Equal(l.t, ev.Result.End, l.state.End())
	}
}

// factRun is a random run. A question is answered, denied, ignored or left to another goroutine;
// at event stop the loop is left, or its context is cancelled.
type factRun struct {
	seed   uint64
	all    bool // has each kind of fact: the answers, the verdicts and a message of the user are not random
	stop   int
	cancel bool
	failAt int64
	fail   func() error
	in     aycoder.Input
	event  func(aycoder.Event)
}

func (f factRun) run(t *testing.T) (events int, log *factLog, res *aycoder.Result, err error) {
	random := rand.New(rand.NewPCG(f.seed, 7))
	log = &factLog{t: t, random: random, delay: time.Duration(1 + random.IntN(20)), failAt: f.failAt, fail: f.fail,
		may: map[string]bool{}, ran: map[string]int{}, began: map[string]bool{}}
	var setups randomSetups
	tool := func(name string, effect aycoder.Effect) aycoder.Tool {
		version := setups.version
		tool, err := aycoder.NewTool(name, "A tool.", func(ctx context.Context, inv *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			setups.runs(t, name, version)
			log.starts(inv.Key)
			log.hasBegun(inv.ID)
			inv.Progress(aycoder.Progress{Message: "working"})
			rest(time.Duration(len(in.Text)))
			return aycoder.TextResult("did " + in.Text), ctx.Err()
		}, aycoder.WithEffect(effect))
		require.NoError(t, err)
		return tool
	}
	verdicts := []aycoder.Verdict{aycoder.Allow(), aycoder.Allow(), aycoder.Ask(), aycoder.Ask(), aycoder.Deny("no"),
		aycoder.AllowWith(json.RawMessage(`{ "text" : "<edited>" }`)), aycoder.Allow().WithRationale(aycoder.Grounds{ReadOnly: true})}
	if random.IntN(8) == 0 {
		verdicts = append(verdicts, aycoder.Suspend())
	}
	var mu sync.Mutex
	decided := map[string]aycoder.Verdict{}
	policy := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		log.asked(c.ID)
		mu.Lock()
		defer mu.Unlock()
		if f.all {
			return aycoder.Allow()
		}
		if _, ok := decided[c.ID]; !ok {
			decided[c.ID] = verdicts[random.IntN(len(verdicts))]
		}
		return decided[c.ID]
	})
	asked := 0
	m := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) seq {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			log.mu.Lock()
			key := (&aycoder.CallModel{Turn: log.state.Turn() + 1, Attempt: log.state.Attempt()}).Key()
			log.mu.Unlock()
			log.starts(key)
			log.sees(len(req.Messages))
			setups.offers(t, req)
			mu.Lock()
			events := randomAnswer(random, len(req.Messages))
			if f.all {
				events = plannedAnswer(asked)
			}
			asked++
			mu.Unlock()
			(&fake{turns: [][]any{events}}).Stream(ctx, req)(yield)
		}
	})
	options := []aycoder.Option{aycoder.WithTools(tool("read", aycoder.EffectReadOnly), tool("write", aycoder.EffectWrite)),
		aycoder.WithApprover(policy), aycoder.WithLimits(aycoder.Limits{Turns: 6}), aycoder.WithRetry(aycoder.RetryPolicy{Base: 10})}
	if f.seed%3 == 0 && !f.all {
		setups.random, setups.tool = rand.New(rand.NewPCG(f.seed, 8)), tool
		options = append(options, aycoder.WithSetup(setups.next))
	}
	loop := newLoop(t, m, options...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctl := &aycoder.Control{}
	res = &aycoder.Result{}
	if f.in.Pending == nil {
		f.in.Prompt = "go\xff"
	}
	for ev, e := range loop.Run(ctx, f.in, aycoder.Into(res), aycoder.WithControl(ctl),
		aycoder.WithFacts(log.record)) {
		if e != nil {
			err = e
			break
		}
		log.told(ev)
		if f.event != nil {
			f.event(ev)
		}
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			if c, ok := fin.Err.(*aycoder.ToolCancelledError); ok && c.Interrupted {
				log.interrupted = append(log.interrupted, fin.Call.ID)
			}
		}
		mu.Lock()
		dice := random.IntN(12)
		mu.Unlock()
		switch {
		case dice == 0 || f.all && events == 0:
			ctl.Steer("steer")
		case dice == 1:
			ctl.FollowUp("follow up")
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			answer(q, dice)
		}
		if events++; events == f.stop && f.cancel {
			cancel()
		} else if events == f.stop {
			break
		}
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	if !log.failed {
		want, e := json.Marshal(res.Messages)
		require.NoError(t, e)
		got, e := json.Marshal(log.state.Messages())
		require.NoError(t, e)
		require.Equal(t, string(want), string(got), "the last record has the state of the end")
		require.Equal(t, res.End, log.state.End())
	}
	return events, log, res, err
}

func answer(q *aycoder.ApprovalRequested, dice int) {
	switch dice {
	case 2, 3, 4:
		q.Allow()
	case 5:
		_ = q.AllowWith(json.RawMessage(`{"text":"other"}`))
	case 6, 7:
		q.Deny("not \u2028 now")
	case 8:
		a := q.Detach()
		go a.Allow()
	}
}

// randomAnswer is one answer of a model, to the n-th message.
func randomAnswer(random *rand.Rand, n int) []any {
	var out []any
	for i := range random.IntN(5) {
		text := fmt.Sprint("part ", n, i)
		id := fmt.Sprintf("c%d_%d", n, i)
		args := fmt.Sprintf("{ \"text\":\t\"%s<&>\\u00e9\" }", text)
		switch random.IntN(8) {
		case 0, 1:
			out = append(out, &aycoder.TextDelta{Text: text}, textDone(text))
		case 2, 3, 4:
			out = append(out, &aycoder.ToolDelta{ID: id, Name: "read"}, use(id, "read", args))
		case 5, 6:
			out = append(out, use(id, "write", args))
		default:
			out = append(out, &aycoder.BlockDone{Part: &aycoder.Thinking{Text: "hm", Signature: "s/+=<", Provider: "p"}})
		}
		if random.IntN(4) == 0 {
			out = append(out, func(context.Context) { rest(time.Duration(5)) })
		}
	}
	usage := aycoder.Usage{Input: 10, Output: int64(n)}
	switch random.IntN(16) {
	case 0:
		return append(out, &aycoder.StreamBrokenError{ModelError: base("reset")})
	case 1:
		return append(out, &aycoder.MessageDone{Stop: aycoder.StopRefusal, Usage: usage})
	case 2:
		cut := &aycoder.ToolUse{ID: "cut", Name: "write", Args: json.RawMessage(`{"te`)}
		return append(out, &aycoder.BlockTruncated{Call: cut}, &aycoder.MessageDone{Stop: aycoder.StopMaxTokens, Usage: usage})
	case 3:
		return append(out, &aycoder.BadRequestError{ModelError: base("bad")})
	}
	return append(out, &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: usage, Model: "m", ID: fmt.Sprint("msg", n)})
}

// plannedAnswer is the n-th answer of a run that has each kind of fact.
func plannedAnswer(n int) []any {
	switch n {
	case 0:
		return []any{&aycoder.StreamBrokenError{ModelError: base("reset")}}
	case 1:
		cut := &aycoder.ToolUse{ID: "cut", Name: "write", Args: json.RawMessage(`{"te`)}
		return []any{use("c", "read", `{"text":"x"}`), &aycoder.BlockTruncated{Call: cut}, &aycoder.MessageDone{Stop: aycoder.StopMaxTokens}}
	}
	return say("done")
}

// Nothing that follows from a fact starts, and nobody is told of it, until the fact is recorded.
// The recorded facts give the state of the run, also after a break and a cancel at every event.
func TestFactsAreRecordedFirst(t *testing.T) {
	seeds, runs, records := uint64(25), 0, 0
	kinds := map[string]int{}
	if testing.Short() || timed.Reduced(t) {
		seeds = 5
	}
	for seed := range seeds + 1 {
		synctest.Test(t, func(t *testing.T) {
			all := seed == seeds
			total, log, _, _ := factRun{seed: seed, all: all, failAt: -1}.run(t)
			for _, f := range log.facts {
				kinds[fmt.Sprintf("%T", f)]++
			}
			for stop := 1; stop <= total; stop++ {
				for _, cancel := range []bool{false, true} {
					_, log, _, err := factRun{seed: seed, all: all, stop: stop, cancel: cancel, failAt: -1}.run(t)
					if cancel && stop < total && err == nil {
						require.NotEqual(t, aycoder.EndCancelled, log.state.End())
					}
					runs++
					records += len(log.records)
				}
			}
		})
	}
	t.Logf("%d runs, %d records, %v", runs, records, kinds)
	for _, f := range []aycoder.Fact{&aycoder.BlockDone{}, &aycoder.BlockTruncated{}, &aycoder.MessageDone{}, &aycoder.ModelFailed{},
		&aycoder.Waited{}, &aycoder.Decided{}, &aycoder.ToolBegan{}, &aycoder.ToolDone{}, &aycoder.Steered{}} {
		require.Positive(t, kinds[fmt.Sprintf("%T", f)], "%T", f)
	}
}

// After an error of the record function nothing starts and nothing is recorded, and the run ends
// with that error and a valid history.
func TestFactErrorEndsTheRun(t *testing.T) {
	broken := errors.New("disk full")
	fails := map[string]func() error{
		"error": func() error { return broken },
		"panic": func() error { panic("no disk") },
		"exit":  func() error { runtime.Goexit(); return nil },
	}
	seeds := uint64(12)
	if testing.Short() || timed.Reduced(t) {
		seeds = 3
	}
	runs := 0
	for name, fail := range fails {
		for seed := range seeds {
			synctest.Test(t, func(t *testing.T) {
				_, log, _, _ := factRun{seed: seed, failAt: -1}.run(t)
				for at := range int64(len(log.records)) {
					_, log, _, err := factRun{seed: seed, failAt: at, fail: fail}.run(t)
					if !log.failed { // this time the run had fewer records
						continue
					}
					require.ErrorContains(t, err, "record fact: ", "%s at %d", name, at)
					require.Equal(t, name == "error", errors.Is(err, broken))
					runs++
				}
			})
		}
	}
	t.Logf("%d runs", runs)
	require.Greater(t, runs, 50)
}

// A record function that does not return holds up neither the stream nor the end of the run.
func TestFactsOfASlowRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, heeds := range []bool{true, false} {
			release := make(chan struct{})
			streamed := make(chan struct{})
			answer := append(append([]any{}, say("hello")[:2]...), func(context.Context) { close(streamed) })
			m := &fake{turns: [][]any{append(answer, use("c", "write", `{"text":"x"}`), &aycoder.MessageDone{Stop: aycoder.StopToolUse})}}
			tool := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) {
				t.Error("the tool runs before its start is recorded")
				return "", nil
			})
			n := 0
			record := func(ctx context.Context, rec *aycoder.FactRecord) error {
				if n++; n < 2 {
					return nil
				}
				if !heeds {
					<-release
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
			var res aycoder.Result
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-streamed
				synctest.Wait()
				cancel()
			}()
			start := time.Now()
			_, err := collect(newLoop(t, m, aycoder.WithApprover(allow), aycoder.WithTools(tool)).
				Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithFacts(record)))
			require.ErrorContains(t, err, "record fact: ")
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			require.Equal(t, 2, n, "nothing is recorded after the error")
			require.LessOrEqual(t, time.Since(start), 2*time.Second, "the grace, and once more until record returns")
			close(release)
		}
	})
}

// The facts of a nested run have numbers from 0, too.
func TestFactsOfANestedRun(t *testing.T) {
	var mu sync.Mutex
	recorded := map[string][]int64{}
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		mu.Lock()
		defer mu.Unlock()
		recorded[rec.Run] = append(recorded[rec.Run], rec.Seq)
		return nil
	}
	child := newLoop(t, &fake{turns: [][]any{say("inner")}})
	tool, err := aycoder.NewTool("sub", "A tool.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		for ev, err := range child.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv), aycoder.WithFacts(record)) {
			if err == nil {
				err = inv.Emit(ctx, ev)
			}
			if err != nil {
				return nil, err
			}
		}
		return aycoder.TextResult("ok"), nil
	})
	require.NoError(t, err)
	m := &fake{turns: [][]any{calls(use("a", "sub", `{}`)), say("outer")}}
	_, err = collect(newLoop(t, m, aycoder.WithApprover(allow), aycoder.WithTools(tool)).
		Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithFacts(record)))
	require.NoError(t, err)
	var lens []int
	for _, seqs := range recorded {
		lens = append(lens, len(seqs))
		require.True(t, slices.IsSorted(seqs))
	}
	slices.Sort(lens)
	// start, block, message; and start, block, message, decided, began, done, block, message
	require.Equal(t, []int{3, 8}, lens)
}

// A run that was working when its program ended continues from every record: its history stays
// valid, a call that had begun is told of and does not run again, unless it only reads and the host
// says so. The facts of the new run lead to its states as well.
func TestResumeAWorkingRun(t *testing.T) {
	seeds := uint64(15)
	if testing.Short() || timed.Reduced(t) {
		seeds = 8
	}
	cuts, interrupted, repeated := 0, 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			_, first, _, _ := factRun{seed: seed, failAt: -1}.run(t)
			begun := map[string]string{} // call to its tool
			for i, state := range first.states {
				names := map[string]string{}
				for _, f := range first.facts[:i] {
					switch f := f.(type) {
					case *aycoder.BlockDone:
						if u, ok := f.Part.(*aycoder.ToolUse); ok {
							names[u.ID] = u.Name
						}
					case *aycoder.ToolBegan:
						begun[f.ID] = names[f.ID]
					case *aycoder.ToolDone:
						delete(begun, f.ID)
					}
				}
				for _, repeat := range []bool{false, true} {
					p := &aycoder.Pending{Run: first.run}
					require.NoError(t, json.Unmarshal(state, &p.State))
					if end := p.State.End(); end != "" && end != aycoder.EndSuspended {
						continue
					}
					cuts++
					_, log, _, _ := factRun{seed: seed + 1000, failAt: -1, in: aycoder.Input{Pending: p, RepeatReads: repeat}}.run(t)
					require.IsType(t, &aycoder.Resumed{}, log.facts[0])
					for id, name := range begun {
						if repeat && name == "read" {
							repeated += log.ran[id]
							require.NotContains(t, log.interrupted, id)
							continue
						}
						interrupted++
						require.Zero(t, log.ran[id], "%s %s runs again", name, id)
						require.Contains(t, log.interrupted, id)
					}
					require.Subset(t, keysOfMap(begun), log.interrupted)
				}
			}
		})
	}
	t.Logf("%d cuts, %d calls interrupted, %d repeated", cuts, interrupted, repeated)
	require.Positive(t, interrupted)
	require.Positive(t, repeated)
}

func keysOfMap(m map[string]string) []string { return slices.Collect(maps.Keys(m)) }

// Calls that are left out of a message are in no fact, and nobody is told of them.
func TestFactsOfTooManyCalls(t *testing.T) {
	var many []any
	for i := range 1000 {
		many = append(many, use(strconv.Itoa(i), "echo", `{"text":"x"}`), &aycoder.BlockTruncated{Call: &aycoder.ToolUse{ID: "cut " + strconv.Itoa(i), Name: "echo"}})
	}
	l := newLoop(t, &fake{turns: [][]any{calls(many...), say("ok")}}, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)))
	seen := map[string]bool{}
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		switch f := rec.Fact.(type) {
		case *aycoder.BlockDone:
			if c, ok := f.Part.(*aycoder.ToolUse); ok {
				require.False(t, seen[c.ID], c.ID)
				seen[c.ID] = true
			}
		case *aycoder.BlockTruncated:
			require.False(t, seen[f.Call.ID], f.Call.ID)
			seen[f.Call.ID] = true
		}
		return nil
	}
	var res aycoder.Result
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithFacts(record), aycoder.Into(&res)))
	require.NoError(t, err)
	require.Len(t, seen, 256)
	require.Len(t, res.Messages[1].Calls(), 256)
}
