package local_test

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/contrib/local"
)

// A card with 6 GiB takes a code model of 7 billion parameters, with four bits for each.
func ExampleRecommend() {
	for _, r := range local.Recommend(6<<30, "code")[:2] {
		fmt.Println(r)
		fmt.Println(" ", r.Why)
	}
	// Output:
	// Qwen/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M
	//   Q4_K_M takes 4.36 GiB, with 16384 tokens of context (q8_0) 5.38 GiB in all
	// second-state/Deepseek-Coder-6.7B-Instruct-GGUF:Q4_K_M
	//   Q4_K_M takes 3.80 GiB, with 4096 tokens of context (q8_0) 5.42 GiB in all
}

// How to load a small model into half a GiB of a GPU.
func ExampleModel_Advise() {
	m, err := local.Open("testdata/tiny.gguf") // a file without its weights
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := m.Advise([]local.Device{{Name: "GPU", Free: 512 << 20}}, 8<<30, local.Use{Context: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Join(a.Why, "\n"))
	fmt.Println("llama-server", strings.Join(a.LlamaServer(), " "))
	// Output:
	// model: Invented llama, llama, 6 layers, 48.9 MiB of weights, most of them Q4_K
	// weights: layers 37.9 MiB, input 4.5 MiB on the host, output 6.6 MiB
	// cache: 24.0 MiB for 4096 tokens, keys F16, values F16
	// compute: at most 33.4 MiB on each device for 512 tokens at a time
	// GPU: 512.0 MiB free, of which 486.4 MiB may be used: 5 % are kept free, and the driver takes 0.0 MiB
	// host: 8.00 GiB free, of which 7.60 GiB may be used
	// 7 of 7 layers on the GPU: GPU 101.8 MiB = weights 44.4 MiB + cache 24.0 MiB + compute 33.4 MiB; host 21.5 MiB = weights 4.5 MiB + cache 0.0 MiB + compute 17.0 MiB
	// llama-server -ngl 7 -c 4096 -np 1 -ub 512 -fa on
}
