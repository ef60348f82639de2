package bedrock_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/bedrock"
)

// The example uses a local server; leave out WithBaseURL and set a region to use
// Amazon's.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path)
		io.WriteString(w, `{"output":{"message":{"role":"assistant","content":[{"text":"A monoid, of course."}]}},
			"stopReason":"end_turn","usage":{"inputTokens":9,"outputTokens":6,"totalTokens":15}}`)
	}))
	defer service.Close()

	client, err := bedrock.New("amazon.nova-lite-v1:0",
		bedrock.WithAPIKey("example"), bedrock.WithBaseURL(service.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := aycoder.Complete(context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Text())
	fmt.Printf("%s, %d tokens in, %d out\n", resp.Stop, resp.Usage.Input, resp.Usage.Output)
	// Output:
	// /model/amazon.nova-lite-v1:0/converse-stream
	// A monoid, of course.
	// end_turn, 9 tokens in, 6 out
}

// A signer adds the signature that AWS requires. A real one computes Signature Version 4,
// for which the AWS SDK has a package.
type signer struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (s signer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=…")
	return s.next.RoundTrip(r)
}

// The caller's HTTP client signs the requests, so this package does not need an SDK.
func ExampleWithHTTPClient() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Authorization"))
		w.Header().Set("X-Amzn-ErrorType", "ThrottlingException")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"message":"Too many requests"}`)
	}))
	defer service.Close()

	client, err := bedrock.New("amazon.nova-lite-v1:0", bedrock.WithBaseURL(service.URL),
		bedrock.WithHTTPClient(&http.Client{Transport: signer{http.DefaultTransport}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = aycoder.Complete(context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("Hello?")},
	})
	fmt.Println(err)
	// Output:
	// AWS4-HMAC-SHA256 Credential=…
	// bedrock amazon.nova-lite-v1:0: rate limited (status 429): Too many requests
}
