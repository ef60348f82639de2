package worker_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/internal/timed"
)

// TestShare measures how long the runs of 19 tenants wait for workers, without and with another
// tenant that has many times the work. AYCODER_SHARE is how many times; without it, the test is skipped.
func TestShare(t *testing.T) {
	times, _ := strconv.Atoi(os.Getenv("AYCODER_SHARE"))
	if times == 0 {
		t.Skip("AYCODER_SHARE is not set")
	}
	const tenants, runs, workers, steps, tokens = 19, 5, 4, 2, 1000 // tokens of a call of the model, of which a run has two
	h, w, store := startServers(t, helper{Queue: "share", Steps: steps, Pause: 500 * time.Millisecond})
	c, err := client.Dial(client.Options{HostPort: h.Temporal, Logger: quiet()})
	must(t, err)
	defer c.Close()
	var processes []*process
	for range workers {
		processes = append(processes, h.start(t))
	}
	quota := int64(times*runs*2*tokens) * 3 / 4 // of the large tenant: the last quarter of its work is too much
	must(t, store.SetQuota(t.Context(), "large", postgres.Quota{Tokens: quota}))
	start := func(who string, n int) (ids []string) {
		as := &web{w.t, w.url, who}
		for range n {
			ids = append(ids, as.prompt("look", "")[len("/api/sessions/"):])
		}
		return ids
	}
	// measure lets the small tenants work, and returns how long each of their runs has waited.
	measure := func() (list []time.Duration) {
		var mu sync.Mutex
		var work sync.WaitGroup
		for i := range tenants {
			who := fmt.Sprint("small", i)
			for _, id := range start(who, runs) {
				work.Go(func() {
					must(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
					mu.Lock()
					defer mu.Unlock()
					list = append(list, waited(t, c, id))
				})
			}
		}
		work.Wait()
		slices.Sort(list)
		return list
	}
	mean := func(list []time.Duration) (sum time.Duration) {
		for _, d := range list {
			sum += d
		}
		return sum / time.Duration(len(list))
	}
	show := func(name string, list []time.Duration) {
		t.Logf("%s: %d runs have waited %v on average, p50 %v, p95 %v, at most %v", name, len(list), mean(list), list[len(list)/2], list[len(list)*95/100], list[len(list)-1])
	}
	for range workers * 2 { // the workers begin
		must(t, c.GetWorkflow(t.Context(), start("first", 1)[0], "").Get(t.Context(), nil))
	}
	alone := measure()
	show("without the large tenant", alone)
	var large []string
	var mu sync.Mutex
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			ids := start("large", times*runs/4)
			mu.Lock()
			defer mu.Unlock()
			large = append(large, ids...)
		})
	}
	work.Wait()
	with := measure()
	show("with it", with)
	t.Logf("%.2f times on average, %.2f times at p95", float64(mean(with))/float64(mean(alone)), float64(with[len(with)*95/100])/float64(alone[len(alone)*95/100]))
	timed.AtMost(t, mean(with), 2*mean(alone), "for the average wait of a small tenant")

	must(t, processes[0].Process.Kill())
	_ = processes[0].Wait()
	for _, id := range large {
		_ = c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil)
	}
	var s postgres.QuotaStatus
	patiently(t, func(ctx context.Context) (err error) {
		if s, err = store.Tenant("large").Status(ctx); err == nil && s.Calls > 0 {
			err = fmt.Errorf("%d calls work", s.Calls)
		}
		return err
	})
	t.Logf("the large tenant has spent %d of %d tokens, and reserved %d", s.Spent.Tokens, quota, s.Reserved.Tokens)
	if s.Spent.Tokens > quota+tokens || s.Spent.Tokens < quota/2 || s.Reserved.Tokens != 0 {
		t.Errorf("quota %d: %+v", quota, s)
	}
}

// waited returns how long the tasks of a workflow have waited for a worker, by the clock of the server.
func waited(t *testing.T, c client.Client, id string) (sum time.Duration) {
	scheduled := map[int64]time.Time{}
	for all := c.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); all.HasNext(); {
		ev, err := all.Next()
		must(t, err)
		switch at := ev.GetEventTime().AsTime(); ev.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			scheduled[ev.GetEventId()] = at
		case enums.EVENT_TYPE_WORKFLOW_TASK_STARTED:
			sum += at.Sub(scheduled[ev.GetWorkflowTaskStartedEventAttributes().GetScheduledEventId()])
		case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			sum += at.Sub(scheduled[ev.GetActivityTaskStartedEventAttributes().GetScheduledEventId()])
		}
	}
	return sum
}

// TestUpgrade replaces workers of one version by those of another while runs wait for an answer. Runs
// that are pinned end where they began, and others with the new version.
func TestUpgrade(t *testing.T) {
	if os.Getenv("AYCODER_SHARE") == "" {
		t.Skip("AYCODER_SHARE is not set")
	}
	for _, pinned := range []bool{true, false} {
		t.Run(map[bool]string{true: "pinned", false: "auto-upgrade"}[pinned], func(t *testing.T) { testUpgrade(t, pinned) })
	}
}

func testUpgrade(t *testing.T, pinned bool) {
	h, w, _ := startServers(t, helper{Queue: "upgrade", Pinned: pinned})
	must(t, os.WriteFile(h.Go, nil, 0o600))
	c, err := client.Dial(client.Options{HostPort: h.Temporal, Logger: quiet()})
	must(t, err)
	defer c.Close()
	version := func(build string) *process {
		h.Build = build
		p := h.start(t)
		patiently(t, func(ctx context.Context) error { // until the server knows the version
			_, err := c.WorkerDeploymentClient().GetHandle(h.Queue).SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})
			return err
		})
		return p
	}
	asks := func(path string) (q aycoder.ApprovalRequest) {
		for ev := range w.events(path) {
			if ask, ok := ev.(*aycoder.ApprovalRequested); ok {
				return ask.Request
			}
		}
		t.Fatal("it has not asked")
		return q
	}
	end := func(path string) string {
		w.allow(path, asks(path))
		var s shown
		for ev := range w.events(path) {
			if s.add(ev); s.ends == 1 {
				break
			}
		}
		return s.events[len(s.events)-1]
	}
	old := version("a")
	var before []string
	for range 3 {
		path := w.prompt("wait", "")
		asks(path)
		before = append(before, path)
	}
	next := version("b")
	want := "It said: gone onb"
	if pinned {
		want = "It said: gone ona"
	} else {
		old.drain(t)
	}
	for _, path := range before {
		if got := end(path); got != want {
			t.Errorf("a run of before said %q, want %q", got, want)
		}
	}
	if pinned {
		old.drain(t)
	}
	after := w.prompt("wait", "")
	if got := end(after); got != "It said: gone onb" {
		t.Errorf("a run of after said %q", got)
	}
	next.drain(t)
}
