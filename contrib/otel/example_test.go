package otel_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/prom"
	"github.com/aycoder/aycoder/providers/script"
)

// A host mounts the handler where Prometheus reads it.
func Example() {
	p, err := prom.New()
	if err != nil {
		log.Fatal(err)
	}
	t, err := otel.New(otel.Options{Meter: p.Meter})
	if err != nil {
		log.Fatal(err)
	}
	agent, err := aycoder.New(t.Model(script.New(script.Say("Hello."))), aycoder.WithToolMiddleware(t.Tools()))
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range t.Agent(agent, otel.Run{Name: "hello"}).Run(context.Background(), aycoder.Input{Prompt: "Hello?"}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "aycoder_messages_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// aycoder_messages_total{role="assistant"} 1
	// aycoder_messages_total{role="user"} 1
}
