package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/session"
)

// Whatever is refused, lost or cancelled: no call that may write runs twice, none runs unasked, and every call has its result.
func TestAnyOrderOfFaults(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		names := []string{"phone", "phone", "look", "find", "edit", "edit", "patch", "patch"}
		rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:2+rnd.IntN(5)]
		dies, cancels := rnd.IntN(8), rnd.IntN(12)
		t.Run(fmt.Sprint(seed, names, dies, cancels), func(t *testing.T) {
			w := calling(t, names, func(name string) bool { return name == "edit" })
			m := &mortal{Store: w.store}
			w.store = m
			var mu sync.Mutex
			ran, allowed, began := map[string]int{}, map[string]bool{}, 0
			w.around = func(name string, ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				mu.Lock()
				defer mu.Unlock()
				ran[inv.ID]++
				if began++; began == dies {
					m.die(true)
					return nil, errors.New("its end")
				}
				return nil, nil
			}
			env := w.env(w.worker(func(c *temporal.Config) {
				c.Open = func(ctx context.Context, id string) (*temporal.Agent, error) {
					m.die(false)
					return w.open(ctx, id)
				}
			}))
			for hour := range 20 {
				env.RegisterDelayedCallback(func() {
					if hour == cancels {
						env.CancelWorkflow()
						return
					}
					p, err := session.ReadPending(t.Context(), w.store, w.id)
					require.NoError(t, err)
					if p == nil || p.State.End() != aycoder.EndSuspended {
						return
					}
					var answers []temporal.Answer
					for _, q := range p.Requests {
						allow := rnd.IntN(3) > 0
						mu.Lock()
						allowed[q.CallID] = allowed[q.CallID] || allow
						mu.Unlock()
						answers = append(answers, temporal.Answer{Key: "t1/tool/" + q.CallID, Digest: q.Digest[:16], Allow: allow})
					}
					for _, q := range p.Calls {
						answers = append(answers, w.result(q, "yes"))
					}
					rnd.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
					for _, a := range answers[:1+rnd.IntN(len(answers))] {
						env.UpdateWorkflow(temporal.UpdateAnswer, fmt.Sprint(hour, a), &callback{t: t, reject: func(error) {}}, a)
					}
				}, time.Duration(hour+1)*time.Hour)
			}
			env.ExecuteWorkflow(temporal.WorkflowName, temporal.Input{Session: w.id})
			if err := env.GetWorkflowError(); !sdk.IsCanceledError(err) {
				require.NoError(t, err)
			}
			w.settled(w.id)
			require.NoError(t, aycoder.CheckHistory(w.messages()))
			for i, name := range names {
				id := fmt.Sprintf("call_%d", i+1)
				if name == "edit" || name == "patch" {
					require.LessOrEqual(t, ran[id], 1, id)
				}
				if name == "edit" && ran[id] > 0 {
					require.True(t, allowed[id], id)
				}
			}
		})
	}
}
