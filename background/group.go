package background

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/runes"
)

// The kinds of jobs.
const (
	Agent   = "agent"
	Command = "command"
)

// The states of jobs.
const (
	Running = "running"
	Waiting = "waiting" // of an agent, whose question or call of a declared tool nobody has seen
	Done    = "done"
	Failed  = "failed"
	Stopped = "stopped"
)

const (
	maxName  = 200
	maxEnded = 16 // jobs that have ended and whose output is kept
)

// Group owns the jobs of one conversation: see the comment of the package. Make one with [New]. Its
// methods are safe for concurrent use.
type Group struct {
	limits Limits
	perRun bool
	work   sync.WaitGroup

	mu      sync.Mutex // guards all that follows, also of the jobs
	jobs    []*Job     // those that live, and the latest that ended
	number  int        // of the last job
	closed  bool
	left    []aycoder.Job // that lived when the group was closed
	lost    []aycoder.Job // that lived when another process stored the group
	changed chan struct{} // closed at the next change
	shown   bool          // a run was told of jobs
	owed    []aycoder.Spent
	root    talk
	inner   map[string]*talk // by run
	wake    bool             // a note may wake the host
	deliver func(*Job, Note) // or nil
}

// Limits bound what a [Group] holds. A field that is 0 has its default.
type Limits struct {
	// Agents and Commands are how many live at a time. Default: 8 and 16.
	Agents, Commands int
	// Output is how many bytes of each job are kept that have not been read, at times twice as many. The
	// oldest are dropped and counted. The group also keeps the output of the last 16 jobs that have ended.
	// Default: 256 KiB.
	Output int
}

// Option configures a [Group] in [New].
type Option func(*Group) error

// WithLimits sets the limits of a group. Default: see the fields of [Limits].
func WithLimits(l Limits) Option {
	return func(g *Group) error {
		if l.Agents < 0 || l.Commands < 0 || l.Output < 0 {
			return &aycoder.ConfigError{Option: "WithLimits", Err: errors.New("a limit is negative")}
		}
		d := g.limits
		g.limits = Limits{cmp.Or(l.Agents, d.Agents), cmp.Or(l.Commands, d.Commands), cmp.Or(l.Output, d.Output)}
		return nil
	}
}

// EndWithRun makes each job end with the run that started it. Such a job has no note. Default: the jobs of an
// outermost run live until the group is closed.
func EndWithRun() Option {
	return func(g *Group) error {
		g.perRun = true
		return nil
	}
}

// New returns a group without jobs.
func New(opts ...Option) (*Group, error) {
	g := &Group{limits: Limits{Agents: 8, Commands: 16, Output: 256 << 10}, changed: make(chan struct{}), inner: map[string]*talk{}}
	if err := option.Apply(g, opts); err != nil {
		return nil, fmt.Errorf("new group of jobs: %w", err)
	}
	return g, nil
}

// ErrClosed reports that a group is closed, so that no job can be started.
var ErrClosed = errors.New("no job can be started in the background any more")

// Work is what a tool starts in the background.
type Work struct {
	// Kind is [Agent] or [Command]. Prefix begins the id. Name describes the job to people.
	Kind, Prefix, Name string
	// Run does the work on its own goroutine, and returns when nothing of it is left. It writes to the job
	// what the model is to read. ctx ends when the job is stopped, and not with the call that started it.
	Run func(ctx context.Context, j *Job) Outcome
}

// Start starts a job for a call. The tool must then call [Job.Release], or [Job.Drop]. If the group has as
// many jobs of the kind as it may, the error is an [*aycoder.LimitError]. If it is closed, the error is
// [ErrClosed].
func (g *Group) Start(ctx context.Context, inv *aycoder.Invocation, w Work) (*Job, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	most := g.limits.Commands
	if w.Kind == Agent {
		most = g.limits.Agents
	}
	if g.living(w.Kind) >= most {
		return nil, &aycoder.LimitError{Limit: w.Kind + "s in the background", Max: int64(most)}
	}
	g.number++
	j := &Job{
		group: g, news: make(chan struct{}, 1), done: make(chan struct{}),
		view: aycoder.Job{
			ID: fmt.Sprintf("%s-%d", w.Prefix, g.number), Kind: w.Kind, Name: runes.Shorten(runes.Clean(w.Name), maxName),
			State: Running, Started: time.Now(), By: inv.Place, Call: inv.ID,
		},
	}
	if j.scope = g.scope(inv); j.scope != "" && !inv.Cleanup(j.Drop) {
		j.scope = ""
	}
	g.evict()
	g.jobs = append(g.jobs, j)
	g.publish()
	var work context.Context
	work, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g.work.Go(func() { j.run(work, w.Run) })
	return j, nil
}

// scope returns the conversation of a call: "" for that of the group, or the id of an inner run.
func (g *Group) scope(inv *aycoder.Invocation) string {
	if g.perRun || inv.Depth > 0 {
		return inv.Run
	}
	return ""
}

// living returns the number of jobs of a kind that have not ended. The mutex is held.
func (g *Group) living(kind string) (n int) {
	for _, j := range g.jobs {
		if j.view.Kind == kind && j.view.Lives() {
			n++
		}
	}
	return n
}

// evict forgets the oldest jobs that have ended, if there are many. The mutex is held.
func (g *Group) evict() {
	for n := len(g.jobs) - g.living(Agent) - g.living(Command); n > maxEnded; n-- {
		i := slices.IndexFunc(g.jobs, func(j *Job) bool { return !j.view.Lives() })
		g.jobs = slices.Delete(g.jobs, i, i+1)
	}
}

// publish tells everybody that the jobs have changed. The mutex is held.
func (g *Group) publish() {
	g.show()
	g.signal()
}

// show tells the active run of the jobs. The mutex is held.
func (g *Group) show() {
	if g.root.run != nil && (g.shown || len(g.jobs) > 0) {
		g.shown = true
		g.root.run.Show(g.views())
	}
}

// signal wakes whoever waits for a change. The mutex is held.
func (g *Group) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *Group) views() []aycoder.Job {
	out := make([]aycoder.Job, len(g.jobs))
	for i, j := range g.jobs {
		out[i] = j.view
	}
	return out
}

// Jobs returns the jobs that live, and the last ones that have ended, in the order in which they were
// started.
func (g *Group) Jobs() []aycoder.Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.views()
}

// Changes yields the jobs, and again whenever they have changed. It ends when ctx is done, or when the
// group is closed and nothing lives.
func (g *Group) Changes(ctx context.Context) iter.Seq[[]aycoder.Job] {
	return func(yield func([]aycoder.Job) bool) {
		for {
			g.mu.Lock()
			jobs, changed := g.views(), g.changed
			over := g.closed && !slices.ContainsFunc(jobs, func(j aycoder.Job) bool { return j.Lives() })
			g.mu.Unlock()
			if !yield(jobs) || over {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Find returns the job of an id that belongs to the conversation of a call, or nil. Inner runs have
// separate conversations.
func (g *Group) Find(inv *aycoder.Invocation, id string) *Job {
	for _, j := range g.Of(inv) {
		if j.view.ID == id {
			return j
		}
	}
	return nil
}

// Of returns the jobs of the conversation of a call.
func (g *Group) Of(inv *aycoder.Invocation) []*Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*Job
	for _, j := range g.jobs {
		if j.scope == g.scope(inv) || g.perRun && j.scope == "" {
			out = append(out, j)
		}
	}
	return out
}

// Stop stops the jobs with these ids, or all if there are none, and waits until nothing of them is left, or
// ctx is done. The conversation gets their notes, but they wake nobody. Stop must not be called by a job.
func (g *Group) Stop(ctx context.Context, ids ...string) error {
	g.mu.Lock()
	var jobs []*Job
	for _, j := range g.jobs {
		if j.view.Lives() && (len(ids) == 0 || slices.Contains(ids, j.view.ID)) {
			j.byHost = true
			jobs = append(jobs, j)
		}
	}
	g.mu.Unlock()
	for _, j := range jobs {
		j.cancel(ErrStopped)
	}
	for _, j := range jobs {
		select {
		case <-j.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close stops all jobs and waits until nothing of them is left. Their ends have no notes, and no further
// job starts. Close must not be called by a job.
func (g *Group) Close() error {
	g.mu.Lock()
	if !g.closed {
		g.left = g.untold()
		g.closed = true
		for _, j := range g.jobs {
			j.quiet = true
			j.cancel(ErrStopped)
		}
		g.signal()
	}
	g.mu.Unlock()
	g.work.Wait()
	return nil
}
