package compat

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// maker makes a client that uses a transport.
type maker func(rt http.RoundTripper, model string) aycoder.ModelClient

// A resent is the request that follows the recorded answers of a conversation.
type resent struct {
	id    string
	model string
	steps int
	body  []byte

	answers []string        // of the service
	objects map[string]bool // of the answers, once they were asked for
}

// sent reports whether an object, or a signature, is in an answer of the service.
func (r *resent) sent(doc any) bool {
	if r.objects == nil {
		r.objects = map[string]bool{}
		for _, answer := range r.answers {
			r.collectAnswer(answer)
		}
	}
	return r.objects[canonical(doc)]
}

// collectAnswer collects the objects of a document, or of the events of a stream.
func (r *resent) collectAnswer(answer string) {
	if doc, err := parse([]byte(answer)); err == nil {
		r.collect(doc)
		return
	}
	for line := range strings.Lines(answer) {
		data, ok := strings.CutPrefix(line, "data:")
		if doc, err := parse([]byte(data)); ok && err == nil {
			r.collect(doc)
		}
	}
}

func (r *resent) collect(doc any) {
	switch doc := doc.(type) {
	case []any:
		for _, inner := range doc {
			r.collect(inner)
		}
	case map[string]any:
		r.objects[canonical(doc)] = true
		for name, inner := range doc {
			if name == "thoughtSignature" { // not valid base64 where a recording was scrubbed
				r.objects[canonical(inner)] = true
			}
			r.collect(inner)
		}
	}
}

// canonical returns a text that is the same for all forms of a document.
func canonical(doc any) string {
	data, _ := json.Marshal(doc) // which was parsed
	return string(data)
}

// eachResent calls f for all recordings of a dialect: their answers are decoded, stored,
// and sent back with results of the calls.
func eachResent(t *testing.T, family string, client maker, f func(*resent)) {
	t.Helper()
	t.Chdir("../..") // the recordings are found beside the repository
	recordings, answers := 0, 0
	wiretest.Each(t, func(rec *wiretest.Recording) {
		r := &resent{id: rec.ID}
		history := []*aycoder.Message{aycoder.User("begin")}
		for _, i := range rec.Interactions {
			if rec.Origin == "suspect" || i.Kind != "inference" || i.Family != family ||
				i.Response.Status != http.StatusOK || i.Expected == nil || !i.Expected.Complete || i.Expected.Error != nil {
				continue
			}
			r.model = cmp.Or(i.Model, "m")
			r.answers = append(r.answers, i.Body())
			a := wiretest.Ask(t.Context(), t, client(i.Transport(i.Body(), 1<<20), r.model),
				&aycoder.Request{Messages: history})
			require.NoError(t, a.Err, rec.ID)
			history = append(history, stored(t, a.Message()))
			history = append(history, answered(a.Message()))
			r.steps++
		}
		if r.steps == 0 {
			return
		}
		recordings++
		answers += r.steps
		k := &keeper{answer: "{}"}
		for range client(k, r.model).Stream(t.Context(), &aycoder.Request{Messages: history}) {
		}
		require.NotNil(t, k.body, rec.ID)
		r.body = k.body
		f(r)
	})
	t.Logf("%s: %d answers of %d recordings were sent back", family, answers, recordings)
	require.Positive(t, recordings)
}

// stored encodes a message for storage and decodes it again.
func stored(t *testing.T, m *aycoder.Message) *aycoder.Message {
	t.Helper()
	data, err := json.Marshal(m)
	require.NoError(t, err)
	var back aycoder.Message
	require.NoError(t, json.Unmarshal(data, &back))
	return &back
}

// answered returns the message after m: the results of its calls, or a short text.
func answered(m *aycoder.Message) *aycoder.Message {
	next := &aycoder.Message{Role: aycoder.RoleUser}
	for n, c := range m.Calls() {
		out := output(c.ID, c.Name, text("done"))
		out.IsError = n%2 == 1
		next.Parts = append(next.Parts, out)
	}
	if len(next.Parts) == 0 {
		next.Parts = []aycoder.Part{text("go on")}
	}
	return next
}
