package server_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

const token = "0123456789abcdef-secret"

// An attack is a request that must be refused. The placeholders of the path are those of a run of alice that waits for an
// answer: {run}, {session}, {call}, {digest}; {other} is a run of bob.
type attack struct {
	name         string
	status       int
	method, path string
	body         string
	headers      []string
}

// Nothing of this list gets through.
func TestAttacks(t *testing.T) {
	alice := []string{"Authorization", "Bearer alice"}
	as := func(who string, more ...string) []string {
		return append([]string{"Authorization", "Bearer " + who}, more...)
	}
	allow := `{"decision":"allow","digest":"{digest}"}`
	prompt := `{"prompt":"go"}`
	big := `{"prompt":"` + strings.Repeat("x", 1<<20) + `"}`
	list := []attack{
		// who asks
		{"no token", 401, "POST", "/api/prompt", prompt, nil},
		{"empty token", 401, "POST", "/api/prompt", prompt, as("")},
		{"unknown token", 401, "POST", "/api/prompt", prompt, as("mallory")},
		{"token with a space behind it", 401, "POST", "/api/prompt", prompt, as("alice x")},
		{"other scheme", 401, "GET", "/api/sessions", "", []string{"Authorization", "Basic YWxpY2U6"}},
		{"scheme in lower case without a token", 401, "GET", "/api/sessions", "", []string{"Authorization", "bearer"}},
		{"token in the query", 401, "GET", "/api/sessions?token=alice&access_token=alice", "", nil},
		{"token in another cookie", 401, "GET", "/api/sessions", "", []string{"Cookie", "token=alice"}},
		{"proxy header as a name", 401, "GET", "/api/sessions", "", []string{"X-Forwarded-User", "alice"}},
		{"metrics without a token", 401, "GET", "/api/metrics", "", nil},
		{"tools without a token", 401, "GET", "/api/tools", "", nil},
		{"the document without a token", 401, "GET", "/api/openapi.json", "", nil},
		{"events without a token", 401, "GET", "/api/runs/{run}/events", "", nil},
		{"answer without a token", 401, "POST", "/api/runs/{run}/approvals/{call}", allow, nil},
		{"cancel without a token", 401, "POST", "/api/runs/{run}/cancel", "", nil},
		{"checkout without a token", 401, "POST", "/api/sessions/{session}/checkout", `{"node":0}`, nil},
		{"tool without a token", 401, "POST", "/api/tools/bash", `{"args":{"command":"id"}}`, nil},
		// from where
		{"page of another origin", 403, "POST", "/api/prompt", prompt, as("alice", "Origin", "https://evil.example")},
		{"page without an origin", 403, "POST", "/api/prompt", prompt, as("alice", "Origin", "null")},
		{"origin with our name as a prefix", 403, "POST", "/api/prompt", prompt, as("alice", "Origin", "http://localhost.evil.example")},
		{"origin of another port", 403, "POST", "/api/prompt", prompt, as("alice", "Origin", "http://localhost:1")},
		{"form of another site", 403, "POST", "/api/prompt", prompt, as("alice", "Sec-Fetch-Site", "cross-site")},
		{"page of a sister site", 403, "GET", "/api/sessions", "", as("alice", "Sec-Fetch-Site", "same-site")},
		{"reading by another site", 403, "GET", "/api/sessions", "", as("alice", "Origin", "https://evil.example")},
		{"preflight of another site", 403, "OPTIONS", "/api/prompt", "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}},
		{"name that was bound again", 421, "POST", "/api/prompt", prompt, as("alice", "Host", "evil.example")},
		{"name with our name as a prefix", 421, "GET", "/api/sessions", "", as("alice", "Host", "localhost.evil.example")},
		{"name and port that were bound again", 421, "GET", "/api/sessions", "", as("alice", "Host", "evil.example:80")},
		{"address of the network", 421, "GET", "/api/sessions", "", as("alice", "Host", "10.0.0.1")},
		{"address of no one", 421, "GET", "/api/sessions", "", as("alice", "Host", "0.0.0.0")},
		{"health under another name", 421, "GET", "/health", "", []string{"Host", "evil.example"}},
		// what belongs to others
		{"session of another", 404, "GET", "/api/sessions/{session}", "", as("bob")},
		{"tree of another", 404, "GET", "/api/sessions/{session}/tree", "", as("bob")},
		{"checkout of another", 404, "POST", "/api/sessions/{session}/checkout", `{"node":0}`, as("bob")},
		{"prompt in the session of another", 404, "POST", "/api/prompt", `{"prompt":"go","session":"{session}"}`, as("bob")},
		{"run of another", 404, "GET", "/api/runs/{run}", "", as("bob")},
		{"events of another", 404, "GET", "/api/runs/{run}/events", "", as("bob")},
		{"answer for another", 404, "POST", "/api/runs/{run}/approvals/{call}", allow, as("bob")},
		{"result for another", 404, "POST", "/api/runs/{run}/results/{call}", `{"digest":"{digest}","text":"x"}`, as("bob")},
		{"words for another", 404, "POST", "/api/runs/{run}/steer", `{"text":"x"}`, as("bob")},
		{"cancel of another", 404, "POST", "/api/runs/{run}/cancel", "", as("bob")},
		{"tool in the session of another", 404, "POST", "/api/tools/read_file", `{"session":"{session}","args":{"path":"a.txt"}}`, as("bob")},
		{"tools of the session of another", 404, "GET", "/api/tools?session={session}", "", as("bob")},
		// what does not fit
		{"answer by way of one's own run", 409, "POST", "/api/runs/{other}/approvals/{call}", allow, as("bob")},
		{"answer about another call", 409, "POST", "/api/runs/{run}/approvals/c2", allow, alice},
		{"answer about another digest", 409, "POST", "/api/runs/{run}/approvals/{call}", `{"decision":"allow","digest":"0"}`, alice},
		{"answer without a digest", 400, "POST", "/api/runs/{run}/approvals/{call}", `{"decision":"allow"}`, alice},
		{"answer with a rule for everything", 422, "POST", "/api/runs/{run}/approvals/{call}", `{"decision":"allow","digest":"{digest}","rule":"*"}`, alice},
		{"replayed answer", 409, "POST", "/api/runs/{old}/approvals/{oldcall}", `{"decision":"allow","digest":"{olddigest}"}`, alice},
		{"result of a call that nobody asked for", 409, "POST", "/api/runs/{run}/results/{call}", `{"digest":"{digest}","text":"x"}`, alice},
		{"traversal in a session", 404, "GET", "/api/sessions/..%2F..%2Fetc", "", alice},
		{"traversal in a run", 404, "GET", "/api/runs/..%2F..%2Fx.y", "", alice},
		{"traversal in the session of a prompt", 404, "POST", "/api/prompt", `{"prompt":"go","session":"../bob/x"}`, alice},
		{"zero byte in a session", 404, "GET", "/api/sessions/a%00b", "", alice},
		{"session in upper case", 404, "GET", "/api/sessions/ABC", "", alice},
		{"very long id", 404, "GET", "/api/runs/" + strings.Repeat("a", 5000) + ".b/events", "", alice},
		{"header in an id", 400, "GET", "/api/runs/{run}/events", "", as("alice", "Last-Event-ID", "x\tSet-Cookie: a=b")},
		{"giant cursor", 400, "GET", "/api/runs/{run}/events", "", as("alice", "Last-Event-ID", strings.Repeat("9.", 40_000))},
		{"line end in the path", 404, "GET", "/api/sessions/a%0d%0aSet-Cookie:%20a=b", "", alice},
		{"giant body", 413, "POST", "/api/prompt", big, alice},
		{"giant key", 400, "POST", "/api/prompt", prompt, as("alice", "Idempotency-Key", strings.Repeat("k", 257))},
		{"form", 415, "POST", "/api/prompt", "prompt=go", as("alice", "Content-Type", "application/x-www-form-urlencoded")},
		{"text that a form can send", 415, "POST", "/api/prompt", prompt, as("alice", "Content-Type", "text/plain")},
		{"two values", 400, "POST", "/api/prompt", prompt + prompt, alice},
		{"deep nesting", 400, "POST", "/api/prompt", strings.Repeat("[", 100_000), alice},
		{"image by address", 400, "POST", "/api/prompt", `{"prompt":"go","images":[{"type":"image/png","url":"http://169.254.169.254/"}]}`, alice},
		{"tool that is not there", 404, "POST", "/api/tools/no_such", `{"args":{}}`, alice},
		// the forms of others
		{"AG-UI without a token", 401, "POST", "/api/agui", `{"threadId":"{session}","runId":"r","messages":[]}`, nil},
		{"chat without a token", 401, "POST", "/api/chat", `{"id":"{session}","messages":[]}`, nil},
		{"stream of a chat without a token", 401, "GET", "/api/chat/{session}/stream", "", nil},
		{"AG-UI of another origin", 403, "POST", "/api/agui", `{"threadId":"{session}"}`, as("alice", "Origin", "https://evil.example")},
		{"question of another by AG-UI", 404, "POST", "/api/agui", `{"threadId":"{bob}","runId":"r","resume":[{"interruptId":"{ticket}","status":"resolved","payload":{"approved":true}}]}`, as("bob")},
		{"question of another in the session of another", 404, "POST", "/api/agui", `{"threadId":"{session}","runId":"r","resume":[{"interruptId":"{ticket}","status":"resolved","payload":{"approved":true}}]}`, as("bob")},
		{"question of another by chat", 404, "POST", "/api/chat", `{"id":"{bob}","messages":[{"role":"assistant","parts":[{"state":"approval-responded","approval":{"id":"{ticket}","approved":true}}]}]}`, as("bob")},
		{"question with another digest by chat", 409, "POST", "/api/chat", `{"id":"{session}","messages":[{"role":"assistant","parts":[{"state":"approval-responded","approval":{"id":"{forged}","approved":true}}]}]}`, alice},
		{"question that is no question", 400, "POST", "/api/chat", `{"id":"{session}","messages":[{"role":"assistant","parts":[{"state":"approval-responded","approval":{"id":"../../x","approved":true}}]}]}`, alice},
		{"traversal in a chat", 404, "GET", "/api/chat/..%2F..%2Fx/stream", "", alice},
		{"giant name of a chat", 400, "POST", "/api/chat", `{"id":"` + strings.Repeat("x", 300) + `","messages":[{"id":"u","role":"user","parts":[{"type":"text","text":"x"}]}]}`, alice},
		{"other method", 405, "DELETE", "/api/sessions/{session}", "", alice},
		{"prompt by GET", 405, "GET", "/api/prompt?prompt=go", "", alice},
		{"path with dots", 404, "GET", "/api/../etc/passwd", "", alice},
	}
	require.GreaterOrEqual(t, len(list), 60)
	seen := map[string]bool{}
	s := newSite(t, aycoder.ModelClient(nil), server.WithLimits(server.Limits{Body: 512 << 10}))
	s.host.Principal = func(r *http.Request) (string, error) {
		for _, who := range []string{"alice", "bob"} {
			if r.Header.Get("Authorization") == "Bearer "+who {
				return who, nil
			}
		}
		return "", fmt.Errorf("nobody")
	}
	s.model = editor("Done.")
	s.start()
	old := s.do("POST", "/api/prompt", map[string]any{"prompt": "old"}, alice...)
	or := s.read(old)
	oq := or.until("approval_request").ev.(*aycoder.ApprovalRequested).Request
	s.get(204, nil, "POST", "/api/runs/"+runOf(old)+"/approvals/"+oq.CallID, map[string]any{"decision": "deny", "digest": oq.Digest}, alice...)
	or.rest()
	s.model = editor("Done.")
	res := s.do("POST", "/api/prompt", map[string]any{"prompt": "go"}, alice...)
	r := s.read(res)
	q := r.until("approval_request").ev.(*aycoder.ApprovalRequested).Request
	s.model = script.New(script.Say("Hi."))
	_, bob := s.ask(map[string]any{"prompt": "hi"}, as("bob")...)
	ticket := func(digest string) string {
		data, err := json.Marshal(map[string]string{"r": runOf(res), "o": q.CallID, "c": q.CallID, "d": digest})
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	fill := strings.NewReplacer("{bob}", bob.Header.Get("Aycoder-Session"), "{ticket}", ticket(q.Digest), "{forged}", ticket("0"),
		"{run}", runOf(res), "{session}", res.Header.Get("Aycoder-Session"), "{call}", q.CallID, "{digest}", q.Digest,
		"{other}", runOf(bob), "{old}", runOf(old), "{oldcall}", oq.CallID, "{olddigest}", oq.Digest)
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			require.False(t, seen[a.name])
			seen[a.name] = true
			status, head, text := raw(t, s.http.URL, a.method, fill.Replace(a.path), fill.Replace(a.body), a.headers)
			require.Equal(t, a.status, status, text)
			require.NotContains(t, head, "Set-Cookie")
			require.NotContains(t, head, "Access-Control-Allow-Origin")
			require.NotContains(t, text, q.Digest)
			require.Contains(t, head, "application/problem+json")
		})
	}
	// The question is still open, and nothing has changed.
	var st struct{ Approvals []any }
	s.get(200, &st, "GET", "/api/runs/"+runOf(res), nil, alice...)
	require.Len(t, st.Approvals, 1)
	s.get(204, nil, "POST", "/api/runs/"+runOf(res)+"/cancel", nil, alice...)
	r.rest()
	require.Equal(t, "one\ntwo\n", s.file("a.txt"))
}

// raw sends a request byte by byte as it is given, which a client of net/http would mend.
func raw(t *testing.T, url, method, path, body string, headers []string) (status int, head, text string) {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", host)
	require.NoError(t, err)
	defer conn.Close()
	var b strings.Builder
	set := map[string]string{"Host": host}
	if body != "" {
		set["Content-Type"] = "application/json"
	}
	for i := 0; i < len(headers); i += 2 {
		set[headers[i]] = headers[i+1]
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path, set["Host"])
	delete(set, "Host")
	for k, v := range set {
		fmt.Fprintf(&b, "%s: %s\r\n", k, v)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	go func() { _, _ = io.WriteString(conn, b.String()) }() // a giant body is not read
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	var h strings.Builder
	_ = res.Header.Write(&h)
	return res.StatusCode, h.String(), string(data)
}

// Without a token, only requests on the same machine are served, and with one only those that have it.
func TestTokenAndLoopback(t *testing.T) {
	status := func(h http.Handler, from, local string, headers ...string) int {
		r := httptest.NewRequest("GET", "http://localhost/api/sessions", nil)
		r.RemoteAddr = from
		ctx := withLocalAddr(r, local)
		r = r.WithContext(ctx)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	open := newSite(t, script.New()).start().srv
	require.Equal(t, 200, status(open, "127.0.0.1:5", "127.0.0.1:80"))
	require.Equal(t, 200, status(open, "[::1]:5", "[::1]:80"))
	require.Equal(t, 401, status(open, "192.168.1.5:5", "192.168.1.9:80"))
	require.Equal(t, 401, status(open, "127.0.0.1:5", "192.168.1.9:80"))
	require.Equal(t, 401, status(open, "127.0.0.1:5", "127.0.0.1:80", "X-Forwarded-For", "10.1.1.1"))
	require.Equal(t, 401, status(open, "", ""))

	locked := newSite(t, script.New(), server.WithToken(token)).start().srv
	require.Equal(t, 401, status(locked, "127.0.0.1:5", "127.0.0.1:80"))
	require.Equal(t, 200, status(locked, "192.168.1.5:5", "192.168.1.9:80", "Authorization", "Bearer "+token))
	require.Equal(t, 401, status(locked, "192.168.1.5:5", "192.168.1.9:80", "Authorization", "Bearer "+token[1:]))
	require.Equal(t, 401, status(locked, "192.168.1.5:5", "192.168.1.9:80", "Authorization", "Bearer "+token+"x"))
	_, err := server.New(server.Host{}, server.WithToken("short"))
	require.ErrorContains(t, err, "16 characters")
	require.ErrorContains(t, err, "needs Store and Open")
}

// Pages of an origin that the host allows can use the server.
func TestAllowedOrigin(t *testing.T) {
	s := newSite(t, script.New(), server.WithOrigins("https://app.example"), server.WithHosts("agent.example")).start()
	res := s.get(200, nil, "GET", "/api/sessions", nil, "Origin", "https://app.example", "Host", "agent.example")
	require.Equal(t, "https://app.example", res.Header.Get("Access-Control-Allow-Origin"))
	res = s.get(204, nil, "OPTIONS", "/api/prompt", nil, "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), "Authorization")
	s.refused(403, "origin", "GET", "/api/sessions", nil, "Origin", "https://app.example.evil")
	s.get(200, nil, "GET", "/api/sessions", nil, "Origin", s.http.URL, "Sec-Fetch-Site", "same-origin")
}

// A client that sends too much waits, and others do not.
func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, script.New(), server.WithLimits(server.Limits{Rate: 5}))
		s.host.Principal = func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }
		srv, err := server.New(server.Host{Principal: s.host.Principal, Store: s.stores, Open: s.openRuntime}, s.opts...)
		require.NoError(t, err)
		ask := func(who string) int {
			r := httptest.NewRequest("GET", "http://localhost/api/metrics", nil)
			r.RemoteAddr = netip.MustParseAddrPort("127.0.0.1:1").String()
			r.Header.Set("Authorization", who)
			w := httptest.NewRecorder()
			srv.ServeHTTP(w, r)
			if w.Code == 429 {
				require.NotEmpty(t, w.Header().Get("Retry-After"))
			}
			return w.Code
		}
		for range 20 {
			require.Equal(t, 200, ask("alice"))
		}
		require.Equal(t, 429, ask("alice"))
		require.Equal(t, 200, ask("bob"))
		nap(t)
		for range 5 {
			require.Equal(t, 200, ask("alice"))
		}
		require.Equal(t, 429, ask("alice"))
		require.NoError(t, srv.Close())
	})
}

// A body that does not come is not waited for, and a stream lasts longer than a body may take.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := newSite(t, held("Half ", gate, "and half."))
		srv, err := server.New(server.Host{Store: s.stores, Open: s.openRuntime, Principal: func(*http.Request) (string, error) { return "alice", nil }})
		require.NoError(t, err)
		pipes := &pipes{made: make(chan net.Conn), closed: make(chan struct{})}
		hs := &http.Server{Handler: srv}
		done := make(chan struct{})
		go func() { _ = hs.Serve(pipes); close(done) }()
		ask := func(body string, size int) (*http.Response, net.Conn) {
			conn := pipes.dial()
			_, err := fmt.Fprintf(conn, "POST /api/prompt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, body)
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			return res, conn
		}
		res, conn := ask(`{"prompt":`, 100)
		require.Equal(t, 408, res.StatusCode)
		conn.Close()

		body := `{"prompt":"go"}`
		res, conn = ask(body, len(body))
		require.Equal(t, 200, res.StatusCode)
		go func() { nap(t); waitLong(); close(gate) }()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Contains(t, string(data), "and half.")
		require.Contains(t, string(data), "run_end")
		conn.Close()
		require.NoError(t, srv.Close())
		require.NoError(t, hs.Close())
		<-done
	})
}

// A principal has a bounded number of streams, and gets another one when one has ended.
func TestTooManyStreams(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, held("Half ", gate, "and half."), server.WithLimits(server.Limits{Streams: 2})).start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	r := s.read(res)
	path := "/api/runs/" + runOf(res) + "/events"
	other := s.read(s.do("GET", path, nil))
	s.refused(429, "rate_limit", "GET", path, nil)
	s.refused(429, "rate_limit", "POST", "/api/prompt", prompt("more"))
	close(gate)
	r.rest()
	other.rest()
	timed.Until(t, func() bool {
		res := s.do("GET", path, nil)
		defer res.Body.Close()
		return res.StatusCode == 200
	})
}

// A client that does not take its answer does not keep a session in use.
func TestAnswerIsNotTaken(t *testing.T) {
	const chat = `{"messages":[{"role":"user","content":"go"}]}`
	for _, request := range []string{
		"GET /api/sessions/{session} HTTP/1.1\r\nHost: localhost\r\n\r\n",
		fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(chat), chat),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, script.New(script.Say(strings.Repeat("long ", 4<<10))).With(script.WithLoop(true)))
			srv, err := server.New(server.Host{Store: s.stores, Open: s.openRuntime, Principal: func(*http.Request) (string, error) { return "alice", nil }})
			require.NoError(t, err)
			req := httptest.NewRequest("POST", "http://localhost/api/prompt", strings.NewReader(`{"prompt":"go"}`))
			req.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			srv.ServeHTTP(w, req)
			pipes := &pipes{made: make(chan net.Conn), closed: make(chan struct{})}
			hs := &http.Server{Handler: srv}
			done := make(chan struct{})
			go func() { _ = hs.Serve(pipes); close(done) }()
			conn := pipes.dial()
			_, err = io.WriteString(conn, strings.Replace(request, "{session}", w.Header().Get("Aycoder-Session"), 1))
			require.NoError(t, err)
			synctest.Wait()
			ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
			defer stop()
			err = srv.Shutdown(ctx)
			conn.Close()
			require.NoError(t, hs.Close())
			<-done
			require.NoError(t, err)
		})
	}
}
