package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shape says what an invented model looks like. Its architecture decides which tensors it has.
type shape struct {
	arch                               string
	layers, embd, heads, kv, head, ff  int
	vocab, context                     int
	experts, used, shared, expertFF    int
	window, dense, qRank, kvRank, rope int
	headV                              int // of MLA
	weights                            func(name string, layer, layers int) string
	tied                               bool
	nextn                              int
	inner, state, conv, rank, group    int   // of recurrent layers
	attention                          []int // those that are not recurrent
}

// gguf is a GGUF file that is being written.
type gguf struct {
	s       shape
	keys    bytes.Buffer
	nkeys   uint64
	tensors []invented
}

type invented struct {
	name string
	dims []int
	kind uint32
	size int64
}

func number(kindName string) uint32 {
	for n, k := range typeSizes {
		if k.name == kindName {
			return n
		}
	}
	panic("no type " + kindName)
}

// typeSizes are from ggml's documentation of the formats: bits of a weight × weights of a block / 8.
var typeSizes = map[uint32]struct {
	name         string
	block, bytes int64
}{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 30: {"BF16", 1, 2},
	2: {"Q4_0", 32, 2 + 16}, 3: {"Q4_1", 32, 4 + 16}, 6: {"Q5_0", 32, 2 + 4 + 16}, 7: {"Q5_1", 32, 4 + 4 + 16}, 8: {"Q8_0", 32, 2 + 32},
	10: {"Q2_K", 256, 16 + 64 + 4}, 11: {"Q3_K", 256, 32 + 64 + 12 + 2}, 12: {"Q4_K", 256, 4 + 12 + 128}, 13: {"Q5_K", 256, 4 + 12 + 32 + 128},
	14: {"Q6_K", 256, 128 + 64 + 16 + 2}, 20: {"IQ4_NL", 32, 2 + 16}, 23: {"IQ4_XS", 256, 2 + 2 + 4 + 128}, 39: {"MXFP4", 32, 1 + 16},
	21: {"IQ3_S", 256, 110}, 34: {"TQ1_0", 256, 48 + 4 + 2},
}

func (g *gguf) key(key string, v any) {
	g.nkeys++
	str := func(s string) {
		binary.Write(&g.keys, binary.LittleEndian, uint64(len(s)))
		g.keys.WriteString(s)
	}
	put := func(typ uint32, values ...any) {
		binary.Write(&g.keys, binary.LittleEndian, typ)
		for _, v := range values {
			binary.Write(&g.keys, binary.LittleEndian, v)
		}
	}
	str(key)
	switch v := v.(type) {
	case string:
		put(8)
		str(v)
	case int:
		put(4, uint32(v))
	case float64:
		put(6, float32(v))
	case bool:
		put(7, v)
	case []int:
		put(9, uint32(5), uint64(len(v)))
		for _, n := range v {
			binary.Write(&g.keys, binary.LittleEndian, int32(n))
		}
	case []float32:
		put(9, uint32(6), uint64(len(v)), v)
	case []string:
		put(9, uint32(8), uint64(len(v)))
		for _, s := range v {
			str(s)
		}
	default:
		panic(fmt.Sprintf("%T", v))
	}
}

// of sets a key of the architecture, unless it is 0.
func (g *gguf) of(key string, v any) {
	if v != 0 && v != 0.0 {
		g.key(g.s.arch+"."+key, v)
	}
}

func (g *gguf) add(name, kindName string, dims ...int) {
	n := int64(1)
	for _, d := range dims {
		n *= int64(d)
	}
	num := number(kindName)
	k := typeSizes[num]
	if int64(dims[0])%k.block != 0 {
		panic(fmt.Sprintf("%s: %d weights a row", name, dims[0]))
	}
	g.tensors = append(g.tensors, invented{name, dims, num, n / k.block * k.bytes})
}

// weight adds a matrix of the type that the model has for it. Layer -1 is none.
func (g *gguf) weight(layer int, name string, dims ...int) {
	full := name + ".weight"
	if layer >= 0 {
		full = fmt.Sprintf("blk.%d.%s", layer, full)
	}
	g.add(full, g.s.weights(name, layer, g.s.layers), dims...)
}

// vector adds vectors and other small tensors that are never quantised.
func (g *gguf) vector(layer int, name string, dims ...int) {
	if layer >= 0 {
		name = fmt.Sprintf("blk.%d.%s", layer, name)
	}
	g.add(name, "F32", dims...)
}

// vocabulary adds a tokenizer with invented words.
func (g *gguf) vocabulary() {
	n := g.s.vocab
	tokens, scores, types := make([]string, n), make([]float32, n), make([]int, n)
	for i := range n {
		switch {
		case i < 3:
			tokens[i], types[i] = []string{"<unk>", "<s>", "</s>"}[i], 3
		case i == 3+256:
			tokens[i], types[i] = "<|endoftext|>", 3 // phi3 must have it
		case i < 3+256:
			tokens[i], types[i] = fmt.Sprintf("<0x%02X>", i-3), 6
		default:
			tokens[i], types[i] = fmt.Sprintf("w%d", i), 1
		}
	}
	g.key("tokenizer.ggml.model", "llama")
	g.key("tokenizer.ggml.tokens", tokens)
	g.key("tokenizer.ggml.scores", scores)
	g.key("tokenizer.ggml.token_type", types)
}

// build makes the file of a shape.
func build(s shape, vocabulary bool) *gguf {
	g := &gguf{s: s}
	g.key("general.architecture", s.arch)
	g.key("general.name", "Invented "+s.arch)
	g.of("context_length", s.context)
	g.of("embedding_length", s.embd)
	g.of("block_count", s.layers)
	g.of("feed_forward_length", s.ff)
	if s.heads == 0 {
		g.key(s.arch+".attention.head_count", 0)
	}
	g.of("attention.head_count", s.heads)
	if len(s.attention) > 0 && s.arch != "qwen3next" {
		kv := make([]int, s.layers)
		for _, i := range s.attention {
			kv[i] = s.kv
		}
		g.of("attention.head_count_kv", kv)
	} else {
		g.of("attention.head_count_kv", s.kv)
	}
	g.of("attention.layer_norm_rms_epsilon", 1e-5)
	g.of("attention.layer_norm_epsilon", 1e-5)
	g.of("rope.freq_base", 10000.0)
	g.of("vocab_size", s.vocab)
	if s.kvRank == 0 {
		g.of("attention.key_length", s.head)
		g.of("attention.value_length", s.head)
	} else {
		g.of("attention.q_lora_rank", s.qRank)
		g.of("attention.kv_lora_rank", s.kvRank)
		g.of("attention.key_length", s.kvRank+s.rope)
		g.of("attention.value_length", s.kvRank)
		g.of("attention.key_length_mla", s.head)
		g.of("attention.value_length_mla", s.headV)
		g.of("leading_dense_block_count", s.dense)
		g.of("expert_weights_scale", 1.5)
		g.of("expert_gating_func", 2)
		g.of("rope.scaling.yarn_log_multiplier", 0.1)
	}
	g.of("rope.dimension_count", s.rope)
	g.of("expert_count", s.experts)
	g.of("expert_used_count", s.used)
	g.of("expert_shared_count", s.shared)
	g.of("expert_feed_forward_length", s.expertFF)
	g.of("attention.sliding_window", s.window)
	g.of("ssm.inner_size", s.inner)
	g.of("ssm.state_size", s.state)
	g.of("ssm.conv_kernel", s.conv)
	g.of("ssm.time_step_rank", s.rank)
	g.of("ssm.group_count", s.group)
	g.of("nextn_predict_layers", s.nextn)
	if s.arch == "granite" || s.arch == "cohere2" {
		g.of("logit_scale", 8.0)
	}
	if s.arch == "lfm2" {
		g.of("shortconv.l_cache", 3)
	}
	if vocabulary {
		g.vocabulary()
	}
	g.weight(-1, "token_embd", s.embd, s.vocab)
	switch s.arch {
	case "lfm2":
		g.vector(-1, "token_embd_norm.weight", s.embd)
	case "starcoder2", "gptneox":
		g.vector(-1, "output_norm.bias", s.embd)
		fallthrough
	default:
		g.vector(-1, "output_norm.weight", s.embd)
	}
	if !s.tied {
		g.weight(-1, "output", s.embd, s.vocab)
	}
	for i := range s.layers {
		g.layer(i)
	}
	return g
}

func (g *gguf) layer(i int) {
	s := g.s
	norm := func(names ...string) {
		for _, n := range names {
			g.vector(i, n+".weight", s.embd)
			if s.arch == "starcoder2" || s.arch == "gptneox" {
				g.vector(i, n+".bias", s.embd)
			}
		}
	}
	switch s.arch {
	case "olmo2":
		norm("post_attention_norm", "post_ffw_norm")
	case "cohere2", "mamba", "command-r":
		norm("attn_norm")
	case "gemma2", "gemma3", "glm4":
		norm("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
	case "gpt-oss", "qwen3next":
		norm("attn_norm", "post_attention_norm")
	default:
		norm("attn_norm", "ffn_norm")
	}
	recurrent := s.heads == 0 || len(s.attention) > 0 && !slices.Contains(s.attention, i)
	switch {
	case s.arch == "mamba":
		g.mamba(i)
		return
	case recurrent && s.arch == "lfm2":
		g.vector(i, "shortconv.conv.weight", 3, s.embd)
		g.weight(i, "shortconv.in_proj", s.embd, 3*s.embd)
		g.weight(i, "shortconv.out_proj", s.embd, s.embd)
	case recurrent && s.arch == "granitehybrid":
		g.mamba2(i)
	case s.kvRank > 0:
		g.weight(i, "attn_q_a", s.embd, s.qRank)
		g.vector(i, "attn_q_a_norm.weight", s.qRank)
		g.weight(i, "attn_q_b", s.qRank, s.heads*s.head)
		g.weight(i, "attn_kv_a_mqa", s.embd, s.kvRank+s.rope)
		g.vector(i, "attn_kv_a_norm.weight", s.kvRank)
		g.weight(i, "attn_k_b", s.head-s.rope, s.kvRank, s.heads)
		g.weight(i, "attn_v_b", s.kvRank, s.headV, s.heads)
		g.weight(i, "attn_output", s.heads*s.headV, s.embd)
	default:
		g.attend(i)
	}
	g.feed(i)
}

func (g *gguf) attend(i int) {
	s := g.s
	q, kv := s.heads*s.head, s.kv*s.head
	if s.arch == "phi3" || s.arch == "gptneox" {
		g.weight(i, "attn_qkv", s.embd, q+2*kv)
		if s.arch == "gptneox" {
			g.vector(i, "attn_qkv.bias", q+2*kv)
		}
	} else {
		g.weight(i, "attn_q", s.embd, q)
		g.weight(i, "attn_k", s.embd, kv)
		g.weight(i, "attn_v", s.embd, kv)
	}
	g.weight(i, "attn_output", q, s.embd)
	switch s.arch {
	case "qwen2", "starcoder2", "gpt-oss":
		g.vector(i, "attn_q.bias", q)
		g.vector(i, "attn_k.bias", kv)
		g.vector(i, "attn_v.bias", kv)
	case "qwen3", "qwen3moe", "gemma3", "lfm2":
		g.vector(i, "attn_q_norm.weight", s.head)
		g.vector(i, "attn_k_norm.weight", s.head)
	case "olmo2":
		g.vector(i, "attn_q_norm.weight", q)
		g.vector(i, "attn_k_norm.weight", kv)
	}
	if s.arch == "starcoder2" || s.arch == "gpt-oss" || s.arch == "gptneox" {
		g.vector(i, "attn_output.bias", s.embd)
	}
	if s.arch == "gpt-oss" {
		g.vector(i, "attn_sinks.weight", s.heads)
	}
}

func (g *gguf) feed(i int) {
	s := g.s
	switch {
	case s.experts > 0 && i >= s.dense:
		ff := s.expertFF
		if ff == 0 {
			ff = s.ff
		}
		g.vector(i, "ffn_gate_inp.weight", s.embd, s.experts)
		g.weight(i, "ffn_gate_exps", s.embd, ff, s.experts)
		g.weight(i, "ffn_down_exps", ff, s.embd, s.experts)
		g.weight(i, "ffn_up_exps", s.embd, ff, s.experts)
		if s.arch == "gpt-oss" {
			g.vector(i, "ffn_gate_inp.bias", s.experts)
			g.vector(i, "ffn_gate_exps.bias", ff, s.experts)
			g.vector(i, "ffn_down_exps.bias", s.embd, s.experts)
			g.vector(i, "ffn_up_exps.bias", ff, s.experts)
		}
		if s.shared > 0 {
			g.vector(i, "exp_probs_b.bias", s.experts)
			g.weight(i, "ffn_gate_shexp", s.embd, ff*s.shared)
			g.weight(i, "ffn_down_shexp", ff*s.shared, s.embd)
			g.weight(i, "ffn_up_shexp", s.embd, ff*s.shared)
		}
	case s.arch == "phi3" || s.arch == "glm4":
		g.weight(i, "ffn_down", s.ff, s.embd)
		g.weight(i, "ffn_up", s.embd, 2*s.ff)
	case s.arch == "starcoder2" || s.arch == "gptneox":
		g.weight(i, "ffn_down", s.ff, s.embd)
		g.weight(i, "ffn_up", s.embd, s.ff)
		g.vector(i, "ffn_down.bias", s.embd)
		g.vector(i, "ffn_up.bias", s.ff)
	default:
		g.weight(i, "ffn_gate", s.embd, s.ff)
		g.weight(i, "ffn_down", s.ff, s.embd)
		g.weight(i, "ffn_up", s.embd, s.ff)
	}
}

func (g *gguf) mamba(i int) {
	s := g.s
	g.weight(i, "ssm_in", s.embd, 2*s.inner)
	g.vector(i, "ssm_conv1d.weight", s.conv, s.inner)
	g.vector(i, "ssm_conv1d.bias", s.inner)
	g.weight(i, "ssm_x", s.inner, s.rank+2*s.state)
	g.weight(i, "ssm_dt", s.rank, s.inner)
	g.vector(i, "ssm_dt.bias", s.inner)
	g.vector(i, "ssm_a", s.state, s.inner)
	g.vector(i, "ssm_d", s.inner)
	g.weight(i, "ssm_out", s.inner, s.embd)
}

func (g *gguf) mamba2(i int) {
	s := g.s
	conv := s.inner + 2*s.group*s.state
	g.weight(i, "ssm_in", s.embd, 2*s.inner+2*s.group*s.state+s.rank)
	g.vector(i, "ssm_conv1d.weight", s.conv, conv)
	g.vector(i, "ssm_conv1d.bias", conv)
	g.vector(i, "ssm_dt.bias", s.rank)
	g.vector(i, "ssm_a", 1, s.rank)
	g.vector(i, "ssm_d", 1, s.rank)
	g.vector(i, "ssm_norm.weight", s.inner/s.group, s.group)
	g.weight(i, "ssm_out", s.inner, s.embd)
}

const align = 32

// header returns the file up to its weights, whose size is the second result.
func (g *gguf) header() ([]byte, int64) {
	var b bytes.Buffer
	b.WriteString("GGUF")
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	put(uint32(3))
	put(uint64(len(g.tensors)))
	put(g.nkeys)
	b.Write(g.keys.Bytes())
	var offset int64
	for _, t := range g.tensors {
		put(uint64(len(t.name)))
		b.WriteString(t.name)
		put(uint32(len(t.dims)))
		for _, d := range t.dims {
			put(uint64(d))
		}
		put(t.kind)
		put(uint64(offset))
		offset += (t.size + align - 1) / align * align
	}
	b.Write(make([]byte, (align-b.Len()%align)%align))
	return b.Bytes(), offset
}

// write writes the whole file. All its weights are the same small number, which is valid in each type.
func (g *gguf) write(t testing.TB, path string) {
	head, size := g.header()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	_, err = f.Write(head)
	require.NoError(t, err)
	_, err = io.CopyN(f, constant{}, size)
	require.NoError(t, err)
}

type constant struct{}

func (constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x11
	}
	return len(p), nil
}

// model reads the file without its weights.
func (g *gguf) model(t testing.TB) *Model {
	head, _ := g.header()
	m, err := Read("invented", bytes.NewReader(head))
	require.NoError(t, err)
	return m
}

// all has one type for all matrices.
func all(kind string) func(string, int, int) string {
	return func(string, int, int) string { return kind }
}

// mostly has another type for the output, as llama-quantize does it.
func mostly(kind, output string) func(string, int, int) string {
	return func(name string, _, _ int) string {
		if name == "output" || strings.HasPrefix(name, "token_embd") && output == "Q8_0" {
			return output
		}
		return kind
	}
}

// mixed is Q4_K_M and Q5_K_M: half of the layers have more bits for attn_v and ffn_down: see use_more_bits in
// https://github.com/ggml-org/llama.cpp/blob/master/src/llama-quant.cpp.
func mixed(kind string) func(string, int, int) string {
	return func(name string, i, n int) string {
		switch {
		case name == "output":
			return "Q6_K"
		case (name == "attn_v" || strings.HasPrefix(name, "ffn_down")) && (i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2):
			return "Q6_K"
		}
		return kind
	}
}
