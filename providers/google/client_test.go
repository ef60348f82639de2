package google

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// noKeys clears the keys in the environment.
func noKeys(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "")
	t.Setenv("GOOGLE_API_KEY", "")
}

func TestKey(t *testing.T) {
	noKeys(t)
	_, err := New("gemini-test")
	var auth *aycoder.AuthError
	require.ErrorAs(t, err, &auth)
	assert.ErrorContains(t, err, "set GEMINI_API_KEY or pass WithAPIKey")

	t.Setenv("GOOGLE_API_KEY", "second")
	c, err := New("gemini-test")
	require.NoError(t, err)
	assert.Equal(t, "second", c.cfg.Key())
	t.Setenv("GEMINI_API_KEY", "first")
	c, err = New("gemini-test")
	require.NoError(t, err)
	assert.Equal(t, "first", c.cfg.Key())
	c, err = New("gemini-test", WithBaseURL("http://localhost:1"))
	require.NoError(t, err)
	assert.Empty(t, c.cfg.Key(), "the key belongs to the service")
}

func TestVertexAuth(t *testing.T) {
	noKeys(t)
	_, err := New("gemini-test", WithVertex("p", "global"))
	var auth *aycoder.AuthError
	require.ErrorAs(t, err, &auth)
	t.Setenv("GEMINI_API_KEY", "of another service")
	_, err = New("gemini-test", WithVertex("p", "global"))
	require.ErrorAs(t, err, &auth)
	token := func(context.Context) (string, error) { return "t", nil }
	for _, opt := range []Option{WithTokenSource(token), WithAPIKey("k"), WithHTTPClient(&http.Client{}),
		WithHeader("Authorization", "Bearer x"), WithHeader("x-goog-api-key", "k"), WithBaseURL("http://localhost:1")} {
		_, err = New("gemini-test", WithVertex("p", "global"), opt)
		assert.NoError(t, err)
	}
}

func TestEndpoint(t *testing.T) {
	token := WithTokenSource(func(context.Context) (string, error) { return "t", nil })
	const gla, method = "https://generativelanguage.googleapis.com/v1beta", ":streamGenerateContent?alt=sse"
	const regional = "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p/locations/europe-west4"
	tests := []struct {
		model string
		opts  []Option
		want  string
	}{
		{"gemini-x", nil, gla + "/models/gemini-x"},
		{"models/gemini-x", nil, gla + "/models/gemini-x"},
		{"tunedModels/a b?", nil, gla + "/tunedModels/a%20b%3F"},
		{"gemini-x", []Option{WithBaseURL("http://h/v1/")}, "http://h/v1/models/gemini-x"},
		{"gemini-x", []Option{WithVertex("p", "europe-west4")}, regional + "/publishers/google/models/gemini-x"},
		{"models/gemini-x", []Option{WithVertex("p", "europe-west4")}, regional + "/publishers/google/models/gemini-x"},
		{"google/gemini-x", []Option{WithVertex("p", "europe-west4")}, regional + "/publishers/google/models/gemini-x"},
		{"publishers/o/models/x", []Option{WithVertex("p", "europe-west4")}, regional + "/publishers/o/models/x"},
		{"projects/q/locations/l/endpoints/7", []Option{WithVertex("p", "us")},
			"https://aiplatform.us.rep.googleapis.com/v1beta1/projects/q/locations/l/endpoints/7"},
		{"gemini-x", []Option{WithVertex("p", "global")},
			"https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/gemini-x"},
		{"gemini-x", []Option{WithBaseURL("http://h"), WithVertex("p", "global")},
			"http://h/projects/p/locations/global/publishers/google/models/gemini-x"},
	}
	for _, tt := range tests {
		c, err := New("gemini-x", append([]Option{token}, tt.opts...)...)
		require.NoError(t, err)
		assert.Equal(t, tt.want+method, c.endpoint(tt.model, method))
	}
}

func TestOptionsRefused(t *testing.T) {
	tests := []struct {
		opt  Option
		want string
	}{
		{WithAPIKey(""), "WithAPIKey: key is empty"},
		{WithBaseURL("x"), "WithBaseURL: "},
		{WithHeader("a b", "c"), "WithHeader: "},
		{WithHTTPClient(nil), "WithHTTPClient: client is nil"},
		{WithMaxTokens(0), "WithMaxTokens: 0 is less than 1"},
		{WithIdleTimeout(-time.Second), "WithIdleTimeout: "},
		{WithVertex("", "global"), "WithVertex: "},
		{WithVertex("p", "a/b"), "WithVertex: "},
		{WithTokenSource(nil), "WithTokenSource: function is nil"},
		{WithExtra("x", func() {}), `WithExtra: field "x": `},
	}
	for _, tt := range tests {
		_, err := New("", tt.opt)
		var config *aycoder.ConfigError
		require.ErrorAs(t, err, &config)
		assert.ErrorContains(t, err, tt.want)
		assert.ErrorContains(t, err, "model: name is empty")
	}
}

// A request has the key in a header, not in the URL, and the caller's headers and fields.
func TestHeaders(t *testing.T) {
	var last *http.Request
	var body string
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		data, err := io.ReadAll(r.Body)
		last, body = r, string(data)
		return &http.Response{StatusCode: http.StatusOK, Request: r,
			Body: io.NopCloser(strings.NewReader(lastEvent))}, err
	})
	c := newClient(t, rt, WithHeader("X-Own", "yes"), WithExtra("labels", map[string]string{"a": "b"}),
		WithExtra("safetySettings", []int{}), WithMaxTokens(9), WithThinkingSummaries(true))
	req := hello()
	req.Model = "gemini-2.5-pro"
	_, err := aycoder.Complete(t.Context(), c, req)
	require.NoError(t, err)
	assert.Equal(t, testKey, last.Header.Get("x-goog-api-key"))
	assert.Equal(t, "yes", last.Header.Get("X-Own"))
	assert.Equal(t, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", last.URL.RequestURI())
	assert.Equal(t, `{"generationConfig":{"maxOutputTokens":9,"thinkingConfig":{"includeThoughts":true}},`+
		`"labels":{"a":"b"},"safetySettings":[],`+helloContents+`}`, body)
	name, model := c.ModelName()
	assert.Equal(t, "google gemini-test", name+" "+model)
}

// A token is requested for each request; without one the request is not sent.
func TestTokens(t *testing.T) {
	type key struct{}
	n := 0
	source := func(ctx context.Context) (string, error) {
		if n++; n == 3 {
			return "", errors.New("no metadata server")
		}
		return fmt.Sprint("token-", ctx.Value(key{}), n), ctx.Err()
	}
	var sent []string
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header.Get("Authorization"))
		body := fmt.Sprintf(`{"error":{"code":401,"message":"bad %s","status":"UNAUTHENTICATED"}}`, sent[len(sent)-1])
		return &http.Response{StatusCode: http.StatusUnauthorized, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	c, err := New("gemini-x", WithVertex("p", "global"), WithTokenSource(source), WithHTTPClient(&http.Client{Transport: rt}))
	require.NoError(t, err)
	ctx := context.WithValue(t.Context(), key{}, "x")
	var auth *aycoder.AuthError
	for range 2 {
		_, err = aycoder.Complete(ctx, c, hello())
		require.ErrorAs(t, err, &auth)
		assert.NotContains(t, err.Error(), "token-")
	}
	assert.Equal(t, []string{"Bearer token-x1", "Bearer token-x2"}, sent)
	_, err = aycoder.Complete(ctx, c, hello())
	require.ErrorAs(t, err, &auth)
	assert.ErrorContains(t, err, "vertex gemini-x: not authorised: get token: no metadata server")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = aycoder.Complete(cancelled, c, hello())
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, sent, 2)
}

// The key is in nothing that can be printed: the client, its errors, and quotations of
// the service.
func TestKeyIsNeverShown(t *testing.T) {
	answers := []struct {
		status int
		body   string
	}{
		{400, `{"error":{"code":400,"message":"key ` + testKey + ` is wrong","status":"INVALID_ARGUMENT"}}`},
		{403, `<html>` + testKey}, {429, testKey}, {500, `{"error":"` + testKey + `"}`},
		{200, "data: " + testKey + "\n\n"}, {200, `{"error":{"status":"` + testKey + `"}}`}, {200, `{"` + testKey},
		{200, events(`{"promptFeedback":{"blockReason":"` + testKey + `"}}`)},
		{200, events(parts(`{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"`+testKey+`"}]}}`, ""))},
	}
	for _, answer := range answers {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: answer.status, Request: r, Header: http.Header{"X-Request-Id": {testKey}},
				Body: io.NopCloser(strings.NewReader(answer.body))}, nil
		})
		c := newClient(t, rt)
		_, err := aycoder.Complete(t.Context(), c, hello())
		require.Error(t, err)
		var all strings.Builder
		slog.New(slog.NewJSONHandler(&all, nil)).Info("x", "client", c, "error", err)
		fmt.Fprintf(&all, "%v %+v %#v %s %v %+v %#v", c, c, c, c, *c, *c, *c)
		for e := err; e != nil; e = errors.Unwrap(e) {
			fmt.Fprintf(&all, "%v %+v %#v", e, e, e)
		}
		assert.NotContains(t, all.String(), testKey)
		assert.NotContains(t, all.String(), testKey[:12])
	}
	rt := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("proxy says " + testKey) })
	_, err := aycoder.Complete(t.Context(), newClient(t, rt), hello())
	assert.NotContains(t, err.Error(), testKey)
}

func TestFormatsOutput(t *testing.T) {
	c, err := New("gemini-2.5-pro", WithAPIKey(testKey))
	require.NoError(t, err)
	assert.True(t, c.FormatsOutput(""))
	assert.False(t, c.FormatsOutput("gemma-3-27b-it"))
}
