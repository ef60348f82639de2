package openai_test

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
	"github.com/aycoder/aycoder/providers/openai"
)

// The answer is that of OpenAI's reference, with the vectors in another order, as the field "index" allows.
func TestEmbed(t *testing.T) {
	body, answer := "", `{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0.5,1e-3]},`+
		`{"object":"embedding","embedding":[0.0023064255,-0.009327292],"index":0}],"model":"text-embedding-ada-002","usage":{"prompt_tokens":8,"total_tokens":8}}`
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /v1/embeddings", r.Method+" "+r.URL.Path)
		assert.Equal(t, "Bearer sk-test", r.Header.Get("Authorization"))
		data, _ := io.ReadAll(r.Body)
		body = string(data)
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	c, err := openai.New("local-embedder", openai.WithBaseURL(s.URL+"/v1"), openai.WithAPIKey("sk-test"), openai.WithHTTPClient(s.Client()))
	require.NoError(t, err)
	v, err := c.Embed(t.Context(), []string{"the food\n", "b"})
	require.NoError(t, err)
	require.Equal(t, [][]float32{{0.0023064255, -0.009327292}, {0.5, 1e-3}}, v)
	require.JSONEq(t, `{"model":"local-embedder","encoding_format":"float","input":["the food\n","b"]}`, body)
	require.True(t, c.EmbedsLocally())

	for name, bad := range map[string]string{
		"too few":       `{"data":[{"index":0,"embedding":[1]}]}`,
		"twice":         `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`,
		"out of range":  `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`,
		"empty":         `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[]}]}`,
		"not a number":  `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":["x"]}]}`,
		"another thing": `{"choices":[]}`,
		"cut":           `{"data":[{"index":0,"embedding":[1`,
	} {
		answer = bad
		_, err := c.Embed(t.Context(), []string{"a", "b"})
		_, typed := errors.AsType[*aycoder.ModelError](err)
		require.True(t, typed, "%s: %v", name, err)
	}
	status, answer = http.StatusTooManyRequests, `{"error":{"message":"Rate limit reached","type":"requests"}}`
	_, err = c.Embed(t.Context(), []string{"a"})
	_, limited := errors.AsType[*aycoder.RateLimitError](err)
	require.True(t, limited, "%v", err)

	status, answer = http.StatusOK, `{"data":[{"index":0,"embedding":[1,2,3]}]}`
	name, dim, err := c.EmbeddingModel(t.Context())
	require.NoError(t, err)
	require.Equal(t, "local-embedder 3", fmt.Sprint(name, " ", dim))
	known, err := openai.New("text-embedding-3-small", openai.WithAPIKey("k"))
	require.NoError(t, err)
	_, dim, err = known.EmbeddingModel(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1536, dim)
	require.False(t, known.EmbedsLocally())
}
