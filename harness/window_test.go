package harness_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/script"
)

// A counting service speaks the Messages API, takes three bytes of a request for a token, and refuses requests that are
// larger than the window of the model they name, as the real one does. Models in down are overloaded.
type counting struct {
	*httptest.Server
	windows map[string]int

	mu      sync.Mutex
	down    map[string]bool
	sizes   map[string][]int // in tokens, of the requests that were answered
	refused int
}

func newCounting(t *testing.T, windows map[string]int) *counting {
	s := &counting{windows: windows, down: map[string]bool{}, sizes: map[string][]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *counting) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
	}
	_ = json.Unmarshal(body, &req)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, window := len(body)/3, s.windows[req.Model]
	fail := func(status int, kind, text string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, text)
	}
	switch {
	case s.down[req.Model]:
		w.Header().Set("Retry-After", "3600")
		fail(529, "overloaded_error", "Overloaded")
		return
	case n+req.MaxTokens > window:
		s.refused++
		fail(400, "invalid_request_error", fmt.Sprintf("prompt is too long: %d tokens > %d maximum", n, window))
		return
	}
	s.sizes[req.Model] = append(s.sizes[req.Model], n)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, data := range []string{
		fmt.Sprintf(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":%q,"content":[],"usage":{"input_tokens":%d,"output_tokens":1}}}`, req.Model, n),
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`,
		`{"type":"message_stop"}`,
	} {
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
}

func (s *counting) open(_ context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
	return anthropic.New(spec.Model, anthropic.WithAPIKey("k"), anthropic.WithBaseURL(s.URL), anthropic.WithMaxTokens(1000))
}

// narrow is a catalog with models that have small windows.
func narrow() harness.Option {
	info := func(name string, window int64) aycoder.ModelInfo {
		return aycoder.ModelInfo{Provider: "anthropic", Model: name, Context: window}
	}
	return harness.WithCatalog(catalog.Default().With(info("wide", 60_000), info("small", 30_000)))
}

// talks has prompts of about 2,000 tokens answered, and returns how often the conversation was compacted.
func talks(t *testing.T, rt *harness.Runtime, prompts int) (compacted int) {
	t.Helper()
	for range prompts {
		for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: strings.Repeat("some words ", 550)}) {
			require.NoError(t, err)
			if _, ok := ev.(*aycoder.Compacted); ok {
				compacted++
			}
		}
	}
	return compacted
}

// A conversation is compacted before the model refuses it, as the catalog knows the window; context.max_tokens beats it, in both
// directions; a model that the catalog does not know tells its window by a refusal.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		name, model, source string
		service             int // the window that it has
		set                 int64
		want                int64
		refused             bool
	}{
		{"catalog", "small", "the model", 30_000, 0, 30_000, false},
		{"lower", "small", "context.max_tokens", 30_000, 20_000, 20_000, false},
		{"higher", "small", "context.max_tokens", 60_000, 60_000, 60_000, false},
		{"unknown", "other", "", 30_000, 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newCounting(t, map[string]int{tt.model: tt.service})
			rt := open(t, t.TempDir(), narrow(), harness.WithOpener(s.open), harness.WithModel("anthropic/"+tt.model),
				harness.WithStore(journal.Memory(), ""), harness.WithSettings(settings(t, func(c *config.Settings) { c.Context.MaxTokens = tt.set })))
			window, source := rt.Window()
			require.Equal(t, tt.want, window)
			require.Equal(t, tt.source, source)
			require.Positive(t, talks(t, rt, 40))
			require.Equal(t, tt.refused, s.refused > 0)
			most, limit := slices.Max(s.sizes[tt.model]), int(cmp.Or(tt.want, 30_000))
			require.Less(t, most, limit)
			require.Greater(t, most, limit/2)
		})
	}
}

// The window of the model that writes summaries does not depend on context.max_tokens.
func TestWindowOfSummaries(t *testing.T) {
	for _, most := range []int64{0, 50_000} {
		s := newCounting(t, map[string]int{"wide": 60_000, "small": 12_000})
		models := catalog.Default().With(aycoder.ModelInfo{Provider: "anthropic", Model: "wide", Context: 60_000},
			aycoder.ModelInfo{Provider: "anthropic", Model: "small", Context: 12_000})
		rt := open(t, t.TempDir(), harness.WithCatalog(models), harness.WithOpener(s.open), harness.WithModel("anthropic/wide"),
			harness.WithStore(journal.Memory(), ""), harness.WithSettings(settings(t, func(c *config.Settings) {
				c.Context.MaxTokens, c.Roles.Summary = most, "anthropic/small"
			})))
		require.Positive(t, talks(t, rt, 40))
		require.NotEmpty(t, s.sizes["small"])
		require.Zero(t, s.refused)
	}
}

// After a fallback and after another model was chosen, the window is that of the model that answers.
func TestWindowOfOtherModel(t *testing.T) {
	s := newCounting(t, map[string]int{"wide": 60_000, "small": 30_000})
	rt, _ := reloadingModels(t, `
roles.main = "main"
[models.main]
provider = "anthropic"
model = "wide"
fallbacks = ["anthropic/small"]
`, narrow(), harness.WithOpener(s.open), harness.WithStore(journal.Memory(), ""))
	talks(t, rt, 3)
	s.down["wide"] = true
	talks(t, rt, 1)
	window, _ := rt.Window()
	require.EqualValues(t, 30_000, window)
	require.Positive(t, talks(t, rt, 20))
	require.Len(t, s.sizes["wide"], 3)
	s.down["wide"] = false
	require.NoError(t, rt.SetModel(t.Context(), "anthropic/wide"))
	window, _ = rt.Window()
	require.EqualValues(t, 60_000, window)
	require.Positive(t, talks(t, rt, 40))
	require.Greater(t, slices.Max(s.sizes["wide"]), 40_000)
	require.Zero(t, s.refused)
}

// A change of [context] takes effect with the turn that follows, and not in the one in which the file changes.
func TestReloadOfContext(t *testing.T) {
	var save func(string) error
	var rt *harness.Runtime
	var windows []int64
	look := func() {
		window, _ := rt.Window()
		windows = append(windows, window)
	}
	step := func(text string) func() {
		return func() {
			look()
			require.NoError(t, save("approval.mode = \"full-auto\"\n"+text))
			look()
		}
	}
	tool := changing(t, []func(){step("context.max_tokens = 6000\ncontext.fill = 0.3\n"), step("context.max_bytes = 5000\n"), step("")})
	call := script.Call("change", struct{}{})
	model := script.New(call, call, call, script.Say("done")).With(script.WithName("anthropic", "small"))
	rt, save = reloadingModels(t, "approval.mode = \"full-auto\"\n", narrow(), harness.WithTools(tool), harness.WithClient(model))
	talk := []*aycoder.Message{aycoder.User("hello"), aycoder.Assistant("hello")}
	for range 10 {
		talk = append(talk, aycoder.User(strings.Repeat("words ", 200)), aycoder.Assistant(strings.Repeat("words ", 200)))
	}
	var compacted []int // the turns
	turn := 1
	var told []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Messages: talk, Prompt: "go on"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.TurnFinished:
			turn++
		case *aycoder.Compacted:
			compacted = append(compacted, turn)
		case *aycoder.Notice:
			told = append(told, ev.Text)
		}
	}
	require.Equal(t, []int64{30_000, 30_000, 6000, 6000, 30_000, 30_000}, windows)
	require.Equal(t, []int{2}, compacted)
	require.Equal(t, []string{
		"the configuration has changed:\ncontext.fill: 0.5 → 0.3\ncontext.max_tokens: none → 6000",
		"the configuration has changed:\ncontext.fill: 0.3 → 0.5\ncontext.max_bytes: 33554432 → 5000\ncontext.max_tokens: 6000 → none",
		"the configuration has changed:\ncontext.max_bytes: 5000 → 33554432",
	}, told)
}

// informed is a model that tells what its service does.
type informed struct {
	*script.Model
	window int64
}

func (m informed) ModelInfo(string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Provider: "ollama", Model: "qwen3", Context: m.window}, m.window > 0
}

// The catalog never says more about a model than its service, which may use less of the window. OpenAI keeps the longest answer
// free in each request: of the 400,000 tokens of GPT-5, 272,000 may be input, as its page says.
func TestWindowOfServices(t *testing.T) {
	for _, tt := range []struct {
		client aycoder.ModelClient
		want   int64
	}{
		{informed{script.New().With(script.WithName("ollama", "qwen3")), 0}, 0},
		{informed{script.New().With(script.WithName("ollama", "qwen3")), 4096}, 4096},
		{script.New().With(script.WithName("openai", "gpt-5")), 272_000},
		{script.New().With(script.WithName("anthropic", "claude-sonnet-4-5")), 200_000},
		{aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] { return nil }), 0},
	} {
		rt := open(t, t.TempDir(), harness.WithClient(tt.client))
		window, _ := rt.Window()
		require.Equal(t, tt.want, window)
	}
}

// ExampleRuntime_Window tells how much of a window is used.
func ExampleRuntime_Window() {
	rt, err := harness.New(context.Background(), ".", harness.WithClient(script.New().With(script.WithName("anthropic", "claude-sonnet-4-5"))))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	window, source := rt.Window()
	fmt.Printf("%d tokens, as %s has it\n", window, source)
	// Output: 200000 tokens, as the model has it
}
