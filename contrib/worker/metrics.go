package worker

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// bounds of the histogram of waiting times, in seconds.
var bounds = [...]float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600}

// figures are those of this process.
type figures struct {
	mu      sync.Mutex
	lag     [len(bounds) + 1]int64
	lagSum  time.Duration
	working int
	failed  int64
	tenants map[string]*spent
}

type spent struct {
	input, output, turns int64
	cost                 float64
}

// counted is an agent whose costs are counted by facts: the event at the end of a turn comes in the step of its last call, which does
// not know what the message has cost.
type counted struct {
	figures *figures
	tenant  string
	next    aycoder.Agent
}

// Run implements [aycoder.Agent].
func (c *counted) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return c.next.Run(ctx, in, append(slices.Clip(opts), c.count)...)
}

// count is a [aycoder.RunOption].
func (c *counted) count(rc *aycoder.RunConfig) error {
	then := rc.Facts
	return aycoder.WithFacts(func(ctx context.Context, rec *aycoder.FactRecord) error {
		c.figures.fact(c.tenant, rec.Fact)
		return then(ctx, rec)
	})(rc)
}

// fact counts what a fact has cost.
func (f *figures) fact(tenant string, fact aycoder.Fact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.tenants[tenant]
	if s == nil {
		s = &spent{}
		f.tenants[tenant] = s
	}
	if _, turn := fact.(*aycoder.MessageDone); turn {
		s.turns++
	}
	for _, x := range part.Spent(fact) {
		s.input, s.output, s.cost = s.input+x.Usage.Input, s.output+x.Usage.Output, s.cost+x.Cost
	}
}

// lag measures how long steps have waited for a worker.
type lag struct {
	interceptor.WorkerInterceptorBase
	figures *figures
}

// InterceptActivity implements [interceptor.WorkerInterceptor].
func (l *lag) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &measured{figures: l.figures}
	i.Next = next
	return i
}

type measured struct {
	interceptor.ActivityInboundInterceptorBase
	figures *figures
}

// ExecuteActivity implements [interceptor.ActivityInboundInterceptor].
func (m *measured) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info, f := activity.GetInfo(ctx), m.figures
	f.mu.Lock()
	f.working++
	if info.Attempt == 1 && !info.IsLocalActivity { // another attempt was scheduled long ago
		waited := max(info.StartedTime.Sub(info.ScheduledTime), 0) // by the clock of the server
		i, _ := slices.BinarySearch(bounds[:], waited.Seconds())
		f.lag[i]++
		f.lagSum += waited
	}
	f.mu.Unlock()
	out, err := m.Next.ExecuteActivity(ctx, in)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.working--; err != nil {
		f.failed++
	}
	return out, err
}

// metrics answers with the figures of the process and the queue, in the text format of Prometheus. Costs are those of the tenant who
// asks, unless it is [Operator].
func (n *Node) metrics(w http.ResponseWriter, r *http.Request, tenant string) error {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	var b strings.Builder
	kinds := map[string]enumspb.TaskQueueType{"workflow": enumspb.TASK_QUEUE_TYPE_WORKFLOW, "activity": enumspb.TASK_QUEUE_TYPE_ACTIVITY}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		res, err := n.config.Temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: n.config.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: n.config.Queue}, TaskQueueType: kinds[kind], ReportStats: true})
		if err != nil {
			return fmt.Errorf("describe the queue: %w", err)
		}
		fmt.Fprintf(&b, "aycoder_queue_backlog{kind=%q} %d\naycoder_queue_age_seconds{kind=%q} %g\naycoder_queue_workers{kind=%q} %d\n",
			kind, res.GetStats().GetApproximateBacklogCount(), kind, res.GetStats().GetApproximateBacklogAge().AsDuration().Seconds(), kind, len(res.GetPollers()))
	}
	n.figures.write(&b, tenant)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write([]byte(b.String())) // the client is gone
	return nil
}

// Operator is the tenant that sees the costs of all.
const Operator = "operator"

func (f *figures) write(b *strings.Builder, tenant string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := int64(0)
	for i, n := range f.lag {
		total += n
		if i < len(bounds) {
			fmt.Fprintf(b, "aycoder_step_lag_seconds_bucket{le=\"%g\"} %d\n", bounds[i], total)
		}
	}
	fmt.Fprintf(b, "aycoder_step_lag_seconds_bucket{le=\"+Inf\"} %d\naycoder_step_lag_seconds_count %d\naycoder_step_lag_seconds_sum %g\n",
		total, total, f.lagSum.Seconds())
	fmt.Fprintf(b, "aycoder_steps_working %d\naycoder_steps_failed_total %d\n", f.working, f.failed)
	for _, name := range slices.Sorted(maps.Keys(f.tenants)) {
		if s := f.tenants[name]; name == tenant || tenant == Operator {
			fmt.Fprintf(b, "aycoder_turns_total{tenant=%q} %d\naycoder_tokens_total{tenant=%q,kind=\"input\"} %d\n"+
				"aycoder_tokens_total{tenant=%q,kind=\"output\"} %d\naycoder_cost_dollars_total{tenant=%q} %g\n",
				name, s.turns, name, s.input, name, s.output, name, s.cost)
		}
	}
}
