package chaos

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/contrib/temporal/chaos/server"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// clock notes when steps begin.
type clock struct {
	mu sync.Mutex
	at []time.Time
}

func (c *clock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
}

// steps returns the times between ticks, without the first ones of a run, and begins anew.
func (c *clock) steps() (list []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 3; i < len(c.at); i++ {
		list = append(list, c.at[i].Sub(c.at[i-1]))
	}
	c.at = nil
	return list
}

// stepper makes an agent with two steps a turn: the model, whose answer comes in pieces of text and a call, and the call of a
// tool, which may need an answer of somebody.
func stepper(t testing.TB, turns, pieces int, effect aycoder.Effect, c *clock) *aycoder.Loop {
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		c.tick()
		return aycoder.TextResult("nothing"), nil
	}, aycoder.WithEffect(effect))
	if err != nil {
		t.Fatal(err)
	}
	model := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		c.tick()
		n := 0
		_, _ = fmt.Sscanf(script.LastOutput(req).ID, "c%d", &n)
		if n == turns {
			return script.New(script.Say("done")).Stream(ctx, req)
		}
		text := script.Say(strings.Repeat("words ", pieces))
		call := script.Call("look", struct{}{}).WithID("c" + strconv.Itoa(n+1))
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for ev, err := range script.New(script.Reply(text, call)).With(script.WithChunk(6)).Stream(ctx, req) {
				if _, ok := ev.(*aycoder.TextDelta); ok && pieces > 1 {
					select {
					case <-time.After(50 * time.Millisecond):
					case <-ctx.Done():
						yield(nil, context.Cause(ctx))
						return
					}
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	})
	loop, err := aycoder.New(model, aycoder.WithTools(tool), aycoder.WithLimits(aycoder.Limits{Turns: turns + 1}),
		aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
			if s.Effect == aycoder.EffectReadOnly {
				return aycoder.Allow()
			}
			return aycoder.Ask()
		})))
	if err != nil {
		t.Fatal(err)
	}
	return loop
}

// TestScale measures what docs/scale.md says. AYCODER_SCALE is the number of runs that wait for an answer; without it, the
// test is skipped. AYCODER_POLL sets history.transferProcessorMaxPollRPS.
func TestScale(t *testing.T) {
	waiting := number("AYCODER_SCALE", 0)
	if waiting == 0 {
		t.Skip("AYCODER_SCALE is not set")
	}
	const rounds, turns, streaming, pieces = 5, 100, 100, 40
	w := newWorld(t, server.WithPollRate(number("AYCODER_POLL", 10_000)))
	var c clock
	agents := map[string]func() *aycoder.Loop{
		"plain":   func() *aycoder.Loop { return stepper(t, turns, 1, aycoder.EffectReadOnly, &c) },
		"streams": func() *aycoder.Loop { return stepper(t, 5, pieces, aycoder.EffectReadOnly, &clock{}) },
		"waits":   func() *aycoder.Loop { return stepper(t, 1, 1, aycoder.EffectWrite, &clock{}) },
	}
	agents["durable"] = agents["plain"]
	open := openWith(w.store, func(id string) *aycoder.Loop {
		kind, _, _ := strings.Cut(id, "-")
		return agents[kind]()
	})
	startWorker(t, w.client, queue, temporal.Config{Store: w.store, Open: open}, func(work worker.Worker) {
		work.RegisterWorkflowWithOptions(bare, workflow.RegisterOptions{Name: "bare"})
		work.RegisterActivity(&empty{&c})
	})
	start := func(id string) client.WorkflowRun {
		kind, _, _ := strings.Cut(id, "-")
		s, err := session.New(t.Context(), w.store, agents[kind](), session.WithID(id))
		w.must(err)
		w.must(s.Close())
		run, err := w.temp.Start(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, temporal.Input{Session: id}, aycoder.User("Begin."))
		w.must(err)
		return run
	}

	times, spent := map[string][]time.Duration{}, map[string]float64{}
	for i := range rounds {
		s, err := session.New(t.Context(), w.store, agents["plain"]())
		w.must(err)
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "Begin."}) {
			w.must(err)
		}
		w.must(s.Close())
		times["plain"] = append(times["plain"], c.steps()...)

		run, err := w.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: fmt.Sprint("bare-", i), TaskQueue: queue}, "bare", 2*turns)
		w.must(err)
		w.must(run.Get(t.Context(), nil))
		times["bare"] = append(times["bare"], c.steps()...)

		before := w.usage()
		w.must(start(fmt.Sprint("durable-", i)).Get(t.Context(), nil))
		for name, u := range w.usage() {
			spent[name] += (u.CPU - before[name].CPU).Seconds() / (2 * turns * rounds)
		}
		times["durable"] = append(times["durable"], c.steps()...)
	}
	for name, list := range times {
		slices.Sort(list)
		t.Logf("%s: %d steps, p50 %v, p99 %v", name, len(list), list[len(list)/2], list[len(list)*99/100])
	}

	many := func(kind string, n int, until func(id string, run client.WorkflowRun)) {
		before, rows, begin := w.usage(), w.rows(), time.Now()
		var wg sync.WaitGroup
		slots := make(chan struct{}, max(20, streaming))
		for i := range n {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				id := fmt.Sprintf("%s-%d", kind, i)
				until(id, start(id))
			})
		}
		wg.Wait()
		took := time.Since(begin).Seconds()
		t.Logf("%s: %d in %.1f s, %.0f rows of history a second", kind, n, took, float64(w.rows()-rows)/took)
		for name, u := range w.usage() {
			b := before[name]
			t.Logf("  %s: %d processes, %d MiB (%+d), %d descriptors (%+d), %.2f of a processor", name, u.Processes, u.MiB, u.MiB-b.MiB,
				u.Descriptors, u.Descriptors-b.Descriptors, (u.CPU-b.CPU).Seconds()/took)
		}
	}
	many("streams", streaming, func(_ string, run client.WorkflowRun) { w.must(run.Get(t.Context(), nil)) })
	many("waits", waiting, func(id string, _ client.WorkflowRun) {
		eventually(t, func() (struct{}, error) {
			p, err := w.temp.Pending(t.Context(), id)
			if err == nil && (p == nil || len(p.Requests) == 0) {
				err = fmt.Errorf("%s has not asked", id)
			}
			return struct{}{}, err
		})
	})
	simulate(t, spent)
}

// simulate lets runs come to three processors in turn, which serve one step at a time with the measured times, exponentially
// distributed, and shows how long a step takes for which rate of steps.
func simulate(t *testing.T, spent map[string]float64) {
	names := []string{"worker", "temporal", "postgres"}
	slowest := 0.0
	for _, n := range names {
		t.Logf("a step: %s %.2f ms of a processor", n, spent[n]*1000)
		slowest = max(slowest, spent[n])
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, load := range []float64{0.25, 0.5, 0.75, 0.9, 0.95, 1.1} {
		const steps = 200_000
		rate := load / slowest
		free := map[string]float64{} // when a processor has served all that came before
		took := make([]float64, steps)
		for i, at := 0, 0.0; i < steps; i++ {
			at += random.ExpFloat64() / rate
			now := at
			for _, n := range names {
				now = max(now, free[n]) + random.ExpFloat64()*spent[n]
				free[n] = now
			}
			took[i] = now - at
		}
		slices.Sort(took)
		t.Logf("%.0f steps a second (%.0f %%): p50 %.1f ms, p99 %.1f ms", rate, 100*load, 1000*took[steps/2], 1000*took[steps*99/100])
	}
}

// bare is a workflow with one local activity and one activity a step, which do nothing.
func bare(ctx workflow.Context, steps int) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range steps {
		if err := workflow.ExecuteLocalActivity(ctx, nothing).Get(ctx, nil); err != nil {
			return err
		}
		if err := workflow.ExecuteActivity(ctx, "Tick").Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func nothing(context.Context) error { return nil }

type empty struct{ c *clock }

func (e *empty) Tick(context.Context) error {
	e.c.tick()
	return nil
}

// rows returns how many rows of histories Temporal has written.
func (w *world) rows() (n int) {
	conn, err := pgx.Connect(w.t.Context(), w.servers.Database.Address()+" dbname=temporal")
	w.must(err)
	defer conn.Close(w.t.Context())
	w.must(conn.QueryRow(w.t.Context(), "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'history_node'").Scan(&n))
	return n
}

// use is what processes use. CPU is that of those that live.
type use struct {
	Processes, MiB, Descriptors int
	CPU                         time.Duration
}

// usage returns what this process, which has the worker, the Temporal server and PostgreSQL use, by their directories in /proc.
func (w *world) usage() map[string]use {
	list := map[string]use{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	stats := map[int][]string{}
	for _, d := range dirs {
		stat, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(d))
		stats[pid] = strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	}
	database, err := os.ReadFile(filepath.Join(w.servers.Database.Dir(), "data", "postmaster.pid"))
	w.must(err)
	main, _, _ := strings.Cut(string(database), "\n")
	for pid, stat := range stats {
		name := ""
		switch {
		case pid == os.Getpid():
			name = "worker"
		case pid == w.servers.PID():
			name = "temporal"
		case strconv.Itoa(pid) == main || stat[1] == main:
			name = "postgres"
		default:
			continue
		}
		u := list[name]
		u.Processes++
		for _, field := range []int{11, 12} { // user and system, in hundredths of a second
			n, _ := strconv.Atoi(stat[field])
			u.CPU += time.Duration(n) * 10 * time.Millisecond
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for l := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(l, "Pss:"); ok { // shared memory is divided by those who share it
				kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
				u.MiB += kb / 1024
			}
		}
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		u.Descriptors += len(open)
		list[name] = u
	}
	return list
}
