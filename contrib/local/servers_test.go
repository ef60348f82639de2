package local

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/providers/ollama"
)

func TestFindServers(t *testing.T) {
	answers := map[string]string{
		// tools/server/README.md of llama.cpp; lmstudio.ai/docs/developer/rest/endpoints; docs/api.md of Ollama
		"llama.cpp": `{"object":"list","data":[{"id":"../models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf","object":"model","created":1735142223,"owned_by":"llamacpp","meta":{"vocab_type":2,"n_vocab":128256,"n_ctx_train":131072,"n_embd":4096,"n_params":8030261312,"size":4912898304}}]}`,
		"lmstudio":  `{"object":"list","data":[{"id":"qwen2-vl-7b-instruct","object":"model","type":"vlm","publisher":"mlx-community","arch":"qwen2_vl","compatibility_type":"mlx","quantization":"4bit","state":"not-loaded","max_context_length":32768}]}`,
		"ollama":    `{"models":[{"name":"deepseek-r1:latest","model":"deepseek-r1:latest","size":4683075271}]}`,
	}
	for name, change := range map[string]string{"": "", "another server": `{"object":"list","data":[{"id":"gpt","owned_by":"openai"}]}`, "a page": "<html>", "a list of nothing": `{}`} {
		var list []probe
		for _, p := range probes() {
			body := answers[p.kind]
			if change != "" {
				body = change
			}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, p.path, r.URL.Path)
				io.WriteString(w, body)
			}))
			t.Cleanup(s.Close)
			p.base = s.URL
			if name == "another server" && p.kind == "lmstudio" {
				continue // it answers like this
			}
			list = append(list, p)
		}
		found := findServers(t.Context(), list)
		if change != "" {
			assert.Empty(t, found, name)
			continue
		}
		require.Len(t, found, 3)
		assert.Equal(t, []string{"../models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"}, found[0].Models)
		assert.Equal(t, Server{"lmstudio", list[1].base, []string{"qwen2-vl-7b-instruct"}}, found[1])
		assert.Equal(t, []string{"deepseek-r1:latest"}, found[2].Models)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	assert.Empty(t, findServers(t.Context(), []probe{{kind: "lmstudio", base: gone.URL}}))
}

// A server of Ollama is a library like the hub.
func TestOllama(t *testing.T) {
	var deleted string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/tags":
			io.WriteString(w, `{"models":[{"name":"qwen3:4b","size":2497293931}]}`)
		case "POST /api/pull":
			io.WriteString(w, `{"status":"pulling 7cd4618c1faf","digest":"sha256:7cd4","total":10,"completed":4}`+"\n"+`{"status":"success"}`+"\n")
		case "DELETE /api/delete":
			body, _ := io.ReadAll(r.Body)
			deleted = string(body)
		}
	}))
	defer s.Close()
	c, err := ollama.New("none", ollama.WithBaseURL(s.URL))
	require.NoError(t, err)
	l := Ollama(c)
	list, err := l.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []Installed{{Name: "qwen3:4b", Size: 2497293931}}, list)
	var all []Progress
	for p, err := range l.Pull(t.Context(), "qwen3:4b") {
		require.NoError(t, err)
		all = append(all, p)
	}
	require.Len(t, all, 2)
	assert.Equal(t, Progress{Status: "pulling 7cd4618c1faf", File: "sha256:7cd4", Done: 4, Total: 10}, all[0])
	require.NoError(t, l.Delete(t.Context(), "qwen3:4b"))
	assert.Contains(t, deleted, "qwen3:4b")
	var _ Library = (*Hub)(nil)
}
