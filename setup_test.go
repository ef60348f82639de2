package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// randomSetups changes the setup of a run at random. Each setup has new tools, and what runs must be a
// tool of the last one.
type randomSetups struct {
	random *rand.Rand // nil for no changes
	tool   func(name string, effect aycoder.Effect) aycoder.Tool

	mu      sync.Mutex
	version int
	effects map[string]aycoder.Effect // of the last setup; nil for the first
}

func (s *randomSetups) next(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.IntN(2) == 0 {
		return now, nil
	}
	s.version++
	s.effects = map[string]aycoder.Effect{}
	now.Tools = now.Tools[:0]
	for _, name := range []string{"read", "write", "more"} {
		if s.random.IntN(4) > 0 {
			s.effects[name] = aycoder.EffectReadOnly // "read" stays so
			if name != "read" {
				s.effects[name] = []aycoder.Effect{aycoder.EffectUnknown, aycoder.EffectWrite}[s.random.IntN(2)]
			}
			now.Tools = append(now.Tools, s.tool(name, s.effects[name]))
		}
	}
	now.Limits.Calls = 1 + s.random.IntN(6)
	now.Limits.Turns = 1 + s.random.IntN(12)
	now.Model = []string{"", "other"}[s.random.IntN(2)]
	return now, nil
}

// runs is called when a tool runs.
func (s *randomSetups) runs(t *testing.T, name string, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, s.version, version, "the tool %s is of another setup", name)
}

// offers checks the tools of a request.
func (s *randomSetups) offers(t *testing.T, req *aycoder.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.effects == nil {
		return
	}
	require.Len(t, req.Tools, len(s.effects))
	for _, spec := range req.Tools {
		require.Equal(t, s.effects[spec.Name], spec.Effect)
	}
}

// tools returns read-only tools that return their names.
func named(t *testing.T, names ...string) (tools []aycoder.Tool) {
	for _, name := range names {
		tools = append(tools, newTool(t, name, aycoder.EffectReadOnly, func(context.Context, string) (string, error) { return "by " + name, nil }))
	}
	return tools
}

// turns returns a setup function that gives the n-th setup in turn n, and then the last one.
func turns(setups ...func(aycoder.Setup) aycoder.Setup) aycoder.Option {
	asked := 0
	return aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		f := setups[min(asked, len(setups)-1)]
		asked++
		return f(now), nil
	})
}

func unchanged(now aycoder.Setup) aycoder.Setup { return now }

func withTools(tools []aycoder.Tool) func(aycoder.Setup) aycoder.Setup {
	return func(now aycoder.Setup) aycoder.Setup { now.Tools = tools; return now }
}

func specNames(specs []*aycoder.ToolSpec) (names []string) {
	for _, s := range specs {
		names = append(names, s.Name)
	}
	return names
}

// outputsOf returns the texts that the model read of calls, by their ids.
func outputsOf(messages []*aycoder.Message) map[string]string {
	out := map[string]string{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				out[o.ID] = o.Text()
			}
		}
	}
	return out
}

// A tool that comes with a turn can be called in it, and one that is gone cannot. The events say what
// changed, are recorded before the request, and announce the break of the prefix.
func TestSetupChangesTools(t *testing.T) {
	a, b, c := named(t, "a")[0], named(t, "b")[0], named(t, "c")[0]
	described := newTool(t, "a", aycoder.EffectWrite, echo)
	m := &fake{turns: [][]any{
		calls(use("1", "a", `{"text":""}`), use("2", "b", `{"text":""}`)),
		calls(use("3", "a", `{"text":""}`), use("4", "b", `{"text":""}`)),
		calls(use("5", "a", `{"text":""}`), use("6", "b", `{"text":""}`)),
		say("done"), say("again"),
	}}
	var recorded []int // requests that were sent before each change was recorded
	loop := newLoop(t, m, aycoder.WithTools(a), aycoder.WithStrictPrefix(true), aycoder.WithApprover(allow),
		turns(unchanged, withTools([]aycoder.Tool{a, b}), withTools([]aycoder.Tool{c, b}), withTools([]aycoder.Tool{b, c}), withTools([]aycoder.Tool{described})))
	ctl, res := &aycoder.Control{}, aycoder.Result{}
	ctl.FollowUp("more")
	events, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res), aycoder.WithControl(ctl),
		aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
			if _, ok := rec.Fact.(*aycoder.SetupChanged); ok {
				recorded = append(recorded, len(m.reqs))
			}
			return nil
		})))
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3, 4}, recorded)
	var changes []aycoder.SetupChanged
	for _, ev := range events {
		if c, ok := ev.(*aycoder.SetupChanged); ok {
			changes = append(changes, *c)
		}
	}
	read := aycoder.EffectReadOnly
	require.Equal(t, []aycoder.SetupChanged{
		{Tools: map[string]aycoder.Effect{"a": read, "b": read}, Added: []string{"b"}, MaxTurns: 50, MaxCalls: 128},
		{Tools: map[string]aycoder.Effect{"c": read, "b": read}, Added: []string{"c"}, Removed: []string{"a"}, MaxTurns: 50, MaxCalls: 128},
		{Tools: map[string]aycoder.Effect{"c": read, "b": read}, MaxTurns: 50, MaxCalls: 128},
		{Tools: map[string]aycoder.Effect{"a": aycoder.EffectWrite}, Added: []string{"a"}, Removed: []string{"b", "c"}, MaxTurns: 50, MaxCalls: 128},
	}, changes)
	var offered [][]string
	for _, req := range m.reqs {
		offered = append(offered, specNames(req.Tools))
	}
	require.Equal(t, [][]string{{"a"}, {"a", "b"}, {"c", "b"}, {"b", "c"}, {"a"}}, offered)
	out := outputsOf(res.Messages)
	require.Equal(t, "by a", out["1"])
	require.Contains(t, out["2"], "no such tool", "b comes with the next turn")
	require.Equal(t, "by a", out["3"])
	require.Equal(t, "by b", out["4"])
	require.Contains(t, out["5"], "no such tool", "a is gone")
	require.Equal(t, "by b", out["6"])
}

// A tool of the same name with another description, schema or effect is a change; the same tools in a
// new list are not.
func TestSetupChangedNamesTools(t *testing.T) {
	spec := func(text string, effect aycoder.Effect) aycoder.Tool {
		tool, err := aycoder.NewTool("a", text, func(context.Context, *aycoder.Invocation, echoArgs) (*aycoder.ToolResult, error) {
			return aycoder.TextResult(text), nil
		}, aycoder.WithEffect(effect))
		require.NoError(t, err)
		return tool
	}
	one := spec("one", aycoder.EffectReadOnly)
	for name, tt := range map[string]struct {
		next    aycoder.Tool
		changed []string
	}{
		"same":             {one, nil},
		"alike":            {spec("one", aycoder.EffectReadOnly), nil},
		"other text":       {spec("two", aycoder.EffectReadOnly), []string{"a"}},
		"other effect":     {spec("one", aycoder.EffectWrite), []string{"a"}},
		"other everything": {spec("two", aycoder.EffectUnknown), []string{"a"}},
	} {
		m := &fake{turns: [][]any{calls(use("1", "a", `{"text":""}`)), say("done")}}
		events, err := collect(newLoop(t, m, aycoder.WithTools(one), aycoder.WithStrictPrefix(true),
			turns(unchanged, withTools([]aycoder.Tool{tt.next}))).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err, name)
		var changed []string
		for _, ev := range events {
			if c, ok := ev.(*aycoder.SetupChanged); ok {
				changed = append(changed, c.Changed...)
			}
		}
		require.Equal(t, tt.changed, changed, name)
	}
}

// A failing function, or an invalid setup, ends the run before the request with a typed error. The
// history stays valid, and the next run works.
func TestSetupFails(t *testing.T) {
	a := named(t, "a")[0]
	bad := badSpec{aycoder.ToolSpec{Name: "bad", Schema: []byte(`{"type":5}`)}}
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		next   func(context.Context, aycoder.Setup) (aycoder.Setup, error)
		config bool
		is     error
	}{
		"error": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) { return now, boom }, false, boom},
		"an error that could be retried": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			return now, &aycoder.RateLimitError{ModelError: &aycoder.ModelError{Err: boom}}
		}, false, boom},
		"an error like a limit": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			return now, &aycoder.LimitError{Limit: "x"}
		}, false, nil},
		"panic": {func(context.Context, aycoder.Setup) (aycoder.Setup, error) { panic("boom") }, false, nil},
		"goexit": {func(context.Context, aycoder.Setup) (aycoder.Setup, error) {
			runtime.Goexit()
			return aycoder.Setup{}, nil
		}, false, nil},
		"no client": {func(context.Context, aycoder.Setup) (aycoder.Setup, error) { return aycoder.Setup{}, nil }, true, nil},
		"two of a name": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			now.Tools = append(now.Tools, a)
			return now, nil
		}, true, nil},
		"nil tool": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			now.Tools = append(now.Tools, nil)
			return now, nil
		}, true, nil},
		"bad schema": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			now.Tools = append(now.Tools, bad)
			return now, nil
		}, true, nil},
		"negative limit": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			now.Limits.Turns = -1
			return now, nil
		}, true, nil},
		"little output": {func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			now.Limits.ToolOutput = 10
			return now, nil
		}, true, nil},
	} {
		for turn := 1; turn <= 2; turn++ {
			name := fmt.Sprintf("%s in turn %d", name, turn)
			m := &fake{turns: [][]any{calls(use("1", "a", `{"text":""}`)), say("done"), say("done")}}
			asked := 0
			loop := newLoop(t, m, aycoder.WithTools(a), aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				if asked++; asked == turn {
					return tt.next(ctx, now)
				}
				return now, nil
			}))
			var res aycoder.Result
			_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.Error(t, err, name)
			if name[:6] != "goexit" {
				require.ErrorAs(t, err, new(*aycoder.ContextError), name)
			}
			require.Equal(t, tt.config, errors.As(err, new(*aycoder.ConfigError)), "%s: %v", name, err)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is, name)
			}
			require.Equal(t, aycoder.EndFailed, res.End, name)
			require.Len(t, m.reqs, turn-1, "%s: no request is sent", name)
			require.NoError(t, aycoder.CheckHistory(res.Messages), name)
			require.Len(t, res.Messages, 1+2*(turn-1), name)
			_, err = collect(loop.Run(t.Context(), aycoder.Input{Messages: res.Messages, Prompt: "again"}))
			require.NoError(t, err, name)
		}
	}
}

type badSpec struct{ spec aycoder.ToolSpec }

func (b badSpec) Spec() aycoder.ToolSpec { return b.spec }
func (badSpec) Call(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return nil, errors.New("called")
}

// A cancel, and a break, end a run whose setup function waits.
func TestSetupStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, deaf := range []bool{false, true} {
			never := make(chan struct{})
			m := &fake{turns: [][]any{calls(use("1", "a", `{"text":""}`)), say("done")}}
			asked := 0
			loop := newLoop(t, m, aycoder.WithTools(named(t, "a")...), aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				if asked++; asked < 2 {
					return now, nil
				}
				if deaf {
					<-never
				}
				<-ctx.Done()
				return now, ctx.Err()
			}))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, cancel)
			var res aycoder.Result
			_, err := collect(loop.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, aycoder.EndCancelled, res.End)
			require.Len(t, res.Messages, 3)
			require.Len(t, m.reqs, 1)
			close(never)
		}
	})
}

// A lower limit of turns ends the run at the boundary, and not in a message.
func TestSetupLowersTurns(t *testing.T) {
	for _, most := range []int{1, 2, 3} {
		m := &fake{turns: [][]any{calls(use("1", "a", `{"text":""}`)), calls(use("2", "a", `{"text":""}`)), say("done")}}
		lower := func(now aycoder.Setup) aycoder.Setup { now.Limits.Turns = most; return now }
		loop := newLoop(t, m, aycoder.WithTools(named(t, "a")...), turns(unchanged, unchanged, lower))
		var res aycoder.Result
		var facts int
		events, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res),
			aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
				if _, ok := rec.Fact.(*aycoder.SetupChanged); ok {
					facts++
				}
				return nil
			})))
		require.Equal(t, 1, facts)
		require.True(t, slices.ContainsFunc(events, func(ev aycoder.Event) bool { _, ok := ev.(*aycoder.SetupChanged); return ok }))
		require.NoError(t, aycoder.CheckHistory(res.Messages))
		if most == 3 {
			require.NoError(t, err)
			require.Equal(t, aycoder.EndDone, res.End)
			continue
		}
		limit, ok := errors.AsType[*aycoder.LimitError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, aycoder.LimitError{Limit: "turns", Max: int64(most)}, *limit)
		require.Equal(t, aycoder.EndTurns, res.End)
		require.Equal(t, 2, res.Turns)
		require.Len(t, m.reqs, 2)
		require.Equal(t, "by a", outputsOf(res.Messages)["2"])
	}
}

// Each limit that a setup changes holds from the next turn on, and a 0 is the value of New.
func TestSetupChangesLimits(t *testing.T) {
	long := newTool(t, "a", aycoder.EffectReadOnly, func(context.Context, string) (string, error) { return strings.Repeat("x", 4000), nil })
	twice := calls(use("", "a", `{"text":""}`), use("", "a", `{"text":""}`))
	m := &fake{turns: [][]any{twice, twice, twice, say(strings.Repeat("y", 3000))}}
	set := func(l aycoder.Limits) func(aycoder.Setup) aycoder.Setup {
		return func(now aycoder.Setup) aycoder.Setup { now.Limits = l; return now }
	}
	loop := newLoop(t, m, aycoder.WithTools(long), aycoder.WithLimits(aycoder.Limits{Tokens: 77}), turns(
		unchanged, set(aycoder.Limits{Calls: 1, ToolOutput: 1024, Tokens: 5}), set(aycoder.Limits{}), set(aycoder.Limits{Response: 2000})))
	var res aycoder.Result
	_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
	limit, ok := errors.AsType[*aycoder.LimitError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, aycoder.LimitError{Limit: "response bytes", Max: 2000}, *limit)
	var sizes [][]int
	for _, m := range res.Messages {
		var of []int
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				of = append(of, len(o.Text()))
			}
		}
		if of != nil {
			sizes = append(sizes, of)
		}
	}
	tooMany := len("not run: too many calls in one message; make it again in a later message")
	require.InDelta(t, 1000, sizes[1][0], 24) // a rune may be left out
	sizes[1][0] = 0
	require.Equal(t, [][]int{{4000, 4000}, {0, tooMany}, {4000, 4000}}, sizes)
	var tokens []int
	for _, req := range m.reqs {
		tokens = append(tokens, req.MaxTokens)
	}
	require.Equal(t, []int{77, 5, 77, 77}, tokens)
	require.Equal(t, int64(2000), m.reqs[3].MaxResponse)
}

// The number of parallel calls, and the time for an answer, are those of the turn.
func TestSetupChangesTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		working, most := 0, 0
		slow := newTool(t, "slow", aycoder.EffectReadOnly, func(context.Context, string) (string, error) {
			mu.Lock()
			working++
			most = max(most, working)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			working--
			mu.Unlock()
			return "ok", nil
		})
		write := newTool(t, "write", aycoder.EffectWrite, echo)
		four := calls(use("", "slow", `{"text":""}`), use("", "slow", `{"text":""}`), use("", "slow", `{"text":""}`), use("", "slow", `{"text":""}`))
		m := &fake{turns: [][]any{four, four, calls(use("w", "write", `{"text":""}`)), say("done")}}
		set := func(l aycoder.Limits) func(aycoder.Setup) aycoder.Setup {
			return func(now aycoder.Setup) aycoder.Setup { now.Limits = l; return now }
		}
		ask := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if c.Name == "write" {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})
		loop := newLoop(t, m, aycoder.WithTools(slow, write), aycoder.WithApprover(ask), aycoder.WithLimits(aycoder.Limits{Parallel: 3}),
			turns(unchanged, set(aycoder.Limits{Parallel: 1}), set(aycoder.Limits{Approval: time.Minute}), unchanged))
		var peaks []int
		var open *aycoder.Approval
		var asked time.Time
		for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.TurnFinished:
				mu.Lock()
				peaks, most = append(peaks, most), 0
				mu.Unlock()
			case *aycoder.ApprovalRequested:
				open, asked = ev.Detach(), time.Now()
			case *aycoder.ToolFinished:
				if ev.Call.ID == "w" {
					require.Equal(t, time.Minute, time.Since(asked))
					require.True(t, open.Decided())
				}
			}
		}
		require.NotNil(t, open)
		require.Equal(t, []int{3, 1, 0, 0}, peaks)
	})
}

// namedModel is a client with a name and a window.
type namedModel struct {
	fake
	provider, model string
	window          int64
}

func (m *namedModel) ModelName() (provider, model string) { return m.provider, m.model }
func (m *namedModel) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Provider: m.provider, Model: model, Context: m.window}, true
}

// A new client gets the middleware of New. The window, the usage and the part of
// the history to leave out that the run learned of the old one do not apply to it. Errors name the client that failed.
func TestSetupChangesClient(t *testing.T) {
	small := &namedModel{provider: "p", model: "small", window: 100}
	big := &namedModel{provider: "q", model: "big", window: 9000}
	tooLarge := &aycoder.ContextTooLargeError{ModelError: &aycoder.ModelError{Err: errors.New("large")}, Actual: 2000, Max: 1500}
	call := calls(use("", "a", `{"text":""}`))
	small.turns = [][]any{{tooLarge}, call, call}
	big.turns = [][]any{call, {&aycoder.TextDelta{Text: "x"}}}
	wrapped := map[string]int{}
	type seen struct {
		client string
		model  string
		window int64
		used   int64
		sent   bool // the whole history
		over   bool
	}
	var got []seen
	builder := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			req, err := next.Build(ctx, in)
			if err == nil {
				n, _ := aycoder.As[aycoder.ModelNamer](in.Client)
				_, name := n.ModelName()
				got = append(got, seen{name, req.Model, in.Window, in.Usage.Input, len(req.Messages) == len(in.Messages), in.Overflow != nil})
			}
			return req, err
		})
	}
	to := func(client aycoder.ModelClient, model string) func(aycoder.Setup) aycoder.Setup {
		return func(now aycoder.Setup) aycoder.Setup { now.Client, now.Model = client, model; return now }
	}
	loop := newLoop(t, small, aycoder.WithTools(named(t, "a")...), aycoder.WithContextMiddleware(builder),
		aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1}),
		aycoder.WithModelMiddleware(func(next aycoder.ModelClient) aycoder.ModelClient {
			n, _ := aycoder.As[aycoder.ModelNamer](next)
			_, name := n.ModelName()
			wrapped[name]++
			return next
		}),
		turns(unchanged, to(big, ""), to(small, ""), to(big, "bigger")))
	history := []*aycoder.Message{aycoder.User("first")}
	for i := range 40 {
		history = append(history, aycoder.Assistant(strings.Repeat("a", 100)), aycoder.User(fmt.Sprint(i)))
	}
	history = append(history, aycoder.Assistant("a"))
	var res aycoder.Result
	var models []string
	var failed error
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go"}, aycoder.Into(&res)) {
		failed = err
		if c, ok := ev.(*aycoder.SetupChanged); ok {
			models = append(models, c.Model)
			require.Empty(t, slices.Concat(c.Added, c.Removed, c.Changed))
		}
	}
	broken, ok := errors.AsType[*aycoder.StreamBrokenError](failed)
	require.True(t, ok, "%v", failed)
	require.Equal(t, "q", broken.Provider)
	require.Equal(t, []string{"q/big", "p/small", "q/bigger"}, models)
	require.Equal(t, []seen{
		{"small", "", 100, 0, true, false},
		{"small", "", 1500, 0, false, true}, // as the refusal says
		{"big", "", 9000, 0, true, false},
		{"small", "", 100, 0, false, false}, // the history records the limit
		{"big", "bigger", 9000, 0, true, false},
	}, got)
	require.Equal(t, map[string]int{"small": 1, "big": 1}, wrapped)
}

// A function that changes nothing costs nothing, also if it returns the same tools in another list. A
// tool is checked once.
func TestSetupCostsNothing(t *testing.T) {
	timed.Serial(t)
	specs := 0
	counted := &countedTool{specs: &specs}
	list := []aycoder.Tool{counted}
	run := func(n int, opts ...aycoder.Option) uint64 {
		m := &fake{}
		for i := range n {
			m.turns = append(m.turns, calls(use(fmt.Sprint("c", i), "counted", `{}`)))
		}
		m.turns = append(m.turns, say("done"))
		var none aycoder.ModelClient = m
		opts = append(opts, aycoder.WithTools(counted), aycoder.WithLimits(aycoder.Limits{Turns: n + 1}))
		loop := newLoop(t, none, opts...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}))
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		return after.Mallocs - before.Mallocs
	}
	const n = 400
	per := func(opts ...aycoder.Option) float64 {
		run(n, opts...)
		least := ^uint64(0)
		for range 5 {
			least = min(least, run(2*n, opts...)-run(n, opts...))
		}
		return float64(least) / n
	}
	plain := per()
	for name, next := range map[string]func(aycoder.Setup) aycoder.Setup{
		"unchanged":  unchanged,
		"other list": withTools(list),
		"no limits":  func(now aycoder.Setup) aycoder.Setup { now.Limits.Tokens = 0; return now },
	} {
		specs = 0
		require.InDelta(t, plain, per(turns(next)), 0.5, name)
		require.LessOrEqual(t, specs, 11, "%s: Spec is called once for each loop", name)
	}
}

type countedTool struct{ specs *int }

func (c *countedTool) Spec() aycoder.ToolSpec {
	*c.specs++
	return aycoder.ToolSpec{Name: "counted", Schema: []byte(`{"type":"object"}`), Effect: aycoder.EffectReadOnly}
}
func (*countedTool) Call(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return aycoder.TextResult("ok"), nil
}

// A function that changes the list in place gets the tools of the run in the next turn all the same.
func TestSetupChangesItsList(t *testing.T) {
	tools := named(t, "a", "b")
	m := &fake{turns: [][]any{calls(use("1", "a", `{"text":""}`)), calls(use("2", "a", `{"text":""}`)), say("done")}}
	loop := newLoop(t, m, aycoder.WithTools(tools...), aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		require.Equal(t, tools, now.Tools)
		clear(now.Tools)
		now.Tools = tools
		return now, nil
	}))
	for range 2 {
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err)
		m.reqs = nil
	}
}

// A tool that another run of the loop has got is not checked again, and a function as client works.
func TestSetupIsKept(t *testing.T) {
	specs := 0
	counted := &countedTool{specs: &specs}
	m := aycoder.ModelFunc((&fake{turns: [][]any{say("a"), say("b"), say("c")}}).Stream)
	loop := newLoop(t, m, aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		now.Tools = []aycoder.Tool{counted}
		return now, nil
	}))
	for range 3 {
		events, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err)
		require.Equal(t, []string{"counted"}, events[0].(*aycoder.SetupChanged).Added, "relative to New, in each run")
	}
	require.Equal(t, 1, specs)
}

// A retry of a turn has the setup of the turn. The function knows the run.
func TestSetupOncePerTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overloaded := &aycoder.OverloadedError{ModelError: &aycoder.ModelError{Err: errors.New("busy")}}
		m := &fake{turns: [][]any{{overloaded}, {overloaded}, calls(use("1", "a", `{"text":""}`)), {overloaded}, say("done")}}
		asked := 0
		loop := newLoop(t, m, aycoder.WithTools(named(t, "a")...), aycoder.WithIDs(func() string { return "run 7" }),
			aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				asked++
				p, _ := aycoder.PlaceFromContext(ctx)
				require.Equal(t, "run 7", p.Run)
				require.Zero(t, p.Depth)
				return now, nil
			}))
		_, err := collect(loop.Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err)
		require.Equal(t, 2, asked)
		require.Len(t, m.reqs, 5)
	})
}

// A run inside a call has the setup of its loop: tools of the outer run do not reach it.
func TestSetupOfInnerRun(t *testing.T) {
	for _, own := range []bool{false, true} {
		inner := &fake{turns: [][]any{calls(use("1", "a", `{"text":""}`), use("2", "b", `{"text":""}`), use("3", "c", `{"text":""}`)), say("inner")}}
		opts := []aycoder.Option{aycoder.WithTools(named(t, "a")...)}
		if own {
			opts = append(opts, aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				p, _ := aycoder.PlaceFromContext(ctx)
				require.Equal(t, 1, p.Depth)
				now.Tools = append(now.Tools[:1], named(t, "c")...)
				return now, nil
			}))
		}
		child := newLoop(t, inner, opts...)
		var res aycoder.Result
		sub, err := aycoder.NewTool("sub", "Runs a child.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			for ev, err := range child.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv), aycoder.Into(&res)) {
				if err == nil {
					err = inv.Emit(ctx, ev)
				}
				if err != nil {
					return nil, err
				}
			}
			return aycoder.TextResult("ok"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		outer := &fake{turns: [][]any{calls(use("1", "sub", `{}`)), say("outer")}}
		_, err = collect(newLoop(t, outer, turns(withTools(append(named(t, "b"), sub)))).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NoError(t, err)
		out := outputsOf(res.Messages)
		require.Equal(t, "by a", out["1"])
		require.Contains(t, out["2"], "no such tool")
		if own {
			require.Equal(t, "by c", out["3"])
		} else {
			require.Contains(t, out["3"], "no such tool")
		}
	}
}

// Turn asks for the setup, too. Its limit of one turn stays.
func TestSetupOfTurn(t *testing.T) {
	m := &fake{turns: [][]any{calls(use("1", "b", `{"text":""}`))}}
	loop := newLoop(t, m, aycoder.WithTools(named(t, "a")...), turns(func(now aycoder.Setup) aycoder.Setup {
		now.Tools, now.Model, now.Limits.Turns = named(t, "b"), "m", 9
		return now
	}))
	var res aycoder.TurnResult
	events, err := collect(loop.Turn(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}, &res))
	require.NoError(t, err)
	require.Equal(t, 1, events[0].(*aycoder.SetupChanged).MaxTurns)
	require.Equal(t, "by b", outputsOf(res.Messages)["1"])
	require.True(t, res.More)
	require.Equal(t, "m", m.reqs[0].Model)
	require.Equal(t, []string{"b"}, specNames(m.reqs[0].Tools))
}

// A resumed run asks for its setup at once: its open calls run with the tools of that name, and a call
// whose tool is gone is not run. One that was taken for a read does not run as a write.
func TestSetupOfResumedRun(t *testing.T) {
	always := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })
	ran := map[string]string{}
	tool := func(name, version string, effect aycoder.Effect) aycoder.Tool {
		return newTool(t, name, effect, func(context.Context, string) (string, error) {
			ran[name] = version
			return "by " + version, nil
		})
	}
	suspended := func(t *testing.T) *aycoder.Pending {
		m := &fake{turns: [][]any{calls(use("1", "read", `{"text":""}`), use("2", "write", `{"text":""}`))}}
		var res aycoder.Result
		_, err := collect(newLoop(t, m, aycoder.WithApprover(aycoder.SuspendAsks(always)), turns(withTools([]aycoder.Tool{
			tool("read", "old", aycoder.EffectReadOnly), tool("write", "old", aycoder.EffectWrite),
		}))).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		stored, err := json.Marshal(res.Pending)
		require.NoError(t, err)
		var p aycoder.Pending
		require.NoError(t, json.Unmarshal(stored, &p))
		return &p
	}
	for name, tt := range map[string]struct {
		tools []aycoder.Tool
		want  map[string]string
		read  string
	}{
		"same":  {[]aycoder.Tool{tool("read", "new", aycoder.EffectReadOnly), tool("write", "new", aycoder.EffectWrite)}, map[string]string{"read": "new", "write": "new"}, "by new"},
		"gone":  {[]aycoder.Tool{tool("write", "new", aycoder.EffectWrite)}, map[string]string{"write": "new"}, "no such tool"},
		"none":  {nil, map[string]string{}, "no such tool"},
		"risky": {[]aycoder.Tool{tool("read", "new", aycoder.EffectWrite), tool("write", "new", aycoder.EffectWrite)}, map[string]string{"write": "new"}, "has changed since it was approved"},
		"tame":  {[]aycoder.Tool{tool("read", "new", aycoder.EffectReadOnly), tool("write", "new", aycoder.EffectReadOnly)}, map[string]string{"read": "new", "write": "new"}, "by new"},
	} {
		p := suspended(t)
		clear(ran)
		in := aycoder.Input{Pending: p}
		for _, q := range p.Requests {
			in.Decisions = append(in.Decisions, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
		}
		m := &fake{turns: [][]any{say("done"), say("more")}}
		var asked []string
		loop := newLoop(t, m, aycoder.WithApprover(aycoder.SuspendAsks(always)), aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			p, _ := aycoder.PlaceFromContext(ctx)
			asked = append(asked, p.Run)
			now.Tools = tt.tools
			return now, nil
		}))
		var res aycoder.Result
		events, err := collect(loop.Run(t.Context(), in, aycoder.Into(&res)))
		require.NoError(t, err, name)
		require.Equal(t, []string{p.Run, p.Run}, asked, "%s: at once, and before the next turn", name)
		require.Equal(t, tt.want, ran, name)
		require.Contains(t, outputsOf(res.Messages)["1"], tt.read, name)
		changed := slices.ContainsFunc(events, func(ev aycoder.Event) bool { _, ok := ev.(*aycoder.SetupChanged); return ok })
		require.Equal(t, name != "same", changed, name)
	}
	for name, next := range map[string]func(ctx context.Context, cancel func()) error{
		"error":    func(context.Context, func()) error { return errors.New("boom") },
		"panic":    func(context.Context, func()) error { panic("boom") },
		"goexit":   func(context.Context, func()) error { runtime.Goexit(); return nil },
		"canceled": func(ctx context.Context, cancel func()) error { cancel(); <-ctx.Done(); return ctx.Err() },
	} {
		p := suspended(t)
		clear(ran)
		ctx, cancel := context.WithCancel(t.Context())
		failing := true
		loop := newLoop(t, &fake{turns: [][]any{say("done")}}, aycoder.WithApprover(aycoder.SuspendAsks(always)),
			aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				if failing {
					return now, next(ctx, cancel)
				}
				return now, nil
			}))
		var res aycoder.Result
		_, err := collect(loop.Run(ctx, aycoder.Input{Pending: p}, aycoder.Into(&res)))
		require.Error(t, err, name)
		require.Same(t, p, res.Pending, "%s: it can still be resumed", name)
		failing = false
		_, err = collect(loop.Run(t.Context(), aycoder.Input{Pending: p}))
		require.NoError(t, err, name)
		require.Empty(t, ran, name)
		cancel()
	}
}

// A setup function that does not stop when the context of a resumed run is done is abandoned.
func TestSetupOfResumedRunIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := newRunner(t, asks, calls(use("c", "run", `{"text":"1"}`))).suspend(t)
		var p aycoder.Pending
		require.NoError(t, json.Unmarshal(stored, &p))
		never := make(chan struct{})
		loop := newLoop(t, &fake{}, aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			<-never
			return now, nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var res aycoder.Result
		begun := time.Now()
		_, err := collect(loop.Run(ctx, aycoder.Input{Pending: &p}, aycoder.Into(&res)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(begun), "the grace is a second")
		require.Same(t, &p, res.Pending)
		close(never)
	})
}
