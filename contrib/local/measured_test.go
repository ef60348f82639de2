package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// small are invented models that llama.cpp loads.
func small() []shape {
	return []shape{
		{arch: "llama", layers: 6, embd: 1024, heads: 16, kv: 4, head: 64, ff: 2816, vocab: 8192, context: 8192, weights: mixed("Q4_K")},
		{arch: "llama", layers: 4, embd: 512, heads: 8, kv: 8, head: 64, ff: 1536, vocab: 2048, context: 8192, experts: 8, used: 2, weights: mostly("Q4_0", "Q6_K")},
		{arch: "qwen2", layers: 6, embd: 896, heads: 14, kv: 2, head: 64, ff: 4864, vocab: 16384, context: 32768, weights: all("Q8_0"), tied: true},
		{arch: "qwen3", layers: 8, embd: 1024, heads: 16, kv: 8, head: 128, ff: 3072, vocab: 16384, context: 32768, weights: all("Q6_K")},
		{arch: "qwen3moe", layers: 4, embd: 1024, heads: 16, kv: 4, head: 128, ff: 3072, vocab: 4096, context: 32768, experts: 16, used: 4, expertFF: 512, weights: mixed("Q4_K")},
		{arch: "gemma2", layers: 8, embd: 1024, heads: 8, kv: 4, head: 128, ff: 4096, vocab: 16384, context: 8192, window: 1024, weights: mostly("Q5_0", "Q6_K"), tied: true},
		{arch: "gemma3", layers: 12, embd: 1152, heads: 4, kv: 1, head: 256, ff: 3456, vocab: 16384, context: 32768, window: 512, weights: mostly("Q4_1", "Q8_0"), tied: true},
		{arch: "phi3", layers: 6, embd: 1024, heads: 16, kv: 16, head: 64, ff: 2816, vocab: 4096, context: 4096, rope: 64, window: 2047, weights: all("F16")},
		{arch: "starcoder2", layers: 6, embd: 1024, heads: 16, kv: 2, head: 64, ff: 4096, vocab: 8192, context: 16384, window: 4096, weights: all("BF16"), tied: true},
		{arch: "deepseek2", layers: 5, embd: 1024, heads: 16, kv: 1, head: 192, headV: 128, rope: 64, qRank: 512, kvRank: 512, ff: 2816, vocab: 8192, context: 16384, experts: 16, used: 4, shared: 1, expertFF: 512, dense: 1, weights: all("Q5_1")},
		{arch: "gpt-oss", layers: 8, embd: 1024, heads: 16, kv: 4, head: 64, ff: 1024, vocab: 16384, context: 32768, window: 128, experts: 8, used: 4, expertFF: 1024, weights: experts("MXFP4", "Q8_0")},
		{arch: "mamba", layers: 12, embd: 768, vocab: 8192, context: 32768, inner: 1536, state: 16, conv: 4, rank: 48, weights: all("F32"), tied: true},
		{arch: "lfm2", layers: 10, embd: 1024, heads: 16, kv: 4, head: 64, ff: 2816, vocab: 8192, context: 32768, attention: []int{2, 5, 8}, weights: all("IQ4_NL"), tied: true},
		{arch: "granitehybrid", layers: 8, embd: 1024, heads: 16, kv: 4, head: 64, ff: 2048, vocab: 8192, context: 32768, attention: []int{5}, inner: 2048, state: 128, conv: 4, rank: 32, group: 1, weights: all("Q5_K"), tied: true},
		{arch: "cohere2", layers: 8, embd: 1024, heads: 16, kv: 4, head: 64, ff: 3072, vocab: 16384, context: 16384, window: 1024, rope: 64, weights: all("Q4_K"), tied: true},
		{arch: "granite", layers: 6, embd: 1024, heads: 16, kv: 8, head: 64, ff: 4096, vocab: 8192, context: 8192, rope: 64, weights: all("IQ4_XS"), tied: true},
		{arch: "olmo2", layers: 6, embd: 1024, heads: 16, kv: 16, head: 64, ff: 2816, vocab: 8192, context: 4096, weights: all("Q2_K")},
		{arch: "glm4", layers: 6, embd: 1024, heads: 16, kv: 2, head: 64, ff: 3072, vocab: 16384, context: 32768, rope: 32, weights: all("Q3_K")},
	}
}

// experts has one type for the experts and another one for the other matrices.
func experts(exps, rest string) func(string, int, int) string {
	return func(name string, _, _ int) string {
		if strings.Contains(name, "_exps") {
			return exps
		}
		return rest
	}
}

// A job is one load of a small model.
type job struct {
	File    string `json:"file"`
	Context int    `json:"context"`
	Batch   int    `json:"batch"`
	Flash   bool   `json:"flash"`
	Cache   string `json:"cache"`

	model int // of small
}

// jobs are the loads that are measured: each model with flash attention and without, and two of them with a quantised cache.
func jobs() (list []job) {
	for i, s := range small() {
		ctx := min(s.context, 8192)
		list = append(list,
			job{Context: ctx, Batch: 512, Flash: true, Cache: "F16", model: i},
			job{Context: ctx / 2, Batch: 512, Flash: false, Cache: "F16", model: i},
		)
		if i == 0 || i == 3 {
			list = append(list, job{Context: ctx, Batch: 256, Flash: true, Cache: "Q8_0", model: i})
		}
	}
	return list
}

// buffers are what llama.cpp allocates, in MiB.
type buffers struct{ model, cache, compute float64 }

const measuredFile = "testdata/measured.tsv"

var bufferLine = regexp.MustCompile(`^(\d+) .*?(\w+) +(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB`)

// TestMeasure loads the small models with llama.cpp, and compares what it allocates with the table of measurements:
//
//	npm install --prefix /tmp/llama node-llama-cpp@3.22.1
//	AYCODER_LLAMA_CPP=/tmp/llama go test -run TestMeasure .
//
// With AYCODER_LLAMA_CPP_UPDATE it writes the table.
func TestMeasure(t *testing.T) {
	modules := os.Getenv("AYCODER_LLAMA_CPP")
	if modules == "" {
		t.Skip("AYCODER_LLAMA_CPP is not set: the table of measurements is not compared with llama.cpp")
	}
	dir := t.TempDir()
	list := jobs()
	for i := range list {
		list[i].File = filepath.Join(dir, fmt.Sprintf("m%d.gguf", list[i].model))
		if _, err := os.Stat(list[i].File); err != nil {
			build(small()[list[i].model], true).write(t, list[i].File)
		}
	}
	in, err := json.Marshal(list)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "testdata/measure.mjs", modules)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	if path := os.Getenv("AYCODER_LLAMA_CPP_LOG"); path != "" {
		require.NoError(t, os.WriteFile(path, out, 0o600))
	}
	got := make([]buffers, len(list))
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "error") {
			t.Log(line)
		}
		m := bufferLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		i, _ := strconv.Atoi(m[1])
		size, err := strconv.ParseFloat(m[4], 64)
		require.NoError(t, err)
		switch m[3] {
		case "model":
			got[i].model += size
		case "KV", "RS":
			got[i].cache += size
		default:
			got[i].compute += size
		}
	}
	var table strings.Builder
	table.WriteString("# architecture\tcontext\tbatch\tflash\tcache\tmodel MiB\tcache MiB\tcompute MiB (node-llama-cpp 3.22.1, llama.cpp v0.5.0, CPU)\n")
	for i, j := range list {
		fmt.Fprintf(&table, "%s\t%d\t%d\t%t\t%s\t%.2f\t%.2f\t%.2f\n", small()[j.model].arch, j.Context, j.Batch, j.Flash, j.Cache,
			got[i].model, got[i].cache, got[i].compute)
	}
	if os.Getenv("AYCODER_LLAMA_CPP_UPDATE") != "" {
		require.NoError(t, os.WriteFile(measuredFile, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(measuredFile)
	require.NoError(t, err)
	require.Equal(t, string(want), table.String())
}

// measured reads the table.
func measured(t *testing.T) (list []buffers) {
	f, err := os.Open(measuredFile)
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		var b buffers
		fields := strings.Split(s.Text(), "\t")
		for i, to := range []*float64{&b.model, &b.cache, &b.compute} {
			*to, err = strconv.ParseFloat(fields[5+i], 64)
			require.NoError(t, err)
		}
		list = append(list, b)
	}
	return list
}
