package acme

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
)

// serve returns a client of a test server.
func serve(t testing.TB, key string, handler http.HandlerFunc) agenttest.Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := New(server.URL, "acme-1", key, &http.Client{Transport: transport})
	return agenttest.Client{Model: client, Idle: transport.CloseIdleConnections}
}

// answer returns a client whose server sends the events, and then calls after.
func answer(t testing.TB, events string, after func(*http.Request)) agenttest.Client {
	return serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, events)
		w.(http.Flusher).Flush()
		if after != nil {
			after(r)
		}
	})
}

// fail returns a client whose server refuses each request.
func fail(t testing.TB, key string, status int, code, message string) agenttest.Client {
	return serve(t, key, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message})
	})
}

// event encodes one event of the service.
func event(name string, value any) string {
	data, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		panic(err)
	}
	return "data: " + string(data) + "\n\n"
}

func text(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(event("text", p))
	}
	return b.String()
}

// call sends the arguments in two pieces.
func call(c *aycoder.ToolUse) string {
	half := len(c.Args) / 2
	return event("call", wireCall{c.ID, c.Name, string(c.Args[:half])}) +
		event("call", wireCall{ID: c.ID, Args: string(c.Args[half:])})
}

func done(stop string) string {
	return event("done", map[string]any{"stop": stop, "input": 12, "output": 3})
}

// keep returns a client whose server sends the events and keeps the body of the last request.
func keep(t testing.TB, events string) (agenttest.Client, func() []byte) {
	var mu sync.Mutex
	var last []byte
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		last, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, events)
	})
	return c, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func lose(*http.Request)   { panic(http.ErrAbortHandler) }
func hang(r *http.Request) { <-r.Context().Done() }

func TestConformance(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client {
			return answer(t, text(pieces...)+done("end"), nil)
		},
		Thinking: func(t testing.TB, thinking, said string) agenttest.Client {
			return answer(t, event("thinking", thinking)+event("signature", "c2ln")+text(said)+done("end"), nil)
		},
		Call: func(t testing.TB, said string, c *aycoder.ToolUse) agenttest.Client {
			return answer(t, text(said)+call(c)+done("call"), nil)
		},
		Cut: func(t testing.TB, c *aycoder.ToolUse) agenttest.Client {
			return answer(t, call(c)+done("length"), nil)
		},
		Refused: func(t testing.TB, said string) agenttest.Client {
			return answer(t, text(said)+done("filter"), nil)
		},
		Broken: func(t testing.TB, pieces ...string) agenttest.Client { return answer(t, text(pieces...), lose) },
		Hang:   func(t testing.TB, pieces ...string) agenttest.Client { return answer(t, text(pieces...), hang) },
		Silent: func(t testing.TB) agenttest.Client {
			return serve(t, "", func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client leaves
				hang(r)
			})
		},
		Refuse:      func(t testing.TB) agenttest.Client { return fail(t, "", 503, "busy", "try later") },
		Garbage:     func(t testing.TB) agenttest.Client { return answer(t, "data: {\xff\n\n", nil) },
		RateLimited: func(t testing.TB) agenttest.Client { return fail(t, "", 429, "rate", "slow down") },
		TooLarge: func(t testing.TB) agenttest.Client {
			return fail(t, "", 400, "context_too_large", "too many tokens")
		},
		NoModel: func(t testing.TB) agenttest.Client { return fail(t, "", 404, "model", "no such model") },
		BadKey: func(t testing.TB, key string) agenttest.Client {
			return fail(t, key, 401, "key", "no such key: "+key)
		},
		Wire: func(t testing.TB) (agenttest.Client, func() []byte) {
			return keep(t, text("Hello")+done("end"))
		},
		Signed: func(t testing.TB, mark string, c *aycoder.ToolUse) (agenttest.Client, func() []byte) {
			return keep(t, event("thinking", "Hm.")+event("signature", mark)+call(c)+done("call"))
		},
	})
}

// failingTransport fails each request.
type failingTransport struct{ err error }

func (t failingTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, t.err }

// ask returns the error for a request to a network that fails with err.
func ask(t *testing.T, err error) error {
	t.Helper()
	c := New("http://acme.invalid", "acme-1", "", &http.Client{Transport: failingTransport{err}})
	_, err = aycoder.Complete(t.Context(), c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hello")}})
	return err
}

// The loop retries after both errors, but a silent service uses up its patience.
func TestNetworkErrors(t *testing.T) {
	if _, ok := errors.AsType[*aycoder.TimeoutError](ask(t, os.ErrDeadlineExceeded)); !ok {
		t.Error("no TimeoutError for a timeout")
	}
	if _, ok := errors.AsType[*aycoder.StreamBrokenError](ask(t, syscall.ECONNREFUSED)); !ok {
		t.Error("no StreamBrokenError for a connection that was refused")
	}
}

// A call that the filter cut off is not complete, and the message is still valid.
func TestCallThatIsFiltered(t *testing.T) {
	args := event("call", wireCall{"c1", "read", `{"path":`})
	res, err := aycoder.Complete(t.Context(), answer(t, args+done("filter"), nil).Model, &aycoder.Request{})
	if err != nil || res.Stop != aycoder.StopRefusal || len(res.Message.Parts) != 0 || len(res.Cut) != 1 {
		t.Errorf("answer %+v, error %v", res, err)
	}
}

// The loop leaves out as much as the sizes in the error say.
func TestSizesOfTooLargeRequest(t *testing.T) {
	c := serve(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"code":"context_too_large","message":"too many tokens","size":9000,"max":8000}`)
	})
	_, err := aycoder.Complete(t.Context(), c.Model, &aycoder.Request{})
	if e, ok := errors.AsType[*aycoder.ContextTooLargeError](err); !ok || e.Actual != 9000 || e.Max != 8000 {
		t.Errorf("error %#v", err)
	}
}

// A message keeps its wire form, so that a long history costs nothing to encode.
func TestMessagesAreEncodedOnce(t *testing.T) {
	m := aycoder.User("Hello")
	for range 2 {
		if _, err := encode("acme-1", &aycoder.Request{Messages: []*aycoder.Message{m}}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := m.Encoded(wireKey{}, func(*aycoder.Message) ([]byte, error) { return nil, errors.New("encoded again") })
	if want := `{"role":"user","text":"Hello"}`; err != nil || string(data) != want {
		t.Errorf("message is %s, error %v, want %s", data, err, want)
	}
}

// A redirect would get the conversation.
func TestRedirectIsNotFollowed(t *testing.T) {
	other := false
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		other = other || r.URL.Path == "/other"
		http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
	})
	for _, err := range c.Model.Stream(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hi")}}) {
		e, ok := errors.AsType[*aycoder.ModelError](err)
		if !ok || e.Status != http.StatusTemporaryRedirect {
			t.Error("got ", err)
		}
	}
	if other {
		t.Error("the redirect was followed")
	}
}
