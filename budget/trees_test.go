package budget_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/stretchr/testify/require"
)

// A ledger writes down, below the pot, what each answer really used.
type ledger struct {
	mu      sync.Mutex
	random  *rand.Rand
	longest int
	answers int
	tokens  int64
	most    int64 // of one answer
}

func (l *ledger) n(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

// price makes a token cost a millionth of a dollar, whatever it is.
var price = aycoder.Price{Input: 1, Output: 1}

type pricedClient struct{ aycoder.ModelClient }

func (pricedClient) ModelInfo(string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Provider: "script", Model: "script", Price: &price}, true
}

func (c pricedClient) Unwrap() aycoder.ModelClient { return c.ModelClient }

// client is a scripted model of random answers, each of which is written down before it ends.
func (l *ledger) client() aycoder.ModelClient {
	m := script.New(script.Func(l.answer)).With(script.WithLoop(true))
	return pricedClient{aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for ev, err := range m.Stream(ctx, req) {
				if d, ok := ev.(*aycoder.MessageDone); ok {
					l.mu.Lock()
					used := d.Usage.Input + d.Usage.Output
					l.answers, l.tokens, l.most = l.answers+1, l.tokens+used, max(l.most, used)
					l.mu.Unlock()
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	})}
}

func (l *ledger) answer(req *aycoder.Request) script.Step {
	used := aycoder.Usage{Output: int64(1 + l.n(req.MaxTokens))}
	for _, m := range req.Messages {
		data, _ := json.Marshal(m)
		used.Input += int64(bytes.Count(data, []byte(" ")))
	}
	var steps []script.Step
	if len(req.Tools) > 0 && len(req.Messages) < 12 {
		for range l.n(4) {
			steps = append(steps, script.Call("subagent", map[string]any{"task": "look at this"}))
		}
	}
	if l.n(20) == 0 {
		return script.Break(1, nil, script.Say("one two three"))
	}
	return script.Reply(append(steps, script.Say("some words"))...).WithUsage(used)
}

// tree makes an agent that starts agents, which start agents.
func tree(t *testing.T, l *ledger, pot *budget.Pot) *aycoder.Loop {
	opts := []aycoder.Option{
		aycoder.WithModelMiddleware(pot.Model), aycoder.WithToolMiddleware(pot.Tool),
		aycoder.WithLimits(aycoder.Limits{Tokens: l.longest}), aycoder.WithRetry(aycoder.RetryPolicy{Base: 1}),
	}
	sub, err := tools.Subagent(tools.SubagentConfig{Model: l.client(), Options: opts, MaxDepth: 3, MaxTurns: 4})
	require.NoError(t, err)
	loop, err := aycoder.New(l.client(), append(opts, aycoder.WithTools(sub))...)
	require.NoError(t, err)
	return loop
}

// run runs a tree, and kills it after some events. It reports whether the budget ended it.
func run(ctx context.Context, loop *aycoder.Loop, history *[]*aycoder.Message, kill int) error {
	var res aycoder.Result
	in := aycoder.Input{Messages: *history, Prompt: "go on"}
	for _, err := range loop.Run(ctx, in, aycoder.Into(&res)) {
		if kill--; kill == 0 {
			break
		}
		if err != nil {
			return err
		}
	}
	*history = res.Messages
	return nil
}

// Random trees of agents under one budget, killed and resumed, spend at most the limit and one call, and
// leave nothing reserved. The sum is that of the usages of the script. AYCODER_TREES is the number of
// trees, 100 without it.
func TestTrees(t *testing.T) {
	exhausted, killed, answers, exact := 0, 0, 0, 0
	trees := uint64(100)
	if n, err := strconv.ParseUint(os.Getenv("AYCODER_TREES"), 10, 64); err == nil {
		trees = n
	}
	for seed := range trees {
		l := &ledger{random: rand.New(rand.NewPCG(seed, 1)), longest: 2000}
		c := budget.Config{Name: "tree", File: filepath.Join(t.TempDir(), "spent")}
		limit := int64(3000 + l.n(60_000))
		if seed%2 == 0 {
			c.Tokens = limit
		} else {
			c.Money = float64(limit) / 1e6
		}
		var history []*aycoder.Message
		estimated := 0
		for range 1 + l.n(6) {
			pot, err := budget.New(c)
			require.NoError(t, err)
			kill := 0
			if l.n(3) > 0 {
				kill = 1 + l.n(60)
				killed++
			}
			err = run(t.Context(), tree(t, l, pot), &history, kill)
			s := pot.Status()
			require.Zero(t, s.Reserved, "seed %d", seed)
			require.Zero(t, s.Calls, "seed %d", seed)
			require.Zero(t, s.Waiting, "seed %d", seed)
			require.LessOrEqual(t, l.tokens, limit+l.most, "seed %d: %d answers", seed, l.answers)
			require.GreaterOrEqual(t, s.Spent.Tokens, l.tokens, "seed %d", seed)
			if estimated += s.Estimated; estimated == 0 {
				exact++
				require.Equal(t, l.tokens, s.Spent.Tokens, "seed %d", seed)
			}
			if e, ok := errors.AsType[*budget.ExhaustedError](err); ok {
				exhausted++
				require.Equal(t, "tree", e.Budget)
				require.Contains(t, []string{"budget.tree.tokens", "budget.tree.money"}, e.Key)
			} else if err != nil {
				if _, broken := errors.AsType[*aycoder.StreamBrokenError](err); !broken {
					require.NoError(t, err, fmt.Sprint("seed ", seed))
				}
			}
			// Half of the time the process is killed before the pot is closed.
			if l.n(2) == 0 {
				require.NoError(t, pot.Close())
			}
		}
		answers += l.answers
	}
	require.Greater(t, exhausted, 50)
	require.Greater(t, exact, 50)
	t.Logf("%d answers; the budget ended %d runs, %d were killed, and %d sums are exact", answers, exhausted, killed, exact)
}
