//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// An office is a server that asks for a login, with its authorization server. It counts requests.
type office struct {
	*httptest.Server
	mu      sync.Mutex
	count   map[string]int
	valid   string // the access token that the server takes
	refresh string // the refresh token that counts
	broken  bool   // it gives tokens that the server does not take
	revoked bool
	late    chan struct{} // what the token endpoint waits for, or nil
	drops   bool          // it does not answer those who wait
	moved   string        // where the token endpoint sends clients to, or ""
	scope   string        // that the tool needs, or "none" if the tool is forbidden
	asked   []string      // scopes of logins
	given   int
	calls   int           // that were carried out
	worked  chan struct{} // closed with the first of them
}

func newOffice(t *testing.T) *office {
	o := &office{count: map[string]int{}, worked: make(chan struct{})}
	server := mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "work", Description: "Works.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.calls++; o.calls == 1 {
				close(o.worked)
			}
			return text("worked"), nil
		})
	server.AddTool(&mcp.Tool{Name: loginName, Description: "Pretends to be the tool that asks for a login.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("caught"), nil })
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	handle := func(path string, h func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			o.mu.Lock()
			o.count[path]++
			o.mu.Unlock()
			h(w, r)
		})
	}
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	handle("/mcp", func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		ok := o.valid != "" && r.Header.Get("Authorization") == "Bearer "+o.valid
		scope := o.scope
		o.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+o.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if scope != "" && strings.Contains(string(body), "tools/call") {
			if scope != "none" {
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+scope+`"`)
			}
			w.WriteHeader(http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, r)
	})
	handle("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"resource": o.URL + "/mcp", "authorization_servers": []string{o.URL}, "scopes_supported": []string{"read"}})
	})
	handle("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{
			"issuer": o.URL, "authorization_endpoint": o.URL + "/authorize", "token_endpoint": o.URL + "/token", "registration_endpoint": o.URL + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"}, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	})
	handle("/register", func(w http.ResponseWriter, r *http.Request) {
		var m map[string]any
		_ = json.NewDecoder(r.Body).Decode(&m)
		m["client_id"], m["token_endpoint_auth_method"] = "c1", "none"
		answer(w, 201, m)
	})
	handle("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		o.mu.Lock()
		o.asked = append(o.asked, q.Get("scope"))
		o.mu.Unlock()
		back := url.Values{"code": {"code"}, "state": {q.Get("state")}}
		if q.Get("code_challenge_method") != "S256" || q.Get("resource") != o.URL+"/mcp" || q.Get("client_id") != "c1" {
			back = url.Values{"error": {"invalid_request"}, "state": {q.Get("state")}}
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	handle("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // so that the server notices when the client has gone
		o.mu.Lock()
		late, moved, drops := o.late, o.moved, o.drops
		o.mu.Unlock()
		if moved != "" {
			http.Redirect(w, r, moved, http.StatusTemporaryRedirect)
			return
		}
		if late != nil {
			select {
			case <-late:
			case <-r.Context().Done():
				return
			}
			if drops {
				return
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		grant := r.Form.Get("grant_type")
		o.count["/token "+grant]++
		if grant == "refresh_token" && (o.revoked || r.Form.Get("refresh_token") != o.refresh || r.Form.Get("resource") != o.URL+"/mcp") ||
			grant == "authorization_code" && r.Form.Get("code_verifier") == "" {
			o.revoked = o.revoked || grant == "refresh_token" // as servers do that see a used one again
			answer(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		o.given++
		o.refresh, o.revoked = fmt.Sprint("refresh", o.given), false
		token := fmt.Sprint("access", o.given)
		if !o.broken {
			o.valid = token
		}
		answer(w, 200, map[string]any{"access_token": token, "token_type": "Bearer", "refresh_token": o.refresh, "expires_in": 3600})
	})
	o.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		o.Close()
		timed.Until(t, func() bool {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			return !bytes.Contains(stacks, []byte("contrib/mcp.(*client)")) && !bytes.Contains(stacks, []byte("contrib/mcp.(*login)"))
		}, "goroutines to end")
	})
	return o
}

// change does something under the lock.
func (o *office) change(f func()) { o.mu.Lock(); defer o.mu.Unlock(); f() }

// counts returns how often an address was asked since the last time.
func (o *office) counts(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.count[path]
	o.count[path] = 0
	return n
}

func (o *office) config() config.Server {
	return config.Server{URL: o.URL + "/mcp", Timeout: time.Minute}
}

// connect connects to the server.
func (o *office) connect(t *testing.T, opts ...Option) harness.ToolSource {
	t.Helper()
	src, err := Connector(append([]Option{fast}, opts...)...)(t.Context(), "s", o.config())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	return src
}

// visit is a browser in which the user is logged in already.
func visit(_ context.Context, address string) error {
	resp, err := http.Get(address)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

func hurried(o *options) error { o.refreshFor = 200 * time.Millisecond; return nil }

// loggedIn returns a directory with a login.
func loggedIn(t *testing.T, o *office) string {
	dir := filepath.Join(t.TempDir(), "logins")
	require.NoError(t, Login(t.Context(), "s", o.config(), WithLogins(dir), WithBrowser(visit)))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := files[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	clear(o.count)
	return dir
}

func names(t *testing.T, src harness.ToolSource) (names []string) {
	list, err := src.Tools(t.Context())
	require.NoError(t, err)
	for _, tool := range list {
		names = append(names, tool.Spec().Name)
	}
	return names
}

// offered are the tools after a login.
var offered = []string{"mcp__s__work", "mcp__s__oauth_login"}

// The tool that asks for a login stands for the tools of the server, until there is a token.
func TestLoginTool(t *testing.T) {
	o := newOffice(t)
	dir := filepath.Join(t.TempDir(), "logins")
	src := o.connect(t, WithLogins(dir), WithBrowser(visit))
	require.Equal(t, []string{"mcp__s__oauth_login"}, names(t, src))
	require.Equal(t, "wants a login", src.(*client).State())
	require.Equal(t, 1, o.counts("/mcp"), "further requests are not sent")
	login := find(t, src, "oauth_login")
	require.Equal(t, aycoder.EffectUnknown, login.Spec().Effect)
	var where string
	res, err := login.Call(t.Context(), aycoder.NewInvocation("1", "x", json.RawMessage(`{}`), func(p aycoder.Progress) { where = p.Message }))
	require.NoError(t, err)
	require.Contains(t, res.Text(), "logged in")
	require.Contains(t, where, "log in at "+o.URL+"/authorize?")
	require.Equal(t, offered, names(t, src))
	require.Equal(t, "worked", said(t, src, "work", `{}`))
	require.Equal(t, "on", src.(*client).State())
	require.Equal(t, []string{"read"}, o.asked)

	again := o.connect(t, WithLogins(dir))
	require.Equal(t, "worked", said(t, again, "work", `{}`), "the token was kept")
	require.Equal(t, 1, o.counts("/authorize"))
}

// Without a browser, another program brings the token, and the source notices.
func TestLoginElsewhere(t *testing.T) {
	o := newOffice(t)
	dir := filepath.Join(t.TempDir(), "logins")
	src := o.connect(t, WithLogins(dir))
	_, err := find(t, src, "oauth_login").Call(t.Context(), invocation(`{}`))
	require.ErrorIs(t, err, ErrUnauthorized)
	require.Equal(t, 1, o.counts("/mcp"))
	require.NoError(t, Login(t.Context(), "s", o.config(), WithLogins(dir), WithBrowser(visit)))
	require.Equal(t, offered, names(t, src))
	require.Equal(t, "worked", said(t, src, "work", `{}`))
}

// A user who refuses, an address that is none, and a page that guesses.
func TestLoginFails(t *testing.T) {
	o := newOffice(t)
	opts := func(browse func(context.Context, string) error) []Option {
		return []Option{WithLogins(t.TempDir()), WithBrowser(browse)}
	}
	err := Login(t.Context(), "s", o.config(), opts(func(ctx context.Context, address string) error {
		u, err := url.Parse(address)
		require.NoError(t, err)
		q := u.Query()
		wrong, err := http.Get(q.Get("redirect_uri") + "?code=x&state=guessed")
		require.NoError(t, err)
		wrong.Body.Close()
		require.Equal(t, http.StatusNotFound, wrong.StatusCode)
		return visit(ctx, q.Get("redirect_uri")+"?error=access_denied&state="+q.Get("state"))
	})...)
	require.ErrorContains(t, err, "access_denied")

	ctx, cancel := context.WithCancelCause(t.Context())
	err = Login(ctx, "s", o.config(), opts(func(context.Context, string) error { cancel(aycoder.ErrDecided); return nil })...)
	require.ErrorIs(t, err, aycoder.ErrDecided)

	require.Error(t, Login(t.Context(), "s", config.Server{Command: "x"}, opts(visit)...))
	open := httptest.NewServer(http.NotFoundHandler())
	defer open.Close()
	require.ErrorContains(t, Login(t.Context(), "s", config.Server{URL: open.URL}, opts(visit)...), "does not ask for a login")
}

// The states of a token in the middle of a session: one refresh, by whoever comes first, and then a typed error without
// any further request.
func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		name      string
		lose      func(o *office)
		err       error
		refreshes int
		limit     []Option
	}{
		{"expired", func(o *office) { o.valid = "other" }, nil, 1, nil},
		{"revoked", func(o *office) { o.valid, o.revoked = "other", true }, ErrUnauthorized, 1, nil},
		{"new token is refused", func(o *office) { o.valid, o.broken = "other", true }, ErrUnauthorized, 1, nil},
		{"used refresh token", func(o *office) { o.valid, o.refresh = "other", "other" }, ErrUnauthorized, 1, nil},
		{"never answers", func(o *office) { o.valid, o.late, o.drops = "other", make(chan struct{}), true }, ErrRefresh, 0, []Option{hurried}},
		{"answers late", func(o *office) { o.valid, o.late = "other", make(chan struct{}) }, ErrRefresh, 0, nil}, // in the ten seconds that it has
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			src := o.connect(t, append(tt.limit, WithLogins(loggedIn(t, o)))...)
			require.Equal(t, "worked", said(t, src, "work", `{}`))
			work := find(t, src, "work")
			clear(o.count)
			o.change(func() { tt.lose(o) })
			var wg sync.WaitGroup
			start := time.Now()
			for range 20 {
				wg.Go(func() {
					_, err := work.Call(t.Context(), invocation(`{}`))
					if tt.err == nil && err != nil || tt.err != nil && (!isError(err) || !strings.Contains(err.Error(), tt.err.Error())) {
						t.Errorf("%v, want %v", err, tt.err)
					}
				})
			}
			wg.Wait()
			timed.Within(t, start, time.Second, "20 calls")
			require.Equal(t, tt.refreshes, o.counts("/token refresh_token"))
			require.LessOrEqual(t, o.counts("/mcp"), 3*20+5)
			require.LessOrEqual(t, o.counts("/token"), 1)
			if tt.err != nil {
				for range 20 {
					_, err := work.Call(t.Context(), invocation(`{}`))
					require.ErrorIs(t, err, tt.err)
				}
				require.LessOrEqual(t, o.counts("/mcp")+o.counts("/token"), 1, "no storm")
			}
			require.Equal(t, offered, names(t, src), "the list does not depend on a token")
			o.change(func() {
				if o.late != nil {
					close(o.late)
				}
				o.broken, o.drops = false, false
			})
			if tt.err == ErrRefresh { // after the wait, it goes on by itself
				timed.Until(t, func() bool { _, err := work.Call(t.Context(), invocation(`{}`)); return err == nil })
			} else if tt.err != nil {
				require.NoError(t, Login(t.Context(), "s", o.config(), WithLogins(filepath.Dir(src.(*client).login.file)), WithBrowser(visit)))
				require.Equal(t, offered, names(t, src))
			}
			require.Equal(t, "worked", said(t, src, "work", `{}`))
			if tt.name == "answers late" {
				require.Equal(t, 1, o.counts("/token refresh_token"), "the renewal was not given up")
			}
		})
	}
}

// A program that starts while the authorization server hangs has its other tools within a second, and the tools of the
// server when that has answered.
func TestLateAtTheBeginning(t *testing.T) {
	o := newOffice(t)
	dir := loggedIn(t, o)
	late := make(chan struct{})
	o.change(func() { o.valid, o.late = "other", late })
	start := time.Now()
	src := o.connect(t, WithLogins(dir), WithBrowser(func(context.Context, string) error { return errors.New("nobody is there") }))
	timed.Within(t, start, time.Second, "to connect")
	require.Equal(t, []string{"mcp__s__oauth_login"}, names(t, src))
	before := o.counts("/mcp")
	_, err := find(t, src, "oauth_login").Call(t.Context(), invocation(`{}`))
	require.ErrorContains(t, err, "nobody is there", "a login is worth a try meanwhile")
	require.LessOrEqual(t, o.counts("/mcp"), before, "nothing is sent to the server")
	close(late)
	timed.Until(t, func() bool { return len(names(t, src)) == len(offered) }, "the tools")
	require.Equal(t, "worked", said(t, src, "work", `{}`))
	require.Equal(t, 1, o.counts("/token refresh_token"))
}

// A token is renewed before its end, and nobody waits for that.
func TestRenewedBeforeItsEnd(t *testing.T) {
	o := newOffice(t)
	dir := loggedIn(t, o)
	src := o.connect(t, WithLogins(dir))
	l := src.(*client).login
	l.mu.Lock()
	l.grant.Expiry = time.Now().Add(renewBefore / 2)
	l.mu.Unlock()
	late := make(chan struct{})
	o.change(func() { o.late = late })
	for range 3 {
		require.Equal(t, "worked", said(t, src, "work", `{}`))
	}
	close(late)
	timed.Until(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.given == 2 })
	require.Equal(t, "worked", said(t, src, "work", `{}`))
	require.Equal(t, 1, o.counts("/token refresh_token"))
}

func isError(err error) bool { _, ok := err.(*Error); return ok }

// A late answer of the authorization server still counts, also if the call that needed it was cancelled.
func TestLateRefresh(t *testing.T) {
	o := newOffice(t)
	src := o.connect(t, WithLogins(loggedIn(t, o)))
	require.Equal(t, "worked", said(t, src, "work", `{}`))
	late := make(chan struct{})
	o.change(func() { o.valid, o.late = "other", late })
	clear(o.count)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := calls(ctx, src, "work", `{}`); ended <- err }()
	timed.Until(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.count["/token"] == 1 })
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	close(late)
	require.Equal(t, "worked", said(t, src, "work", `{}`))
	require.Equal(t, 1, o.counts("/token refresh_token"))
}

// The secrets of a login go to no other host.
func TestTokenRedirect(t *testing.T) {
	o := newOffice(t)
	src := o.connect(t, WithLogins(loggedIn(t, o)))
	require.Equal(t, "worked", said(t, src, "work", `{}`))
	var got atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		got.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"theirs","token_type":"Bearer"}`)
	}))
	defer other.Close()
	o.change(func() { o.valid, o.moved = "other", other.URL })
	_, err := calls(t.Context(), src, "work", `{}`)
	require.ErrorContains(t, err, "another host")
	err = Login(t.Context(), "s", o.config(), WithLogins(t.TempDir()), WithBrowser(visit))
	require.ErrorContains(t, err, "another host")
	require.Zero(t, got.Load())
}

// Two clients, as of two processes, refresh once.
func TestSharedLogin(t *testing.T) {
	o := newOffice(t)
	dir := loggedIn(t, o)
	a, b := o.connect(t, WithLogins(dir)), o.connect(t, WithLogins(dir))
	require.Equal(t, "worked", said(t, a, "work", `{}`)+said(t, b, "work", `{}`)[len("worked"):])
	o.change(func() { o.valid = "other" })
	var wg sync.WaitGroup
	for _, src := range []harness.ToolSource{a, b, a, b} {
		wg.Go(func() {
			if _, err := calls(t.Context(), src, "work", `{}`); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, o.counts("/token refresh_token"))
	require.False(t, o.revoked, "no refresh token was used twice")
}

// A request that is forbidden, by a firewall for example, is not mended by a login.
func TestForbidden(t *testing.T) {
	o := newOffice(t)
	src := o.connect(t, WithLogins(loggedIn(t, o)), WithBrowser(visit))
	o.change(func() { o.scope = "none" })
	_, err := calls(t.Context(), src, "work", `{}`)
	require.ErrorIs(t, err, errForbidden)
	require.NotErrorIs(t, err, ErrUnauthorized)
	require.NotErrorIs(t, err, ErrLost)
	o.change(func() { o.scope = "" })
	require.Equal(t, "worked", said(t, src, "work", `{}`))
}

// A tool that needs more scopes asks for a login that has the others, too.
func TestMoreScopes(t *testing.T) {
	o := newOffice(t)
	src := o.connect(t, WithLogins(loggedIn(t, o)), WithBrowser(visit))
	o.change(func() { o.scope = "write" })
	_, err := calls(t.Context(), src, "work", `{}`)
	require.ErrorIs(t, err, ErrUnauthorized)
	require.Equal(t, offered, names(t, src))
	require.Equal(t, 0, o.counts("/token refresh_token"))
	o.change(func() { o.scope = "" })
	_, err = find(t, src, "oauth_login").Call(t.Context(), invocation(`{}`))
	require.NoError(t, err)
	require.Len(t, o.asked, 2)
	require.Equal(t, "read", o.asked[0])
	require.ElementsMatch(t, []string{"read", "write"}, strings.Fields(o.asked[1])) // of no order: RFC 6749, section 3.3
	require.Equal(t, "worked", said(t, src, "work", `{}`))
}

// A run whose server wants a login: the error is typed, and reaches whoever watches; the login is a question that a run
// with nobody there is suspended by, and that can be answered later, in another process.
func TestLoginInRuns(t *testing.T) {
	for _, kind := range []string{"main", "subagent", "background", "headless"} {
		for _, revoked := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, "/revoked=", revoked), func(t *testing.T) {
				r := &loginRun{o: newOffice(t), kind: kind, revoked: revoked}
				r.test(t)
			})
		}
	}
}

type loginRun struct {
	o       *office
	kind    string
	revoked bool
	rt      *harness.Runtime
	src     harness.ToolSource // of the newest runtime
	asked   []string
	ended   chan struct{} // closed when the agent in the background has ended. Default: when it has worked
	child   []script.Step // of a subagent, if they are not those of the run
	rules   []config.Rule
	limit   []Option

	mu    sync.Mutex
	typed int // errors of the package that were seen, in whichever run
}

// observe counts the calls that fail for want of a token, which each takes less than a second.
func (r *loginRun) observe(t *testing.T) aycoder.ToolMiddleware {
	return func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			start := time.Now()
			res, err := next(ctx, inv)
			if e, ok := errors.AsType[*Error](err); ok && (errors.Is(e, ErrUnauthorized) || errors.Is(e, ErrRefresh)) {
				timed.Within(t, start, time.Second, "a call without a token")
				r.failed()
			}
			return res, err
		}
	}
}

func (r *loginRun) failed() { r.mu.Lock(); defer r.mu.Unlock(); r.typed++ }

func (r *loginRun) failures() int { r.mu.Lock(); defer r.mu.Unlock(); return r.typed }

// open makes the runtime. Its model calls a tool that needs the login, asks for it, and tries again.
func (r *loginRun) open(t *testing.T, dir string, steps ...script.Step) {
	loaded, err := config.Load()
	require.NoError(t, err)
	c := loaded.Config.Settings
	c.Servers, c.Approval.Rules = map[string]config.Server{"s": r.o.config()}, r.rules
	parent, child := script.New(steps...), script.New(steps...)
	if r.child != nil {
		child = script.New(r.child...)
	}
	if r.ended == nil {
		r.ended = r.o.worked
	}
	if r.kind == "subagent" || r.kind == "background" {
		parent = script.New(script.Call("subagent", map[string]any{"task": "CHILD", "background": r.kind == "background"}),
			script.Say("done"), script.Say("a note has come"), script.Say("another one")) // if the agent ends before the run
	}
	model := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		if strings.Contains(req.Messages[0].Text(), "CHILD") {
			return child.Stream(ctx, req)
		}
		if r.kind == "background" && len(req.Messages) > 1 { // the run stays active, and shows the questions of its agent
			select {
			case <-r.ended:
			case <-ctx.Done():
			}
		}
		return parent.Stream(ctx, req)
	})
	connect := append([]Option{fast, WithLogins(dir)}, r.limit...)
	opts := []harness.Option{harness.WithClient(model), harness.WithSettings(c), harness.WithLoopOptions(aycoder.WithToolMiddleware(r.observe(t)))}
	if r.kind == "headless" {
		opts = append(opts, harness.WithQuestions(aycoder.SuspendAsks))
	} else {
		connect = append(connect, WithBrowser(visit))
	}
	r.rt, err = harness.New(t.Context(), t.TempDir(), append(opts, harness.WithServers(
		func(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
			src, err := Connector(connect...)(ctx, name, s)
			r.src = src
			return src, err
		}))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.rt.Close()) })
}

// watch takes part in a run, and returns its result.
func (r *loginRun) watch(t *testing.T, in aycoder.Input) (res aycoder.Result) {
	for ev, err := range r.rt.Run(t.Context(), in, aycoder.Into(&res), r.rt.Jobs.Attach()) {
		require.NoError(t, err)
		if child, ok := ev.(*aycoder.ChildEvent); ok {
			ev = child.Innermost()
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			if ev.Request.Tool != "subagent" {
				r.asked = append(r.asked, ev.Request.Tool)
			}
			ev.Allow()
		case *aycoder.ToolFinished:
			if _, gone := errors.AsType[*aycoder.ToolNotFoundError](ev.Err); gone && r.kind == "headless" { // whose process could not connect
				r.failed()
			}
		}
	}
	return res
}

func (r *loginRun) test(t *testing.T) {
	login, work := script.Call("mcp__s__oauth_login", nil), script.Call("mcp__s__work", nil)
	steps := []script.Step{login, work, script.Say("done")}
	dir := filepath.Join(t.TempDir(), "logins")
	if r.revoked {
		dir = loggedIn(t, r.o)
		steps = append([]script.Step{work}, steps...)
	}
	r.open(t, dir, steps...)
	want := []string{"mcp__s__oauth_login", "mcp__s__work"}
	if r.revoked {
		r.o.change(func() { r.o.valid, r.o.revoked = "other", true })
		want = append([]string{"mcp__s__work"}, want...)
	}
	clear(r.o.count)
	start := time.Now()
	res := r.watch(t, aycoder.Input{Prompt: "go"})
	timed.Within(t, start, 5*time.Second)
	if r.kind == "headless" {
		for _, tool := range want {
			require.Equal(t, aycoder.EndSuspended, res.End)
			require.Len(t, res.Pending.Requests, 1)
			require.Equal(t, tool, res.Pending.Requests[0].Tool)
			r.asked = append(r.asked, tool)
			if tool == "mcp__s__oauth_login" {
				require.NoError(t, Login(t.Context(), "s", r.o.config(), WithLogins(dir), WithBrowser(visit)))
			}
			res = r.resume(t, dir, res.Pending, steps[len(r.asked):])
		}
		require.Equal(t, "done", res.Text())
	}
	require.Equal(t, want, r.asked)
	require.Equal(t, 1, r.o.did())
	require.Equal(t, r.revoked, r.failures() > 0)
	require.LessOrEqual(t, r.o.counts("/token refresh_token"), 1)
	require.LessOrEqual(t, r.o.counts("/mcp"), 20, "no storm")
}

// An authorization server that answers late fails the call, with a typed error and before the answer. The next call has the
// token.
func TestLateInRuns(t *testing.T) {
	for _, kind := range []string{"main", "subagent", "background", "headless"} {
		t.Run(kind, func(t *testing.T) {
			r := &loginRun{o: newOffice(t), kind: kind, revoked: true}
			dir := loggedIn(t, r.o)
			late := make(chan struct{})
			work := script.Call("mcp__s__work", nil)
			answered := script.Func(func(*aycoder.Request) script.Step { // the call has failed, and the server answers at last
				require.Zero(t, r.o.did())
				close(late)
				timed.Until(t, func() bool { // until then, calls fail at once
					l := r.src.(*client).login
					l.mu.Lock()
					defer l.mu.Unlock()
					return l.renewal == nil
				})
				timed.Until(t, func() bool { list, err := r.src.Tools(t.Context()); return err == nil && len(list) == len(offered) })
				return work
			})
			steps, typed := []script.Step{work, answered, script.Say("done")}, 1
			if kind == "headless" { // another process, whose tools are there with the next turn
				steps, typed = []script.Step{work, answered, work, script.Say("done")}, 2
			}
			r.open(t, dir, steps...)
			r.o.change(func() { r.o.valid, r.o.late = "other", late })
			clear(r.o.count)
			res := r.watch(t, aycoder.Input{Prompt: "go"})
			for n := 1; res.End == aycoder.EndSuspended; n += 2 {
				r.asked = append(r.asked, res.Pending.Requests[0].Tool)
				res = r.resume(t, dir, res.Pending, steps[n:])
			}
			require.Equal(t, "mcp__s__work", r.asked[0])
			require.Equal(t, 1, r.o.did())
			require.Equal(t, typed, r.failures())
			require.LessOrEqual(t, r.o.counts("/mcp"), 20, "no storm")
			require.LessOrEqual(t, r.o.counts("/token refresh_token"), 2) // one for a process
		})
	}
}

// A token that has expired is renewed once, with a new refresh token, and nobody notices. If the authorization server never
// answers, each call fails, typed and within a second.
func TestTokensInRuns(t *testing.T) {
	for _, kind := range []string{"main", "subagent", "background", "headless"} {
		for _, tt := range []struct {
			name               string
			lose               func(o *office)
			limit              []Option
			done, typed, given int
		}{
			{"expired", func(o *office) { o.valid = "other" }, nil, 2, 0, 2},
			{"never answers", func(o *office) { o.valid, o.late, o.drops = "other", make(chan struct{}), true }, []Option{hurried}, 0, 2, 1},
		} {
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				r := &loginRun{o: newOffice(t), kind: kind, ended: make(chan struct{}), limit: tt.limit}
				dir := loggedIn(t, r.o)
				work := script.Call("mcp__s__work", nil)
				steps := []script.Step{work, work, script.Func(func(*aycoder.Request) script.Step {
					close(r.ended)
					return script.Say("done")
				})}
				r.open(t, dir, steps...)
				r.o.change(func() { tt.lose(r.o) })
				clear(r.o.count)
				res := r.watch(t, aycoder.Input{Prompt: "go"})
				for n := 1; res.End == aycoder.EndSuspended; n++ {
					r.asked = append(r.asked, res.Pending.Requests[0].Tool)
					res = r.resume(t, dir, res.Pending, steps[n:])
				}
				<-r.ended
				require.Equal(t, tt.done, r.o.did())
				require.Equal(t, tt.typed, r.failures())
				require.LessOrEqual(t, r.o.counts("/mcp"), 20, "no storm")
				r.o.mu.Lock()
				defer r.o.mu.Unlock()
				require.Equal(t, tt.given, r.o.given)
				require.False(t, r.o.revoked, "no refresh token was used twice")
			})
		}
	}
}

// A subagent of a run with nobody there cannot ask for a login. It has the reason, and so has the run, which is suspended by its
// own call and goes on after the login.
func TestLoginInHeadlessSubagent(t *testing.T) {
	allow := func(tool string) config.Rule {
		return config.Rule{Action: policy.RuleAllow, Tool: tool, Source: policy.User}
	}
	r := &loginRun{o: newOffice(t), kind: "headless", rules: []config.Rule{allow("mcp__s__work"), allow("subagent")}}
	dir := loggedIn(t, r.o)
	login, work := script.Call("mcp__s__oauth_login", nil), script.Call("mcp__s__work", nil)
	last := func(req *aycoder.Request) string { return script.LastOutput(req).Text() }
	var reason string
	r.child = []script.Step{work, script.Func(func(req *aycoder.Request) script.Step {
		reason = last(req)
		return login
	}), script.Func(func(req *aycoder.Request) script.Step { return script.Say(reason + "\n" + last(req)) })}
	steps := []script.Step{script.Call("subagent", map[string]any{"task": "CHILD"}), script.Func(func(req *aycoder.Request) script.Step {
		require.Contains(t, last(req), ErrUnauthorized.Error())
		require.Contains(t, last(req), "denied: mcp__s__oauth_login")
		return login
	}), work, script.Say("done")}
	r.open(t, dir, steps...)
	r.o.change(func() { r.o.valid, r.o.revoked = "other", true })
	res := r.watch(t, aycoder.Input{Prompt: "go"})
	require.Equal(t, aycoder.EndSuspended, res.End)
	require.Equal(t, 1, r.failures())
	require.Len(t, res.Pending.Requests, 1)
	require.Equal(t, "mcp__s__oauth_login", res.Pending.Requests[0].Tool)
	require.Zero(t, r.o.did())
	require.NoError(t, Login(t.Context(), "s", r.o.config(), WithLogins(dir), WithBrowser(visit)))
	res = r.resume(t, dir, res.Pending, steps[2:])
	require.Equal(t, "done", res.Text())
	require.Equal(t, 1, r.o.did())
}

// resume goes on in another process, which has nothing but the stored form.
func (r *loginRun) resume(t *testing.T, dir string, p *aycoder.Pending, steps []script.Step) aycoder.Result {
	data, err := json.Marshal(p)
	require.NoError(t, err)
	p = new(aycoder.Pending)
	require.NoError(t, json.Unmarshal(data, p))
	require.NoError(t, r.rt.Close())
	r.open(t, dir, steps...)
	q := p.Requests[0]
	return r.watch(t, aycoder.Input{Pending: p, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}})
}

// did returns how many calls were carried out.
func (o *office) did() int { o.mu.Lock(); defer o.mu.Unlock(); return o.calls }
