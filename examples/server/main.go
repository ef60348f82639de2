// Server serves an agent over HTTP, with a page: http://127.0.0.1:8080/. It needs neither a network nor a key: a script
// takes the place of the model.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/session"
)

// A team has a token and a store for each of its members.
type team struct {
	dir    string // the workspace that they share
	tokens map[string]string
	stores map[string]journal.Store
	model  func() aycoder.ModelClient
}

// host returns what the server asks for. A session of another member is not in the store, so it is not found.
func (t *team) host() server.Host {
	return server.Host{
		Principal: func(r *http.Request) (string, error) {
			given := sha256.Sum256([]byte(r.Header.Get("Authorization")))
			for token, name := range t.tokens {
				want := sha256.Sum256([]byte(token))
				if token != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
					return name, nil
				}
			}
			return "", errors.New("no such token")
		},
		Store: func(name string) journal.Store { return t.stores[name] },
		Open: func(ctx context.Context, name, id string, opts ...session.Option) (*harness.Runtime, error) {
			return harness.New(ctx, t.dir, harness.WithClient(t.model()), harness.WithStore(t.stores[name], id, opts...))
		},
	}
}

// alone is a host without members: whoever is on this machine.
func alone(dir string, model func() aycoder.ModelClient) server.Host {
	t := &team{dir: dir, stores: map[string]journal.Store{"local": journal.Memory()}, model: model}
	h := t.host()
	h.Principal = nil
	return h
}

// answers is a model that changes a file, which is asked about.
func answers() aycoder.ModelClient {
	return script.New(
		script.Reply(
			script.Say("I write a **greeting**:\n\n```go\nfmt.Println(\"hello\")\n```\n"),
			script.Call("write_file", map[string]string{"path": "hello.txt", "content": "hello\n"}),
		),
		script.Say("Done."),
	).With(script.WithLoop(true), script.WithPace(20*time.Millisecond))
}

// serve serves until ctx is done, and then lets the runs end so that another process can go on with them.
func serve(ctx context.Context, addr string, host server.Host) error {
	srv, err := server.New(host)
	if err != nil {
		return err
	}
	hs := &http.Server{Addr: addr, Handler: srv, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- hs.ListenAndServe() }()
	select {
	case err := <-failed:
		return errors.Join(err, srv.Close())
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(grace), hs.Close())
}

func main() {
	dir, err := os.MkdirTemp("", "server")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println("http://127.0.0.1:8080/")
	if err := serve(ctx, "127.0.0.1:8080", alone(dir, answers)); err != nil {
		log.Print(err)
	}
}
