package agenttest

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
)

// These tests show that the suite can fail: each agent breaks one rule, and the
// suite says so.

type (
	events  = iter.Seq2[aycoder.Event, error]
	yielder = func(aycoder.Event, error) bool
)

// A fake is an agent on top of a good one.
type fake struct {
	inner aycoder.Agent
	run   func(inner aycoder.Agent, ctx context.Context, in aycoder.Input,
		opts []aycoder.RunOption) events
}

func (f *fake) Run(ctx context.Context, in aycoder.Input,
	opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return f.run(f.inner, ctx, in, opts)
}

// good makes agents that keep the rules.
func good(opts ...aycoder.Option) NewAgent {
	return func(t testing.TB, s AgentSetup) aycoder.Agent {
		opts := append([]aycoder.Option{aycoder.WithTools(s.Tools...),
			aycoder.WithApprover(s.Approver), aycoder.WithStrictPrefix(true)}, opts...)
		l, err := aycoder.New(s.Model, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// wrapped makes agents whose sequence is that of a good one, after f.
func wrapped(f func(seq events, yield yielder)) NewAgent {
	return whole(func(inner aycoder.Agent, ctx context.Context, in aycoder.Input,
		opts []aycoder.RunOption) events {
		seq := inner.Run(ctx, in, opts...)
		return func(yield func(aycoder.Event, error) bool) { f(seq, yield) }
	})
}

func whole(run func(aycoder.Agent, context.Context, aycoder.Input,
	[]aycoder.RunOption) events) NewAgent {
	return func(t testing.TB, s AgentSetup) aycoder.Agent { return &fake{good()(t, s), run} }
}

// altered makes agents that see another setup.
func altered(f func(*AgentSetup)) NewAgent {
	return func(t testing.TB, s AgentSetup) aycoder.Agent {
		s.Tools = slices.Clone(s.Tools)
		f(&s)
		return good()(t, s)
	}
}

// A wrapper is a tool with another spec, or another way to call it.
type wrapper struct {
	aycoder.Tool
	spec func(*aycoder.ToolSpec)
	call func(ctx context.Context, t aycoder.Tool, inv *aycoder.Invocation) (*aycoder.ToolResult,
		error)
}

func (w *wrapper) Spec() aycoder.ToolSpec {
	s := w.Tool.Spec()
	if w.spec != nil {
		w.spec(&s)
	}
	return s
}

func (w *wrapper) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult,
	error) {
	if w.call != nil {
		return w.call(ctx, w.Tool, inv)
	}
	return w.Tool.Call(ctx, inv)
}

func otherSpec(f func(*aycoder.ToolSpec)) NewAgent {
	return altered(func(s *AgentSetup) {
		for i, t := range s.Tools {
			s.Tools[i] = &wrapper{Tool: t, spec: f}
		}
	})
}

func otherCall(f func(context.Context, aycoder.Tool, *aycoder.Invocation) (*aycoder.ToolResult,
	error)) NewAgent {
	return altered(func(s *AgentSetup) {
		for i, t := range s.Tools {
			s.Tools[i] = &wrapper{Tool: t, call: f}
		}
	})
}

// otherModel makes agents that see other events of the model.
func otherModel(f func(ev aycoder.ModelEvent, err error) (aycoder.ModelEvent, error)) NewAgent {
	return altered(func(s *AgentSetup) {
		inner := s.Model
		s.Model = aycoder.ModelFunc(func(ctx context.Context,
			req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				for ev, err := range inner.Stream(ctx, req) {
					if !yield(f(ev, err)) {
						return
					}
				}
			}
		})
	})
}

// goesOn yields everything, whatever the body says.
func goesOn(seq events, yield yielder) {
	for ev, err := range seq {
		yield(ev, err)
	}
}

// ending makes agents that change the last history.
func ending(f func(messages []*aycoder.Message)) NewAgent {
	return wrapped(func(seq events, yield yielder) {
		for ev, err := range seq {
			if fin, ok := ev.(*aycoder.RunFinished); ok {
				f(fin.Result.Messages)
			}
			if !yield(ev, err) {
				return
			}
		}
	})
}

// dropping makes agents that lose events.
func dropping(drop func(aycoder.Event, error) bool) NewAgent {
	return wrapped(func(seq events, yield yielder) {
		for ev, err := range seq {
			if !drop(ev, err) && !yield(ev, err) {
				return
			}
		}
	})
}

// abandon leaves a run to itself when the body ends the loop.
func abandon(seq events, yield yielder) {
	type pair struct {
		ev  aycoder.Event
		err error
	}
	ch, gone := make(chan pair), make(chan struct{})
	go func() {
		defer close(ch)
		for ev, err := range seq {
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				h := q.Detach()
				go func() { <-time.After(100 * time.Hour); h.Deny("") }()
			}
			select {
			case ch <- pair{ev, err}:
			case <-gone:
			}
		}
	}()
	defer close(gone)
	for p := range ch {
		if !yield(p.ev, p.err) {
			return
		}
	}
}

// ahead runs ahead of the body.
func ahead(seq events, yield yielder) {
	type pair struct {
		ev  aycoder.Event
		err error
	}
	ch := make(chan pair, 10000)
	go func() {
		defer close(ch)
		for ev, err := range seq {
			ch <- pair{ev, err}
		}
	}()
	for p := range ch {
		if !yield(p.ev, p.err) {
			return
		}
	}
}

func playing(name, way string) func(*suite) {
	return func(s *suite) {
		sc := scenarios()[slices.IndexFunc(scenarios(),
			func(sc scenario) bool { return sc.name == name })]
		for _, w := range ways() {
			if w.name == way {
				s.playAll(sc, w)
				return
			}
		}
		s.t.Fatalf("no such way: %s", way)
	}
}

func TestSuiteFindsBrokenAgents(t *testing.T) {
	tests := []struct {
		name  string
		agent NewAgent
		check func(*suite)
		rule  string
	}{
		{"asks the model at once", whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
			opts []aycoder.RunOption) events {
			for range a.Run(ctx, in) {
			}
			return a.Run(ctx, in, opts...)
		}), (*suite).lazy, ruleLazy},
		{"starts a goroutine at once",
			whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
				opts []aycoder.RunOption) events {
				go func() { <-time.After(time.Hour) }()
				return a.Run(ctx, in, opts...)
			}), (*suite).lazy, ruleLazy},
		{"can be ranged over twice", whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
			opts []aycoder.RunOption) events {
			return func(yield func(aycoder.Event, error) bool) { a.Run(ctx, in, opts...)(yield) }
		}), (*suite).singleUse, ruleOnce},
		{"says twice that it is consumed", wrapped(func(seq events, yield yielder) {
			for ev, err := range seq {
				if !yield(ev, err) || err != nil && !yield(ev, err) {
					return
				}
			}
		}), (*suite).singleUse, ruleOnce},
		{"yields an error with an event", wrapped(func(seq events, yield yielder) {
			for ev, err := range seq {
				if err != nil {
					ev = &aycoder.TextDelta{}
				}
				if !yield(ev, err) {
					return
				}
			}
		}), playing("wrong key", "whole"), ruleError},
		{"goes on after an error", wrapped(func(seq events, yield yielder) {
			for ev, err := range seq {
				if !yield(ev, err) || err != nil && !yield(&aycoder.TextDelta{}, nil) {
					return
				}
			}
		}), playing("wrong key", "whole"), ruleError},
		{"yields nothing", wrapped(func(seq events, yield yielder) {
			if yield(nil, nil) {
				seq(yield)
			}
		}), playing("text", "whole"), ruleError},
		{"calls the body again", wrapped(func(seq events, yield yielder) {
			seq(func(ev aycoder.Event, err error) bool {
				return yield(ev, err) || yield(nil,
					errors.New("stopped"))
			})
		}), playing("text", "break"), ruleAgain},
		{"goes on after break", wrapped(goesOn), playing("text", "break"), ruleAgain},
		{"goes on after break of the first run", wrapped(goesOn), (*suite).singleUse, ruleAgain},
		{"goes on after break of many turns", func(t testing.TB, s AgentSetup) aycoder.Agent {
			return &fake{good(aycoder.WithLimits(aycoder.Limits{Turns: maxTurns + 5}))(t, s), func(inner aycoder.Agent, ctx context.Context,
				in aycoder.Input, opts []aycoder.RunOption) events {
				return func(yield func(aycoder.Event, error) bool) { goesOn(inner.Run(ctx, in, opts...), yield) }
			}}
		}, (*suite).endlessTurns, ruleAgain},
		{"leaves a goroutine", wrapped(func(seq events, yield yielder) {
			go func() { <-time.After(time.Hour) }()
			seq(yield)
		}), playing("text", "whole"), ruleGone},
		{"leaves a goroutine after break", wrapped(abandon), playing("client that hangs", "break"),
			ruleGone},
		{"leaves a goroutine for ever", wrapped(func(seq events, yield yielder) {
			go func() { select {} }()
			seq(yield)
		}), playing("text", "whole"), ruleGone},
		{"does not stop its tools", otherCall(func(ctx context.Context, t aycoder.Tool,
			inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			over := make(chan struct{})
			var res *aycoder.ToolResult
			var err error
			go func() {
				defer close(over)
				defer func() { _ = recover() }()
				res, err = t.Call(context.WithoutCancel(ctx), inv)
			}()
			select {
			case <-over:
				return res, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}), playing("tool that waits", "break"), ruleWorking},
		{"does not fill the result", whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
			_ []aycoder.RunOption) events {
			return a.Run(ctx, in)
		}), playing("text", "whole"), ruleInto},
		{"swallows a panic", wrapped(func(seq events, yield yielder) {
			defer func() { _ = recover() }()
			seq(yield)
		}), playing("text", "panic"), rulePanic},
		{"panics", wrapped(func(seq events, yield yielder) {
			seq(yield)
			panic("broken")
		}), playing("text", "whole"), rulePanic},
		{"takes a late answer", wrapped(abandon), playing("approval ignored", "break"), ruleLate},
		{"swallows a cancel", dropping(func(_ aycoder.Event, err error) bool { return err != nil }),
			playing("client that hangs", "cancel"), ruleCancel},
		{"hides a cancel", wrapped(func(seq events, yield yielder) {
			seq(func(ev aycoder.Event, err error) bool {
				if err != nil {
					err = errors.New("something")
				}
				return yield(ev, err)
			})
		}), playing("client that hangs", "cancel"), ruleCancel},
		{"works though it was cancelled before",
			whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
				opts []aycoder.RunOption) events {
				return a.Run(context.WithoutCancel(ctx), in, opts...)
			}), (*suite).cancelledBefore, ruleCancel},
		{"yields on another goroutine", wrapped(func(seq events, yield yielder) {
			over := make(chan struct{})
			go func() { defer close(over); seq(yield) }()
			<-over
		}), playing("text", "whole"), ruleOwn},
		{"lets tools wait for the body", func(t testing.TB, s AgentSetup) aycoder.Agent {
			free := make(chan struct{}, 1)
			free <- struct{}{}
			agent := otherCall(func(ctx context.Context, t aycoder.Tool,
				inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				<-free
				defer func() { free <- struct{}{} }()
				return t.Call(ctx, inv)
			})(t, s)
			return &fake{agent, func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
				opts []aycoder.RunOption) events {
				return func(yield func(aycoder.Event, error) bool) {
					for ev, err := range a.Run(ctx, in, opts...) {
						<-free
						more := yield(ev, err)
						free <- struct{}{}
						if !more {
							return
						}
					}
				}
			}}
		}, (*suite).slowBody, ruleSlow},
		{"runs ahead", wrapped(ahead), (*suite).slowBody, ruleAhead},
		{"loses a delta", dropping(func(ev aycoder.Event, _ error) bool {
			_, ok := ev.(*aycoder.TextDelta)
			return ok
		}), playing("text", "whole"), ruleEvents},
		{"loses the end of a tool", dropping(func(ev aycoder.Event, _ error) bool {
			_, ok := ev.(*aycoder.ToolFinished)
			return ok
		}), playing("read-only calls", "whole"),
			ruleEvents},
		{"loses the start of a tool",
			dropping(func(ev aycoder.Event, _ error) bool {
				_, ok := ev.(*aycoder.ToolStarted)
				return ok
			}), playing("read-only calls", "whole"),
			ruleEvents},
		{"loses the end of a turn", dropping(func(ev aycoder.Event, _ error) bool {
			_, ok := ev.(*aycoder.TurnFinished)
			return ok
		}), playing("text", "whole"), ruleEvents},
		{"loses its end", dropping(func(ev aycoder.Event, _ error) bool {
			_, ok := ev.(*aycoder.RunFinished)
			return ok
		}), playing("text", "whole"), ruleEvents},
		{"loses an output", ending(func(ms []*aycoder.Message) { ms[2].Parts = ms[2].Parts[1:] }),
			playing("read-only calls", "whole"), ruleHistory},
		{"swaps outputs", ending(func(ms []*aycoder.Message) { slices.Reverse(ms[2].Parts) }),
			playing("read-only calls", "whole"), ruleOutput},
		{"loses the result of a tool",
			ending(func(ms []*aycoder.Message) { ms[2].Parts[0].(*aycoder.ToolOutput).IsError = true }),
			playing("read-only calls", "whole"), ruleOutput},
		{"changes the result of a tool", ending(func(ms []*aycoder.Message) {
			ms[2].Parts[0].(*aycoder.ToolOutput).Parts = []aycoder.Part{&aycoder.Text{Text: "?"}}
		}), playing("read-only calls", "whole"), ruleOutput},
		{"keeps invalid UTF-8", ending(func(ms []*aycoder.Message) {
			ms[1].Parts = append(ms[1].Parts,
				&aycoder.Text{Text: dirt})
		}), playing("text", "whole"), ruleClean},
		{"keeps NUL", ending(func(ms []*aycoder.Message) {
			ms[1].Parts = append(ms[1].Parts,
				&aycoder.Text{Text: "\x00"})
		}), playing("text", "whole"), ruleClean},
		{"runs a tool twice", otherCall(func(ctx context.Context, t aycoder.Tool,
			inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			_, _ = t.Call(ctx, inv)
			return t.Call(ctx, inv)
		}), playing("write calls", "whole"), ruleTwice},
		{"starts reads late", otherSpec(func(s *aycoder.ToolSpec) { s.Effect = aycoder.EffectUnknown }),
			playing("reads while the model talks", "whole"), ruleEager},
		{"starts writes early", otherSpec(func(s *aycoder.ToolSpec) { s.Effect = aycoder.EffectReadOnly }), playing("mixed calls", "slow"), ruleWrites},
		{"runs a call that was cut off",
			otherModel(func(ev aycoder.ModelEvent, err error) (aycoder.ModelEvent, error) {
				if cut, ok := ev.(*aycoder.BlockTruncated); ok {
					return &aycoder.BlockDone{Part: cut.Call}, nil
				}
				return ev, err
			}), playing("complete-looking call cut off", "whole"), ruleNotRun},
		{"runs what was refused", otherModel(func(ev aycoder.ModelEvent, err error) (aycoder.ModelEvent,
			error) {
			if d, ok := ev.(*aycoder.MessageDone); ok && d.Stop == aycoder.StopRefusal {
				return done(aycoder.StopToolUse), nil
			}
			return ev, err
		}), playing("refusal", "whole"), ruleNotRun},
		{"does not ask", altered(func(s *AgentSetup) { s.Approver = approver(false) }),
			playing("approval", "whole"), ruleNotRun},
		{"changes arguments", otherCall(func(ctx context.Context, t aycoder.Tool,
			inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			other := *inv
			other.Args = append(slices.Clone(inv.Args), ' ')
			return t.Call(ctx, &other)
		}), playing("read-only calls", "whole"), ruleArgs},
		{"does not try again", good(aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})),
			playing("overload and rate limit", "whole"), ruleEnds},
		{"tries a wrong key again", otherModel(func(ev aycoder.ModelEvent,
			err error) (aycoder.ModelEvent, error) {
			if e, ok := errors.AsType[*aycoder.AuthError](err); ok {
				err = &aycoder.OverloadedError{ModelError: e.ModelError}
			}
			return ev, err
		}), playing("wrong key", "whole"), ruleRetry},
		{"does not wait", otherModel(func(ev aycoder.ModelEvent, err error) (aycoder.ModelEvent,
			error) {
			if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
				err = &aycoder.StreamBrokenError{ModelError: e.ModelError}
			}
			return ev, err
		}), (*suite).waits, ruleRetry},
		{"waits for weeks", good(aycoder.WithRetry(aycoder.RetryPolicy{Budget: 1e4 * time.Hour})),
			(*suite).waits, ruleRetry},
		{"takes any number of turns", good(aycoder.WithLimits(aycoder.Limits{Turns: 1 << 30})), (*suite).endlessTurns,
			ruleBounds},
		{"takes any answer", good(aycoder.WithLimits(aycoder.Limits{Response: math.MaxInt64})), func(s *suite) {
			s.endless("a long text", 100, func(int) aycoder.ModelEvent { return delta("abc") })
		}, ruleBounds},
		{"takes any result", good(aycoder.WithLimits(aycoder.Limits{ToolOutput: math.MaxInt})), func(s *suite) { s.large(1 << 20) },
			ruleBounds},
		{"loses calls", otherModel(func(ev aycoder.ModelEvent, err error) (aycoder.ModelEvent, error) {
			if d, ok := ev.(*aycoder.BlockDone); ok {
				if u, ok := d.Part.(*aycoder.ToolUse); ok && numberOf(u.Args) == 50 {
					return delta(""), nil
				}
			}
			return ev, err
		}), (*suite).manyCalls, ruleOutput},
		{"runs one at a time", func(t testing.TB, s AgentSetup) aycoder.Agent {
			var busy atomic.Bool
			return &fake{good()(t, s), func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
				opts []aycoder.RunOption) events {
				return func(yield func(aycoder.Event, error) bool) {
					if busy.Swap(true) {
						yield(nil, errors.New("busy"))
						return
					}
					a.Run(ctx, in, opts...)(yield)
				}
			}}
		}, (*suite).concurrent, ruleShared},
		{"takes any input", whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
			opts []aycoder.RunOption) events {
			return a.Run(ctx, aycoder.Input{Prompt: "?"}, opts...)
		}), (*suite).invalidInput, ruleEnds},
		{"does not resume", whole(func(a aycoder.Agent, ctx context.Context, in aycoder.Input,
			opts []aycoder.RunOption) events {
			if in.Pending != nil {
				in.Decisions = nil
			}
			return a.Run(ctx, in, opts...)
		}), (*suite).suspend, ruleTwice},
	}
	rules := map[string]bool{}
	for _, tt := range tests {
		rules[tt.rule] = true
		t.Run(tt.name, func(t *testing.T) {
			found := bubble(t, tt.agent, tt.check)
			if !found.of(tt.rule) {
				t.Errorf("the suite does not find %q; it finds %q", tt.rule, found)
			}
		})
	}
	for _, r := range []string{
		ruleLazy, ruleOnce, ruleError, ruleAgain, ruleGone, ruleWorking, ruleInto, rulePanic, ruleLate,
		ruleCancel,
		ruleOwn, ruleSlow, ruleAhead, ruleEvents, ruleHistory, ruleOutput, ruleTwice, ruleEager,
		ruleWrites, ruleNotRun,
		ruleArgs, ruleRetry, ruleEnds, ruleClean, ruleBounds, ruleShared,
	} {
		if !rules[r] {
			t.Errorf("no agent breaks %q", r)
		}
	}
}
