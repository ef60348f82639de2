package aycoder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// A request that does not begin with the one before is logged, or ends the run, unless its builder
// announces it.
func TestStrictPrefix(t *testing.T) {
	type change func(ctx context.Context, in *aycoder.ContextInput, req *aycoder.Request)
	note := func(ctx context.Context, in *aycoder.ContextInput) {
		require.NoError(t, in.Compact(ctx, &aycoder.Compacted{Note: json.RawMessage("1")}))
	}
	other := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "other"}}}
	for name, tt := range map[string]struct {
		change change
		broken bool
	}{
		"none": {func(context.Context, *aycoder.ContextInput, *aycoder.Request) {}, false},
		"copies": {func(_ context.Context, _ *aycoder.ContextInput, req *aycoder.Request) {
			first := *req.Messages[0].Parts[0].(*aycoder.Text)
			req.Messages = slices.Clone(req.Messages)
			req.Messages[0] = &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&first}}
			req.System = []*aycoder.Text{{Text: "s"}}
		}, false},
		"message": {func(_ context.Context, in *aycoder.ContextInput, req *aycoder.Request) {
			if in.Turn == 2 {
				req.Messages = append([]*aycoder.Message{other}, req.Messages[1:]...)
			}
		}, true},
		"system": {func(_ context.Context, in *aycoder.ContextInput, req *aycoder.Request) {
			req.System = []*aycoder.Text{{Text: string('0' + rune(in.Turn))}}
		}, true},
		"tail": {func(_ context.Context, in *aycoder.ContextInput, req *aycoder.Request) {
			req.Tail = []*aycoder.Text{{Text: string('0' + rune(in.Turn))}}
		}, false},
		"tools": {func(_ context.Context, in *aycoder.ContextInput, req *aycoder.Request) {
			if in.Turn == 2 {
				req.Tools = nil
			}
		}, true},
		"announced": {func(ctx context.Context, in *aycoder.ContextInput, req *aycoder.Request) {
			note(ctx, in)
			req.System = []*aycoder.Text{{Text: string('0' + rune(in.Turn))}}
		}, false},
		"announced before": {func(ctx context.Context, in *aycoder.ContextInput, req *aycoder.Request) {
			if in.Turn == 1 {
				note(ctx, in)
			}
			req.System = []*aycoder.Text{{Text: string('0' + rune(in.Turn))}}
		}, true},
	} {
		for _, strict := range []bool{false, true} {
			echo, err := aycoder.NewTool("echo", "Returns nothing.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
				return aycoder.TextResult("ok"), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			var log bytes.Buffer
			l, err := aycoder.New(script.New(script.Call("echo", map[string]any{}), script.Say("a")), aycoder.WithTools(echo),
				aycoder.WithStrictPrefix(strict), aycoder.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				aycoder.WithContextMiddleware(func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
					return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
						req, err := next.Build(ctx, in)
						if err == nil {
							tt.change(ctx, &in, req)
						}
						return req, err
					})
				}))
			require.NoError(t, err)
			var failed error
			for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				failed = err
			}
			if strict && tt.broken {
				require.ErrorAs(t, failed, new(*aycoder.ContextError), name)
			} else {
				require.NoError(t, failed, name)
			}
			require.Equal(t, tt.broken && !strict, bytes.Contains(log.Bytes(), []byte("does not begin with the one before")), "%s: %s", name, log.String())
		}
	}
}
