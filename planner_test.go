package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/workspace"
)

// planTool replaces text in files of a workspace.
type planTool struct {
	aycoder.Tool
	ws    *workspace.Workspace
	calls int
	plan  func(ctx context.Context) error // before it plans
	read  func(call string)               // after it has read the file
}

type swapArgs struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

func newPlanTool(t testing.TB, ws *workspace.Workspace) *planTool {
	t.Helper()
	p := &planTool{ws: ws, plan: func(context.Context) error { return nil }, read: func(string) {}}
	tool, err := aycoder.NewTool("swap", "Swaps.", p.call, aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectPath, "path"))
	require.NoError(t, err)
	p.Tool = tool
	return p
}

func (p *planTool) Plan(ctx context.Context, inv *aycoder.Invocation) (edit.Plan, error) {
	if err := p.plan(ctx); err != nil {
		return edit.Plan{}, err
	}
	var in swapArgs
	if err := json.Unmarshal(inv.Args, &in); err != nil {
		return edit.Plan{}, err
	}
	data, err := os.ReadFile(filepath.Join(p.ws.Dir(), in.Path))
	if err != nil {
		return edit.Plan{}, err
	}
	p.read(inv.ID)
	if strings.Count(string(data), in.Old) != 1 {
		return edit.Plan{}, errors.New("no_match: not there once")
	}
	return edit.NewPlan(edit.File{
		Path: in.Path, Kind: edit.Change, Base: string(data), Proposed: strings.Replace(string(data), in.Old, in.New, 1),
	})
}

func (p *planTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	return inv.Plan.Preview(), nil
}

func (p *planTool) call(ctx context.Context, inv *aycoder.Invocation, _ swapArgs) (*aycoder.ToolResult, error) {
	p.calls++
	plan := inv.Plan
	if plan == nil {
		made, err := p.Plan(ctx, inv)
		if err != nil {
			return nil, err
		}
		plan = &made
	}
	res, err := p.ws.Apply(ctx, *plan)
	if e, ok := errors.AsType[*edit.ConflictError](err); ok {
		return nil, fmt.Errorf("%s: %s%w", e.Kind(), e.ModelText(), e)
	}
	if err != nil {
		return nil, err
	}
	return &aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Text{Text: plan.OmittedText() + res.ModelText()}}, Changes: res}, nil
}

func swap(id, path, old, text string) *aycoder.BlockDone {
	args, _ := json.Marshal(swapArgs{path, old, text})
	return use(id, "swap", string(args))
}

// plans is a workspace with a planning tool and a loop that uses it.
type plans struct {
	t    testing.TB
	tool *planTool
}

func newPlans(t testing.TB, files map[string]string) *plans {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	return &plans{t, newPlanTool(t, ws)}
}

func (p *plans) loop(turns [][]any, opts ...aycoder.Option) *aycoder.Loop {
	opts = append([]aycoder.Option{
		aycoder.WithTools(p.tool, newTool(p.t, "write", aycoder.EffectWrite, echo)), aycoder.WithApprover(asks),
	}, opts...)
	return newLoop(p.t, &fake{turns: turns}, opts...)
}

func (p *plans) save(name, text string) {
	require.NoError(p.t, os.WriteFile(filepath.Join(p.tool.ws.Dir(), name), []byte(text), 0o644))
}

func (p *plans) read(name string) string {
	data, err := os.ReadFile(filepath.Join(p.tool.ws.Dir(), name))
	require.NoError(p.t, err)
	return string(data)
}

// run answers every question, and returns the outputs and the names of the events.
func (p *plans) run(l *aycoder.Loop, in aycoder.Input, answer func(*aycoder.ApprovalRequested)) (outputs, events []string, res aycoder.Result) {
	p.t.Helper()
	for ev, err := range l.Run(p.t.Context(), in, aycoder.Into(&res)) {
		require.NoError(p.t, err)
		_, err = json.Marshal(ev)
		require.NoError(p.t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			events = append(events, "ask "+ev.Request.CallID)
			answer(ev)
		case *aycoder.Merged:
			events = append(events, "merged "+ev.File.Path)
		case *aycoder.Conflicted:
			events = append(events, "conflicted "+ev.File.Path)
		case *aycoder.ToolFinished:
			events = append(events, "end "+ev.Call.ID)
		}
	}
	return lastOutputs(&res), events, res
}

const numbers = "one\ntwo\nthree\nfour\nfive\nsix\n"

func TestWhatIsApprovedIsWhatRuns(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers})
	l := p.loop([][]any{calls(swap("1", "f", "two", "TWO")), say("ok")})
	var finished *aycoder.ToolFinished
	var res aycoder.Result
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			e, ok := ev.Request.Plan.File("f")
			require.True(t, ok)
			require.Equal(t, numbers, e.Base)
			require.Equal(t, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n one\n-two\n+TWO\n three\n four\n five\n", ev.Request.Preview)
			data, err := json.Marshal(ev)
			require.NoError(t, err)
			require.NotContains(t, string(data), `"plan"`)
			data, err = json.Marshal(&ev.Request)
			require.NoError(t, err)
			require.Contains(t, string(data), `"plan":{"files":[{"path":"f"`)
			// A change to the host's copy has no effect.
			other, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Delete, Base: numbers})
			require.NoError(t, err)
			*ev.Request.Plan = other
			p.save("f", strings.Replace(numbers, "two", "zwei und two", 1))
			p.save("f", strings.Replace(numbers, "five", "FIVE", 1))
			require.True(t, ev.Allow())
		case *aycoder.ToolFinished:
			finished = ev
		}
	}
	require.Equal(t, "one\nTWO\nthree\nfour\nFIVE\nsix\n", p.read("f"))
	require.Contains(t, lastOutputs(&res)[0], "+FIVE")
	require.Equal(t, edit.OutcomeMerged, finished.Changes.Files[0].Outcome)
	data, err := json.Marshal(finished)
	require.NoError(t, err)
	require.Contains(t, string(data), `"changes":[{"path":"f","kind":"change","outcome":"merged"`)
}

func TestChangesOfTheUserAreEvents(t *testing.T) {
	tests := []struct{ name, saved, want, text, event string }{
		{"merged", strings.Replace(numbers, "five", "FIVE", 1), "one\nTWO\nthree\nfour\nFIVE\nsix\n", "changed and merged", "merged f"},
		{"conflicted", strings.Replace(numbers, "two", "deux", 1), strings.Replace(numbers, "two", "deux", 1), "conflict: The changes were not made", "conflicted f"},
		{"as it was", numbers, strings.Replace(numbers, "two", "TWO", 1), "f: changed.", ""},
		{"the same change", strings.Replace(numbers, "two", "TWO", 1), strings.Replace(numbers, "two", "TWO", 1), "nothing to do", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlans(t, map[string]string{"f": numbers})
			l := p.loop([][]any{calls(swap("1", "f", "two", "TWO")), say("ok")})
			out, events, _ := p.run(l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
				p.save("f", tt.saved)
				a.Allow()
			})
			require.Equal(t, tt.want, p.read("f"))
			require.Contains(t, out[0], tt.text)
			want := []string{"ask 1", "end 1"}
			if tt.event != "" {
				want = []string{"ask 1", tt.event, "end 1"}
			}
			require.Equal(t, want, events)
		})
	}
}

func TestNobodyIsAskedAboutWhatCannotWork(t *testing.T) {
	tests := []struct {
		name string
		plan func(context.Context) error
		want string
	}{
		{"no match", func(context.Context) error { return errors.New("no_match: there is none") }, "no_match: there is none"},
		{"conflict", func(context.Context) error {
			return &edit.ConflictError{Files: []edit.FileResult{{Path: "f", Outcome: edit.OutcomeConflicted, Reason: "so"}}}
		}, "apply plan: f: so"},
		{"panic", func(context.Context) error { panic("boom") }, "the tool broke down: panic: boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlans(t, map[string]string{"f": numbers})
			p.tool.plan = tt.plan
			for _, approver := range []aycoder.Approver{asks, aycoder.SuspendAsks(asks)} {
				l := p.loop([][]any{calls(swap("1", "f", "two", "TWO")), say("ok")}, aycoder.WithApprover(approver))
				out, events, res := p.run(l, aycoder.Input{Prompt: "go"}, func(*aycoder.ApprovalRequested) { t.Error("asked") })
				require.Contains(t, out[0], tt.want)
				require.Equal(t, "end 1", events[len(events)-1])
				require.Equal(t, tt.name == "conflict", len(events) == 2, "%v", events)
				require.Equal(t, aycoder.EndDone, res.End)
			}
			require.Zero(t, p.tool.calls)
		})
	}
}

func TestReviewedPlan(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers, "g": numbers})
	text := "one\nTWO\nthree\nfour\nfive\nSIX\n"
	l := p.loop([][]any{calls(swap("1", "f", numbers, text)), say("ok")})
	out, _, res := p.run(l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		plan := *a.Request.Plan
		other, err := edit.NewPlan(edit.File{Path: "g", Kind: edit.Delete, Base: numbers})
		require.NoError(t, err)
		require.ErrorContains(t, a.AllowPlan(other), "not what is left")
		hunks := plan.Hunks()
		require.Len(t, hunks, 2)
		kept, err := plan.Without(hunks[0].ID)
		require.NoError(t, err)
		// A plan that claims to be a review, but is for another file.
		data, err := json.Marshal(kept)
		require.NoError(t, err)
		var forged edit.Plan
		require.NoError(t, json.Unmarshal([]byte(strings.Replace(string(data), `"path":"f"`, `"path":"g"`, 1)), &forged))
		require.ErrorContains(t, a.AllowPlan(forged), "not what is left")
		kept, err = kept.WithProposed("f", "one\ntwo\nthree\nfour\nfive\nsechs\n")
		require.NoError(t, err)
		require.NoError(t, a.AllowPlan(kept), "the question is still open")
		require.ErrorIs(t, a.Detach().AllowPlan(kept), aycoder.ErrDecided)
	})
	require.Equal(t, "one\ntwo\nthree\nfour\nfive\nsechs\n", p.read("f"))
	require.Equal(t, numbers, p.read("g"))
	require.Contains(t, out[0], "-SIX\n+sechs\n")
	require.Contains(t, out[0], "-TWO\n+two\n")
	require.NoError(t, aycoder.CheckHistory(res.Messages))
}

func TestPlanOfACallWithoutOne(t *testing.T) {
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")})
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			require.ErrorContains(t, a.AllowPlan(edit.Plan{}), "the request has none")
			require.True(t, a.Allow())
		}
	}
}

func TestApproverHasNoPlan(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers})
	blind := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.AllowPlan(edit.Plan{})
	})
	l := p.loop([][]any{calls(swap("1", "f", "two", "TWO")), say("ok")}, aycoder.WithApprover(blind))
	out, _, _ := p.run(l, aycoder.Input{Prompt: "go"}, nil)
	require.Contains(t, out[0], "denied")
	require.Equal(t, numbers, p.read("f"))
}

// A call with edited arguments makes a plan from these.
func TestEditedArgumentsPlanAgain(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers})
	l := p.loop([][]any{calls(swap("1", "f", "two", "TWO")), say("ok")})
	p.run(l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		require.NoError(t, a.AllowWith(json.RawMessage(`{"path":"f","old":"three","new":"THREE"}`)))
	})
	require.Equal(t, strings.Replace(numbers, "three", "THREE", 1), p.read("f"))
}

// A call that the policy allows is not planned beforehand.
func TestAllowedCallsPlanThemselves(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers})
	turn := calls(swap("1", "f", "two", "TWO"), swap("2", "f", "TWO\n", "TWO\nmore\n"))
	l := p.loop([][]any{turn, say("ok")}, aycoder.WithApprover(allow))
	_, events, _ := p.run(l, aycoder.Input{Prompt: "go"}, nil)
	require.Equal(t, []string{"end 1", "end 2"}, events)
	require.Contains(t, p.read("f"), "one\nTWO\nmore\n")
}

// Each question shows what the call would do after the calls before it.
func TestQuestionsAboutTheSameFile(t *testing.T) {
	yes := func(a *aycoder.ApprovalRequested) { a.Allow() }
	tests := []struct {
		name   string
		calls  []any
		events []string
		want   string
	}{
		{"the second needs the first", calls(swap("1", "f", "two", "TWO"), swap("2", "f", "TWO\n", "TWO\nmore\n")),
			[]string{"ask 1", "end 1", "ask 2", "end 2"}, "one\nTWO\nmore\n"},
		{"touching lines", calls(swap("1", "f", "two", "TWO"), swap("2", "f", "three", "THREE")),
			[]string{"ask 1", "end 1", "ask 2", "end 2"}, "one\nTWO\nTHREE\n"},
		{"the second never works", calls(swap("1", "f", "two", "TWO"), swap("2", "f", "two\n", "TWO\nmore\n")),
			[]string{"ask 1", "end 1", "end 2"}, "one\nTWO\nthree\n"},
		{"after a command", calls(use("1", "write", `{"text":"x"}`), swap("2", "f", "two", "TWO"), swap("3", "f", "nine", "ten")),
			[]string{"ask 1", "ask 2", "end 1", "end 2", "end 3"}, "one\nTWO\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlans(t, map[string]string{"f": numbers})
			_, events, _ := p.run(p.loop([][]any{tt.calls, say("ok")}), aycoder.Input{Prompt: "go"}, yes)
			require.ElementsMatch(t, tt.events, events)
			if tt.name != "after a command" { // there the first may end before or after the second question
				require.Equal(t, tt.events, events)
			}
			require.True(t, strings.HasPrefix(p.read("f"), tt.want), p.read("f"))
		})
	}
}

// A call that ends while a plan is made may have changed what the plan is made of.
func TestQuestionIsMadeAgain(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers})
	first, ended := make(chan *aycoder.Approval, 1), make(chan struct{})
	var once sync.Once
	p.tool.read = func(call string) {
		if call == "2" {
			once.Do(func() {
				(<-first).Allow()
				<-ended
			})
		}
	}
	l := p.loop([][]any{calls(swap("1", "f", "two", "TWO"), swap("2", "f", "three", "THREE")), say("ok")})
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			if ev.Request.CallID == "1" {
				first <- ev.Detach()
				break
			}
			require.Contains(t, ev.Request.Plan.Files()[0].Base, "TWO")
			require.True(t, ev.Allow())
		case *aycoder.ToolFinished:
			if ev.Call.ID == "1" {
				close(ended)
			}
		case *aycoder.Conflicted:
			t.Error("conflict")
		}
	}
	require.True(t, strings.HasPrefix(p.read("f"), "one\nTWO\nTHREE\n"), p.read("f"))
}

// Questions about other files are open at the same time.
func TestQuestionsAboutOtherFiles(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers, "g": numbers})
	l := p.loop([][]any{calls(swap("1", "f", "two", "TWO"), swap("2", "g", "two", "TWO"), swap("3", "f", "six", "SIX")), say("ok")})
	var held []*aycoder.Approval
	_, events, _ := p.run(l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		if held = append(held, a.Detach()); a.Request.CallID == "2" {
			for _, h := range held {
				require.True(t, h.Allow())
			}
		}
		if a.Request.CallID == "3" {
			require.Contains(t, a.Request.Plan.Files()[0].Base, "TWO", "the first is done")
			require.True(t, a.Allow())
		}
	})
	require.Equal(t, []string{"ask 1", "ask 2", "end 1", "end 2", "ask 3", "end 3"}, events)
	require.Contains(t, p.read("f"), "SIX")
}

func TestSuspendedPlans(t *testing.T) {
	suspend := aycoder.WithApprover(aycoder.SuspendAsks(byTool{"write": aycoder.Allow()}))
	p := newPlans(t, map[string]string{"f": numbers, "g": "a\nb\n\xff\n"})
	first := p.loop([][]any{calls(
		swap("1", "f", "two", "TWO"), use("2", "write", `{"text":"x"}`), swap("3", "f", "six", "SIX"), swap("4", "f", "TWO", "x"),
		swap("5", "g", "b", "B"),
	)}, suspend)
	_, _, res := p.run(first, aycoder.Input{Prompt: "go"}, nil)
	require.Equal(t, aycoder.EndSuspended, res.End)
	var ids []string
	for _, q := range res.Pending.Requests {
		ids = append(ids, q.CallID)
	}
	require.ElementsMatch(t, []string{"1", "3", "5"}, ids, "the fourth cannot work yet")
	stored, err := json.Marshal(res.Pending)
	require.NoError(t, err)

	resume := func(decide func(*aycoder.ApprovalRequest) aycoder.Verdict) (out, events []string, res aycoder.Result, err error) {
		var pending aycoder.Pending
		require.NoError(t, json.Unmarshal(stored, &pending))
		var decisions []aycoder.Decision
		for i := range pending.Requests {
			q := &pending.Requests[i]
			d := aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: decide(q)}
			data, err := json.Marshal(d)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &d))
			decisions = append(decisions, d)
		}
		second := p.loop([][]any{say("done")}, suspend)
		in := aycoder.Input{Pending: &pending, Decisions: decisions}
		for ev, runErr := range second.Run(t.Context(), in, aycoder.Into(&res)) {
			if runErr != nil {
				return nil, nil, res, runErr
			}
			if m, ok := ev.(*aycoder.Merged); ok {
				events = append(events, "merged "+m.File.Path)
			}
		}
		return lastOutputs(&res), events, res, nil
	}
	_, _, _, err = resume(func(*aycoder.ApprovalRequest) aycoder.Verdict { return aycoder.AllowPlan(edit.Plan{}) })
	require.ErrorContains(t, err, "not what is left of the request's plan")

	p.save("f", "zero\n"+numbers)
	out, events, res, err := resume(func(q *aycoder.ApprovalRequest) aycoder.Verdict {
		if q.CallID != "5" {
			return aycoder.Allow()
		}
		plan, err := q.Plan.WithProposed("g", "a\nC\n\xff\n")
		require.NoError(t, err)
		return aycoder.AllowPlan(plan)
	})
	require.NoError(t, err)
	require.Equal(t, aycoder.EndDone, res.End)
	require.Equal(t, "zero\none\nTWO\nthree\nfour\nfive\nSIX\n", p.read("f"), "what was saved meanwhile is merged")
	require.Equal(t, []string{"merged f", "merged f"}, events)
	require.Equal(t, "a\nC\n\xff\n", p.read("g"))
	require.Contains(t, out[4], "your text (-) and what was approved (+)")
}

// A plan that waits for the end of the run stops with it.
func TestPlanIsCancelled(t *testing.T) {
	p := newPlans(t, map[string]string{"f": numbers})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.tool.plan = func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	var res aycoder.Result
	_, err := collect(p.loop([][]any{calls(swap("1", "f", "two", "TWO"))}).Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, lastOutputs(&res)[0], "not run: the run was cancelled")
	require.Zero(t, p.tool.calls)
}

// A plan may be larger than a preview.
func TestPreviewOfALargePlan(t *testing.T) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&text, "line", i)
	}
	p := newPlans(t, map[string]string{"f": text.String()})
	l := p.loop([][]any{calls(swap("1", "f", text.String(), strings.ReplaceAll(text.String(), "line", "row"))), say("ok")})
	p.run(l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		require.Less(t, len(a.Request.Preview), 65<<10)
		require.True(t, strings.Contains(a.Request.Preview, "-line 0\n") && strings.HasSuffix(a.Request.Preview, "]\n"), "it says that there is more")
		a.Deny("no")
	})
	require.Zero(t, p.tool.calls)
}

// The approved plan stays in the state until the call is settled, and survives encoding
// as JSON.
func TestStateKeepsThePlan(t *testing.T) {
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "a\n\xff", Proposed: "b\n\xff"})
	require.NoError(t, err)
	s, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("go")}})
	decided := &aycoder.Decided{Decision: aycoder.Decision{CallID: "1", Verdict: aycoder.AllowPlan(plan), By: aycoder.ByUser}}
	for _, f := range []aycoder.Fact{swap("1", "f", "a", "b"), &aycoder.MessageDone{Stop: aycoder.StopToolUse}, decided} {
		s, _, err = s.Apply(f)
		require.NoError(t, err)
	}
	data, err := json.Marshal(s)
	require.NoError(t, err)
	var back aycoder.State
	require.NoError(t, json.Unmarshal(data, &back))
	run := back.Outstanding()[0].(*aycoder.RunTool)
	require.Equal(t, plan.Digest(), run.Plan.Digest())
	require.False(t, run.Edited)

	s, _, err = back.Apply(&aycoder.ToolBegan{ID: "1"})
	require.NoError(t, err)
	s, _, err = s.Apply(&aycoder.ToolDone{ID: "1", Output: &aycoder.ToolOutput{ID: "1", Name: "swap", Parts: []aycoder.Part{&aycoder.Text{Text: "x"}}}})
	require.NoError(t, err)
	data, err = json.Marshal(s)
	require.NoError(t, err)
	require.NotContains(t, string(data), `"plan"`)
}

// A rule that names a file which runs code allows the call, and the plan is made before it. If
// there is none, the tool is not called, and a fatal error ends the run as in a call.
func TestPlanOfAnAllowedCall(t *testing.T) {
	allow := aycoder.WithApprover(byTool{"swap": aycoder.Allow().WithRationale(aycoder.Grounds{Named: true})})
	turns := [][]any{calls(swap("1", "conftest.py", "seven", "SEVEN")), calls(swap("2", "conftest.py", "two", "TWO")), say("ok")}
	p := newPlans(t, map[string]string{"conftest.py": numbers})
	out, _, _ := p.run(p.loop(turns, allow), aycoder.Input{Prompt: "go"}, nil)
	require.Equal(t, "no_match: not there once", out[0])
	require.Equal(t, 1, p.tool.calls)

	broken := errors.New("disk is gone")
	p.tool.plan = func(context.Context) error { return aycoder.Fatal(broken) }
	_, err := collect(p.loop(turns, allow).Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.ErrorIs(t, err, broken)
	require.Equal(t, 1, p.tool.calls)
}

// The record of a call that cannot make its plan has the key of the call, and says that it did not run.
func TestAuditOfACallWithoutAPlan(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	log := &auditLog{}
	missing := use("b", "swap", `{"path":"missing","old":"a","new":"b"}`)
	loop := newLoop(t, &fake{turns: [][]any{calls(use("a", "look", `{"text":""}`)), calls(missing), say("ok")}},
		aycoder.WithTools(newPlanTool(t, ws), newTool(t, "look", aycoder.EffectReadOnly, echo)), aycoder.WithApprover(asks), aycoder.WithAudit(log))
	_, err = collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	var got []string
	for _, r := range log.recs {
		if r.Kind == aycoder.AuditEffect {
			got = append(got, r.Key+" "+r.Outcome)
		}
	}
	require.Equal(t, []string{"t1/tool/a ok", "t2/tool/b not_run"}, got)
}

// A rule that answers an open question approves no plan, as it approves none of a later call. A question
// whose plan writes a file that runs code and that the rule does not name stays open.
func TestRuleApprovesNoShownPlan(t *testing.T) {
	for _, more := range []string{"other", "conftest.py"} {
		p := newPlans(t, map[string]string{more: "x\n"})
		require.NoError(t, os.Mkdir(filepath.Join(p.tool.ws.Dir(), "src"), 0o755))
		p.save("src/a", numbers)
		p.save("src/b", numbers)
		tool := &twoFiles{planTool: p.tool, more: more}
		turn := calls(swap("1", "src/a", "two", "TWO"), swap("2", "src/b", "two", "TWO"))
		l := newLoop(t, &fake{turns: [][]any{turn, say("ok")}}, aycoder.WithTools(tool), aycoder.WithApprover(&keeper{}))
		var first *aycoder.Approval
		var open bool
		p.run(l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
			if first == nil {
				first = a.Detach()
				return
			}
			require.NoError(t, first.AllowFor(aycoder.Session, first.Request.Suggested[1]))
			open = a.Deny("no")
		})
		require.Equal(t, more == "conftest.py", open, more)
		require.Contains(t, p.read("src/a"), "TWO")
		require.Equal(t, !open, strings.Contains(p.read("src/b"), "TWO"))
		require.Equal(t, []bool{true, false}[:len(tool.planned)], tool.planned, "only the plan that the user allowed was given to a call")
	}
}

// twoFiles is a planTool whose plan for src/b writes another file, too.
type twoFiles struct {
	*planTool
	more    string
	planned []bool
}

func (p *twoFiles) Plan(ctx context.Context, inv *aycoder.Invocation) (edit.Plan, error) {
	one, err := p.planTool.Plan(ctx, inv)
	if _, ok := one.File("src/b"); err != nil || !ok {
		return one, err
	}
	return edit.NewPlan(append(one.Files(), edit.File{Path: p.more, Kind: edit.Change, Base: "x\n", Proposed: "y\n"})...)
}

func (p *twoFiles) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	p.planned = append(p.planned, inv.Plan != nil)
	return p.planTool.Call(ctx, inv)
}
