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

	"go.temporal.io/api/serviceerror"
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
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/pgcluster"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
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
	// around reports each call before it begins, and makes reads take their time.
	around := func(id string) aycoder.ToolMiddleware {
		return func(next aycoder.ToolFunc) aycoder.ToolFunc {
			return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				q := url.Values{"what": {inv.Name}, "session": {id}, "call": {inv.ID}, "pid": {strconv.Itoa(os.Getpid())}}
				res, err := counter.Post("http://counter/?"+q.Encode(), "", nil)
				if err != nil {
					panic(err) // the counter lives longer than all workers
				}
				res.Body.Close()
				if inv.Name == "read_file" && !sleep(ctx, 300*time.Millisecond+rand.N(900*time.Millisecond)) {
					return nil, ctx.Err()
				}
				return next(ctx, inv)
			}
		}
	}
	c := eventually(t, func() (client.Client, error) {
		return client.Dial(client.Options{HostPort: h.Temporal, Logger: quiet()})
	})
	startWorker(t, c, queue, temporal.Config{
		Store: store, Heartbeat: 5 * time.Second, // a busy machine keeps a worker from shorter ones
		Limits: func(string, aycoder.Effect) temporal.Limits {
			return temporal.Limits{Timeout: time.Minute, Attempts: 1000}
		},
		Open: func(ctx context.Context, id string) (*temporal.Agent, error) {
			loop, end := newAgent(t, id, filepath.Join(h.Dir, id), around(id))
			s, err := session.Open(ctx, store, id, loop)
			if err != nil {
				return nil, errors.Join(err, end())
			}
			return &temporal.Agent{Session: s, Close: func() error { return errors.Join(s.Close(), end()) }}, nil
		},
	})
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startWorker starts a worker in this process, which ends with the test. more registers what it carries out besides.
func startWorker(t *testing.T, c client.Client, queue string, config temporal.Config, more ...func(worker.Worker)) {
	t.Helper()
	made, err := temporal.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	w := worker.New(c, queue, worker.Options{})
	made.Register(w)
	for _, register := range more {
		register(w)
	}
	eventually(t, func() (struct{}, error) { return struct{}{}, w.Start() })
	t.Cleanup(w.Stop)
}

// openWith opens sessions with an agent, for a [temporal.Config].
func openWith(store journal.Store, agent func(id string) *aycoder.Loop) func(context.Context, string) (*temporal.Agent, error) {
	return func(ctx context.Context, id string) (*temporal.Agent, error) {
		s, err := session.Open(ctx, store, id, agent(id))
		if err != nil {
			return nil, err
		}
		return &temporal.Agent{Session: s}, nil
	}
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

// newAgent makes the agent of a run, with the tools of the library on its directory. around is around each call, also those of the
// agent that works inside one. Its models depend on nothing but the id of the run and what they see. end closes it.
func newAgent(t testing.TB, id, dir string, around aycoder.ToolMiddleware) (loop *aycoder.Loop, end func() error) {
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	must := func(tool aycoder.Tool, err error) aycoder.Tool {
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	number, _ := strconv.Atoi(strings.TrimPrefix(id, "run-"))
	reads := func(from, n int) (calls []script.Step) {
		for i := from; i < from+n; i++ {
			calls = append(calls, script.Call("read_file", map[string]any{"path": "text", "offset": 10 * i, "limit": 10 + number%3}))
		}
		return calls
	}
	shell := func(call string) script.Step {
		command := fmt.Sprintf("sleep 0.%d; echo %s >>log; echo done", 2+number%7, call)
		return script.Call("bash", map[string]any{"command": command})
	}
	edit := func(file string) script.Step {
		return script.Call("edit_file", map[string]any{"path": file, "old_string": "old", "new_string": "new", "replace_all": true})
	}
	child := scripted("s", reads(1, 2), []script.Step{shell("s2-0")})
	model := scripted("c", reads(1, 3), []script.Step{shell("c2-0")}, []script.Step{edit("a")}, reads(4, 4),
		append(reads(8, 1), shell("c5-1"), edit("b")), []script.Step{script.Call("subagent", map[string]any{"task": "Look, and write."})}, reads(9, 2))
	read, bash := must(tools.ReadFile(ws)), must(tools.Bash(ws))
	inner := must(tools.Subagent(tools.SubagentConfig{Model: child, Tools: []aycoder.Tool{read, bash}}))
	keep, err := compaction.New(model, compaction.WithWindow(6000))
	if err != nil {
		t.Fatal(err)
	}
	loop, err = aycoder.New(model, aycoder.WithTools(read, bash, must(tools.EditFile(ws)), inner, keep.Recall()),
		aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithToolMiddleware(around),
		aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if c.Name == "edit_file" {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})))
	if err != nil {
		t.Fatal(err)
	}
	return loop, ws.Close
}

// calm is around the calls of an agent that works without servers.
func calm(next aycoder.ToolFunc) aycoder.ToolFunc { return next }

// scripted is a model whose answer depends on the output that it sees last, so that every process gives the same.
func scripted(name string, turns ...[]script.Step) aycoder.ModelClient {
	return aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		turn := 0
		if out := script.LastOutput(req); out != nil {
			_, _ = fmt.Sscanf(out.ID, name+"%d-", &turn)
		}
		answer := []script.Step{script.Say(fmt.Sprintf("This is turn %d.", turn+1))}
		if turn < len(turns) {
			for i, call := range turns[turn] {
				answer = append(answer, call.WithID(fmt.Sprintf("%s%d-%d", name, turn+1, i)))
			}
		}
		return script.New(script.Reply(answer...)).Stream(ctx, req)
	})
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
	begun    map[string]begin // calls, by session and id
	kills    map[string]int
	log      []kill
	calls    int            // that were begun
	lost     map[string]int // calls that were interrupted, by tool
	repeated int            // read-only calls that were begun again
	answered int
	shorter  int // compactions
	ended    int
}

// A begin is the first of a call, and the worker that made it.
type begin struct {
	at  time.Duration
	pid string
}

// A kill is what was killed, and when. Of a worker, it has the process.
type kill struct {
	at        time.Duration
	what, pid string
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
	switch b, again := w.begun[key]; {
	case !again:
		w.begun[key] = begin{time.Since(w.begin), r.FormValue("pid")}
	case r.FormValue("what") == "read_file" && r.FormValue("call")[0] == 'c': // those of the agent in a call end with it
		w.repeated++
	default:
		w.t.Errorf("%s: %s begins again, after %v in process %s", key, r.FormValue("what"), b.at, b.pid)
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
func (w *world) killed(what string, pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills[what]++
	w.log = append(w.log, kill{time.Since(w.begin), what, strconv.Itoa(pid)})
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
// with those of runs that nobody disturbed. AYCODER_CHAOS is the number of runs, by default 10, and AYCODER_KILLS the least number
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
	runs, kills, atOnce := number("AYCODER_CHAOS", 10), number("AYCODER_KILLS", 3), 10
	if runs > 100 {
		atOnce = 40
	}
	w := newWorld(t)
	h := helper{Temporal: w.servers.Address(), Database: w.servers.Database.Address(), Dir: w.dir, Counter: filepath.Join(w.dir, "counter")}
	for range 3 {
		w.workers = append(w.workers, w.startWorker(h))
	}
	ctx, stop := context.WithCancel(t.Context())
	counts := func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Sprintf("%d runs ended in %.0f s; kills: %v; %d calls; interrupted: %v; %d reads repeated; %d answers to questions; %d compactions",
			w.ended, time.Since(w.begin).Seconds(), w.kills, w.calls, w.lost, w.repeated, w.answered, w.shorter)
	}
	var killers sync.WaitGroup
	killers.Go(func() {
		for w.pause(ctx, 3, 20) {
			i := rand.N(len(w.workers))
			_ = w.workers[i].cmd.Process.Kill()
			<-w.workers[i].done
			w.killed("worker", w.workers[i].cmd.Process.Pid)
			w.workers[i] = w.startWorker(h)
		}
	})
	killers.Go(func() {
		for w.pause(ctx, 20, 60) {
			what := rand.N(3)
			if what != 0 {
				w.must(w.servers.Kill())
				w.killed("temporal", 0)
			}
			if what != 1 {
				w.must(w.servers.Database.Kill())
				w.killed("postgres", 0)
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
			fmt.Fprintln(os.Stderr, counts())
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
	t.Log(counts())
	if w.ended != n {
		t.Errorf("%d of %d runs have ended", w.ended, n)
	}
	lost := 0
	for _, n := range w.lost {
		lost += n
	}
	if runs >= 500 && (lost < 50 || w.repeated < 500) {
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
	w := &world{t: t, servers: servers, dir: t.TempDir(), begin: time.Now(), begun: map[string]begin{}, kills: map[string]int{}, lost: map[string]int{}}
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
	w.must(os.MkdirAll(dir, 0o700))
	words := strings.Repeat(" of "+filepath.Base(dir), 30)
	for name, line := range map[string]string{"text": "line %d" + words + "\n", "a": "old line %d\n", "b": "old line %d\n"} {
		var b strings.Builder
		for i := range 120 {
			fmt.Fprintf(&b, line, i)
		}
		w.must(os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600))
	}
	return dir
}

// run starts a run, answers its questions, and checks what has become of it.
func (w *world) run(id string) {
	t, ctx := w.t, w.t.Context()
	dir, begin := w.makeDir(id), time.Since(w.begin)
	loop, end := newAgent(t, id, dir, calm)
	s := eventually(t, func() (*session.Session, error) { return session.New(ctx, w.store, loop, session.WithID(id)) })
	if err := errors.Join(s.Close(), end()); err != nil {
		t.Error(err)
	}
	run := eventually(t, func() (client.WorkflowRun, error) {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		run, err := w.temp.Start(attempt, client.StartWorkflowOptions{ID: id, TaskQueue: queue}, temporal.Input{Session: id}, aycoder.User("Begin."))
		if _, lost := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); lost { // the answer to an attempt before
			return w.client.GetWorkflow(ctx, id, ""), nil
		}
		return run, err
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
	plainDir := w.makeDir("plain/" + id)
	loop, end := newAgent(t, id, plainDir, calm)
	var plain aycoder.Result
	for ev, err := range loop.Run(ctx, aycoder.Input{Prompt: "Begin."}, aycoder.Into(&plain)) {
		if err != nil {
			t.Error(err)
			return
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	type read struct {
		view   *session.View
		damage []error
		done   int      // answers of the model that are recorded
		facts  []string // the kinds of all facts
	}
	r := eventually(t, func() (r read, err error) {
		for rec, err := range session.Facts(ctx, w.store, id, "") {
			if err != nil {
				return r, err
			}
			if _, ok := rec.Fact.(*aycoder.MessageDone); ok {
				r.done++
			}
			r.facts = append(r.facts, fmt.Sprintf("%T", rec.Fact))
		}
		r.view, r.damage, err = session.Read(ctx, w.store, id)
		return r, err
	})
	if len(r.damage) > 0 {
		t.Errorf("%s: %v", id, r.damage)
	}
	if r.done != plain.Turns {
		t.Errorf("%s: %d answers of the model are recorded, want %d: %q", id, r.done, plain.Turns, r.facts)
	}
	lost := w.sameAs(id, r.view.Messages(r.view.Head("")), plain.Messages)
	w.explain(id, start, lost)

	for call, name := range map[string]string{"c3-0": "a", "c5-2": "b"} {
		got, err1 := os.ReadFile(filepath.Join(dir, name))
		want, err2 := os.ReadFile(filepath.Join(plainDir, name))
		before := strings.ReplaceAll(string(want), "new", "old")
		if err := errors.Join(err1, err2); err != nil || string(want) == before {
			t.Errorf("%s: %s is not edited: %v", id, name, err)
		}
		if string(got) != string(want) && !(lost[call] != "" && string(got) == before) {
			t.Errorf("%s: %s has %d bytes: %.40q", id, name, len(got), got)
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	for line, call := range map[string]string{"c2-0": "c2-0", "c5-1": "c5-1", "s2-0": "c6-0"} {
		n := strings.Count(string(log), line+"\n")
		if n > 1 || n == 0 && lost[call] == "" {
			t.Errorf("%s: the command of %s has run %d times", id, line, n)
		}
	}
	for _, d := range []string{dir, plainDir} {
		if err := os.RemoveAll(d); err != nil {
			t.Error(err)
		}
	}
}

// explain checks that each interrupted call has met a kill, of its worker or of a server: within a minute after it has begun, or in the
// time of the run if its tool was not reached. A worker that lives learns of a lost server only by its heartbeats.
func (w *world) explain(id string, start time.Duration, lost map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call, tool := range lost {
		w.lost[tool]++
		from, to, pid := start, time.Since(w.begin), ""
		if b, ok := w.begun[id+" "+call]; ok {
			from, to, pid = b.at-time.Second, b.at+time.Minute, b.pid // a kill is written down after it
		}
		if !slices.ContainsFunc(w.log, func(k kill) bool {
			return k.at >= from && k.at <= to && (k.what != "worker" || pid == "" || k.pid == pid)
		}) {
			w.t.Errorf("%s: %s was interrupted in process %s, and nothing was killed between %v and %v", id, call, pid, from, to)
		}
	}
}

// interrupted is all that a run says of a call that may write and was in flight when its process or a server was killed.
const interrupted = "interrupted: the program ended while this call worked; its outcome is unknown, check before doing it again"

// sameAs compares a conversation with that of a run that nobody disturbed, and returns the writing calls that were interrupted, with
// their tools.
func (w *world) sameAs(id string, got, want []*aycoder.Message) (lost map[string]string) {
	lost = map[string]string{}
	if len(got) != len(want) {
		w.t.Errorf("%s: %d messages, want %d", id, len(got), len(want))
		return lost
	}
	notes := 0
	for i := range got {
		m, plain := withoutMarks(got[i]), withoutMarks(want[i])
		if len(got[i].Parts) > len(m.Parts) {
			notes++
		}
		for k, o := range m.Parts {
			o, ok := o.(*aycoder.ToolOutput)
			if ok && o.IsError && o.Text() == interrupted && o.Name != "read_file" && k < len(plain.Parts) {
				lost[o.ID] = o.Name
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
	if notes == 0 {
		w.t.Errorf("%s: no compaction", id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shorter += notes
	return lost
}

// withoutMarks returns a message without the notes of compactions. They depend on what the counter of the process has
// learned from the answers before.
func withoutMarks(m *aycoder.Message) *aycoder.Message {
	return &aycoder.Message{Role: m.Role, Parts: slices.DeleteFunc(slices.Clone(m.Parts), part.IsMark)}
}
