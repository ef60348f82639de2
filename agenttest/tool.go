package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

// ToolSetup is a tool under test with the directory that it works on.
type ToolSetup struct {
	Tool aycoder.Tool
	// Dir is the directory that the tool works on, or "". A tool that only reads must
	// leave it as it is, and so must a preview and a plan.
	Dir string
}

// ToolCase is a call that is valid under the tool's schema.
type ToolCase struct {
	// Name describes the case; Args is the JSON text of the arguments.
	Name, Args string
	// Want is a part of the text of the result; "" fits every text.
	Want string
	// Fails says that the call gives an error, or an error result as of
	// [aycoder.ErrorResult].
	Fails bool
	// Slow says that the call takes longer than a second, if it is not cancelled. To get
	// such a call from a fast tool, make slow what it works with: a server that waits, or
	// a directory of which each file takes 10 ms to open, as in examples/todos.
	Slow bool
}

// TestTool tests that a tool keeps the contract of [aycoder.Tool]. It makes a fresh tool for
// each subtest, and derives invalid calls from the given ones: with arguments that are missing,
// of the wrong type, unknown or much too long, and with NUL bytes and invalid UTF-8. It
// executes the calls, so let the tool work on something that may break, such as a temporary
// directory. Run it with -race. The page docs/tool.md says what each subtest checks and needs.
func TestTool(t *testing.T, newTool func(t testing.TB) ToolSetup, cases ...ToolCase) {
	t.Helper() // failures name the caller's line
	if len(cases) == 0 {
		t.Error("agenttest: TestTool needs a ToolCase at least")
	}
	for _, r := range toolRules(cases) {
		t.Run(r.name, func(t *testing.T) {
			t.Helper()
			if !r.has {
				t.Skip("agenttest: no ToolCase, ability or Dir for this")
			}
			found := &findings{}
			r.check(&toolSuite{ToolSetup: newTool(t), t: t, found: found, cases: cases, patience: soon})
			found.report(t)
		})
	}
}

// A toolRule is a subtest.
type toolRule struct {
	name  string
	has   bool
	check func(*toolSuite)
}

// A toolSuite is the state of one subtest.
type toolSuite struct {
	ToolSetup
	t        testing.TB
	found    *findings
	cases    []ToolCase
	patience time.Duration // how long goroutines may take to be gone
}

// toolRules is the list of all checks of a tool, one for each valid call and one for each
// way to call it wrongly.
func toolRules(cases []ToolCase) []toolRule {
	slow := false
	for _, c := range cases {
		slow = slow || c.Slow
	}
	rules := []toolRule{{"spec", true, (*toolSuite).spec}}
	for _, c := range cases {
		if !c.Slow {
			rules = append(rules, toolRule{"call " + c.Name, true, func(s *toolSuite) { s.valid(c) }})
		}
	}
	return append(rules,
		toolRule{"invalid calls", true, (*toolSuite).invalid},
		toolRule{"strange calls", true, (*toolSuite).strange},
		toolRule{"cancelled before the call", true, (*toolSuite).cancelledBefore},
		toolRule{"cancelled while it works", slow, (*toolSuite).cancelledAtWork},
		toolRule{"concurrent calls", true, (*toolSuite).concurrent},
		toolRule{"changes nothing", true, (*toolSuite).changesNothing},
	)
}

// spec checks that the description is complete and does not change: it is a part of every
// request, and of the prompt cache.
func (s *toolSuite) spec() {
	spec := s.Tool.Spec()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if again := s.Tool.Spec(); !reflect.DeepEqual(spec, again) {
				s.found.add(ruleToolSpec, "it is %+v, then %+v", spec, again)
			}
		})
	}
	wg.Wait()
	if _, err := aycoder.New(newWorld(s.found, nil), aycoder.WithTools(s.Tool)); err != nil {
		s.found.add(ruleToolSpec, "%v", err)
	}
	var schema struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema.Type != "object" {
		s.found.add(ruleToolSpec, "the schema is of type %q, want object; error %v", schema.Type, err)
	}
	if strings.TrimSpace(spec.Description) == "" || !utf8.ValidString(spec.Description) {
		s.found.add(ruleToolSpec, "the description is %q", spec.Description)
	}
	if d := spec.Destructive; d && spec.Effect == aycoder.EffectReadOnly {
		s.found.add(ruleToolSpec, "it only reads, and it is destructive")
	}
}

// maxCall is how long one call may take.
const maxCall = 30 * time.Second

// maxText is how much text a call may give, result or error, and maxData how much data
// in each media. A run gives the model no more than [aycoder.Limits].ToolOutput of a
// text, and no media that is larger: a tool that makes more wastes memory.
const maxText, maxData = 1 << 20, 16 << 20

// An outcome is what a call gave.
type outcome struct {
	res      *aycoder.ToolResult
	err      error
	panicked any
	hangs    bool
	at       time.Time // when it returned
}

func (o outcome) failed() bool { return o.err != nil || o.res != nil && o.res.IsError }

// text is what a model would read of an outcome.
func (o outcome) text() string {
	if o.err != nil {
		return o.err.Error()
	}
	if o.res == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range o.res.Parts {
		if t, ok := p.(*aycoder.Text); ok && t != nil {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// call calls the tool, with the checks of every call.
func (s *toolSuite) call(ctx context.Context, args string) outcome {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	var returned atomic.Bool
	progress := func(aycoder.Progress) {
		if returned.Load() {
			s.found.add(ruleToolGone, "call with %s: it reports progress after it has returned",
				shown(args))
		}
	}
	inv := aycoder.NewInvocation("call_1", s.Tool.Spec().Name, json.RawMessage(args), progress)
	over := make(chan outcome, 1)
	var label atomic.Value
	go func() {
		var o outcome
		label.Store(labelled(ctx, func(ctx context.Context) { o = safely(ctx, s.Tool, inv) }))
		returned.Store(true)
		over <- o
	}()
	var o outcome
	select {
	case o = <-over:
	case <-time.After(maxCall + soon):
		s.found.add(ruleToolCancel, "call with %s: it does not return", shown(args))
		return outcome{hangs: true, err: context.DeadlineExceeded}
	}
	s.check(args, o)
	if left := goneWithin(label.Load().(string), s.patience); left != "" {
		s.found.add(ruleToolGone, "call with %s: these goroutines remain:\n%s", shown(args), left)
	}
	return o
}

// safely calls a tool as a loop does, which survives a panic.
func safely(ctx context.Context, t aycoder.Tool, inv *aycoder.Invocation) (o outcome) {
	defer func() {
		o.at = time.Now()
		if p := recover(); p != nil {
			o.panicked, o.err = p, fmt.Errorf("panic: %v", p)
		}
	}()
	o.res, o.err = t.Call(ctx, inv)
	return o
}

// check checks what holds for every result.
func (s *toolSuite) check(args string, o outcome) {
	if o.panicked != nil {
		s.found.add(ruleToolBad, "call with %s: panic: %v", shown(args), o.panicked)
		return
	}
	if o.err == nil && o.res == nil {
		s.found.add(ruleToolValid, "call with %s: neither result nor error", shown(args))
		return
	}
	if n := len(o.text()); n > maxText {
		s.found.add(ruleToolBounds, "call with %s: the text has %d bytes", shown(args), n)
	}
	if o.res == nil {
		return
	}
	for _, p := range o.res.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			if p == nil || !utf8.ValidString(p.Text) {
				s.found.add(ruleToolClean, "call with %s: a text of the result is nil or no UTF-8",
					shown(args))
			}
		case *aycoder.Media:
			if p == nil || p.Type == "" || (len(p.Data) == 0) == (p.URL == "") {
				s.found.add(ruleToolClean, "call with %s: media without type, or not with either data or URL",
					shown(args))
			} else if len(p.Data) > maxData {
				s.found.add(ruleToolBounds, "call with %s: media of %d bytes", shown(args), len(p.Data))
			}
		default:
			s.found.add(ruleToolClean, "call with %s: the result holds %T", shown(args), p)
		}
	}
	if !utf8.ValidString(o.res.Summary) || strings.ContainsRune(o.res.Summary, '\n') {
		s.found.add(ruleToolClean, "call with %s: the summary is %s", shown(args), shown(o.res.Summary))
	}
}

// valid checks a call against what the author of the tool expects of it.
func (s *toolSuite) valid(c ToolCase) {
	o := s.call(s.t.Context(), c.Args)
	if o.failed() != c.Fails {
		s.found.add(ruleToolValid, "call %s: fails %t, want %t: %s", c.Name, o.failed(), c.Fails,
			shown(o.text()))
	}
	if !strings.Contains(o.text(), c.Want) {
		s.found.add(ruleToolValid, "call %s: the text is %s, want %q in it", c.Name, shown(o.text()),
			c.Want)
	}
}

// invalid makes calls that do not fit the schema: from an agent they never get to
// the tool, and a tool that gets one all the same does not panic.
func (s *toolSuite) invalid() {
	for _, c := range s.cases {
		bad, err := misfits(s.Tool.Spec().Schema, c.Args)
		if err != nil {
			s.found.add(ruleToolSpec, "call %s: %v", c.Name, err)
			continue
		}
		for _, m := range bad {
			if out := s.throughLoop(m.args); out == nil || !out.IsError {
				s.found.add(ruleToolBad, "call %s with %s: an agent gives no error", c.Name, m.what)
			}
			if !c.Slow {
				s.call(s.t.Context(), m.args)
			}
		}
	}
}

// throughLoop makes the call in a run.
func (s *toolSuite) throughLoop(args string) *aycoder.ToolOutput {
	name := s.Tool.Spec().Name
	w := newWorld(s.found, [][]any{calls(callArgs("a", name, args)), says("so")})
	loop, err := aycoder.New(w, aycoder.WithTools(s.Tool), aycoder.WithApprover(approver(false)))
	if err != nil {
		s.found.add(ruleToolSpec, "%v", err)
		return nil
	}
	var res aycoder.Result
	for _, err := range loop.Run(s.t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		if err != nil {
			s.found.add(ruleToolBad, "call with %s ends the run: %v", shown(args), err)
		}
	}
	checkHistory(s.found, "call with "+shown(args), res.Messages)
	for _, p := range pairs(res.Messages) {
		return p.out
	}
	return nil
}

// strange makes calls that fit the schema, or may, and are none that a model of
// good will makes.
func (s *toolSuite) strange() {
	for _, c := range s.cases {
		if c.Slow {
			continue
		}
		odd, err := oddities(s.Tool.Spec().Schema, c.Args)
		if err != nil {
			s.found.add(ruleToolSpec, "call %s: %v", c.Name, err)
		}
		for _, m := range odd {
			s.call(s.t.Context(), m.args)
		}
	}
}

// prompt is how soon a call ends after cancel.
const prompt = 100 * time.Millisecond

// attempts is how often a time is measured before it counts: the machine may be
// busy.
const attempts = 3

// cancelledBefore checks that a tool looks at its context before it begins.
func (s *toolSuite) cancelledBefore() {
	for _, c := range s.cases {
		s.promptly(c, "cancelled before", func() (time.Duration, error) {
			ctx, cancel := context.WithCancel(s.t.Context())
			cancel()
			start := time.Now()
			o := s.call(ctx, c.Args)
			return o.at.Sub(start), o.err
		})
	}
}

// cancelledAtWork cancels a call that is known to be slow while it works.
func (s *toolSuite) cancelledAtWork() {
	for _, c := range s.cases {
		if !c.Slow {
			continue
		}
		s.promptly(c, "cancelled while it works", func() (time.Duration, error) {
			ctx, cancel := context.WithCancel(s.t.Context())
			at := make(chan time.Time, 1)
			time.AfterFunc(prompt, func() {
				at <- time.Now()
				cancel()
			})
			o := s.call(ctx, c.Args)
			took := o.at.Sub(<-at)
			if took < 0 {
				s.found.add(ruleToolCancel, "call %s is not slow: it returns before it is cancelled: %s",
					c.Name, shown(o.text()))
			}
			if !o.failed() {
				s.found.add(ruleToolCancel, "call %s: cancelled, it gives no error: %s", c.Name,
					shown(o.text()))
			}
			return took, o.err
		})
	}
}

// promptly tries several times, as a busy machine may delay any of them.
func (s *toolSuite) promptly(c ToolCase, what string, call func() (time.Duration, error)) {
	var best time.Duration
	for i := range attempts {
		took, err := call()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if best = took; took <= prompt {
			return
		}
		s.t.Logf("agenttest: call %s, %s: try %d takes %s", c.Name, what, i+1, took)
	}
	s.found.add(ruleToolCancel, "call %s, %s: it takes %s to return", c.Name, what, best)
}

// concurrent makes calls side by side. Those of a tool that writes may fail, but not race.
func (s *toolSuite) concurrent() {
	reads := s.Tool.Spec().Effect == aycoder.EffectReadOnly
	var wg sync.WaitGroup
	for _, c := range s.cases {
		if c.Slow {
			continue
		}
		for range 4 {
			wg.Go(func() {
				if o := s.call(s.t.Context(), c.Args); reads && o.failed() != c.Fails {
					s.found.add(ruleToolShared, "call %s beside others: fails %t, want %t: %s", c.Name,
						o.failed(), c.Fails, shown(o.text()))
				}
			})
		}
	}
	wg.Wait()
}

// changesNothing compares the files before and after. A preview and a plan must not change
// them, whatever the tool does.
func (s *toolSuite) changesNothing() {
	if s.Dir == "" {
		s.t.Skip("agenttest: ToolSetup has no Dir")
	}
	before := s.snapshot()
	s.plansChangeNothing(before)
	if p, ok := s.Tool.(aycoder.Previewer); ok {
		for _, c := range s.cases {
			inv := aycoder.NewInvocation("call_1", s.Tool.Spec().Name, json.RawMessage(c.Args), nil)
			text, err := p.Preview(s.t.Context(), inv)
			if err == nil && !utf8.ValidString(text) {
				s.found.add(ruleToolClean, "the preview of call %s is not UTF-8", c.Name)
			}
			s.same(before, "the preview of call "+c.Name)
		}
	}
	if s.Tool.Spec().Effect != aycoder.EffectReadOnly {
		return
	}
	for _, c := range s.cases {
		if !c.Slow {
			s.call(s.t.Context(), c.Args)
			s.same(before, "call "+c.Name)
		}
	}
}

// plansChangeNothing makes the plans of the calls. Each is the same when it is made
// again, and there is one unless the call fails.
func (s *toolSuite) plansChangeNothing(before map[string]string) {
	p, ok := s.Tool.(aycoder.Planner)
	if !ok {
		return
	}
	for _, c := range s.cases {
		inv := aycoder.NewInvocation("call_1", s.Tool.Spec().Name, json.RawMessage(c.Args), nil)
		plan, err := p.Plan(s.t.Context(), inv)
		again, _ := p.Plan(s.t.Context(), inv)
		s.same(before, "the plan of call "+c.Name)
		switch {
		case (err != nil) != c.Fails:
			s.found.add(ruleToolPlan, "call %s: its plan fails %t, want %t: %v", c.Name, err != nil, c.Fails, err)
		case err != nil && !utf8.ValidString(err.Error()):
			s.found.add(ruleToolClean, "the error of the plan of call %s is not UTF-8", c.Name)
		case plan.Digest() != again.Digest():
			s.found.add(ruleToolPlan, "call %s: its plan is another the second time", c.Name)
		}
	}
}
