package retrieval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/retrieval"
	"github.com/aycoder/aycoder/workspace"
)

const secret = "ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3"

// shop makes a workspace with some files, and its tool.
func shop(t testing.TB, opts ...retrieval.Option) (tool aycoder.Tool, dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "cart/cart.go", "package cart\n\n// Add puts goods into the cart.\nfunc (c *Cart) Add(good string) {\n\tc.n++\n}\n")
	write(t, dir, "pay/pay.py", "def charge(card):\n    '''Takes the money from a card.'''\n    token = \""+secret+"\"\n")
	write(t, dir, ".env", "CARD_TOKEN="+secret+"\n")
	write(t, dir, ".env.py", "card_money = 1\n")
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	g, err := codegraph.New(ws)
	require.NoError(t, err)
	r, err := retrieval.New(t.Context(), opts...)
	require.NoError(t, err)
	tool, err = retrieval.Tool(r, g, ws)
	require.NoError(t, err)
	return tool, dir
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
}

func ask(t testing.TB, tool aycoder.Tool, args map[string]any) string {
	t.Helper()
	data, err := json.Marshal(args)
	require.NoError(t, err)
	result, err := tool.Call(t.Context(), aycoder.NewInvocation("1", "semantic_search", data, nil))
	require.NoError(t, err)
	return result.Parts[0].(*aycoder.Text).Text
}

func TestToolKeepsTheContract(t *testing.T) {
	t.Parallel()
	agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
		tool, dir := shop(t)
		return agenttest.ToolSetup{Tool: tool, Dir: dir}
	},
		agenttest.ToolCase{Name: "words", Args: `{"query":"put goods in a cart"}`, Want: "cart/cart.go:1-6 method Cart.Add\n    1: package cart\n"},
		agenttest.ToolCase{Name: "mistyped", Args: `{"query":"mnoey"}`, Want: "pay/pay.py:1-3 func charge"},
		agenttest.ToolCase{Name: "filter", Args: `{"query":"money goods","path":"cart","language":"go","kind":"method"}`, Want: "cart/cart.go"},
		agenttest.ToolCase{Name: "half-typed", Args: `{"query":"sell goo"}`, Want: "Nothing was found.\nPerhaps it is: sell good, sell goods\n"},
		agenttest.ToolCase{Name: "other language", Args: `{"query":"goods","language":"python"}`, Want: "Nothing was found."},
		agenttest.ToolCase{Name: "everywhere", Args: `{"query":"goods","path":"."}`, Want: "cart/cart.go"},
		agenttest.ToolCase{Name: "outside", Args: `{"query":"goods","path":"../x"}`, Want: "outside", Fails: true},
		agenttest.ToolCase{Name: "in other words", Args: `{"query":"charge money","language":"PY","kind":"Func"}`, Want: "pay/pay.py"},
		agenttest.ToolCase{Name: "no such language", Args: `{"query":"goods","language":"cobol"}`, Want: "there is no code in \"cobol\", but in go, python", Fails: true},
		agenttest.ToolCase{Name: "no such kind", Args: `{"query":"goods","kind":"function"}`, Want: "there is no kind \"function\", but class, const, field, func", Fails: true},
		agenttest.ToolCase{Name: "empty", Args: `{"query":" "}`, Want: "the query is empty", Fails: true},
	)
}

// Where there is no code, none is in a language.
func TestToolWithoutCode(t *testing.T) {
	t.Parallel()
	tool, dir := shop(t)
	require.NoError(t, errors.Join(os.RemoveAll(filepath.Join(dir, "cart")), os.RemoveAll(filepath.Join(dir, "pay"))))
	require.Contains(t, ask(t, tool, map[string]any{"query": "goods", "language": "go"}), "Nothing was found.")
}

// The tool answers from the files as they are now.
func TestToolLooksFirst(t *testing.T) {
	t.Parallel()
	tool, dir := shop(t)
	require.Contains(t, ask(t, tool, map[string]any{"query": "goods", "path": filepath.Join(dir, "cart")}), "cart/cart.go")
	require.Contains(t, ask(t, tool, map[string]any{"query": "goods"}), "cart/cart.go")
	write(t, dir, "cart/cart.go", "package cart\n\n// Drop empties it.\nfunc Drop() {}\n")
	write(t, dir, "new.go", "package main\n\nfunc goodsOf() {}\n")
	got := ask(t, tool, map[string]any{"query": "goods"})
	require.Contains(t, got, "new.go:1-3 func goodsOf\n    1: package main\n    2:\n    3: func goodsOf() {}\nThere is no embedder")
	require.NotContains(t, got, "cart.go")
	require.NoError(t, os.Remove(filepath.Join(dir, "new.go")))
	require.Contains(t, ask(t, tool, map[string]any{"query": "goods"}), "Nothing was found.")
}

// Results are bounded, and of a long chunk the declaration is shown and the lines that fit the query.
func TestToolBoundsItsResult(t *testing.T) {
	t.Parallel()
	tool, dir := shop(t)
	for i := range 40 {
		write(t, dir, fmt.Sprintf("many%d.go", i), "package a\n\nfunc long() {\n"+strings.Repeat("\tx++\n", 30)+
			"\tneedle := \""+strings.Repeat("z", 900)+"\"\n"+strings.Repeat("\ty++\n", 20)+"}\n")
	}
	got := ask(t, tool, map[string]any{"query": "needle", "limit": 30})
	require.Less(t, len(got), 25<<10)
	require.Contains(t, got, "    3: func long() {\n")
	require.Contains(t, got, "    34: \tneedle := \"zzz")
	require.NotContains(t, got, "    20: ")
	require.Equal(t, 8, strings.Count(ask(t, tool, map[string]any{"query": "needle"}), "func long()\n")+
		strings.Count(ask(t, tool, map[string]any{"query": "needle"}), "func long\n"))
}

// Neither the model nor the embedder sees the files and the secrets that are kept back.
func TestToolKeepsSecrets(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{true, false} {
		e := &fakeEmbedder{dim: 32}
		option := retrieval.WithRemoteEmbedder(e)
		if local {
			option = retrieval.WithEmbedder(e)
		}
		tool, _ := shop(t, option)
		got := ask(t, tool, map[string]any{"query": "card token " + secret})
		require.Contains(t, got, "pay/pay.py")
		require.Contains(t, got, "[secret:")
		sent := strings.Join(e.sent, "\n")
		require.Contains(t, sent, "[secret:")
		require.NotContains(t, got+sent, secret)
		require.NotContains(t, got+sent, "CARD_TOKEN")
	}
}

// A result says whether all of the code was searched by meaning.
func TestToolIsHonest(t *testing.T) {
	t.Parallel()
	broken := errors.New("the model is broken")
	e := &fakeEmbedder{dim: 32}
	tool, dir := shop(t, retrieval.WithEmbedder(e))
	got := ask(t, tool, map[string]any{"query": "goods"})
	require.NotContains(t, got, "embed")
	e.fail = func(int) error { return broken }
	write(t, dir, "new.go", "package main\n\nfunc goodsOf() {}\n")
	got = ask(t, tool, map[string]any{"query": "goods"})
	require.Contains(t, got, "new.go:1-3")
	require.Contains(t, got, "The embedder failed")
	require.Contains(t, got, "the model is broken")
}

// Making vectors takes a bounded time. The result says how many are missing, and later calls make them.
func TestToolEmbedsInSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := fstest.MapFS{}
		for i := range 150 {
			files[fmt.Sprintf("f%03d.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package a\n\nfunc goods%d() {}\n", i)}
		}
		g, err := codegraph.New(mapFiles{files})
		require.NoError(t, err)
		e := &fakeEmbedder{dim: 32}
		e.fail = func(int) error { <-time.After(6 * time.Second); return nil }
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(e))
		require.NoError(t, err)
		tool, err := retrieval.Tool(r, g, mapFiles{files})
		require.NoError(t, err)
		require.Contains(t, ask(t, tool, map[string]any{"query": "goods7"}), "86 of 150 pieces are not embedded yet")
		require.NotContains(t, ask(t, tool, map[string]any{"query": "goods7"}), "embed")
	})
}

// A search hardly waits for the vectors that the host makes meanwhile.
func TestToolDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := mapFiles{fstest.MapFS{"f.go": {Data: []byte("package a\n\nfunc goods() {}\n")}}}
		g, err := codegraph.New(files)
		require.NoError(t, err)
		e := &fakeEmbedder{dim: 32, fail: func(int) error { <-time.After(time.Minute); return nil }}
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(quickQueries{e}))
		require.NoError(t, err)
		tool, err := retrieval.Tool(r, g, files)
		require.NoError(t, err)
		var host sync.WaitGroup
		host.Go(func() { assert.NoError(t, r.Put(t.Context(), file("other.go", "package other"))) })
		defer host.Wait()
		synctest.Wait()
		start := time.Now()
		got := ask(t, tool, map[string]any{"query": "goods"})
		require.Contains(t, got, "f.go:1-3")
		require.Contains(t, got, "2 of 2 pieces are not embedded yet")
		require.Equal(t, time.Second, time.Since(start))
	})
}

// quickQueries embeds queries at once.
type quickQueries struct{ *fakeEmbedder }

func (e quickQueries) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return hashed(text, e.dim), nil
}

// stuck is an embedder that never answers.
type stuck struct{ *fakeEmbedder }

func (stuck) Embed(ctx context.Context, _ []string) ([][]float32, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// An embedder that does not answer delays a result, and does not prevent it.
func TestToolDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		files := mapFiles{fstest.MapFS{"f.go": {Data: []byte("package a\n\nfunc goods() {}\n")}}}
		g, err := codegraph.New(files)
		require.NoError(t, err)
		r, err := retrieval.New(t.Context(), retrieval.WithEmbedder(stuck{&fakeEmbedder{dim: 32}}))
		require.NoError(t, err)
		tool, err := retrieval.Tool(r, g, files)
		require.NoError(t, err)
		start := time.Now()
		got := ask(t, tool, map[string]any{"query": "goods"})
		require.Contains(t, got, "f.go:1-3")
		require.Contains(t, got, "The embedder failed")
		require.Equal(t, 20*time.Second, time.Since(start))
	})
}

// mapFiles are files in memory.
type mapFiles struct{ fstest.MapFS }

func (m mapFiles) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	return m.MapFS.ReadDir(name)
}

func ExampleTool() {
	files := mapFiles{fstest.MapFS{"server.go": {Data: []byte("package server\n\n// Close waits for all open requests.\nfunc (s *HTTPServer) Close() error { return nil }\n")}}}
	g, err := codegraph.New(files)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := retrieval.New(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	tool, err := retrieval.Tool(r, g, files)
	if err != nil {
		fmt.Println(err)
		return
	}
	inv := aycoder.NewInvocation("1", "semantic_search", json.RawMessage(`{"query":"close the http servre"}`), nil)
	result, err := tool.Call(context.Background(), inv)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(result.Parts[0].(*aycoder.Text).Text)
	// Output:
	// server.go:1-4 method HTTPServer.Close
	//     1: package server
	//     2:
	//     3: // Close waits for all open requests.
	//     4: func (s *HTTPServer) Close() error { return nil }
	// There is no embedder: this was found by words only.
}
