package aycoder_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// An output that is cut for the model is given away whole before, with what middleware has made of it.
func TestWholeOutputsAreKept(t *testing.T) {
	long := strings.Repeat("0123456789\n", 1000) // 11,000 bytes
	for name, tt := range map[string]struct {
		res      *aycoder.ToolResult
		err      error
		limit    int
		pointer  string
		kept     string // "" if nothing is kept
		contains []string
		without  string
	}{
		"short":            {res: aycoder.TextResult("short"), contains: []string{"short"}},
		"ends":             {res: &aycoder.ToolResult{Parts: text(long + "END"), Head: 20, Tail: 10}, pointer: "P1", kept: long + "END", contains: []string{"0123456789\n012345678\n[10973 bytes are left out here]\n456789\nEND", "P1"}},
		"ends of the long": {res: &aycoder.ToolResult{Parts: text("a note\n", long, "behind"), Head: 20, Tail: 10}, pointer: "P2", kept: "a note\n" + long + "behind", contains: []string{"a note\n", "left out here", "behind", "P2"}},
		"ends of all":      {res: &aycoder.ToolResult{Parts: text("whole"), Head: 3, Tail: 2}, contains: []string{"whole"}},
		"negative":         {res: &aycoder.ToolResult{Parts: text(long), Head: -5, Tail: 20}, pointer: "P3", kept: long, contains: []string{"\n012345678", "P3"}},
		"limit":            {res: aycoder.TextResult(long), limit: 2000, pointer: "P4", kept: long, contains: []string{"left out here", "P4"}},
		"error":            {err: fmt.Errorf("it failed: %s", long), limit: 2000, pointer: "P5", kept: "it failed: " + long, contains: []string{"it failed", "P5"}},
		"not kept":         {res: aycoder.TextResult(long), limit: 2000, kept: long, contains: []string{"left out here"}},
		"panic":            {res: aycoder.TextResult(long), limit: 2000, pointer: "panic", kept: long, contains: []string{"left out here"}, without: "panic"},
		"long pointer":     {res: aycoder.TextResult(long), limit: 2000, pointer: strings.Repeat("p", 5000), kept: long, contains: []string{"pppp…"}},
		"huge":             {res: &aycoder.ToolResult{Parts: text(strings.Repeat(long, 500)), Head: 10}, pointer: "P6", kept: "4 MiB", contains: []string{"P6"}},
		"not UTF-8":        {res: &aycoder.ToolResult{Parts: text("a\xff" + long), Head: 100}, pointer: "P7", kept: "a\uFFFD" + long, contains: []string{"a\uFFFD"}},
	} {
		t.Run(name, func(t *testing.T) {
			var whole *aycoder.ToolOutput
			room := -1
			tool, err := aycoder.NewTool("print", "Prints.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
				room = inv.Whole
				return tt.res, tt.err
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			keep := func(_ context.Context, out *aycoder.ToolOutput) string {
				whole = out
				if tt.pointer == "panic" {
					panic("kept")
				}
				return tt.pointer
			}
			for _, keeps := range []bool{true, false} {
				opts := []aycoder.Option{aycoder.WithTools(tool)}
				if tt.limit > 0 {
					opts = append(opts, aycoder.WithLimits(aycoder.Limits{ToolOutput: tt.limit}))
				}
				if keeps {
					opts = append(opts, aycoder.WithWholeOutputs(keep))
				}
				l, err := aycoder.New(script.New(script.Call("print", map[string]any{}), script.Say("ok")), opts...)
				require.NoError(t, err)
				whole = nil
				var res aycoder.Result
				for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
					require.NoError(t, err)
				}
				out := res.Messages[2].Parts[0].(*aycoder.ToolOutput)
				if tt.limit > 0 {
					require.LessOrEqual(t, len(out.Text()), tt.limit)
				}
				if !keeps {
					require.Zero(t, room)
					require.Nil(t, whole)
					if tt.pointer != "" {
						require.NotContains(t, out.Text(), tt.pointer)
					}
					continue
				}
				require.Equal(t, 4<<20, room)
				for _, s := range tt.contains {
					require.Contains(t, out.Text(), s)
				}
				if tt.without != "" {
					require.NotContains(t, out.Text(), tt.without)
				}
				switch {
				case tt.kept == "":
					require.Nil(t, whole)
				case name == "huge":
					require.LessOrEqual(t, len(whole.Text()), 4<<20)
					require.Greater(t, len(whole.Text()), 4<<20-100)
				default:
					require.Equal(t, tt.kept, whole.Text())
					require.Equal(t, out.ID, whole.ID)
				}
			}
		})
	}
	_, err := aycoder.New(script.New(), aycoder.WithWholeOutputs(nil))
	require.Error(t, err)
}

func text(all ...string) (parts []aycoder.Part) {
	for _, s := range all {
		parts = append(parts, &aycoder.Text{Text: s})
	}
	return parts
}

// A call knows which earlier calls the model saw whole when it made the call, whoever left the others
// out: the builder of the host, or the loop itself.
func TestInvocationShows(t *testing.T) {
	elide := func(change func(*aycoder.ToolOutput) *aycoder.ToolOutput) aycoder.ContextMiddleware {
		return func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				req, err := next.Build(ctx, in)
				if err != nil || len(req.Messages) < 5 {
					return req, err
				}
				r := *req
				r.Messages = append([]*aycoder.Message{}, req.Messages...)
				out := change(r.Messages[2].Parts[0].(*aycoder.ToolOutput))
				r.Messages[2] = &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{out}}
				return &r, nil
			})
		}
	}
	for name, tt := range map[string]struct {
		change func(*aycoder.ToolOutput) *aycoder.ToolOutput
		want   bool
	}{
		"same": {func(o *aycoder.ToolOutput) *aycoder.ToolOutput { return o }, true},
		"copied": {func(o *aycoder.ToolOutput) *aycoder.ToolOutput {
			return &aycoder.ToolOutput{ID: o.ID, Name: o.Name, Parts: text(o.Text())}
		}, true},
		"shortened": {func(o *aycoder.ToolOutput) *aycoder.ToolOutput {
			return &aycoder.ToolOutput{ID: o.ID, Name: o.Name, Parts: text("short")}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var got []bool
			tool, err := aycoder.NewTool("look", "Looks.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
				got = append(got, inv.Shows("call_1"), inv.Shows("call_2"), inv.Shows("call_9"), inv.Shows(""))
				return aycoder.TextResult("output of " + inv.ID), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			l, err := aycoder.New(script.New(script.Call("look", map[string]any{}), script.Call("look", map[string]any{}),
				script.Call("look", map[string]any{}), script.Say("ok")), aycoder.WithTools(tool), aycoder.WithContextMiddleware(elide(tt.change)))
			require.NoError(t, err)
			for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
			}
			require.Equal(t, []bool{
				false, false, false, true, // nothing was called before
				true, false, false, true,
				tt.want, true, false, tt.want,
			}, got)
		})
	}
	require.True(t, aycoder.NewInvocation("1", "look", nil, nil).Shows("call_1"))
}

// A call of a resumed run does not know what a builder of the host had shown the model before.
func TestResumedInvocationShows(t *testing.T) {
	middle := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			req, err := next.Build(ctx, in)
			if err == nil && len(in.Messages) > 2 {
				req.Messages = []*aycoder.Message{in.Messages[0]}
			}
			return req, err
		})
	}
	for name, tt := range map[string]struct {
		opts []aycoder.Option
		want []bool
	}{
		"plain":   {nil, []bool{true, false, true}},
		"builder": {[]aycoder.Option{aycoder.WithContextMiddleware(middle)}, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []bool
			look := func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
				if inv.Name == "act" {
					got = []bool{inv.Shows("call_1"), inv.Shows("call_9"), inv.Shows("")}
				}
				return aycoder.TextResult("ok"), nil
			}
			reads, err := aycoder.NewTool("look", "Looks.", look, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			writes, err := aycoder.NewTool("act", "Acts.", look, aycoder.WithEffect(aycoder.EffectWrite))
			require.NoError(t, err)
			model := script.New(script.Call("look", map[string]any{}), script.Call("act", map[string]any{}), script.Say("ok"))
			l, err := aycoder.New(model, append(tt.opts, aycoder.WithTools(reads, writes), aycoder.WithApprover(aycoder.SuspendAsks(asks)))...)
			require.NoError(t, err)
			var res aycoder.Result
			for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			require.NotNil(t, res.Pending)
			q := res.Pending.Requests[0]
			in := aycoder.Input{Pending: res.Pending,
				Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
			for _, err := range l.Run(t.Context(), in) {
				require.NoError(t, err)
			}
			require.Equal(t, tt.want, got)
		})
	}
}
