package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// post answers a question, and returns the status.
func post(h http.Handler, id int, body string, header ...string) int {
	r := httptest.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:8080/approvals/%d", id), strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// list returns the ids of the questions that are open, with their arguments.
func list(t *testing.T, h http.Handler) map[int]string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/approvals", nil))
	var questions []struct {
		Question int
		Args     json.RawMessage
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &questions), w.Body)
	open := make(map[int]string)
	for _, q := range questions {
		open[q.Question] = string(q.Args)
	}
	return open
}

func deploys() *script.Model {
	return script.New(
		script.Reply(script.Call("deploy", `{"target":"staging"}`), script.Call("deploy", `{"target":"production"}`)),
		script.Say("Done."),
	)
}

// started runs the agent, and returns the lines that it prints.
func started(t *testing.T, d *desk, opts ...aycoder.Option) *bufio.Scanner {
	agent, err := newAgent(deploys(), opts...)
	require.NoError(t, err)
	r, w := io.Pipe()
	go func() { w.CloseWithError(run(context.Background(), w, agent, d, "Deploy it.")) }()
	t.Cleanup(func() { r.Close() })
	return bufio.NewScanner(r)
}

func Example() {
	agent, err := newAgent(deploys())
	if err != nil {
		log.Fatal(err)
	}
	var d desk
	r, w := io.Pipe()
	go func() { w.CloseWithError(run(context.Background(), w, agent, &d, "Deploy it.")) }()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fmt.Println(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "question 2"):
			post(d.handler("127.0.0.1"), 1, `{"allow":true}`)
		case strings.HasPrefix(lines.Text(), "deployed"):
			post(d.handler("127.0.0.1"), 2, `{"allow":false,"reason":"not on a Friday"}`)
		}
	}
	// Output:
	// question 1: deploy {"target":"staging"}
	// question 2: deploy {"target":"production"}
	// deployed to staging
	// the user refused this call: not on a Friday
	// Done.
}

func TestAnswers(t *testing.T) {
	var d desk
	h := d.handler("127.0.0.1")
	lines := started(t, &d)
	next := func() string {
		require.True(t, lines.Scan(), lines.Err())
		return lines.Text()
	}
	require.Equal(t, `question 1: deploy {"target":"staging"}`, next())
	require.Equal(t, `question 2: deploy {"target":"production"}`, next())
	require.Equal(t, map[int]string{1: `{"target":"staging"}`, 2: `{"target":"production"}`}, list(t, h))

	require.Equal(t, http.StatusBadRequest, post(h, 1, `{}`))
	require.Equal(t, http.StatusBadRequest, post(h, 1, `yes`))
	require.Equal(t, http.StatusNotFound, post(h, 7, `{"allow":true}`))
	require.Equal(t, http.StatusForbidden, post(h, 1, `{"allow":true}`, "Sec-Fetch-Site", "cross-site"))
	require.Equal(t, http.StatusNotFound, post(h, 1, `{"allow":true}`, "Host", "evil.example:8080", "Origin", "http://evil.example:8080"))
	require.Len(t, list(t, h), 2)

	require.Equal(t, http.StatusOK, post(h, 1, `{"allow":true}`))
	require.Equal(t, "deployed to staging", next())
	require.Equal(t, http.StatusConflict, post(h, 1, `{"allow":false}`))
	require.Equal(t, http.StatusOK, post(h, 2, `{"allow":false,"reason":"not on a Friday"}`))
	require.Equal(t, "the user refused this call: not on a Friday", next())
	require.Equal(t, "Done.", next())
	require.False(t, lines.Scan())
	require.NoError(t, lines.Err())
	require.Empty(t, list(t, h))
}

// A rule that was not suggested leaves the question open. A suggested one also answers the other
// question, which then leaves the list.
func TestRule(t *testing.T) {
	var d desk
	h := d.handler("127.0.0.1")
	lines := started(t, &d)
	require.True(t, lines.Scan())
	require.True(t, lines.Scan())
	require.Equal(t, http.StatusUnprocessableEntity, post(h, 1, `{"allow":true,"rule":"all"}`))
	require.Len(t, list(t, h), 2)

	require.Equal(t, http.StatusOK, post(h, 1, `{"allow":true,"rule":"deploy"}`))
	require.Empty(t, list(t, h))
	require.Equal(t, http.StatusConflict, post(h, 2, `{"allow":true,"rule":"deploy"}`))
	require.Equal(t, http.StatusConflict, post(h, 2, `{"allow":false}`))
	for _, want := range []string{"deployed to staging", "deployed to production", "Done."} {
		require.True(t, lines.Scan(), lines.Err())
		require.Equal(t, want, lines.Text())
	}
}

// A question that nobody answers is denied after Limits.Approval, and leaves the desk.
func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		lines := started(t, &d, aycoder.WithLimits(aycoder.Limits{Approval: time.Hour}))
		require.True(t, lines.Scan())
		require.True(t, lines.Scan())
		require.Len(t, list(t, d.handler("127.0.0.1")), 2)
		for lines.Scan() {
		}
		require.NoError(t, lines.Err())
		require.Empty(t, list(t, d.handler("127.0.0.1")))
	})
}
