package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// After an edit, the model learns which errors it has made. A host names a real server: lsp.Known("gopls"). This one is a
// stand-in, for which a line "error: …" is an error.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "shop.fake"), []byte("error: an old one\n"), 0o600)
	ws, err := workspace.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ws.Close()
	client, err := lsp.New(ws, lsp.WithServer(lsp.Server{
		Command:   []string{os.Args[0]},
		Languages: map[string]string{".fake": "fake"},
		Env:       []string{"AYCODER_FAKE_SERVER=good"},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	edit, err := tools.EditFile(ws)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A loop calls the tools through the middleware, which it gets by aycoder.WithToolMiddleware.
	call := client.Middleware(edit.Call)
	args, _ := json.Marshal(map[string]string{
		"path": "shop.fake", "old_string": "error: an old one", "new_string": "cart\nerror: an old one\nerror: undefined: pric"})
	result, err := call(context.Background(), aycoder.NewInvocation("call_1", "edit_file", args, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(result.Text())
	// Output:
	// diff --git a/shop.fake b/shop.fake
	// --- a/shop.fake
	// +++ b/shop.fake
	// @@ -1 +1,3 @@
	// +cart
	//  error: an old one
	// +error: undefined: pric
	//
	// written; new errors:
	// shop.fake:3: undefined: pric (E1)
}

// A server runs in the sandbox of the commands, which the options of the tools may have.
func ExampleWithStart() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ws, err := workspace.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ws.Close()
	gopls, _ := lsp.Known("gopls")
	start, err := tools.LocalStart() // with tools.WithSandbox, for example
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lsp.New(ws, lsp.WithServer(gopls), lsp.WithStart(start))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	list, err := client.Tools()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range list {
		fmt.Println(t.Spec().Name)
	}
	// Output:
	// definition
	// references
	// rename
}
