package session_test

import (
	"context"
	"encoding/json"
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

// slowStore is a store that, while it is slow, records nothing before somebody gives up.
type slowStore struct {
	journal.Store
	slow atomic.Bool
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
	if j.store.slow.Load() && ctx.Done() != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return j.Journal.Append(ctx, durable, records...)
}

// endingModel is a client that tells when its answer is over, and counts what it has answered.
type endingModel struct {
	aycoder.ModelClient
	ended   func()
	answers int
	used    aycoder.Usage
}

func (m *endingModel) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
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
	for _, late := range []string{"nothing", "the question", "the answer", "the message"} {
		t.Run(late, func(t *testing.T) {
			ran := 0
			edit, err := aycoder.NewTool("edit", "Edits.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				ran++
				return aycoder.TextResult("edited"), nil
			})
			require.NoError(t, err)
			store := &slowStore{Store: journal.Memory()}
			ctx, cancel := context.WithCancel(t.Context())
			script := script.New(script.Reply(script.Say("I edit."), script.Call("edit", nil)), script.Say("done"))
			model := &endingModel{ModelClient: script, ended: func() {
				if late == "the answer" {
					cancel()
				}
			}}
			loop, err := aycoder.New(model, aycoder.WithTools(edit), aycoder.WithLimits(aycoder.Limits{Grace: time.Millisecond}),
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
					store.slow.Store(late == "the message" || late == "the answer")
				case *aycoder.ApprovalRequested:
					store.slow.Store(late == "the question")
					ev.Detach().Leave()
				}
				if store.slow.Load() && late != "the answer" {
					cancel()
				}
			}
			cancel()
			store.slow.Store(false)
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

func kindOf(rec *aycoder.FactRecord) string { return fmt.Sprintf("%T", rec.Fact) }

func encode(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
