package google_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/google"
)

// service answers every request with body, as the Gemini API does.
func service(body string, seen func(*http.Request)) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen(r)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, body)
	}))
}

// The example uses a local server; leave out WithBaseURL to use Google's.
func Example() {
	s := service(`data: {"candidates":[{"content":{"parts":[{"text":"A monoid, "}],"role":"model"},"index":0}]}

data: {"candidates":[{"content":{"parts":[{"text":"of course."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":6,"thoughtsTokenCount":20,"totalTokenCount":35}}

`, func(*http.Request) {})
	defer s.Close()

	client, err := google.New("gemini-3-flash-preview", google.WithAPIKey("example"), google.WithBaseURL(s.URL))
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
			fmt.Printf("\n%s, %d tokens in, %d out, %d of them thoughts\n",
				ev.Stop, ev.Usage.Input, ev.Usage.Output, ev.Usage.Reasoning)
		}
	}
	// Output:
	// A monoid, of course.
	// end_turn, 9 tokens in, 26 out, 20 of them thoughts
}

// Vertex AI needs a bearer token, which the host provides. Leave out WithBaseURL to use
// the endpoint of the location.
func ExampleWithVertex() {
	s := service(`data: {"candidates":[{"content":{"parts":[{"text":"Hi!"}]},"finishReason":"STOP"}]}

`, func(r *http.Request) {
		fmt.Println(r.URL)
		fmt.Println(r.Header.Get("Authorization"))
	})
	defer s.Close()

	client, err := google.New("gemini-2.5-pro",
		google.WithVertex("my-project", "europe-west4"),
		google.WithTokenSource(func(context.Context) (string, error) { return "example", nil }),
		google.WithBaseURL(s.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := aycoder.Complete(context.Background(), client,
		&aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hello")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text())
	// Output:
	// /projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse
	// Bearer example
	// Hi!
}
