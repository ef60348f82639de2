package harness

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// A Stage does something at fixed points of each turn. A function that is nil does nothing.
//
// The list of stages goes from the outside to the inside. Before a turn, the functions of the inside work first,
// so that what a stage adds to the end of a request comes after what those inside of it have added. After a
// turn, they work in the order of the list.
type Stage struct {
	// Name identifies the stage, such as "todos". Effect says in a few words what it does.
	Name, Effect string
	// BeforeTurn wraps the builder of each request.
	BeforeTurn aycoder.ContextMiddleware
	// AroundModel wraps the client of each request, and AroundTool each call of a tool.
	AroundModel aycoder.ModelMiddleware
	AroundTool  aycoder.ToolMiddleware
	// AfterTurn is called when the history contains a message of the model and the outputs of all its calls, before
	// the consumer gets the event and before the next request. It is called on the goroutine of the range loop. Its
	// error ends the run. Runs inside of calls, such as those of subagents, have no such function.
	AfterTurn func(ctx context.Context, t *aycoder.TurnFinished) error
}

// Points returns where the stage works, such as "before turn, after turn".
func (s *Stage) Points() string {
	var at []string
	for _, p := range []struct {
		there bool
		name  string
	}{
		{s.BeforeTurn != nil, "before turn"}, {s.AroundModel != nil, "around model"},
		{s.AroundTool != nil, "around tool"}, {s.AfterTurn != nil, "after turn"},
	} {
		if p.there {
			at = append(at, p.name)
		}
	}
	return strings.Join(at, ", ")
}

// Stages returns the stages, from the outside to the inside.
func (r *Runtime) Stages() []Stage { return slices.Clone(r.stages) }

// staged returns the stages of a runtime: those of the host that have new names, and then the usual ones, of which
// the host's replace those of their names. A stage without a function is left out.
func staged(usual, own []Stage) []Stage {
	var out []Stage
	named := func(list []Stage, name string) int {
		return slices.IndexFunc(list, func(s Stage) bool { return s.Name == name })
	}
	for _, s := range own {
		if named(usual, s.Name) < 0 {
			out = append(out, s)
		}
	}
	for _, s := range usual {
		if i := named(own, s.Name); i >= 0 {
			s = own[i]
		}
		out = append(out, s)
	}
	return slices.DeleteFunc(out, func(s Stage) bool { return s.Points() == "" })
}

// options are the options of the loop that put the stages in place.
func stageOptions(stages []Stage) []aycoder.Option {
	var opts []aycoder.Option
	for _, s := range stages {
		if s.BeforeTurn != nil {
			opts = append(opts, aycoder.WithContextMiddleware(s.BeforeTurn))
		}
		if s.AroundModel != nil {
			opts = append(opts, aycoder.WithModelMiddleware(s.AroundModel))
		}
		if s.AroundTool != nil {
			opts = append(opts, aycoder.WithToolMiddleware(s.AroundTool))
		}
	}
	return opts
}

// agent is the loop with notices and what stages do after a turn.
type agent struct {
	*aycoder.Loop
	r      *Runtime
	repeat bool // reads that a crash has interrupted
	busy   atomic.Bool
}

// Run implements [aycoder.Agent].
func (a *agent) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) {
		if a.r.pin != nil {
			a.r.pin(ctx)
		}
		a.r.runs.Add(1)
		defer a.r.runs.Add(-1)
		in.RepeatReads = in.RepeatReads || a.repeat
		attach, detach := a.attach()
		defer detach()
		for ev, err := range a.Loop.Run(ctx, in, append(slices.Clip(opts), attach...)...) {
			if failed := a.after(ctx, ev); failed != nil {
				yield(nil, failed)
				return
			}
			for _, n := range a.r.notices.take() {
				if !yield(n, nil) {
					return
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	})
}

// attach returns the option that connects a run with the jobs of the runtime. A session does that itself. Of
// several runs at the same time, one has the jobs of the conversation, and each other one has its own.
func (a *agent) attach() (opts []aycoder.RunOption, detach func()) {
	switch jobs := a.r.Jobs; {
	case a.r.Session != nil:
		return nil, func() {}
	case a.busy.CompareAndSwap(false, true):
		return []aycoder.RunOption{jobs.Attach()}, func() { a.busy.Store(false) }
	default:
		return []aycoder.RunOption{jobs.AttachInner()}, func() {}
	}
}

// after lets the stages work when an event ends a turn.
func (a *agent) after(ctx context.Context, ev aycoder.Event) error {
	t, ok := ev.(*aycoder.TurnFinished)
	if !ok {
		return nil
	}
	a.r.tellUnpriced()
	for _, s := range a.r.stages {
		if s.AfterTurn == nil {
			continue
		}
		if err := s.AfterTurn(ctx, t); err != nil {
			return &StageError{Stage: s.Name, Err: err}
		}
	}
	return nil
}

// StageError reports that a stage ended a run after a turn.
type StageError struct {
	Stage string
	Err   error
}

// Error implements the error interface.
func (e *StageError) Error() string { return "after turn: " + e.Stage + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *StageError) Unwrap() error { return e.Err }
