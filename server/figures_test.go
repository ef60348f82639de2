package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/internal/payer"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/server/webhook"
	"github.com/aycoder/aycoder/tools"
)

// flaky is a client that refuses every third request, so that another one answers.
type flaky struct {
	aycoder.ModelClient
	n int
}

// Stream implements [aycoder.ModelClient].
func (f *flaky) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	if f.n++; f.n%3 != 0 {
		return f.ModelClient.Stream(ctx, req)
	}
	return func(yield func(aycoder.ModelEvent, error) bool) {
		yield(nil, &aycoder.OverloadedError{ModelError: &aycoder.ModelError{Status: 529}})
	}
}

// The journals, the metrics and the events for webhooks tell of random sessions what their models have charged: with agents
// inside, fallbacks, compactions, and calls without a model.
func TestFiguresAgree(t *testing.T) {
	compacted := false
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		bill := new(payer.Bill)
		read, err := aycoder.NewTool("read", "returns a long text", func(_ context.Context, _ *aycoder.Invocation, in struct {
			Text string `json:"text"`
		}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult(strings.Repeat(in.Text+" and more of it\n", 500)), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		sub, err := tools.Subagent(tools.SubagentConfig{Name: "sub", Model: payer.New(bill, seed, "small", "read"), Tools: []aycoder.Tool{read}, MaxTurns: 4})
		require.NoError(t, err)
		s := newSite(t, middleware.Fallback(payer.New(bill, seed, "spare", "read", "sub"))(&flaky{payer.New(bill, seed, "large", "read", "sub"), 0}))
		dir := t.TempDir()
		hooks, err := webhook.Open(dir, webhook.Options{})
		require.NoError(t, err)
		secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))
		require.NoError(t, hooks.Register(webhook.Endpoint{ID: "ci", URL: "https://ci.example.com", Secrets: []string{secret}}))
		loaded, err := config.Load()
		require.NoError(t, err)
		st := loaded.Config.Settings
		st.Context.MaxTokens = 8000
		s.more = []harness.Option{
			harness.WithSettings(st), harness.WithTools(read, sub),
			harness.WithAgentMiddleware(func(rt *harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
				_, cost := rt.Session.View().Usage()
				w := hooks.Watch(rt.Session.ID(), cost, cost+0.01)
				return w.Agent, w.Close
			}),
		}
		s.start()
		for range 2 {
			_, res := s.ask(prompt("fix it"))
			id, _, _ := strings.Cut(runOf(res), ".")
			for range r.IntN(4) {
				events, _ := s.ask(map[string]any{"prompt": "go on", "session": id})
				for _, e := range events {
					compacted = compacted || e.kind == "compacted"
				}
			}
			s.read(s.do("POST", "/api/tools/sub", map[string]any{"session": id, "args": map[string]any{"task": "x"}})).rest()
		}
		var told struct {
			Tokens map[string]int64 `json:"aycoder_tokens_total"`
			Cost   float64          `json:"aycoder_api_cost_dollars_total"`
		}
		s.get(200, &told, "GET", "/api/metrics", nil)
		s.end()
		require.NoError(t, hooks.Close())

		answers, tokens, cents := bill.Total()
		require.NotZero(t, cents)
		charged := float64(cents) / 100
		work, err := usage.Collect(t.Context(), s.stores("local"), nil)
		require.NoError(t, err)
		total := work.Total()
		require.Equal(t, answers, total.Answers)
		require.Equal(t, tokens, total.Usage)
		require.InDelta(t, charged, total.Cost, 1e-6)
		require.Equal(t, map[string]int64{"input": tokens.Input, "output": tokens.Output, "cache_read": tokens.CacheRead, "cache_write": tokens.CacheWrite}, told.Tokens)
		require.InDelta(t, charged, told.Cost, 1e-6)
		require.InDelta(t, charged, sentCost(t, dir), 1e-6)
	}
	require.True(t, compacted)
}

// sentCost returns the sum of the costs with which sessions have ended, of the events that a sender keeps.
func sentCost(t *testing.T, dir string) (sum float64) {
	require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var kept struct {
			Type string
			Body struct{ Data struct{ Cost float64 } }
		}
		if json.Unmarshal(data, &kept) == nil && kept.Type == webhook.SessionEnd {
			sum += kept.Body.Data.Cost
		}
		return nil
	}))
	return sum
}
