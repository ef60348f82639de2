package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/session"
)

// A site is a server on the loopback interface, with a workspace and with sessions on disk.
type site struct {
	t     testing.TB
	dir   string        // the workspace
	store string        // the directory of the sessions
	kept  journal.Store // where they are instead, unless it is nil
	model aycoder.ModelClient
	more  []harness.Option
	opts  []server.Option
	open  func([]harness.Option) []harness.Option // adds options to a runtime, unless it is nil
	host  server.Host                             // its functions replace those of the site

	srv  *server.Server
	http *httptest.Server

	mu   sync.Mutex
	dirs map[string]journal.Store
}

func newSite(t testing.TB, model aycoder.ModelClient, opts ...server.Option) *site {
	s := &site{t: t, dir: t.TempDir(), store: t.TempDir(), model: model, opts: opts, dirs: map[string]journal.Store{}}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "a.txt"), []byte("one\ntwo\n"), 0o600))
	return s
}

func (s *site) stores(principal string) journal.Store {
	if s.kept != nil {
		return s.kept
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirs[principal] == nil {
		st, err := journal.Dir(filepath.Join(s.store, principal))
		require.NoError(s.t, err)
		s.dirs[principal] = st
	}
	return s.dirs[principal]
}

// start starts the server. The end of the test ends it.
func (s *site) start() *site {
	host := s.host
	host.Store, host.Open = s.stores, s.openRuntime
	var err error
	s.srv, err = server.New(host, s.opts...)
	require.NoError(s.t, err)
	s.http = httptest.NewServer(s.srv)
	s.t.Cleanup(s.end)
	return s
}

func (s *site) openRuntime(ctx context.Context, principal, id string, opts ...session.Option) (*harness.Runtime, error) {
	all := append([]harness.Option{harness.WithClient(s.model), harness.WithStore(s.stores(principal), id, opts...)}, s.more...)
	if s.open != nil {
		all = s.open(all[1:])
	}
	return harness.New(ctx, s.dir, all...)
}

func (s *site) end() {
	require.NoError(s.t, s.srv.Close())
	s.http.Close()
}

// again is the same site after its process was killed: another server on a copy of the sessions, as they are on disk.
func (s *site) again(model aycoder.ModelClient) *site {
	o := &site{t: s.t, dir: s.dir, store: s.t.TempDir(), model: model, more: s.more, opts: s.opts, host: s.host, dirs: map[string]journal.Store{}}
	require.NoError(s.t, os.CopyFS(o.store, os.DirFS(s.store)))
	return o.start()
}

// do sends a request. The body is JSON, or nothing if it is nil.
func (s *site) do(method, path string, body any, headers ...string) *http.Response {
	s.t.Helper()
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(s.t, err)
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, r)
	require.NoError(s.t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	return res
}

// get decodes the JSON answer to a request, which must have a status.
func (s *site) get(status int, into any, method, path string, body any, headers ...string) *http.Response {
	s.t.Helper()
	res := s.do(method, path, body, headers...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, status, res.StatusCode, string(data))
	if into != nil {
		require.NoError(s.t, json.Unmarshal(data, into), string(data))
	}
	return res
}

type failure struct{ Kind, Detail, Title string }

// refused checks that a request is answered with a problem of a kind.
func (s *site) refused(status int, kind, method, path string, body any, headers ...string) {
	s.t.Helper()
	var f failure
	res := s.get(status, &f, method, path, body, headers...)
	require.Equal(s.t, kind, f.Kind, f.Detail)
	require.Equal(s.t, "application/problem+json", res.Header.Get("Content-Type"))
}

// An event is one that a client has got.
type event struct {
	id   string
	kind string
	data string
	ev   aycoder.Event // nil for run_start
}

// A reading reads the events of a stream one by one.
type reading struct {
	t    testing.TB
	res  *http.Response
	next func() (sse.Event, error, bool)
	stop func()
}

func (s *site) read(res *http.Response) *reading {
	s.t.Helper()
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s: %s", res.Status, data)
	}
	next, stop := pull(sse.Read(res.Body, &sse.ReadConfig{MaxEventSize: 64 << 20}))
	return &reading{t: s.t, res: res, next: next, stop: stop}
}

// one returns the next event, or false at the end of the stream.
func (r *reading) one() (event, bool) {
	r.t.Helper()
	ev, err, ok := r.next()
	if !ok || err != nil {
		return event{}, false
	}
	e := event{id: ev.LastEventID, data: ev.Data}
	var head struct{ Type string }
	require.NoError(r.t, json.Unmarshal([]byte(ev.Data), &head), ev.Data)
	e.kind = head.Type
	if e.kind != "run_start" {
		e.ev, err = aycoder.DecodeEvent([]byte(ev.Data))
		require.NoError(r.t, err, ev.Data)
	}
	return e, true
}

// until reads up to an event of a kind.
func (r *reading) until(kind string) event {
	r.t.Helper()
	for {
		e, ok := r.one()
		if !ok {
			r.t.Fatalf("the stream ended before %s", kind)
		}
		if e.kind == kind {
			return e
		}
	}
}

// close leaves the stream.
func (r *reading) close() { r.stop(); r.res.Body.Close() }

// rest reads all events.
func (r *reading) rest() (all []event) {
	r.t.Helper()
	defer r.close()
	for e, ok := r.one(); ok; e, ok = r.one() {
		all = append(all, e)
	}
	return all
}

// ask lets the agent answer a prompt, and returns all events.
func (s *site) ask(body any, headers ...string) ([]event, *http.Response) {
	s.t.Helper()
	res := s.do("POST", "/api/prompt", body, headers...)
	return s.read(res).rest(), res
}

func (s *site) events(run, after string) []event {
	s.t.Helper()
	return s.read(s.do("GET", "/api/runs/"+run+"/events", nil, "Last-Event-ID", after)).rest()
}

// story is what a client has put together: texts in one piece, without reports of progress.
func story(events []event) (out []string) {
	kind, text := "", ""
	flush := func() {
		if text != "" {
			out = append(out, kind+" "+text)
		}
		kind, text = "", ""
	}
	for _, e := range events {
		switch ev := e.ev.(type) {
		case *aycoder.TextDelta, *aycoder.ThinkingDelta:
			if kind != e.kind {
				flush()
			}
			kind = e.kind
			if d, ok := ev.(*aycoder.TextDelta); ok {
				text += d.Text
			} else {
				text += ev.(*aycoder.ThinkingDelta).Text
			}
		case nil, *aycoder.ToolDelta, *aycoder.ToolProgress, *aycoder.Notice, *aycoder.ApprovalRequested:
		case *aycoder.ToolFinished:
			flush()
			out = append(out, e.kind+" "+ev.Call.ID+" "+ev.Call.Name+" "+ev.Output.Text())
		case *aycoder.ToolStarted:
			flush()
			out = append(out, e.kind+" "+ev.Call.ID+" "+string(ev.Args))
		case *aycoder.RunFinished:
			flush()
			out = append(out, e.kind+" "+string(ev.Result.End)+" "+ev.Result.Text())
		default:
			flush()
			out = append(out, e.kind+" "+e.data)
		}
	}
	flush()
	return sorted(out)
}

// sorted brings the lines of calls that worked at the same time into one order.
func sorted(lines []string) []string {
	about := func(line string) (call string, end bool) {
		f := strings.Fields(line)
		return f[1], f[0] == "tool_end"
	}
	for i := 0; i < len(lines); i++ {
		n := i
		for n < len(lines) && strings.HasPrefix(lines[n], "tool_") {
			n++
		}
		slices.SortStableFunc(lines[i:n], func(a, b string) int {
			x, xEnd := about(a)
			y, yEnd := about(b)
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
			return strings.Compare(fmt.Sprint(xEnd), fmt.Sprint(yEnd))
		})
		i = max(i, n)
	}
	return lines
}

func prompt(text string) map[string]any { return map[string]any{"prompt": text} }

func runOf(res *http.Response) string { return res.Header.Get("Aycoder-Run") }

func answers(events []event) string {
	var b strings.Builder
	for _, e := range events {
		if d, ok := e.ev.(*aycoder.TextDelta); ok {
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

type seqOfModel = iter.Seq2[aycoder.ModelEvent, error]

// withCall adds a call that reads to the message of a model.
func withCall(message seqOfModel) seqOfModel {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range message {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				call := &aycoder.ToolUse{ID: "c1", Name: "read_file", Args: []byte(`{"path":"a.txt"}`)}
				if !yield(&aycoder.BlockDone{Part: call}, nil) {
					return
				}
				done.Stop = aycoder.StopToolUse
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func cutWord(line string) string {
	word, _, _ := strings.Cut(line, " ")
	return word
}

func (s *site) file(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	require.NoError(s.t, err)
	return string(data)
}

// nap lets a second of a bubble pass.
func nap(testing.TB) { time.Sleep(time.Second) }

func withLocalAddr(r *http.Request, addr string) context.Context {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return r.Context()
	}
	return context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(net.TCPAddrFromAddrPort(ap)))
}

// waitLong lets an hour of a bubble pass.
func waitLong() { time.Sleep(time.Hour) }

// pipes is a listener whose connections are in memory, so that it works in a bubble.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial() net.Conn {
	a, b := net.Pipe()
	p.made <- b
	return a
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
