package webhook_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/aycoder/aycoder/server/webhook"
)

// A receiver checks the signature. The sender stores the event, and delivers it until the receiver has accepted it.
func Example() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	done := make(chan string)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		if err := webhook.Verify([]string{secret}, r.Header, body, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		done <- string(body)
	}))
	defer receiver.Close()

	dir, err := os.MkdirTemp("", "webhooks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	hooks, err := webhook.Open(dir, webhook.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer hooks.Close()
	// The receiver is on this machine.
	if err := hooks.Register(webhook.Endpoint{ID: "ci", URL: receiver.URL, AllowPrivate: true, Secrets: []string{secret}}); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- hooks.Run(ctx) }()
	if _, err := hooks.Send(webhook.Event{Type: "build.passed", Time: time.Unix(0, 0), Data: map[string]any{"number": 7}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-done)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// {"type":"build.passed","timestamp":"1970-01-01T00:00:00Z","version":1,"data":{"number":7}}
	// context canceled
}
