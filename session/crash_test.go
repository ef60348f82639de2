package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// worker is an agent whose model makes a few calls in each of six turns, whatever was interrupted
// before, and then says that it is done. Its setup changes with each turn.
func worker(t testing.TB, v aycoder.Verdict) *aycoder.Loop {
	step := script.Func(func(req *aycoder.Request) script.Step {
		turns := 0
		for _, m := range req.Messages {
			if m.Role == aycoder.RoleAssistant {
				turns++
			}
		}
		if turns >= 6 {
			return script.Say("done")
		}
		call := func(name string, n int) script.Step {
			return script.Block(&aycoder.ToolUse{ID: fmt.Sprintf("t%d_%s%d", turns, name, n), Name: name,
				Args: json.RawMessage(`{"text":"x"}`)})
		}
		return script.Reply(script.Say("next"), call("look", 1), call("write", 1), call("look", 2), call("write", 2))
	})
	more, asked := echo(t, "more", aycoder.EffectReadOnly), atomic.Int32{}
	setup := aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		n := asked.Add(1)
		now.Limits.Turns = 50 + int(n)
		if now.Tools = now.Tools[:2]; n%2 == 0 {
			now.Tools = append(now.Tools, more)
		}
		return now, nil
	})
	l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), setup, aycoder.WithApprover(verdict(v)),
		aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly), echo(t, "write", aycoder.EffectWrite)))
	require.NoError(t, err)
	return l
}

// began counts how often the journal says that each write began.
func began(t testing.TB, records [][]byte) map[string]int {
	out := map[string]int{}
	for _, r := range records {
		var f struct{ Fact, ID string }
		require.NoError(t, json.Unmarshal(r, &f))
		if f.Fact == "tool_began" && f.ID[3] == 'w' {
			out[f.ID]++
		}
	}
	return out
}

// killed opens a session of which only the first n records are left, and runs it to its end. Nothing
// that was recorded is lost, and no write begins twice.
func killed(t *testing.T, store *memory, id string, n int) {
	t.Helper()
	j := store.sessions[id]
	before := began(t, j.records[:n])
	store.sessions[id] = &memoryJournal{records: j.records[:n:n], objects: j.objects}
	s, err := session.Open(t.Context(), store, id, worker(t, aycoder.Allow()))
	require.NoError(t, err)
	require.Empty(t, s.Damage())
	var in aycoder.Input
	if s.Pending() == nil {
		in.Prompt = "on"
	}
	var res aycoder.Result
	for _, err := range s.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, "done", res.Text())
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.Equal(t, asJSON(t, res.Messages), asJSON(t, s.View().Messages(s.Head())))
	after := began(t, store.sessions[id].records)
	for call := range before {
		require.Contains(t, after, call)
	}
	for call, times := range after {
		require.Equal(t, 1, times, "%s began %d times", call, times)
	}
	v, _, err := session.Read(t.Context(), store, id)
	require.NoError(t, err)
	require.Equal(t, asJSON(t, res.Messages), asJSON(t, v.Messages(v.Head(""))))
}

// A run that is killed after any of its records ends as it would have.
func TestCrashAfterEachRecord(t *testing.T) {
	timed.Serial(t)
	whole := newMemory()
	s, err := session.New(t.Context(), whole, worker(t, aycoder.Allow()))
	require.NoError(t, err)
	run(t, s, "go")
	records := whole.sessions[s.ID()].records
	for n := 1; n <= len(records); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			store := newMemory()
			store.sessions["x"] = &memoryJournal{records: records, objects: map[journal.Hash][]byte{}}
			killed(t, store, "x", n)
		})
	}
}

// So does one that is killed several times.
func TestCrashesInARow(t *testing.T) {
	timed.Serial(t)
	const runs = 50
	seed := rand.Uint64()
	t.Logf("%d runs, seed %d", runs, seed)
	for n := range runs {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		store := newMemory()
		s, err := session.New(t.Context(), store, worker(t, aycoder.Allow()))
		require.NoError(t, err)
		run(t, s, "go")
		kept := 1
		for range 1 + r.IntN(4) {
			kept = min(kept+1+r.IntN(20), len(store.sessions[s.ID()].records))
			killed(t, store, s.ID(), kept)
		}
	}
}

// A run that was suspended for approval is decided in another process, which may be killed, too.
func TestSuspendedRunIsKept(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, worker(t, aycoder.Suspend()))
	require.NoError(t, err)
	run(t, s, "go")
	want := s.Pending()
	require.Len(t, want.Requests, 4)
	require.Equal(t, session.PhaseSuspended, s.Phase())
	require.NoError(t, s.Close())

	allowed := 0
	for !t.Failed() {
		o, err := session.Open(t.Context(), store, s.ID(), worker(t, aycoder.Suspend()))
		require.NoError(t, err)
		p := o.Pending()
		if p == nil {
			break
		}
		require.Empty(t, o.Changes(), "what the setup adds is no change of the agent")
		if allowed == 0 {
			require.Equal(t, asJSON(t, want), asJSON(t, p))
		}
		var in aycoder.Input
		for _, q := range p.Requests {
			in.Decisions = append(in.Decisions, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
			allowed++
		}
		var res aycoder.Result
		for _, err := range o.Run(t.Context(), in, aycoder.Into(&res)) {
			require.NoError(t, err)
		}
		require.Equal(t, asJSON(t, res.Messages), asJSON(t, o.View().Messages(o.Head())))
		require.NoError(t, o.Close())
	}
	require.Equal(t, 24, allowed)
	require.Len(t, began(t, store.sessions[s.ID()].records), 12)
	v, damage, err := session.Read(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	messages := v.Messages(v.Head(""))
	require.Equal(t, "done", messages[len(messages)-1].Text())
}

// A prompt settles a suspended run: its calls are not run, and the model is told so.
func TestPromptSettlesSuspendedRun(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, worker(t, aycoder.Suspend()))
	require.NoError(t, err)
	run(t, s, "go")
	require.NoError(t, s.Steer(t.Context(), "by the way"))
	require.NoError(t, s.SetAgent(agent(t, script.Say("all right"))))
	res := run(t, s, "never mind")
	require.Nil(t, s.Pending())
	require.Equal(t, "all right", res.Text())
	require.Contains(t, asJSON(t, res.Messages), "not run: the run was cancelled")
	require.Contains(t, asJSON(t, res.Messages), "by the way")
	require.Empty(t, s.Queued())
	require.Empty(t, began(t, store.sessions[s.ID()].records))
}

// Messages that no run has taken are there in the next process, once.
func TestQueuedMessagesAreKept(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, agent(t, script.Say("hi")))
	require.NoError(t, err)
	require.NoError(t, s.Steer(t.Context(), "one"))
	require.NoError(t, s.FollowUp(t.Context(), "two"))
	require.NoError(t, s.Steer(t.Context(), "three"))
	require.NoError(t, s.Close())
	o, err := session.Open(t.Context(), store, s.ID(), agent(t, script.Say("a"), script.Say("b"), script.Say("c")))
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two", "three"}, texts(o.Queued()))
	run(t, o, "zero")
	require.Empty(t, o.Queued())
	require.Equal(t, []string{"zero", "one", "three", "a", "two", "b"}, texts(o.View().Messages(o.Head())))
	require.NoError(t, o.Close())
	again, err := session.Open(t.Context(), store, s.ID(), agent(t))
	require.NoError(t, err)
	require.Empty(t, again.Queued())

	require.NoError(t, again.Steer(t.Context(), "four"))
	drained, err := again.Drain(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"four"}, texts(drained))
	require.NoError(t, again.Close())
	last, err := session.Open(t.Context(), store, s.ID(), agent(t))
	require.NoError(t, err)
	require.Empty(t, last.Queued())
}

// The conversation goes on from each node, also from one in the middle of a turn.
func TestRunFromEachNode(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, worker(t, aycoder.Allow()))
	require.NoError(t, err)
	run(t, s, "go")
	for id := range session.ID(s.View().Len()) {
		_, err := s.Checkout(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, aycoder.CheckHistory(s.View().Messages(id)))
		for range 2 {
			res := run(t, s, "go on")
			require.Equal(t, asJSON(t, res.Messages), asJSON(t, s.View().Messages(s.Head())))
		}
		head := s.Head()
		_, err = s.Undo(t.Context())
		require.NoError(t, err)
		_, err = s.Undo(t.Context())
		require.NoError(t, err)
		if back := s.View().Node(s.Head()); back.ID != id { // a node with calls gets one with their outputs
			require.Equal(t, id, back.Parent)
		}
		_, err = s.Checkout(t.Context(), head)
		require.NoError(t, err)
	}
	v, damage, err := session.Read(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Equal(t, asJSON(t, s.View().Messages(s.Head())), asJSON(t, v.Messages(v.Head(""))))
}
