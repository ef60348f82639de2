package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/retrieval"
	"github.com/aycoder/aycoder/workspace"
)

func TestTextIsOfThisRun(t *testing.T) {
	quiet := []any{&aycoder.MessageDone{Stop: aycoder.StopEndTurn}}
	refused := &aycoder.AuthError{ModelError: base("key")}
	earlier := []*aycoder.Message{aycoder.User("q"), aycoder.Assistant("earlier")}
	tests := map[string]struct {
		turns [][]any
		in    aycoder.Input
	}{
		"says nothing":  {[][]any{quiet}, aycoder.Input{Messages: earlier, Prompt: "go"}},
		"fails":         {[][]any{{refused}}, aycoder.Input{Messages: earlier, Prompt: "go"}},
		"is not begun":  {nil, aycoder.Input{Messages: earlier}},
		"wrong history": {nil, aycoder.Input{Messages: append(slices.Clip(earlier), nil, aycoder.Assistant("x")), Prompt: "go"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var res aycoder.Result
			_, _ = collect(newLoop(t, &fake{turns: tt.turns}).Run(t.Context(), tt.in, aycoder.Into(&res)))
			require.Empty(t, res.Text())
		})
	}
}

func TestTextWithoutABlockIsKept(t *testing.T) {
	done := &aycoder.MessageDone{Stop: aycoder.StopEndTurn}
	text := func(s string) *aycoder.BlockDone { return &aycoder.BlockDone{Part: &aycoder.Text{Text: s}} }
	delta := func(s string) *aycoder.TextDelta { return &aycoder.TextDelta{Text: s} }
	tests := map[string]struct {
		events []any
		want   []string
	}{
		"no block":               {[]any{delta("a"), delta("b"), done}, []string{"ab"}},
		"no block for the first": {[]any{delta("a"), delta("b"), text("b"), done}, []string{"a", "b"}},
		"no block for the last":  {[]any{delta("a"), text("a"), delta("b"), done}, []string{"a", "b"}},
		"all blocks":             {[]any{delta("a"), text("a"), delta("b"), text("b"), done}, []string{"a", "b"}},
		"no deltas":              {[]any{text("a"), done}, []string{"a"}},
		"asked again":            {[]any{delta("a"), &aycoder.Retrying{}, delta("b"), done}, []string{"b"}},
	}
	texts := func(m *aycoder.Message) (out []string) {
		for _, p := range m.Parts {
			out = append(out, p.(*aycoder.Text).Text)
		}
		return out
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var res aycoder.Result
			_, err := collect(newLoop(t, &fake{turns: [][]any{tt.events}}).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Equal(t, tt.want, texts(res.Messages[1]))
			resp, err := aycoder.Complete(t.Context(), &fake{turns: [][]any{tt.events}}, &aycoder.Request{})
			require.NoError(t, err)
			require.Equal(t, tt.want, texts(resp.Message))
		})
	}
	t.Run("call without a block", func(t *testing.T) {
		lost := []any{&aycoder.ToolDelta{ID: "a", Name: "read", Args: "{}"}, done}
		_, err := collect(newLoop(t, &fake{turns: [][]any{lost}}).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		_, typed := errors.AsType[*aycoder.ModelError](err)
		require.True(t, typed, "%v", err)
		_, err = aycoder.Complete(t.Context(), &fake{turns: [][]any{lost}}, &aycoder.Request{})
		require.Error(t, err)
	})
}

func TestToolCalledDirectlyChecksItsArguments(t *testing.T) {
	type args struct {
		N    int    `json:"n" jsonschema:"minimum=1"`
		Mode string `json:"mode,omitempty" jsonschema:"enum=a,enum=b"`
	}
	ran := ""
	tool, err := aycoder.NewTool("count", "Counts.", func(_ context.Context, inv *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		ran = string(inv.Args)
		return aycoder.TextResult("ok"), nil
	})
	require.NoError(t, err)
	spec := tool.Spec()
	for _, bad := range []string{`{}`, `{"n":0}`, `{"n":1,"mode":"c"}`, `{"n":1,"x":2}`, `[]`, `{"n":`, ``} {
		ran = ""
		_, err := tool.Call(t.Context(), aycoder.NewInvocation("c", "count", json.RawMessage(bad), nil))
		_, typed := errors.AsType[*aycoder.ToolArgsError](err)
		require.True(t, typed, "%s: %v", bad, err)
		require.Empty(t, ran, bad)
		_, err = spec.CheckArgs(json.RawMessage(bad))
		_, typed = errors.AsType[*aycoder.ToolArgsError](err)
		require.True(t, typed, "%s: %v", bad, err)
	}
	for _, good := range []string{`{"n":3}`, `{"n":3.0}`, `{"n":"3"}`} {
		_, err := tool.Call(t.Context(), aycoder.NewInvocation("c", "count", json.RawMessage(good), nil))
		require.NoError(t, err)
		require.JSONEq(t, `{"n":3}`, ran)
		got, err := spec.CheckArgs(json.RawMessage(good))
		require.NoError(t, err)
		require.Equal(t, `{"n":3}`, string(got))
	}
	_, err = tool.Call(t.Context(), nil)
	require.Error(t, err)
	_, err = (&aycoder.ToolSpec{Name: "x", Schema: json.RawMessage(`[]`)}).CheckArgs(nil)
	_, typed := errors.AsType[*aycoder.ConfigError](err)
	require.True(t, typed, "%v", err)
}

func TestMessagesOfOtherFormatsAreRefused(t *testing.T) {
	for _, foreign := range []string{
		`{"role":"user","content":"Hi."}`,
		`{"role":"user","content":[{"type":"text","text":"Hi."}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"user","parts":[{"text":"Hi."}]}`,
		`{"role":"user"}`, `{}`, `{"role":"user","parts":null}`,
	} {
		var m aycoder.Message
		require.Error(t, json.Unmarshal([]byte(foreign), &m), foreign)
		var s aycoder.State
		require.Error(t, json.Unmarshal([]byte(`{"max_turns":1,"max_calls":1,"phase":"model","history":[`+foreign+`]}`), &s), foreign)
	}
}

func TestRepairHistory(t *testing.T) {
	user, bot := aycoder.RoleUser, aycoder.RoleAssistant
	hi := &aycoder.Text{Text: "hi"}
	unknown := "interrupted: the program ended while this call worked; its outcome is unknown, check before doing it again"
	show := func(messages []*aycoder.Message) string {
		var b strings.Builder
		for _, m := range messages {
			b.WriteString(string(m.Role) + ":")
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *aycoder.Text:
					b.WriteString(" " + p.Text)
				case *aycoder.ToolUse:
					b.WriteString(" call " + p.ID)
				case *aycoder.ToolOutput:
					b.WriteString(" out " + p.ID)
					if p.Text() == unknown && p.IsError {
						b.WriteString("?")
					}
				default:
					b.WriteString(" other")
				}
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	tests := []struct {
		name string
		in   []*aycoder.Message
		want string
	}{
		{"last call has no output", []*aycoder.Message{msg(user, hi), msg(bot, callPart("a"))}, "user: hi\nassistant: call a\nuser: out a?\n"},
		{"one of two", []*aycoder.Message{msg(bot, callPart("a"), callPart("b")), msg(user, outPart("b"))}, "assistant: call a call b\nuser: out a? out b\n"},
		{"answered late", []*aycoder.Message{msg(bot, callPart("a")), msg(user, hi), msg(user, outPart("a"))}, "assistant: call a\nuser: out a\nuser: hi\n"},
		{"orphan", []*aycoder.Message{msg(user, outPart("a"), hi)}, "user: hi\n"},
		{"answered twice", []*aycoder.Message{msg(bot, callPart("a")), msg(user, outPart("a"), outPart("a"))}, "assistant: call a\nuser: out a\n"},
		{"id twice", []*aycoder.Message{msg(bot, callPart("a")), msg(user, outPart("a")), msg(bot, hi, callPart("a"))}, "assistant: call a\nuser: out a\nassistant: hi\n"},
		{"nil and empty", []*aycoder.Message{nil, msg(user), msg(user, nil, (*aycoder.Text)(nil)), msg(user, hi)}, "user: hi\n"},
		{"wrong roles", []*aycoder.Message{msg(user, callPart("a"), hi), msg(bot, outPart("a"), hi), msg("tool", hi), msg("", hi)}, "user: hi\nassistant: hi\n"},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := aycoder.RepairHistory(tt.in)
			require.Equal(t, tt.want, show(got))
			require.NoError(t, aycoder.CheckHistory(got))
		})
	}
	valid := []*aycoder.Message{msg(user, hi), msg(bot, callPart("a")), msg(user, outPart("a"))}
	require.Same(t, &valid[0], &aycoder.RepairHistory(valid)[0], "one that is valid is itself")

	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		got := aycoder.RepairHistory(anyHistory(rnd))
		require.NoError(t, aycoder.CheckHistory(got), show(got))
	}
}

// anyHistory returns messages in which nothing is as it should be.
func anyHistory(rnd *rand.Rand) []*aycoder.Message {
	roles := []aycoder.Role{aycoder.RoleUser, aycoder.RoleUser, aycoder.RoleAssistant, aycoder.RoleAssistant, aycoder.RoleSystem, "tool"}
	parts := []func() aycoder.Part{
		func() aycoder.Part { return &aycoder.Text{Text: "t"} },
		func() aycoder.Part { return &aycoder.Thinking{Text: "t"} },
		func() aycoder.Part { return callPart(string(rune('a' + rnd.IntN(4)))) },
		func() aycoder.Part { return outPart(string(rune('a' + rnd.IntN(4)))) },
		func() aycoder.Part { return callPart("") },
		func() aycoder.Part { return (*aycoder.Text)(nil) },
		func() aycoder.Part {
			return &aycoder.ToolOutput{ID: "a", Parts: []aycoder.Part{&aycoder.Thinking{}}}
		},
	}
	var out []*aycoder.Message
	for range rnd.IntN(8) {
		m := &aycoder.Message{Role: roles[rnd.IntN(len(roles))]}
		for range rnd.IntN(4) {
			m.Parts = append(m.Parts, parts[rnd.IntN(len(parts))]())
		}
		out = append(out, m)
	}
	return out
}

// tooBad yields an error and panics when it is left.
func tooBad(err error) aycoder.ModelFunc {
	return func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			yield(nil, err)
			panic("clean-up")
		}
	}
}

func TestNoErrorIsLost(t *testing.T) {
	t.Run("client that panics after its error", func(t *testing.T) {
		key := &aycoder.AuthError{ModelError: base("key")}
		_, err := collect(newLoop(t, tooBad(key)).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.ErrorIs(t, err, key)
	})
	full, gone := errors.New("disk is full"), errors.New("container is gone")
	// The body of the loop is at the first event until everything else has happened. The tools fail at the end.
	last := func(t *testing.T, m aycoder.ModelClient, began chan bool) (err error) {
		release := make(chan struct{})
		fatal := func(name string, err error) aycoder.Tool {
			return newTool(t, name, aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
				began <- true
				<-release
				return "", aycoder.Fatal(err)
			})
		}
		l := newLoop(t, m, aycoder.WithTools(fatal("one", full), fatal("two", gone)))
		for _, e := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			synctest.Wait()
			if release != nil {
				close(release)
				synctest.Wait()
				release = nil
			}
			err = e
		}
		return err
	}
	t.Run("error of the model, then a fatal one of a tool", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began, key := make(chan bool), &aycoder.AuthError{ModelError: base("key")}
			m := &fake{turns: [][]any{{use("a", "one", `{"text":""}`), func(context.Context) { <-began }, key}}}
			err := last(t, m, began)
			require.True(t, errors.Is(err, full) && errors.Is(err, key), "%v", err)
		})
	})
	t.Run("two fatal errors", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &fake{turns: [][]any{calls(use("a", "one", `{"text":""}`), use("b", "two", `{"text":""}`))}}
			err := last(t, m, make(chan bool, 2))
			require.True(t, errors.Is(err, full) && errors.Is(err, gone), "%v", err)
		})
	})
}

func TestInvalidTextInMessagesIsMadeValid(t *testing.T) {
	bad := "a\xffb"
	history := []*aycoder.Message{
		msg(aycoder.RoleUser, &aycoder.Text{Text: bad}, &aycoder.Media{Type: bad, URL: bad}),
		msg(aycoder.RoleAssistant, &aycoder.Thinking{Text: bad, Signature: "s"}, &aycoder.ToolUse{ID: bad, Name: bad, Args: json.RawMessage(`{"x":"` + bad + `"}`)}),
		msg(aycoder.RoleUser, &aycoder.ToolOutput{ID: bad, Name: bad, Parts: []aycoder.Part{&aycoder.Text{Text: bad}}}),
		aycoder.Assistant("fine"),
	}
	m := &fake{turns: [][]any{say("ok"), say("ok")}}
	l := newLoop(t, m)
	var res aycoder.Result
	_, err := collect(l.Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	_, err = json.Marshal(res.Messages)
	require.NoError(t, err, "the history can be stored")
	require.Same(t, history[3], res.Messages[3], "what is valid stays itself")
	require.Equal(t, bad, history[0].Text(), "the caller's messages are not changed")
	require.Equal(t, "a\uFFFDb", res.Messages[0].Text())

	_, err = collect(l.Turn(t.Context(), &aycoder.Request{Messages: append(history[:3:3], aycoder.User(bad))}, nil))
	require.NoError(t, err)
	for _, req := range m.reqs {
		for _, msg := range req.Messages {
			data, err := json.Marshal(msg)
			require.NoError(t, err)
			require.True(t, utf8.Valid(data))
		}
	}
}

func TestNilAndZeroAreErrors(t *testing.T) {
	ok := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) { yield(&aycoder.MessageDone{}, nil) }
	})
	l := newLoop(t, ok)
	build := func(opts ...aycoder.Option) error {
		_, err := aycoder.New(ok, opts...)
		return err
	}
	run := func(l *aycoder.Loop, ctx context.Context, opts ...aycoder.RunOption) error {
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}, opts...))
		return err
	}
	turn := func(l *aycoder.Loop, ctx context.Context) error {
		_, err := collect(l.Turn(ctx, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}, nil))
		return err
	}
	complete := func(ctx context.Context, m aycoder.ModelClient, req *aycoder.Request) error {
		_, err := aycoder.Complete(ctx, m, req)
		return err
	}
	var none context.Context
	_, tool := aycoder.NewTool("t", "T.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) { return nil, nil }, nil)
	nothing := func(aycoder.ModelClient) aycoder.ModelClient { return nil }
	errs := map[string]error{
		"option":                build(nil),
		"model middleware":      build(aycoder.WithModelMiddleware(nil)),
		"tool middleware":       build(aycoder.WithToolMiddleware(nil)),
		"context middleware":    build(aycoder.WithContextMiddleware(nil)),
		"middleware gives nil":  build(aycoder.WithModelMiddleware(nothing)),
		"tool option":           tool,
		"run option":            run(l, t.Context(), nil),
		"context of Run":        run(l, none),
		"context of Turn":       turn(l, none),
		"context of Complete":   complete(none, ok, &aycoder.Request{}),
		"model of Complete":     complete(t.Context(), nil, &aycoder.Request{}),
		"request of Complete":   complete(t.Context(), ok, nil),
		"zero Loop runs":        run(&aycoder.Loop{}, t.Context()),
		"nil Loop runs":         run(nil, t.Context()),
		"zero Loop takes turns": turn(&aycoder.Loop{}, t.Context()),
	}
	for name, err := range errs {
		_, typed := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, typed, "%s: %v", name, err)
	}
	require.Zero(t, new(aycoder.Loop).StartInput())
}

// Nothing crashes at a nil option: it is refused where there is an error to say so.
func TestNilOptions(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	require.NoError(t, os.WriteFile(filepath.Join(ws.Dir(), "a"), []byte("ours\n"), 0o600))
	plan, err := edit.NewPlan(edit.File{Path: "a", Kind: edit.Change, Base: "base\n", Proposed: "theirs\n"})
	require.NoError(t, err)
	_, err = ws.Apply(t.Context(), plan, workspace.WithMerge(nil))
	require.ErrorAs(t, err, new(*edit.ConflictError))
	require.Empty(t, diff.Compare(nil, nil, nil).Hunks)
	require.NoError(t, policy.NewAuditLog(io.Discard, nil).Audit(t.Context(), &aycoder.AuditRecord{}))
	require.NotNil(t, script.New().With(nil))
	require.NoError(t, remote.Serve(t.Context(), strings.NewReader(""), io.Discard, ws, nil, nil))
	_, err = journal.Dir(t.TempDir(), nil)
	require.ErrorContains(t, err, "option is nil")
	_, err = retrieval.New(t.Context(), nil)
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
	_, err = lsp.New(ws, nil)
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
}

func TestToolThatWasNotOfferedDoesNotRun(t *testing.T) {
	ran := 0
	count := func(context.Context, string) (string, error) { ran++; return "ran", nil }
	tools := aycoder.WithTools(newTool(t, "safe", aycoder.EffectReadOnly, echo), newTool(t, "secret", aycoder.EffectReadOnly, count))
	hide := aycoder.WithContext(aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req := *in.Base
		req.Messages = in.Messages
		if in.Turn < 3 { // from then on it is offered
			req.Tools = req.Tools[:1]
		}
		return &req, nil
	}))
	m := &fake{turns: [][]any{
		calls(use("a", "secret", `{"text":""}`), use("b", "safe", `{"text":"x"}`)), calls(use("c", "secret", `{"text":""}`)),
		calls(use("d", "secret", `{"text":""}`)), say("ok"),
	}}
	var res aycoder.Result
	events, err := collect(newLoop(t, m, tools, hide).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	require.NoError(t, err)
	require.Equal(t, 1, ran)
	out := func(i, n int) string { return res.Messages[i].Parts[n].(*aycoder.ToolOutput).Text() }
	require.Contains(t, out(2, 0), "no such tool; there are safe")
	require.NotContains(t, out(2, 0), "secret,")
	require.Equal(t, "got x", out(2, 1))
	require.Contains(t, out(4, 0), "no such tool")
	require.Equal(t, "ran", out(6, 0))
	missing := 0
	for _, ev := range events {
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			if _, ok := errors.AsType[*aycoder.ToolNotFoundError](fin.Err); ok {
				missing++
			}
		}
	}
	require.Equal(t, 2, missing)

	ran = 0
	turn := &fake{turns: [][]any{calls(use("a", "secret", `{"text":""}`))}}
	l := newLoop(t, turn, tools)
	safe := newTool(t, "safe", aycoder.EffectReadOnly, echo).Spec()
	var tr aycoder.TurnResult
	_, err = collect(l.Turn(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}, Tools: []*aycoder.ToolSpec{&safe}}, &tr))
	require.NoError(t, err)
	require.Zero(t, ran)
}

func TestUnchangedArgumentsAreNotTold(t *testing.T) {
	same := []string{`{"text":"y","n":2}`, `{ "n": 2, "text": "y" }`}
	type args struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	}
	newWrite := func() aycoder.Tool {
		tool, err := aycoder.NewTool("write", "Writes.", func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
			return aycoder.TextResult(in.Text), nil
		}, aycoder.WithEffect(aycoder.EffectWrite))
		require.NoError(t, err)
		return tool
	}
	outputs := func(t *testing.T, call string, a aycoder.Approver, answer func(*aycoder.ApprovalRequested)) string {
		m := &fake{turns: [][]any{calls(use("b", "write", call)), say("ok")}}
		var res aycoder.Result
		for ev, err := range newLoop(t, m, aycoder.WithTools(newWrite()), aycoder.WithApprover(a)).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				answer(q)
			}
		}
		return lastOutputs(&res)[0]
	}
	for _, text := range same {
		edited := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.AllowWith(json.RawMessage(text))
		})
		for _, call := range []string{same[0], `{"text":"y","n":"2"}`, `{"text":"y","n":2.0}`} {
			require.Equal(t, "y", outputs(t, call, edited, nil))
			require.Equal(t, "y", outputs(t, call, asks, func(q *aycoder.ApprovalRequested) {
				require.NoError(t, q.AllowWith(json.RawMessage(text)))
			}))
		}
	}
	require.Contains(t, outputs(t, same[0], asks, func(q *aycoder.ApprovalRequested) {
		require.NoError(t, q.AllowWith(json.RawMessage(`{"text":"z","n":2}`)))
	}), "changed its arguments")
}

func TestAnswerOverItsBoundIsKept(t *testing.T) {
	text := strings.Repeat("x", 1000)
	endless := func(events ...aycoder.ModelEvent) aycoder.ModelFunc {
		return func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				for i := 0; ; i = min(i+1, len(events)-1) {
					if !yield(events[i], nil) {
						return
					}
				}
			}
		}
	}
	tests := map[string]struct {
		m     aycoder.ModelClient
		parts int
	}{
		"text":           {endless(&aycoder.TextDelta{Text: text}), 1},
		"block and text": {endless(&aycoder.BlockDone{Part: &aycoder.Text{Text: "whole"}}, &aycoder.TextDelta{Text: text}), 2},
		"a call and text": {endless(&aycoder.BlockDone{Part: &aycoder.ToolUse{ID: "a", Name: "write", Args: json.RawMessage(`{"text":""}`)}},
			&aycoder.TextDelta{Text: text}), 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			write := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) {
				t.Error("a call of an answer that was cut off ran")
				return "", nil
			})
			var res aycoder.Result
			_, err := collect(newLoop(t, tt.m, aycoder.WithLimits(aycoder.Limits{Response: 100_000}), aycoder.WithTools(write), aycoder.WithApprover(allow)).
				Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			limit, ok := errors.AsType[*aycoder.LimitError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, int64(100_000), limit.Max)
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			require.Len(t, res.Messages[1].Parts, tt.parts)
			require.Greater(t, len(res.Messages[1].Text()), 98_000)
			require.LessOrEqual(t, len(res.Messages[1].Text()), 100_000)
		})
	}
	t.Run("small deltas count by what they hold", func(t *testing.T) {
		var events []any
		for range 5000 {
			events = append(events, &aycoder.TextDelta{Text: "word "})
		}
		events = append(events, textDone(strings.Repeat("word ", 5000)), &aycoder.MessageDone{Stop: aycoder.StopEndTurn})
		_, err := collect(newLoop(t, &fake{turns: [][]any{events}}, aycoder.WithLimits(aycoder.Limits{Response: 25_100})).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err)
	})
}
