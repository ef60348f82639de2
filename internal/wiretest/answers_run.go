package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
)

// RunAnswers checks a client on the written answers in a directory. Each answer comes over a
// connection to this machine three times: in large pieces, byte by byte, and in pieces of up to
// 40 bytes. The test fails if there are fewer than least answers, or if two of them are the same.
func RunAnswers(t *testing.T, dir string, least int,
	client func(name string, rt http.RoundTripper) aycoder.ModelClient) {
	t.Helper()
	all := ReadAnswers(t, dir)
	// The server answers one case after the other. No lock is needed, because each request ends
	// before the next case begins.
	current := all[0]
	rt := Loopback(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // a list of models, after an error
			http.NotFound(w, r)
			return
		}
		serveAnswer(w, r, current)
	})
	ran, seen := 0, map[string]string{}
	for _, c := range all {
		for _, key := range []string{"name " + c.Name, c.Bytes()} {
			if other := seen[key]; other != "" {
				t.Errorf("%s: same as the case at %s: %.60q", c.Place, other, key)
			}
			seen[key] = c.Place
		}
		current = c
		// The name of a case seeds its random sizes, so that they do not change when cases are
		// added.
		h := fnv.New64a()
		_, _ = io.WriteString(h, c.Name) // never returns an error
		sizes := rand.New(rand.NewPCG(h.Sum64(), 1))
		for _, most := range []int{1 << 20, 1, 40} {
			before := time.Now()
			a := Ask(t.Context(), t, client(c.Client, rechunked(rt, sizes, most)), hello())
			if wrong := checkAnswer(c, a, before); len(wrong) > 0 {
				t.Errorf("%s: %s, at most %d bytes a read:\n\t%s", c.Place, c.Name, most,
					strings.Join(wrong, "\n\t"))
				break
			}
		}
		ran++
	}
	if ran < least {
		t.Errorf("only %d answers ran, want at least %d", ran, least)
	}
	t.Logf("%d provider answers ran", ran)
}

// CutAnswers cuts the complete answers in a directory off at random places. The client must
// return a typed error. If nothing but the usage or an end marker is missing, it may return the
// whole answer instead.
func CutAnswers(t *testing.T, dir string,
	client func(name string, rt http.RoundTripper) aycoder.ModelClient) {
	t.Helper()
	per := 40
	if testing.Short() {
		per = 5
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	cuts, whole := 0, 0
	for _, c := range ReadAnswers(t, dir) {
		x, err := parseWant(c.Want)
		// Compressed answers are left out, because the transport below does not decompress.
		if err != nil || x.err != "" || slices.ContainsFunc(c.Header,
			func(h [2]string) bool { return h[0] == "Content-Encoding" }) {
			continue
		}
		// The body is cut without a network, so that each cut takes microseconds and many can be
		// tried.
		i := &Interaction{}
		i.Response.Status = c.Status
		i.Response.Headers = map[string]string{}
		for _, h := range c.Header {
			i.Response.Headers[h[0]] = h[1]
		}
		for range per {
			at := rnd.IntN(len(c.Body))
			a := Ask(t.Context(), t, client(c.Client, i.Transport(string(c.Body[:at]), 1<<20)),
				hello())
			cuts++
			// The most likely outcome is that the client reports the lost connection.
			if a.Done == nil {
				if _, typed := errors.AsType[*aycoder.ModelError](a.Err); !typed {
					t.Errorf("%s: %s, cut at %d of %d: error %T: %v", c.Place, c.Name, at,
						len(c.Body), a.Err, a.Err)
				}
				continue
			}
			whole++
			var w wrong
			w.parts(&x, a)
			w.same("stop", a.Done.Stop, x.stop)
			if len(w) > 0 && !x.growing {
				t.Errorf("%s: %s, cut at %d of %d:\n\t%s", c.Place, c.Name, at, len(c.Body),
					strings.Join(w, "\n\t"))
			}
		}
	}
	t.Logf("%d cuts, %d of them behind the end of the answer", cuts, whole)
}

// hello returns a request of one word, since the server gives the same answer to any request.
func hello() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}

// serveAnswer writes an answer to a request.
func serveAnswer(w http.ResponseWriter, r *http.Request, c *WrittenAnswer) {
	_, _ = io.Copy(io.Discard, r.Body)
	// Without this, net/http would guess a type, and hide a client that depends on it.
	w.Header()["Content-Type"] = nil // none is guessed
	for _, h := range c.Header {
		w.Header().Add(h[0], h[1])
	}
	w.WriteHeader(c.Status)
	_, _ = w.Write(c.Body)
	if c.Reset {
		// The panic closes the connection without the final chunk, as a crashing server does.
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// rechunked returns a transport whose responses are read in pieces of random sizes up to most
// bytes.
func rechunked(rt http.RoundTripper, sizes *rand.Rand, most int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err == nil {
			resp.Body = &pieces{resp.Body, sizes, most}
		}
		return resp, err
	})
}

// pieces is a response body that is read in pieces of random sizes.
type pieces struct {
	io.ReadCloser
	sizes *rand.Rand
	most  int
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.ReadCloser.Read(b[:min(len(b), 1+p.sizes.IntN(p.most))])
}

// checkAnswer returns descriptions of the differences between an answer and its expected value.
// The parameter before is the time before the request, for waits that count from the answer.
func checkAnswer(c *WrittenAnswer, a *Answer, before time.Time) []string {
	x, err := parseWant(c.Want)
	if err != nil {
		return []string{err.Error()}
	}
	var w wrong
	w.parts(&x, a)
	if !x.anyDeltas {
		w.same("text of deltas", a.Text, x.text())
	}
	w.uniqueIDs(a)
	// After an error, the parts that were complete still count, but not the usage and the stop
	// reason.
	if x.err != "" {
		w.failure(x, a, before)
		return w
	}
	if a.Err != nil || a.Done == nil {
		return append(w, fmt.Sprintf("done %v, error %T: %v", a.Done, a.Err, a.Err))
	}
	w.same("thinking of deltas", a.Thinking, thinking(a.Parts))
	for _, u := range (&aycoder.Message{Parts: a.Parts}).Calls() {
		if d := a.Args[u.ID]; d != "" && d != string(u.Args) {
			w.same("arguments of deltas", d, string(u.Args))
		}
	}
	w.same("stop", a.Done.Stop, x.stop)
	w.same("usage", a.Done.Usage, x.usage)
	if x.id != "" {
		w.same("id", a.Done.ID, x.id)
	}
	if x.model != "" {
		w.same("model", a.Done.Model, x.model)
	}
	return w
}

// parts compares the parts in order. If the service sends no id, the expected id is "*", for
// which any id will do.
func (w *wrong) parts(x *want, a *Answer) {
	got := shownParts(a)
	// A part that is missing at the end is compared with "nothing", and so is an additional one.
	for i := range max(len(got), len(x.parts)) {
		g, want := at(got, i), at(x.parts, i)
		if want != g && (anyID(want) != anyID(g) || !strings.Contains(want, " * ")) {
			w.same(fmt.Sprintf("part %d", i), g, want)
		}
	}
}

// at returns the element with the index i, or "nothing".
func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// anyID replaces the id of a call with "*".
func anyID(part string) string {
	words := strings.SplitN(part, " ", 3)
	if len(words) < 3 || words[0] != "call" && words[0] != "cut" {
		return part
	}
	return words[0] + " * " + words[2]
}

// uniqueIDs checks that no id of a call is empty or occurs twice, since outputs are assigned to
// calls by their ids.
func (w *wrong) uniqueIDs(a *Answer) {
	seen := map[string]bool{"": true}
	for _, u := range (&aycoder.Message{Parts: a.Parts}).Calls() {
		if seen[u.ID] {
			*w = append(*w, fmt.Sprintf("id %q of a call is empty or not unique", u.ID))
		}
		seen[u.ID] = true
	}
}

// shownParts writes the parts of an answer in the format of the files.
func shownParts(a *Answer) (list []string) {
	for _, p := range a.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			list = append(list, "text "+quoted(p.Text))
			list = appendExtra(list, p.Extra)
		case *aycoder.Thinking:
			list = append(list, "thinking "+quoted(p.Text))
			if p.Signature != "" {
				list = append(list, "signature "+shownSignature(p.Signature))
			}
		case *aycoder.ToolUse:
			if slices.Contains(a.Cut, p) {
				list = append(list, fmt.Sprintf("cut %s %s %s", p.ID, p.Name,
					quoted(string(p.Args))))
			} else {
				list = append(list, fmt.Sprintf("call %s %s %s", p.ID, p.Name, canonical(p.Args)))
			}
			list = appendExtra(list, p.Extra)
		case *aycoder.Opaque:
			list = append(list, "opaque "+canonical(p.Raw))
		}
	}
	return list
}

// shownSignature writes a signature. If it is a JSON object, as with services that want a whole
// item back, it is compared as a value.
func shownSignature(s string) string {
	if strings.HasPrefix(s, "{") {
		return canonical(json.RawMessage(s))
	}
	return quoted(s)
}

// appendExtra appends the data that the provider wants back with a part, if there is any.
func appendExtra(list []string, o *aycoder.Opaque) []string {
	if o == nil {
		return list
	}
	return append(list, "with "+canonical(o.Raw))
}

// quoted returns a text as a JSON string. Characters of HTML are not escaped, as in the files.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string, to a builder
	return strings.TrimSuffix(b.String(), "\n")
}

// canonical returns a JSON value with sorted keys. Numbers keep their spelling, because 1.0 and 1
// are different numbers to some tools.
func canonical(raw json.RawMessage) string {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "not JSON: " + string(raw)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was decoded
	return strings.TrimSuffix(b.String(), "\n")
}

// failure compares an error with the expected one. Fields that the case does not mention may have
// any value, except for the status and the waits, on which retries depend.
func (w *wrong) failure(x want, a *Answer, before time.Time) {
	w.same("class of error", strings.TrimPrefix(fmt.Sprintf("%T", a.Err), "*aycoder."), x.err)
	// The class alone is not enough: a host reads these fields from the ModelError in every
	// class.
	base, ok := errors.AsType[*aycoder.ModelError](a.Err)
	if !ok || a.Done != nil {
		*w = append(*w, fmt.Sprintf("done %v, error %v", a.Done, a.Err))
		return
	}
	w.same("status", base.Status, x.status)
	for _, f := range []struct {
		what, got string
		want      *string
	}{
		{"kind", base.Kind, x.kind}, {"request", base.RequestID, x.requestID},
		{"message", fmt.Sprint(base.Err), x.message},
	} {
		if f.want != nil {
			w.same(f.what, f.got, *f.want)
		}
	}
	var wait time.Duration
	var reset time.Time
	if e, ok := errors.AsType[*aycoder.RateLimitError](a.Err); ok {
		wait, reset = e.RetryAfter, e.ResetAt
	}
	if e, ok := errors.AsType[*aycoder.OverloadedError](a.Err); ok {
		wait = e.RetryAfter
	}
	w.same("wait", wait, x.retryAfter)
	w.reset(x.resetAt, reset, before)
	if e, ok := errors.AsType[*aycoder.ContextTooLargeError](a.Err); ok {
		w.same("tokens", []int64{e.Actual, e.Max}, []int64{x.actual, x.limit})
	}
}

// reset compares the time at which a limit is full again. The expected value is a time, or a wait
// that counts from the moment of the answer. That moment is between before and now.
func (w *wrong) reset(want string, got, before time.Time) {
	if d, err := time.ParseDuration(want); err == nil {
		if got.Before(before.Add(d)) || got.After(time.Now().Add(d)) {
			w.same("reset", got, want)
		}
		return
	}
	shown := ""
	if !got.IsZero() {
		shown = got.UTC().Format(time.RFC3339)
	}
	w.same("reset", shown, want)
}
