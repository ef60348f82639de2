package catalog_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
)

func TestParse(t *testing.T) {
	c, err := catalog.Parse(strings.NewReader(`{"providers": [{
		"provider": "acme", "date": "2026-11-21", "sources": ["https://acme.example"], "notes": ["none"],
		"models": [
			{"model": "acme-1", "names": ["acme-latest"], "context": 100, "max_output": 10, "tools": true,
				"thinking": true, "images": true, "output": true,
				"price": {"input": 1, "output": 4, "cache_read": 0.1, "long_from": 50,
					"long": {"input": 2, "output": 8}}},
			{"provider": "acme", "model": "acme-2"}
		]}, {"provider": "empty"}]}`))
	require.NoError(t, err)
	got, ok := c.Lookup("acme", "acme-latest")
	require.True(t, ok)
	assert.Equal(t, aycoder.ModelInfo{
		Provider: "acme", Model: "acme-1", Context: 100, MaxOutput: 10,
		Tools: true, Thinking: true, Images: true, Output: true,
		Price: &aycoder.Price{
			Input: 1, Output: 4, CacheRead: 0.1, CacheWrite: 1, LongFrom: 50,
			Long: &aycoder.Price{Input: 2, Output: 8, CacheRead: 2, CacheWrite: 2},
		},
	}, got)
	got, ok = c.Lookup("acme", "acme-2-20261121")
	assert.True(t, ok)
	assert.Equal(t, aycoder.ModelInfo{Provider: "acme", Model: "acme-2"}, got)
	_, ok = c.Lookup("anthropic", "claude-sonnet-4-5")
	assert.False(t, ok, "only what is in the file")
}

// one is a file with one model.
func one(model string) string {
	return `{"providers": [{"provider": "p", "models": [` + model + `]}]}`
}

func TestParseProblems(t *testing.T) {
	const at = "providers[0] (p).models[0]"
	tests := []struct {
		name, file string
		want       []string // places with their texts, in order
	}{
		{"empty", "", []string{"file: unexpected EOF"}},
		{"syntax", "{\"providers\":\n[}", []string{"line 2: invalid character '}' looking for beginning of value"}},
		{"cut off", `{"providers": [{`, []string{"file: unexpected EOF"}},
		{"list", `[]`, []string{"file: json: cannot unmarshal array"}},
		{"more", `{} {}`, []string{"file: there is something behind the end of the document"}},
		{"unknown field", `{"model": 1}`, []string{`file: json: unknown field "model"`}},
		{"provider", `{"providers": [{}, {"provider": "a b"}, 3]}`, []string{
			"providers[0].provider: missing", `providers[1].provider: "a b" has white space`,
			"providers[2]: json: cannot unmarshal number",
		}},
		{"provider twice", `{"providers": [{"provider": "p"}, {"provider": "P"}]}`,
			[]string{"providers[1] (P): provider is there twice"}},
		{"date", `{"providers": [{"provider": "p", "date": "2026-13-01"}]}`,
			[]string{`providers[0] (p).date: "2026-13-01" is not a date`}},
		{"no model", one(`{}`), []string{at + ".model: missing"}},
		{"null", one(`null`), []string{at + ".model: missing"}},
		{"misspelt", one(`{"model": "m", "contxt": 1}`), []string{at + `: json: unknown field "contxt"`}},
		{"type", one(`{"model": "m", "context": "1"}`), []string{at + ": json: cannot unmarshal string"}},
		{"other provider", one(`{"provider": "q", "model": "m"}`), []string{at + ` (m).provider: "q" is not the provider`}},
		{"limits", one(`{"model": "m", "context": -1, "max_output": -2}`), []string{
			at + " (m).context: -1 is less than 0", at + " (m).max_output: -2 is less than 0",
		}},
		{"output", one(`{"model": "m", "context": 1, "max_output": 2}`),
			[]string{at + " (m).max_output: 2 is more than the context of 1"}},
		{"price", one(`{"model": "m", "price": {"input": -1, "output": 1e7, "cache_read": -0.0}}`), []string{
			at + " (m).price.input: -1 is not from 0", at + " (m).price.output: 1e+07 is not from 0",
			at + " (m).price.cache_read: -0 is not from 0",
		}},
		{"overflow", one(`{"model": "m", "price": {"input": 1e999}}`), []string{at + ": json: cannot unmarshal number"}},
		{"long from", one(`{"model": "m", "price": {"long_from": 5}}`),
			[]string{at + " (m).price.long_from: 5 without long"}},
		{"long", one(`{"model": "m", "price": {"long": {"input": -1}}}`), []string{
			at + " (m).price.long_from: 0 is less than 1", at + " (m).price.long.input: -1 is not",
		}},
		{"longer", one(`{"model": "m", "price": {"long_from": 1, "long": {"long": {}}}}`),
			[]string{at + " (m).price.long: has a long of its own"}},
		{"twice", one(`{"model": "m"}, {"model": "M"}`), []string{`models[1] (M): "m" is there twice`}},
		{"name twice", one(`{"model": "m", "names": ["n"]}, {"model": "o", "names": ["N", "m", "o", ""]}`), []string{
			`models[1] (o).names[0]: "n" is a name of m as well`, `models[1] (o).names[1]: "m" is there twice`,
			`models[1] (o).names[2]: "o" is there twice`, "models[1] (o).names[3]: missing",
		}},
		{"model is a name", one(`{"model": "m", "names": ["n"]}, {"model": "n"}`),
			[]string{`models[1] (n): "n" is a name of m as well`}},
		{"long name", one(`{"model": "` + strings.Repeat("m", 600) + `"}`), []string{at + ".model: longer than 512 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := catalog.Parse(strings.NewReader(tt.file))
			require.Error(t, err)
			assert.Nil(t, c)
			text, ok := strings.CutPrefix(err.Error(), "parse model catalog: ")
			require.True(t, ok, err)
			lines := strings.Split(text, "\n")
			require.Len(t, lines, len(tt.want), text)
			for i, want := range tt.want {
				assert.Contains(t, lines[i], want)
			}
			e, ok := errors.AsType[*aycoder.ConfigError](err)
			require.True(t, ok)
			assert.NotEmpty(t, e.Option)
		})
	}
}

func TestParseBounds(t *testing.T) {
	_, err := catalog.Parse(io.LimitReader(endless{}, 1<<30))
	e, ok := errors.AsType[*aycoder.LimitError](err)
	require.True(t, ok, err)
	assert.EqualValues(t, 8<<20, e.Max)

	many := strings.Repeat(`{"model": "m", "context": -1}, `, 1000)
	_, err = catalog.Parse(strings.NewReader(one(many + `{"model": "m"}`)))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "and 1980 more problems")
	assert.Less(t, len(err.Error()), 5000)

	_, err = catalog.Parse(strings.NewReader(one(`{"` + strings.Repeat("x", 1<<20) + `": 1}`)))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 1000)

	broken := errors.New("disk on fire")
	_, err = catalog.Parse(iotest.ErrReader(broken))
	assert.ErrorIs(t, err, broken)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func FuzzParse(f *testing.F) {
	f.Add(`{"providers": []}`)
	f.Add(one(`{"model": "m", "names": ["n"], "context": 9, "price": {"input": 1, "long_from": 1, "long": {"input": 2}}}`))
	f.Add(one(`{"model": "m"}, {"model": "m"}`))
	f.Add(`{"providers": [null, 1, {"date": "x"}]}`)
	f.Fuzz(func(t *testing.T, file string) {
		c, err := catalog.Parse(strings.NewReader(file))
		if (err == nil) == (c == nil) {
			t.Fatalf("catalog %v, error %v", c, err)
		}
		for _, info := range c.Models("") {
			got, ok := c.Lookup(info.Provider, info.Model)
			require.True(t, ok, "%q %q", info.Provider, info.Model)
			require.Equal(t, info, got)
			checkCost(t, got)
		}
	})
}

// checkCost checks that no usage costs less than nothing.
func checkCost(t *testing.T, info aycoder.ModelInfo) {
	t.Helper()
	if info.Price == nil {
		return
	}
	u := aycoder.Usage{Input: 1 << 40, Output: 1, CacheRead: 1, CacheWrite: 1}
	require.GreaterOrEqual(t, u.Cost(*info.Price), 0.0)
}

func FuzzLookup(f *testing.F) {
	for _, s := range []string{
		"claude-sonnet-4-5-20250929", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "models/gemini-2.5-flash",
		"anthropic/claude-sonnet-4-5", "qwen3:4b-q4_K_M", "claude@default",
		"arn:aws:bedrock:x:inference-profile/us.a", "-2025-09-29",
	} {
		f.Add(s)
	}
	known := catalog.Default()
	providers := map[string]bool{}
	for _, info := range known.Models("") {
		providers[info.Provider] = true
	}
	f.Fuzz(func(t *testing.T, model string) {
		for p := range providers {
			info, ok := known.Lookup(p, model)
			if !ok {
				require.Zero(t, info)
				continue
			}
			require.Equal(t, p, info.Provider)
			again, ok := known.Lookup(p, info.Model)
			require.True(t, ok, "%s %q", p, info.Model)
			if info.Price != nil {
				require.Equal(t, again, info, fmt.Sprintf("%s %q", p, model))
			}
		}
	})
}
