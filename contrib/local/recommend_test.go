package local

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCatalogue(t *testing.T) {
	for _, m := range Catalogue() {
		assert.Regexp(t, validID, m.Model)
		assert.NotEmpty(t, m.Source, m.Model)
		assert.NotEmpty(t, m.License, m.Model)
		assert.Contains(t, []string{"agent", "code", "small"}, m.Use, m.Model)
		assert.LessOrEqual(t, m.Active, m.Parameters, m.Model)
		for i, s := range m.Sizes {
			bits := float64(s.Bytes) * 8 / (m.Parameters * 1e9)
			if exact := map[string]float64{"Q8_0": 8.5, "Q6_K": 6.5625}[s.Quantization]; exact > 0 {
				assert.InEpsilon(t, exact, bits, 0.02, "%s %s", m.Model, s.Quantization) // parameters are rounded
				continue
			}
			assert.True(t, bits > 3 && bits < 7.5, "%s %s: %.2f bits for each weight", m.Model, s.Quantization, bits)
			if i > 0 {
				assert.Less(t, s.Bytes, m.Sizes[i-1].Bytes, m.Model)
			}
		}
	}
}

// The figures of the table are those of the architectures.
func TestCatalogueFigures(t *testing.T) {
	shapes := map[string]int{"Qwen/Qwen2.5-Coder-14B-Instruct-GGUF": 7, "bartowski/Llama-3.2-3B-Instruct-GGUF": 11,
		"unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF": 8, "TheBloke/CodeLlama-7B-Instruct-GGUF": 0, "ggml-org/gpt-oss-20b-GGUF": 9}
	n := 0
	for _, m := range Catalogue() {
		i, ok := shapes[m.Model]
		if !ok {
			continue
		}
		model := build(large[i].s, false).model(t)
		p, err := model.plan(Use{Context: 1 << 15})
		assert.NoError(t, err)
		var cache int64
		for _, l := range p.layers {
			if l.window == 0 {
				cache += p.cache(l)
			}
		}
		assert.Equal(t, cache>>15, m.Cache, m.Model)
		assert.InEpsilon(t, model.Size, m.Sizes[len(m.Sizes)-1].Bytes, 0.01, m.Model)
		for _, s := range m.Sizes {
			if bits := map[string]float64{"Q8_0": 34 * 8 / 32.0, "Q6_K": 210 * 8 / 256.0}[s.Quantization]; bits > 0 {
				assert.InEpsilon(t, float64(model.Parameters)*bits/8, s.Bytes, 0.01, "%s %s", m.Model, s.Quantization)
			}
		}
		n++
	}
	assert.Equal(t, len(shapes), n)
}

func TestRecommend(t *testing.T) {
	families := func(free int64, use string) map[string]string {
		found := map[string]string{}
		for _, r := range Recommend(free, use) {
			if r.Need > 0 {
				assert.LessOrEqual(t, r.Need, free-free/20)
				found[r.Family] += r.String() + " "
			} else {
				assert.Contains(t, r.Why, "too large")
			}
		}
		return found
	}
	six := families(6<<30, "")
	for _, f := range []string{"Qwen-Coder", "DeepSeek-Coder", "Code Llama"} {
		assert.NotEmpty(t, six[f], f)
	}
	assert.Empty(t, six["Devstral"]) // there is none of that size
	three := families(3<<30, "")
	assert.NotEmpty(t, three["Llama"])
	assert.NotEmpty(t, three["Granite"])
	assert.Len(t, three, 2)
	assert.Empty(t, families(1<<30, ""))
	list := Recommend(24<<30, "agent")
	assert.True(t, strings.HasPrefix(list[0].Model, "unsloth/Qwen3.6-27B"))
	assert.Equal(t, int64(16384), list[0].Context)
	for _, r := range Recommend(80<<30, "") {
		assert.Positive(t, r.Need, r.Model)
	}
}
