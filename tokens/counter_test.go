package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/textcost"
)

var gpt = Model{"openai", "gpt-5"}

func ask(text string) *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(text)}}
}

const sentence = "The second function opens the file and returns an error. "

// Each part is in its field, and the fields add up.
func TestBreakdown(t *testing.T) {
	text := strings.Repeat(sentence, 20)
	n := Estimate(text)
	output := func(tool string, parts ...aycoder.Part) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "1", Name: tool, Parts: parts}}}
	}
	of := func(role aycoder.Role, parts ...aycoder.Part) *aycoder.Request {
		return &aycoder.Request{Messages: []*aycoder.Message{{Role: role, Parts: parts}}}
	}
	args, err := json.Marshal(map[string]string{"text": text})
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		req  *aycoder.Request
		got  func(Breakdown) int64
		want int64
	}{
		{"system", &aycoder.Request{System: []*aycoder.Text{{Text: text}}}, func(b Breakdown) int64 { return b.System }, n},
		{"tools", &aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "x", Description: text, Schema: args}}}, func(b Breakdown) int64 { return b.Tools }, 2 * n},
		{"output format", &aycoder.Request{Output: &aycoder.OutputFormat{Name: "x", Schema: args}}, func(b Breakdown) int64 { return b.Tools }, n},
		{"instructions", of(aycoder.RoleSystem, &aycoder.Text{Text: text}), func(b Breakdown) int64 { return b.Instructions }, n},
		{"tail", &aycoder.Request{Tail: []*aycoder.Text{{Text: text}}}, func(b Breakdown) int64 { return b.Instructions }, n},
		{"prompt", of(aycoder.RoleUser, &aycoder.Text{Text: text}), func(b Breakdown) int64 { return b.History }, n},
		{"call", of(aycoder.RoleAssistant, &aycoder.ToolUse{ID: "1", Name: "x", Args: args}), func(b Breakdown) int64 { return b.History }, n},
		{"thinking", of(aycoder.RoleAssistant, &aycoder.Thinking{Text: text, Provider: "openai"}), func(b Breakdown) int64 { return b.History }, n},
		{"hidden thinking", of(aycoder.RoleAssistant, &aycoder.Thinking{Signature: strings.Repeat("x", 16*100)}), func(b Breakdown) int64 { return b.History }, 300},
		{"thinking of others", of(aycoder.RoleAssistant, &aycoder.Thinking{Text: text, Provider: "google"}), func(b Breakdown) int64 { return b.History }, 0},
		{"opaque", of(aycoder.RoleAssistant, &aycoder.Opaque{Provider: "openai", Raw: json.RawMessage(strings.Repeat("x", 16*100))}), func(b Breakdown) int64 { return b.History }, 300},
		{"opaque of an interface", of(aycoder.RoleAssistant, &aycoder.Opaque{Provider: "openai/responses", Raw: json.RawMessage(strings.Repeat("x", 16*100))}), func(b Breakdown) int64 { return b.History }, 300},
		{"opaque of others", of(aycoder.RoleAssistant, &aycoder.Opaque{Provider: "aycoder", Raw: args}), func(b Breakdown) int64 { return b.History }, 0},
		{"output", &aycoder.Request{Messages: []*aycoder.Message{output("bash", &aycoder.Text{Text: text})}}, func(b Breakdown) int64 { return b.Outputs }, n},
		{"file", &aycoder.Request{Messages: []*aycoder.Message{output("read_file", &aycoder.Text{Text: text})}}, func(b Breakdown) int64 { return b.Files }, n},
		{"document", of(aycoder.RoleUser, &aycoder.Media{Type: "text/plain; charset=utf-8", Data: []byte(text)}), func(b Breakdown) int64 { return b.Files }, n},
		{"image of a tool", &aycoder.Request{Messages: []*aycoder.Message{output("view", &aycoder.Media{Type: "image/png", Data: png(512, 512)})}}, func(b Breakdown) int64 { return b.Images }, 414},
	} {
		t.Run(tt.name, func(t *testing.T) {
			count := New().Estimate(gpt, tt.req)
			require.InDelta(t, tt.want, tt.got(count.Breakdown), 40)
			require.Equal(t, count.Tokens, count.Breakdown.Total())
			require.InDelta(t, tt.want, count.Tokens, 60, "nothing is in two fields")
		})
	}
}

// A request that a builder got wrong is counted as far as it goes; the loop refuses it later.
func TestInvalidRequest(t *testing.T) {
	req := &aycoder.Request{
		System: []*aycoder.Text{nil}, Tools: []*aycoder.ToolSpec{nil},
		Messages: []*aycoder.Message{nil, {Parts: []aycoder.Part{nil, (*aycoder.Text)(nil), (*aycoder.ToolOutput)(nil)}}},
	}
	require.Less(t, New().Estimate(gpt, req).Tokens, int64(50))
}

// A provider that counts otherwise is learned from few usages, with what was cached.
func TestObserve(t *testing.T) {
	c := New()
	another := func() *aycoder.Request { return ask(strings.Repeat(sentence, 100)) }
	req := another()
	before := c.Estimate(gpt, req)
	require.InDelta(t, 1.35, before.Margin, 0.03)
	truth := before.Tokens * 13 / 10
	for range 4 {
		c.Observe(gpt, another(), aycoder.Usage{Input: 10, CacheRead: truth / 2, CacheWrite: truth - truth/2 - 10, Output: 999})
	}
	after := c.Estimate(gpt, req)
	require.InEpsilon(t, truth, after.Tokens, 0.02)
	require.Less(t, after.Margin, 1.2)
	require.Equal(t, before.Tokens, c.Estimate(Model{"openai", "other"}, req).Tokens, "another model")
	for range 200 {
		c.Observe(gpt, another(), aycoder.Usage{Input: truth})
	}
	long := ask(strings.Repeat(sentence, 20_000))
	require.InDelta(t, 1.05, c.Estimate(gpt, long).Margin, 0.001, "the least margin")
	// Of 4,000 turns with outputs of 5 kB, 10 had more tokens than a margin that knew only the noise allowed.
	require.InDelta(t, 1.16, c.Estimate(gpt, req).Margin, 0.04, "one text may be of another kind")

	factor, margin := c.Scale(gpt)
	c.Observe(gpt, another(), aycoder.Usage{})
	c.Observe(gpt, another(), aycoder.Usage{Input: 1 << 40})
	picture := &aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Media{Type: "image/png"}}}}}
	c.Observe(gpt, picture, aycoder.Usage{Input: 5000})
	factor2, margin2 := c.Scale(gpt)
	require.Equal(t, []float64{factor, margin}, []float64{factor2, margin2}, "no count, an absurd one, and one of an image")
}

const han = "第二个函数打开文件并返回错误。"

// A request that repeats the one before tells only about what was appended: else one text would count
// as many, and a new kind of text would be lost in all of the old.
func TestObserveGrowth(t *testing.T) {
	c, truth := New(), int64(0)
	conversation := &aycoder.Request{}
	say := func(text string, factor float64) {
		before := c.Estimate(gpt, conversation).raw.Total()
		conversation.Messages = append(conversation.Messages, aycoder.User(text))
		truth += int64(float64(c.Estimate(gpt, conversation).raw.Total()-before) * factor)
		c.Observe(gpt, conversation, aycoder.Usage{Input: truth})
	}
	for range 5 {
		say(strings.Repeat(sentence, 500), 1.2)
	}
	known := maps.Clone(c.scales.models)
	for range 20 {
		say("ok", 1.2)
		c.Observe(gpt, conversation, aycoder.Usage{Input: truth})
	}
	require.Equal(t, known, c.scales.models, "nothing new, or too little")

	for range 8 {
		say(strings.Repeat(han, 100), 2)
	}
	alone := ask(strings.Repeat(han, 100))
	require.InEpsilon(t, 2*c.Estimate(gpt, alone).raw.Total(), c.Estimate(gpt, alone).Tokens, 0.05)
	english := ask(strings.Repeat(sentence, 100))
	require.InEpsilon(t, 1.2*float64(c.Estimate(gpt, english).raw.Total()), c.Estimate(gpt, english).Tokens, 0.05)

	conversation = &aycoder.Request{Messages: conversation.Messages[5:]} // after a compaction
	truth = 3 * c.Estimate(gpt, conversation).raw.Total()
	factor, _ := c.Scale(gpt)
	c.Observe(gpt, conversation, aycoder.Usage{Input: truth})
	after, _ := c.Scale(gpt)
	require.Greater(t, after, factor, "all of it is new")
}

// Only the rest of a request that was counted is estimated, in each of several conversations.
func TestEstimateStartsFromTheCount(t *testing.T) {
	c := New()
	type talk struct {
		req   *aycoder.Request
		count int64
	}
	var talks [3]talk
	for i := range talks {
		talks[i] = talk{ask(strings.Repeat(sentence, 50*(i+1))), int64(1500 * (i + 1))}
	}
	rest := strings.Repeat(han, 20)
	for range 3 {
		for i := range talks {
			talk := &talks[i]
			c.Observe(gpt, talk.req, aycoder.Usage{Input: talk.count})
			require.Equal(t, talk.count, c.Estimate(gpt, talk.req).Tokens)
			before := talk.req.Messages
			longer := &aycoder.Request{Messages: append(before[:len(before):len(before)], aycoder.User("ok"), aycoder.User(rest))}
			n := c.Estimate(gpt, longer)
			factor, margin := c.scales.of(gpt, size{textcost.Groups - 1: 1})
			more := factor * float64(c.measure(gpt.Provider, longer).tokens()-c.measure(gpt.Provider, talk.req).tokens())
			require.InDelta(t, float64(talk.count)+more, n.Tokens, 0.2*more)
			require.InDelta(t, 1.01*float64(talk.count)+margin*more, n.Max(), 0.2*more)
			require.InDelta(t, n.Tokens, n.Breakdown.Total(), 4)
			talk.req, talk.count = longer, n.Tokens+50
		}
	}
	req, count := talks[0].req, talks[0].count
	c.Observe(gpt, req, aycoder.Usage{Input: count})
	for name, other := range map[string]*aycoder.Request{
		"a shorter one":         {Messages: req.Messages[1:]},
		"without the last":      {Messages: req.Messages[:len(req.Messages)-1]},
		"another end":           {Messages: append(req.Messages[:len(req.Messages)-1:len(req.Messages)-1], aycoder.User(rest))},
		"less in the middle":    {Messages: append([]*aycoder.Message{aycoder.User("short")}, req.Messages[1:]...)},
		"none":                  {},
		"another system prompt": {System: []*aycoder.Text{{Text: sentence}}, Messages: req.Messages},
		"other tools":           {Tools: []*aycoder.ToolSpec{{Name: "a", Schema: []byte(`{}`)}}, Messages: req.Messages},
	} {
		fresh := New()
		fresh.scales.models = c.scales.models
		require.Equal(t, fresh.Estimate(gpt, other), c.Estimate(gpt, other), name)
	}
	other := Model{"openai", "other"}
	require.Equal(t, New().Estimate(other, req), c.Estimate(other, req), "another model")
}

// Counts of English say little about Chinese: the estimate stays, and its margin stays wide.
func TestObserveByGroup(t *testing.T) {
	c := New()
	chinese := ask(strings.Repeat(han, 100))
	english := ask(strings.Repeat(sentence, 100))
	before := c.Estimate(gpt, chinese)
	for range 20 {
		c.Observe(gpt, ask(strings.Repeat(sentence, 100)), aycoder.Usage{Input: c.Estimate(gpt, english).raw.Total()})
	}
	require.InEpsilon(t, before.Tokens, c.Estimate(gpt, chinese).Tokens, 0.02)
	require.Greater(t, c.Estimate(gpt, chinese).Margin, 1.5)
	require.Less(t, c.Estimate(gpt, ask(strings.Repeat(sentence, 2000))).Margin, 1.15)
	for range 10 {
		c.Observe(gpt, ask(strings.Repeat(han, 100)), aycoder.Usage{Input: before.Tokens * 17 / 10})
	}
	require.InEpsilon(t, before.Tokens*17/10, c.Estimate(gpt, chinese).Tokens, 0.05)
	require.InEpsilon(t, c.Estimate(gpt, english).raw.Total(), c.Estimate(gpt, english).Tokens, 0.05)
}

// A long conversation is read once: each step reads only the new message.
func TestStepsReadNewMessages(t *testing.T) {
	c := New()
	req := &aycoder.Request{}
	for range 2000 {
		req.Messages = append(req.Messages, aycoder.User(sentence))
	}
	want := c.Estimate(gpt, req)
	read := 0
	for i, m := range req.Messages {
		c.messages.get(m, "openai", func(*aycoder.Message) measure { read++; return measure{} })
		if i%2 == 0 {
			m.Parts[0].(*aycoder.Text).Text = "" // shows if it is read again
		}
	}
	require.Zero(t, read)
	require.Equal(t, want, c.Estimate(gpt, req))
	require.Zero(t, testing.AllocsPerRun(5, func() { c.Estimate(gpt, req) }))

	// A change in the caller's slice is noticed.
	req.Messages[1000] = aycoder.User(sentence + sentence)
	longer := c.Estimate(gpt, req)
	require.Greater(t, longer.Tokens, want.Tokens)
	req.Messages = req.Messages[:1500]
	require.Less(t, c.Estimate(gpt, req).Tokens, want.Tokens)
	require.Equal(t, New().Estimate(gpt, ask(sentence)).Tokens, c.Estimate(gpt, ask(sentence)).Tokens)
	require.NotEqual(t, want.Tokens, c.Estimate(Model{Provider: "anthropic"}, req).Tokens, "other providers count on their own")
}

// A counter does not keep messages alive, and forgets dead ones.
func TestMemoForgets(t *testing.T) {
	c := New()
	const n = 50 * minSweep
	for range n {
		c.Estimate(gpt, ask(sentence))
		if len(c.messages.entries)%minSweep == 0 {
			runtime.GC()
		}
	}
	require.Less(t, len(c.messages.entries), n/4)
}

func TestConcurrent(t *testing.T) {
	c := New()
	req := ask(strings.Repeat(sentence, 10))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				n := c.Estimate(gpt, req)
				c.Observe(gpt, req, aycoder.Usage{Input: n.raw.Total()})
				c.Scale(gpt)
				c.Estimate(gpt, ask(sentence))
			}
		})
	}
	wg.Wait()
}

// A client is a model that can count.
type client struct {
	asked int
	count func(ctx context.Context, req *aycoder.Request) (int64, error)
}

func (*client) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return nil
}
func (*client) ModelName() (provider, model string) { return gpt.Provider, gpt.Name }
func (c *client) CountTokens(ctx context.Context, req *aycoder.Request) (int64, error) {
	c.asked++
	return c.count(ctx, req)
}

func TestFits(t *testing.T) {
	req := ask(strings.Repeat(sentence, 100))
	n := New().Estimate(gpt, req).Tokens
	exactly := func(n int64) func(context.Context, *aycoder.Request) (int64, error) {
		return func(context.Context, *aycoder.Request) (int64, error) { return n, nil }
	}
	for _, tt := range []struct {
		name   string
		budget int64
		count  func(context.Context, *aycoder.Request) (int64, error)
		asked  int
		fits   bool
		fails  bool
	}{
		{"surely", 2 * n, exactly(n), 0, true, false},
		{"surely not", n / 2, exactly(n), 0, false, false},
		{"less than the margin", n + 10, exactly(n + 9), 1, true, false},
		{"as much as the budget", n, exactly(n), 1, true, false},
		{"more than estimated", n + 10, exactly(n + 11), 1, false, false},
		{"an error", n + 10, func(context.Context, *aycoder.Request) (int64, error) { return 0, errors.New("busy") }, 1, false, true},
		{"no count", n + 10, exactly(0), 1, false, true},
		{"a negative count", n + 10, exactly(-5), 1, false, true},
		{"an absurd count", n + 10, exactly(1 << 40), 1, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &client{count: tt.count}
			turn := New().Turn(c)
			for range 3 { // later calls ask no more
				got, fits := turn.Fits(t.Context(), req, tt.budget)
				require.Equal(t, tt.fits, fits)
				require.Equal(t, tt.asked, c.asked)
				require.Equal(t, tt.asked == 1 && !tt.fails, got.Exact)
			}
		})
	}
}

// The failure of a count is told once, and does not keep a smaller request from fitting.
func TestFitsAfterFailure(t *testing.T) {
	busy := errors.New("busy")
	c := &client{count: func(context.Context, *aycoder.Request) (int64, error) { return 0, busy }}
	turn := New().Turn(c)
	req := ask(strings.Repeat(sentence, 100))
	n, fits := turn.Fits(t.Context(), req, New().Estimate(gpt, req).Tokens)
	require.False(t, fits)
	require.ErrorIs(t, n.Err, busy)
	n, fits = turn.Fits(t.Context(), ask(strings.Repeat(sentence, 50)), n.Tokens)
	require.True(t, fits)
	require.NoError(t, n.Err)
}

// After an exact count, smaller requests of the turn are estimated in proportion, and the scale
// has learned from it.
func TestFitsAfterCount(t *testing.T) {
	c := New()
	req, half := ask(strings.Repeat(sentence, 100)), ask(strings.Repeat(sentence, 50))
	guess := c.Estimate(gpt, req)
	exact := guess.Tokens * 12 / 10
	turn := c.Turn(&client{count: func(context.Context, *aycoder.Request) (int64, error) { return exact, nil }})
	n, fits := turn.Fits(t.Context(), req, guess.Tokens)
	require.False(t, fits)
	require.Equal(t, exact, n.Max())
	n, fits = turn.Fits(t.Context(), half, guess.Tokens)
	require.True(t, fits)
	require.InEpsilon(t, exact/2, n.Tokens, 0.02)
	require.Less(t, n.Margin, guess.Margin)
	require.Greater(t, c.Estimate(gpt, req).Tokens, guess.Tokens)
}

func TestFitsStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{count: func(ctx context.Context, _ *aycoder.Request) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}
		req := ask(strings.Repeat(sentence, 100))
		start, counter := time.Now(), New()
		n, fits := counter.Turn(c).Fits(t.Context(), req, counter.Estimate(gpt, req).Tokens)
		require.False(t, fits)
		require.ErrorIs(t, n.Err, context.DeadlineExceeded)
		require.Equal(t, askTime, time.Since(start))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n, _ = counter.Turn(c).Fits(ctx, req, n.Tokens)
		require.ErrorIs(t, n.Err, context.Canceled)
	})
}

func TestModelOf(t *testing.T) {
	require.Equal(t, gpt, ModelOf(&client{}, ""))
	require.Equal(t, Model{"openai", "gpt-4"}, ModelOf(&client{}, "gpt-4"))
	require.Equal(t, Model{"", "gpt-4"}, ModelOf(nil, "gpt-4"))
}

func BenchmarkStep(b *testing.B) {
	c := New()
	req := &aycoder.Request{}
	for range 20_000 {
		req.Messages = append(req.Messages, aycoder.User(sentence))
	}
	c.Estimate(gpt, req)
	b.ReportAllocs()
	for b.Loop() {
		req.Messages = append(req.Messages, aycoder.User(sentence))
		c.Estimate(gpt, req)
	}
}
