// Chat is the server of a page for conversations with an agent: it answers messages, and lists, shows and deletes sessions. It
// is one of the programs that docs/migration.md compares with those that it does the work of. It serves this machine: a
// program for the public also logs users in, and has a directory for each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/session"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address")
	dir := flag.String("dir", ".", "directory of the agent")
	state := flag.String("sessions", "sessions", "directory of the sessions")
	flag.Parse()
	store, err := journal.Dir(*state)
	if err != nil {
		log.Fatal(err)
	}
	open := func(model string) (aycoder.ModelClient, error) { return providers.Open(model) }
	host, _, err := net.SplitHostPort(*addr)
	if err != nil {
		log.Fatal(err)
	}
	h := newHandler(host, *dir, store, open, flag.Args()...)
	log.Fatal((&http.Server{Addr: *addr, Handler: h, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
}

type chat struct {
	dir    string
	store  journal.Store
	open   func(model string) (aycoder.ModelClient, error)
	models []string
}

// newHandler returns the handler of the server. It serves only the host by whose name it is reached: a page can let another
// name point here for a moment. The models are those that a message may name, the first one is the default.
func newHandler(host, dir string, store journal.Store, open func(string) (aycoder.ModelClient, error), models ...string) http.Handler {
	c := &chat{dir, store, open, models}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+host+"/api/chat", answer(c.chat))
	mux.HandleFunc("GET "+host+"/api/sessions", answer(func(r *http.Request) (any, error) { return session.List(r.Context(), store, nil) }))
	mux.HandleFunc("GET "+host+"/api/sessions/{id}/messages", answer(c.messages))
	mux.HandleFunc("DELETE "+host+"/api/sessions/{id}", answer(func(r *http.Request) (any, error) { return nil, store.Delete(r.Context(), r.PathValue("id")) }))
	mux.HandleFunc("GET "+host+"/api/models", answer(func(*http.Request) (any, error) { return models, nil }))
	return http.NewCrossOriginProtection().Handler(mux)
}

// chat answers a message. The run ends with the request.
func (c *chat) chat(r *http.Request) (any, error) {
	var in struct{ Message, Model, SessionID string }
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&in); err != nil {
		return nil, err
	}
	model, err := c.model(in.Model)
	if err != nil {
		return nil, err
	}
	rt, err := harness.New(r.Context(), c.dir, harness.WithClient(model), harness.WithStore(c.store, in.SessionID),
		harness.WithQuestions(aycoder.DenyAsks), harness.WithPolicyOptions(policy.WithMode(policy.AcceptEdits)))
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	var res aycoder.Result
	for _, err := range rt.Run(r.Context(), aycoder.Input{Prompt: in.Message}, aycoder.Into(&res)) {
		if err != nil {
			return nil, err
		}
	}
	return map[string]string{"reply": res.Text(), "sessionId": rt.Session.ID()}, nil
}

func (c *chat) model(name string) (aycoder.ModelClient, error) {
	for _, m := range c.models {
		if name == "" || name == m {
			return c.open(m)
		}
	}
	return nil, fmt.Errorf("there is no model %q", name)
}

// messages shows a conversation.
func (c *chat) messages(r *http.Request) (any, error) {
	view, _, err := session.Read(context.WithoutCancel(r.Context()), c.store, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	type message struct{ Role, Content string }
	list := []message{}
	for _, m := range view.Messages(view.Head("")) {
		if text := m.Text(); text != "" {
			list = append(list, message{string(m.Role), text})
		}
	}
	return list, nil
}

// answer makes a handler of a function whose result is JSON.
func answer(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := do(r)
		_, busy := errors.AsType[*journal.BusyError](err)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			http.Error(w, "there is no such session", http.StatusNotFound)
		case busy:
			http.Error(w, "the session is answering", http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the client has gone
		}
	}
}
