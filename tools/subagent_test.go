package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/internal/original"
)

// modelOf returns a model that answers the n-th request by the n-th function, and all
// later ones by the last. A function may examine the request.
func modelOf(turns ...func(context.Context, *aycoder.Request) (aycoder.Part, error)) aycoder.ModelFunc {
	var mu sync.Mutex
	n := 0
	return func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			mu.Lock()
			turn := turns[min(n, len(turns)-1)]
			n++
			mu.Unlock()
			part, err := turn(ctx, req)
			if err != nil {
				yield(nil, err)
				return
			}
			stop := aycoder.StopEndTurn
			if _, ok := part.(*aycoder.ToolUse); ok {
				stop = aycoder.StopToolUse
			}
			_ = yield(&aycoder.BlockDone{Part: part}, nil) &&
				yield(&aycoder.MessageDone{Stop: stop, Usage: aycoder.Usage{Input: 100, Output: 10}}, nil)
		}
	}
}

type turnFunc = func(context.Context, *aycoder.Request) (aycoder.Part, error)

func says(text string) turnFunc {
	return func(context.Context, *aycoder.Request) (aycoder.Part, error) { return &aycoder.Text{Text: text}, nil }
}

func uses(name string, in args) turnFunc {
	raw, _ := json.Marshal(in)
	return func(context.Context, *aycoder.Request) (aycoder.Part, error) {
		return &aycoder.ToolUse{ID: "x", Name: name, Args: raw}, nil
	}
}

func hangs(ctx context.Context, _ *aycoder.Request) (aycoder.Part, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// fake makes a tool that counts its calls.
func fake(t testing.TB, name string, effect aycoder.Effect, ran *int) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool(name, "A tool.", func(context.Context, *invocation, struct {
		Command string `json:"command,omitempty"`
	}) (*result, error) {
		*ran++
		return textResult("done\n", "done"), nil
	}, aycoder.WithEffect(effect), aycoder.WithSubject(aycoder.SubjectCommand, "command"))
	require.NoError(t, err)
	return tool
}

func subagent(t testing.TB, c SubagentConfig) aycoder.Tool {
	t.Helper()
	tool, err := Subagent(c)
	require.NoError(t, err)
	return tool
}

// delegate runs a parent that calls the tool once with in, and returns the result of the
// call and all events.
func delegate(t testing.TB, tool aycoder.Tool, in args, opts ...aycoder.Option) (*aycoder.ToolFinished, []aycoder.Event, aycoder.Result) {
	t.Helper()
	name := tool.Spec().Name
	loop, err := aycoder.New(modelOf(uses(name, in), says("done")), append(opts, aycoder.WithTools(tool))...)
	require.NoError(t, err)
	var res aycoder.Result
	var events []aycoder.Event
	var fin *aycoder.ToolFinished
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
		events = append(events, ev)
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			fin = f
		}
	}
	require.NotNil(t, fin)
	return fin, events, res
}

func approveAll() aycoder.Option {
	return aycoder.WithApprover(aycoder.ApproverFunc(
		func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() }))
}

func TestSubagent(t *testing.T) {
	ran := 0
	var prompts []string
	tool := subagent(t, SubagentConfig{
		Model: modelOf(func(ctx context.Context, req *aycoder.Request) (aycoder.Part, error) {
			prompts = append(prompts, req.System[0].Text, req.Messages[0].Text())
			require.Len(t, req.Messages, 1, "it knows nothing but the task")
			return uses("look", nil)(ctx, req)
		}, says("I looked.")),
		Tools:   []aycoder.Tool{fake(t, "look", aycoder.EffectReadOnly, &ran)},
		Options: []aycoder.Option{aycoder.WithSystem("Be short.")},
	})
	require.Equal(t, aycoder.EffectReadOnly, tool.Spec().Effect)
	fin, events, res := delegate(t, tool, args{"task": "look around"})
	require.False(t, fin.Output.IsError)
	require.Equal(t, "I looked.\n[2 turns, 1 call, 220 tokens]\n", fin.Output.Text())
	require.Equal(t, "2 turns", fin.Summary)
	require.Equal(t, []string{"Be short.", "look around"}, prompts)
	require.Equal(t, 1, ran)
	require.Equal(t, aycoder.Usage{Input: 200, Output: 20}, fin.Usage)
	require.Equal(t, aycoder.Usage{Input: 400, Output: 40}, res.Usage)
	inside := 0
	for _, ev := range events {
		if c, ok := ev.(*aycoder.ChildEvent); ok {
			require.Equal(t, fin.Call.ID, c.CallID)
			inside++
		}
	}
	require.Equal(t, 5, inside, "the start and the end of a call, two turns, the end")
}

// The messages that the session keeps are of the parent's conversation. Their outlines may look like messages
// of the child.
func TestSubagentHasNoOriginals(t *testing.T) {
	child := aycoder.User("child")
	tool := subagent(t, SubagentConfig{
		Model: modelOf(func(ctx context.Context, req *aycoder.Request) (aycoder.Part, error) {
			got, err := original.Message(ctx, 0, child)
			require.NoError(t, err)
			return &aycoder.Text{Text: got.Text()}, nil
		}),
	})
	ctx := original.With(t.Context(), func(int, *aycoder.Message) (*aycoder.Message, error) { return aycoder.User("parent"), nil })
	inv := aycoder.NewInvocation("1", tool.Spec().Name, []byte(`{"task":"say it"}`), nil)
	res, err := tool.Call(ctx, inv)
	require.NoError(t, err)
	require.Contains(t, res.Parts[0].(*aycoder.Text).Text, "child")
}

func TestSubagentEnds(t *testing.T) {
	ran := 0
	look := []aycoder.Tool{fake(t, "look", aycoder.EffectReadOnly, &ran)}
	refused := func(context.Context, *aycoder.Request) (aycoder.Part, error) {
		return nil, &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "p", Err: errors.New("no\x1b key")}}
	}
	tests := []struct {
		name   string
		config SubagentConfig
		in     args
		want   []string
	}{
		{"turns", SubagentConfig{Model: modelOf(uses("look", nil)), MaxTurns: 3}, args{}, []string{"turn_limit: the agent was not done after 3 turns", "[3 turns, 3 calls, 330 tokens]"}},
		{"tokens", SubagentConfig{Model: modelOf(says("halfway"), uses("look", nil)), MaxTokens: 50}, args{}, []string{"token_limit: the agent used more than 50 tokens", "halfway\n[1 turn, 0 calls, 110 tokens]"}},
		{"tokens of a summary", SubagentConfig{Model: modelOf(says("done")), MaxTokens: 150, Options: []aycoder.Option{aycoder.WithContextMiddleware(summarized)}},
			args{}, []string{"token_limit: the agent used more than 150 tokens"}},
		{"model", SubagentConfig{Model: modelOf(refused)}, args{}, []string{"agent_failed: p: not authorised: no<U+001B> key", "[0 turns"}},
		{"no task", SubagentConfig{Model: modelOf(says("x"))}, args{"task": " "}, []string{"invalid_arguments: the task is empty"}},
		{"long task", SubagentConfig{Model: modelOf(says("x"))}, args{"task": strings.Repeat("x", maxTask+1)}, []string{"too_long: "}},
		{"tools it cannot have", SubagentConfig{Model: modelOf(says("x"))}, args{"tools": []string{"look", "write_file"}}, []string{"invalid_arguments: the agent cannot have the tool write_file; it can have: look"}},
		{"itself", SubagentConfig{Model: modelOf(says("x"))}, args{"tools": []string{"subagent"}}, []string{"invalid_arguments: the agent cannot have the tool subagent"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.config.Tools = look
			if tt.in["task"] == nil {
				tt.in["task"] = "go"
			}
			fin, _, res := delegate(t, subagent(t, tt.config), tt.in)
			require.True(t, fin.Output.IsError)
			for _, want := range tt.want {
				require.Contains(t, fin.Output.Text(), want)
			}
			require.Equal(t, aycoder.Usage{Input: 200, Output: 20}.Add(fin.Usage), res.Usage)
		})
	}
	r, err := subagent(t, SubagentConfig{Model: modelOf(says(strings.Repeat("x", 60_000)))}).
		Call(t.Context(), aycoder.NewInvocation("c", "subagent", json.RawMessage(`{"task":"go"}`), nil))
	require.NoError(t, err)
	require.Contains(t, r.Text(), "[10000 bytes of the answer are left out]")
}

// summarized is a context middleware with a summary of 200 tokens before each request.
func summarized(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		err := in.Compact(ctx, &aycoder.Compacted{Note: json.RawMessage("1"), Usage: aycoder.Usage{Input: 200}})
		if err != nil {
			return nil, err
		}
		return next.Build(ctx, in)
	})
}

// An agent stops at its timeout, or with the outer run, and leaves nothing behind.
func TestSubagentStops(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cancel time.Duration
		want   string
		after  time.Duration
	}{
		{"timeout", time.Hour, "timeout: the agent was not done after 1m0s", time.Minute},
		{"cancelled", time.Second, "cancelled: the agent was stopped", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tool := subagent(t, SubagentConfig{Model: modelOf(hangs), Timeout: time.Minute})
				ctx, cancel := context.WithTimeout(t.Context(), tt.cancel)
				defer cancel()
				start := time.Now()
				r, err := tool.Call(ctx, aycoder.NewInvocation("c", "subagent", json.RawMessage(`{"task":"go"}`), nil))
				require.NoError(t, err)
				require.True(t, r.IsError)
				require.Contains(t, r.Text(), tt.want)
				require.Equal(t, tt.after, time.Since(start))
			})
		})
	}
}

// A refusal by the parent is final, whatever the agent's own Approver says.
func TestSubagentPermissions(t *testing.T) {
	by := func(verdict func(call *aycoder.ToolUse) aycoder.Verdict) aycoder.Option {
		return aycoder.WithApprover(aycoder.ApproverFunc(
			func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
				return verdict(call)
			}))
	}
	deny := by(func(call *aycoder.ToolUse) aycoder.Verdict {
		if strings.Contains(string(call.Args), "rm ") {
			return aycoder.Deny("nothing is removed")
		}
		return aycoder.Allow()
	})
	denyAll := by(func(*aycoder.ToolUse) aycoder.Verdict { return aycoder.Deny("no") })
	ask := by(func(call *aycoder.ToolUse) aycoder.Verdict {
		if call.Name == "subagent" {
			return aycoder.Allow()
		}
		return aycoder.Ask()
	})
	tests := []struct {
		name          string
		parent, child aycoder.Option
		command       string
		ran           int
	}{
		{"parent allows", deny, nil, "ls", 1},
		{"parent denies", deny, nil, "rm x", 0},
		{"parent denies, child allows", deny, approveAll(), "rm x", 0},
		{"child denies", approveAll(), denyAll, "ls", 0},
		{"nobody answers", ask, approveAll(), "ls", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ran := 0
			c := SubagentConfig{
				Model: modelOf(uses("bash", args{"command": tt.command}), says("tried")),
				Tools: []aycoder.Tool{fake(t, "bash", aycoder.EffectWrite, &ran)},
			}
			if tt.child != nil {
				c.Options = []aycoder.Option{tt.child}
			}
			tool := subagent(t, c)
			require.Equal(t, aycoder.EffectUnknown, tool.Spec().Effect)
			fin, _, _ := delegate(t, tool, args{"task": "go"}, tt.parent)
			require.Equal(t, tt.ran, ran)
			require.Equal(t, tt.ran == 0, strings.Contains(fin.Output.Text(), "; denied: bash]"), fin.Output.Text())
		})
	}
}

// Agents nest as deep as they may, and no deeper.
func TestSubagentDepth(t *testing.T) {
	again := uses("subagent", args{"task": "again"})
	for depth := 1; depth <= 3; depth++ {
		fin, events, res := delegate(t, subagent(t, SubagentConfig{
			Model: modelOf(append(repeated(again, depth), says("deep enough"))...), MaxDepth: depth,
		}), args{"task": "go"})
		require.False(t, fin.Output.IsError)
		require.Equal(t, res.Usage, aycoder.Usage{Input: 200, Output: 20}.Add(fin.Usage))
		deepest, refused := 0, 0
		for _, ev := range events {
			n := 0
			for c, ok := ev.(*aycoder.ChildEvent); ok; c, ok = ev.(*aycoder.ChildEvent) {
				ev, n = c.Event, n+1
			}
			deepest = max(deepest, n)
			if f, ok := ev.(*aycoder.ToolFinished); ok && n == depth {
				_, missing := errors.AsType[*aycoder.ToolNotFoundError](f.Err)
				require.True(t, missing, "the deepest has no such tool")
				refused++
			}
		}
		require.Equal(t, depth, deepest)
		require.Equal(t, 1, refused)
	}
	inner := subagent(t, SubagentConfig{Model: modelOf(says("x"))})
	outer := subagent(t, SubagentConfig{Model: modelOf(again, says("done")), Tools: []aycoder.Tool{inner}})
	_, events, _ := delegate(t, outer, args{"task": "go"})
	require.Contains(t, fmt.Sprint(textsOf(events)), "depth_limit: agents may be 1 deep")
}

func repeated(f turnFunc, n int) (all []turnFunc) {
	for range n {
		all = append(all, f)
	}
	return all
}

// textsOf returns the outputs of the inner calls.
func textsOf(events []aycoder.Event) (out []string) {
	for _, ev := range events {
		if c, ok := ev.(*aycoder.ChildEvent); ok {
			if f, ok := c.Innermost().(*aycoder.ToolFinished); ok {
				out = append(out, f.Output.Text())
			}
		}
	}
	return out
}

// Untrusted text that an agent has read taints its answer.
func TestSubagentIsTainted(t *testing.T) {
	web := newWeb(t, answer("text/plain", "stranger"))
	inner := subagent(t, SubagentConfig{Model: modelOf(uses("fetch", args{"url": web.URL}), says("I read it.")), Tools: []aycoder.Tool{web.tool}})
	require.True(t, inner.Spec().OpenWorld)
	fin, _, _ := delegate(t, inner, args{"task": "go"}, approveAll())
	require.True(t, fin.Output.Untrusted)
	require.Contains(t, fin.Output.Text(), "<untrusted id=")
	require.Contains(t, fin.Output.Text(), "\nI read it.\n</untrusted")
	fin, _, _ = delegate(t, subagent(t, SubagentConfig{Model: modelOf(says("x"))}), args{"task": "go"})
	require.False(t, fin.Output.Untrusted)
}

// The masker of the outer run also masks what the tools of agents say, at any depth.
func TestSubagentIsMasked(t *testing.T) {
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	leak, err := aycoder.NewTool("leak", "A tool.", func(_ context.Context, inv *invocation, _ struct{}) (*result, error) {
		inv.Progress(aycoder.Progress{Message: secret})
		return textResult(secret, secret), nil
	})
	require.NoError(t, err)
	var read string // what the agents read
	repeat := func(_ context.Context, req *aycoder.Request) (aycoder.Part, error) {
		data, err := json.Marshal(req.Messages)
		read += string(data)
		return &aycoder.Text{Text: "done"}, err
	}
	deep := subagent(t, SubagentConfig{Name: "deep", MaxDepth: 2, Model: modelOf(uses("leak", args{}), repeat), Tools: []aycoder.Tool{leak}})
	outer := subagent(t, SubagentConfig{Model: modelOf(uses("deep", args{"task": "go"}), repeat), Tools: []aycoder.Tool{deep}})
	_, events, _ := delegate(t, outer, args{"task": "go"}, approveAll(), aycoder.WithToolMiddleware(Masking(NewMasker(nil))))
	data, err := json.Marshal(events)
	require.NoError(t, err)
	require.NotContains(t, read+string(data), secret)
	require.Equal(t, 1, strings.Count(read, "[secret:"), read)
}

// A full disk ends the outer run, too.
func TestSubagentFatal(t *testing.T) {
	full := errors.New("disk full")
	broken, err := aycoder.NewTool("write", "A tool.", func(context.Context, *invocation, struct{}) (*result, error) {
		return nil, aycoder.Fatal(full)
	})
	require.NoError(t, err)
	tool := subagent(t, SubagentConfig{Model: modelOf(uses("write", nil)), Tools: []aycoder.Tool{broken}})
	loop, err := aycoder.New(modelOf(uses("subagent", args{"task": "go"})), aycoder.WithTools(tool), approveAll())
	require.NoError(t, err)
	var last error
	for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		last = err
	}
	require.ErrorIs(t, last, full)
}

// Several agents that only read work in parallel.
func TestSubagentsInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ *aycoder.Request) (aycoder.Part, error) {
			<-time.After(time.Minute)
			return &aycoder.Text{Text: "done"}, nil
		}
		tool := subagent(t, SubagentConfig{Model: modelOf(slow)})
		parent := aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				if len(req.Messages) > 1 {
					_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "done"}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
					return
				}
				for i := range 5 {
					call := &aycoder.ToolUse{ID: fmt.Sprint(i), Name: "subagent", Args: json.RawMessage(`{"task":"go"}`)}
					if !yield(&aycoder.BlockDone{Part: call}, nil) {
						return
					}
				}
				yield(&aycoder.MessageDone{Stop: aycoder.StopToolUse}, nil)
			}
		})
		loop, err := aycoder.New(parent, aycoder.WithTools(tool))
		require.NoError(t, err)
		start := time.Now()
		var res aycoder.Result
		for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
		}
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, aycoder.Usage{Input: 500, Output: 50}, res.Usage)
	})
}

func TestSubagentConfig(t *testing.T) {
	ok := modelOf(says("x"))
	for name, c := range map[string]SubagentConfig{
		"no model":   {},
		"turns":      {Model: ok, MaxTurns: -1},
		"tokens":     {Model: ok, MaxTokens: -1},
		"timeout":    {Model: ok, Timeout: -1},
		"depth":      {Model: ok, MaxDepth: -1},
		"nil tool":   {Model: ok, Tools: []aycoder.Tool{nil}},
		"bad option": {Model: ok, Options: []aycoder.Option{aycoder.WithLimits(aycoder.Limits{Calls: -1})}},
		"bad name":   {Model: ok, Name: "a b"},
	} {
		_, err := Subagent(c)
		assert.ErrorContains(t, err, "new tool ", name)
	}
	spec := subagent(t, SubagentConfig{Model: ok, Name: "explore", Description: "Looks."}).Spec()
	require.Equal(t, "explore", spec.Name)
	require.Equal(t, "Looks.", spec.Description)
}

// An agent does not know the lines that only its subagent was shown, so it must not delete them.
func TestSubagentSeesForItself(t *testing.T) {
	const read = "1\n2\n3\n4\n5\n"
	for name, turns := range map[string][]turnFunc{
		"reads":  {uses("read_file", args{"path": "f"})},
		"edits":  {uses("edit_file", args{"path": "f", "old_string": "user\n", "new_string": "user and agent\n"})},
		"writes": {uses("read_file", args{"path": "f"}), uses("write_file", args{"path": "f", "content": read + "user\nmore\n"})},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": read})
			list, err := Coding(w.ws)
			require.NoError(t, err)
			child := subagent(t, SubagentConfig{Model: modelOf(append(turns, says("done"))...), Tools: list})
			write := uses("write_file", args{"path": "f", "content": "0\n" + read})
			user := func(ctx context.Context, req *aycoder.Request) (aycoder.Part, error) {
				w.write("f", read+"user\n")
				return uses("subagent", args{"task": "x"})(ctx, req)
			}
			var outside string // the file before the agent writes
			then := func(ctx context.Context, req *aycoder.Request) (aycoder.Part, error) {
				outside = w.read("f")
				return write(ctx, req)
			}
			loop, err := aycoder.New(modelOf(uses("read_file", args{"path": "f"}), user, then, says("done")),
				aycoder.WithTools(append(list, child)...), approveAll())
			require.NoError(t, err)
			for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
			}
			require.Contains(t, outside, "user")
			require.Equal(t, "0\n"+outside, w.read("f"))
		})
	}
}

// Of an agent that answers with a type, the outer model gets only what is valid.
func TestSubagentAs(t *testing.T) {
	type found struct {
		File  string `json:"file"`
		Lines []int  `json:"lines" jsonschema:"minItems=1"`
	}
	right := args{"file": "a <b>.go", "lines": []int{3}}
	ran := 0
	agent := func(model aycoder.ModelClient, opts ...generate.Option) aycoder.Tool {
		tool, err := SubagentAs[found](SubagentConfig{Model: model, Tools: []aycoder.Tool{fake(t, "look", aycoder.EffectReadOnly, &ran)}}, opts...)
		require.NoError(t, err)
		return tool
	}
	fin, _, res := delegate(t, agent(modelOf(uses("look", nil), says("In a.go."), uses("found", args{"file": "a"}), uses("found", right))), args{"task": "find"})
	require.False(t, fin.Output.IsError)
	require.Equal(t, "{\"file\":\"a <b>.go\",\"lines\":[3]}\n[4 turns, 3 calls, 440 tokens]\n", fin.Output.Text())
	require.Equal(t, int64(600), res.Usage.Input, "the repairs count")
	require.Equal(t, 1, ran)

	fin, _, _ = delegate(t, agent(modelOf(says("In a.go."))), args{"task": "find"})
	require.True(t, fin.Output.IsError)
	require.Equal(t, "agent_failed: document found: document: there is none in the answer (after 3 attempts)\nIn a.go.\n[3 turns, 0 calls, 330 tokens]\n", fin.Output.Text())
	fin, _, _ = delegate(t, agent(modelOf(says("In a.go.")), generate.WithRepairs(0)), args{"task": "find"})
	require.Contains(t, fin.Output.Text(), "[1 turn,")

	for want, f := range map[string]func() (aycoder.Tool, error){
		"has no JSON form": func() (aycoder.Tool, error) { return SubagentAs[chan int](SubagentConfig{Model: modelOf(says("x"))}) },
		"name that is used": func() (aycoder.Tool, error) {
			return SubagentAs[found](SubagentConfig{Model: modelOf(says("x")), Tools: []aycoder.Tool{fake(t, "found", aycoder.EffectReadOnly, &ran)}})
		},
		"WithRepairs: is nega": func() (aycoder.Tool, error) {
			return SubagentAs[found](SubagentConfig{Model: modelOf(says("x"))}, generate.WithRepairs(-1))
		},
	} {
		_, err := f()
		require.ErrorContains(t, err, want)
	}
}
