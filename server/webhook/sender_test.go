package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/publicnet"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/server/webhook"
)

var (
	secret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	token  = "x7Kq9vLm2Rt5Wz8Yb3Nd6Fg1Hj4Pc0SaUeQi" // looks like that of a forge
	other  = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32))
)

// TestMain is the sender that TestKilled kills, if that has started it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AYCODER_TEST_DIR"); dir != "" {
		os.Exit(sendForever(dir, os.Getenv("AYCODER_TEST_URL")))
	}
	os.Exit(m.Run())
}

// A receiver is an endpoint that accepts what is signed.
type receiver struct {
	t *testing.T

	mu     sync.Mutex
	tries  int
	bodies map[string]string              // by id
	answer func(id string) *http.Response // in place of 204
	paths  map[string]func(id string) *http.Response
}

func newReceiver(t *testing.T) *receiver { return &receiver{t: t, bodies: map[string]string{}} }

// accept checks a request and returns the status of the answer.
func (r *receiver) accept(req *http.Request) *http.Response {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	id := req.Header.Get("Webhook-Id")
	if !assert.NoError(r.t, err) || !assert.NoError(r.t, webhook.Verify([]string{other, secret}, req.Header, body, time.Now())) {
		return answer(http.StatusUnauthorized)
	}
	if before, seen := r.bodies[id]; seen {
		assert.Equal(r.t, before, string(body), "a repetition")
	}
	f := r.answer
	if one := r.paths[req.URL.Path]; one != nil {
		f = one
	}
	if f != nil {
		if resp := f(id); resp != nil {
			return resp
		}
	}
	r.bodies[id] = string(body)
	return answer(http.StatusNoContent)
}

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: http.Header{}, Body: http.NoBody}
}

// requests returns how many there were, and got the bodies that were accepted, by id.
func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries
}

func (r *receiver) got() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.bodies)
}

// set makes the receiver answer otherwise, or as usual if f is nil.
func (r *receiver) set(f func(id string) *http.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// setFor makes the receiver answer otherwise to requests for a path.
func (r *receiver) setFor(path string, f func(id string) *http.Response) {
	r.paths = map[string]func(id string) *http.Response{path: f}
}

func down(string) *http.Response { return answer(http.StatusBadGateway) }

// RoundTrip makes a receiver a transport, so that no network is needed.
func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) { return r.accept(req), nil }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.WriteHeader(r.accept(req).StatusCode)
}

func open(t *testing.T, dir string, o webhook.Options) *webhook.Sender {
	t.Helper()
	s, err := webhook.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func endpoint(id string) webhook.Endpoint {
	return webhook.Endpoint{ID: id, URL: "https://hooks.example.com/" + id, Secrets: []string{secret}}
}

func send(t *testing.T, s *webhook.Sender, typ string) string {
	t.Helper()
	id, err := s.Send(webhook.Event{Type: typ, Data: map[string]any{"n": 1}})
	require.NoError(t, err)
	return id
}

// run delivers in the background of a bubble until the test ends.
func run(t *testing.T, s *webhook.Sender) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
}

// A receiver that is down for an hour gets everything, soon after it is back, and is not flooded meanwhile.
func TestDownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		r.set(down)
		s := open(t, t.TempDir(), webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		defer run(t, s)()
		want := map[string]bool{}
		for range 60 {
			want[send(t, s, "tool.called")] = true
			time.Sleep(time.Minute)
		}
		require.Less(t, r.requests(), 40)
		require.Empty(t, r.got())
		require.Len(t, s.Waiting(), 60)
		r.set(nil)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		require.Greater(t, len(r.got()), 30, "those that were not tried often come at once")
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.Len(t, r.got(), len(want))
		for id := range r.got() {
			require.True(t, want[id], id)
		}
		require.Empty(t, s.Waiting())
	})
}

// A delivery that fails for three days is kept and can be tried again.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dir := newReceiver(t), t.TempDir()
		r.set(down)
		s := open(t, dir, webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		stop := run(t, s)
		id := send(t, s, "error")
		time.Sleep(72*time.Hour - time.Second)
		synctest.Wait()
		require.Len(t, s.Waiting(), 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, s.Waiting())
		require.Less(t, r.requests(), 30)
		stop()
		require.NoError(t, s.Close())

		s = open(t, dir, webhook.Options{Transport: r})
		failed := s.Failed()
		require.Len(t, failed, 1)
		require.Equal(t, id, failed[0].ID)
		require.Contains(t, failed[0].Error, "502")
		r.set(nil)
		require.NoError(t, s.Register(endpoint("a")))
		ok, err := s.Retry(failed[0])
		require.NoError(t, err)
		require.True(t, ok)
		stop = run(t, s)
		time.Sleep(time.Second)
		stop()
		require.Contains(t, r.got(), id)
		require.Empty(t, s.Failed())
		require.Empty(t, s.Waiting())
		ok, err = s.Retry(failed[0])
		require.NoError(t, err)
		require.False(t, ok)
	})
}

// An answer that says what is wrong is heeded.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		defer run(t, s)()
		r.set(func(string) *http.Response {
			resp := answer(http.StatusTooManyRequests)
			resp.Header.Set("Retry-After", "120")
			return resp
		})
		send(t, s, "error")
		time.Sleep(119 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, r.requests())
		r.set(func(string) *http.Response {
			resp := answer(http.StatusFound)
			resp.Header.Set("Location", "https://elsewhere.example.com/")
			return resp
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, r.requests(), "a redirect is not followed")
		require.Contains(t, s.Waiting()[0].Error, "302")
		r.set(func(string) *http.Response { return answer(http.StatusGone) })
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 3, r.requests())
		require.True(t, s.Endpoints()[0].Disabled)
		require.Len(t, s.Failed(), 1)
		send(t, s, "error")
		require.Empty(t, s.Waiting(), "nothing is kept for a disabled endpoint")
	})
}

// An endpoint that fails does not hold up another one, and a delivery that is refused does not hold up others.
func TestOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		bad := send(t, s, "a.bad")
		r.set(func(id string) *http.Response {
			if id == bad {
				return answer(http.StatusBadRequest)
			}
			return nil
		})
		require.NoError(t, s.Register(endpoint("b")))
		defer run(t, s)()
		for range 20 {
			send(t, s, "b.good")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, r.got(), 20)
		require.Len(t, s.Waiting(), 1)
	})
}

// Types, disabled endpoints and content decide who gets what.
func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r})
		for _, e := range []webhook.Endpoint{
			{ID: "all", Content: true}, {ID: "tools", Types: []string{"tool.*"}}, {ID: "errors", Types: []string{"error"}},
			{ID: "off", Disabled: true},
		} {
			e.URL, e.Secrets = "https://hooks.example.com", []string{secret}
			require.NoError(t, s.Register(e))
		}
		id, err := s.Send(webhook.Event{Type: "tool.called", Time: time.Unix(0, 0), Data: map[string]any{"tool": "bash"},
			Content: map[string]any{"text": "key ghp_" + token}})
		require.NoError(t, err)
		again, err := s.Send(webhook.Event{ID: id, Type: "tool.called"})
		require.NoError(t, err)
		require.Equal(t, id, again)
		var who []string
		for _, d := range s.Waiting() {
			who = append(who, d.Endpoint)
		}
		require.Equal(t, []string{"all", "tools"}, who)
		bodies := map[string]string{}
		s.Disable("tools")
		stop := run(t, s)
		time.Sleep(time.Second)
		bodies["all"] = r.got()[id]
		r.mu.Lock()
		clear(r.bodies)
		r.mu.Unlock()
		require.NoError(t, s.Register(webhook.Endpoint{ID: "tools", URL: "https://hooks.example.com", Secrets: []string{secret, other}}))
		time.Sleep(time.Second)
		stop()
		require.JSONEq(t, `{"type":"tool.called","timestamp":"1970-01-01T00:00:00Z","version":1,"data":{"tool":"bash"}}`, r.got()[id])
		require.NotContains(t, bodies["all"], token)
		var got struct {
			Data struct{ Content struct{ Text string } }
		}
		require.NoError(t, json.Unmarshal([]byte(bodies["all"]), &got))
		require.Contains(t, got.Data.Content.Text, "key ")
	})
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, webhook.Options{Limit: 2})
	require.NoError(t, s.Register(endpoint("a")))
	send(t, s, "error")
	send(t, s, "error")
	_, err := s.Send(webhook.Event{Type: "error"})
	require.ErrorIs(t, err, webhook.ErrFull)
	_, err = webhook.Open(dir, webhook.Options{})
	require.ErrorIs(t, err, webhook.ErrBusy)
	for name, ev := range map[string]webhook.Event{
		"type": {Type: "a b"}, "no type": {}, "id": {ID: "../x", Type: "a"}, "data": {ID: "x", Type: "a", Data: 1},
		"large": {ID: "x", Type: "a", Data: map[string]string{"x": strings.Repeat("a", 2<<20)}},
	} {
		_, err = open(t, t.TempDir(), webhook.Options{}).Send(ev)
		if name != "data" && name != "large" { // nobody wants it, so nothing is encoded
			require.Error(t, err, name)
		}
		one := open(t, t.TempDir(), webhook.Options{})
		require.NoError(t, one.Register(endpoint("a")))
		_, err = one.Send(ev)
		require.Error(t, err, name)
		require.Empty(t, one.Waiting())
	}
}

// Files that somebody else has left in the directory, and those of a killed process, do no harm.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, webhook.Options{})
	require.NoError(t, s.Register(endpoint("a")))
	id := send(t, s, "error")
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(filepath.Join(dir, id+".a.json"))
	require.NoError(t, err)
	for name, text := range map[string]string{"x.json": "{", "y.json": string(whole), ".part-1": "{", "z": "",
		"v.a.json": strings.Replace(strings.Replace(string(whole), `"version":1`, `"version":2`, 1), id, "v", 1)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s = open(t, dir, webhook.Options{})
	require.Len(t, s.Waiting(), 1)
	require.NoFileExists(t, filepath.Join(dir, ".part-1"))
	require.FileExists(t, filepath.Join(dir, "v.a.json"))
}

func TestRegister(t *testing.T) {
	s := open(t, t.TempDir(), webhook.Options{})
	for name, change := range map[string]func(*webhook.Endpoint){
		"no id":        func(e *webhook.Endpoint) { e.ID = "" },
		"path in id":   func(e *webhook.Endpoint) { e.ID = "../a" },
		"http":         func(e *webhook.Endpoint) { e.URL = "http://example.com" },
		"relative":     func(e *webhook.Endpoint) { e.URL = "/x" },
		"user":         func(e *webhook.Endpoint) { e.URL = "https://u:p@example.com" },
		"localhost":    func(e *webhook.Endpoint) { e.URL = "https://localhost/x" },
		"file":         func(e *webhook.Endpoint) { e.URL = "file:///etc/passwd" },
		"no secret":    func(e *webhook.Endpoint) { e.Secrets = nil },
		"three":        func(e *webhook.Endpoint) { e.Secrets = []string{secret, secret, secret} },
		"short secret": func(e *webhook.Endpoint) { e.Secrets = []string{"whsec_MTIz"} },
	} {
		e := endpoint("a")
		change(&e)
		err := s.Register(e)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "MTIz")
	}
	require.Empty(t, s.Endpoints())
}

// An address that is not public is not dialled, however it is written.
func TestPrivateAddresses(t *testing.T) {
	hits := 0
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "https://"), ":")
	for _, host := range []string{"127.0.0.1", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0", "10.0.0.1"} {
		t.Run(host, func(t *testing.T) {
			s := open(t, t.TempDir(), webhook.Options{})
			e := endpoint("a")
			e.URL = "https://" + host + ":" + port + "/"
			if err := s.Register(e); err != nil {
				_, blocked := errors.AsType[*publicnet.BlockedError](err)
				require.True(t, blocked, err)
				return
			}
			send(t, s, "error")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			timed.Until(t, func() bool { return s.Waiting()[0].Attempts > 0 }, "a try")
			cancel()
			<-done
			require.NotEmpty(t, s.Waiting()[0].Error)
		})
	}
	require.Zero(t, hits)
}

// sendForever sends events, and says on standard output which ones are stored.
func sendForever(dir, url string) int {
	s, err := webhook.Open(dir, webhook.Options{})
	if err == nil {
		err = s.Register(webhook.Endpoint{ID: "a", URL: url, AllowPrivate: true, Secrets: []string{secret}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { _ = s.Run(context.Background()) }()
	for i := 0; ; i++ {
		id, err := s.Send(webhook.Event{Type: "tool.called", Data: map[string]int{"n": i}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(id)
	}
}

// Every event that was stored before a kill is delivered, and each repetition has the id of the first.
func TestKilled(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	srv := httptest.NewServer(r)
	defer srv.Close()
	stored := map[string]bool{}
	for i := range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "AYCODER_TEST_DIR="+dir, "AYCODER_TEST_URL="+srv.URL)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range rand.IntN(40) {
			require.True(t, lines.Scan(), "round %d", i)
			stored[lines.Text()] = true
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() {
			if len(lines.Text()) == len("msg_")+16+26 {
				stored[lines.Text()] = true
			}
		}
		_ = cmd.Wait()
	}
	s := open(t, dir, webhook.Options{})
	require.NoError(t, s.Register(webhook.Endpoint{ID: "a", URL: srv.URL, AllowPrivate: true, Secrets: []string{secret}}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	timed.Until(t, func() bool { return len(s.Waiting()) == 0 }, "everything is delivered")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	for id := range stored {
		require.Contains(t, r.got(), id)
	}
	t.Logf("%d stored, %d delivered, %d requests", len(stored), len(r.got()), r.requests())
}

// An endpoint that does not answer uses up its own share of what may wait, and not that of another one.
func TestFullForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r, Limit: 2})
		require.NoError(t, s.Register(endpoint("dead")))
		require.NoError(t, s.Register(endpoint("works")))
		r.setFor("/dead", down)
		defer run(t, s)()
		for i := range 20 {
			_, err := s.Send(webhook.Event{Type: "a.b"})
			if i >= 2 {
				require.ErrorIs(t, err, webhook.ErrFull)
				require.ErrorContains(t, err, "dead")
				require.NotContains(t, err.Error(), "works")
			} else {
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		require.Len(t, r.got(), 20)
		require.Len(t, s.Waiting(), 2)
		for _, d := range s.Waiting() {
			require.Equal(t, "dead", d.Endpoint)
		}
	})
}

// Of the failed deliveries of an endpoint the newest are kept, however many another endpoint has.
func TestFailedOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		r.set(down)
		s := open(t, t.TempDir(), webhook.Options{Transport: r, Limit: 3})
		defer run(t, s)()
		require.NoError(t, s.Register(endpoint("few")))
		few := send(t, s, "a.b")
		s.Disable("few")
		require.NoError(t, s.Register(endpoint("many")))
		var many []string
		for range 3 {
			for range 2 {
				many = append(many, send(t, s, "a.b"))
			}
			time.Sleep(73 * time.Hour)
		}
		synctest.Wait()
		require.Empty(t, s.Waiting())
		var ids []string
		for _, d := range s.Failed() {
			ids = append(ids, d.ID)
		}
		require.Equal(t, append([]string{few}, many[3:]...), ids)
	})
}

// A delivery whose time is up while its request is on the way is given up once.
func TestGivenUpOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, dir := newReceiver(t), t.TempDir()
		s := open(t, dir, webhook.Options{Transport: r})
		r.set(down)
		require.NoError(t, s.Register(endpoint("a")))
		stop := run(t, s)
		first := send(t, s, "a.b")
		time.Sleep(72*time.Hour - time.Minute)
		stop()
		require.NoError(t, s.Close())
		slow := func(string) *http.Response {
			time.Sleep(10 * time.Minute)
			return nil
		}
		r.set(slow)
		s = open(t, dir, webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		second := send(t, s, "a.b")
		defer run(t, s)()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Contains(t, r.got(), second)
		require.Empty(t, s.Waiting())
		require.Len(t, s.Failed(), 1)
		require.Equal(t, first, s.Failed()[0].ID)
	})
}

// The answer of the address that an endpoint had says nothing about the one that it has.
func TestGoneFromAnOldAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		first := true
		r.set(func(string) *http.Response {
			if !first {
				return nil
			}
			first = false
			assert.NoError(t, s.Register(endpoint("a")))
			return answer(http.StatusGone)
		})
		defer run(t, s)()
		id := send(t, s, "a.b")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Contains(t, r.got(), id)
		require.False(t, s.Endpoints()[0].Disabled)
	})
}

// An event that was given up and is sent once more under its ID waits after a restart, too.
func TestSentOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		dir := t.TempDir()
		s := open(t, dir, webhook.Options{Transport: r})
		require.NoError(t, s.Register(endpoint("a")))
		r.set(func(string) *http.Response { return answer(http.StatusGone) })
		stop := run(t, s)
		ev := webhook.Event{ID: "mine", Type: "a.b"}
		_, err := s.Send(ev)
		require.NoError(t, err)
		synctest.Wait()
		stop()
		require.Len(t, s.Failed(), 1)
		require.NoError(t, s.Register(endpoint("a")))
		_, err = s.Send(ev)
		require.NoError(t, err)
		require.Len(t, s.Waiting(), 1)
		require.NoError(t, s.Close())
		require.Len(t, open(t, dir, webhook.Options{}).Waiting(), 1)
	})
}

// A secret is masked in the name of a field, too.
func TestNamesAreMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		s := open(t, t.TempDir(), webhook.Options{Transport: r, Mask: func(text string) string { return strings.ReplaceAll(text, token, "***") }})
		require.NoError(t, s.Register(endpoint("a")))
		defer run(t, s)()
		id, err := s.Send(webhook.Event{Type: "a.b", Data: map[string]any{"args": map[string]any{token: 1, "n": 2}}})
		require.NoError(t, err)
		synctest.Wait()
		require.Contains(t, r.got()[id], `"***":1`)
		require.Contains(t, r.got()[id], `"n":2`)
	})
}
