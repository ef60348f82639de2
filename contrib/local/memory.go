package local

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Use says how a model is to be used. The zero value is the default of each field.
type Use struct {
	// Context is the number of tokens of all sequences together. Default: for [Model.Memory] that of the model, and [Model.Advise]
	// chooses one.
	Context int64
	// Sequences is how many conversations there are at a time. Default: 1.
	Sequences int64
	// Batch is the number of tokens that are computed at a time: --ubatch-size. Default: 512, as with llama.cpp and Ollama.
	Batch int64
	// Keys and Values are the types of the cache: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0 or q5_1. Default: f16.
	Keys, Values string
	// NoFlash is without flash attention, which takes much more memory for a long context. Quantised values need it.
	NoFlash bool
}

// Memory is what llama.cpp allocates for a model, in bytes.
type Memory struct {
	// Weights is exact, but for the space between tensors.
	Weights int64
	// Cache is that of keys and values, and the state of recurrent layers.
	Cache int64
	// Compute is an upper bound of what one step of the computation needs.
	Compute int64
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.Weights + m.Cache + m.Compute }

// slidingWindows are the architectures of llama.cpp whose files do not say which layers have a sliding window: every nth layer has none,
// the last of each n or the first. The size is for files that do not say it either.
// https://github.com/ggml-org/llama.cpp/tree/master/src/models
var slidingWindows = map[string]struct {
	every int
	first bool
	size  int64
}{
	"afmoe": {every: 4}, "cohere2": {every: 4}, "cohere2moe": {every: 4, first: true}, "exaone-moe": {every: 4, size: 128},
	"exaone4": {every: 4}, "gemma2": {every: 2, size: 4096}, "gemma3": {every: 6}, "gemma3n": {every: 5}, "gpt-oss": {every: 2},
	"llama4": {every: 4, size: 8192}, "olmo2": {every: 4}, "plamo3": {every: 8}, "smallthinker": {every: 4, first: true, size: 4096},
}

// A layer is what a repeating layer needs.
type layer struct {
	weights, experts int64 // experts are a part of weights
	largest          int64 // the largest of the weights
	keys, values     int64 // numbers that are kept for each token
	window           int64 // tokens that are kept, or 0 for all
	state            int64 // bytes of a recurrent layer, for each sequence
}

// A plan is what a model needs for a use, layer by layer.
type plan struct {
	use              Use
	layers           []layer
	input, output    int64 // weights that are on the host, and weights that are with the output
	tied             bool  // the output has no weights but those of the input
	inputKind        uint32
	keys, values     kind  // types of the cache
	fullCells, cells int64 // tokens of the context, and of a window
	compute, hosting int64 // see computeSize
}

// repacked are the types of weights that llama.cpp arranges anew for the CPU: Q4_0, Q4_K and IQ4_NL on processors with AVX2. The
// output has a copy then of weights that it shares with the input.
var repacked = map[uint32]bool{2: true, 12: true, 20: true}

// cacheKinds are the types that llama.cpp accepts for the cache.
var cacheKinds = []string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "IQ4_NL", "Q5_0", "Q5_1"}

func cacheKind(name string) (kind, error) {
	name = strings.ToUpper(cmp.Or(name, "f16"))
	if slices.Contains(cacheKinds, name) {
		for _, k := range kinds {
			if k.name == name {
				return k, nil
			}
		}
	}
	return kind{}, fmt.Errorf("no type %s of the cache; there are %s", strings.ToLower(name), strings.ToLower(strings.Join(cacheKinds, ", ")))
}

// Limits of a use.
const (
	maxTokens = 1 << 26
	maxBatch  = 1 << 16
)

func pad(n, to int64) int64 { return (n + to - 1) / to * to }

// plan says what the model needs.
func (m *Model) plan(u Use) (*plan, error) {
	u.Context = cmp.Or(u.Context, m.Context, 4096)
	u.Sequences = cmp.Or(u.Sequences, 1)
	u.Batch = cmp.Or(u.Batch, 512)
	if u.Context < 1 || u.Context > maxTokens || u.Batch < 1 || u.Batch > maxBatch || u.Sequences < 1 || u.Sequences > 256 {
		return nil, fmt.Errorf("memory of %s: a context of %d, a batch of %d and %d sequences are not possible", m.Architecture, u.Context, u.Batch, u.Sequences)
	}
	p := &plan{use: u}
	var err error
	if p.keys, err = cacheKind(u.Keys); err == nil {
		p.values, err = cacheKind(u.Values)
	}
	if err == nil && u.NoFlash && p.values.block > 1 {
		err = fmt.Errorf("values of the type %s need flash attention", u.Values)
	}
	if err != nil {
		return nil, fmt.Errorf("memory of %s: %w", m.Architecture, err)
	}
	if m.Architecture == "" || m.Layers == 0 || m.Architecture == "clip" {
		return nil, fmt.Errorf("memory of %s: the file is not that of a language model", cmp.Or(m.Architecture, "a file without an architecture"))
	}
	p.use.Batch = min(u.Batch, u.Context)
	p.fullCells = pad(u.Context, 256)
	m.weigh(p)
	m.remember(p)
	total := 0.0
	for _, l := range p.layers {
		total += 4*float64(p.fullCells)*float64(l.keys+l.values) + float64(l.state)*float64(u.Sequences)
	}
	if total > maxSize {
		return nil, fmt.Errorf("memory of %s: its cache would be too large", m.Architecture)
	}
	m.computeSize(p)
	return p, nil
}

// weigh sums up the weights.
func (m *Model) weigh(p *plan) {
	p.layers, p.tied = make([]layer, m.Layers), true
	for _, t := range m.tensors {
		switch {
		case t.layer >= 0:
			l := &p.layers[t.layer]
			l.weights += t.bytes
			l.largest = max(l.largest, t.bytes)
			if strings.Contains(t.name, "_exps.") {
				l.experts += t.bytes
			}
		case strings.HasPrefix(t.name, "token_") || strings.HasPrefix(t.name, "position_") || strings.HasPrefix(t.name, "per_layer_token_"):
			if p.input += t.bytes; t.name == "token_embd.weight" {
				p.inputKind = t.kind
			}
		default:
			p.output += t.bytes
			if t.name == "output.weight" {
				p.tied = false
			}
		}
	}
}

// outputs returns the weights that the device with the output has.
func (p *plan) outputs() int64 {
	if p.tied {
		return p.output + p.input
	}
	return p.output
}

// remember says what is kept of the tokens. Whether a layer has a cache or a state is to be seen from its tensors.
func (m *Model) remember(p *plan) {
	window, which := m.windows()
	p.cells = p.fullCells
	if window > 0 {
		p.cells = min(p.fullCells, pad(window*p.use.Sequences+p.use.Batch+1, 256))
	}
	kept := m.Layers // those behind use the cache of others
	if n := m.of("attention.shared_kv_layers", 0); n > 0 && n < int64(m.Layers) {
		kept = m.Layers - int(n)
	} else if m.Architecture == "gemma3n" {
		kept = 20
	}
	next := m.Layers - int(m.of("nextn_predict_layers", 0))
	has := m.tensorsOfLayers()
	for i := range p.layers {
		l, names := &p.layers[i], has[i]
		if names["ssm"] || names["shortconv"] || names["time_mix"] {
			l.state = m.stateSize()
		}
		if !names["attn_k"] && !names["attn_kv_a_mqa"] && !(names["attn_qkv"] && !names["ssm"]) || i >= kept || i >= next {
			continue
		}
		if l.keys, l.values = m.cached(i); window > 0 && which(i) {
			l.window = p.cells
			if n := m.of("attention.key_length_swa", 0); n > 0 {
				l.keys = n * m.heads(i)
			}
			if n := m.of("attention.value_length_swa", 0); n > 0 {
				l.values = n * m.heads(i)
			}
		}
	}
}

// heads returns how many heads of keys and values a layer has.
func (m *Model) heads(i int) int64 {
	return m.each("attention.head_count_kv", i, m.each("attention.head_count", i, 0))
}

// cached returns how many numbers a layer keeps for each token. With multi-head latent attention, the values are a part of the keys.
func (m *Model) cached(i int) (keys, values int64) {
	size := m.of("embedding_length", 0) / max(1, m.each("attention.head_count", i, 1))
	keys, values = m.of("attention.key_length", size)*m.heads(i), m.of("attention.value_length", size)*m.heads(i)
	if m.of("attention.key_length_mla", 0) > 0 {
		values = 0
	}
	return keys, values
}

// windows returns the size of the sliding window, or 0, and which layers have it.
func (m *Model) windows() (int64, func(int) bool) {
	w, known := slidingWindows[m.Architecture]
	size := m.of("attention.sliding_window", w.size)
	key := m.Architecture + ".attention.sliding_window_pattern"
	switch pattern := m.meta[key].(type) {
	case []float64:
		return size, func(i int) bool { return i < len(pattern) && pattern[i] != 0 }
	case float64:
		w.every, known = int(whole(pattern)), true
	}
	if !known || w.every < 1 || m.Architecture == "exaone4" && m.Layers != 64 {
		return 0, nil
	}
	return size, func(i int) bool {
		if w.first {
			return i%w.every != 0
		}
		return i%w.every != w.every-1
	}
}

// tensorsOfLayers returns the first words of the names of the tensors of each layer.
func (m *Model) tensorsOfLayers() []map[string]bool {
	has := make([]map[string]bool, m.Layers)
	for i := range has {
		has[i] = map[string]bool{}
	}
	for _, t := range m.tensors {
		if t.layer < 0 {
			continue
		}
		parts := strings.Split(t.name, ".")
		word := parts[2%len(parts)]
		for _, prefix := range []string{"ssm", "shortconv", "time_mix"} {
			if strings.HasPrefix(word, prefix) {
				word = prefix
			}
		}
		has[t.layer][word] = true
	}
	return has
}

// stateSize returns the bytes of the state of a recurrent layer, for one sequence: n_embd_r and n_embd_s of llama.cpp.
func (m *Model) stateSize() int64 {
	embd := m.of("embedding_length", 0)
	if n := m.of("shortconv.l_cache", 0); n > 0 {
		return 4 * (n - 1) * embd
	}
	if n := m.of("wkv.head_size", 0); n > 0 {
		return 4 * (m.of("token_shift_count", 2)*embd + embd*n)
	}
	inner, state := m.of("ssm.inner_size", 0), m.of("ssm.state_size", 0)
	return 4 * ((max(m.of("ssm.conv_kernel", 0), 1)-1)*(inner+2*m.of("ssm.group_count", 0)*state) + state*inner)
}

// cache returns the bytes that a layer keeps.
func (p *plan) cache(l layer) int64 {
	cells := p.fullCells
	if l.window > 0 {
		cells = l.window
	}
	row := func(n int64, k kind) int64 { return (n + int64(k.block) - 1) / int64(k.block) * int64(k.bytes) }
	return cells*(row(l.keys, p.keys)+row(l.values, p.values)) + l.state*p.use.Sequences
}

// computeSize bounds the memory that a step of the computation takes. ggml gives the memory of a result to others as soon as it is
// not needed any more. So what counts is the largest of four moments: the masks are converted, a layer attends, its feed-forward
// network or recurrent part is computed, and the output is. The rows that are alive then are those of llama.cpp's graphs. The margin is for
// fragmentation.
func (m *Model) computeSize(p *plan) {
	row := 4 * p.use.Batch // bytes of a number for each token of the batch
	embd := m.of("embedding_length", 0)
	var heads, keys, values, window int64
	latent := m.of("attention.key_length_mla", 0)
	for i, l := range p.layers {
		heads = max(heads, m.each("attention.head_count", i, 0))
		keys, values = max(keys, l.keys), max(values, l.values)
		if l.window > 0 {
			window = p.cells
		}
	}
	size := m.of("attention.key_length", embd/max(heads, 1))
	queries, attended := heads*size, heads*m.of("attention.value_length", size)
	if latent > 0 { // queries before they are turned into those of the latent space, and results after it
		queries += heads * latent
		attended += heads * m.of("attention.value_length_mla", size)
	}
	cells := p.fullCells + window
	if heads == 0 || keys == 0 {
		cells = 0
	}
	masks, first := cells*row, int64(0)
	attention := (queries+keys+values+attended+3*embd)*row + p.fullCells*row*heads
	if !p.use.NoFlash {
		first = masks + masks/2 + 4*embd*row
		masks /= 2
		attention = (queries+keys+values+attended+4*embd)*row + dequantised(p.keys, keys, p.fullCells) + dequantised(p.values, values, p.fullCells)
	}
	feed := (m.feedRows() + 5*embd) * row
	output := (m.vocabulary() + 3*embd) * row
	most := max(first, masks+max(attention, feed), output)
	p.compute = most + most/16 + 1<<20
	p.hosting = cells*row*3/2 + 2*embd*row + 1<<20 + 4*m.vocabulary()*p.use.Sequences
}

// dequantised is the memory for a copy of a layer's keys or values, which GPUs make if these are quantised.
func dequantised(k kind, n, cells int64) int64 {
	if k.block > 1 {
		return 2 * n * cells
	}
	return 0
}

// vocabulary returns the number of tokens, which is the largest dimension of the input's weights.
func (m *Model) vocabulary() (n int64) {
	for _, t := range m.tensors {
		if t.name == "token_embd.weight" && len(t.dims) == 2 {
			n = int64(min(t.dims[1], 1<<24))
		}
	}
	return n
}

// feedRows returns how many numbers of the feed-forward network, or of the recurrent part of a layer, are alive for each token.
func (m *Model) feedRows() int64 {
	embd := m.of("embedding_length", 0)
	rows := 3 * m.most("feed_forward_length")
	if used := m.of("expert_used_count", 0); used > 0 {
		ff := m.of("expert_feed_forward_length", m.most("feed_forward_length"))
		shared := 3 * cmp.Or(m.of("expert_shared_feed_forward_length", 0), ff*m.of("expert_shared_count", 0))
		rows = max(rows, used*(3*ff+embd)+4*m.of("expert_count", 0)+max(shared, used*embd))
	}
	if inner := m.of("ssm.inner_size", 0); inner > 0 {
		states := 2 * m.of("ssm.group_count", 1) * m.of("ssm.state_size", 0)
		rows = max(rows, 6*inner+3*states)
	}
	if m.of("shortconv.l_cache", 0) > 0 {
		rows = max(rows, 8*embd)
	}
	if m.of("wkv.head_size", 0) > 0 {
		rows = max(rows, 24*embd)
	}
	return rows
}

// Memory returns what the model takes if all of it is in one memory: that of the machine, or of a GPU that shares it. If the use is
// not possible, or the file is not that of a language model, the error says so.
func (m *Model) Memory(u Use) (Memory, error) {
	p, err := m.plan(u)
	if err != nil {
		return Memory{}, err
	}
	total := Memory{Weights: p.input + p.output, Compute: p.compute + 4*m.vocabulary()*p.use.Sequences}
	if p.tied && repacked[p.inputKind] {
		total.Weights += p.input
	}
	for _, l := range p.layers {
		total.Weights += l.weights
		total.Cache += p.cache(l)
	}
	return total, nil
}
