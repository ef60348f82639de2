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

// A thinking model is used through the Responses API. Its reasoning is sent back with the
// result of its call, encrypted, because the service does not store it. The example uses
// a local server; leave out WithBaseURL to use OpenAI's.
func ExampleWithResponses() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []map[string]any }
		_ = json.NewDecoder(r.Body).Decode(&body)
		for _, item := range body.Input {
			fmt.Println("in:", item["role"], item["type"], item["encrypted_content"], item["output"])
		}
		if len(body.Input) == 1 {
			_, _ = io.WriteString(w, `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","encrypted_content":"gAAAA","summary":[]}}

data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"time","arguments":"{}","status":"completed"}}

data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}

`)
			return
		}
		_, _ = io.WriteString(w, `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"It is noon."}]}}

data: {"type":"response.completed","response":{"id":"resp_2","status":"completed","output":[]}}

`)
	}))
	defer service.Close()

	client, err := openai.New("gpt-5", openai.WithResponses(true), openai.WithAPIKey("example"), openai.WithBaseURL(service.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	clock, err := aycoder.NewTool("time", "Tells the time.",
		func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("12:00"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		fmt.Println(err)
		return
	}
	loop, err := aycoder.New(client, aycoder.WithTools(clock))
	if err != nil {
		fmt.Println(err)
		return
	}
	var result aycoder.Result
	for _, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "How late is it?"}, aycoder.Into(&result)) {
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(result.Text())
	// Output:
	// in: user <nil> <nil> <nil>
	// in: user <nil> <nil> <nil>
	// in: <nil> reasoning gAAAA <nil>
	// in: <nil> function_call <nil> <nil>
	// in: <nil> function_call_output <nil> 12:00
	// It is noon.
}

// Extra names server-side tools, in addition to those of the request. Their calls are
// Opaque parts of the answer, and are sent back unchanged.
func ExampleWithPromptCacheKey() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(string(body))
		_, _ = io.WriteString(w, `{"id":"resp_1","status":"completed","output":[
{"type":"web_search_call","id":"ws_1","status":"completed"},
{"type":"message","content":[{"type":"output_text","text":"Rain."}]}]}`)
	}))
	defer service.Close()

	client, err := openai.New("gpt-4.1", openai.WithResponses(true), openai.WithAPIKey("example"), openai.WithBaseURL(service.URL),
		openai.WithPromptCacheKey("weather"), openai.WithExtra("tools", []map[string]string{{"type": "web_search"}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := aycoder.Complete(context.Background(), client, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Weather?")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range res.Message.Parts {
		switch p := p.(type) {
		case *aycoder.Opaque:
			fmt.Println("opaque:", string(p.Raw))
		case *aycoder.Text:
			fmt.Println("text:", p.Text)
		}
	}
	// Output:
	// {"model":"gpt-4.1","stream":true,"store":false,"tools":[{"type":"web_search"}],"prompt_cache_key":"weather","input":[{"role":"user","content":"Weather?"}]}
	// opaque: {"type":"web_search_call","id":"ws_1","status":"completed"}
	// text: Rain.
}
