package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// These tests are of [aycoder.Loop] alone: of options and of corners that not every
// agent has.

func loop(t testing.TB, w *world, opts ...aycoder.Option) *aycoder.Loop {
	t.Helper()
	opts = append([]aycoder.Option{aycoder.WithTools(w.tools()...),
		aycoder.WithApprover(approver(false)), aycoder.WithStrictPrefix(true)}, opts...)
	l, err := aycoder.New(w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runLoop runs a loop to its end, with the checks of every run.
func runLoop(t testing.TB, w *world, in aycoder.Input, opts ...aycoder.Option) *trace {
	tr := &trace{found: w.found, world: w, way: way{at: -1}}
	tr.run(t, loop(t, w, opts...), in)
	w.found.report(t)
	return tr
}

// anyTry matches the part of a key that names the try.
var anyTry = regexp.MustCompile(`^(t\d+)\.\d+/`)

// gate is an executor that lets the first step of a key run when that of the next
// try is there, and the second after it.
type gate struct {
	key string

	mu          sync.Mutex
	n           int
	came        chan struct{} // the first is there
	next, first chan struct{}
}

func newGate(key string) *gate {
	return &gate{key: key, came: make(chan struct{}), next: make(chan struct{}),
		first: make(chan struct{})}
}

func (g *gate) execute(ctx context.Context, key string, step func(context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if anyTry.ReplaceAllString(key, "$1/") != g.key {
		go step(ctx)
		return
	}
	switch g.n++; g.n {
	case 1:
		close(g.came)
		go func() {
			select {
			case <-g.next:
			case <-time.After(time.Hour):
			}
			step(ctx)
			close(g.first)
		}()
	case 2:
		close(g.next)
		go func() { <-g.first; step(ctx) }()
	default:
		go step(ctx)
	}
}

func (g *gate) wait(ctx context.Context, _ *world) { <-g.came }

// A step of a message that was discarded is late: it must not touch the call of
// the next try that has the same id.
func TestLateStepOfDiscardedMessage(t *testing.T) {
	tests := []struct {
		name, key string
		first     any
		second    any
	}{
		{"tool runs with the arguments of the discarded message", "t1/tool/a", call("a", "read", 1),
			call("a", "read", 2)},
		{"rejection of the discarded call settles the next", "t1/ask/a", callArgs("a", "read", `{}`),
			call("a", "write", 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(tt.key)
				w := newWorld(&findings{}, [][]any{{tt.first, g.wait, broken()}, calls(tt.second),
					says("so")})
				tr := runLoop(t, w, aycoder.Input{Prompt: "go"}, aycoder.WithExecutor(g.execute))
				if w.ran(1) != 0 || w.ran(2) != 1 {
					t.Errorf("the discarded call ran %d times, the other %d, want 0 and 1; error %v", w.ran(1),
						w.ran(2), tr.err)
				}
			})
		})
	}
}

// A question from a discarded message is withdrawn.
func TestSuspendAfterDiscardedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decided := make(chan struct{}, 8)
		suspend := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse,
			*aycoder.ToolSpec) aycoder.Verdict {
			decided <- struct{}{}
			return aycoder.Suspend()
		})
		settle := func(context.Context, *world) { <-decided; synctest.Wait() }
		w := newWorld(&findings{}, [][]any{{call("a", "read", 1), settle, broken()},
			calls(call("a", "read", 2))})
		var res aycoder.Result
		for _, err := range loop(t, w, aycoder.WithApprover(suspend)).Run(t.Context(),
			aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			if err != nil {
				t.Error(err)
			}
		}
		if res.Pending == nil || len(res.Pending.Requests) != 1 {
			t.Fatalf("end %q, questions %+v, want one", res.End, res.Pending)
		}
		if n := numberOf(res.Pending.Requests[0].Args); n != 2 {
			t.Errorf("the question is about call %d, want 2", n)
		}
	})
}

type brokenError struct{ text *string }

func (e *brokenError) Error() string { return *e.text }

// A tool that returns a nil pointer as its error is a common mistake. It must not
// bring the program down.
func TestToolErrorThatPanics(t *testing.T) {
	const child = "AGENTTEST_CHILD"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestToolErrorThatPanics$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the program ends: %v\n%s", err, out)
		}
		return
	}
	tool, err := aycoder.NewTool("nilerror", "A tool.",
		func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			var err *brokenError
			return nil, err
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(&findings{}, [][]any{calls(callArgs("a", "nilerror", `{}`)), says("so")})
	runLoop2(t, w, aycoder.WithTools(tool))
}

func runLoop2(t *testing.T, w *world, opts ...aycoder.Option) *trace {
	var tr *trace
	synctest.Test(t, func(t *testing.T) {
		tr = &trace{found: w.found}
		for _, err := range loop(t, w, opts...).Run(t.Context(), aycoder.Input{Prompt: "go"},
			aycoder.Into(&tr.res)) {
			tr.err = err
		}
	})
	if tr.err != nil || tr.res.Text() != "so" {
		t.Errorf("last text %q, error %v", tr.res.Text(), tr.err)
	}
	return tr
}

// Whatever comes in, the history can be stored: it has only valid UTF-8 without
// NUL.
func TestHistoryCanBeStored(t *testing.T) {
	result := func(p aycoder.Part) aycoder.Option {
		tool, err := aycoder.NewTool("tool", "A tool.",
			func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				return &aycoder.ToolResult{Parts: []aycoder.Part{p}}, nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
		if err != nil {
			t.Fatal(err)
		}
		return aycoder.WithTools(tool)
	}
	deny := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse,
		*aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Deny(dirt)
	})
	use := callArgs("a", "tool", `{}`)
	model := func(p aycoder.Part) []any { return calls(use, &aycoder.BlockDone{Part: p}) }
	tests := []struct {
		name string
		turn []any
		in   []aycoder.Part
		opt  aycoder.Option
		more []aycoder.Option
	}{
		{name: "media type of a tool", turn: calls(use),
			opt: result(&aycoder.Media{Type: dirt, Data: []byte("a")})},
		{name: "media name of a tool", turn: calls(use),
			opt: result(&aycoder.Media{Type: "image/png", Name: dirt, Data: []byte("a")})},
		{name: "media URL of a tool", turn: calls(use),
			opt: result(&aycoder.Media{Type: "image/png", URL: dirt})},
		{name: "reason of a denial", turn: calls(use),
			opt: result(nil), more: []aycoder.Option{aycoder.WithApprover(deny)}},
		{name: "NUL in thinking", turn: model(&aycoder.Thinking{Text: "a\x00b"}), opt: result(nil)},
		{name: "signature of thinking", turn: model(&aycoder.Thinking{Text: "a", Signature: dirt}),
			opt: result(nil)},
		{name: "opaque block", turn: model(&aycoder.Opaque{Provider: "p", Raw: json.RawMessage(dirt)}),
			opt: result(nil)},
		{name: "opaque block of nobody", turn: model(&aycoder.Opaque{Raw: json.RawMessage("{")}),
			opt: result(nil)},
		{name: "extra of a text", turn: model(&aycoder.Text{Text: "a",
			Extra: &aycoder.Opaque{Provider: "p", Raw: json.RawMessage(dirt)}}), opt: result(nil)},
		{name: "media of the model", turn: model(&aycoder.Media{Type: dirt, Data: []byte("a")}),
			opt: result(nil)},
		{name: "text of the host", turn: calls(use), in: []aycoder.Part{&aycoder.Text{Text: dirt}},
			opt: result(nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(&findings{}, [][]any{tt.turn, says("so")})
				var res aycoder.Result
				for range loop(t, w, append(tt.more, tt.opt)...).Run(t.Context(), aycoder.Input{Prompt: "go", Parts: tt.in},
					aycoder.Into(&res)) {
				}
				checkHistory(w.found, "whole run", res.Messages)
				w.found.report(t)
			})
		})
	}
}

// The bound on an answer counts all of it, so that a slow body cannot make a run
// keep more than that.
func TestAnswerIsBoundedInAllItsParts(t *testing.T) {
	const bound, cap = 1 << 20, 64 << 20
	long := strings.Repeat("x", 64<<10)
	extra := &aycoder.Opaque{Provider: "p", Raw: json.RawMessage(`"` + long + `"`)}
	tests := []struct {
		name  string
		event aycoder.ModelEvent
	}{
		{"id of a tool delta", &aycoder.ToolDelta{ID: long}},
		{"name of a tool delta", &aycoder.ToolDelta{Name: long}},
		{"extra of a text", &aycoder.BlockDone{Part: &aycoder.Text{Extra: extra}}},
		{"extra of a call", &aycoder.BlockDone{Part: &aycoder.ToolUse{Name: "x", Extra: extra}}},
		{"name of media", &aycoder.BlockDone{Part: &aycoder.Media{Type: "image/png", Name: long}}},
		{"URL of media", &aycoder.BlockDone{Part: &aycoder.Media{Type: "image/png", URL: long}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				endless := stream(func(_ context.Context, yield func(aycoder.ModelEvent) bool) bool {
					for sent < cap && yield(tt.event) {
						sent += len(long)
					}
					return false
				})
				w := newWorld(&findings{}, [][]any{{delta("a"), endless}})
				var last error
				for _, err := range loop(t, w, aycoder.WithLimits(aycoder.Limits{Response: bound})).Run(t.Context(),
					aycoder.Input{Prompt: "go"}) {
					synctest.Wait()
					last = err
				}
				if sent > 4*bound || !is[*aycoder.LimitError](last) {
					t.Errorf("%d bytes are taken, the bound is %d; error %v", sent, bound, last)
				}
			})
		})
	}
}

// The cost of a message grows with the number of its calls, not with its square: a model must
// not make a run think for minutes. The time is that of the whole run.
func TestTimeOfManyCalls(t *testing.T) {
	timed.Long(t, "runs of thousands of calls")
	timed.Serial(t)
	tests := []struct {
		name  string
		n     int
		calls func(n int) []any
	}{
		{"ids of their own", 2500, func(n int) []any { return manyCalls("none", n) }},
		{"the same id", 500, func(n int) []any { return sameID("x", n) }},
		{"ids that were made to collide", 100, func(n int) []any {
			var steps []any
			for i := range n {
				steps = append(steps, callArgs(fmt.Sprintf("x_1_%d", n+i), "none", `{}`))
			}
			return append(steps, sameID("x", n)...)
		}},
	}
	const times = 8
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			small, large := runTime(t, tt.calls(tt.n)), runTime(t, tt.calls(times*tt.n))
			timed.AtMost(t, large, 3*times*small, times, " times the calls")
		})
	}
}

func sameID(id string, n int) []any {
	var steps []any
	for range n {
		steps = append(steps, callArgs(id, "none", `{}`))
	}
	return steps
}

// runTime returns how long a run of one message takes: the best of three.
func runTime(t *testing.T, steps []any) time.Duration {
	return timed.Best(3, func() {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(&findings{}, [][]any{calls(steps...), says("so")})
			for _, err := range loop(t, w).Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	})
}

// A report of progress that was on its way when the call returned comes before the
// end of the call, or not at all.
func TestProgressAfterReturn(t *testing.T) {
	long := strings.Repeat("\xff", 8<<20)
	for range 5 {
		gone := make(chan struct{})
		tool, err := aycoder.NewTool("late", "A tool.",
			func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
				began := make(chan struct{})
				go func() {
					defer close(gone)
					close(began)
					inv.Progress(aycoder.Progress{Message: long})
				}()
				<-began
				for range 100 {
					_ = goroutineID() // long enough that the other has begun
				}
				return aycoder.TextResult("ok"), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
		if err != nil {
			t.Fatal(err)
		}
		late := func(context.Context, *world) { <-gone }
		w := newWorld(&findings{}, [][]any{calls(callArgs("a", "late", `{}`), late), says("so")})
		ended := false
		for ev := range loop(t, w, aycoder.WithTools(tool)).Run(t.Context(),
			aycoder.Input{Prompt: "go"}) {
			switch ev.(type) {
			case *aycoder.ToolFinished:
				ended = true
			case *aycoder.ToolProgress:
				if ended {
					t.Fatal("progress comes after the end of its call")
				}
			}
		}
	}
}

// The body of a turn may make the next request before the turn is over.
func TestTurnWhoseRequestGrows(t *testing.T) {
	w := newWorld(&findings{}, [][]any{says("so")})
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}
	var res aycoder.TurnResult
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	for _, err := range loop(t, w).Turn(t.Context(), req, &res) {
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, aycoder.User("next"))
	}
	if len(res.Messages) != 1 {
		t.Errorf("%d new messages, want 1", len(res.Messages))
	}
}

// The error of a cancelled run is that of the context, also if it has a cause.
func TestCancelWithCause(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	w := newWorld(&findings{}, [][]any{says("so")})
	for _, err := range loop(t, w).Run(ctx, aycoder.Input{Prompt: "go"}) {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("error %v: context.Canceled %t, the cause %t", err, errors.Is(err, context.Canceled),
				errors.Is(err, why))
		}
	}
}
