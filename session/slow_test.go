package session_test

import (
	"context"
	"encoding/json"
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

// A run whose last facts come too late, as its grace is over, is recorded as it is all the same: suspended with its question, or
// with the message that the model had sent. It goes on in another process as if nothing had been late.
func TestFactsThatComeTooLate(t *testing.T) {
	for _, late := range []string{"nothing", "the question", "the message"} {
		t.Run(late, func(t *testing.T) {
			ran := 0
			edit, err := aycoder.NewTool("edit", "Edits.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				ran++
				return aycoder.TextResult("edited"), nil
			})
			require.NoError(t, err)
			store := &slowStore{Store: journal.Memory()}
			model := script.New(script.Reply(script.Say("I edit."), script.Call("edit", nil)), script.Say("done"))
			loop, err := aycoder.New(model, aycoder.WithTools(edit), aycoder.WithLimits(aycoder.Limits{Grace: time.Millisecond}),
				aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })))
			require.NoError(t, err)
			s, err := session.New(t.Context(), store, loop)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			for ev := range s.Run(ctx, aycoder.Input{Prompt: "go"}) {
				switch ev := ev.(type) {
				case *aycoder.TextDelta:
					store.slow.Store(late == "the message")
				case *aycoder.ApprovalRequested:
					store.slow.Store(late == "the question")
					ev.Detach().Leave()
				}
				if store.slow.Load() {
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
			for _, err := range s.Run(t.Context(), in, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			require.Equal(t, aycoder.EndDone, res.End)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			v := s.View()
			require.Equal(t, encode(t, res.Messages), encode(t, v.Messages(v.Head(""))))
			if p != nil {
				require.Equal(t, 1, ran)
				require.Len(t, res.Messages, 4)
			}
		})
	}
}

func encode(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
