package cli

import (
	"context"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

// A step is an event of a run, or how the run ended, as its goroutine hands it over.
type step struct {
	ev    aycoder.Event
	err   error
	panic any
}

// stepping ranges over events in a goroutine. It hands over one step at a time and continues
// when the step was handled; the channel is closed at the end.
func stepping(seq iter.Seq2[aycoder.Event, error]) (<-chan step, chan<- struct{}) {
	steps, next := make(chan step), make(chan struct{})
	go func() {
		defer close(steps)
		defer func() {
			if p := recover(); p != nil {
				steps <- step{panic: p}
				<-next
			}
		}()
		for ev, err := range seq {
			steps <- step{ev: ev, err: err}
			<-next
		}
	}()
	return steps, next
}

// An expander is an agent whose prompts, such as "/review main.go", may call a command or a skill of the project or of the
// user; more stands behind what that makes of them.
type expander struct {
	rt   *harness.Runtime
	more string
}

// Run implements [aycoder.Agent].
func (e expander) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	if in.Prompt == "" { // images, or a run that goes on
		in.Prompt += e.more
		return e.rt.Run(ctx, in, opts...)
	}
	return func(yield func(aycoder.Event, error) bool) {
		var typed harness.Typed
		for ev, err := range e.rt.Expand(ctx, in.Prompt, &typed) {
			if !yield(ev, err) || err != nil {
				return
			}
		}
		typed.Input.Prompt += e.more
		typed.Input.Parts = append(typed.Input.Parts, in.Parts...)
		typed.Run(ctx, opts...)(yield)
	}
}
