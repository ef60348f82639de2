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
	"github.com/aycoder/aycoder/internal/timed"
)

// ToolSetup is a tool under test and the directory that the tool works in.
type ToolSetup struct {
	Tool aycoder.Tool
	// Dir is the directory that the tool works in, or "" if there is none. TestTool checks that
	// Dir does not change when the tool makes a preview or a plan, or when a read-only tool is
	// called.
	Dir string
}

// ToolCase is a tool call whose arguments are valid under the schema of the tool.
type ToolCase struct {
	// Name describes the case and is a part of the name of its subtest. Args is the JSON text of
	// the arguments.
	Name, Args string
	// Want is a text that the result must contain. If Want is empty, any result will do.
	Want string
	// Fails means that the call is expected to fail, by returning an error or an error result
	// (see [aycoder.ErrorResult]).
	Fails bool
	// Slow means that the call takes longer than a second unless it is cancelled. If the tool is
	// fast, let the test slow down the resource that the tool uses. For example, a server can
	// delay its answer. In examples/todos, the tool reads a directory of 200 files, and the test
	// delays the opening of each file by 10 ms.
	Slow bool
}

// TestTool tests that a tool keeps the contract of [aycoder.Tool]. It makes a fresh tool for each
// subtest. It also derives invalid and strange calls from the given ones. Their arguments are
// missing, of the wrong type, unknown or much too long, or contain NUL bytes or invalid UTF-8.
//
// TestTool executes all of these calls. The tool should therefore work on data that may be
// destroyed, such as a temporary directory. Run the test with -race. The page docs/tool.md says
// what each subtest checks and needs.
func TestTool(t *testing.T, newTool func(t testing.TB) ToolSetup, cases ...ToolCase) {
	t.Helper() // failures name the caller's line
	if len(cases) == 0 {
		t.Error("agenttest: TestTool needs a ToolCase at least")
	}
	reduced := timed.Reduced(t)
	for _, r := range toolRules(cases) {
		t.Run(r.name, func(t *testing.T) {
			t.Helper()
			if !r.has {
				t.Skip("agenttest: no ToolCase, ability or Dir for this")
			}
			found := &findings{}
			r.check(&toolSuite{ToolSetup: newTool(t), t: t, found: found, cases: cases,
				patience: soon, reduced: reduced})
			found.report(t)
		})
	}
}

// A toolRule is a subtest. It is skipped unless has is set.
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
	patience time.Duration // how long goroutines may take to end
	reduced  bool          // the race detector is on
}

// toolRules returns all checks of a tool: one for each valid call, and one for each kind of
// misuse.
func toolRules(cases []ToolCase) []toolRule {
	slow := false
	for _, c := range cases {
		slow = slow || c.Slow
	}
	rules := []toolRule{{"spec", true, (*toolSuite).spec}}
	for _, c := range cases {
		if !c.Slow {
			rules = append(rules, toolRule{"call " + c.Name, true,
				func(s *toolSuite) { s.valid(c) }})
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

// spec checks that the description of the tool is complete and always the same. It is a part of
// every request; a change between two requests would make the provider's prompt cache useless.
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
	// New validates the spec, so an agent could not use a tool that it rejects.
	if _, err := aycoder.New(newWorld(s.found, nil), aycoder.WithTools(s.Tool), aycoder.WithStrictPrefix(true)); err != nil {
		s.found.add(ruleToolSpec, "%v", err)
	}
	var schema struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema.Type != "object" {
		s.found.add(ruleToolSpec, "the schema is of type %q, want object; error %v",
			schema.Type, err)
	}
	if strings.TrimSpace(spec.Description) == "" || !utf8.ValidString(spec.Description) {
		s.found.add(ruleToolSpec, "the description is %q", spec.Description)
	}
	if d := spec.Destructive; d && spec.Effect == aycoder.EffectReadOnly {
		s.found.add(ruleToolSpec, "it only reads, and it is destructive")
	}
}

// maxCall is the timeout of the context of one call. A call that still has not returned a while
// later is reported as one that hangs.
const maxCall = 30 * time.Second

// maxText bounds the text of a result or error in bytes, and maxData the data of each Media. The
// model gets no more than [aycoder.Limits].ToolOutput of a text and no larger Media, so a tool
// that produces more only wastes memory.
const maxText, maxData = 1 << 20, 16 << 20

// An outcome is the result, error or panic of a call.
type outcome struct {
	res      *aycoder.ToolResult
	err      error
	panicked any
	hangs    bool
	at       time.Time // when it returned
}

// failed reports whether the model would be told that the call failed.
func (o outcome) failed() bool { return o.err != nil || o.res != nil && o.res.IsError }

// text returns the text of an outcome as a model would read it.
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

// call executes a call and checks the rules that hold for every call. It waits on another
// goroutine, so that a call that hangs becomes a finding instead of blocking the test.
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
	// The channel has room for the outcome, so that the goroutine of a late call can end.
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

// safely calls the tool and recovers from a panic, as the loop of an agent does.
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

// check checks the rules that hold for every result.
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
				s.found.add(ruleToolClean,
					"call with %s: media without type, or not with either data or URL", shown(args))
			} else if len(p.Data) > maxData {
				s.found.add(ruleToolBounds, "call with %s: media of %d bytes", shown(args),
					len(p.Data))
			}
		default:
			s.found.add(ruleToolClean, "call with %s: the result holds %T", shown(args), p)
		}
	}
	if !utf8.ValidString(o.res.Summary) || strings.ContainsRune(o.res.Summary, '\n') {
		s.found.add(ruleToolClean, "call with %s: the summary is %s", shown(args),
			shown(o.res.Summary))
	}
}

// valid executes a call and compares its outcome with the expectation of the tool's author.
func (s *toolSuite) valid(c ToolCase) {
	o := s.call(s.t.Context(), c.Args)
	if o.failed() != c.Fails {
		s.found.add(ruleToolValid, "call %s: fails %t, want %t: %s", c.Name, o.failed(), c.Fails,
			shown(o.text()))
	}
	if !strings.Contains(o.text(), c.Want) {
		s.found.add(ruleToolValid, "call %s: the text is %s, want %q in it", c.Name,
			shown(o.text()), c.Want)
	}
}

// invalid makes calls that violate the schema. An agent must reject them before the tool runs.
// The suite also calls the tool directly, because other callers may not validate: the tool must
// return, and must not panic.
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

// throughLoop makes the call through the loop of package aycoder, which validates the arguments.
func (s *toolSuite) throughLoop(args string) *aycoder.ToolOutput {
	name := s.Tool.Spec().Name
	w := newWorld(s.found, [][]any{calls(callArgs("a", name, args)), says("so")})
	loop, err := aycoder.New(w, aycoder.WithTools(s.Tool), aycoder.WithApprover(approver(false)),
		aycoder.WithStrictPrefix(true))
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

// strange makes calls that the schema may allow, but that no well-meaning model makes.
func (s *toolSuite) strange() {
	for _, c := range s.cases {
		if c.Slow {
			continue
		}
		odd, err := oddities(s.Tool.Spec().Schema, c.Args)
		if err != nil {
			s.found.add(ruleToolSpec, "call %s: %v", c.Name, err)
		}
		for i, m := range odd {
			if !s.reduced || i%4 == 0 {
				s.call(s.t.Context(), m.args)
			}
		}
	}
}

// prompt is how long a call may take to return after it is cancelled. It is a part of the
// contract of [aycoder.Tool].
const prompt = 100 * time.Millisecond

// attempts is how often the suite repeats a call that returned too late. A busy machine can delay
// any single call.
const attempts = 8

// cancelledBefore checks that a call with a context that has already ended returns at once.
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

// cancelledAtWork cancels a slow call while it works. A result without an error would tell the
// model that the work is complete.
func (s *toolSuite) cancelledAtWork() {
	for _, c := range s.cases {
		if !c.Slow {
			continue
		}
		s.promptly(c, "cancelled while it works", func() (time.Duration, error) {
			ctx, cancel := context.WithCancel(s.t.Context())
			at := make(chan time.Time, 1)
			// The call gets time to begin its work; otherwise this would be the check
			// cancelledBefore.
			time.AfterFunc(prompt, func() {
				at <- time.Now()
				cancel()
			})
			o := s.call(ctx, c.Args)
			took := o.at.Sub(<-at)
			if took < 0 {
				s.found.add(ruleToolCancel,
					"call %s is not slow: it returns before it is cancelled: %s",
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

// promptly repeats a call until it returns promptly, at most attempts times. The tool, and not
// the machine, is at fault only if every attempt is too slow.
func (s *toolSuite) promptly(c ToolCase, what string, call func() (time.Duration, error)) {
	var best time.Duration
	for i := range attempts {
		took, err := call()
		// A call that hangs takes half a minute, so it is not tried again.
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

// concurrent executes calls in parallel. Calls of a tool that writes may fail because of each
// other, or have another result than alone, but must not cause a data race.
func (s *toolSuite) concurrent() {
	reads := s.Tool.Spec().Effect == aycoder.EffectReadOnly
	var wg sync.WaitGroup
	for _, c := range s.cases {
		if c.Slow {
			continue
		}
		for range 4 {
			wg.Go(func() {
				o := s.call(s.t.Context(), c.Args)
				if reads && (o.failed() != c.Fails || !strings.Contains(o.text(), c.Want)) {
					s.found.add(ruleToolShared, "call %s beside others: fails %t, want %t; the text is %s, want %q in it",
						c.Name, o.failed(), c.Fails, shown(o.text()), c.Want)
				}
			})
		}
	}
	wg.Wait()
}

// changesNothing compares the files of the directory before and after. The user has not yet
// approved a call when its preview or plan is made, so neither may change a file, even if the
// tool itself writes.
func (s *toolSuite) changesNothing() {
	if s.Dir == "" {
		s.t.Skip("agenttest: ToolSetup has no Dir")
	}
	before := s.snapshot()
	// Plans and previews come first, because the calls below may change the files.
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

// plansChangeNothing makes the plan of each call twice. Both plans must be equal, because the
// user approves the first and the loop applies the second. Making a plan must fail for exactly
// those calls that fail.
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
			s.found.add(ruleToolPlan, "call %s: its plan fails %t, want %t: %v", c.Name, err != nil,
				c.Fails, err)
		case err != nil && !utf8.ValidString(err.Error()):
			s.found.add(ruleToolClean, "the error of the plan of call %s is not UTF-8", c.Name)
		case plan.Digest() != again.Digest():
			s.found.add(ruleToolPlan, "call %s: its plan is another the second time", c.Name)
		}
	}
}
