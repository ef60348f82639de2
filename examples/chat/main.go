// Chat is the server of a page: it answers messages piece by piece, and sums up texts. It is one of the programs that
// docs/migration.md compares with those that it does the work of. It serves this machine: a program for the public also logs
// users in.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
)

func main() {
	addr := flag.String("addr", "localhost:3000", "address")
	dir := flag.String("dir", ".", "directory that the agent reads")
	model := flag.String("model", "openai/gpt-5.1", "model")
	flag.Parse()
	client, err := providers.Open(*model)
	if err != nil {
		log.Fatal(err)
	}
	host, _, err := net.SplitHostPort(*addr)
	if err != nil {
		log.Fatal(err)
	}
	h, err := newHandler(host, &chat{*dir, *model, client}, flag.Args()...)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal((&http.Server{Addr: *addr, Handler: h, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
}

const patience = 2 * time.Minute // for an answer

type chat struct {
	dir, name string
	model     aycoder.ModelClient
}

// newHandler returns the handler of the server. It serves only the host by whose name it is reached: a page can let another
// name point here for a moment. The origins are those of pages of other servers that may use it.
func newHandler(host string, c *chat, origins ...string) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+host+"/chat", c.chat)
	mux.HandleFunc("POST "+host+"/summarize", c.summarize)
	mux.HandleFunc("GET "+host+"/health", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "status", "ok") })
	mux.HandleFunc("GET "+host+"/config", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "model", c.name) })
	guard := http.NewCrossOriginProtection()
	for _, o := range origins {
		if err := guard.AddTrustedOrigin(o); err != nil {
			return nil, err
		}
	}
	guarded := guard.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		if o := r.Header.Get("Origin"); slices.Contains(origins, o) {
			w.Header().Set("Access-Control-Allow-Origin", o)
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
			if r.Method == http.MethodOptions {
				return
			}
		}
		guarded.ServeHTTP(w, r)
	}), nil
}

// chat answers a message with events: {"content":…} for each piece of the answer, and [DONE]. An event "retry" says that the
// model is asked again, so that text before it may be void.
func (c *chat) chat(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Message string
		History []struct{ Role, Content string }
	}
	if !read(w, r, &in, &in.Message) {
		return
	}
	input := aycoder.Input{Prompt: in.Message}
	for _, m := range in.History {
		switch aycoder.Role(m.Role) {
		case aycoder.RoleUser:
			input.Messages = append(input.Messages, aycoder.User(m.Content))
		case aycoder.RoleAssistant:
			input.Messages = append(input.Messages, aycoder.Assistant(m.Content))
		default:
			reply(w, http.StatusBadRequest, "error", fmt.Sprintf("there is no role %q", m.Role))
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	if err := c.answer(w, r, input); err != nil {
		send(w, "error", "error", err.Error())
		return
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// answer runs the agent, which only reads. A client that goes away ends the run.
func (c *chat) answer(w http.ResponseWriter, r *http.Request, input aycoder.Input) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	rt, err := harness.New(ctx, c.dir, harness.WithClient(c.model), harness.WithQuestions(aycoder.DenyAsks),
		harness.WithPolicyOptions(policy.WithMode(policy.Plan)))
	if err != nil {
		return err
	}
	defer rt.Close()
	for ev, err := range rt.Run(ctx, input) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			send(w, "message", "content", ev.Text)
		case *aycoder.Retrying:
			send(w, "retry", "error", ev.Err.Error())
		}
	}
	return nil
}

// send sends an event to the page.
func send(w http.ResponseWriter, event, key, text string) {
	data, _ := json.Marshal(map[string]string{key: text}) // texts always marshal
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
	_ = http.NewResponseController(w).Flush() // if the client has gone, the context of the request ends
}

// summarize sums up a text. It asks the model alone, without tools.
func (c *chat) summarize(w http.ResponseWriter, r *http.Request) {
	var in struct{ Text string }
	if !read(w, r, &in, &in.Text) {
		return
	}
	if len(in.Text) > 50_000 {
		reply(w, http.StatusRequestEntityTooLarge, "error", "the text is longer than 50000 bytes")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Sum up this text in two or three sentences:\n\n" + in.Text)}}
	resp, err := aycoder.Complete(ctx, c.model, req)
	if err != nil {
		reply(w, http.StatusBadGateway, "error", err.Error())
		return
	}
	reply(w, http.StatusOK, "summary", resp.Message.Text())
}

// read reads a request, whose text must not be empty.
func read(w http.ResponseWriter, r *http.Request, into any, text *string) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(into)
	if err == nil && strings.TrimSpace(*text) == "" {
		err = errors.New("the text is empty")
	}
	if err != nil {
		reply(w, http.StatusBadRequest, "error", err.Error())
	}
	return err == nil
}

func reply(w http.ResponseWriter, status int, key, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{key: text}) // the client has gone
}
