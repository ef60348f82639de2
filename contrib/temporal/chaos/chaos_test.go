package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/contrib/temporal/chaos/server"
	"github.com/aycoder/aycoder/internal/pgcluster"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

const (
	queue = "chaos"
	// helperVariable makes TestChaos work as a worker. Its value is a helper in JSON.
	helperVariable = "AYCODER_CHAOS_HELPER"
	patience       = 30 * time.Second
)

// helper is the task of a worker process.
type helper struct {
	Temporal, Database, Dir, Counter string
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// work carries out runs until the process is killed, or its input ends.
func (h helper) work(t *testing.T) {
	ctx := t.Context()
	// The servers may be away when the process starts.
	store := eventually(t, func() (*postgres.Store, error) {
		return postgres.Open(ctx, h.Database+" pool_max_conns=8", postgres.WithPatience(patience))
	})
	counter := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.Counter)
	}}}
	report := func(what, session, call string) {
		q := url.Values{"what": {what}, "session": {session}, "call": {call}, "pid": {strconv.Itoa(os.Getpid())}}
		res, err := counter.Post("http://counter/?"+q.Encode(), "", nil)
		if err != nil {
			panic(err) // the counter lives longer than all workers
		}
		res.Body.Close()
	}
	made, err := temporal.New(temporal.Config{
		Store: store, Heartbeat: 2 * time.Second,
		Limits: func(string, aycoder.Effect) temporal.Limits {
			return temporal.Limits{Timeout: time.Minute, Attempts: 1000}
		},
		Open: func(ctx context.Context, id string) (*temporal.Agent, error) {
			s, err := session.Open(ctx, store, id, newAgent(t, id, filepath.Join(h.Dir, id), report))
			if err != nil {
				return nil, err
			}
			return &temporal.Agent{Session: s}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := eventually(t, func() (client.Client, error) {
		return client.Dial(client.Options{HostPort: h.Temporal, Logger: quiet()})
	})
	w := worker.New(c, queue, worker.Options{})
	made.Register(w)
	eventually(t, func() (struct{}, error) { return struct{}{}, w.Start() })
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// eventually calls f until it succeeds.
func eventually[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	deadline := time.Now().Add(20 * time.Minute)
	for {
		v, err := f()
		if err == nil {
			return v
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// newAgent makes the agent of a run. Its model and tools depend on nothing but the id of the run and its files.
func newAgent(t testing.TB, id, dir string, report func(what, session, call string)) *aycoder.Loop {
	seed, _ := strconv.ParseUint(strings.TrimPrefix(id, "run-"), 10, 64)
	model := &scripted{seed: seed}
	type args struct {
		N int `json:"n"`
	}
	tool := func(name string, effect aycoder.Effect, f func(ctx context.Context, call string, n int) (string, error)) aycoder.Tool {
		made, err := aycoder.NewTool(name, "The tool "+name, func(ctx context.Context, inv *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
			report(name, id, inv.ID)
			text, err := f(ctx, inv.ID, in.N)
			if err != nil {
				return nil, err
			}
			return aycoder.TextResult(text), nil
		}, aycoder.WithEffect(effect))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	look := tool("look", aycoder.EffectReadOnly, func(ctx context.Context, _ string, n int) (string, error) {
		select {
		case <-time.After(time.Duration(300+n*53%900) * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return fmt.Sprintf("text %d: ", n) + strings.Repeat("some words of a file ", 150), nil
	})
	shell := tool("shell", aycoder.EffectUnknown, func(ctx context.Context, call string, n int) (string, error) {
		script := fmt.Sprintf("sleep 0.%d; echo %s >>log; echo done", 2+n%7, call)
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		cmd.Dir = dir
		out, err := cmd.Output()
		if ctx.Err() != nil { // the command was killed, so its output is not a result
			err = context.Cause(ctx)
		}
		return string(out), err
	})
	edit := tool("edit", aycoder.EffectWrite, func(_ context.Context, call string, n int) (string, error) {
		temp := filepath.Join(dir, "new-"+call)
		if err := os.WriteFile(temp, []byte(contentOf(n)), 0o600); err != nil {
			return "", err
		}
		return "edited", os.Rename(temp, filepath.Join(dir, "file"))
	})
	keep, err := compaction.New(model, compaction.WithWindow(6000))
	if err != nil {
		t.Fatal(err)
	}
	loop, err := aycoder.New(model, aycoder.WithTools(look, shell, edit, keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware),
		aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if c.Name == "edit" {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})))
	if err != nil {
		t.Fatal(err)
	}
	return loop
}

// contentOf is the content of the file after the edit with a number; 0 is before all.
func contentOf(n int) string {
	return strings.Repeat(fmt.Sprintf("line of version %d\n", n), 500)
}

// scripted is a model whose answer depends on the outputs that it sees last, so that every process gives the same.
type scripted struct{ seed uint64 }

// Stream implements [aycoder.ModelClient].
func (m *scripted) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	turn := 0
	if out := script.LastOutput(req); out != nil {
		_, _ = fmt.Sscanf(out.ID, "c%d-", &turn)
	}
	return script.New(m.step(turn+1)).Stream(ctx, req)
}

// step returns the answer of a turn.
func (m *scripted) step(turn int) script.Step {
	tools := map[int][]string{
		1: {"look", "look", "look"}, 2: {"shell"}, 3: {"edit"}, 4: {"look", "look", "look", "look"},
		5: {"look", "shell", "edit"}, 6: {"look", "look"},
	}[turn]
	if tools == nil {
		return script.Say("All is done.")
	}
	parts := []script.Step{script.Say(fmt.Sprintf("This is turn %d.", turn))}
	for i, name := range tools {
		n := turn
		if name != "edit" {
			n += int(m.seed)*7 + i
		}
		parts = append(parts, script.Call(name, map[string]int{"n": n}).WithID(fmt.Sprintf("c%d-%d", turn, i)))
	}
	return script.Reply(parts...)
}

// A world is the servers, the workers and what is known of the runs.
type world struct {
	t       *testing.T
	servers *server.Server
	store   *postgres.Store
	client  client.Client
	temp    *temporal.Client
	dir     string
	workers []*workerProcess
	begin   time.Time

	mu       sync.Mutex
	begun    map[string]int           // of calls, by session and id
	since    map[string]time.Duration // of their first beginning
	kills    map[string]int
	log      []kill
	calls    int // that were begun
	lost     int // calls that were interrupted
	repeated int // read-only calls that were begun again
	answered int
	ended    int
}

// A kill is what was killed, and when.
type kill struct {
	at   time.Duration
	what string
}

type workerProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// hear counts the calls that workers begin. It is the counter outside of them.
func (w *world) hear(_ http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := r.FormValue("session") + " " + r.FormValue("call")
	w.calls++
	w.begun[key]++
	switch n := w.begun[key]; {
	case n == 1:
		w.since[key] = time.Since(w.begin)
	case r.FormValue("what") == "look":
		w.repeated++
	default:
		w.t.Errorf("%s: %s has begun %d times", key, r.FormValue("what"), n)
	}
}

func (w *world) startWorker(h helper) *workerProcess {
	text, err := json.Marshal(h)
	w.must(err)
	p := &workerProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestChaos$", "-test.count=1", "-test.timeout=0"), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), helperVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	w.must(err)
	w.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // it is killed
		in.Close()
		close(p.done)
	}()
	return p
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// killed writes down a kill.
func (w *world) killed(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills[what]++
	w.log = append(w.log, kill{time.Since(w.begin), what})
}

// pause waits until a random number of calls have begun, so that kills come as fast as the machine can bear and runs go on
// between them, or for a minute. It reports false when the kills are to end.
func (w *world) pause(ctx context.Context, from, to int) bool {
	w.mu.Lock()
	until := w.calls + from + rand.N(to-from)
	w.mu.Unlock()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		w.mu.Lock()
		over := w.calls >= until
		w.mu.Unlock()
		if over {
			break
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return sleep(ctx, rand.N(time.Second)) // so that it is at any moment of a call
}

// sleep reports false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// TestChaos kills workers, the Temporal server and PostgreSQL by SIGKILL at random while runs work, and compares their conversations
// with those of runs that nobody disturbed. AYCODER_CHAOS is the number of runs, by default 20, and AYCODER_KILLS the least number
// of kills of each kind, by default 3; runs are added until there were so many.
func TestChaos(t *testing.T) {
	if text := os.Getenv(helperVariable); text != "" {
		var h helper
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		h.work(t)
		return
	}
	runs, kills, atOnce := number("AYCODER_CHAOS", 20), number("AYCODER_KILLS", 3), 10
	if runs > 100 {
		atOnce = 40
	}
	w := newWorld(t)
	h := helper{Temporal: w.servers.Address(), Database: w.servers.Database.Address(), Dir: w.dir, Counter: filepath.Join(w.dir, "counter")}
	for range 3 {
		w.workers = append(w.workers, w.startWorker(h))
	}
	ctx, stop := context.WithCancel(t.Context())
	var killers sync.WaitGroup
	killers.Go(func() {
		for w.pause(ctx, 3, 20) {
			i := rand.N(len(w.workers))
			_ = w.workers[i].cmd.Process.Kill()
			<-w.workers[i].done
			w.killed("worker")
			w.workers[i] = w.startWorker(h)
		}
	})
	killers.Go(func() {
		for w.pause(ctx, 20, 60) {
			what := rand.N(3)
			if what != 0 {
				w.must(w.servers.Kill())
				w.killed("temporal")
			}
			if what != 1 {
				w.must(w.servers.Database.Kill())
				w.killed("postgres")
				sleep(ctx, rand.N(time.Second))
				w.must(w.servers.Database.Run())
			}
			if what != 0 {
				w.must(w.servers.Run())
			}
		}
	})
	killers.Go(func() { // for those who watch a large test
		for sleep(ctx, 30*time.Second) {
			w.mu.Lock()
			fmt.Fprintf(os.Stderr, "%4.0f s: %d runs ended, kills %v, %d calls, %d interrupted, %d repeated\n", time.Since(w.begin).Seconds(), w.ended,
				w.kills, w.calls, w.lost, w.repeated)
			w.mu.Unlock()
		}
	})
	enough := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return min(w.kills["worker"], w.kills["temporal"], w.kills["postgres"]) >= kills
	}
	slots := make(chan struct{}, atOnce)
	var working sync.WaitGroup
	n := 0
	for ; n < runs || !enough(); n++ {
		slots <- struct{}{}
		id := fmt.Sprintf("run-%d", n)
		working.Go(func() {
			defer func() { <-slots }()
			w.run(id)
		})
	}
	working.Wait()
	stop()
	killers.Wait()
	for _, p := range w.workers {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	t.Logf("%d runs in %.0f s; kills: %v; %d writing calls interrupted, %d read-only calls repeated, %d answers", n,
		time.Since(w.begin).Seconds(), w.kills, w.lost, w.repeated, w.answered)
	if w.ended != n {
		t.Errorf("%d of %d runs have ended", w.ended, n)
	}
	if runs >= 500 && (w.lost < 50 || w.repeated < 500) {
		t.Error("too few calls have met a kill")
	}
	if t.Failed() {
		t.Log(w.log)
	}
}

func number(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

func newWorld(t *testing.T, opts ...server.Option) *world {
	servers, err := server.Start(opts...)
	if errors.Is(err, server.ErrMissing) || errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	w := &world{t: t, servers: servers, dir: t.TempDir(), begin: time.Now(), begun: map[string]int{}, since: map[string]time.Duration{}, kills: map[string]int{}}
	w.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(servers.Log())
		}
		if err := servers.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.store, err = postgres.Open(t.Context(), servers.Database.Address()+" pool_max_conns=20", postgres.WithPatience(2*time.Minute))
	w.must(err)
	t.Cleanup(func() { w.store.Close() })
	w.client, err = client.NewLazyClient(client.Options{HostPort: servers.Address(), Logger: quiet()})
	w.must(err)
	t.Cleanup(w.client.Close)
	eventually(t, func() (struct{}, error) {
		_, err := w.client.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{Namespace: "default",
			WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		return struct{}{}, err
	})
	w.temp = &temporal.Client{Temporal: w.client, Store: w.store}
	l, err := net.Listen("unix", filepath.Join(w.dir, "counter"))
	w.must(err)
	counter := &http.Server{Handler: http.HandlerFunc(w.hear)}
	go counter.Serve(l)
	t.Cleanup(func() { counter.Close() })
	return w
}

// makeDir makes the directory of a run.
func (w *world) makeDir(id string) string {
	dir := filepath.Join(w.dir, id)
	w.must(os.Mkdir(dir, 0o700))
	w.must(os.WriteFile(filepath.Join(dir, "file"), []byte(contentOf(0)), 0o600))
	return dir
}

// run starts a run, answers its questions, and checks what has become of it.
func (w *world) run(id string) {
	t, ctx := w.t, w.t.Context()
	dir, begin := w.makeDir(id), time.Since(w.begin)
	ignore := func(string, string, string) {}
	s := eventually(t, func() (*session.Session, error) {
		return session.New(ctx, w.store, newAgent(t, id, dir, ignore), session.WithID(id))
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	run := eventually(t, func() (client.WorkflowRun, error) {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return w.temp.Start(attempt, client.StartWorkflowOptions{ID: id, TaskQueue: queue}, temporal.Input{Session: id}, aycoder.User("Begin."))
	})
	var over atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() {
		for !over.Load() {
			w.answer(id)
			sleep(ctx, 200*time.Millisecond+rand.N(time.Second))
		}
	})
	out := eventually(t, func() (out temporal.Output, err error) {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err = run.Get(attempt, &out)
		return out, err
	})
	over.Store(true)
	answers.Wait()
	if out.End != temporal.EndUnknown && out.End != aycoder.EndDone || out.Error != "" {
		t.Errorf("%s: %+v", id, out)
	}
	w.check(id, dir, begin)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended++
}

// answer answers the open question of a run, if there is one.
func (w *world) answer(id string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	p, err := w.temp.Pending(ctx, id)
	if err != nil || p == nil {
		return // what is not there yet, or not to be reached, comes later
	}
	for _, q := range p.Requests {
		if w.temp.Decide(ctx, id, p, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}) == nil {
			w.mu.Lock()
			w.answered++
			w.mu.Unlock()
		}
	}
}

// check compares the conversation and the files of a run with those of one that nobody disturbed.
func (w *world) check(id, dir string, start time.Duration) {
	t, ctx := w.t, w.t.Context()
	plainDir := w.makeDir("plain-" + id)
	var plain aycoder.Result
	for ev, err := range newAgent(t, id, plainDir, func(string, string, string) {}).Run(ctx, aycoder.Input{Prompt: "Begin."}, aycoder.Into(&plain)) {
		if err != nil {
			t.Error(err)
			return
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
	}
	type read struct {
		view   *session.View
		damage []error
	}
	r := eventually(t, func() (r read, err error) {
		r.view, r.damage, err = session.Read(ctx, w.store, id)
		return r, err
	})
	if len(r.damage) > 0 {
		t.Errorf("%s: %v", id, r.damage)
	}
	got := r.view.Messages(r.view.Head(""))
	lost := w.sameAs(id, got, plain.Messages)
	w.explain(id, start, lost)

	content, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil {
		t.Error(err)
	}
	whole := []string{contentOf(5)}
	if slices.Contains(lost, "c5-2") {
		whole = append(whole, contentOf(3))
		if slices.Contains(lost, "c3-0") {
			whole = append(whole, contentOf(0))
		}
	}
	if !slices.Contains(whole, string(content)) {
		t.Errorf("%s: the file has %d bytes: %.40q", id, len(content), content)
	}
	lines, _ := os.ReadFile(filepath.Join(dir, "log"))
	for _, call := range []string{"c2-0", "c5-1"} {
		n := strings.Count(string(lines), call+"\n")
		if n > 1 || n == 0 && !slices.Contains(lost, call) {
			t.Errorf("%s: the command of %s has run %d times", id, call, n)
		}
	}
	for _, d := range []string{dir, plainDir} {
		if err := os.RemoveAll(d); err != nil {
			t.Error(err)
		}
	}
}

// explain checks that each interrupted call has met a kill: within a minute after it has begun, or in the time of the run if its
// tool was not reached. A worker that lives learns of a lost server only by its heartbeats.
func (w *world) explain(id string, start time.Duration, lost []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost += len(lost)
	for _, call := range lost {
		from, to := start, time.Since(w.begin)
		if at, ok := w.since[id+" "+call]; ok {
			from, to = at-time.Second, at+time.Minute // a kill is written down after it
		}
		if !slices.ContainsFunc(w.log, func(k kill) bool { return k.at >= from && k.at <= to }) {
			w.t.Errorf("%s: %s was interrupted, and nothing was killed between %v and %v", id, call, from, to)
		}
	}
}

// sameAs compares a conversation with that of a run that nobody disturbed, and returns the writing calls that were interrupted.
func (w *world) sameAs(id string, got, want []*aycoder.Message) (lost []string) {
	names := map[string]string{}
	for _, m := range want {
		for _, c := range m.Calls() {
			names[c.ID] = c.Name
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("%s: %d messages, want %d", id, len(got), len(want))
		return nil
	}
	for i := range got {
		m, plain := withoutNotes(got[i]), withoutNotes(want[i])
		for k, p := range m.Parts {
			o, ok := p.(*aycoder.ToolOutput)
			if ok && o.IsError && strings.Contains(o.Text(), "outcome is unknown") && names[o.ID] != "look" && k < len(plain.Parts) {
				lost = append(lost, o.ID)
				m.Parts[k] = plain.Parts[k]
			}
		}
		a, errA := json.Marshal(m)
		b, errB := json.Marshal(plain)
		if string(a) != string(b) || errors.Join(errA, errB) != nil {
			n := 0
			for n < min(len(a), len(b)) && a[n] == b[n] {
				n++
			}
			n = max(n-100, 0)
			w.t.Errorf("%s: message %d is\n…%.500s\nwant\n…%.500s", id, i, a[n:], b[n:])
			return lost
		}
	}
	return lost
}

// withoutNotes returns a message without the notes of compactions. They depend on what the counter of the process has
// learned from the answers before.
func withoutNotes(m *aycoder.Message) *aycoder.Message {
	parts := slices.DeleteFunc(slices.Clone(m.Parts), func(p aycoder.Part) bool {
		o, ok := p.(*aycoder.Opaque)
		return ok && o.Provider == "aycoder"
	})
	return &aycoder.Message{Role: m.Role, Parts: parts}
}
