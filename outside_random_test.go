package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// An outsideWorld is a run of random messages, and what each call of it returns.
type outsideWorld struct {
	turns   [][]any
	results map[string]*aycoder.ToolResult
	deny    map[string]bool
	ran     map[string]*atomic.Int32
	asked   map[string]*atomic.Int32 // outside
}

var (
	outsideEffects = []aycoder.Effect{aycoder.EffectReadOnly, aycoder.EffectWrite, aycoder.EffectUnknown}
	outsideNames   = []string{"ask", "deploy", "later"}
)

func newOutsideWorld(rnd *rand.Rand) *outsideWorld {
	w := &outsideWorld{results: map[string]*aycoder.ToolResult{}, deny: map[string]bool{}, ran: map[string]*atomic.Int32{}, asked: map[string]*atomic.Int32{}}
	for turn := range 1 + rnd.IntN(4) {
		var blocks []any
		for i := range 1 + rnd.IntN(6) {
			id, name := fmt.Sprintf("t%dc%d", turn, i), "run"
			if rnd.IntN(3) > 0 {
				name = outsideNames[rnd.IntN(3)]
			} else if rnd.IntN(2) == 0 {
				name = "look"
			}
			args := fmt.Sprintf(`{"text":%q}`, id)
			switch rnd.IntN(12) {
			case 0:
				args = `{"text":1}`
			case 1:
				args = fmt.Sprintf(`{"text":%q,"count":"3"}`, id)
			}
			w.deny[id] = rnd.IntN(10) == 0
			w.ran[id], w.asked[id] = &atomic.Int32{}, &atomic.Int32{}
			w.results[id] = randomResult(rnd, id)
			blocks = append(blocks, use(id, name, args))
		}
		w.turns = append(w.turns, calls(blocks...))
	}
	w.turns = append(w.turns, say("done"))
	return w
}

func randomResult(rnd *rand.Rand, id string) *aycoder.ToolResult {
	res := aycoder.TextResult("result of " + id)
	switch rnd.IntN(8) {
	case 0:
		res = aycoder.ErrorResult("failed " + id)
	case 1:
		res.Parts = append(res.Parts, &aycoder.Media{Type: "image/png", Data: []byte(id)}, &aycoder.Text{Text: "more"})
	case 2:
		res = aycoder.TextResult(strings.Repeat(id+"\n", 600))
	case 3:
		res = aycoder.TextResult("a secret: hunter2 \x1b[31m")
	case 4:
		res = &aycoder.ToolResult{}
	}
	res.Untrusted = rnd.IntN(5) == 0
	return res
}

type outsideArgs struct {
	Text  string `json:"text"`
	Count int    `json:"count,omitempty"`
}

// loop returns an agent whose outside tools are declared, or have functions. It continues after the
// messages that the history has.
func (w *outsideWorld) loop(t testing.TB, declared bool) *aycoder.Loop {
	var tools []aycoder.Tool
	fn := func(_ context.Context, inv *aycoder.Invocation, _ outsideArgs) (*aycoder.ToolResult, error) {
		w.ran[inv.ID].Add(1)
		return new(*w.results[inv.ID]), nil
	}
	for i, name := range append(slices.Clone(outsideNames), "run", "look") {
		effect := append(slices.Clone(outsideEffects), aycoder.EffectWrite, aycoder.EffectReadOnly)[i]
		tool, err := aycoder.NewTool(name, "A tool.", fn, aycoder.WithEffect(effect))
		if declared && i < 3 {
			tool, err = aycoder.DeclareTool[outsideArgs](name, "A tool.", aycoder.WithEffect(effect))
		}
		require.NoError(t, err)
		tools = append(tools, tool)
	}
	model := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		n := 0
		for _, m := range req.Messages {
			if m.Role == aycoder.RoleAssistant {
				n++
			}
		}
		return (&fake{turns: w.turns[n:]}).Stream(ctx, req)
	})
	policy := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if w.deny[c.ID] {
			return aycoder.Deny("no")
		}
		return aycoder.Allow()
	})
	mask := func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			res, err := next(ctx, inv)
			if err == nil {
				res.Parts = slices.Clone(res.Parts)
				for i, p := range res.Parts {
					if text, ok := p.(*aycoder.Text); ok {
						res.Parts[i] = &aycoder.Text{Text: strings.ReplaceAll(text.Text, "hunter2", "[secret]")}
					}
				}
			}
			return res, err
		}
	}
	return newLoop(t, model, aycoder.WithTools(tools...), aycoder.WithApprover(policy), aycoder.WithToolMiddleware(mask),
		aycoder.WithLimits(aycoder.Limits{ToolOutput: 2048}))
}

// An outsideHost answers calls in a random order, late, twice and wrongly.
type outsideHost struct {
	t     testing.TB
	rnd   *rand.Rand
	world *outsideWorld

	stats struct{ live, detached, resumed, processes, refused, killed int }
}

// result returns what the call returns, as another process would send it.
func (h *outsideHost) result(q *aycoder.CallRequest) aycoder.CallResult {
	data, err := json.Marshal(q.Result(h.world.results[q.CallID]))
	require.NoError(h.t, err)
	var back aycoder.CallResult
	require.NoError(h.t, json.Unmarshal(data, &back))
	return back
}

// process runs the agent in one process until it ends, is suspended or killed.
func (h *outsideHost) process(in aycoder.Input) *aycoder.Result {
	h.stats.processes++
	var res aycoder.Result
	var wg sync.WaitGroup
	var handles []*aycoder.OpenCall
	kill, last := -1, (*aycoder.FactRecord)(nil)
	if h.rnd.IntN(2) == 0 {
		kill = h.rnd.IntN(12)
	}
	killed := errors.New("killed")
	record := func(_ context.Context, rec *aycoder.FactRecord) error {
		if kill--; kill == -1 {
			return killed // nothing that follows from this fact happens
		}
		last = rec
		return nil
	}
	seed := h.rnd.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for ev, err := range h.world.loop(h.t, true).Run(h.t.Context(), in, aycoder.Into(&res), aycoder.WithFacts(record)) {
		if errors.Is(err, killed) {
			break
		}
		require.NoError(h.t, err)
		c, ok := ev.(*aycoder.CallRequested)
		if !ok {
			continue
		}
		h.world.asked[c.Request.CallID].Add(1)
		if rnd.IntN(3) == 0 {
			h.wrong(c)
		}
		switch rnd.IntN(4) {
		case 0: // in the loop body, and again
			h.stats.live++
			_ = c.Answer(h.world.results[c.Request.CallID])
			require.Error(h.t, c.Answer(aycoder.TextResult("another")))
		case 1: // by one of two goroutines
			h.stats.detached++
			handle := c.Detach()
			for range 2 {
				wg.Go(func() { _ = handle.Answer(h.world.results[handle.Request.CallID]) })
			}
			handles = append(handles, handle)
		case 2: // nobody
			handle := c.Detach()
			wg.Go(func() { handle.Leave() })
		}
	}
	wg.Wait()
	for _, handle := range handles { // late
		require.Equal(h.t, "not_open", resultKind(h.t, handle.Answer(aycoder.TextResult("late"))))
	}
	if kill < -1 || kill == -1 && last != nil { // the process was killed after the last fact
		h.stats.killed++
		if last.State.End() == "" || last.State.End() == aycoder.EndSuspended {
			return &aycoder.Result{End: aycoder.EndSuspended, Pending: &aycoder.Pending{Run: last.Run, State: last.State, Calls: last.State.OpenCalls()}}
		}
	} else if kill == -1 {
		return &aycoder.Result{End: aycoder.EndSuspended, Pending: in.Pending} // nothing was stored
	}
	return &res
}

// wrong gives results that must be refused.
func (h *outsideHost) wrong(c *aycoder.CallRequested) {
	require.Error(h.t, c.Answer(nil))
	require.Error(h.t, c.Answer(&aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Thinking{}}}))
	h.stats.refused += 2
}

// results answers some of the calls, in any order.
func (h *outsideHost) results(p *aycoder.Pending) (out []aycoder.CallResult) {
	for _, i := range h.rnd.Perm(len(p.Calls)) {
		if h.rnd.IntN(3) > 0 {
			h.stats.resumed++
			out = append(out, h.result(&p.Calls[i]))
		}
	}
	return out
}

// refuse sees that results which do not fit change nothing.
func (h *outsideHost) refuse(p *aycoder.Pending, settled []aycoder.CallResult) {
	before, err := json.Marshal(p)
	require.NoError(h.t, err)
	wrong := [][]aycoder.CallResult{{{CallID: "nobody's"}}}
	for i := range settled { // late, unless a kill has lost it
		if !slices.ContainsFunc(p.Calls, func(q aycoder.CallRequest) bool { return q.CallID == settled[i].CallID }) {
			wrong = append(wrong, settled[i:i+1])
		}
	}
	for i := range p.Calls {
		good := h.result(&p.Calls[i])
		other := good
		other.Digest = "00"
		wrong = append(wrong, []aycoder.CallResult{good, good}, []aycoder.CallResult{good, other}, []aycoder.CallResult{other})
	}
	for _, results := range wrong {
		_, err := collect(h.world.loop(h.t, true).Run(h.t.Context(), aycoder.Input{Pending: p, Results: results}))
		resultKind(h.t, err)
		h.stats.refused++
	}
	after, err := json.Marshal(p)
	require.NoError(h.t, err)
	require.Equal(h.t, string(before), string(after))
}

// A run whose calls are answered from outside, in whatever order, process and number of attempts, has
// the history that it has with tools that have functions.
func TestOutsideCallsAtRandom(t *testing.T) {
	rounds := 100
	if n, err := strconv.Atoi(os.Getenv("AYCODER_OUTSIDE")); err == nil {
		rounds = n
	}
	var total outsideHost
	cut := 0
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 14))
		w := newOutsideWorld(rnd)
		var want aycoder.Result
		_, err := collect(w.loop(t, false).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&want)))
		require.NoError(t, err)
		for _, n := range w.ran {
			n.Store(0)
		}
		h := &outsideHost{t: t, rnd: rnd, world: w}
		in := aycoder.Input{Prompt: "go"}
		var settled []aycoder.CallResult
		var res *aycoder.Result
		for res = h.process(in); res.End == aycoder.EndSuspended; res = h.process(in) {
			if res.Pending == nil { // killed before the first fact
				continue
			}
			p := stored(t, res.Pending)
			if p.State.End() == aycoder.EndSuspended && rnd.IntN(2) == 0 {
				h.refuse(p, settled)
			}
			in = aycoder.Input{Pending: p, Results: h.results(p), RepeatReads: true}
			if len(in.Results) > 0 {
				settled = in.Results
			}
		}
		require.Equal(t, aycoder.EndDone, res.End, "seed %d", seed)
		for id, n := range w.ran {
			require.LessOrEqual(t, n.Load(), int32(1+100*btoi(!writes(w, id))), "%s ran twice", id)
		}
		got, err := json.Marshal(res.Messages)
		require.NoError(t, err)
		if strings.Contains(string(got), "not run: the response broke off") || shortened(t, res.Messages, want.Messages) {
			// A kill came after the first call of a message had run, and before the message was complete. It
			// cannot be asked for again then, whatever kind of tools it calls.
			require.NoError(t, aycoder.CheckHistory(res.Messages))
			cut++
			continue
		}
		lost := strings.Contains(string(got), "the program ended while this call worked") // of a tool with a function
		if lost {
			got, err = json.Marshal(withoutLost(res.Messages, want.Messages))
			require.NoError(t, err)
		}
		expected, err := json.Marshal(want.Messages)
		require.NoError(t, err)
		require.Equal(t, string(expected), string(got), "seed %d", seed)
		s, u := &total.stats, &h.stats
		s.live, s.detached, s.resumed, s.processes = s.live+u.live, s.detached+u.detached, s.resumed+u.resumed, s.processes+u.processes
		s.refused, s.killed = s.refused+u.refused, s.killed+u.killed
	}
	require.LessOrEqual(t, cut, max(2, rounds/20))
	t.Logf("%d schedules, %d messages cut off: %+v", rounds, cut, total.stats)
}

// shortened reports whether the first message of the model that differs has only the first parts of the one
// that was expected: all of these have run.
func shortened(t *testing.T, got, want []*aycoder.Message) bool {
	for i := range min(len(got), len(want)) {
		if got[i].Role != aycoder.RoleAssistant {
			continue
		}
		if n := len(got[i].Parts); n < len(want[i].Parts) {
			require.Equal(t, want[i].Parts[:n], got[i].Parts)
			return true
		}
	}
	return false
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func writes(w *outsideWorld, id string) bool {
	for _, turn := range w.turns {
		for _, b := range turn {
			if d, ok := b.(*aycoder.BlockDone); ok {
				if u, ok := d.Part.(*aycoder.ToolUse); ok && u.ID == id {
					return u.Name != "look"
				}
			}
		}
	}
	return true
}

// withoutLost puts the outputs that were expected in place of those of calls that a kill has lost: these
// must be calls of the tool "run", which has a function.
func withoutLost(messages, want []*aycoder.Message) []*aycoder.Message {
	out := slices.Clone(messages)
	for i, m := range out {
		parts := slices.Clone(m.Parts)
		for n, p := range parts {
			o, ok := p.(*aycoder.ToolOutput)
			if ok && o.Name == "run" && strings.HasPrefix(o.Text(), "interrupted: ") {
				parts[n] = want[i].Parts[n]
			}
		}
		out[i] = &aycoder.Message{Role: m.Role, Parts: parts}
	}
	return out
}
