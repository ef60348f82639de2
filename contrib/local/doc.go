// Package local is for models on the user's own hardware: what memory there is, what a model takes of it, which models there are,
// and how they come here. It runs no model. That is for llama.cpp, LM Studio or Ollama, whose clients are in
// [github.com/aycoder/aycoder/providers/openai] and [github.com/aycoder/aycoder/providers/ollama].
//
// # What memory a model takes
//
// [Open] reads the metadata of a GGUF file, and none of its weights. [Hub.Model] does the same with a file of the hub, of which it
// requests the first part. [Model.Memory] tells what llama.cpp allocates: the weights, the cache of keys and values for a context
// and a type, with sliding windows, recurrent layers and latent attention as the file's own tensors show them, and an upper bound
// of the compute buffer.
//
//	m, err := local.Open("qwen2.5-coder-7b-instruct-q4_k_m.gguf")
//	need, err := m.Memory(local.Use{Context: 16384, Keys: "q8_0", Values: "q8_0"})
//
// [Model.Advise] says how many layers to offload to GPUs, or how many experts to keep on the host, and why, line by line:
//
//	h := local.Detect(ctx)
//	advice, err := m.Advise(h.Devices(), h.Available, local.Use{})
//	fmt.Println(strings.Join(advice.Why, "\n"))
//	exec.Command("llama-server", append([]string{"-m", file}, advice.LlamaServer()...)...)
//
// It never advises to take more than 95 % of what is free. How exact it is was measured with llama.cpp and with public logs; the
// page docs/local.md has the figures and the commands.
//
// # Hardware
//
// [Detect] asks the vendors' own tools: nvidia-smi, amd-smi or rocm-smi, xpu-smi or intel_gpu_top, and on macOS system_profiler
// and ioreg. Each is bounded in time and output. [Watch] tells when a memory runs out.
//
// # The hub
//
// [NewHub] makes a client of Hugging Face, which honours HF_ENDPOINT, HF_TOKEN and HF_HOME. [Hub.Search] finds models with GGUF
// files, [Hub.Files] lists the files of one with their quantisations, and [Hub.Pull] downloads those of a name such as
// "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF:Q4_K_M":
//
//	for p, err := range hub.Pull(ctx, name) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(p.Status, p.Done, p.Total)
//	}
//
// A download comes by several connections, goes on where it was stopped by whatever, and is checked against the SHA-256 of the hub.
// Its file has a name only when all of that is done, so that what [Hub.List] lists is whole. The directory has the layout of other
// programs for this hub. The token is sent to the hub and never to where it redirects to. [Hub.Delete] also removes a download that was
// stopped.
//
// [Ollama] has the same methods for the models of a server of Ollama: both are a [Library]. [FindServers] finds llama.cpp, LM Studio
// and Ollama on this machine.
//
// # Which model
//
// [Recommend] says which models of a dated table fit into a memory. The table ages; the hub does not.
package local
