package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// slowStore is a store that, while it is slow, records nothing. A deaf one does not even give up when its caller does, as a disk does not.
type slowStore struct {
	journal.Store
	deaf bool
	slow atomic.Pointer[chan struct{}]
}

func (s *slowStore) slowDown() {
	again := make(chan struct{})
	s.slow.CompareAndSwap(nil, &again)
}

func (s *slowStore) goOn() {
	if again := s.slow.Swap(nil); again != nil {
		close(*again)
	}
}

func (s *slowStore) Create(ctx context.Context, id string) (journal.Journal, error) {
	j, err := s.Store.Create(ctx, id)
	return slowJournal{j, s}, err
}

func (s *slowStore) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	j, err := s.Store.Open(ctx, id, write)
	return slowJournal{j, s}, err
}

type slowJournal struct {
	journal.Journal
	store *slowStore
}

func (j slowJournal) Append(ctx context.Context, durable bool, records ...[]byte) error {
	if again := j.store.slow.Load(); again != nil {
		gone := ctx.Done()
		if j.store.deaf {
			gone = nil
		}
		select {
		case <-*again:
		case <-gone:
			return ctx.Err()
		}
	}
	return j.Journal.Append(ctx, durable, records...)
}

// endingModel is a client that tells when its answer begins and is over, and counts what it has answered.
type endingModel struct {
	aycoder.ModelClient
	began   func() // or nil
	ended   func()
	answers int
	used    aycoder.Usage
}

func (m *endingModel) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if m.began != nil {
			m.began()
		}
		defer m.ended()
		m.ModelClient.Stream(ctx, req)(func(ev aycoder.ModelEvent, err error) bool {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				m.answers++
				m.used = m.used.Add(done.Usage)
			}
			return yield(ev, err)
		})
	}
}

// A run whose last facts come too late, as its grace is over, is recorded as it is all the same: suspended with its question, or
// with the message that the model had sent, what it cost, and each of its facts. It goes on in another process as if nothing had been
// late.
func TestFactsThatComeTooLate(t *testing.T) {
	for late, deaf := range slowWays() {
		t.Run(fmt.Sprintf("%s, %t", late, deaf), func(t *testing.T) {
			ran := 0
			edit, err := aycoder.NewTool("edit", "Edits.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				ran++
				return aycoder.TextResult("edited"), nil
			})
			require.NoError(t, err)
			store := &slowStore{Store: journal.Memory(), deaf: deaf}
			ctx, cancel := context.WithCancel(t.Context())
			script := script.New(script.Reply(script.Say("I edit."), script.Call("edit", nil)), script.Say("done"))
			model := &endingModel{ModelClient: script, ended: func() {
				if late == "the answer" {
					cancel()
				}
			}}
			loop, err := aycoder.New(model, aycoder.WithTools(edit), aycoder.WithLimits(aycoder.Limits{Grace: time.Second / 4}),
				aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })))
			require.NoError(t, err)
			s, err := session.New(t.Context(), store, loop)
			require.NoError(t, err)
			var told []string
			tell := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
				told = append(told, kindOf(rec))
				return nil
			})
			for ev := range s.Run(ctx, aycoder.Input{Prompt: "go"}, tell) {
				switch ev := ev.(type) {
				case *aycoder.TextDelta:
					if late == "the message" || late == "the answer" {
						store.slowDown()
					}
				case *aycoder.ApprovalRequested:
					if late == "the question" {
						store.slowDown()
					}
					ev.Detach().Leave()
				case nil, *aycoder.RunFinished: // the grace is over
					store.goOn()
				}
				if store.slow.Load() != nil && late != "the answer" {
					cancel()
				}
			}
			cancel()
			require.NoError(t, s.Err())
			here := s.Pending()
			require.NoError(t, s.Close())

			s, err = session.Open(t.Context(), store, s.ID(), loop)
			require.NoError(t, err)
			defer s.Close()
			require.Empty(t, s.Damage())
			p := s.Pending()
			require.Equal(t, here == nil, p == nil)
			in := aycoder.Input{}
			if p == nil {
				in.Prompt = "go on"
			} else {
				require.Equal(t, encode(t, here), encode(t, p))
				require.Len(t, p.Requests, 1)
				in.Decisions = []aycoder.Decision{{CallID: p.Requests[0].CallID, Digest: p.Requests[0].Digest, Verdict: aycoder.Allow()}}
			}
			var res aycoder.Result
			for _, err := range s.Run(t.Context(), in, tell, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			var recorded []string
			answers := 0
			for rec, err := range session.Facts(t.Context(), store, s.ID(), "") {
				require.NoError(t, err)
				recorded = append(recorded, kindOf(rec))
				if _, ok := rec.Fact.(*aycoder.MessageDone); ok {
					answers++
				}
			}
			if p != nil { // the record that a run goes on is told, and not kept
				told = slices.DeleteFunc(told, func(kind string) bool { return kind == "<nil>" })
				recorded = slices.DeleteFunc(recorded, func(kind string) bool { return kind == "<nil>" })
			}
			require.Equal(t, told, recorded)
			require.Equal(t, aycoder.EndDone, res.End)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			v := s.View()
			used, _ := v.Usage()
			require.Equal(t, model.used, used)
			require.Equal(t, model.answers, answers)
			require.Equal(t, encode(t, res.Messages), encode(t, v.Messages(v.Head(""))))
			if p != nil {
				require.Equal(t, 1, ran)
				require.Len(t, res.Messages, 4)
			}
		})
	}
}

func slowWays() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, late := range []string{"nothing", "the question", "the answer", "the message"} {
			if !yield(late, false) || !yield(late, true) {
				return
			}
		}
	}
}

// The function of the host may fail when it is told of facts that came too late, or panic. The session has them all the same, and goes on.
func TestHostFailsWithLateFacts(t *testing.T) {
	for _, how := range []string{"fails", "panics"} {
		t.Run(how, func(t *testing.T) {
			store := &slowStore{Store: journal.Memory()}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			model := &endingModel{ModelClient: script.New(script.Say("one"), script.Say("two")), began: store.slowDown, ended: cancel}
			loop, err := aycoder.New(model, aycoder.WithLimits(aycoder.Limits{Grace: time.Second / 4}))
			require.NoError(t, err)
			s, err := session.New(t.Context(), store, loop)
			require.NoError(t, err)
			late := false
			host := aycoder.WithFacts(func(ctx context.Context, rec *aycoder.FactRecord) error {
				if rec.Fact == nil {
					return nil
				}
				late = true
				if ctx.Err() == nil {
					t.Error("the grace is over, and the context is not")
				}
				if how == "panics" {
					panic("host")
				}
				return errors.New("host")
			})
			require.NotPanics(t, func() {
				for ev := range s.Run(ctx, aycoder.Input{Prompt: "go"}, host) {
					switch ev.(type) {
					case nil, *aycoder.RunFinished: // the grace is over
						store.goOn()
					}
				}
			})
			require.True(t, late)
			model.began = nil
			run(t, s, "go on")
			used, _ := s.View().Usage()
			require.Equal(t, model.used, used)
			require.NoError(t, s.Close())
		})
	}
}

// An agent may run another loop after one whose grace was over before the journal answered. Nothing of that begins before it is recorded.
func TestAnotherRunAfterLateFacts(t *testing.T) {
	store := &slowStore{Store: journal.Memory()}
	var s *session.Session
	recorded := func(ctx context.Context) (kinds []string) {
		for rec, err := range session.Facts(ctx, store, s.ID(), "") {
			require.NoError(t, err)
			kinds = append(kinds, kindOf(rec))
		}
		return kinds
	}
	var began []string
	edit, err := aycoder.NewTool("edit", "Edits.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		began = recorded(ctx)
		return aycoder.TextResult("edited"), nil
	})
	require.NoError(t, err)
	var stop context.CancelFunc
	model := &endingModel{ModelClient: script.New(script.Say("one"), script.Call("edit", nil), script.Say("two")), began: store.slowDown, ended: func() { stop() }}
	loop, err := aycoder.New(model, aycoder.WithTools(edit), aycoder.WithApprover(verdict(aycoder.Allow())),
		aycoder.WithLimits(aycoder.Limits{Grace: time.Second / 4}))
	require.NoError(t, err)
	twice := agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
		return func(yield func(aycoder.Event, error) bool) {
			var res aycoder.Result
			var first context.Context
			first, stop = context.WithCancel(ctx)
			for range loop.Run(first, in, append(slices.Clip(opts), aycoder.Into(&res))...) { //nolint:revive
			}
			store.goOn()
			model.began, stop = nil, func() {}
			loop.Run(ctx, aycoder.Input{Prompt: "and", Messages: res.Messages}, opts...)(yield)
		}
	})
	s, err = session.New(t.Context(), store, twice)
	require.NoError(t, err)
	var told []string
	var res aycoder.Result
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
		told = append(told, kindOf(rec))
		return nil
	})) {
		require.NoError(t, err)
	}
	require.Contains(t, began, "*aycoder.ToolBegan")
	require.Equal(t, told, recorded(t.Context()))
	used, _ := s.View().Usage()
	require.Equal(t, model.used, used)
	require.Equal(t, encode(t, res.Messages), encode(t, s.View().Messages(s.Head())))
	require.NoError(t, s.Close())
}

func kindOf(rec *aycoder.FactRecord) string { return fmt.Sprintf("%T", rec.Fact) }

func encode(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
