package tokens_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tokens"
)

func ExampleEstimate() {
	fmt.Println(tokens.Estimate("The quick brown fox jumps over the lazy dog."))
	fmt.Println(tokens.Estimate("敏捷的棕色狐狸跳过了懒狗。"))
	// Output:
	// 13
	// 9
}

func Example() {
	counter := tokens.New()
	model := tokens.Model{Provider: "openai", Name: "gpt-5"}
	req := &aycoder.Request{
		System: []*aycoder.Text{{Text: "You are a careful programmer."}},
		Messages: []*aycoder.Message{
			aycoder.User("Which functions does main.go export?"),
			{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
				&aycoder.ToolUse{ID: "1", Name: "read_file", Args: json.RawMessage(`{"path":"main.go"}`)},
			}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: "1", Name: "read_file", Parts: []aycoder.Part{
					&aycoder.Text{Text: "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n"},
				}},
			}},
		},
	}
	n := counter.Estimate(model, req)
	fmt.Printf("about %d tokens, at most %d, %d of them in files\n", n.Tokens, n.Max(), n.Breakdown.Files)

	// The model reports what it counted. Of the next request, only the rest is estimated.
	counter.Observe(model, req, aycoder.Usage{Input: 20, CacheRead: 75})
	n = counter.Estimate(model, req)
	fmt.Printf("about %d tokens, at most %d\n", n.Tokens, n.Max())
	// Output:
	// about 75 tokens, at most 101, 23 of them in files
	// about 95 tokens, at most 96
}

func ExampleTurn_Fits() {
	counter := tokens.New()
	turn := counter.Turn(nil) // a client that can count would be asked in cases of doubt
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Say hello.")}}
	_, small := turn.Fits(context.Background(), req, 10)
	_, large := turn.Fits(context.Background(), req, 100)
	fmt.Println(small, large)
	// Output: false true
}

func ExampleCounter_Scale() {
	counter := tokens.New()
	model := tokens.Model{Provider: "ollama", Name: "tiny"}
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Tell me about the sea.")}}
	for range 3 {
		counter.Observe(model, req, aycoder.Usage{Input: 20})
	}
	factor, margin := counter.Scale(model)
	fmt.Printf("factor %.1f, margin %.1f\n", factor, margin)
	// Output: factor 1.5, margin 1.1
}
