package codegraph_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// shop returns the graph of a workspace with three packages.
func shop() (g *codegraph.Graph, s *codegraph.Snapshot, done func()) {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":           "module example.com/shop\n",
		"main.go":          "package main\n\nimport \"example.com/shop/cart\"\n\nfunc main() { cart.New().Add(\"tea\") }\n",
		"cart/cart.go":     "package cart\n\nimport \"example.com/shop/price\"\n\n// Cart holds goods.\ntype Cart struct{ total int }\n\n// New returns an empty cart.\nfunc New() *Cart { return &Cart{} }\n\n// Add adds a good.\nfunc (c *Cart) Add(good string) {\n\tc.total += price.Of(good)\n}\n",
		"price/price.go":   "package price\n\n// Of returns the price of a good.\nfunc Of(good string) int {\n\tsum := 0\n\tfor _, letter := range good {\n\t\tsum += int(letter) % 26 * 100\n\t}\n\treturn sum\n}\n",
		"price/unused.go":  "package price\n\nfunc unused() {}\n",
		"docs/overview.md": "A shop.\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	if g, err = codegraph.New(ws); err != nil {
		log.Fatal(err)
	}
	if s, err = g.Refresh(context.Background()); err != nil {
		log.Fatal(err)
	}
	return g, s, func() {
		ws.Close()
		os.RemoveAll(dir)
	}
}

// A graph says which files depend on a file, in which order to read them, and by what chain.
func Example() {
	_, s, done := shop()
	defer done()
	fmt.Println("users of price:", s.Dependents("price/price.go"))
	fmt.Println("in order:", s.Order())
	fmt.Println("why:", strings.Join(s.Why("main.go", "price/price.go"), " → "))
	fmt.Println("imports:", s.Imports("main.go"))
	fmt.Println("uses:", s.References("main.go"))
	fmt.Println("found:", s.Find("prc", 1)[0].Path)
	// Output:
	// users of price: [cart/cart.go]
	// in order: [price/price.go cart/cart.go main.go price/unused.go]
	// why: main.go → cart/cart.go → price/price.go
	// imports: [{cart/ 0 false}]
	// uses: [{cart/cart.go Add 1} {cart/cart.go New 1}]
	// found: price/price.go
}

// A context shows what the files in play use, in as much detail as the budget allows.
func ExampleGraph_Context() {
	g, s, done := shop()
	defer done()
	c, err := g.Context(context.Background(), s, codegraph.Focus{Files: []string{"cart/cart.go"}, Known: true, Budget: 30})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(c.Text())
	// Output:
	// == price/price.go (skeleton)
	// // Of returns the price of a good.
	// func Of(good string) int { … }
}

// A drawing shows the parts of a directory. It is also there as DOT and SVG.
func ExampleSnapshot_Draw() {
	_, s, done := shop()
	defer done()
	fmt.Print(s.Draw(".").Mermaid())
	// Output:
	// flowchart LR
	//   n0["cart/"]
	//   n1["main.go"]
	//   n2["price/"]
	//   n0 -->|1| n2
	//   n1 -->|1| n0
}

// When a file comes into play, the model sees what this file uses of others, and what uses it.
func ExampleMiddleware() {
	g, _, done := shop()
	defer done()
	mw, err := codegraph.Middleware(g)
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Say("It adds up prices."))
	loop, err := aycoder.New(model, aycoder.WithContextMiddleware(mw))
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "What does cart/cart.go do?"}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for line := range strings.Lines(model.Requests()[0].Messages[0].Text()) {
		if strings.HasPrefix(line, "== ") {
			fmt.Print(line)
		}
	}
	// Output:
	// == price/price.go (whole)
	// == main.go (whole) imports cart
}

// A map tells a model what it needs to know of a workspace before it looks at any file.
func ExampleGraph_Map() {
	g, s, done := shop()
	defer done()
	text, err := g.Map(context.Background(), s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
	// Output:
	// Projects: Go module example.com/shop
	// Source files: 4 go
	// Directories that most files use: cart (1 file, used by 1), price (2 files, used by 1)
	// Programs: main.go
	// Commands found: go build ./...; go test ./...
}
