package codegraph_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/stretchr/testify/require"
)

var shopFiles = []string{
	"go.mod", goMod,
	"main.go", "package main\n\nimport \"example.com/m/cart\"\n\nfunc main() { cart.New().Add(\"tea\") }\n",
	"cart/cart.go", "package cart\n\n// Cart holds goods.\ntype Cart struct{ n int }\n\n// New returns a cart.\nfunc New() *Cart { return &Cart{} }\n\nfunc (c *Cart) Add(good string) {\n\tc.n++\n}\n",
	"other.txt", "text\n",
}

// toolNamed returns a tool of a graph.
func toolNamed(t testing.TB, g *codegraph.Graph, name string) aycoder.Tool {
	tools, err := codegraph.Tools(g)
	require.NoError(t, err)
	i := slices.IndexFunc(tools, func(tool aycoder.Tool) bool { return tool.Spec().Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return tools[i]
}

func TestToolsKeepTheContract(t *testing.T) {
	for _, c := range []struct {
		tool  string
		cases []agenttest.ToolCase
	}{
		{"outline", []agenttest.ToolCase{
			{Name: "go", Args: `{"path":"cart/cart.go"}`, Want: "9-11: func (c *Cart) Add(good string)"},
			{Name: "text", Args: `{"path":"other.txt"}`, Want: "read it instead", Fails: true},
			{Name: "missing", Args: `{"path":"cart/crt.go"}`, Want: "did you mean cart/cart.go?", Fails: true},
			{Name: "outside", Args: `{"path":"../x.go"}`, Want: "there is no file", Fails: true},
			{Name: "from the root", Args: `{"path":"/cart/cart.go"}`, Want: "func (c *Cart) Add"},
		}},
		{"symbol", []agenttest.ToolCase{
			{Name: "function", Args: `{"name":"New"}`, Want: "cart/cart.go:7\n    // New returns a cart.\n    func New() *Cart { return &Cart{} }\n  used by main.go (1)"},
			{Name: "method", Args: `{"name":"Cart.Add"}`, Want: "cart/cart.go:9"},
			{Name: "method of Rust", Args: `{"name":"shop::Cart::Add"}`, Want: "cart/cart.go:9"},
			{Name: "method of Go", Args: `{"name":"(*Cart).Add()"}`, Want: "cart/cart.go:9"},
			{Name: "generic method", Args: `{"name":"*Cart[K, V].Add(map[string](int), int)"}`, Want: "cart/cart.go:9"},
			{Name: "template", Args: `{"name":"(Cart<K, Vec<V>>)::Add"}`, Want: "cart/cart.go:9"},
			{Name: "import path", Args: `{"name":"example.com/m/cart.New"}`, Want: "cart/cart.go:7"},
			{Name: "below", Args: `{"name":"main","path":"./cart/"}`, Want: "no declaration of \"main\" was found in cart; similar names: main in main.go", Fails: true},
			{Name: "unknown", Args: `{"name":"crt"}`, Want: "similar names: Cart", Fails: true},
			{Name: "unknown method", Args: `{"name":"Crt::Add"}`, Want: "similar names: Add", Fails: true},
		}},
		{"dependencies", []agenttest.ToolCase{
			{Name: "some", Args: `{"path":"main.go"}`, Want: "cart/cart.go: Add, New"},
			{Name: "none", Args: `{"path":"cart/cart.go"}`, Want: "depends on no other file"},
		}},
		{"dependents", []agenttest.ToolCase{
			{Name: "some", Args: `{"path":"cart/cart.go"}`, Want: "main.go: Add, New"},
			{Name: "none", Args: `{"path":"main.go"}`, Want: "No other file"},
		}},
		{"why", []agenttest.ToolCase{
			{Name: "chain", Args: `{"from":"main.go","to":"cart/cart.go"}`, Want: "main.go uses of the next: Add, New\ncart/cart.go\n"},
			{Name: "none", Args: `{"from":"cart/cart.go","to":"main.go"}`, Want: "does not depend"},
		}},
		{"find_file", []agenttest.ToolCase{
			{Name: "declaration", Args: `{"query":"cartad"}`, Want: ""},
			{Name: "file", Args: `{"query":"crt.go"}`, Want: "cart/cart.go"},
			{Name: "from here", Args: `{"query":"./cart/cart.go"}`, Want: "cart/cart.go"},
			{Name: "other case", Args: `{"query":"Crt.go"}`, Want: "cart/cart.go"},
			{Name: "none", Args: `{"query":"zzz"}`, Want: "Nothing"},
		}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
				g, dir := open(t, shopFiles...)
				return agenttest.ToolSetup{Tool: toolNamed(t, g, c.tool), Dir: dir}
			}, c.cases...)
		})
	}
}

// A tool answers from the files as they are now, and with a bounded text.
func TestToolsLookFirst(t *testing.T) {
	g, dir := open(t, shopFiles...)
	ask := func(name, args string) string {
		inv := aycoder.NewInvocation("1", name, json.RawMessage(args), nil)
		res, err := toolNamed(t, g, name).Call(context.Background(), inv)
		require.NoError(t, err)
		return res.Parts[0].(*aycoder.Text).Text
	}
	require.Contains(t, ask("dependents", `{"path":"cart/cart.go"}`), "main.go")
	write(t, dir, "goods/tea.py", "def brew():\n    pass\n")
	require.Contains(t, ask("symbol", `{"name":"goods.tea.brew"}`), "goods/tea.py:1")
	write(t, dir, "goods/__init__.py", "")
	require.Equal(t, "goods/__init__.py declares nothing, and imports no file of the workspace.\n", ask("outline", `{"path":"goods/__init__.py"}`))
	require.Contains(t, ask("symbol", `{"name":"goods.brew"}`), "goods/tea.py:1", "as a package exports it")
	file := strconv.Quote(filepath.Join(dir, "cart", "cart.go"))
	require.Contains(t, ask("dependents", `{"path":`+file+`}`), "main.go")
	require.Contains(t, ask("symbol", `{"name":"New","path":`+file+`}`), "cart/cart.go:7")
	require.Contains(t, ask("find_file", `{"query":`+file+`}`), "cart/cart.go\n")
	write(t, dir, "main.go", "package main\n\nfunc main() {}\n")
	write(t, dir, "z.go", "package main\n\nimport _ \"example.com/m/cart\"\n")
	require.Equal(t, "z.go\n", ask("dependents", `{"path":"cart/cart.go"}`))

	var many strings.Builder
	many.WriteString("package main\n")
	for i := range 3000 {
		many.WriteString("\nfunc f" + strings.Repeat("x", i%200) + "() {}\n")
	}
	write(t, dir, "many.go", many.String())
	out := ask("outline", `{"path":"many.go"}`)
	require.Less(t, len(out), 30_000)
	require.Contains(t, out, "more lines are not shown")
}

// A name finds the declaration that it is of, in all forms in which languages, traces and documents write it, and no other.
func TestFormsOfNames(t *testing.T) {
	g, _ := open(t, "cart.go", "package cart\n\nfunc (c *Cart[K]) Add() {}\n", "other.go", "package cart\n\nfunc (c *Other) Add() {}\n",
		"operator/run.go", "package operator\n\nfunc (t *Task) Run() {}\n",
		"cart.cpp", "struct V { bool operator<(V o); V operator*(V o); V operator()(int i); V operator[](int i); };\n")
	for name, want := range map[string]string{
		"(*Cart[K]).Add":               "cart.go:3",
		"example.com/cart.(*Cart).Add": "cart.go:3", // in a trace
		"cart.(*Other[...]).Add":       "other.go:3",
		"cart.(Other).Add":             "other.go:3",
		"Cart::<u8>::Add":              "cart.go:3",
		"m/operator.(*Task).Run(int)":  "operator/run.go:3",
		"V::operator<":                 "cart.cpp:1",
		"V::operator*":                 "cart.cpp:1",
		"V::operator()":                "cart.cpp:1",
		"V<int>::operator[]":           "cart.cpp:1",
	} {
		args, err := json.Marshal(map[string]string{"name": name})
		require.NoError(t, err)
		res, err := toolNamed(t, g, "symbol").Call(t.Context(), aycoder.NewInvocation("1", "symbol", args, nil))
		require.NoError(t, err, name)
		out := res.Parts[0].(*aycoder.Text).Text
		require.Contains(t, out, want, name)
		require.NotContains(t, strings.ReplaceAll(out, want, ""), ".go:3", name)
	}
}

// Declarations in a file of one line are listed, each cut, and a name that is declared very often is shown as often
// as there is room.
func TestToolsBoundTheirResults(t *testing.T) {
	m := &memory{MapFS: map[string]*fstest.MapFile{}}
	m.put("min.js", "function first(a){return a}const table={"+strings.Repeat("key:1,", 10_000)+"};function last(b){return b}\n")
	m.put("many.go", "package a\n"+strings.Repeat("\nfunc same() {}\n", 5000))
	g, err := codegraph.New(m)
	require.NoError(t, err)
	call := func(name, args string) string {
		result, err := toolNamed(t, g, name).Call(t.Context(), aycoder.NewInvocation("1", name, json.RawMessage(args), nil))
		require.NoError(t, err)
		return result.Parts[0].(*aycoder.Text).Text
	}
	out := call("outline", `{"path":"min.js"}`)
	require.Contains(t, out, "function first(a)")
	require.Contains(t, out, "const table={key:1,")
	require.Contains(t, out, "function last(b)")
	require.Less(t, len(out), 1000)
	out = call("symbol", `{"name":"same"}`)
	require.Less(t, len(out), 25<<10)
	require.Contains(t, out, "more lines are not shown")
}
