package middleware_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

func Example() {
	first := script.New(script.Fail(script.Overloaded())).With(script.WithName("big", "b-1"))
	second := script.New(script.Say("Hello.")).With(script.WithName("small", "s-1"))
	loop, err := aycoder.New(first, aycoder.WithModelMiddleware(
		middleware.Fallback(second),
		middleware.RateLimit(middleware.Limits{Requests: 50}),
		middleware.IdleTimeout(time.Minute),
	))
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "Hi"}) {
		switch ev := ev.(type) {
		case *aycoder.Retrying:
			fmt.Println("instead of:", ev.Err)
		case *aycoder.RunFinished:
			fmt.Println(ev.Result.Text())
		case nil:
			fmt.Println(err)
		}
	}
	// Output:
	// instead of: script script: overloaded (status 529): the script says so
	// Hello.
}

func ExampleRetry() {
	model := script.New(
		script.Break(1, nil, script.Say("Once upon a time")),
		script.Fail(script.RateLimited(20*time.Millisecond)),
		script.Say("Hello."),
	)
	client := middleware.Retry(middleware.RetryOptions{
		Policy: aycoder.RetryPolicy{Attempts: 3, Base: time.Millisecond},
		Random: func() float64 { return 0 },
	})(model)
	for ev, err := range client.Stream(context.Background(), &aycoder.Request{}) {
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Printf("%q\n", ev.Text)
		case *aycoder.Retrying:
			fmt.Printf("try %d after %s, forget the text: %t\n", ev.Attempt, ev.After, ev.Discarded)
		case nil:
			fmt.Println(err)
		}
	}
	// Output:
	// "Once "
	// try 1 after 1ms, forget the text: true
	// try 2 after 20ms, forget the text: false
	// "Hello."
}

func ExampleFallback() {
	first := script.New(script.Fail(script.RateLimited(time.Hour))).With(script.WithName("big", "b-1"))
	second := script.New(script.Fail(script.Overloaded())).With(script.WithName("small", "s-1"))
	client := middleware.Fallback(second)(first)
	_, err := aycoder.Complete(context.Background(), client, &aycoder.Request{})
	for text := range strings.SplitSeq(err.Error(), "; ") {
		fmt.Println(text)
	}
	// Output:
	// no client answered: big b-1: script script: rate limited (status 429): the script says so
	// retry after 1h0m0s
	// small s-1: script script: overloaded (status 529): the script says so
}

func ExampleRateLimit() {
	client := middleware.RateLimit(middleware.Limits{Tokens: 1000})(script.New())
	long := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(string(make([]byte, 8000)))}}
	_, err := aycoder.Complete(context.Background(), client, long)
	fmt.Println(err)
	// Output: script script: request of about 3024 tokens: limit of 1000 tokens a minute reached
}

func ExampleIdleTimeout() {
	slow := script.New(script.Say("Hello")).With(script.WithPace(time.Hour))
	client := middleware.IdleTimeout(10 * time.Millisecond)(slow)
	_, err := aycoder.Complete(context.Background(), client, &aycoder.Request{})
	fmt.Println(err)
	// Output: script script: no answer for 10ms
}

func ExampleCache() {
	model := script.New(script.Say("Hello.")) // answers once
	client := middleware.Cache(middleware.NewMemoryStore(64<<20), middleware.CacheOptions{})(model)
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hi")}}
	for range 2 {
		r, err := aycoder.Complete(context.Background(), client, req)
		fmt.Println(r.Text(), r.Usage.Output, err)
	}
	// Output:
	// Hello. 2 <nil>
	// Hello. 0 <nil>
}
