package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/ollama"
	"github.com/aycoder/aycoder/providers/openai"
	"github.com/aycoder/aycoder/retrieval"
)

// The clients have the abilities, also inside of middleware.
func TestClientsEmbed(t *testing.T) {
	t.Parallel()
	o, err := ollama.New("bge-m3", ollama.WithBaseURL("http://127.0.0.1:1"))
	require.NoError(t, err)
	g, err := google.New("gemini-embedding-001", google.WithAPIKey("k"))
	require.NoError(t, err)
	oa, err := openai.New("text-embedding-3-small", openai.WithAPIKey("k"))
	require.NoError(t, err)
	for _, c := range []aycoder.ModelClient{o, g, oa} {
		e, ok := aycoder.As[retrieval.Embedder](wrapped{c})
		require.True(t, ok)
		_, local := e.(*ollama.Client)
		_, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
		if local {
			require.NoError(t, err)
			continue
		}
		refused, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "WithEmbedder", refused.Option)
		_, err = retrieval.New(t.Context(), retrieval.WithRemoteEmbedder(e))
		require.NoError(t, err)
	}
	_, err = retrieval.New(t.Context(), retrieval.WithEmbedder(nil), retrieval.WithRemoteEmbedder(nil))
	require.Error(t, err)
}

type wrapped struct{ aycoder.ModelClient }

func (w wrapped) Unwrap() aycoder.ModelClient { return w.ModelClient }

// fakeEmbedder embeds by hashing, and fails as it is told.
type fakeEmbedder struct {
	dim    int
	fail   func(call int) error
	bad    func([][]float32) [][]float32
	refuse func(text string) error

	mu    sync.Mutex
	calls int
	sent  []string
}

func (e *fakeEmbedder) EmbeddingModel(context.Context) (string, int, error) {
	return "fake", e.dim, nil
}

func (e *fakeEmbedder) EmbedsLocally() bool { return true }

func (e *fakeEmbedder) Embed(_ context.Context, texts []string) (out [][]float32, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.fail != nil {
		if err := e.fail(e.calls); err != nil {
			return nil, err
		}
	}
	for _, text := range texts {
		if e.refuse != nil && e.refuse(text) != nil {
			return nil, e.refuse(text)
		}
	}
	e.sent = append(e.sent, texts...)
	for _, text := range texts {
		out = append(out, hashed(text, e.dim))
	}
	if e.bad != nil {
		out = e.bad(out)
	}
	return out, nil
}

func file(path, src string) retrieval.File {
	return retrieval.File{Path: path, Source: []byte(src), Facts: &source.Facts{Language: "go"}}
}

func paths(r retrieval.Result) (out []string) {
	for _, h := range r.Hits {
		out = append(out, h.Path)
	}
	return out
}

func TestRetrieverByWords(t *testing.T) {
	t.Parallel()
	r, err := retrieval.New(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Put(t.Context(), file("a.go", "package a\n// logs requests of the server\n"), file("b/b.go", "package b\n// draws a circle\n")))
	got, err := r.Search(t.Context(), "who logs requests?", 5, retrieval.Filter{})
	require.NoError(t, err)
	require.True(t, got.WordsOnly)
	require.Equal(t, []string{"a.go"}, paths(got))
	got, err = r.Search(t.Context(), "circle", 5, retrieval.Filter{})
	require.NoError(t, err)
	require.Equal(t, []string{"b/b.go"}, paths(got))
	require.Equal(t, []string{"circle"}, r.Suggest("cir", 3))
	require.NoError(t, r.Save())
	require.NoError(t, r.Prune(t.Context()))
}

// Files are found by words and by meaning, and are embedded only when they change.
func TestRetriever(t *testing.T) {
	t.Parallel()
	e := &fakeEmbedder{dim: 64}
	path := filepath.Join(t.TempDir(), "vectors")
	begin := func() *retrieval.Retriever {
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e), retrieval.WithFile(path))
		require.NoError(t, err)
		require.NoError(t, r.LoadError())
		return r
	}
	files := []retrieval.File{
		file("log.go", "package a\n// logging writes requests\n"), file("draw/circle.go", "package b\n// draws a circle\n"),
		file("draw/square.go", "package b\n// draws a square\n"), file("copy.go", "package a\n// logging writes requests\n"),
	}
	r := begin()
	require.NoError(t, r.Put(t.Context(), files...))
	require.Equal(t, 1, e.calls, "one request for all")
	got, err := r.Search(t.Context(), "circle", 2, retrieval.Filter{})
	require.NoError(t, err)
	require.False(t, got.WordsOnly)
	require.Equal(t, "draw/circle.go", got.Hits[0].Path)
	require.InDelta(t, 1.0/61+0.5/61, got.Hits[0].Score, 1e-9)
	got, err = r.Search(t.Context(), "writing", 3, retrieval.Filter{}) // not a word of any, but pieces of it are
	require.NoError(t, err)
	require.Contains(t, paths(got)[:2], "log.go")
	got, err = r.Search(t.Context(), "circle", 9, retrieval.Filter{Path: "draw"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"draw/circle.go", "draw/square.go"}, paths(got))

	calls := e.calls
	require.NoError(t, r.Put(t.Context(), files...))
	require.Equal(t, calls, e.calls, "nothing has changed")
	require.NoError(t, r.Put(t.Context(), file("log.go", "package a\n// paints a triangle\n")))
	require.NoError(t, r.Remove(t.Context(), "draw/square.go", "none.go"))
	got, err = r.Search(t.Context(), "square triangle requests", 9, retrieval.Filter{})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"log.go", "copy.go", "draw/circle.go"}, paths(got))
	nFiles, nChunks, vectors := r.Stats()
	require.Equal(t, "3 3 3", fmt.Sprint(nFiles, nChunks, vectors.Items))
	require.NoError(t, r.Save())

	// Another process embeds only what is not in the file, and finds nothing that is not there any more.
	calls = e.calls
	r = begin()
	require.NoError(t, r.Put(t.Context(), files[1], file("log.go", "package a\n// paints a triangle\n")))
	require.Equal(t, calls, e.calls)
	got, err = r.Search(t.Context(), "requests triangle", 9, retrieval.Filter{})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"log.go", "draw/circle.go"}, paths(got))
	require.NoError(t, r.Prune(t.Context()))
	_, _, vectors = r.Stats()
	require.Equal(t, 2, vectors.Items)

	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	damaged, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e), retrieval.WithFile(path))
	require.NoError(t, err)
	_, ok := errors.AsType[*retrieval.DamageError](damaged.LoadError())
	require.True(t, ok)
	require.NoError(t, damaged.Put(t.Context(), files...))
}

// A failed embedding is an error and adds no vector, and the file is found by words.
func TestFailedEmbedding(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, e := range map[string]*fakeEmbedder{
		"error":     {fail: func(int) error { return broken }},
		"too few":   {bad: func(v [][]float32) [][]float32 { return v[1:] }},
		"zero":      {bad: func(v [][]float32) [][]float32 { clear(v[0]); return v }},
		"NaN":       {bad: func(v [][]float32) [][]float32 { v[0][3] = float32(math.NaN()); return v }},
		"dimension": {bad: func(v [][]float32) [][]float32 { v[0] = v[0][1:]; return v }},
	} {
		e.dim = 16
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
		require.NoError(t, err)
		require.Error(t, r.Put(t.Context(), file("a.go", "package a")), name)
		nFiles, _, vectors := r.Stats()
		require.Equal(t, 1, nFiles, name)
		require.Zero(t, vectors.Items, name)
		got, err := r.Search(t.Context(), "package", 3, retrieval.Filter{})
		require.Error(t, err, name)
		require.Equal(t, []string{"a.go"}, paths(got), name)
		require.True(t, got.WordsOnly)
		require.Equal(t, 1, got.Pending)
		e.fail, e.bad = nil, nil
		require.NoError(t, r.Embed(t.Context()), name)
		got, err = r.Search(t.Context(), "package", 3, retrieval.Filter{})
		require.NoError(t, err, name)
		require.Zero(t, got.Pending)
		require.False(t, got.WordsOnly)
	}
}

// A text that the embedder refuses keeps no other from getting a vector, and is not sent again unless the host asks for it.
func TestRefusedTexts(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"bad":      &aycoder.BadRequestError{ModelError: &aycoder.ModelError{Provider: "x", Status: 400}},
		"too long": &aycoder.ContextTooLargeError{ModelError: &aycoder.ModelError{Provider: "x", Status: 413}},
	} {
		e := &fakeEmbedder{dim: 16}
		e.refuse = func(text string) error {
			if strings.Contains(text, "long") {
				return refusal
			}
			return nil
		}
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
		require.NoError(t, err)
		var files []retrieval.File
		for i := range 200 {
			files = append(files, file(fmt.Sprintf("f%03d.go", i), fmt.Sprintf("package p%d", i)))
		}
		files = append(files, file("a.go", "package long"), file("f100b.go", "package long"))
		err = r.Put(t.Context(), files...)
		require.ErrorIs(t, err, refusal, name)
		require.ErrorContains(t, err, "a.go", name)
		_, _, vectors := r.Stats()
		require.Equal(t, 200, vectors.Items, name)
		require.Less(t, e.calls, 50, name)
		got, err := r.Search(t.Context(), "p7", 3, retrieval.Filter{})
		require.NoError(t, err)
		require.Equal(t, 2, got.Pending, name)

		e.calls = 0
		require.NoError(t, r.Put(t.Context(), file("new.go", "package new")), name)
		require.Equal(t, 1, e.calls, name)
		require.ErrorIs(t, r.Embed(t.Context()), refusal, name)
		require.NoError(t, r.Put(t.Context(), file("a.go", "package short"), file("f100b.go", "package short")), name)
		_, _, vectors = r.Stats()
		require.Equal(t, 203, vectors.Items, name)

		e.refuse = func(string) error { return refusal }
		e.calls = 0
		for i := range files {
			files[i].Source = append(files[i].Source, " // changed"...)
		}
		require.ErrorIs(t, r.Put(t.Context(), files...), refusal, name)
		require.Less(t, e.calls, 20, "%s: all are refused", name)
	}
}

// The time of embedding grows with the number of chunks, and not with its square.
func TestEmbeddingIsLinear(t *testing.T) {
	timed.Serial(t)
	put := func(n int) time.Duration {
		e, number := &fakeEmbedder{dim: 4}, float32(0)
		e.bad = func(vectors [][]float32) [][]float32 { // all different
			for _, v := range vectors {
				number++
				v[0], v[1] = number, 1
			}
			return vectors
		}
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
		require.NoError(t, err)
		var files []retrieval.File
		for i := range n {
			files = append(files, file(fmt.Sprintf("f%d.go", i), fmt.Sprintf("package p%d", i)))
		}
		start := timed.CPU()
		require.NoError(t, r.Put(t.Context(), files...))
		return timed.CPU() - start
	}
	const few, times = 4000, 8
	timed.AtMost(t, put(few*times), 2*times*put(few), "32,000 chunks, compared with 4,000")
}

// A service that is busy is asked again, one that refuses is not.
func TestEmbeddingRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := &aycoder.RateLimitError{ModelError: &aycoder.ModelError{Provider: "x"}, RetryAfter: 10 * time.Second}
		e := &fakeEmbedder{dim: 16, fail: func(call int) error {
			if call < 3 {
				return busy
			}
			return nil
		}}
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, r.Put(t.Context(), file("a.go", "package a")))
		require.Equal(t, 3, e.calls)
		took := time.Since(start)
		require.True(t, took >= 20*time.Second && took <= 22*time.Second, "%v", took)

		e.fail = func(int) error { return busy }
		err = r.Put(t.Context(), file("b.go", "package b"))
		require.ErrorIs(t, err, busy)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = r.Put(ctx, file("c.go", "package c"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, busy)

		e.calls = 0
		e.fail = func(int) error { return &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "x"}} }
		require.Error(t, r.Put(t.Context(), file("d.go", "package d")))
		require.Equal(t, 1, e.calls)
	})
}

// Many texts are sent in several requests, equal ones once, and to a remote embedder without secrets.
func TestEmbeddingBatches(t *testing.T) {
	t.Parallel()
	e := &fakeEmbedder{dim: 16}
	r, err := retrieval.New(t.Context(), retrieval.WithRemoteEmbedder(e))
	require.NoError(t, err)
	var files []retrieval.File
	for i := range 100 {
		files = append(files, file(fmt.Sprintf("f%d.go", i), fmt.Sprintf("package p%d", i)))
	}
	secret := "ghp_" + strings.Repeat("a1B2c3D4e5", 4)[:36]
	files = append(files, file("s.go", "token := \""+secret+"\"\n"), file("s.go", "token := \""+secret+"\"\n"))
	require.NoError(t, r.Put(t.Context(), files...))
	require.Equal(t, 2, e.calls)
	require.Len(t, e.sent, 101)
	require.NotContains(t, strings.Join(e.sent, "\n"), secret)
	require.Contains(t, e.sent[100], "[secret:")
	_, err = r.Search(t.Context(), "who has "+secret+"?", 1, retrieval.Filter{})
	require.NoError(t, err)
	require.NotContains(t, strings.Join(e.sent, "\n"), secret)
	calls := e.calls
	_, err = r.Search(t.Context(), "who has "+secret+"?", 1, retrieval.Filter{})
	require.NoError(t, err)
	require.Equal(t, calls, e.calls, "the query is known")
}

func TestNoEmbedder(t *testing.T) {
	_, err := retrieval.New(t.Context(), retrieval.WithEmbedder(nil))
	require.ErrorContains(t, err, "embedder is nil")
}

func Example() {
	ctx := context.Background()
	r, err := retrieval.New(ctx) // by words only; see WithEmbedder
	if err != nil {
		fmt.Println(err)
		return
	}
	src := []byte("package server\n\n// Close waits for all open requests.\nfunc (s *HTTPServer) Close() error { return nil }\n")
	if err := r.Put(ctx, retrieval.File{Path: "server/close.go", Source: src, Facts: source.Scan(source.Go, src, source.All)}); err != nil {
		fmt.Println(err)
		return
	}
	result, err := r.Search(ctx, "close the http servre", 3, retrieval.Filter{Language: source.Go})
	for _, h := range result.Hits {
		fmt.Printf("%s:%d-%d\n", h.Path, h.Line, h.EndLine)
	}
	fmt.Println("words only:", result.WordsOnly, err)
	// Output:
	// server/close.go:1-4
	// words only: true <nil>
}

// during is a context that does something when it is asked for its error, once.
type during struct {
	context.Context
	do func()
}

func (d *during) Err() error {
	if do := d.do; do != nil {
		d.do = nil
		do()
	}
	return d.Context.Err()
}

// A file that is removed and put again while its vectors are being added has vectors in the end.
func TestPutWhileEmbedding(t *testing.T) {
	t.Parallel()
	ctx, done := &during{Context: t.Context()}, false
	e := &fakeEmbedder{dim: 8}
	r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
	require.NoError(t, err)
	again := func() {
		done = true
		none, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, r.Remove(t.Context(), "a.go"))
		require.ErrorIs(t, r.Put(none, file("a.go", "package a\n")), context.Canceled) // without its vector
	}
	e.bad = func(v [][]float32) [][]float32 {
		if !done {
			ctx.do = again
		}
		return v
	}
	require.NoError(t, r.Put(ctx, file("a.go", "package a\n")))
	require.True(t, done)
	_, chunks, vectors := r.Stats()
	require.Equal(t, []int{1, 1}, []int{chunks, vectors.Items})
}
