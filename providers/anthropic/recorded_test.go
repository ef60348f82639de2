package anthropic

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// The recordings are in the folder "shared" beside the repository.
type recording struct {
	ID           string        `json:"id"`
	Origin       string        `json:"origin"`
	Fidelity     string        `json:"fidelity"`
	Interactions []interaction `json:"interactions"`
}

type interaction struct {
	Seq     int    `json:"seq"`
	Kind    string `json:"kind"`
	Family  string `json:"family"`
	Request struct {
		Body json.RawMessage `json:"body"`
	} `json:"request"`
	Response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"response"`
	Expected *expected `json:"expected"`
}

type expected struct {
	Complete  bool     `json:"complete"`
	Text      string   `json:"text"`
	Reasoning string   `json:"reasoning"`
	Blocks    []string `json:"blocks"`
	Calls     []struct {
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Raw   string          `json:"arguments_raw"`
		Args  json.RawMessage `json:"arguments"`
		Valid *bool           `json:"arguments_valid"`
	} `json:"tool_calls"`
	Finish     string `json:"finish_reason"`
	ID         string `json:"id"`
	Model      string `json:"model"`
	Usage      *usage `json:"usage"`
	Signatures []struct {
		On     string `json:"on"`
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256"`
	} `json:"signatures"`
	Error *struct {
		Where   string `json:"where"`
		Status  int    `json:"status"`
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func sharedDir(t testing.TB) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	shared := filepath.Join(dir, "..", "shared")
	if _, err := os.Stat(shared); err != nil {
		t.Skipf("recordings are missing: %v", err)
	}
	return shared
}

func recordings(t testing.TB) []*recording {
	f, err := os.Open(filepath.Join(sharedDir(t), "wire", "anthropic-messages.jsonl.gz"))
	require.NoError(t, err)
	defer f.Close()
	zr, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []*recording
	br := bufio.NewReader(zr)
	for {
		line, err := br.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var r recording
			require.NoError(t, json.Unmarshal(line, &r))
			all = append(all, &r)
		}
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
	}
}

// served answers every request with one response, size bytes a read.
func served(i *interaction, body string, size int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		h := http.Header{}
		for k, v := range i.Response.Headers {
			h.Set(k, v)
		}
		return &http.Response{StatusCode: i.Response.Status, Header: h, Request: r,
			Body: io.NopCloser(sized{strings.NewReader(body), size})}, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type sized struct {
	r io.Reader
	n int
}

func (s sized) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

func newClient(t testing.TB, rt http.RoundTripper, opts ...Option) *Client {
	opts = append([]Option{WithAPIKey(testKey), WithHTTPClient(&http.Client{Transport: rt})}, opts...)
	c, err := New("claude-test", opts...)
	require.NoError(t, err)
	return c
}

const testKey = "sk-ant-SECRET-0123456789"

func hello() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}

// answer is what a response came to.
type answer struct {
	*aycoder.Response
	parts          []aycoder.Part // calls that were cut off included
	text, thinking string         // of the deltas
	args           map[string]string
	done           bool
	err            error
}

func ask(c *Client) answer { return askFor(context.Background(), c, hello()) }

func askFor(ctx context.Context, c *Client, req *aycoder.Request) answer {
	a := answer{Response: &aycoder.Response{Message: &aycoder.Message{Role: aycoder.RoleAssistant}},
		args: map[string]string{}}
	var text, thinking strings.Builder
	for ev, err := range c.Stream(ctx, req) {
		if err != nil {
			a.err = err
			continue
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			text.WriteString(ev.Text)
		case *aycoder.ThinkingDelta:
			thinking.WriteString(ev.Text)
		case *aycoder.ToolDelta:
			a.args[ev.ID] += ev.Args
		case *aycoder.BlockDone:
			a.Message.Parts = append(a.Message.Parts, ev.Part)
			a.parts = append(a.parts, ev.Part)
		case *aycoder.BlockCut:
			a.Cut = append(a.Cut, ev.Call)
			a.parts = append(a.parts, ev.Call)
		case *aycoder.MessageDone:
			a.Stop, a.Usage, a.Model, a.ID = ev.Stop, ev.Usage, ev.Model, ev.ID
			a.done = true
		}
	}
	a.text, a.thinking = text.String(), thinking.String()
	return a
}

// Every recorded response decodes to what it says. There are no exceptions.
func TestRecorded(t *testing.T) {
	var cases, checked, skipped, derived, failures int
	for _, rec := range recordings(t) {
		if rec.Origin == "suspect" {
			continue
		}
		cases++
		for n := range rec.Interactions {
			i := &rec.Interactions[n]
			if i.Kind != "inference" || i.Family != "anthropic-messages" {
				skipped++
				t.Logf("skipped %s/%d: %s %s", rec.ID, i.Seq, i.Kind, i.Family)
				continue
			}
			name := fmt.Sprintf("%s/%d", rec.ID, i.Seq)
			for _, size := range []int{1 << 20, 1, 7} {
				a := ask(newClient(t, served(i, i.Response.Body, size)))
				if !checkAnswer(t, fmt.Sprintf("%s at %d bytes", name, size), i, &a) {
					failures++
					break
				}
			}
			checked++
			if rec.Origin == "derived" {
				derived++
			}
		}
	}
	t.Logf("%d cases, %d interactions at 3 read sizes (%d of them derived), %d skipped, %d failed",
		cases, checked, derived, skipped, failures)
	assert.Greater(t, checked, 600)
}

func checkAnswer(t *testing.T, name string, i *interaction, a *answer) bool {
	e := i.Expected
	if e.Error != nil {
		return checkError(t, name, e, a)
	}
	ok := assert.NoError(t, a.err, name) && assert.True(t, a.done, name)
	ok = ok && assert.Equal(t, e.Text, textOf(a.parts), name)
	ok = ok && assert.Equal(t, textOf(a.parts), a.text, "deltas of %s", name)
	ok = ok && assert.Equal(t, e.Reasoning, a.thinking, name)
	ok = ok && assert.Equal(t, strings.ReplaceAll(e.Finish, "pause_turn", "paused"), string(a.Stop), name)
	ok = ok && assert.Equal(t, e.ID, a.ID, name) && assert.Equal(t, e.Model, a.Model, name)
	var want aycoder.Usage
	e.Usage.addTo(&want)
	ok = ok && assert.Equal(t, want, a.Usage, name)
	ok = ok && assert.Equal(t, strings.Join(e.Blocks, " "), strings.Join(typesOf(t, a.parts), " "), name)
	return ok && checkCalls(t, name, e, a) && checkSignatures(t, name, e, a)
}

func textOf(parts []aycoder.Part) string { return (&aycoder.Message{Parts: parts}).Text() }

func typesOf(t *testing.T, parts []aycoder.Part) []string {
	types := []string{}
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			types = append(types, "text")
		case *aycoder.Thinking:
			types = append(types, "thinking")
		case *aycoder.ToolUse:
			types = append(types, "tool_use")
		case *aycoder.Opaque:
			var head struct{ Type string }
			require.NoError(t, json.Unmarshal(p.Raw, &head))
			types = append(types, head.Type)
		}
	}
	return types
}

func checkCalls(t *testing.T, name string, e *expected, a *answer) bool {
	calls := (&aycoder.Message{Parts: a.parts}).Calls()
	if !assert.Len(t, calls, len(e.Calls), name) {
		return false
	}
	for n, want := range e.Calls {
		got := calls[n]
		ok := assert.Equal(t, want.ID, got.ID, name) && assert.Equal(t, want.Name, got.Name, name)
		if want.Valid != nil && !*want.Valid {
			ok = ok && assert.Equal(t, want.Raw, string(got.Args), name) && assert.Contains(t, a.Cut, got, name)
		} else {
			ok = ok && assert.JSONEq(t, string(want.Args), string(got.Args), name) && assert.NotContains(t, a.Cut, got, name)
		}
		if s := a.args[got.ID]; ok && s != "" {
			ok = assert.Equal(t, string(got.Args), s, "deltas of %s", name)
		}
		if !ok {
			return false
		}
	}
	return true
}

func checkSignatures(t *testing.T, name string, e *expected, a *answer) bool {
	var got []string
	for _, p := range a.parts {
		if th, ok := p.(*aycoder.Thinking); ok && th.Signature != "" {
			sum := sha256.Sum256([]byte(th.Signature))
			got = append(got, fmt.Sprint(len(th.Signature), " ", hex.EncodeToString(sum[:])))
		}
	}
	var want []string
	for _, s := range e.Signatures {
		if s.On == "thinking" {
			want = append(want, fmt.Sprint(s.Bytes, " ", s.SHA256))
		}
	}
	return assert.Equal(t, want, got, "signatures of %s", name)
}

func checkError(t *testing.T, name string, e *expected, a *answer) bool {
	base, ok := errors.AsType[*aycoder.ModelError](a.err)
	ok = assert.True(t, ok, "%s: %v", name, a.err) && assert.False(t, a.done, name)
	ok = ok && assert.Equal(t, e.Error.Status, base.Status, name)
	ok = ok && assert.Equal(t, e.Error.Type, base.Kind, name)
	ok = ok && assert.Equal(t, e.Error.Message, base.Err.Error(), name)
	return ok && assert.IsType(t, errorTypes[e.Error.Type], a.err, name)
}

var errorTypes = map[string]error{
	"invalid_request_error": (*aycoder.BadRequestError)(nil),
	"authentication_error":  (*aycoder.AuthError)(nil),
	"not_found_error":       (*aycoder.UnknownModelError)(nil),
	"overloaded_error":      (*aycoder.OverloadedError)(nil),
}

// A response that is cut anywhere ends in a typed error.
func TestRecordedCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	streams, cuts := 0, 0
	for _, rec := range recordings(t) {
		for n := range rec.Interactions {
			i := &rec.Interactions[n]
			if i.Kind != "inference" || i.Family != "anthropic-messages" || i.Response.Status != http.StatusOK {
				continue
			}
			end := endOfMessage(i.Response.Body)
			streams++
			for range 8 {
				at := rnd.IntN(end)
				a := ask(newClient(t, served(i, i.Response.Body[:at], 1<<20)))
				_, typed := errors.AsType[*aycoder.ModelError](a.err)
				if !typed || a.done {
					t.Errorf("%s/%d cut at %d of %d: done %v, error %v", rec.ID, i.Seq, at, end, a.done, a.err)
				}
				cuts++
			}
		}
	}
	t.Logf("%d responses, %d cuts", streams, cuts)
	assert.Greater(t, streams, 600)
}

// endOfMessage is how many bytes of a body must come for it to be complete.
func endOfMessage(body string) int {
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		return len(strings.TrimRight(body, " \r\n"))
	}
	if i := strings.LastIndex(body, `"message_stop"`); i >= 0 {
		return i + strings.Index(body[i:], "\n\n") + 1
	}
	return len(body)
}
