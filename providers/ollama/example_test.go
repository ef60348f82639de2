package ollama_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/ollama"
)

// The example uses its own server; leave out WithBaseURL to use the Ollama of this
// machine.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"model":"qwen3:8b","message":{"role":"assistant","content":"A monoid, "},"done":false}`)
		fmt.Fprintln(w, `{"model":"qwen3:8b","message":{"role":"assistant","content":"of course."},"done":false}`)
		fmt.Fprintln(w, `{"model":"qwen3:8b","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":6}`)
	}))
	defer service.Close()

	client, err := ollama.New("qwen3:8b", ollama.WithContextLength(65536), ollama.WithBaseURL(service.URL))
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

// A pull reports its progress.
func ExampleClient_Pull() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"status":"pulling manifest"}`)
		fmt.Fprintln(w, `{"status":"pulling 7cd4618c1faf","digest":"sha256:7cd4618c1faf","total":815310432,"completed":407655216}`)
		fmt.Fprintln(w, `{"status":"success"}`)
	}))
	defer service.Close()

	client, err := ollama.New("gemma3:1b", ollama.WithBaseURL(service.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	for p, err := range client.Pull(context.Background(), "gemma3:1b") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(p.Status)
		if p.Total > 0 {
			fmt.Printf(" %d %%", 100*p.Completed/p.Total)
		}
		fmt.Println()
	}
	// Output:
	// pulling manifest
	// pulling 7cd4618c1faf 50 %
	// success
}

// The context that a model supports is not the one in force, which is known when it was
// set, or when the model is loaded.
func ExampleClient_Show() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"parameters":"temperature 0.6","capabilities":["completion","tools","thinking"],`+
			`"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960}}`)
	}))
	defer service.Close()

	client, err := ollama.New("qwen3:8b", ollama.WithBaseURL(service.URL), ollama.WithContextLength(32768))
	if err != nil {
		fmt.Println(err)
		return
	}
	details, err := client.Show(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	info, _ := client.ModelInfo("")
	fmt.Println(details.Context, details.Has("tools"), info.Context)
	// Output: 40960 true 32768
}

// Find looks for a server on this machine, and at the address in OLLAMA_HOST.
func ExampleFind() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"version":"0.12.6"}`)
	}))
	defer service.Close()

	base, err := ollama.Find(context.Background(), ollama.WithBaseURL(service.URL)) // leave it out
	fmt.Println(base == service.URL, err)
	// Output: true <nil>
}
