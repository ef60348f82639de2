package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// TestHistoryOfARun checks that the history on the server grows by at most 2 kB for each request to the model and each call, whatever
// the size of outputs, and by as much for the last hundred of them as for the first hundred. No argument and no result of an activity
// has more than 256 bytes.
func TestHistoryOfARun(t *testing.T) {
	const turns = 110
	w := newWorld(t)
	for _, size := range []int{5_000, 500_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			id := fmt.Sprint("run-", size)
			tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				return aycoder.TextResult(strings.Repeat("x", size)), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			w.must(err)
			var steps []script.Step
			for range turns {
				steps = append(steps, script.Call("look", struct{}{}))
			}
			loop, err := aycoder.New(script.New(append(steps, script.Say("done"))...).With(script.WithEstimate(false)), aycoder.WithTools(tool),
				aycoder.WithLimits(aycoder.Limits{Turns: turns + 1, ToolOutput: 2 * size}))
			w.must(err)
			startWorker(t, w.client, id, temporal.Config{Store: w.store, Keep: time.Hour,
				Open: openWith(w.store, func(string) *aycoder.Loop { return loop })})
			s, err := session.New(t.Context(), w.store, loop, session.WithID(id))
			w.must(err)
			w.must(s.Close())
			run, err := w.temp.Start(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: id}, temporal.Input{Session: id}, aycoder.User("Begin."))
			w.must(err)
			var out temporal.Output
			w.must(run.Get(t.Context(), &out))
			if out.End != aycoder.EndDone || out.Turns != turns+1 {
				t.Fatalf("the run ends with %+v", out)
			}
			v, _, err := session.Read(t.Context(), w.store, id)
			w.must(err)
			stored := 0
			for _, m := range v.Messages(v.Head("")) {
				for _, p := range m.Parts {
					if o, ok := p.(*aycoder.ToolOutput); ok {
						stored += len(o.Text())
					}
				}
			}
			if stored != turns*size {
				t.Errorf("the outputs have %d bytes", stored)
			}
			var at []int // where the event of an action that was scheduled is in the history
			total, largest := 0, 0
			for it := w.client.GetWorkflowHistory(t.Context(), id, run.GetRunID(), false, 0); it.HasNext(); {
				ev, err := it.Next()
				w.must(err)
				scheduled := ev.GetActivityTaskScheduledEventAttributes()
				if scheduled != nil {
					at = append(at, total)
				}
				for _, list := range []*commonpb.Payloads{scheduled.GetInput(), ev.GetActivityTaskCompletedEventAttributes().GetResult()} {
					for _, p := range list.GetPayloads() {
						largest = max(largest, proto.Size(p))
					}
				}
				total += proto.Size(ev)
			}
			if len(at) != 2*turns+1 {
				t.Fatalf("%d actions", len(at))
			}
			first, last := at[100]-at[0], at[len(at)-1]-at[len(at)-101]
			t.Logf("%d bytes for %d actions, %d each; the first hundred: %d, the last hundred: %d, %.3f times; largest payload %d bytes", total, len(at),
				total/len(at), first, last, float64(last)/float64(first), largest)
			if total > 2000*len(at) || float64(last) > 1.05*float64(first) || largest > 256 {
				t.Error("that is too much")
			}
		})
	}
}
