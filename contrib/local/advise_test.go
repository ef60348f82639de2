package local

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// needs is what a GPU takes with so many layers, as this test counts it: from the tensors that it has invented, by the rule of
// llama.cpp for which layers are offloaded, with the output first or last.
func needs(g *gguf, ngl, hostExperts int, outputFirst bool, cells int) (n int64) {
	s, tied := g.s, g.s.tied
	repeating, output := min(ngl, s.layers), ngl > s.layers
	if outputFirst {
		repeating, output = min(max(ngl-1, 0), s.layers), ngl > 0
	}
	for _, t := range g.tensors {
		layer := -1
		if rest, ok := strings.CutPrefix(t.name, "blk."); ok {
			number, _, _ := strings.Cut(rest, ".")
			layer, _ = strconv.Atoi(number)
		}
		switch {
		case strings.Contains(t.name, "_exps.") && layer < hostExperts:
		case layer >= s.layers-repeating, layer < 0 && output && (!strings.HasPrefix(t.name, "token_embd") || tied):
			n += t.size
		}
	}
	return n + int64(repeating)*int64(cells)*int64(s.kv*s.head)*2*2
}

// For six sizes of memory, what is advised fits and leaves 5 % free.
func TestAdviceFits(t *testing.T) {
	type load struct {
		g       *gguf
		use     Use
		compute float64 // what llama.cpp allocates at least, in MiB
	}
	var loads []load
	for _, c := range large {
		if c.s.window > 0 {
			continue // the cache that this test counts has no window
		}
		loads = append(loads, load{build(c.s, false), Use{Context: c.use.Context, NoFlash: c.use.NoFlash}, c.compute})
	}
	real := measured(t)
	for i, j := range jobs() {
		if s := small()[j.model]; s.window == 0 && s.kv > 0 && s.kvRank == 0 && len(s.attention) == 0 && j.Cache == "F16" {
			loads = append(loads, load{build(s, false), Use{Context: int64(j.Context), NoFlash: !j.Flash}, real[i].compute})
		}
	}
	var advised, whole, split, none int
	for _, l := range loads {
		m := l.g.model(t)
		sizes := []int64{3 << 30, 6 << 30, 8 << 30, 12 << 30, 24 << 30, 80 << 30}
		if m.Size < 1<<30 {
			sizes = []int64{64 << 20, 96 << 20, 128 << 20, 192 << 20, 256 << 20, 640 << 20}
		}
		most := 0
		for _, size := range sizes {
			a, err := m.Advise([]Device{{Name: "GPU", Free: size}}, 256<<30, l.use)
			require.NoError(t, err)
			require.True(t, a.Fits)
			ngl := a.Layers
			switch {
			case a.HostExperts > 0:
				ngl = m.Layers + 1
				split++
			case ngl > m.Layers:
				whole++
			case ngl == 0:
				none++
			default:
				split++
			}
			for _, first := range []bool{true, false} {
				got := needs(l.g, ngl, a.HostExperts, first, int(l.use.Context))
				if ngl > 0 {
					got += int64(l.compute * (1 << 20))
				}
				assert.LessOrEqual(t, got, size-size/20, "%s with %d layers in %s: %s", m.Architecture, ngl, bytesText(size), strings.Join(a.Why, "\n"))
			}
			assert.GreaterOrEqual(t, ngl, most, "fewer layers in a larger memory")
			most = ngl
			advised++
		}
	}
	t.Logf("%d cases: the whole model %d times, a part %d times, nothing on the GPU %d times", advised, whole, split, none)
	assert.Greater(t, whole, 20)
	assert.Greater(t, split, 10)
}

// The host counts, too, and what shares its memory.
func TestAdviceHost(t *testing.T) {
	m := build(large[0].s, false).model(t) // 3.8 GiB
	gpu := []Device{{Name: "GPU", Free: 2 << 30}}
	a, err := m.Advise(gpu, 1<<30, Use{Context: 2048})
	require.NoError(t, err)
	assert.False(t, a.Fits, a.Why)
	assert.Empty(t, a.LlamaServer())
	assert.Nil(t, a.Ollama())

	a, err = m.Advise(gpu, 8<<30, Use{Context: 2048})
	require.NoError(t, err)
	require.True(t, a.Fits)
	assert.Greater(t, a.Layers, 5)
	assert.Less(t, a.Layers, 20)
	assert.Equal(t, map[string]any{"num_gpu": a.Layers, "num_ctx": int64(2048)}, a.Ollama())

	shared := []Device{{Name: "Apple M3", Free: 12 << 30, Shared: true}}
	a, err = m.Advise(shared, 12<<30, Use{Context: 4096})
	require.NoError(t, err)
	assert.True(t, a.Fits)
	assert.Equal(t, 33, a.Layers)
	a, err = m.Advise(shared, 4<<30, Use{Context: 4096})
	require.NoError(t, err)
	assert.False(t, a.Fits)

	none, err := m.Advise(nil, 16<<30, Use{Context: 4096})
	require.NoError(t, err)
	assert.True(t, none.Fits)
	assert.Zero(t, none.Layers)
	two, err := m.Advise([]Device{{Free: 4 << 30}, {Free: 4 << 30}}, 16<<30, Use{Context: 4096, NoFlash: true})
	require.NoError(t, err)
	assert.Equal(t, 33, two.Layers)
}

// The context is chosen if none is given.
func TestAdviceContext(t *testing.T) {
	m := build(large[7].s, false).model(t) // Qwen2.5 Coder 14B, trained for 32,768 tokens
	for _, c := range []struct {
		free, context int64
		whole         bool
	}{{24 << 30, 32768, true}, {13 << 30, 16384, true}, {11 << 30, 8192, true}, {8 << 30, 16384, false}} {
		a, err := m.Advise([]Device{{Free: c.free}}, 64<<30, Use{})
		require.NoError(t, err)
		assert.Equal(t, c.context, a.Context, "%s\n%s", bytesText(c.free), strings.Join(a.Why, "\n"))
		assert.Equal(t, c.whole, a.Layers == m.Layers+1)
	}
	moe := build(large[8].s, false).model(t)
	a, err := moe.Advise([]Device{{Free: 12 << 30}}, 64<<30, Use{Keys: "q8_0", Values: "q8_0"})
	require.NoError(t, err)
	assert.Greater(t, a.HostExperts, 0)
	assert.Contains(t, strings.Join(a.LlamaServer(), " "), "-ctk q8_0 -ctv q8_0")
	t.Log("\n" + strings.Join(a.Why, "\n"))
}

func TestUseIsChecked(t *testing.T) {
	m := build(large[0].s, false).model(t)
	for _, u := range []Use{{Context: -1}, {Batch: 1 << 40}, {Sequences: 1000}, {Keys: "q9"}, {Values: "q8_0", NoFlash: true}} {
		_, err := m.Memory(u)
		assert.Error(t, err, "%+v", u)
		_, err = m.Advise(nil, 1<<40, u)
		assert.Error(t, err, "%+v", u)
	}
	_, err := (&Model{}).Memory(Use{})
	assert.Error(t, err)
}

// Numbers of a hostile file never make a model that does not fit one that does.
func TestAdviceHostile(t *testing.T) {
	for _, key := range []string{"embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
		"feed_forward_length", "expert_used_count", "expert_count", "ssm.inner_size", "ssm.state_size", "attention.sliding_window"} {
		m := build(small()[4], false).model(t)
		for _, n := range []float64{1 << 20, 1 << 31, 1 << 63, -1} {
			m.meta["qwen3moe."+key] = n
			for _, u := range []Use{{Context: 4096}, {Context: maxTokens, Batch: maxBatch, Sequences: 256, NoFlash: true}} {
				p, err := m.plan(u)
				if err != nil {
					continue
				}
				require.Positive(t, p.compute, "%s %v", key, n)
				for _, l := range p.layers {
					require.GreaterOrEqual(t, p.cache(l), int64(0), "%s %v", key, n)
				}
				if need, err := m.Memory(u); err == nil {
					require.Positive(t, need.Total(), "%s %v", key, n)
				}
			}
		}
	}
}
