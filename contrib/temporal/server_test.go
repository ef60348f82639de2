package temporal_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
)

// addressVariable has the address of a Temporal server, such as that of "temporal server start-dev".
const addressVariable = "AYCODER_TEMPORAL_ADDRESS"

var record = flag.Bool("record", false, "record the history in testdata that TestReplay reads; needs "+addressVariable)

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// served starts a worker of a server, or skips the test.
func (w *world) served(change func(*temporal.Config)) (*temporal.Client, string) {
	address := os.Getenv(addressVariable)
	if address == "" {
		w.t.Skip(addressVariable + " is not set")
	}
	c, err := client.Dial(client.Options{HostPort: address, Identity: "test", Logger: quiet()})
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	queue := "test-" + w.id
	made := worker.New(c, queue, worker.Options{Identity: "test"})
	w.worker(change).Register(made)
	require.NoError(w.t, made.Start())
	w.t.Cleanup(made.Stop)
	return &temporal.Client{Temporal: c, Store: w.store}, queue
}

// await asks until a condition is met; the test ends with its context.
func await[T any](t testing.TB, ask func() (T, bool)) T {
	for {
		if v, ok := ask(); ok {
			return v
		}
		select {
		case <-t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// user answers all questions of a run until it ends.
func user(t testing.TB, c *temporal.Client, w *world, run client.WorkflowRun, allow func(n int) bool) temporal.Output {
	ended := make(chan struct{})
	var out temporal.Output
	var failed error
	go func() {
		defer close(ended)
		failed = run.Get(context.Background(), &out)
	}()
	for n := 0; ; n++ {
		q := await(t, func() (*aycoder.Pending, bool) {
			select {
			case <-ended:
				return nil, true
			default:
			}
			s, err := c.Status(t.Context(), run.GetID())
			if err != nil || len(s.Ask) == 0 {
				return nil, false
			}
			p, err := c.Pending(t.Context(), w.id)
			require.NoError(t, err)
			return p, p != nil && len(p.Requests) > 0
		})
		if q == nil {
			break
		}
		verdict := aycoder.Deny("s3cr3t-37-XyZ")
		if allow(n) {
			verdict = aycoder.Allow()
		}
		require.NoError(t, c.Decide(t.Context(), run.GetID(), q, aycoder.Decision{CallID: q.Requests[0].CallID, Digest: q.Requests[0].Digest, Verdict: verdict}))
	}
	require.NoError(t, failed)
	return out
}

// history exports the history of a workflow.
func history(t testing.TB, c *temporal.Client, id, run string) *historypb.History {
	h := new(historypb.History)
	for it := c.Temporal.GetWorkflowHistory(t.Context(), id, run, false, 0); it.HasNext(); {
		ev, err := it.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, ev)
	}
	return h
}

// A server has nothing of what is said, and not much of what is done.
func TestServer(t *testing.T) {
	for turns, size := range map[int]int{9: 5 << 10, 8: 500 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newSecrets(t, turns, size)
			c, queue := w.served(func(c *temporal.Config) { c.Keep = time.Minute })
			run, err := c.Start(t.Context(), client.StartWorkflowOptions{ID: "run-" + w.id, TaskQueue: queue}, temporal.Input{Session: w.id}, aycoder.User(w.text(38)))
			require.NoError(t, err)
			require.NoError(t, c.Steer(t.Context(), run.GetID(), &aycoder.Steered{Message: aycoder.User(w.text(36))}))
			out := user(t, c, w.world, run, func(n int) bool { return n%2 == 0 })
			require.Equal(t, aycoder.EndFailed, out.End)
			require.Equal(t, (turns+1)/2, w.count("edit"))
			text := encoded(t, w.messages())
			for _, n := range []int{1, 3, 36, 37, 38, 40} {
				require.Contains(t, text, w.text(n), "the case was not met")
			}
			h := history(t, c, run.GetID(), run.GetRunID())
			exported, err := protojson.Marshal(h)
			require.NoError(t, err)
			w.check(string(exported))
			for part := range strings.SplitSeq(string(exported), `"`) {
				w.check(part)
			}
			actions := 3*turns + 1
			t.Logf("%d events, %d bytes, %d bytes an action", len(h.Events), proto.Size(h), proto.Size(h)/actions)
			require.LessOrEqual(t, proto.Size(h)/actions, 2000)
		})
	}
}

// TestRecord records the histories that TestReplay replays. That of renewed.json needs a server that suggests soon to continue as a
// new workflow, by limit.historyCount.suggestContinueAsNew.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("-record is not set")
	}
	edited := func(q *aycoder.ApprovalRequest) aycoder.Verdict {
		return aycoder.AllowWith(json.RawMessage(`{"path":"elsewhere"}`))
	}
	allowed := func(*aycoder.ApprovalRequest) aycoder.Verdict { return aycoder.Allow() }
	long := twoReadsAndAnEdit()[:1]
	for range 30 {
		long = append(long, script.Call("look", map[string]any{"path": "a"}))
	}
	for name, c := range map[string]struct {
		steps   []script.Step
		verdict func(q *aycoder.ApprovalRequest) aycoder.Verdict
		child   bool
	}{
		"edited":  {twoReadsAndAnEdit(), edited, false},
		"renewed": {append(append(long, twoReadsAndAnEdit()[:1]...), script.Say("done")), allowed, false},
		"child":   {twoReadsAndAnEdit(), allowed, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, change := newWorld(t, c.steps...), func(*temporal.Config) {}
			if c.child {
				w, change = family(t, []string{"mend a", "mend b"}, c.steps...)
			}
			tc, queue := w.served(change)
			run, err := tc.Start(t.Context(), client.StartWorkflowOptions{ID: "run-" + w.id, TaskQueue: queue}, temporal.Input{Session: w.id}, aycoder.User("go"))
			require.NoError(t, err)
			require.NoError(t, tc.Steer(t.Context(), run.GetID(), &aycoder.Steered{Message: aycoder.User("quickly")}))
			ended := make(chan error, 1)
			go func() { ended <- run.Get(context.Background(), nil) }()
			first := run.GetRunID() // run has that of the last workflow later
			await(t, func() (struct{}, bool) {
				select {
				case err := <-ended:
					require.NoError(t, err)
					return struct{}{}, true
				default:
				}
				s, _ := tc.Status(t.Context(), run.GetID())
				for _, id := range append(s.Children, w.id) {
					p, err := tc.Pending(t.Context(), id)
					if err != nil || p == nil { // the session of a child may not be there yet
						continue
					}
					workflow := id
					if id == w.id {
						workflow = run.GetID()
					}
					for i := range p.Requests {
						q := &p.Requests[i]
						_ = tc.Decide(t.Context(), workflow, p, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: c.verdict(q)})
					}
				}
				return struct{}{}, false
			})
			h := history(t, tc, run.GetID(), first)
			if last := h.Events[len(h.Events)-1]; name == "renewed" {
				require.NotNil(t, last.GetWorkflowExecutionContinuedAsNewEventAttributes(), last)
			}
			data, err := protojson.MarshalOptions{Indent: " "}.Marshal(h)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join("testdata", name+".json"), append(data, '\n'), 0o644))
		})
	}
}

// A history that a version has recorded replays in another one, with other tools, in another order, other limits and prompts.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		w := newWorld(t, script.Say("other"))
		w.opts = []aycoder.Option{aycoder.WithSystem("other"), aycoder.WithTools(w.tool("edit", aycoder.EffectWrite), w.tool("look", aycoder.EffectReadOnly))}
		other := w.worker(func(c *temporal.Config) {
			c.Limits = func(string, aycoder.Effect) temporal.Limits {
				return temporal.Limits{Timeout: time.Second, Attempts: 1}
			}
			c.Heartbeat = time.Hour
		})
		r := worker.NewWorkflowReplayer()
		other.RegisterWorkflow(r)
		require.NoError(t, r.ReplayWorkflowHistoryFromJSONFile(quiet(), name), name)
	}
}
