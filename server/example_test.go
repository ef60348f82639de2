package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/session"
)

// A host mounts a server, and a client reads the events of a run.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := journal.Memory()
	srv, err := server.New(server.Host{
		Store: func(string) journal.Store { return store },
		Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			model := script.New(script.Say("Use a map."))
			return harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, id, opts...))
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ts := httptest.NewServer(srv)
	defer ts.Close()

	res, err := http.Post(ts.URL+"/api/prompt", "application/json", strings.NewReader(`{"prompt":"How do I find duplicates?"}`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		ev, err := aycoder.DecodeEvent([]byte(data))
		if err != nil {
			continue // the first line names the run
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Print(ev.Text)
		case *aycoder.RunFinished:
			fmt.Println("\n" + string(ev.Result.End))
		}
	}
	// Output:
	// Use a map.
	// done
}

// A process follows a run that works in another one. Here the run is over, so all comes from the journal.
func ExampleFollow() {
	ctx, store := context.Background(), journal.Memory()
	loop, err := aycoder.New(script.New(script.Say("Use a map.")))
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(ctx, store, loop)
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range s.Run(ctx, aycoder.Input{Prompt: "How do I find duplicates?"}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for f, err := range server.Follow(ctx, store, nil, s.ID(), "", "") {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := f.Event.(type) {
		case *aycoder.TextDelta:
			fmt.Println(ev.Text)
		case *aycoder.RunFinished:
			fmt.Println(ev.Result.End)
			return
		}
	}
	// Output:
	// Use a map.
	// done
}
