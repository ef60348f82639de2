package local

import (
	"fmt"
	"slices"
	"strings"
)

// CatalogueDate is the day of [Catalogue]. Models come and go; [Hub.Search] finds newer ones.
const CatalogueDate = "2026-11-28"

// Recommended is a model of the [Catalogue].
type Recommended struct {
	// Family is "Qwen-Coder", "Devstral", "Code Llama", "DeepSeek-Coder", "Llama", "Granite", "gpt-oss" or "Qwen".
	Family string
	// Model is its name on the hub, without a quantisation.
	Model string
	// Parameters and Active are in billions: of a mixture of experts, the active ones are used for each token.
	Parameters, Active float64
	// License is the name that the hub has for it.
	License string
	// Context is the longest context, in tokens.
	Context int64
	// Use is "agent" for models that are good at calling tools, "code" for those that write and explain code, and "small" for
	// those that summarise and answer short questions.
	Use string
	// Sizes are those of the files, in bytes, by quantisation, the best first. Q8_0 and Q6_K are computed where the source does not
	// have them: they have 8.5 and 6.5625 bits for each weight, whatever the architecture.
	Sizes []QuantizedSize
	// Cache is what each token of the context takes, in bytes, with f16.
	Cache int64
	// Source says where the figures are from.
	Source string
}

// QuantizedSize is the size of the files of a model with a quantisation.
type QuantizedSize struct {
	Quantization string
	Bytes        int64
}

// evenly returns the sizes with those before them of quantisations that have as many bits for each weight.
func evenly(parameters float64, sizes ...QuantizedSize) []QuantizedSize {
	if sizes[0].Quantization != "Q6_K" {
		sizes = append([]QuantizedSize{{"Q6_K", gb(parameters * 6.5625 / 8)}}, sizes...)
	}
	return append([]QuantizedSize{{"Q8_0", gb(parameters * 8.5 / 8)}}, sizes...)
}

func gb(v float64) int64 { return int64(v * 1e9) }

// Catalogue returns recommended models, the best for code first. The figures are of [CatalogueDate], from the sources that each
// names.
func Catalogue() []Recommended {
	return []Recommended{
		{"Qwen", "unsloth/Qwen3.6-27B-GGUF", 27, 27, "apache-2.0", 262144, "agent", []QuantizedSize{{"Q4_K_M", gb(17)}}, 16 * 2 * 2 * 4 * 256,
			"https://botmonster.com/ai/best-open-weight-coding-models-2026/"},
		{"Qwen", "unsloth/Qwen3.6-35B-A3B-GGUF", 35, 3, "apache-2.0", 262144, "agent",
			[]QuantizedSize{{"UD-Q5_K_XL", gb(27)}, {"UD-Q4_K_M", gb(22.6)}, {"UD-Q3_K_M", gb(17.2)}}, 10 * 2 * 2 * 2 * 256,
			"https://huggingface.co/Qwen/Qwen3.6-35B-A3B, sizes of https://huggingface.co/mudler/Qwen3.6-35B-A3B-APEX-GGUF"},
		{"Devstral", "bartowski/mistralai_Devstral-Small-2-24B-Instruct-2512-GGUF", 24, 24, "apache-2.0", 262144, "agent",
			evenly(23.6, QuantizedSize{"Q4_K_M", gb(14.4)}), 40 * 2 * 2 * 8 * 128,
			"https://unsloth.ai/docs/models/tutorials/devstral-2; the size is that of the weights of this architecture"},
		{"Qwen-Coder", "unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", 30.5, 3.3, "apache-2.0", 262144, "agent",
			evenly(30.5, QuantizedSize{"Q4_K_M", 18560000000}), 48 * 2 * 2 * 4 * 128, "https://github.com/ggml-org/llama.cpp/issues/14235: a log with this architecture"},
		{"gpt-oss", "ggml-org/gpt-oss-20b-GGUF", 20.9, 3.6, "apache-2.0", 131072, "agent",
			[]QuantizedSize{{"MXFP4", 12110000000}}, 12 * 2 * 2 * 8 * 64, "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/900: a log"},
		{"Qwen-Coder", "Qwen/Qwen2.5-Coder-14B-Instruct-GGUF", 14.8, 14.8, "apache-2.0", 32768, "code",
			evenly(14.8, QuantizedSize{"Q4_K_M", 8990000000}), 48 * 2 * 2 * 8 * 128, "https://github.com/ollama/ollama/issues/9091: a log"},
		{"Qwen-Coder", "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", 7.62, 7.62, "apache-2.0", 32768, "code",
			evenly(7.62, QuantizedSize{"Q6_K", gb(6.25)}, QuantizedSize{"Q5_K_M", gb(5.44)}, QuantizedSize{"Q4_K_M", gb(4.68)}, QuantizedSize{"Q3_K_M", gb(3.81)}), 28 * 2 * 2 * 4 * 128,
			"https://huggingface.co/QuantFactory/Qwen2.5-Coder-7B-Instruct-GGUF/tree/main"},
		{"DeepSeek-Coder", "second-state/Deepseek-Coder-6.7B-Instruct-GGUF", 6.7, 6.7, "deepseek", 16384, "code",
			evenly(6.74, QuantizedSize{"Q4_K_M", gb(4.08)}, QuantizedSize{"Q4_0", gb(3.83)}, QuantizedSize{"Q3_K_M", gb(3.3)}), 32 * 2 * 2 * 32 * 128,
			"https://huggingface.co/second-state/Deepseek-Coder-6.7B-Instruct-GGUF"},
		{"Code Llama", "TheBloke/CodeLlama-7B-Instruct-GGUF", 6.74, 6.74, "llama2", 16384, "code",
			evenly(6.74, QuantizedSize{"Q4_K_M", gb(4.08)}), 32 * 2 * 2 * 32 * 128,
			"https://github.com/utilityai/llama-cpp-rs: a log of Llama 2 7B, whose architecture it has"},
		{"Llama", "bartowski/Llama-3.2-3B-Instruct-GGUF", 3.21, 3.21, "llama3.2", 131072, "small",
			evenly(3.21, QuantizedSize{"Q4_K_M", gb(2.02)}), 28 * 2 * 2 * 8 * 128, "a log of the RamaLama project: 1918.35 MiB on the GPU"},
		{"Granite", "msyukorai/granite-3b-code-instruct-128k-Q4_0-GGUF", 3.48, 3.48, "apache-2.0", 128000, "code",
			[]QuantizedSize{{"Q4_0", gb(2.0)}}, 32 * 2 * 2 * 32 * 80,
			"https://huggingface.co/msyukorai/granite-3b-code-instruct-128k-Q4_0-GGUF/tree/main"},
	}
}

// A Recommendation says whether a model of the [Catalogue] fits into a memory, and how.
type Recommendation struct {
	Recommended
	// Quantization, Context and Need are those that are recommended. They are zero if the model does not fit.
	Quantization string
	Context      int64
	Need         int64
	// CacheType is that of keys and values: "f16" or "q8_0".
	CacheType string
	// Why says it in a sentence.
	Why string
}

// computing is what a computation takes beside weights and cache, for the vocabularies that models of this size have.
// [Model.Advise] knows more.
func (m Recommended) computing() int64 {
	if m.Parameters < 5 {
		return 300e6
	}
	return 600e6
}

// Recommend says for each model of the [Catalogue] how it fits into so many free bytes of one memory, those that fit first. Of the
// quantisations, the best that leaves room for a context of 16,384 tokens is recommended, or of less, down to 4,096. 5 % stay free.
// The use is that of [Recommended.Use], or "" for all. It is an estimate from the table: [Hub.Model] and [Model.Advise] look at the
// file itself.
func Recommend(free int64, use string) []Recommendation {
	var list []Recommendation
	for _, m := range Catalogue() {
		if use == "" || m.Use == use {
			list = append(list, m.fit(usable(free)))
		}
	}
	slices.SortStableFunc(list, func(a, b Recommendation) int {
		return map[bool]int{true: 1}[a.Need == 0] - map[bool]int{true: 1}[b.Need == 0]
	})
	return list
}

func (m Recommended) fit(room int64) Recommendation {
	for _, context := range []int64{16384, 8192, 4096} {
		for _, q := range m.Sizes {
			for _, cache := range []struct {
				name       string
				part, over int64
			}{{"f16", 1, 1}, {"q8_0", 17, 32}} {
				need := q.Bytes + m.Cache*context*cache.part/cache.over + m.computing()
				if need > room {
					continue
				}
				return Recommendation{m, q.Quantization, context, need, cache.name, fmt.Sprintf("%s takes %s, with %d tokens of context (%s) %s in all",
					q.Quantization, bytesText(q.Bytes), context, cache.name, bytesText(need))}
			}
		}
	}
	small := m.Sizes[len(m.Sizes)-1]
	return Recommendation{Recommended: m, Why: fmt.Sprintf("too large: its smallest size here is %s with %s, and %s may be used",
		bytesText(small.Bytes), small.Quantization, bytesText(room))}
}

// String returns a line such as "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M".
func (r Recommendation) String() string {
	return strings.TrimSuffix(r.Model+":"+r.Quantization, ":")
}
