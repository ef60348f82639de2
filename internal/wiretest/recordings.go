// Package wiretest tests the clients of model services: against recorded traffic, which
// package corpus finds or skips the test, and against answers that were written for the
// project, which lie beside each client.
package wiretest

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/corpus"
)

// A Recording is a recorded conversation.
type Recording struct {
	ID           string         `json:"id"`
	Vendor       string         `json:"vendor"`
	Origin       string         `json:"origin"`
	Fidelity     string         `json:"fidelity"`
	Features     []string       `json:"features"`
	Interactions []*Interaction `json:"interactions"`
}

// An Interaction is a request and its response.
type Interaction struct {
	Seq       int    `json:"seq"`
	Kind      string `json:"kind"`
	Family    string `json:"family"`
	Vendor    string `json:"vendor"`
	Model     string `json:"model"`
	Streaming bool   `json:"streaming"`
	Request   struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	} `json:"request"`
	Response struct {
		Status    int               `json:"status"`
		Headers   map[string]string `json:"headers"`
		Transport string            `json:"transport"`
		Body      string            `json:"body"`
		Base64    string            `json:"body_base64"`
	} `json:"response"`
	Expected *Expected `json:"expected"`
}

// Expected is the result of an independent decoder for a response.
type Expected struct {
	Complete   bool            `json:"complete"`
	ID         string          `json:"id"`
	Model      string          `json:"model"`
	Text       string          `json:"text"`
	Refusal    string          `json:"refusal"`
	Reasoning  string          `json:"reasoning"`
	Blocks     []string        `json:"blocks"`
	Calls      []*Call         `json:"tool_calls"`
	Finish     string          `json:"finish_reason"`
	Usage      json.RawMessage `json:"usage"`
	Signatures []Signature     `json:"signatures"`
	Warnings   json.RawMessage `json:"warnings"`
	Error      *Failure        `json:"error"`
}

// A Call is a call by the model. Unless Kind is empty, it is not a plain function call.
type Call struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Kind  string          `json:"kind"`
	Raw   string          `json:"arguments_raw"`
	Args  json.RawMessage `json:"arguments"`
	Valid *bool           `json:"arguments_valid"`
}

// A Signature is identified by its length and digest.
type Signature struct {
	On     string `json:"on"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A Failure is a recorded error; Where is "status", "event", "body" or "field".
type Failure struct {
	Where   string          `json:"where"`
	Status  int             `json:"status"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
	Message string          `json:"message"`
}

// Each calls f for all recordings of all dialects, one at a time: a dialect's
// interactions are in other dialects' files, too.
func Each(t testing.TB, f func(*Recording)) {
	t.Helper()
	EachWith(t, "", f)
}

// EachWith is [Each] for the recordings whose JSON text contains a word, such as a quoted
// family. Skipping the others unread saves most of the time.
func EachWith(t testing.TB, word string, f func(*Recording)) {
	t.Helper()
	eachIn(t, corpus.Path(t, "wire", "conversations of 3,441 with "+cmp.Or(word, "any provider")),
		word, f)
}

func eachIn(t testing.TB, dir, word string, f func(*Recording)) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: recorded traffic")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, name := range files {
		eachOf(t, name, word, f)
	}
}

func eachOf(t testing.TB, name, word string, f func(*Recording)) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zr, err := gzip.NewReader(file)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	br := bufio.NewReader(zr)
	for {
		line, err := br.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 && bytes.Contains(line, []byte(word)) {
			var r Recording
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			f(&r)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// Body returns the bytes of the response.
func (i *Interaction) Body() string {
	if i.Response.Base64 == "" {
		return i.Response.Body
	}
	data, err := base64.StdEncoding.DecodeString(i.Response.Base64)
	if err != nil {
		panic(err) // a damaged recording
	}
	return string(data)
}

// RequestBody returns the body of the request, even if it was recorded as a string.
func (i *Interaction) RequestBody() []byte {
	var s string
	if json.Unmarshal(i.Request.Body, &s) == nil {
		return []byte(s)
	}
	return i.Request.Body
}

// Transport answers every request with the response and the given body, in reads of size
// bytes.
func (i *Interaction) Transport(body string, size int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		h := http.Header{}
		for k, v := range i.Response.Headers {
			h.Set(k, v)
		}
		return &http.Response{StatusCode: i.Response.Status, Header: h, Request: r,
			Body: io.NopCloser(Sized(strings.NewReader(body), size))}, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Sized returns a reader of r that reads at most n bytes at a time.
func Sized(r io.Reader, n int) io.Reader { return sized{r, n} }

type sized struct {
	r io.Reader
	n int
}

func (s sized) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
