package anthropic_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
)

// The example uses a local server; leave out WithBaseURL to use Anthropic's.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-4-5","content":[],"usage":{"input_tokens":9}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"A monoid, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"of course."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":6}}

event: message_stop
data: {"type":"message_stop"}

`)
	}))
	defer service.Close()

	client, err := anthropic.New("claude-sonnet-4-5",
		anthropic.WithAPIKey("example"), anthropic.WithBaseURL(service.URL))
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

// On Google Cloud a function provides the token, for example from golang.org/x/oauth2.
// WithBaseURL points to the local server of the example.
func ExampleWithVertex() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path)
		fmt.Println(r.Header.Get("Authorization"))
		io.WriteString(w, `{"type":"message","id":"msg_1","model":"claude-sonnet-4-5","stop_reason":"end_turn",
			"content":[{"type":"text","text":"Hello."}],"usage":{"input_tokens":9,"output_tokens":2}}`)
	}))
	defer service.Close()

	client, err := anthropic.New("claude-sonnet-4-5@20250929",
		anthropic.WithVertex("my-project", "europe-west1"),
		anthropic.WithTokenSource(func(context.Context) (string, error) { return "ya29.token", nil }),
		anthropic.WithBaseURL(service.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := aycoder.Complete(context.Background(), client,
		&aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hello?")}})
	fmt.Println(resp.Text(), err)
	// Output:
	// /v1/projects/my-project/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict
	// Bearer ya29.token
	// Hello. <nil>
}
