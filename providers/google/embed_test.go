package google_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/providers/google"
)

// The request and the answer are those of https://ai.google.dev/api/embeddings.
func TestEmbed(t *testing.T) {
	var bodies []string
	answer := `{"embeddings":[{"values":[-0.02342152,0.01676572]},{"values":[1,0]}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /v1beta/models/gemini-embedding-001:batchEmbedContents", r.Method+" "+r.URL.Path)
		assert.Equal(t, "key", r.Header.Get("X-Goog-Api-Key"))
		data, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(data))
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	c, err := google.New("gemini-embedding-001", google.WithBaseURL(s.URL+"/v1beta"), google.WithAPIKey("key"), google.WithHTTPClient(s.Client()))
	require.NoError(t, err)
	v, err := c.Embed(t.Context(), []string{"a \"text\"", "b"})
	require.NoError(t, err)
	require.Equal(t, [][]float32{{-0.02342152, 0.01676572}, {1, 0}}, v)
	require.JSONEq(t, `{"requests":[
		{"model":"models/gemini-embedding-001","taskType":"RETRIEVAL_DOCUMENT","content":{"parts":[{"text":"a \"text\""}]}},
		{"model":"models/gemini-embedding-001","taskType":"RETRIEVAL_DOCUMENT","content":{"parts":[{"text":"b"}]}}]}`, bodies[0])
	answer = `{"embeddings":[{"values":[0,1]}]}`
	q, err := c.EmbedQuery(t.Context(), "where?")
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1}, q)
	require.JSONEq(t, `{"requests":[{"model":"models/gemini-embedding-001","taskType":"CODE_RETRIEVAL_QUERY","content":{"parts":[{"text":"where?"}]}}]}`, bodies[1])
	name, dim, err := c.EmbeddingModel(t.Context())
	require.NoError(t, err)
	require.Equal(t, "gemini-embedding-001 3072", fmt.Sprint(name, " ", dim))

	vertex, err := google.New("gemini-embedding-001", google.WithVertex("p", "us"), google.WithAPIKey("k"))
	require.NoError(t, err)
	_, err = vertex.Embed(t.Context(), []string{"a"})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
