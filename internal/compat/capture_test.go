package compat

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// A keeper is a service that stores the last request and sends the same answer to all.
type keeper struct {
	answer string
	body   []byte
	path   string
}

// RoundTrip implements [http.RoundTripper].
func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	k.path = r.URL.Path
	var err error
	if k.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"text/event-stream"}}
	if strings.HasPrefix(k.answer, "{") {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(k.answer))}, nil
}

func (k *keeper) client() *http.Client { return &http.Client{Transport: k} }

// bodyOf returns the body that a client sends for req, or its error.
func bodyOf(t testing.TB, k *keeper, m aycoder.ModelClient, req *aycoder.Request) ([]byte, error) {
	t.Helper()
	k.body = nil
	for _, err := range m.Stream(t.Context(), req) {
		if err != nil && k.body == nil {
			return nil, err
		}
		require.NoError(t, err)
	}
	return slices.Clone(k.body), nil
}

// requireStrict decodes data into v, and fails the test if it does not fit. It returns the
// number of misfits that were accepted because the service itself has sent them.
func requireStrict(t testing.TB, rules rules, data []byte, v any) int {
	t.Helper()
	wrong, passed := strictly(rules, data, v)
	if len(wrong) > 0 {
		t.Fatalf("%.3000s\n\t%.5000s", data, strings.Join(wrong, "\n\t"))
	}
	return passed
}

// sameBodies fails the test if the bodies differ in meaning. Nulls are ignored, because
// they were checked before.
func sameBodies(t testing.TB, want, got []byte) {
	t.Helper()
	a, err := parse(want)
	require.NoError(t, err)
	b, err := parse(got)
	require.NoError(t, err)
	noEmptyIDs(b)
	if at := differ("", prune(a), prune(b)); at != "" {
		t.Fatalf("ours and the SDK's body differ at %.2000s", at)
	}
}

// without returns an object without some fields.
func without(t testing.TB, data []byte, names ...string) []byte {
	t.Helper()
	var doc map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &doc))
	for _, name := range names {
		delete(doc, name)
	}
	out, err := json.Marshal(doc)
	require.NoError(t, err)
	return out
}

// noEmptyIDs removes the empty ids that an SDK adds to reasoning items without an id,
// because its type requires one: see [decoder.field].
func noEmptyIDs(doc any) {
	switch doc := doc.(type) {
	case map[string]any:
		if doc["type"] == "reasoning" && doc["id"] == "" {
			delete(doc, "id")
		}
		for _, v := range doc {
			noEmptyIDs(v)
		}
	case []any:
		for _, v := range doc {
			noEmptyIDs(v)
		}
	}
}
