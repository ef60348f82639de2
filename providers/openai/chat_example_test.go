package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/openai"
)

// The example uses a local server; leave out WithBaseURL to use OpenAI's.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"id":"chatcmpl-1","model":"gpt-5.1","choices":[{"index":0,"delta":{"role":"assistant","content":"A monoid, "}}]}

data: {"id":"chatcmpl-1","model":"gpt-5.1","choices":[{"index":0,"delta":{"content":"of course."},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","model":"gpt-5.1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15}}

data: [DONE]

`)
	}))
	defer service.Close()

	client, err := openai.New("gpt-5.1", openai.WithAPIKey("example"), openai.WithBaseURL(service.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("What is a monad?")}}
	for ev, err := range client.Stream(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Print(ev.Text)
		case *aycoder.MessageDone:
			fmt.Printf("\n%s, %d tokens in, %d out\n", ev.Stop, ev.Usage.Input, ev.Usage.Output)
		}
	}
	// Output:
	// A monoid, of course.
	// end_turn, 9 tokens in, 6 out
}

// A preset knows the URL of a service and its dialect.
func ExampleOpenRouter() {
	client, err := openai.OpenRouter("moonshotai/kimi-k2", openai.WithAPIKey("example"),
		openai.WithExtra("provider", map[string]any{"sort": "throughput"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client)
	// Output:
	// openrouter.Client(moonshotai/kimi-k2 at https://openrouter.ai/api/v1)
}

// A model that was not trained to call tools calls them in its text.
func ExampleWithXMLTools() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := "Let me look.\n<function=read_file>\n<parameter=path>\ngo.mod\n</parameter>\n</function>"
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{
			map[string]any{"message": map[string]any{"content": text}, "finish_reason": "stop"},
		}})
	}))
	defer service.Close()

	client, err := openai.VLLM("old-model", openai.WithBaseURL(service.URL), openai.WithXMLTools(true))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := aycoder.Complete(context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("Which module is this?")},
		Tools: []*aycoder.ToolSpec{{Name: "read_file", Description: "Reads a file.",
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text())
	for _, call := range resp.Message.Calls() {
		fmt.Println(call.Name, string(call.Args), resp.Stop)
	}
	// Output:
	// Let me look.
	// read_file {"path":"go.mod"} tool_use
}
