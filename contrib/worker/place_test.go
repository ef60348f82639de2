package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/contrib/worker"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/pgcluster"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A machine is lost in the middle of a run: its connection to the database breaks, and it does not know. Another one lays out the
// workspace and goes on. When the first one comes back, its late result is refused. When the session comes back to it, its old
// files are moved aside.
func TestPlace(t *testing.T) {
	cluster, err := pgcluster.Start()
	if errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	defer func() { must(t, cluster.Stop()) }()
	ctx := t.Context()
	type machine struct {
		store *postgres.Store
		place *worker.Place
		dir   string
	}
	newMachine := func() *machine {
		store, err := postgres.Open(ctx, cluster.Address())
		must(t, err)
		dir := t.TempDir()
		place, err := worker.NewPlace(dir)
		must(t, err)
		again, err := worker.NewPlace(dir)
		must(t, err)
		if *again != *place {
			t.Error("the machine has another name now")
		}
		return &machine{store, place, dir}
	}
	goOn := make(chan struct{})
	hangs := make(chan struct{}, 1)
	hang, err := aycoder.NewTool("hang", "Hangs", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		hangs <- struct{}{}
		<-goOn
		return aycoder.TextResult("late"), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	must(t, err)
	all := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	open := func(m *machine, steps ...script.Step) *harness.Runtime {
		t.Helper()
		rt, err := m.place.Open(ctx, m.store, "s", func(dir string) (*harness.Runtime, error) {
			return harness.New(ctx, dir, harness.WithClient(script.New(steps...)), harness.WithStore(m.store, "s"),
				harness.WithTools(hang), harness.WithApprover(all))
		})
		must(t, err)
		return rt
	}
	first, second := newMachine(), newMachine()
	defer second.store.Close()
	none, err := aycoder.New(script.New())
	must(t, err)
	s, err := session.New(ctx, first.store, none, session.WithID("s"))
	must(t, err)
	must(t, s.Close())

	rt := open(first, script.Reply(script.Call("write_file", map[string]any{"path": "a/file.txt", "content": "content\n"}),
		script.Call("bash", map[string]any{"command": "chmod 750 a/file.txt && ln -s a/file.txt link"})), script.Call("hang", nil))
	lost := make(chan error, 1)
	go func() {
		var last error
		for _, err := range rt.Run(ctx, aycoder.Input{Prompt: "go"}) {
			last = err
		}
		lost <- last
	}()
	<-hangs
	must(t, cluster.Kill()) // all connections break, and with them the lease of the first machine
	must(t, cluster.Run())

	// The first store has the right to renew its lease, so that only its end makes the session free. It has not opened the session
	// anew, so the token of the second machine is the newest.
	var moved *harness.Runtime
	for moved == nil {
		rt, err := second.place.Open(ctx, second.store, "s", func(dir string) (*harness.Runtime, error) {
			return harness.New(ctx, dir, harness.WithClient(script.New(script.Say("gone on"))), harness.WithStore(second.store, "s"),
				harness.WithTools(hang), harness.WithApprover(all))
		})
		if _, busy := errors.AsType[*journal.BusyError](err); busy {
			must(t, first.store.Close()) // the machine is cut off
			continue
		}
		must(t, err)
		moved = rt
	}
	path := filepath.Join(second.dir, "s", "a/file.txt")
	text, err := os.ReadFile(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	link, err := os.Readlink(filepath.Join(second.dir, "s", "link"))
	must(t, err)
	if string(text) != "content\n" || info.Mode().Perm() != 0o750 || link != "a/file.txt" {
		t.Errorf("laid out: %q, %v, link %q", text, info.Mode(), link)
	}
	for _, err := range moved.Run(ctx, aycoder.Input{}) {
		must(t, err)
	}
	close(goOn)
	if err := <-lost; err == nil {
		t.Error("the late result of the first machine was taken")
	}
	_ = rt.Close() // it has lost its session
	v, _, err := session.Read(ctx, second.store, "s")
	must(t, err)
	var transcript strings.Builder
	for _, n := range v.Path(v.Head("")) {
		if m := n.Message(); m != nil {
			data, err := m.MarshalJSON()
			must(t, err)
			transcript.Write(data)
		}
	}
	if got := transcript.String(); strings.Contains(got, "late") || !strings.Contains(got, "outcome is unknown") || !strings.Contains(got, "gone on") {
		t.Errorf("transcript %s", got)
	}
	must(t, os.WriteFile(filepath.Join(second.dir, "s", "a/file.txt"), []byte("changed\n"), 0o600))
	must(t, moved.Close())

	first.store, err = postgres.Open(ctx, cluster.Address())
	must(t, err)
	defer first.store.Close()
	back := open(first)
	must(t, back.Close())
	old, err := filepath.Glob(filepath.Join(first.dir, "s.left-*"))
	must(t, err)
	if len(old) != 1 {
		t.Errorf("the old files are in %q", old)
	}
	if _, err := os.Stat(filepath.Join(first.dir, "s", "a/file.txt")); err != nil {
		t.Error(err)
	}
}

// onlyWriting is a store whose sessions cannot be read.
type onlyWriting struct{ journal.Store }

func (s onlyWriting) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	if !write {
		return nil, errors.New("the connection broke")
	}
	return s.Store.Open(ctx, id, true)
}

// A session goes to and fro between machines. Files that could not be laid out, or those of a process that was killed while it did
// that, leave nothing behind.
func TestPlaceToAndFro(t *testing.T) {
	ctx, store := t.Context(), journal.Memory()
	none, err := aycoder.New(script.New())
	must(t, err)
	s, err := session.New(ctx, store, none, session.WithID("s"))
	must(t, err)
	must(t, s.Close())
	all := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	dirs := []string{t.TempDir(), t.TempDir()}
	open := func(n int, store journal.Store) (*harness.Runtime, error) {
		place, err := worker.NewPlace(dirs[n%2])
		must(t, err)
		secret := script.Call("bash", map[string]any{"command": fmt.Sprint("echo ", n, " >.env; echo ", n, " >file")})
		return place.Open(ctx, store, "s", func(dir string) (*harness.Runtime, error) {
			return harness.New(ctx, dir, harness.WithClient(script.New(secret, script.Say("done"))), harness.WithStore(store, "s"), harness.WithApprover(all))
		})
	}
	for n := range 4 {
		if n == 1 {
			must(t, os.MkdirAll(filepath.Join(dirs[1], "s.new", "half"), 0o700))
			for range 2 {
				if _, err := open(n, onlyWriting{store}); err == nil {
					t.Error("it has laid out what cannot be read")
				}
			}
		}
		rt, err := open(n, store)
		must(t, err)
		for _, err := range rt.Run(ctx, aycoder.Input{Prompt: "go"}) {
			must(t, err)
		}
		told := 0
		for _, m := range rt.Session.View().Messages(rt.Session.Head()) {
			if strings.Contains(m.Text(), "- .env: its content is not held") {
				told++
			}
		}
		if told != n {
			t.Errorf("%d moves were told of after %d of them", told, n)
		}
		must(t, rt.Close())
	}
	for i, want := range []string{"0", "1"} { // the second time on each machine
		old, err := filepath.Glob(filepath.Join(dirs[i], "s?*"))
		must(t, err)
		if len(old) != 1 {
			t.Fatalf("beside the files are %q", old)
		}
		text, err := os.ReadFile(filepath.Join(old[0], ".env"))
		must(t, err)
		if string(text) != want+"\n" {
			t.Errorf("%s has %q", old[0], text)
		}
	}
}

// A node has a bound on the streams.
func TestStreams(t *testing.T) {
	cluster, err := pgcluster.Start()
	if errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	defer func() { must(t, cluster.Stop()) }()
	store, err := postgres.Open(t.Context(), cluster.Address())
	must(t, err)
	defer store.Close()
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	must(t, err)
	defer c.Close()
	n, err := worker.New(worker.Config{Temporal: c, Store: store, Streams: 2,
		Open: func(context.Context, string, string) (*temporal.Agent, error) {
			return nil, errors.New("nothing works here")
		},
		Principal: func(*http.Request) (string, error) { return "alice", nil }})
	must(t, err)
	none, err := aycoder.New(script.New())
	must(t, err)
	s, err := session.New(t.Context(), store, none, session.WithID("alice-x"))
	must(t, err)
	must(t, s.Close())
	ts := httptest.NewServer(n)
	defer ts.Close()
	ask := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", ts.URL+"/api/sessions/alice-x/events", nil)
		must(t, err)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		return res
	}
	first, second, third := ask(), ask(), ask()
	if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusOK || third.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d, %d and %d", first.StatusCode, second.StatusCode, third.StatusCode)
	}
	for _, res := range []*http.Response{first, third} {
		res.Body.Close()
	}
	for status := 0; status != http.StatusOK; { // when the node has seen that the client is gone
		res := ask()
		status = res.StatusCode
		res.Body.Close()
	}
	second.Body.Close()
}
