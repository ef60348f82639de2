package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/stretchr/testify/require"
)

func newPot(t *testing.T, c budget.Config) *budget.Pot {
	t.Helper()
	p, err := budget.New(c)
	require.NoError(t, err)
	return p
}

func prompt(max int) *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}, MaxTokens: max}
}

// answers answers each request with a usage.
func answers(u aycoder.Usage) aycoder.ModelClient {
	return pricedClient{script.New(script.Say("hello").WithUsage(u)).With(script.WithLoop(true))}
}

func complete(p *budget.Pot, m aycoder.ModelClient, max int) error {
	_, err := aycoder.Complete(context.Background(), p.Model(m), prompt(max))
	return err
}

// Eight agents that ask at the same moment exceed the limit by one answer, not by eight.
func TestEightAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPot(t, budget.Config{Tokens: 1000})
		slow := pricedClient{script.New(script.Say("hello").WithUsage(aycoder.Usage{Output: 600})).With(
			script.WithLoop(true), script.WithPace(time.Second))}
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = complete(p, slow, 700) })
		}
		synctest.Wait()
		require.Equal(t, 7, p.Status().Waiting)
		require.Equal(t, 1, p.Status().Calls)
		wg.Wait()
		refused := 0
		for _, err := range errs {
			if e, ok := errors.AsType[*budget.ExhaustedError](err); ok {
				refused++
				require.Equal(t, "budget.default.tokens", e.Key)
			}
		}
		require.Equal(t, 6, refused)
		require.EqualValues(t, 1200, p.Status().Spent.Tokens)
		require.Zero(t, p.Status().Reserved)
	})
}

// An answer costs its usage at the price of the model: 10 dollars for a million tokens of the input, and
// 50 for the output, so 1000 × 0.00001 + 200 × 0.00005 = 0.02.
func TestMoney(t *testing.T) {
	price := aycoder.Price{Input: 10, Output: 50}
	p := newPot(t, budget.Config{Name: "day", Money: 0.05, Key: func(kind string) string { return "budgets[2]." + kind },
		Models: func(provider, model string) (aycoder.ModelInfo, bool) {
			return aycoder.ModelInfo{Provider: provider, Model: model, Price: &price}, true
		}})
	m := script.New(script.Say("x").WithUsage(aycoder.Usage{Input: 1000, Output: 200})).With(script.WithLoop(true))
	require.NoError(t, complete(p, m, 300))
	require.Equal(t, 0.02, p.Status().Spent.Money)
	require.NoError(t, complete(p, m, 300))
	require.NoError(t, complete(p, m, 300), "something is left")
	err := complete(p, m, 300)
	require.ErrorContains(t, err, "budget day is used up: $0.0600 of $0.0500 (limit set by budgets[2].money)")
	limit, ok := errors.AsType[*aycoder.LimitError](err)
	require.True(t, ok)
	require.EqualValues(t, 5, limit.Max)
	_, ok = errors.AsType[*aycoder.ModelError](err)
	require.True(t, ok)
}

// The cost that a client tells comes first. A model without a price is named.
func TestPrices(t *testing.T) {
	p := newPot(t, budget.Config{Money: 1})
	cost := 0.25
	said := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 7}, Cost: &cost}, nil)
		}
	})
	require.NoError(t, complete(p, said, 10))
	require.Equal(t, 0.25, p.Status().Spent.Money)
	require.Empty(t, p.Status().Unpriced)

	free := script.New(script.Say("x").WithUsage(aycoder.Usage{Input: 5})).With(script.WithName("acme", "m1"))
	require.NoError(t, complete(p, free, 10))
	require.Equal(t, []string{"acme/m1"}, p.Status().Unpriced)
	require.Equal(t, 0.25, p.Status().Spent.Money)
	require.EqualValues(t, 12, p.Status().Spent.Tokens)
}

// Whatever happens to a request, its reservation ends.
func TestReleased(t *testing.T) {
	usage := aycoder.Usage{Input: 10, Output: 5}
	stream := func(f func(yield func(aycoder.ModelEvent, error) bool)) aycoder.ModelClient {
		return aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] { return f })
	}
	delta := &aycoder.TextDelta{Text: "twelve bytes"}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		client aycoder.ModelClient
		spent  bool
	}{
		{"answer", t.Context(), answers(usage), true},
		{"error at once", t.Context(), script.New(script.Fail(script.Overloaded())), false},
		{"broken stream", t.Context(), script.New(script.Break(2, nil, script.Say("one two three"))), true},
		{"cancelled before", cancelled, answers(usage), false},
		{"panic", t.Context(), stream(func(func(aycoder.ModelEvent, error) bool) { panic("x") }), false},
		{"panic in the answer", t.Context(), stream(func(yield func(aycoder.ModelEvent, error) bool) {
			yield(delta, nil)
			panic("x")
		}), true},
		{"exit", t.Context(), stream(func(yield func(aycoder.ModelEvent, error) bool) {
			yield(delta, nil)
			runtime.Goexit()
		}), true},
		{"nothing", t.Context(), stream(func(func(aycoder.ModelEvent, error) bool) {}), false},
		{"two ends", t.Context(), stream(func(yield func(aycoder.ModelEvent, error) bool) {
			for range 2 {
				if !yield(&aycoder.MessageDone{Usage: usage}, nil) {
					return
				}
			}
		}), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPot(t, budget.Config{Tokens: 1_000_000, Money: 10})
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, _ = aycoder.Complete(tt.ctx, p.Model(tt.client), prompt(100))
			})
			wg.Wait()
			s := p.Status()
			require.Zero(t, s.Reserved)
			require.Zero(t, s.Calls)
			require.Equal(t, tt.spent, s.Spent.Tokens > 0, "%+v", s)
		})
	}
	t.Run("panic in the prices", func(t *testing.T) {
		began := false
		p := newPot(t, budget.Config{Tokens: 1_000_000, Models: func(string, string) (aycoder.ModelInfo, bool) {
			if began {
				panic("x")
			}
			return aycoder.ModelInfo{}, false
		}})
		func() {
			defer func() { require.Equal(t, "x", recover()) }()
			for range p.Model(answers(usage)).Stream(t.Context(), prompt(100)) {
				began = true
			}
		}()
		require.Zero(t, p.Status().Reserved)
		require.Zero(t, p.Status().Calls)
	})
	t.Run("break", func(t *testing.T) {
		p := newPot(t, budget.Config{Tokens: 1_000_000})
		for range p.Model(answers(usage)).Stream(t.Context(), prompt(100)) {
			require.Equal(t, 1, p.Status().Calls)
			break
		}
		require.Zero(t, p.Status().Calls)
		require.Positive(t, p.Status().Spent.Tokens)
		require.Equal(t, 1, p.Status().Estimated)
	})
}

// A request that waits gives up its place when it is cancelled, and the next one takes it.
func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPot(t, budget.Config{Tokens: 1000})
		slow := pricedClient{script.New(script.Say("hello").WithUsage(aycoder.Usage{Output: 1})).With(
			script.WithLoop(true), script.WithPace(time.Hour))}
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, complete(p, slow, 400)) })
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			_, err := aycoder.Complete(ctx, p.Model(slow), prompt(900))
			require.ErrorContains(t, err, "enough")
		})
		synctest.Wait()
		wg.Go(func() { require.NoError(t, complete(p, slow, 400)) })
		synctest.Wait()
		require.Equal(t, 2, p.Status().Waiting, "the small request does not overtake the large one")
		cancel(errors.New("enough"))
		synctest.Wait()
		require.Equal(t, 2, p.Status().Calls)
		wg.Wait()
		require.Zero(t, p.Status().Reserved)
		require.EqualValues(t, 2, p.Status().Spent.Tokens)
	})
}

// A pot around a pot counts once and does not wait for itself, also if a request falls back. An answer of
// a cache is free.
func TestInsideOfEachOther(t *testing.T) {
	p := newPot(t, budget.Config{Tokens: 200})
	used := aycoder.Usage{Input: 10, Output: 5}
	fallback := middleware.Fallback(p.Model(answers(used)))(p.Model(script.New(script.Fail(script.Overloaded()))))
	require.NoError(t, complete(p, fallback, 150))
	require.EqualValues(t, 15, p.Status().Spent.Tokens)

	m := middleware.Cache(middleware.NewMemoryStore(1<<20), middleware.CacheOptions{})(p.Model(answers(used)))
	for range 3 {
		require.NoError(t, complete(p, m, 150))
	}
	require.EqualValues(t, 30, p.Status().Spent.Tokens)
	require.Zero(t, p.Status().Reserved)
}

// A client that repeats a request is stopped when the attempts have used up the budget.
func TestRetriesInside(t *testing.T) {
	attempts := 0
	endless := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for yield(&aycoder.TextDelta{Text: strings.Repeat("word ", 100)}, nil) && yield(&aycoder.Retrying{}, nil) {
				attempts++
			}
		}
	})
	p := newPot(t, budget.Config{Tokens: 1000})
	err := complete(p, endless, 500)
	_, ok := errors.AsType[*budget.ExhaustedError](err)
	require.True(t, ok, "%v", err)
	require.Less(t, attempts, 12) // each is 500 bytes, so some 125 tokens
	require.Zero(t, p.Status().Reserved)
}

// Working time is that of the calls and not that of the waits, and of calls inside of each other the
// innermost counts.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPot(t, budget.Config{Work: time.Hour, Idle: []string{"ask_user"}})
		sleep := func(d time.Duration) aycoder.ToolFunc {
			return p.Tool(func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
				time.Sleep(d)
				return nil, nil
			})
		}
		call := func(ctx context.Context, f aycoder.ToolFunc, name string) {
			_, err := f(ctx, aycoder.NewInvocation("1", name, nil, nil))
			require.NoError(t, err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { call(t.Context(), sleep(time.Minute), "bash") })
		}
		wg.Wait()
		require.Equal(t, 3*time.Minute, p.Status().Spent.Work, "three at the same time")

		time.Sleep(time.Hour)
		call(t.Context(), sleep(time.Hour), "ask_user")
		require.Equal(t, 3*time.Minute, p.Status().Spent.Work, "nobody works")

		outer := p.Tool(func(ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
			var inner sync.WaitGroup
			for range 2 {
				inner.Go(func() { call(ctx, sleep(time.Minute), "bash") })
			}
			inner.Wait()
			time.Sleep(time.Hour) // somebody thinks about a question of the inner run
			call(ctx, sleep(time.Minute), "bash")
			return nil, nil
		})
		call(t.Context(), outer, "subagent")
		require.Equal(t, 6*time.Minute, p.Status().Spent.Work)
	})
}

// When the time is used up, whatever works is cancelled, and nothing else starts.
func TestWorkIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPot(t, budget.Config{Name: "n", Work: time.Minute})
		start := time.Now()
		hang := p.Tool(func(ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		slow := p.Model(script.New(script.Say(strings.Repeat("word ", 1000))).With(script.WithPace(time.Second)))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := hang(t.Context(), aycoder.NewInvocation("1", "bash", nil, nil))
				require.ErrorContains(t, err, "budget n is used up: 1m0s of work of 1m0s (limit set by budget.n.work)")
			})
		}
		wg.Go(func() {
			_, err := aycoder.Complete(t.Context(), slow, prompt(10))
			_, ok := errors.AsType[*budget.ExhaustedError](err)
			require.True(t, ok, "%v", err)
		})
		wg.Wait()
		require.Equal(t, 20*time.Second, time.Since(start), "three of them, for a minute together")
		_, err := hang(t.Context(), aycoder.NewInvocation("1", "bash", nil, nil))
		require.Error(t, err)
		require.Equal(t, time.Minute, p.Status().Spent.Work)
	})
}

// The state goes on in another process, without what was reserved.
func TestState(t *testing.T) {
	p := newPot(t, budget.Config{Name: "a", Money: 1})
	require.NoError(t, complete(p, answers(aycoder.Usage{Input: 10, Output: 20}), 30))
	var data []byte
	for range p.Model(answers(aycoder.Usage{})).Stream(t.Context(), prompt(10)) {
		data, _ = json.Marshal(p)
		break
	}
	require.JSONEq(t, `{"name":"a","nanodollars":30000,"tokens":30,"work_ns":0}`, withoutWork(t, data))
	q := newPot(t, budget.Config{Name: "a", Tokens: 30})
	require.NoError(t, json.Unmarshal(data, q))
	require.Equal(t, 0.00003, q.Status().Spent.Money)
	_, ok := errors.AsType[*budget.ExhaustedError](complete(q, answers(aycoder.Usage{}), 10))
	require.True(t, ok)

	for _, bad := range []string{`{`, `[]`, `{"name":"b"}`, `{"name":"a","tokens":-1}`, `{"name":"a","tokens":1e99}`} {
		require.Error(t, json.Unmarshal([]byte(bad), q), bad)
		require.EqualValues(t, 30, q.Status().Spent.Tokens)
	}
	require.Error(t, json.Unmarshal(data, new(budget.Pot)))
}

func withoutWork(t *testing.T, data []byte) string {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(data, &m))
	m["work_ns"] = 0
	data, err := json.Marshal(m)
	require.NoError(t, err)
	return string(data)
}

// Two pots share a file. Lines that are damaged, and amounts that would give money back, do not count.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "spent")
	junk := "{\"tokens\":5}\nnot json\n{\"tokens\":-500}\n[1]\n" + strings.Repeat("x", 200_000) + "\n{\"tokens\":7}\n{\"tok"
	require.NoError(t, os.WriteFile(name, []byte(junk), 0o600))
	p, q := newPot(t, budget.Config{Tokens: 100, File: name}), newPot(t, budget.Config{Tokens: 100, File: name})
	require.EqualValues(t, 12, p.Status().Spent.Tokens)
	m := answers(aycoder.Usage{Input: 40})
	require.NoError(t, complete(p, m, 1))
	require.NoError(t, complete(q, m, 1))
	require.NoError(t, complete(p, m, 1))
	_, ok := errors.AsType[*budget.ExhaustedError](complete(q, m, 1))
	require.True(t, ok)
	require.EqualValues(t, 132, q.Status().Spent.Tokens)
	require.Error(t, json.Unmarshal([]byte(`{"name":"default"}`), q))

	require.NoError(t, p.Close())
	require.ErrorIs(t, complete(p, m, 1), os.ErrClosed, "nothing is spent that cannot be kept")
	require.NoError(t, q.Close())
	_, err := budget.New(budget.Config{File: filepath.Dir(name)})
	require.Error(t, err)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
	}
}

// Processes that share a file and are killed leave nothing reserved, and the file has what they told.
func TestKilledProcess(t *testing.T) {
	if name := os.Getenv("AYCODER_TEST_SPENT"); name != "" {
		p := newPot(t, budget.Config{Tokens: 1 << 40, File: name})
		for {
			require.NoError(t, complete(p, answers(aycoder.Usage{Input: 3}), 10))
			fmt.Println("spent")
		}
	}
	name := filepath.Join(t.TempDir(), "spent")
	told := 0
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), "AYCODER_TEST_SPENT="+name)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		buf := make([]byte, 600)
		n := 0
		for n < 100 {
			m, err := out.Read(buf)
			require.NoError(t, err)
			n += strings.Count(string(buf[:m]), "\n")
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		told += n
	}
	p := newPot(t, budget.Config{Tokens: 1, File: name})
	s := p.Status()
	require.Zero(t, s.Reserved)
	require.GreaterOrEqual(t, s.Spent.Tokens, int64(3*told))
	require.NoError(t, p.Close())
}

func TestInvalidConfig(t *testing.T) {
	for _, c := range []budget.Config{{Tokens: -1}, {Work: -1}, {Money: -1}, {Money: nan()}} {
		_, err := budget.New(c)
		e, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok)
		require.Equal(t, "budget.default", e.Option)
	}
	require.Panics(t, func() { newPot(t, budget.Config{}).Model(nil) })
}

func nan() float64 { zero := 0.0; return zero / zero }

// A request with nil values goes to the client, which reports it.
func TestNil(t *testing.T) {
	p := newPot(t, budget.Config{Tokens: 100})
	for _, req := range []*aycoder.Request{nil, {Messages: []*aycoder.Message{nil, {Parts: []aycoder.Part{nil, (*aycoder.Text)(nil)}}},
		System: []*aycoder.Text{nil}, Tools: []*aycoder.ToolSpec{nil}}} {
		asked := false
		m := p.Model(aycoder.ModelFunc(func(_ context.Context, got *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			require.Same(t, req, got)
			asked = true
			return func(func(aycoder.ModelEvent, error) bool) {}
		}))
		for range m.Stream(t.Context(), req) {
		}
		require.True(t, asked)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"name":"default","nanodollars":1,"tokens":2,"work_ns":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPot(t, budget.Config{})
		if json.Unmarshal(data, p) != nil {
			require.Zero(t, p.Status().Spent)
		}
		require.GreaterOrEqual(t, p.Status().Spent.Tokens, int64(0))
	})
}
