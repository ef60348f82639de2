package catalog_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"encoding/json"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
)

// TestNames checks which entry a name finds. An empty want means that the name is
// unknown.
func TestNames(t *testing.T) {
	known := catalog.Default()
	tests := []struct{ provider, model, want string }{
		{"anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5"},
		{"anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
		{"anthropic", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"},
		{"Anthropic", "Claude-Sonnet-4-5", "claude-sonnet-4-5"},
		{"anthropic", "claude-sonnet-4-20250514", "claude-sonnet-4"},
		{"anthropic", "claude-sonnet-4-0", "claude-sonnet-4"},
		{"anthropic", "claude-3-7-sonnet-latest", "claude-3-7-sonnet"},
		{"anthropic", "claude-sonnet-4-5-20251399", ""},
		{"anthropic", "claude-sonnet-4-5-mini", ""},
		{"anthropic", "claude-sonnet", ""},
		{"anthropic", "claude-sonnet-4.5", ""},
		{"anthropic", "claude-nonexistent-model-for-error-edge", ""},
		{"anthropic", "-20250929", ""},
		{"anthropic", "", ""},
		{"", "claude-sonnet-4-5", ""},

		{"openai", "gpt-5.1-2025-11-13", "gpt-5.1"},
		{"openai", "gpt-5.6", "gpt-5.6-sol"},
		{"openai", "gpt-4o-2024-08-06", "gpt-4o"},
		{"openai", "gpt-4o-2024-05-13", "gpt-4o-2024-05-13"},
		{"openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"},
		{"openai", "gpt-5-mini", "gpt-5-mini"},
		{"openai", "gpt-5-minor", ""},
		{"openai", "gpt-5-2025-8-7", ""},
		{"openai", "gpt-4-does-not-exist-12345", ""},
		{"openai", "ft:gpt-4o-mini-2024-07-18:acme::abc", ""},
		{"openai", "gpt-5.2-proo", ""},
		{"azure", "gpt-4o", ""},
		{"azure", "my-deployment", ""},

		{"google", "models/gemini-2.5-flash", "gemini-2.5-flash"},
		{"google", "gemini-2.0-flash-001", "gemini-2.0-flash"},
		{"google", "gemini-2.5-flash-image", ""},
		{"google", "tunedmodels/gemini-2.5-flash", ""},
		{"vertex", "google/gemini-2.5-pro", "gemini-2.5-pro"},
		{"vertex", "projects/p/locations/global/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"},
		{"vertex", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5"},
		{"vertex", "claude-opus-4-6@default", "claude-opus-4-6"},
		{"vertex", "@default", ""},

		{"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"},
		{"bedrock", "jp.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"},
		{"bedrock", "ca.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"},
		{"bedrock", "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-micro-v1:0",
			"amazon.nova-micro-v1:0"},
		{"bedrock", "arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-micro-v1:0", "amazon.nova-micro-v1:0"},
		{"bedrock", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc", ""},
		{"bedrock", "xx.amazon.nova-micro-v1:0", ""},
		{"bedrock", "does-not-exist", ""},

		{"openrouter", "anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4.5"},
		{"openrouter", "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4.5"},
		{"openrouter", "anthropic/claude-4.5-sonnet-20250929", "anthropic/claude-sonnet-4.5"},
		{"openrouter", "openai/gpt-5-2025-08-07", "openai/gpt-5"},
		{"openrouter", "anthropic/claude-sonnet-4.5:online", ""},
		{"openrouter", "deepseek/deepseek-chat-v3.1:free", ""},
		{"openrouter", "gpt-5", ""},

		{"ollama", "qwen3", "qwen3"},
		{"ollama", "qwen3:latest", "qwen3"},
		{"ollama", "qwen3:8b", "qwen3"},
		{"ollama", "qwen3:4b-q4_K_M", "qwen3:4b"},
		{"ollama", "qwen3:q8_0", "qwen3"},
		{"ollama", "registry.ollama.ai/library/qwen3:4b", "qwen3:4b"},
		{"ollama", "qwen3:4b-thinking", ""},
		{"ollama", "gpt-oss:120b-cloud", ""},

		{"xai", "grok-4-0709", "grok-4"},
		{"groq", "openai/gpt-oss-120b", "openai/gpt-oss-120b"},
		{"groq", "gpt-oss-120b", ""},
		{"deepseek", "deepseek-v4-flash", "deepseek-flash"},
		{"together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "meta-llama/Llama-3.3-70B-Instruct-Turbo"},
		{"anthropic", strings.Repeat("x", 1<<20), ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %.60s", tt.provider, tt.model), func(t *testing.T) {
			info, ok := known.Lookup(tt.provider, tt.model)
			assert.Equal(t, tt.want != "", ok)
			assert.Equal(t, tt.want, info.Model)
			if ok {
				assert.Equal(t, strings.ToLower(tt.provider), info.Provider)
			} else {
				assert.Zero(t, info)
			}
		})
	}
}

// TestNeighbours checks that no name finds a model whose name is longer or shorter
// by a word, unless the data says that both are names of it.
func TestNeighbours(t *testing.T) {
	known := catalog.Default()
	names := map[[2]string]bool{}
	for _, g := range readData(t).Providers {
		for _, m := range g.Models {
			for _, name := range append(m.Names, m.Model) {
				names[[2]string{g.Provider, strings.ToLower(name)}] = true
			}
		}
	}
	for name := range names {
		for _, end := range []string{"-mini", "-nano", "-pro", "-lite", "-fast", "-next", "x", ".1", "-2", ":batch"} {
			longer := [2]string{name[0], name[1] + end}
			if _, ok := known.Lookup(longer[0], longer[1]); ok {
				assert.True(t, names[longer], "%v is not a name of anything", longer)
			}
		}
		if i := strings.LastIndexByte(name[1], '-'); i > 0 {
			shorter := [2]string{name[0], name[1][:i]}
			if _, ok := known.Lookup(shorter[0], shorter[1]); ok && !names[shorter] {
				assert.Equal(t, "bedrock", shorter[0], "%v is not a name of anything", shorter)
			}
		}
	}
	t.Logf("%d names", len(names))
}

// TestRegion checks that a Bedrock model is not priced as in another region.
func TestRegion(t *testing.T) {
	known := catalog.Default()
	for model, want := range map[string]float64{
		"global.anthropic.claude-sonnet-4-5-20250929-v1:0": 3,
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0":     3.3,
		"eu.anthropic.claude-sonnet-4-5-20250929-v1:0":     3.3,
		"us.amazon.nova-micro-v1:0":                        0.035,
	} {
		info, ok := known.Lookup("bedrock", model)
		require.True(t, ok, model)
		require.NotNil(t, info.Price, model)
		assert.Equal(t, want, info.Price.Input, model)
	}
	for _, model := range []string{
		"anthropic.claude-sonnet-4-5-20250929-v1:0", "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
		"sa.amazon.nova-micro-v1:0", "arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-micro-v1:0",
	} {
		info, ok := known.Lookup("bedrock", model)
		require.True(t, ok, model)
		assert.Nil(t, info.Price, model)
		assert.NotZero(t, info.Context, model)
	}
}

// data is the file of the package as it is written, without what reading it adds.
type data struct {
	Providers []struct {
		Provider, Date string
		Sources        []string
		Models         []struct {
			aycoder.ModelInfo
			Names []string
		}
	}
}

func readData(t *testing.T) data {
	t.Helper()
	raw, err := os.ReadFile("models.json")
	require.NoError(t, err)
	var d data
	require.NoError(t, json.Unmarshal(raw, &d))
	return d
}

func TestData(t *testing.T) {
	raw, err := os.Open("models.json")
	require.NoError(t, err)
	defer raw.Close()
	parsed, err := catalog.Parse(raw)
	require.NoError(t, err, "duplicates, limits and prices are checked there")
	require.Equal(t, parsed.Models(""), catalog.Default().Models(""))
	for _, g := range readData(t).Providers { // the same data, which a program reads without looking for faults
		for _, m := range g.Models {
			for _, name := range append(m.Names, m.Model) {
				want, _ := parsed.Lookup(g.Provider, name)
				got, found := catalog.Default().Lookup(g.Provider, name)
				require.True(t, found, name)
				require.Equal(t, want, got, name)
			}
		}
	}

	models := 0
	for _, g := range readData(t).Providers {
		_, err := time.Parse(time.DateOnly, g.Date)
		require.NoError(t, err, g.Provider)
		require.NotEmpty(t, g.Sources, g.Provider)
		require.NotEmpty(t, g.Models, g.Provider)
		for i, m := range g.Models {
			models++
			name := g.Provider + " " + m.Model
			if i > 0 {
				assert.Less(t, g.Models[i-1].Model, m.Model, "%s is out of order", name)
			}
			if m.Price != nil {
				checkPrice(t, name, *m.Price)
			}
			if m.Price != nil && m.Price.Long != nil {
				checkPrice(t, name+" long", *m.Price.Long)
				assert.Greater(t, m.Price.Long.Input, m.Price.Input, name)
				assert.True(t, m.Context == 0 || m.Price.LongFrom <= m.Context, name)
			}
		}
	}
	providers := []string{
		"anthropic", "bedrock", "deepseek", "google", "groq", "mistral", "moonshot", "ollama", "openai",
		"openrouter", "together", "vertex", "xai", "zai",
	}
	for _, p := range providers {
		assert.NotEmpty(t, parsed.Models(p), p)
	}
	t.Logf("%d models of %d providers", models, len(readData(t).Providers))
}

func checkPrice(t *testing.T, name string, p aycoder.Price) {
	t.Helper()
	assert.LessOrEqual(t, p.CacheRead, p.Input, "%s: cache read", name)
	assert.LessOrEqual(t, p.CacheWrite, 2*p.Input, "%s: cache write", name)
	assert.LessOrEqual(t, p.Input, p.Output, "%s: output", name)
	assert.Less(t, p.Output, 1000.0, "%s: dollars for a million, not for one", name)
}

func TestModels(t *testing.T) {
	known := catalog.Default()
	all := known.Models("")
	require.NotEmpty(t, all)
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		assert.True(t, a.Provider < b.Provider || a.Provider == b.Provider && a.Model < b.Model, "%v %v", a, b)
	}
	for _, info := range all {
		found, ok := known.Lookup(info.Provider, info.Model)
		require.True(t, ok, info.Model)
		assert.Equal(t, info, found)
	}
	assert.Empty(t, known.Models("nobody"))
	assert.Equal(t, known.Models("xai"), known.Models("XAI"))
}

// TestOwn checks that a caller cannot change a catalog through what it returned.
func TestOwn(t *testing.T) {
	known := catalog.Default()
	info, _ := known.Lookup("anthropic", "claude-sonnet-4-5")
	require.NotNil(t, info.Price.Long)
	info.Price.Input, info.Price.Long.Input = -1, -1
	known.Models("anthropic")[0].Price.Input = -1
	again, _ := known.Lookup("anthropic", "claude-sonnet-4-5")
	assert.Equal(t, 3.0, again.Price.Input)
	assert.Equal(t, 6.0, again.Price.Long.Input)
	for _, m := range known.Models("anthropic") {
		assert.Positive(t, m.Price.Input)
	}
}

func TestWith(t *testing.T) {
	known := catalog.Default()
	mine := aycoder.ModelInfo{
		Provider: "anthropic", Model: "claude-sonnet-4-5", Context: 1_000_000, Price: &aycoder.Price{Input: 1, Output: 2},
	}
	other := known.With(mine,
		aycoder.ModelInfo{Provider: "acme", Model: "Acme-1", Context: 1},
		aycoder.ModelInfo{Provider: "acme", Model: "Acme-1", Context: 2},
		aycoder.ModelInfo{Provider: "openai", Model: "gpt-5.6", Context: 3},
		aycoder.ModelInfo{Model: "nobody's"}, aycoder.ModelInfo{Provider: "acme"})
	mine.Price.Input = 99

	got, ok := other.Lookup("anthropic", "claude-sonnet-4-5-20250929")
	require.True(t, ok)
	assert.Equal(t, aycoder.Price{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 1}, *got.Price, "a copy, with caches")
	assert.Zero(t, got.MaxOutput, "the whole entry is replaced")
	got, ok = other.Lookup("acme", "acme-1")
	assert.True(t, ok)
	assert.Equal(t, aycoder.ModelInfo{Provider: "acme", Model: "Acme-1", Context: 2}, got)
	got, _ = other.Lookup("openai", "gpt-5.6")
	assert.EqualValues(t, 3, got.Context, "what was a name of another model is one itself")
	got, _ = other.Lookup("openai", "gpt-5.6-sol")
	assert.EqualValues(t, 1_050_000, got.Context)
	assert.Len(t, other.Models("acme"), 1)

	got, _ = known.Lookup("anthropic", "claude-sonnet-4-5")
	assert.Equal(t, 3.0, got.Price.Input, "the first catalog is as it was")
	_, ok = known.Lookup("acme", "acme-1")
	assert.False(t, ok)
}

// TestCircle checks that a price that is its own price of long requests ends.
func TestCircle(t *testing.T) {
	p := &aycoder.Price{Input: 1, LongFrom: 10}
	p.Long = p
	var none catalog.Catalog
	info, ok := none.With(aycoder.ModelInfo{Provider: "p", Model: "m", Price: p}).Lookup("p", "m")
	require.True(t, ok)
	assert.Nil(t, info.Price.Long.Long)
}

func TestZero(t *testing.T) {
	var zero catalog.Catalog
	for _, c := range []*catalog.Catalog{nil, &zero} {
		_, ok := c.Lookup("anthropic", "claude-sonnet-4-5")
		assert.False(t, ok)
		assert.Empty(t, c.Models(""))
		_, ok = c.With(aycoder.ModelInfo{Provider: "p", Model: "m"}).Lookup("p", "m")
		assert.True(t, ok)
	}
}

func BenchmarkParse(b *testing.B) {
	raw, err := os.ReadFile("models.json")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, err := catalog.Parse(bytes.NewReader(raw))
		require.NoError(b, err)
	}
}

func BenchmarkLookup(b *testing.B) {
	b.ReportAllocs()
	known := catalog.Default()
	for b.Loop() {
		known.Lookup("anthropic", "claude-sonnet-4-5-20250929")
	}
}
