package local

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// smaller is Q4_K_S: the first layers have more bits. See llama-quant.cpp, as for mixed.
func smaller(v string) func(string, int, int) string {
	return func(name string, i, n int) string {
		switch {
		case name == "output" || name == "token_embd" && v == "Q6_K":
			return "Q6_K"
		case name == "attn_v" && (i < 4 || v == "Q5_K"), name == "ffn_down" && i < n/8:
			return "Q5_K"
		}
		return "Q4_K"
	}
}

// shared is Q4_K_M of a model whose output shares the weights of the input.
func shared(name string, i, n int) string {
	if name == "token_embd" {
		return "Q6_K"
	}
	return mixed("Q4_K")(name, i, n)
}

// iq4 is IQ4_XS of a model with four or more queries for each value.
func iq4(name string, _, _ int) string {
	return map[string]string{"attn_v": "Q5_K", "output": "Q6_K"}[name] + map[bool]string{true: "IQ4_XS"}[name != "attn_v" && name != "output"]
}

// Large models, and what public logs of llama.cpp say about them, in MiB. A log that does not show a size has 0. The weights of
// the layers are those of the type of file that the log names, or that its sizes show.
var large = []struct {
	source    string
	model     string
	s         shape
	use       Use
	ngl       int // of a log that is about some of the layers: those on the GPU
	gpu, host float64
	cache     float64
	compute   float64
}{
	{
		source: "https://github.com/utilityai/llama-cpp-rs/blob/065023122b35606328ff9820134cd90cad00c23e/README.md", model: "Llama 2 7B Q4_K_M",
		s:   shape{arch: "llama", layers: 32, embd: 4096, heads: 32, kv: 32, head: 128, ff: 11008, vocab: 32000, context: 4096, weights: mixed("Q4_K")},
		use: Use{Context: 2048, NoFlash: true}, gpu: 3820.94, host: 70.31, cache: 1024, compute: 164.01,
	},
	{
		source: "https://github.com/ggml-org/ci: a result of llama.cpp on ggml-4-x86-cuda-v100, pythia 2.8B", model: "Pythia 2.8B F16",
		s:   shape{arch: "gptneox", layers: 32, embd: 2560, heads: 32, kv: 32, head: 80, ff: 10240, vocab: 50304, context: 2048, weights: all("F16")},
		use: Use{Context: 2048, NoFlash: true}, gpu: 5049.71, host: 245.62, cache: 640, compute: 162,
	},
	{
		source: "https://github.com/mozilla-ai/llamafile/pull/552", model: "TriLM 3.9B F16",
		s:   shape{arch: "llama", layers: 30, embd: 3072, heads: 24, kv: 24, head: 128, ff: 9216, vocab: 50688, context: 2048, weights: all("F16")},
		use: Use{Context: 512, NoFlash: true}, gpu: 7317.71, host: 297, cache: 180, compute: 105,
	},
	{
		source: "https://github.com/ggml-org/llama.cpp/pull/6122", model: "Command-R 35B Q4_K_S",
		s:   shape{arch: "command-r", layers: 40, embd: 8192, heads: 64, kv: 64, head: 128, ff: 22528, vocab: 256000, context: 8192, tied: true, weights: smaller("Q6_K")},
		use: Use{Context: 4096, NoFlash: true}, gpu: 5434.38 + 13989.53, host: 1640.62, cache: 5120, compute: 672.01,
	},
	{
		source: "https://github.com/ggml-org/llama.cpp/issues/7217", model: "Yi 34B IQ4_XS",
		s:   shape{arch: "llama", layers: 60, embd: 7168, heads: 56, kv: 8, head: 128, ff: 20480, vocab: 64000, context: 4096, weights: iq4},
		use: Use{Context: 2048}, gpu: 8796.98 + 8588.34, host: 232.42,
	},
	{
		source: "https://github.com/ikawrakow/ik_llama.cpp/pull/344", model: "GLM-4 32B 0414 IQ4_XS",
		s:   shape{arch: "glm4", layers: 61, embd: 6144, heads: 48, kv: 2, head: 128, ff: 23040, vocab: 151552, context: 32768, weights: mostly("IQ4_XS", "Q6_K")},
		use: Use{Context: 32768}, gpu: 16303.48, host: 471.75, cache: 1952,
	},
	{
		source: "https://github.com/ikawrakow/ik_llama.cpp/pull/333", model: "GLM-4 32B 0414 base Q4_0",
		s:   shape{arch: "glm4", layers: 61, embd: 6144, heads: 48, kv: 8, head: 128, ff: 23040, vocab: 151552, context: 32768, weights: all("Q4_0")},
		use: Use{Context: 8192, NoFlash: true}, gpu: 17284.05, host: 499.50, cache: 1952,
	},
	{
		source: "https://github.com/ollama/ollama/issues/9091", model: "Qwen2.5 Coder 14B Q4_K_M",
		s:   shape{arch: "qwen2", layers: 48, embd: 5120, heads: 40, kv: 8, head: 128, ff: 13824, vocab: 152064, context: 32768, weights: mixed("Q4_K")},
		use: Use{Context: 8192, NoFlash: true}, gpu: 8148.38, host: 417.66, cache: 1536,
	},
	{
		source: "https://github.com/ggml-org/llama.cpp/issues/13729", model: "Qwen3 30B-A3B Q4_K_M",
		s:   shape{arch: "qwen3moe", layers: 48, embd: 2048, heads: 32, kv: 4, head: 128, ff: 6144, vocab: 151936, context: 40960, experts: 128, used: 8, expertFF: 768, weights: mixed("Q4_K")},
		use: Use{Context: 4096, NoFlash: true}, ngl: 30, gpu: 10750.86, host: 6940.48,
	},
	{
		source: "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/900", model: "gpt-oss 20B MXFP4",
		s:   shape{arch: "gpt-oss", layers: 24, embd: 2880, heads: 64, kv: 8, head: 64, ff: 2880, vocab: 201088, context: 131072, window: 128, experts: 32, used: 4, expertFF: 2880, weights: experts("MXFP4", "Q8_0")},
		use: Use{Context: 131072}, gpu: 11536.18 - 586.82, host: 586.82,
	},
	{
		source: "Running Llama 3 over a cluster of machines at SPEED Lab: a log of Reflection-Llama-3.1-70B-Q4_K_S.gguf on two GPUs", model: "Llama 3.1 70B Q4_K_S",
		s:   shape{arch: "llama", layers: 80, embd: 8192, heads: 64, kv: 8, head: 128, ff: 28672, vocab: 128256, context: 131072, weights: smaller("Q5_K")},
		use: Use{Context: 8192, NoFlash: true}, gpu: 19142.56 + 18764.46, host: 563.65, compute: 1104,
	},
	{
		source: "troubleshooting page of the API remoting build of RamaLama: ramalama run llama3.2 on Metal", model: "Llama 3.2 3B Q4_K_M",
		s:   shape{arch: "llama", layers: 28, embd: 3072, heads: 24, kv: 8, head: 128, ff: 8192, vocab: 128256, context: 131072, tied: true, weights: shared},
		use: Use{Context: 4096}, gpu: 1918.35, host: 308.23,
	},
	{
		source: "https://github.com/ollama/ollama/issues/9496", model: "Llama 3.1 8B",
		s:   shape{arch: "llama", layers: 32, embd: 4096, heads: 32, kv: 8, head: 128, ff: 14336, vocab: 128256, context: 131072, weights: mixed("Q4_K")},
		use: Use{Context: 32384, NoFlash: true}, cache: 4048, compute: 2119.26,
	},
	{
		source: "https://github.com/SciSharp/LLamaSharp/issues/1099", model: "Qwen2.5 3B",
		s:   shape{arch: "qwen2", layers: 36, embd: 2048, heads: 16, kv: 2, head: 128, ff: 11008, vocab: 151936, context: 32768, tied: true, weights: shared},
		use: Use{Context: 4096, NoFlash: true}, cache: 144, compute: 300.75,
	},
	{
		source: "https://github.com/ggml-org/llama.cpp/issues/11200", model: "Qwen2.5 Coder 32B",
		s:   shape{arch: "qwen2", layers: 64, embd: 5120, heads: 40, kv: 8, head: 128, ff: 27648, vocab: 152064, context: 32768, weights: mixed("Q4_K")},
		use: Use{Context: 32768, Keys: "q8_0", Values: "q8_0"}, cache: 4352,
	},
}

// The sizes of large models are those that public logs show.
func TestMemoryOfLargeModels(t *testing.T) {
	for _, c := range large {
		t.Run(strings.ReplaceAll(c.model, " ", "_"), func(t *testing.T) {
			m := build(c.s, false).model(t)
			p, err := m.plan(c.use)
			require.NoError(t, err)
			gpu, host := p.outputs(), p.input
			if c.ngl > 0 {
				gpu, host = 0, p.input+p.output
			}
			var cache int64
			for i, l := range p.layers {
				if cache += p.cache(l); c.ngl > 0 && i < c.s.layers-c.ngl {
					host += l.weights
				} else {
					gpu += l.weights
				}
			}
			mib := func(n int64) float64 { return float64(n) / (1 << 20) }
			var got, want float64
			for _, x := range []struct {
				what      string
				got, want float64
			}{{"weights on the GPU", mib(gpu), c.gpu}, {"weights on the host", mib(host), c.host}, {"cache", mib(cache), c.cache}, {"compute", mib(p.compute), c.compute}} {
				if x.want == 0 {
					continue
				}
				t.Logf("%s: %s: %.2f MiB of %.2f MiB: %+.2f %%", c.model, x.what, x.got, x.want, 100*(x.got/x.want-1))
				if got, want = got+x.got, want+x.want; x.what != "compute" {
					assert.InEpsilon(t, x.want, x.got, 0.01, x.what)
				} else {
					assert.GreaterOrEqual(t, x.got, x.want, x.what)
				}
			}
			assert.InEpsilon(t, want, got, 0.10, "all that the log shows")
		})
	}
}
