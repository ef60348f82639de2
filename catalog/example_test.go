package catalog_test

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/providers/script"
)

func Example() {
	known := catalog.Default()
	info, ok := known.Lookup("anthropic", "claude-sonnet-4-5-20250929")
	fmt.Println(info.Model, ok)
	fmt.Println(info.Context, info.MaxOutput, info.Tools)

	_, ok = known.Lookup("anthropic", "claude-sonnet-4-5-mini")
	fmt.Println(ok)
	// Output:
	// claude-sonnet-4-5 true
	// 200000 64000 true
	// false
}

// The usage of a response and the price of the model that answered give its cost.
func Example_cost() {
	known := catalog.Default()
	resp := &aycoder.Response{
		Model: "claude-haiku-4-5-20251001",
		Usage: aycoder.Usage{Input: 1_000, CacheRead: 50_000, CacheWrite: 2_000, Output: 400},
	}
	info, ok := known.Lookup("anthropic", resp.Model)
	if !ok || info.Price == nil {
		fmt.Println("unknown price")
		return
	}
	fmt.Printf("$%.4f\n", resp.Usage.Cost(*info.Price))
	// Output: $0.0105
}

func ExampleCatalog_With() {
	known := catalog.Default().With(aycoder.ModelInfo{
		Provider: "anthropic", Model: "claude-haiku-4-5",
		Context: 200_000, MaxOutput: 64_000,
		Price: &aycoder.Price{Input: 0.8, Output: 4, CacheRead: 0.08, CacheWrite: 1},
	})
	info, _ := known.Lookup("anthropic", "claude-haiku-4-5-20251001")
	fmt.Println(info.Price.Input)
	// Output: 0.8
}

func ExampleCatalog_Middleware() {
	var client aycoder.ModelClient = named{script.New(), "openai", "gpt-5.4-mini"}
	client = catalog.Default().Middleware()(client)
	if m, ok := aycoder.As[aycoder.ModelInfoer](client); ok {
		info, _ := m.ModelInfo("")
		fmt.Println(info.Model, info.Context)
	}
	// Output: gpt-5.4-mini 400000
}

func ExampleParse() {
	_, err := catalog.Parse(strings.NewReader(`{"providers": [{
		"provider": "acme",
		"models": [{"model": "acme-1", "context": 8192, "max_output": 9000, "price": {"input": -1, "output": 4}}]
	}]}`))
	fmt.Println(err)
	// Output:
	// parse model catalog: providers[0] (acme).models[0] (acme-1).max_output: 9000 is more than the context of 8192
	// providers[0] (acme).models[0] (acme-1).price.input: -1 is not from 0 to 1e+06
}

func ExampleCatalog_Models() {
	for _, info := range catalog.Default().Models("deepseek") {
		fmt.Println(info.Model)
	}
	// Output:
	// deepseek-chat
	// deepseek-flash
	// deepseek-reasoner
	// deepseek-v4-pro
}
