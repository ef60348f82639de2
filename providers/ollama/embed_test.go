package ollama_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/ollama"
)

// embedding returns a client for a model on a server.
func embedding(t *testing.T, model string, h http.HandlerFunc, opts ...ollama.Option) *ollama.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := ollama.New(model, append(opts, ollama.WithBaseURL(s.URL), ollama.WithHTTPClient(s.Client()))...)
	require.NoError(t, err)
	return c
}

// The answer is that of https://docs.ollama.com/api/embed.
func TestEmbed(t *testing.T) {
	body := ""
	c := embedding(t, "embeddinggemma", func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /api/embed", r.Method+" "+r.URL.Path)
		data, _ := io.ReadAll(r.Body)
		body = string(data)
		fmt.Fprint(w, `{"model":"embeddinggemma","embeddings":[[0.010071029,-0.0017594862,0.05007221],[1,-2e-3,0]],"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}`)
	})
	v, err := c.Embed(t.Context(), []string{"why \"is\" the sky blue?", "b"})
	require.NoError(t, err)
	require.Equal(t, [][]float32{{0.010071029, -0.0017594862, 0.05007221}, {1, -2e-3, 0}}, v)
	require.JSONEq(t, `{"model":"embeddinggemma","input":["why \"is\" the sky blue?","b"]}`, body)
	_, err = c.Embed(t.Context(), []string{"a"})
	_, broken := errors.AsType[*aycoder.StreamBrokenError](err)
	require.True(t, broken, "two vectors for one text: %v", err)
	require.True(t, c.EmbedsLocally())
	remote, err := ollama.New("m", ollama.WithBaseURL("http://192.0.2.1:11434"))
	require.NoError(t, err)
	require.False(t, remote.EmbedsLocally())
	cloud, err := ollama.New("m:cloud", ollama.WithBaseURL("http://[::1]:11434"))
	require.NoError(t, err)
	require.False(t, cloud.EmbedsLocally())
}

func TestEmbedPrefixes(t *testing.T) {
	var bodies []string
	c := embedding(t, "nomic-embed-text:latest", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(data))
		fmt.Fprint(w, `{"embeddings":[[1,0]]}`)
	}, ollama.WithKeepAlive(-1))
	_, err := c.Embed(t.Context(), []string{"x"})
	require.NoError(t, err)
	v, err := c.EmbedQuery(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []float32{1, 0}, v)
	require.JSONEq(t, `{"model":"nomic-embed-text:latest","keep_alive":-1,"input":["search_document: x"]}`, bodies[0])
	require.JSONEq(t, `{"model":"nomic-embed-text:latest","keep_alive":-1,"input":["search_query: x"]}`, bodies[1])
}

func TestEmbeddingModel(t *testing.T) {
	for model, want := range map[string]int{
		"nomic-embed-text": 768, "mxbai-embed-large": 1024, "all-minilm": 384, "snowflake-arctic-embed": 1024, "bge-m3": 1024,
		"bge-m3:latest": 1024, "snowflake-arctic-embed:22m": 3, "other": 3, // asks the server
	} {
		c := embedding(t, model, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, 3, want, "%s should be known", model)
			fmt.Fprint(w, `{"embeddings":[[1,0,0]]}`)
		})
		_, dim, err := c.EmbeddingModel(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, dim, model)
	}
}

// A missing model is pulled if the host wants it, and the progress is reported.
func TestEmbedPulls(t *testing.T) {
	pulled := false
	handle := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/pull":
			pulled = true
			fmt.Fprintln(w, `{"status":"pulling manifest"}`)
			fmt.Fprintln(w, `{"status":"pulling 7cd4618c1faf","digest":"sha256:7c","total":100,"completed":40}`)
			fmt.Fprintln(w, `{"status":"success"}`)
		case r.URL.Path == "/api/tags":
			fmt.Fprint(w, `{"models":[]}`)
		case !pulled:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"model \"bge-m3\" not found, try pulling it first"}`)
		default:
			fmt.Fprint(w, `{"embeddings":[[1,0]]}`)
		}
	}
	_, err := embedding(t, "bge-m3", handle).Embed(t.Context(), []string{"x"})
	_, unknown := errors.AsType[*aycoder.UnknownModelError](err)
	require.True(t, unknown, "%v", err)
	var steps []ollama.PullProgress
	c := embedding(t, "bge-m3", handle, ollama.WithPull(func(p ollama.PullProgress) { steps = append(steps, p) }))
	v, err := c.Embed(t.Context(), []string{"x"})
	require.NoError(t, err)
	require.Equal(t, [][]float32{{1, 0}}, v)
	require.Equal(t, []ollama.PullProgress{
		{Status: "pulling manifest"}, {Status: "pulling 7cd4618c1faf", Digest: "sha256:7c", Total: 100, Completed: 40}, {Status: "success"},
	}, steps)
	_, err = ollama.New("m", ollama.WithPull(nil))
	_, config := errors.AsType[*aycoder.ConfigError](err)
	require.True(t, config)
}
