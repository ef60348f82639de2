package local

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Device is a memory that a model may be loaded into.
type Device struct {
	// Name is for the reasons that are given, such as "NVIDIA GeForce RTX 3090".
	Name string
	// Free is how many bytes are free now.
	Free int64
	// Reserve is what the driver takes when a program begins to use the device. [Hardware.Devices] sets it.
	Reserve int64
	// Shared says that the memory is that of the host, as with Apple's processors. Both then count against it.
	Shared bool
}

// Advice says how to load a model. The zero value is that it does not fit.
type Advice struct {
	// Fits says whether the model can be loaded.
	Fits bool
	// Layers is how many layers to offload: the repeating ones and one more, for the output. It is 0 without a GPU.
	Layers int
	// HostExperts is for llama.cpp, if a mixture of experts does not fit: all layers are offloaded, but the experts of so many of
	// them stay on the host, which is faster than to offload fewer layers. [Advice.Layers] is for programs that cannot do that.
	HostExperts int
	// Context is the number of tokens.
	Context int64
	// GPU and Host are what is needed there, in bytes, with the flags of llama-server. GPU is that of all devices.
	GPU, Host Memory
	// Why is the reasoning, in lines for people.
	Why []string

	use Use
}

// margin is the part of a memory that stays free.
const margin = 20

// usable is how much of what is free a model may take.
func usable(free int64) int64 { return max(0, free-free/margin) }

// contexts are the lengths that Advise tries, if none is given.
var contexts = []int64{131072, 65536, 32768, 16384, 8192, 4096}

// defaultContext is what an agent needs at least for its prompt and some files. It is preferred to having all layers on the GPU.
const defaultContext = 16384

// Advise says how many layers of the model to offload to the GPUs, for a host that has so many bytes free. It never advises to
// take more than 95 % of what is free. If no context is given, it is the longest one with which all of the model is on the GPUs, or
// else 16,384 tokens, or what fits. Without GPUs, 0 layers is the answer. Layers are spread over several devices in proportion to
// what is free there, as llama.cpp does.
//
// If the model does not fit, [Advice.Fits] is false, and the error is nil. An error says that the use is not possible, or that the
// file is not that of a language model.
func (m *Model) Advise(gpus []Device, host int64, u Use) (Advice, error) {
	tries := []int64{u.Context}
	if u.Context == 0 {
		tries = nil
		for _, n := range contexts {
			if m.Context == 0 || n <= m.Context {
				tries = append(tries, n)
			}
		}
		if len(tries) == 0 {
			tries = append(tries, m.Context)
		}
	}
	var best Advice
	for _, n := range tries {
		u.Context = n
		a, err := m.advise(gpus, host, u)
		if err != nil {
			return Advice{}, err
		}
		all := a.Fits && (len(gpus) == 0 || a.Layers == m.Layers+1)
		switch {
		case all:
			return a, nil // the longest one, since the longer ones come first
		case a.Fits && !best.Fits, a.Fits && n >= defaultContext, best.Why == nil:
			best = a
		case !best.Fits && !a.Fits:
			best = a // what is missing is the least with the shortest context
		}
	}
	return best, nil
}

// advise is for one length of the context.
func (m *Model) advise(gpus []Device, host int64, u Use) (Advice, error) {
	p, err := m.plan(u)
	if err != nil {
		return Advice{}, err
	}
	a := Advice{Context: u.Context, use: p.use}
	a.describe(m, p)
	for _, g := range gpus {
		a.say("%s: %s free, of which %s may be used: 5 %% are kept free, and the driver takes %s", cmp.Or(g.Name, "GPU"), bytesText(g.Free),
			bytesText(room(g)), bytesText(g.Reserve))
	}
	a.say("host: %s free, of which %s may be used", bytesText(host), bytesText(usable(host)))
	for n := m.Layers + 1; n >= 0; n-- {
		gpu, rest, ok := p.place(gpus, host, n, 0)
		if !ok {
			continue
		}
		a.Fits, a.Layers, a.GPU, a.Host = true, n, gpu, rest
		break
	}
	if len(gpus) > 0 && a.Layers <= m.Layers && p.experts() {
		for n := 1; n <= m.Layers; n++ {
			if gpu, rest, ok := p.place(gpus, host, m.Layers+1, n); ok {
				if !a.Fits {
					a.Layers = 0
				}
				a.Fits, a.HostExperts, a.GPU, a.Host = true, n, gpu, rest
				break
			}
		}
	}
	a.conclude(m, p, gpus, host)
	return a, nil
}

func (a *Advice) say(format string, args ...any) { a.Why = append(a.Why, fmt.Sprintf(format, args...)) }

// describe says what the model needs.
func (a *Advice) describe(m *Model, p *plan) {
	var weights, experts, cache, state int64
	windowed := 0
	for _, l := range p.layers {
		weights, experts = weights+l.weights, experts+l.experts
		cache, state = cache+p.cache(l), state+l.state*p.use.Sequences
		if l.window > 0 {
			windowed++
		}
	}
	a.say("model: %s, %s, %d layers, %s of weights, most of them %s%s", cmp.Or(m.Name, "without a name"), m.Architecture, m.Layers, bytesText(m.Size),
		m.Type, map[bool]string{true: fmt.Sprintf(", in %d files", m.splits)}[m.splits > 1])
	a.say("weights: layers %s, input %s on the host, output %s%s", bytesText(weights), bytesText(p.input), bytesText(p.outputs()),
		map[bool]string{true: " (a copy of the input)"}[p.tied])
	if experts > 0 {
		a.say("experts: %s of the layers' weights; %d of %d are used for a token", bytesText(experts), m.of("expert_used_count", 0), m.of("expert_count", 0))
	}
	a.say("cache: %s for %d tokens, keys %s, values %s", bytesText(cache), p.fullCells, p.keys.name, p.values.name)
	if windowed > 0 {
		a.say("sliding window: %d of %d layers keep %d tokens only", windowed, m.Layers, p.cells)
	}
	if state > 0 {
		a.say("recurrent layers: their state takes %s of it, whatever the context is", bytesText(state))
	}
	a.say("compute: at most %s on each device for %d tokens at a time%s", bytesText(p.compute), p.use.Batch,
		map[bool]string{true: ", without flash attention"}[p.use.NoFlash])
}

// conclude says what was chosen.
func (a *Advice) conclude(m *Model, p *plan, gpus []Device, host int64) {
	switch {
	case !a.Fits:
		whole, _ := m.Memory(p.use)
		a.say("it does not fit: all of it together needs %s", bytesText(whole.Total()))
	case len(gpus) == 0:
		a.say("all of it on the host: %s", memoryText(a.Host))
	case a.HostExperts > 0:
		a.say("all layers on the GPU, but the experts of %d of %d layers on the host: GPU %s; host %s", a.HostExperts, m.Layers, memoryText(a.GPU), memoryText(a.Host))
		if a.Layers > 0 {
			a.say("for programs that cannot keep experts on the host: %d of %d layers", a.Layers, m.Layers+1)
		}
	case a.Layers > 0:
		a.say("%d of %d layers on the GPU: GPU %s; host %s", a.Layers, m.Layers+1, memoryText(a.GPU), memoryText(a.Host))
	default:
		a.say("no layer fits on the GPU, all are on the host: %s", memoryText(a.Host))
	}
}

func memoryText(m Memory) string {
	return fmt.Sprintf("%s = weights %s + cache %s + compute %s", bytesText(m.Total()), bytesText(m.Weights), bytesText(m.Cache), bytesText(m.Compute))
}

func bytesText(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func room(g Device) int64 { return max(0, usable(g.Free)-g.Reserve) }

func (p *plan) experts() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return l.experts > 0 })
}

// place says what the devices and the host need if n layers are offloaded, and whether it fits. The experts of the first layers
// stay on the host.
//
// llama.cpp offloads the last layers. Of n, one is the output; before 2026 all n were repeating layers, if there are as many. A
// device gets what the dearer of the two needs.
func (p *plan) place(gpus []Device, host int64, n, experts int) (gpu, rest Memory, ok bool) {
	total := int64(0)
	for _, g := range gpus {
		total += room(g)
	}
	if n > 0 && total == 0 {
		return gpu, rest, false
	}
	rest = Memory{Weights: p.input + p.output, Compute: p.hosting}
	if n == 0 {
		rest.Compute = p.compute + p.hosting
	}
	needs := make([]Memory, len(gpus))
	first := max(0, len(p.layers)-n)
	staged := int64(0)          // weights and cache of a layer on the host, which is computed on the GPU if the batch is large
	at := func(i int) *Memory { // the device of the ith of the offloaded layers, counting the output
		sum, share := int64(0), float64(i-first)/float64(len(p.layers)+1-first)
		for d, g := range gpus {
			if sum += room(g); share < float64(sum)/float64(total) {
				return &needs[d]
			}
		}
		return &needs[len(needs)-1]
	}
	for i, l := range p.layers {
		kept := int64(0) // on the host
		if i < experts {
			kept = l.experts
		}
		if i < first {
			kept = l.weights
			rest.Cache += p.cache(l)
			staged = max(staged, p.cache(l)+kept)
		} else {
			d := at(i)
			d.Weights += l.weights - kept
			d.Cache += p.cache(l)
		}
		rest.Weights += kept
		staged = max(staged, kept)
	}
	if n > 0 {
		at(len(p.layers)).Weights += p.outputs()
		rest.Weights -= p.output
	} else if p.tied && repacked[p.inputKind] {
		rest.Weights += p.input
	}
	shared := int64(0)
	ok = true
	for d := range needs {
		if n > 0 {
			needs[d].Compute = p.compute + staged
			if len(gpus) > 1 { // steps are pipelined, with copies of the inputs
				needs[d].Compute += 4 * p.hosting
			}
		}
		if ok = ok && needs[d].Total() <= room(gpus[d]); gpus[d].Shared {
			shared += needs[d].Total()
		}
		gpu.Weights, gpu.Cache, gpu.Compute = gpu.Weights+needs[d].Weights, gpu.Cache+needs[d].Cache, gpu.Compute+needs[d].Compute
	}
	return gpu, rest, ok && rest.Total()+shared <= usable(host)
}

// LlamaServer returns the flags of llama-server, such as -ngl 33 -c 16384. If the model does not fit, there are none.
func (a Advice) LlamaServer() []string {
	if !a.Fits {
		return nil
	}
	layers := a.Layers
	if a.HostExperts > 0 {
		layers = 999
	}
	flags := []string{"-ngl", strconv.Itoa(layers), "-c", strconv.FormatInt(a.Context, 10), "-np", strconv.FormatInt(a.use.Sequences, 10),
		"-ub", strconv.FormatInt(max(a.use.Batch, 1), 10), "-fa", map[bool]string{true: "off", false: "on"}[a.use.NoFlash]}
	if a.HostExperts > 0 {
		flags = append(flags, "--n-cpu-moe", strconv.Itoa(a.HostExperts))
	}
	for _, c := range []struct{ flag, kind string }{{"-ctk", a.use.Keys}, {"-ctv", a.use.Values}} {
		if c.kind != "" && !strings.EqualFold(c.kind, "f16") {
			flags = append(flags, c.flag, strings.ToLower(c.kind))
		}
	}
	return flags
}

// Ollama returns the options of a request to Ollama: num_gpu and num_ctx. The type of the cache is not an option but the
// environment variable OLLAMA_KV_CACHE_TYPE of the server. If the model does not fit, or only with experts on the host, which
// Ollama cannot do, there are none.
func (a Advice) Ollama() map[string]any {
	if !a.Fits || a.HostExperts > 0 && a.Layers == 0 {
		return nil
	}
	return map[string]any{"num_gpu": a.Layers, "num_ctx": a.Context}
}
