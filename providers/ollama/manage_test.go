package ollama_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/ollama"
)

const showBody = `{"license":"L","parameters":"stop                           \"<|im_start|>\"\nstop                           \"<|im_end|>\"\nnum_ctx                        8192\ntemperature                    0.6",
"template":"{{ .Prompt }}","system":"S","details":{"family":"qwen3","families":["qwen3"],"parameter_size":"8.2B","quantization_level":"Q4_K_M"},
"model_info":{"general.architecture":"qwen3","general.parameter_count":8190735360,"qwen3.context_length":40960,"qwen3.rope.freq_base":1e+06,"tokenizer.ggml.tokens":null,"clip.context_length":7},
"capabilities":["completion","tools","thinking"],"modified_at":"2025-05-04T17:37:44.706015396-07:00"}`

func TestList(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "GET /api/tags", r.Method+" "+r.URL.Path)
		fmt.Fprint(w, `{"models":[{"name":"qwen3:8b","model":"qwen3:8b","modified_at":"2025-10-03T23:34:03.409490317-07:00","size":5225388164,"digest":"500a1f067a9f","details":{"parent_model":"","format":"gguf","family":"qwen3","families":["qwen3"],"parameter_size":"8.2B","quantization_level":"Q4_K_M","context_length":40960},"capabilities":["completion","tools"]},{"name":7},{"name":"glm-4.6:cloud","remote_model":"glm-4.6","modified_at":"soon"}]}`)
	})
	models, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, models, 2)
	when := time.Date(2025, 10, 4, 6, 34, 3, 409490317, time.UTC)
	assert.True(t, when.Equal(models[0].Modified))
	models[0].Modified = time.Time{}
	assert.Equal(t, []ollama.Model{
		{Name: "qwen3:8b", Size: 5225388164, Digest: "500a1f067a9f", Family: "qwen3", Parameters: "8.2B", Quantization: "Q4_K_M",
			Context: 40960, Capabilities: []string{"completion", "tools"}},
		{Name: "glm-4.6:cloud", RemoteModel: "glm-4.6"},
	}, models)
	assert.True(t, models[0].Has("tools"))
	assert.False(t, models[1].Has("tools"))
}

func TestShow(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		assert.Equal(t, "POST /api/show", r.Method+" "+r.URL.Path)
		assert.JSONEq(t, `{"model":"qwen3:8b","name":"qwen3:8b"}`, string(body))
		fmt.Fprint(w, showBody)
	})
	_, known := c.ModelInfo("")
	assert.False(t, known)
	d, err := c.Show(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, int64(40960), d.Context)
	assert.Equal(t, int64(8192), d.NumCtx)
	assert.Equal(t, []string{"<|im_start|>", "<|im_end|>"}, d.Settings["stop"])
	assert.Equal(t, []string{"0.6"}, d.Settings["temperature"])
	assert.Equal(t, []string{"{{ .Prompt }}", "S", "L", "8.2B"}, []string{d.Template, d.System, d.License, d.Parameters})
	info, known := c.ModelInfo("qwen3:8b")
	assert.True(t, known)
	assert.Equal(t, aycoder.ModelInfo{Provider: "ollama", Model: "qwen3:8b", Context: 8192, Tools: true, Thinking: true, Output: true}, info)
}

// The context is the one in force, as far as it is known.
func TestModelInfoContext(t *testing.T) {
	const local = `{"model_info":{"general.architecture":"a","a.context_length":40960}%s}`
	tests := []struct {
		name, more string
		opts       []ollama.Option
		want       int64
	}{
		{"the server decides", ``, nil, 0},
		{"set", ``, []ollama.Option{ollama.WithContextLength(16384)}, 16384},
		{"set to more than there is", ``, []ollama.Option{ollama.WithContextLength(1 << 20)}, 40960},
		{"set over the model's", `,"parameters":"num_ctx 8192"`, []ollama.Option{ollama.WithContextLength(16384)}, 16384},
		{"of the model", `,"parameters":"num_ctx 8192"`, nil, 8192},
		{"in the cloud", `,"remote_model":"x"`, nil, 40960},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, says(http.StatusOK, fmt.Sprintf(local, tt.more), 7), tt.opts...)
			_, err := c.Show(t.Context(), "")
			require.NoError(t, err)
			info, _ := c.ModelInfo("")
			assert.Equal(t, tt.want, info.Context)
		})
	}
	info, known := clientOf(t, nil, ollama.WithContextLength(5)).ModelInfo("x")
	assert.True(t, known)
	assert.Equal(t, int64(5), info.Context)
}

func TestLoadedDeleteVersion(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/ps":
			fmt.Fprint(w, `{"models":[{"name":"a","model":"a","size":10,"size_vram":7,"context_length":4096,"expires_at":"2030-01-02T03:04:05Z"}]}`)
		case "GET /api/version":
			fmt.Fprint(w, `{"version":"0.12.6"}`)
		case "DELETE /api/delete":
			body, _ := io.ReadAll(r.Body)
			assert.JSONEq(t, `{"model":"old","name":"old"}`, string(body))
		default:
			http.NotFound(w, r)
		}
	})
	loaded, err := c.Loaded(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []ollama.Loaded{{Name: "a", Size: 10, VRAM: 7, Context: 4096, Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}}, loaded)
	v, err := c.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "0.12.6", v)
	require.NoError(t, c.Delete(t.Context(), "old"))
}

func TestManageErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		as     func(error) bool
	}{
		"not there":  {404, `{"error":"model 'm' not found"}`, is[*aycoder.UnknownModelError]},
		"not JSON":   {200, "<html>\n</html>", is[*aycoder.BadRequestError]},
		"a list":     {200, `[]`, is[*aycoder.BadRequestError]},
		"torn":       {200, `{"models":[`, is[*aycoder.StreamBrokenError]},
		"nothing":    {200, ``, is[*aycoder.StreamBrokenError]},
		"no right":   {401, `{"error":"unauthorized"}`, is[*aycoder.AuthError]},
		"web server": {502, `<html>`, is[*aycoder.OverloadedError]},
	} {
		c := clientOf(t, says(tt.status, tt.body, 7))
		_, err := c.Show(t.Context(), "m")
		assert.True(t, tt.as(err), "show %s: %v", name, err)
		if tt.status == http.StatusOK {
			_, err = c.List(t.Context())
			assert.True(t, tt.as(err), "list %s: %v", name, err)
		}
	}
}

func TestPull(t *testing.T) {
	const line = `{"status":"pulling aa","digest":"sha256:aa","total":10,"completed":%d}` + "\n"
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"status":"pulling manifest"}`+"\n"+line+line+`{"status":"success"}`+"\n", 0, 10)
	})
	var got []ollama.PullProgress
	seq := c.Pull(t.Context(), "m")
	for p, err := range seq {
		require.NoError(t, err)
		got = append(got, p)
	}
	assert.Equal(t, []ollama.PullProgress{{Status: "pulling manifest"}, {Status: "pulling aa", Digest: "sha256:aa", Total: 10},
		{Status: "pulling aa", Digest: "sha256:aa", Total: 10, Completed: 10}, {Status: "success"}}, got)
	for _, err := range seq {
		assert.ErrorIs(t, err, aycoder.ErrConsumed)
	}
}

func TestPullErrors(t *testing.T) {
	for body, as := range map[string]func(error) bool{
		`{"status":"pulling manifest"}` + "\n" + `{"error":"pull model manifest: file does not exist"}`: is[*aycoder.UnknownModelError],
		`{"error":"max retries exceeded: EOF"}`:                                                         is[*aycoder.StreamBrokenError],
		`{"status":"pulling manifest"}`:                                                                 is[*aycoder.StreamBrokenError],
		"{\"status\":\"pulling manifest\"}\n{\"stat":                                                    is[*aycoder.StreamBrokenError],
		"[]\n": is[*aycoder.BadRequestError],
	} {
		var last error
		for _, err := range clientOf(t, says(http.StatusOK, body, 3)).Pull(t.Context(), "m") {
			require.NoError(t, last, "something comes after an error")
			last = err
		}
		assert.True(t, as(last), "%s: %v", body, last)
	}
}

// Both leaving the loop and cancelling end the download.
func TestPullStops(t *testing.T) {
	gone := make(chan struct{}, 2)
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, `{"status":"pulling manifest"}`)
		w.(http.Flusher).Flush()
		hang(r)
		gone <- struct{}{}
	})
	for _, err := range c.Pull(t.Context(), "m") {
		require.NoError(t, err)
		break
	}
	<-gone
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Pull(ctx, "m") {
		last = err
		cancel()
	}
	assert.ErrorIs(t, last, context.Canceled)
	<-gone
}
