package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// An auditLog keeps the records that it gets, unless fail returns an error.
type auditLog struct {
	mu   sync.Mutex
	recs []*aycoder.AuditRecord
	fail func(*aycoder.AuditRecord) error
}

func (l *auditLog) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(rec); err != nil {
			return err
		}
	}
	l.recs = append(l.recs, rec)
	return nil
}

// short returns the records in a few words each, and checks that they are in order.
func (l *auditLog) short(t testing.TB) (out []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range l.recs {
		require.Equal(t, int64(i+1), r.Seq)
		require.NotEmpty(t, r.Run)
		require.False(t, r.Time.IsZero())
		words := []string{string(r.Kind), r.CallID, r.Verdict, string(r.By), r.Rule, r.Scope, r.Outcome, r.ErrorKind, r.Event}
		out = append(out, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
	}
	return out
}

func (l *auditLog) has(kind aycoder.AuditKind, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.recs, func(r *aycoder.AuditRecord) bool { return r.Kind == kind && r.CallID == id })
}

// settle answers each question of a run by the id of its call.
func settle(t testing.TB, l *aycoder.Loop, in aycoder.Input, answer func(*aycoder.ApprovalRequested)) aycoder.Result {
	t.Helper()
	var res aycoder.Result
	for ev, err := range l.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			answer(a)
		}
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	return res
}

func TestAuditTellsEverythingInOrder(t *testing.T) {
	log := &auditLog{}
	write := newTool(t, "write", aycoder.EffectWrite, func(_ context.Context, s string) (string, error) {
		require.True(t, log.has(aycoder.AuditDecision, s), "%s starts after its decision was recorded", s)
		return s, nil
	})
	read := newTool(t, "read", aycoder.EffectReadOnly, func(context.Context, string) (string, error) { return "", errors.New("lost it") })
	m := &fake{turns: [][]any{
		calls(use("r", "read", `{"text":"r"}`)), calls(use("a", "write", `{"text":"a"}`)), calls(use("b", "write", `{"text":"b"}`)),
		calls(use("c", "write", `{"text":"c"}`)), calls(use("d", "none", `{}`)), calls(use("e", "write", `{}`)),
		calls(use("f", "edit", `{"path":"x"}`)), say("ok"),
	}}
	l := newLoop(t, m, aycoder.WithTools(read, write, pathTool(t)), aycoder.WithAudit(log),
		aycoder.WithApprover(&keeper{byTool: byTool{"edit": aycoder.Deny("no edits")}}))
	settle(t, l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		switch a.Request.CallID {
		case "a":
			require.True(t, a.Allow())
		case "b":
			require.True(t, a.Deny("no"))
		case "c":
			require.NoError(t, a.AllowFor(aycoder.Session, a.Request.Suggested[0]))
		}
	})
	got := log.short(t)
	const rule = "rule c allow user write session ok" // it is kept while the call works
	if i := slices.Index(got, rule); i > 0 && got[i-1] == "effect c ok" {
		got[i-1], got[i] = got[i], got[i-1]
	}
	require.Equal(t, []string{
		"decision r allow policy", "effect r error error",
		"request a", "decision a allow user", "effect a ok",
		"request b", "decision b deny user",
		"request c", "decision c allow user", rule, "effect c ok",
		"effect d not_run no_such_tool",
		"effect e not_run invalid_arguments",
		"decision f deny policy", "security f denied",
	}, got)
	rec := log.recs[slices.IndexFunc(log.recs, func(r *aycoder.AuditRecord) bool { return r.CallID == "f" })]
	require.Equal(t, "x", rec.Subject)
	require.Equal(t, "t7/ask/f", rec.Key)
	require.Len(t, rec.Digest, 64)
	data, err := json.Marshal(rec)
	require.NoError(t, err)
	require.NotContains(t, string(data), `"path"`, "arguments are not told")
}

// If a record cannot be written, nothing that writes runs until the auditor has caught
// up, and then no record is missing.
func TestAuditThatFailsStopsWrites(t *testing.T) {
	log := &auditLog{}
	var up atomic.Bool
	log.fail = func(r *aycoder.AuditRecord) error {
		if !up.Load() && r.CallID == "b" {
			return errors.New("disk is full")
		}
		return nil
	}
	var ran []string
	note := func(_ context.Context, s string) (string, error) { ran = append(ran, s); return s, nil }
	m := &fake{turns: [][]any{
		calls(use("a", "write", `{"text":"a"}`)), calls(use("b", "write", `{"text":"b"}`)),
		calls(use("c", "write", `{"text":"c"}`)), calls(use("r", "read", `{"text":"r"}`)), calls(use("d", "write", `{"text":"d"}`)), say("ok"),
	}}
	l := newLoop(t, m, aycoder.WithAudit(log), aycoder.WithApprover(allow),
		aycoder.WithTools(newTool(t, "write", aycoder.EffectWrite, note), newTool(t, "read", aycoder.EffectReadOnly, note)))
	var failed []error
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			if ev.Err != nil {
				failed = append(failed, ev.Err)
				require.Contains(t, ev.Output.Text(), "approval was not recorded: disk is full")
			}
		case *aycoder.TurnFinished:
			up.Store(ev.Turn >= 4)
		}
	}
	require.Equal(t, []string{"a", "r", "d"}, ran)
	require.Len(t, failed, 2)
	e, ok := errors.AsType[*aycoder.AuditError](failed[0])
	require.True(t, ok)
	require.Equal(t, "b", e.CallID)
	require.Equal(t, []string{
		"decision a allow policy", "effect a ok", "decision b allow policy", "effect b not_run not_recorded",
		"decision c allow policy", "effect c not_run not_recorded", "decision r allow policy", "effect r ok",
		"decision d allow policy", "effect d ok",
	}, log.short(t))
}

func TestAuditorThatPanics(t *testing.T) {
	ran := 0
	write := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) { ran++; return "", nil })
	l := newLoop(t, &fake{turns: [][]any{calls(use("a", "write", `{"text":"a"}`)), say("ok")}}, aycoder.WithTools(write),
		aycoder.WithApprover(allow),
		aycoder.WithAudit(&auditLog{fail: func(*aycoder.AuditRecord) error { panic("x") }}))
	var res aycoder.Result
	_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Zero(t, ran)
	require.Contains(t, lastOutputs(&res)[0], "auditor panicked: x")
}

// slowAuditor waits for its context.
type slowAuditor struct{}

func (slowAuditor) Audit(ctx context.Context, _ *aycoder.AuditRecord) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCancelDoesNotWaitForTheAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := asking(t, [][]any{calls(use("a", "write", `{"text":"a"}`))}, aycoder.WithAudit(slowAuditor{}),
			aycoder.WithApprover(allow), aycoder.WithLimits(aycoder.Limits{Grace: 50 * time.Millisecond}))
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		var res aycoder.Result
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.ErrorIs(t, err, context.Canceled)
		require.LessOrEqual(t, time.Since(start), time.Second+100*time.Millisecond)
		require.Equal(t, []string{"not run: the run was cancelled"}, lastOutputs(&res))
	})
}

func TestAbandonedToolsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &auditLog{}
		ctx, cancel := context.WithCancel(t.Context())
		hang := newTool(t, "hang", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			cancel()
			<-time.After(time.Hour)
			return "", nil
		})
		l := newLoop(t, &fake{turns: [][]any{calls(use("a", "hang", `{"text":"a"}`))}}, aycoder.WithTools(hang), aycoder.WithAudit(log))
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{"decision a allow policy", "effect a abandoned cancelled"}, log.short(t))
		<-time.After(2 * time.Hour) // in the bubble: the tool ends, and its late result has no effect
		require.Len(t, log.short(t), 2)
	})
}

func TestSecurityEvents(t *testing.T) {
	log := &auditLog{}
	refuse := newTool(t, "refuse", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
		return "", errors.New("outside_workspace: /etc/passwd is not in the workspace")
	})
	alert, err := aycoder.NewTool("alert", "Alerts.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		inv.Alert("masked_secret", "one key")
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	aycoder.NewInvocation("1", "alert", nil, nil).Alert("x", "nobody listens")
	l := newLoop(t, &fake{turns: [][]any{calls(use("a", "refuse", `{"text":"a"}`)), calls(use("b", "alert", `{}`)), say("ok")}},
		aycoder.WithTools(refuse, alert), aycoder.WithAudit(log))
	_, err = collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
	require.Equal(t, []string{
		"decision a allow policy", "effect a error outside_workspace", "security a outside_workspace",
		"decision b allow policy", "security b masked_secret", "effect b ok",
	}, log.short(t))
}

// keeper is an approver that asks about each call that no rule covers, and keeps rules. They
// are "tool" or "tool:path", with the patterns of package path.
type keeper struct {
	auditLog
	byTool
	rules []string
	scope aycoder.Scope
	err   error
}

func (k *keeper) Decide(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := aycoder.Grounds{Class: "some", Reasons: []string{"is one of some"}, Suggested: []string{call.Name}}
	var args pathArgs
	if _ = json.Unmarshal(call.Args, &args); args.Path != "" {
		g.Suggested = []string{call.Name + ":" + args.Path, call.Name + ":" + path.Dir(args.Path) + "/*"}
	}
	for _, r := range k.rules {
		if ok, _ := path.Match(r, g.Suggested[0]); ok {
			return aycoder.Allow().WithRationale(g)
		}
	}
	return k.byTool.Decide(ctx, call, spec).WithRationale(g)
}

func (k *keeper) KeepRule(_ context.Context, scope aycoder.Scope, rule string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.scope, k.rules = scope, append(slices.Clip(k.rules), rule)
	return nil
}

func TestApproverKeepsRules(t *testing.T) {
	turns := [][]any{calls(editOf("1", "src/a.go"), editOf("2", "src/b.go"), editOf("3", "doc/c.md")), say("ok")}
	for _, scope := range []aycoder.Scope{aycoder.Session, aycoder.Saved} {
		k, log := &keeper{}, &auditLog{}
		l := asking(t, turns, aycoder.WithApprover(k), aycoder.WithAudit(log))
		var asked []string
		res := settle(t, l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
			require.Equal(t, "some", a.Request.Class)
			require.Equal(t, []string{"is one of some"}, a.Request.Reasons)
			if asked = append(asked, a.Request.Subject); a.Request.Subject != "src/a.go" {
				a.Deny("no")
				return
			}
			require.NoError(t, a.AllowFor(scope, a.Request.Suggested[1]))
		})
		require.Equal(t, []string{"src/a.go", "doc/c.md"}, asked)
		require.Equal(t, []string{"edited src/a.go", "edited src/b.go", "the user refused this call: no"}, lastOutputs(&res))
		require.Equal(t, scope, k.scope)
		require.Contains(t, log.short(t), "rule 1 allow user edit:src/* "+scope.String()+" ok")
		require.Equal(t, log.short(t), k.short(t), "the approver is told, too")
	}
}

func TestRuleThatCannotBeKept(t *testing.T) {
	k := &keeper{err: errors.New("disk is full")}
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")}, aycoder.WithApprover(k))
	res := settle(t, l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		err := a.AllowFor(aycoder.Saved, a.Request.Suggested[0])
		e, ok := errors.AsType[*aycoder.RuleError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "keep rule edit:a.go (saved): disk is full", e.Error())
		require.False(t, a.Allow(), "the call was allowed all the same")
	})
	require.Equal(t, []string{"edited a.go"}, lastOutputs(&res))
}

// An approver that keeps no rules is given none: the question stays open.
func TestRulesTakeAKeeper(t *testing.T) {
	suggests := aycoder.Ask().WithRationale(aycoder.Grounds{Suggested: []string{"edit"}})
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")}, aycoder.WithApprover(byTool{"edit": suggests}))
	res := settle(t, l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		for scope, want := range map[aycoder.Scope]string{
			aycoder.Session: "keeps no rules", aycoder.Saved: "keeps no rules", 7: "no such scope: 7",
		} {
			err := a.AllowFor(scope, "edit")
			require.ErrorContains(t, err, want)
			_, ok := errors.AsType[*aycoder.ConfigError](err)
			require.True(t, ok, "%T", err)
		}
		require.NoError(t, a.AllowFor(aycoder.Once, ""), "the question was still open")
	})
	require.Equal(t, []string{"edited a.go"}, lastOutputs(&res))
}

// A rule that is kept while a question is being prepared answers that question, at
// whatever stage it is.
func TestRuleMadeWhileAQuestionComesUp(t *testing.T) {
	for range 50 {
		k := &keeper{}
		l := asking(t, [][]any{calls(editOf("1", "src/a.go"), editOf("2", "src/b.go"), editOf("3", "src/c.go"), editOf("4", "src/d.go")), say("ok")},
			aycoder.WithApprover(k))
		n := 0
		res := settle(t, l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
			n++
			require.NoError(t, a.AllowFor(aycoder.Session, a.Request.Suggested[1]))
		})
		require.Equal(t, 1, n)
		require.Len(t, lastOutputs(&res), 4)
	}
}

func TestHeadlessGoesOn(t *testing.T) {
	k := &keeper{}
	l := asking(t, [][]any{calls(editOf("1", "a.go")), say("ok")}, aycoder.WithApprover(aycoder.DenyAsks(k)))
	res := settle(t, l, aycoder.Input{Prompt: "go"}, func(*aycoder.ApprovalRequested) { t.Error("nobody is there") })
	require.Equal(t, aycoder.EndDone, res.End)
	require.Equal(t, []string{"approval_required: nobody can be asked here (is one of some); " +
		"the host can allow it with the rule edit:a.go"}, lastOutputs(&res))
	require.Equal(t, []string{"decision 1 deny policy", "security 1 denied"}, k.short(t), "the approver inside is told")
}

func untrustedTool(t testing.TB) aycoder.Tool {
	tool, err := aycoder.NewTool("fetch", "Fetches.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return &aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Text{Text: "a page"}}, Untrusted: true}, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

// The approver learns of untrusted text before the model has read it, and knows of it
// in the next process, too.
func TestUntrustedOutput(t *testing.T) {
	k := &keeper{}
	knew := false
	m := aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) seq {
		if len(req.Messages) > 1 {
			k.mu.Lock()
			knew = slices.ContainsFunc(k.recs, func(r *aycoder.AuditRecord) bool { return r.Untrusted })
			k.mu.Unlock()
		}
		f := &fake{turns: [][]any{calls(use("a", "fetch", `{}`))}}
		if len(req.Messages) > 1 {
			f.turns = [][]any{say("read")}
		}
		return f.Stream(t.Context(), req)
	})
	var res aycoder.Result
	_, err := collect(newLoop(t, m, aycoder.WithApprover(k), aycoder.WithTools(untrustedTool(t))).
		Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.True(t, knew)

	data, err := json.Marshal(res.Messages)
	require.NoError(t, err)
	var stored []*aycoder.Message
	require.NoError(t, json.Unmarshal(data, &stored))
	require.True(t, stored[2].Parts[0].(*aycoder.ToolOutput).Untrusted)
	for i, in := range []aycoder.Input{{Messages: stored, Prompt: "more"}, {Prompt: "anew"}} {
		log := &auditLog{}
		l := newLoop(t, &fake{turns: [][]any{say("ok")}}, aycoder.WithAudit(log))
		_, err = collect(l.Run(t.Context(), in))
		require.NoError(t, err)
		require.Equal(t, [][]string{{"security untrusted_history"}, nil}[i], log.short(t))
	}
}

// dirTool is a shell that stays in the directory in which the last command ended, and
// shows where a command starts. No command ends before three were shown.
type dirTool struct {
	aycoder.Tool
	dir   atomic.Pointer[string]
	ids   sync.Map // of the calls that were shown
	shown atomic.Int32
	three chan bool
}

func newDirTool(t testing.TB) *dirTool {
	f := &dirTool{three: make(chan bool)}
	f.dir.Store(new("a"))
	tool, err := aycoder.NewTool("shell", "Runs.", func(_ context.Context, _ *aycoder.Invocation, in struct {
		Command string `json:"command"`
	}) (*aycoder.ToolResult, error) {
		<-f.three
		if to, ok := strings.CutPrefix(in.Command, "cd "); ok {
			f.dir.Store(&to)
		}
		return aycoder.TextResult("ran " + in.Command + " in " + *f.dir.Load()), nil
	}, aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectCommand, "command"))
	require.NoError(t, err)
	f.Tool = tool
	return f
}

func (f *dirTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	if _, again := f.ids.LoadOrStore(inv.ID, true); !again && f.shown.Add(1) == 3 {
		defer close(f.three)
	}
	return "in " + *f.dir.Load(), nil
}

func shell(id, command string) *aycoder.BlockDone {
	return use(id, "shell", fmt.Sprintf(`{"command":%q}`, command))
}

func TestApprovalIsForWhatWasShown(t *testing.T) {
	log := &auditLog{}
	l := newLoop(t, &fake{turns: [][]any{calls(shell("1", "make"), shell("2", "cd b"), shell("3", "make")), calls(shell("4", "make")), say("ok")}},
		aycoder.WithTools(newDirTool(t)), aycoder.WithApprover(asks), aycoder.WithAudit(log))
	var shown []string
	res := settle(t, l, aycoder.Input{Prompt: "go"}, func(a *aycoder.ApprovalRequested) {
		shown = append(shown, a.Request.Preview)
		require.True(t, a.Allow())
	})
	require.Equal(t, []string{"in a", "in a", "in a", "in b"}, shown)
	require.Equal(t, []string{
		"ran make in a", "ran cd b in b",
		"tool shell: not run, as what it would do has changed since it was approved; make the call again", "ran make in b",
	}, lastOutputs(&res))
	require.Contains(t, log.short(t), "effect 3 not_run stale_approval")
}

// The policy decides again about a command that it allowed if the command would now
// start in another directory.
func TestPolicySeesWhereACommandStarts(t *testing.T) {
	tool := newDirTool(t)
	var asked atomic.Int32
	approver := aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if asked.Add(1); *tool.dir.Load() == ".git" && call.ID == "3" {
			return aycoder.Ask()
		}
		return aycoder.Allow()
	})
	l := newLoop(t, &fake{turns: [][]any{calls(shell("1", "cd .git"), shell("2", "pwd"), shell("3", "make")), say("ok")}},
		aycoder.WithTools(tool), aycoder.WithApprover(approver))
	res := settle(t, l, aycoder.Input{Prompt: "go"}, func(*aycoder.ApprovalRequested) { t.Error("nobody is asked") })
	require.Equal(t, []string{
		"ran cd .git in .git", "ran pwd in .git",
		"tool shell: not run, as what it would do has changed since it was approved; make the call again",
	}, lastOutputs(&res))
	require.Equal(t, int32(5), asked.Load())
}
