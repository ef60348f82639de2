package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

func memory() *middleware.MemoryStore { return middleware.NewMemoryStore(1 << 20) }

func collect(t *testing.T, m aycoder.ModelClient, req *aycoder.Request) []aycoder.ModelEvent {
	t.Helper()
	var events []aycoder.ModelEvent
	for ev, err := range m.Stream(t.Context(), req) {
		require.NoError(t, err)
		events = append(events, ev)
	}
	return events
}

func TestCacheReplays(t *testing.T) {
	dir, err := middleware.OpenDirStore(t.TempDir(), 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	for name, store := range map[string]middleware.CacheStore{"memory": memory(), "directory": dir} {
		for _, keep := range []bool{false, true} {
			inner := &fake{events: everyKind()}
			o := middleware.CacheOptions{KeepUsage: keep, Namespace: name + map[bool]string{true: "+"}[keep]}
			require.Equal(t, everyKind(), collect(t, middleware.Cache(store, o)(inner), ask("q")), "the first comes as it is")

			all := everyKind()
			want := append([]aycoder.ModelEvent{
				&aycoder.ThinkingDelta{Text: "Hm."}, all[2], &aycoder.TextDelta{Text: "A \u2603"},
			}, all[5:7]...)
			want = append(want, all[8:]...)
			if !keep {
				done := *all[12].(*aycoder.MessageDone)
				done.Usage, done.Cost = aycoder.Usage{}, new(0.0)
				want[len(want)-1] = &done
			}
			for range 2 { // with a separate middleware: out of the store
				require.Equal(t, want, collect(t, middleware.Cache(store, o)(inner), ask("q")))
			}
			require.Len(t, inner.asked(), 1)
		}
	}
}

func TestCacheKey(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	schema := func(name, s string) *aycoder.OutputFormat {
		return &aycoder.OutputFormat{Name: name, Schema: raw(s)}
	}
	use := func(id, args string) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: id, Args: raw(args)}}}
	}
	requests := map[string]*aycoder.Request{
		"empty":         {},
		"model":         {Model: "m2"},
		"system":        {System: []*aycoder.Text{{Text: "ab"}}},
		"system blocks": {System: []*aycoder.Text{{Text: "a"}, {Text: "b"}}},
		"tool":          {Tools: []*aycoder.ToolSpec{{Name: "ab", Description: "c"}}},
		"tool split":    {Tools: []*aycoder.ToolSpec{{Name: "a", Description: "bc"}}},
		"tool schema":   {Tools: []*aycoder.ToolSpec{{Name: "ab", Description: "c", Schema: raw(`{}`)}}},
		"choice":        {ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}},
		"choice name":   {ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "x"}},
		"user":          ask("ab"),
		"assistant":     {Messages: []*aycoder.Message{aycoder.Assistant("ab")}},
		"two users":     {Messages: []*aycoder.Message{aycoder.User("a"), aycoder.User("b")}},
		"two parts": {Messages: []*aycoder.Message{{Role: aycoder.RoleUser,
			Parts: []aycoder.Part{&aycoder.Text{Text: "a"}, &aycoder.Text{Text: "b"}}}}},
		"extra of a part": {Messages: []*aycoder.Message{{Role: aycoder.RoleUser,
			Parts: []aycoder.Part{&aycoder.Text{Text: "ab", Extra: &aycoder.Opaque{Provider: "p", Raw: raw(`1`)}}}}}},
		"signature": {Messages: []*aycoder.Message{{Role: aycoder.RoleAssistant,
			Parts: []aycoder.Part{&aycoder.Thinking{Text: "ab", Signature: "s"}}}}},
		"call":             {Messages: []*aycoder.Message{use("c1", `{}`)}},
		"call id":          {Messages: []*aycoder.Message{use("c2", `{}`)}},
		"call spaces":      {Messages: []*aycoder.Message{use("c1", `{ }`)}},
		"max tokens":       {MaxTokens: 5},
		"thinking":         {Thinking: 5},
		"thinking off":     {Thinking: -1},
		"temperature":      {Temperature: f(0)},
		"temperature 1":    {Temperature: f(1)},
		"stop":             {Stop: []string{"ab"}},
		"stops":            {Stop: []string{"a", "b"}},
		"stop, not UTF-8":  {Stop: []string{"\xff"}},
		"stop, not UTF-8 ": {Stop: []string{"\xfe"}},
		"output":           {Output: schema("o", `{}`)},
		"output name":      {Output: schema("p", `{}`)},
		"output schema":    {Output: schema("o", `true`)},
		"extra":            {Extra: map[string]json.RawMessage{"a": raw(`1`), "b": raw(`2`)}},
		"extra values":     {Extra: map[string]json.RawMessage{"a": raw(`2`), "b": raw(`1`)}},
	}
	same := map[string]*aycoder.Request{
		"empty": {NoCache: true, System: []*aycoder.Text{}, Extra: map[string]json.RawMessage{}},
		"tool":  {Tools: []*aycoder.ToolSpec{{Name: "ab", Description: "c", Effect: aycoder.EffectWrite}}},
		"model": {Model: "m2", NoCache: true},
		"user":  ask("ab"),
		"extra": {Extra: map[string]json.RawMessage{"b": raw(`2`), "a": raw(`1`)}},
	}
	store := memory()
	inner := loop(script.Say("Hi")).With(script.WithName("p", "m"))
	m := middleware.Cache(store, middleware.CacheOptions{})(inner)
	for _, req := range requests {
		collect(t, m, req)
	}
	require.Len(t, inner.Requests(), len(requests), "each is one of its own")
	for _, req := range requests {
		collect(t, m, req)
	}
	for _, req := range same {
		collect(t, m, req)
	}
	collect(t, m, &aycoder.Request{Model: "m"}) // is "empty": the client's own model
	require.Len(t, inner.Requests(), len(requests), "all are known")

	others := []struct {
		name, provider, model string
		space                 string
	}{{"provider", "p2", "m", ""}, {"model", "p", "m3", ""}, {"namespace", "p", "m", "x"}}
	for _, tt := range others {
		other := loop(script.Say("Ho")).With(script.WithName(tt.provider, tt.model))
		collect(t, middleware.Cache(store, middleware.CacheOptions{Namespace: tt.space})(other), ask("ab"))
		require.Len(t, other.Requests(), 1, tt.name)
	}
}

// An incomplete answer is not kept.
func TestCacheKeepsWholeAnswers(t *testing.T) {
	leave := func(t *testing.T, m aycoder.ModelClient) {
		for range m.Stream(t.Context(), ask("q")) {
			break
		}
	}
	cancel := func(t *testing.T, m aycoder.ModelClient) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range m.Stream(ctx, ask("q")) {
			cancel()
		}
	}
	run := func(t *testing.T, m aycoder.ModelClient) { stream(t.Context(), t, m, ask("q")) }
	bad, short := saying("\xff"), func(r *aycoder.Request) bool { return len(r.Messages) == 1 }
	tests := []struct {
		name string
		m    *fake
		ask  func(*testing.T, aycoder.ModelClient)
		o    middleware.CacheOptions
	}{
		{"error", failing("p", script.Overloaded()), run, middleware.CacheOptions{}},
		{"broken off", failing("p", broken(), "x"), run, middleware.CacheOptions{}},
		{"without an end", failing("p", nil, "x"), run, middleware.CacheOptions{}},
		{"left", saying("x"), leave, middleware.CacheOptions{}},
		{"cancelled", saying("x"), cancel, middleware.CacheOptions{}},
		{"skipped", saying("x"), run, middleware.CacheOptions{Skip: short}},
		{"too long", saying("xxxxxxxxxx"), run, middleware.CacheOptions{MaxAnswer: 80}},
		{"not UTF-8", bad, run, middleware.CacheOptions{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := middleware.Cache(memory(), tt.o)(tt.m)
			for n := 1; n < 4; n++ {
				tt.ask(t, m)
				require.Len(t, tt.m.asked(), n)
			}
		})
	}
}

// A client inside that asks again leaves nothing of the first answer in the cache.
func TestCacheOfRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := script.New(script.Break(1, nil, script.Say("one two")), script.Say("Hi"))
		m := middleware.Cache(memory(), middleware.CacheOptions{})(steady(aycoder.RetryPolicy{})(inner))
		for _, want := range []string{"one |retry 1 true 1s|", ""} {
			o := stream(t.Context(), t, m, ask("q"))
			require.Equal(t, want+"Hi|done *aycoder.Text|end end_turn", o.String())
		}
	})
}

// A store is one that breaks in some way.
type store struct {
	middleware.CacheStore
	load, save error
	spoil      func([]byte) []byte
}

func (s *store) Load(ctx context.Context, key string) ([]byte, bool, error) {
	if s.load != nil {
		return nil, false, s.load
	}
	data, ok, err := s.CacheStore.Load(ctx, key)
	if ok && s.spoil != nil {
		data = s.spoil(bytes.Clone(data))
	}
	return data, ok, err
}

func (s *store) Store(ctx context.Context, key string, data []byte) error {
	if s.save != nil {
		return s.save
	}
	return s.CacheStore.Store(ctx, key, data)
}

func TestCacheOfABadStore(t *testing.T) {
	tests := []struct {
		name  string
		store *store
		log   string
	}{
		{"load", &store{load: errKaput}, "load cached answer"},
		{"store", &store{save: errKaput}, "store answer"},
		{"empty", &store{spoil: func([]byte) []byte { return nil }}, "corrupt"},
		{"cut", &store{spoil: func(b []byte) []byte { return b[:len(b)-1] }}, "corrupt"},
		{"longer", &store{spoil: func(b []byte) []byte { return append(b, ' ') }}, "corrupt"},
		{"one bit", &store{spoil: func(b []byte) []byte { b[len(b)/2] ^= 1; return b }}, "corrupt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			tt.store.CacheStore = memory()
			inner := saying("x")
			m := middleware.Cache(tt.store, middleware.CacheOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})(inner)
			for n := 1; n < 3; n++ {
				require.Equal(t, saying("x").events, collect(t, m, ask("q")))
				require.Len(t, inner.asked(), n)
			}
			require.Contains(t, log.String(), tt.log)
			require.Contains(t, log.String(), "level=WARN")
		})
	}
	require.Panics(t, func() { middleware.Cache(nil, middleware.CacheOptions{}) })
}

// An answer under the key of another request is none.
func TestCacheOfMovedEntries(t *testing.T) {
	s := &swapped{data: map[string][]byte{}}
	inner := saying("x")
	m := middleware.Cache(s, middleware.CacheOptions{})(inner)
	collect(t, m, ask("a"))
	collect(t, m, ask("b"))
	require.Len(t, inner.asked(), 2)
	s.swap = true
	collect(t, m, ask("a"))
	require.Len(t, inner.asked(), 3)
}

type swapped struct {
	data map[string][]byte
	swap bool
}

func (s *swapped) Load(_ context.Context, key string) ([]byte, bool, error) {
	for k, data := range s.data {
		if (k == key) != s.swap {
			return data, true, nil
		}
	}
	return nil, false, nil
}

func (s *swapped) Store(_ context.Context, key string, data []byte) error {
	s.data[key] = data
	return nil
}

// crowd asks for the same n times at once, and returns what each got.
func crowd(t *testing.T, m aycoder.ModelClient, n int) []*outcome {
	out := make([]*outcome, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i] = stream(t.Context(), t, m, ask("q")) })
		synctest.Wait()
	}
	wg.Wait()
	return out
}

func slow(f *fake) aycoder.ModelFunc {
	return paced(f, slices.Repeat([]time.Duration{time.Minute}, len(f.events)+1)...)
}

func TestCacheAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := saying("x")
		for _, o := range crowd(t, middleware.Cache(memory(), middleware.CacheOptions{})(slow(inner)), 10) {
			require.NoError(t, o.err)
			require.Equal(t, "x|done *aycoder.Text|end end_turn", o.String())
		}
		require.Len(t, inner.asked(), 1)
	})
	synctest.Test(t, func(t *testing.T) { // an error is shared, and not kept
		inner := failing("p", badRequest(), "x")
		m := middleware.Cache(memory(), middleware.CacheOptions{})(slow(inner))
		for _, o := range crowd(t, m, 10) {
			require.ErrorIs(t, o.err, errKaput)
		}
		require.Len(t, inner.asked(), 1)
		stream(t.Context(), t, m, ask("q"))
		require.Len(t, inner.asked(), 2)
	})
	synctest.Test(t, func(t *testing.T) { // one that is too large to be kept is not shared
		inner := saying("xxxxxxxxxx")
		for _, o := range crowd(t, middleware.Cache(memory(), middleware.CacheOptions{MaxAnswer: 80})(slow(inner)), 3) {
			require.NoError(t, o.err)
		}
		require.Len(t, inner.asked(), 3)
	})
}

// Whatever happens to the one who asks, the others get their answer.
func TestCacheLeaderGoes(t *testing.T) {
	tests := []struct {
		name  string
		body  func(cancel func()) bool
		first string
		took  time.Duration // of those who wait, from when the first got its first event
	}{
		{"is cancelled", func(cancel func()) bool { cancel(); return true }, "x", 3 * time.Minute},
		{"leaves", func(func()) bool { return false }, "x", 3 * time.Minute},
		{"stands still", func(func()) bool { time.Sleep(time.Hour); return true }, "", 3*time.Minute + time.Second},
		{"panics", func(func()) bool { panic("leader") }, "", 3 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := saying("x")
				m := middleware.Cache(memory(), middleware.CacheOptions{})(slow(inner))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					for range m.Stream(ctx, ask("q")) {
						if !tt.body(cancel) {
							break
						}
					}
				})
				synctest.Wait()
				start := time.Now()
				for _, o := range crowd(t, m, 4) {
					require.NoError(t, o.err)
					require.Equal(t, "x|done *aycoder.Text|end end_turn", o.String())
				}
				require.InDelta(t, time.Minute+tt.took, time.Since(start), float64(2*time.Second))
				require.Len(t, inner.asked(), 2)
				cancel()
				wg.Wait()
			})
		})
	}
}

func TestCacheFollowerIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware.Cache(memory(), middleware.CacheOptions{})(slow(saying("x")))
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, stream(t.Context(), t, m, ask("q")).err) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, stream(ctx, t, m, ask("q")).err, context.DeadlineExceeded)
		require.Equal(t, 10*time.Second, time.Since(start))
		wg.Wait()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for ev, err := range m.Stream(ctx, ask("q")) { // out of the cache
			if ev == nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			leave()
		}
	})
}

// A request that cannot be encoded is asked without the cache.
func TestCacheOfOddRequests(t *testing.T) {
	inner := saying("x")
	m := middleware.Cache(memory(), middleware.CacheOptions{})(inner)
	for range 2 {
		require.NoError(t, stream(t.Context(), t, m, ask("\xff")).err)
	}
	require.Len(t, inner.asked(), 2)
	inner.err, inner.events = badRequest(), nil
	require.ErrorIs(t, stream(t.Context(), t, m, ask("\xff")).err, errKaput)
}

func TestCacheConcurrently(t *testing.T) {
	inner := saying("x")
	m := middleware.Cache(middleware.NewMemoryStore(4<<10), middleware.CacheOptions{})(inner)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				seq := m.Stream(t.Context(), ask(string(rune('a'+(i+j)%20))))
				next, stop := iter.Pull2(seq)
				for n := 0; ; n++ {
					ev, err, ok := next()
					if !ok || n == j%5 {
						break
					}
					if err != nil || ev == nil {
						t.Errorf("event %v, error %v", ev, err)
					}
				}
				stop()
			}
		})
	}
	wg.Wait()
	require.False(t, errors.Is(t.Context().Err(), context.Canceled))
}
