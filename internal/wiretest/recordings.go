// Package wiretest tests the clients of model services in two ways:
//
//   - against recorded traffic with the real services, which package corpus finds, or whose tests
//     it skips;
//   - against answers that were written by hand from the documentation of the services, which are
//     in a directory beside each client.
//
// The expected values never come from the client under test. Those of the recordings come from an
// independent decoder, and those of the written answers from the documentation.
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
	"github.com/aycoder/aycoder/internal/timed"
)

// A Recording is a recorded conversation with a service, as JSON.
type Recording struct {
	// ID is unique among all recordings. Vendor is the company that runs the service.
	ID     string `json:"id"`
	Vendor string `json:"vendor"`
	// Origin is "recorded", "derived" for a failure that was composed, because nobody has
	// recorded one, or "suspect" for a recording with marks of editing, which does not count as
	// evidence.
	Origin string `json:"origin"`
	// Fidelity says what the conversion to this format has changed: "wire" means nothing, and
	// "scrubbed" means that ids and opaque data were replaced.
	Fidelity string `json:"fidelity"`
	// Features name the special cases that the recording contains.
	Features     []string       `json:"features"`
	Interactions []*Interaction `json:"interactions"`
}

// An Interaction is a request of a Recording and the response to it.
type Interaction struct {
	// Seq is the position in the recording. Kind is "inference" for a request to a model, and
	// "aux" for others, such as lists of models or uploads, which have no expected value.
	Seq  int    `json:"seq"`
	Kind string `json:"kind"`
	// Family is the dialect of the API, such as "openai-chat". One recording may mix dialects.
	Family    string `json:"family"`
	Vendor    string `json:"vendor"`
	Model     string `json:"model"`
	Streaming bool   `json:"streaming"`
	// Request is the recorded request. Long base64 strings in Body are replaced by their length
	// and digest. If the body was not JSON, Body is a JSON string.
	Request struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	} `json:"request"`
	// Response is the recorded response. Transport is "json" for an answer in one piece. Body is
	// the exact text that came over the wire, or else Base64 holds the bytes. The sizes of the
	// network reads are not recorded, so tests choose different sizes themselves.
	Response struct {
		Status    int               `json:"status"`
		Headers   map[string]string `json:"headers"`
		Transport string            `json:"transport"`
		Body      string            `json:"body"`
		Base64    string            `json:"body_base64"`
	} `json:"response"`
	Expected *Expected `json:"expected"`
}

// Expected is the meaning of a response, according to a decoder that shares no code with the
// clients under test.
type Expected struct {
	// Complete means that the response had an end marker. If it is false and Error is nil, the
	// connection was lost, and a client must report that.
	Complete bool   `json:"complete"`
	ID       string `json:"id"`
	Model    string `json:"model"`
	// Text is the visible text of the first choice, without refusals, which are in Refusal.
	// Reasoning is all of the reasoning text.
	Text      string `json:"text"`
	Refusal   string `json:"refusal"`
	Reasoning string `json:"reasoning"`
	// Blocks are the types of the content blocks, as the dialect names them.
	Blocks []string `json:"blocks"`
	// Calls are the calls that the host has to run. Finish is the reason for the stop in the
	// words of the service.
	Calls  []*Call `json:"tool_calls"`
	Finish string  `json:"finish_reason"`
	// Usage is the last usage object that is not null. Some services send several, and each
	// counts everything so far, so they must not be added up.
	Usage json.RawMessage `json:"usage"`
	// Signatures are those of thinking and similar blocks. They must go back unchanged.
	Signatures []Signature     `json:"signatures"`
	Warnings   json.RawMessage `json:"warnings"`
	Error      *Failure        `json:"error"`
}

// A Call is a call by the model. If Kind is empty, it is a call of a plain function. Otherwise
// the service runs the call itself, or the arguments are a text.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Raw is the text of the arguments, and Args their value. If Valid is false, the token limit
	// cut the arguments off, and only Raw counts.
	Raw   string          `json:"arguments_raw"`
	Args  json.RawMessage `json:"arguments"`
	Valid *bool           `json:"arguments_valid"`
}

// A Signature stands for a signature by its length in bytes and its digest, since signatures have
// many kilobytes. On is the type of the block that it belongs to.
type Signature struct {
	On     string `json:"on"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A Failure is a recorded error. Services report errors in four ways, which Where tells apart:
// "status" is an HTTP status, "event" an event in the stream, "body" an error object in an answer
// with the status 200, and "field" a line of the stream that begins with "error:".
type Failure struct {
	Where   string          `json:"where"`
	Status  int             `json:"status"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
	Message string          `json:"message"`
}

// Each calls f for all recordings of all dialects, one at a time. It reads all files, because the
// interactions of a dialect are also in the files of other dialects.
func Each(t testing.TB, f func(*Recording)) {
	t.Helper()
	EachWith(t, "", f)
}

// EachWith is like [Each], but skips the recordings whose JSON text does not contain word, such
// as the name of a dialect in quotes. They are not even parsed, which saves most of the time.
func EachWith(t testing.TB, word string, f func(*Recording)) {
	t.Helper()
	eachIn(t, corpus.Path(t, "wire", "conversations of 3,441 with "+cmp.Or(word, "any provider")),
		word, f)
}

// eachIn calls f for the recordings in all files of a directory. If there are no files it fails:
// a test that silently ran on nothing would look like a test that passed. With the race detector
// it skips the test: to read the files would take most of the time, and the answers that were
// written by hand go through the same clients.
func eachIn(t testing.TB, dir, word string, f func(*Recording)) {
	t.Helper()
	timed.Serial(t)
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

// eachOf calls f for the recordings in a file. It reads line by line, which takes little memory
// even for a large file.
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
	// A line can have megabytes, so the reader must not have a limit, as a Scanner does.
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

// Body returns the bytes of the response body.
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

// RequestBody returns the body of the request, which some recorders have stored as a JSON string.
func (i *Interaction) RequestBody() []byte {
	var s string
	if json.Unmarshal(i.Request.Body, &s) == nil {
		return []byte(s)
	}
	return i.Request.Body
}

// Transport returns a transport that answers every request with the recorded status and headers
// and the given body. The body is read in pieces of at most size bytes: faults in a decoder often
// show only if an event is spread over several reads.
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

// roundTrip makes a function an [http.RoundTripper].
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Sized returns a reader that reads at most n bytes of r at a time.
func Sized(r io.Reader, n int) io.Reader { return sized{r, n} }

type sized struct {
	r io.Reader
	n int
}

func (s sized) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
