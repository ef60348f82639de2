package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// A smallModel refuses requests that are larger than its window. It counts a token for
// every three bytes of JSON, unlike the loop. It answers a prompt "n" with the calls of
// its plan, and then with text.
type smallModel struct {
	t      *testing.T
	window int
	silent bool // the error does not say how large the request was
	plan   func(n int) []any

	mu       sync.Mutex
	refused  [][]byte // the requests that were too large since the last one that was not
	refusals int
	sent     []*aycoder.Request
	bodies   [][]byte
}

func (s *smallModel) ModelName() (provider, model string) { return "small", "small-1" }

func wireBody(t testing.TB, req *aycoder.Request) []byte {
	data, err := json.Marshal(struct {
		System   []*aycoder.Text
		Tools    []*aycoder.ToolSpec
		Messages []*aycoder.Message
	}{req.System, req.Tools, req.Messages})
	require.NoError(t, err)
	return data
}

func (s *smallModel) Stream(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		require.NoError(s.t, aycoder.CheckHistory(req.Messages))
		body := wireBody(s.t, req)
		for _, before := range s.refused {
			require.Less(s.t, len(body), len(before), "a request that takes the place of one that was too large is smaller")
		}
		s.sent, s.bodies = append(s.sent, req), append(s.bodies, body)
		if tokens := len(body) / 3; tokens > s.window {
			s.refused = append(s.refused, body)
			s.refusals++
			e := &aycoder.ContextTooLargeError{ModelError: &aycoder.ModelError{Err: errors.New("too long")}}
			if !s.silent {
				e.Actual, e.Max = int64(tokens), int64(s.window)
			}
			yield(nil, e)
			return
		}
		s.refused = nil
		for _, ev := range s.answer(req) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// answer returns calls for a prompt, and text for their outputs.
func (s *smallModel) answer(req *aycoder.Request) []aycoder.ModelEvent {
	last := req.Messages[len(req.Messages)-1]
	n := 0
	if _, err := fmt.Sscanf(last.Text(), "turn %d", &n); err == nil {
		var events []aycoder.ModelEvent
		for _, ev := range s.plan(n) {
			events = append(events, ev.(aycoder.ModelEvent))
		}
		return events
	}
	text := fmt.Sprintf("answer to %d outputs. ", len(last.Parts))
	return []aycoder.ModelEvent{
		&aycoder.BlockDone{Part: &aycoder.Text{Text: text}},
		&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 7}},
	}
}

// reads calls a tool once for each size of output.
func reads(n int, sizes ...int) []any {
	var blocks []any
	for i, size := range sizes {
		blocks = append(blocks, use(fmt.Sprintf("c%d_%d", n, i), "read", fmt.Sprintf(`{"text":"%d"}`, size)))
	}
	return calls(blocks...)
}

func sized(_ context.Context, text string) (string, error) {
	size := 0
	_, err := fmt.Sscan(text, &size)
	return strings.Repeat("line of a \"file\"\n", size/17+1)[:size], err
}

// TestChatNeverDiesOfItsSize has a conversation of 100 turns with a model of 20,000
// tokens. Each turn is a separate run that starts with the messages of the previous
// one.
func TestChatNeverDiesOfItsSize(t *testing.T) {
	timed.Long(t, "a conversation of many megabytes")
	long := strings.Repeat("word ", 600)
	plans := map[string]func(n int) []any{
		"talk": func(n int) []any {
			return say(fmt.Sprintf("answer %d: %s", n, long))
		},
		"calls": func(n int) []any { return reads(n, 2000, 3000) },
		"large outputs": func(n int) []any {
			if n%7 == 3 {
				return reads(n, 100_000)
			}
			return reads(n, 12_000)
		},
		"many large outputs": func(n int) []any { return reads(n, 25_000, 25_000, 25_000, 1000) },
		"large arguments": func(n int) []any {
			return calls(use(fmt.Sprintf("w%d", n), "read", fmt.Sprintf(`{"text":"1","more":%q}`, strings.Repeat(long, 12))))
		},
	}
	prompts := map[string]func(n int) string{
		"short": func(n int) string { return fmt.Sprintf("turn %d", n) },
		"long":  func(n int) string { return fmt.Sprintf("turn %d %s", n, strings.Repeat(long, 1+n%3)) },
		"first is huge": func(n int) string {
			if n == 0 {
				return "turn 0 " + strings.Repeat(long, 40)
			}
			return fmt.Sprintf("turn %d", n)
		},
	}
	failed, runs, refusals := 0, 0, 0
	reduced := timed.Reduced(t)
	for i, pname := range slices.Sorted(maps.Keys(plans)) {
		for j, qname := range slices.Sorted(maps.Keys(prompts)) {
			silent, stored := (i+j)%2 == 0, (i/2+j)%2 == 0
			if reduced && (qname != "short" || pname != "calls") {
				continue // one goroutine at a time
			}
			t.Run(fmt.Sprintf("%s, %s prompts, silent=%t, stored=%t", pname, qname, silent, stored), func(t *testing.T) {
				m := &smallModel{t: t, window: 20_000, silent: silent, plan: plans[pname]}
				bad := chat(t, m, prompts[qname], stored)
				failed, runs, refusals = failed+bad, runs+100, refusals+m.refusals
				require.Zero(t, bad, "turns that failed")
				require.Less(t, m.refusals, 15, "the cut is carried into the next run")
			})
		}
	}
	t.Logf("%d runs, %d failed, %d requests were too large", runs, failed, refusals)
}

// A call whose thinking alone is larger than the window ends its run: it can neither be shortened nor left
// out. The prompts after it have answers again.
func TestThinkingLargerThanTheWindow(t *testing.T) {
	for _, silent := range []bool{true, false} {
		m := &smallModel{t: t, window: 20_000, silent: silent, plan: func(n int) []any {
			call := use(fmt.Sprintf("c%d", n), "read", `{"text":"40"}`)
			if n == 1 {
				return calls(&aycoder.BlockDone{Part: &aycoder.Thinking{Text: strings.Repeat("hmm ", 20_000)}}, call)
			}
			return calls(call)
		}}
		read, err := aycoder.NewTool("read", "Reads.", func(ctx context.Context, _ *aycoder.Invocation, in moreArgs) (*aycoder.ToolResult, error) {
			out, err := sized(ctx, in.Text)
			return aycoder.TextResult(out), err
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		l := newLoop(t, m, aycoder.WithTools(read))
		var history []*aycoder.Message
		for n := range 6 {
			var res aycoder.Result
			_, err := collect(l.Run(t.Context(), aycoder.Input{Messages: history, Prompt: fmt.Sprintf("turn %d", n)}, aycoder.Into(&res)))
			history = res.Messages
			if n == 1 {
				require.ErrorAs(t, err, new(*aycoder.ContextTooLargeError))
				m.refused = nil
				continue
			}
			require.NoError(t, err, "turn %d", n)
		}
	}
}

type moreArgs struct {
	Text string `json:"text"`
	More string `json:"more,omitempty"`
}

// chat has a conversation and returns the number of turns that failed.
func chat(t *testing.T, m *smallModel, prompt func(n int) string, stored bool) (failed int) {
	read, err := aycoder.NewTool("read", "Reads.", func(ctx context.Context, _ *aycoder.Invocation, in moreArgs) (*aycoder.ToolResult, error) {
		out, err := sized(ctx, in.Text)
		return aycoder.TextResult(out), err
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	opts := []aycoder.Option{aycoder.WithSystem("You are a test."), aycoder.WithTools(read)}
	l := newLoop(t, m, opts...)
	var history []*aycoder.Message
	for n := range 100 {
		if stored { // another process
			l = newLoop(t, m, opts...)
		}
		before := len(m.sent)
		var res aycoder.Result
		_, err := collect(l.Run(t.Context(), aycoder.Input{Messages: history, Prompt: prompt(n)}, aycoder.Into(&res)))
		if err != nil || res.End != aycoder.EndDone {
			t.Logf("turn %d: %v", n, err)
			failed++
		}
		for _, req := range m.sent[before:] {
			checkSent(t, req, prompt(0), prompt(n))
		}
		require.Equal(t, len(history)+1, slices.IndexFunc(res.Messages[len(history):], func(m *aycoder.Message) bool {
			return m.Role == aycoder.RoleAssistant
		})+len(history), "the history stays whole")
		require.Equal(t, prompt(n), res.Messages[len(history)].Text())
		fresh := res.Messages[len(history):]
		if stored {
			data, err := json.Marshal(fresh)
			require.NoError(t, err)
			fresh = nil
			require.NoError(t, json.Unmarshal(data, &fresh))
		}
		history = append(slices.Clip(history), fresh...)
	}
	return failed
}

// checkSent checks that a request has the messages that the model cannot do without.
func checkSent(t *testing.T, req *aycoder.Request, first, prompt string) {
	t.Helper()
	require.Equal(t, "You are a test.", req.System[0].Text)
	// A long text keeps its head.
	require.True(t, strings.HasPrefix(req.Messages[0].Text(), first[:min(len(first), 200)]), "the first request: %.80q", req.Messages[0].Text())
	require.True(t, slices.ContainsFunc(req.Messages, func(m *aycoder.Message) bool {
		return m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), prompt[:min(len(prompt), 200)])
	}), "the prompt: %.40q", prompt)
	last := req.Messages[len(req.Messages)-1]
	if _, ok := last.Parts[0].(*aycoder.ToolOutput); ok {
		for _, p := range last.Parts {
			require.Contains(t, []bool{true}, len(p.(*aycoder.ToolOutput).Text()) > 0)
		}
	}
}
