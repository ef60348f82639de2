package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	temporalserver "github.com/aycoder/aycoder/contrib/temporal/chaos/server"
	"github.com/aycoder/aycoder/contrib/worker"
	"github.com/aycoder/aycoder/internal/pgcluster"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/session"
)

// helperVariable makes TestNodes a worker process. Its value is a helper in JSON.
const helperVariable = "AYCODER_WORKER_HELPER"

// helper is the task of a worker process. If it has a Dir, this is a machine with workspaces.
type helper struct {
	Temporal, Database, Go, Queue, Dir, Build string
	Pinned                                    bool
	Steps                                     int
	Pause                                     time.Duration // of the model before it answers
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// story is what the model says, long enough for many notifications.
var story = strings.Repeat("The quick brown fox jumps over the lazy dog. ", 300)

// node makes a node whose tool waits until a file exists.
func (h helper) node(t testing.TB, ctx context.Context) (*worker.Node, *postgres.Store) {
	var store *postgres.Store
	var c client.Client
	patiently(t, func(ctx context.Context) (err error) {
		store, err = postgres.Open(ctx, h.Database, postgres.WithLease(3*time.Second))
		return err
	})
	patiently(t, func(ctx context.Context) (err error) {
		c, err = client.DialContext(ctx, client.Options{HostPort: h.Temporal, Logger: quiet()})
		return err
	})
	type none struct{}
	wait, err := aycoder.NewTool("wait", "Waits", func(ctx context.Context, inv *aycoder.Invocation, _ none) (*aycoder.ToolResult, error) {
		fmt.Println("waits")
		for {
			if _, err := os.Stat(h.Go); err == nil {
				return aycoder.TextResult("gone on" + h.Build), nil
			}
			inv.Progress(aycoder.Progress{Message: "waiting"})
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}, aycoder.WithEffect(aycoder.EffectWrite))
	must(t, err)
	look, err := aycoder.NewTool("look", "Looks", func(context.Context, *aycoder.Invocation, none) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("nothing"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	must(t, err)
	model := modelFunc(func(req *aycoder.Request) script.Step {
		<-time.After(h.Pause)
		usage := aycoder.Usage{Input: 900, Output: 100}
		switch out := script.LastOutput(req); {
		case strings.HasPrefix(script.LastText(req), "look"):
			return script.Call("look", nil).WithID("l1").WithUsage(usage)
		case out != nil && out.ID == "l1":
			return script.Say("seen").WithUsage(usage)
		case strings.HasPrefix(script.LastText(req), "wait"):
			return script.Call("wait", nil).WithID("w1")
		case out != nil && out.ID == "w1":
			return script.Say("It said: " + out.Text())
		}
		return script.Say(story)
	})
	place, err := h.place()
	must(t, err)
	config := worker.Config{Temporal: c, Store: store, Queue: h.Queue, Steps: h.Steps, Heartbeat: 2 * time.Second, Drain: time.Minute,
		Limits: func(string, aycoder.Effect) temporal.Limits { return temporal.Limits{Attempts: 1000} },
		Principal: func(r *http.Request) (string, error) {
			if who := r.Header.Get("Authorization"); who != "" {
				return who, nil
			}
			return "", errors.New("nobody")
		},
		Open: func(ctx context.Context, tenant, id string) (*temporal.Agent, error) {
			if place != nil {
				return h.open(ctx, place, store, id)
			}
			pot, err := budget.New(budget.Config{Name: tenant, Ledger: store.Tenant(tenant)})
			if err != nil {
				return nil, err
			}
			loop, err := aycoder.New(model, aycoder.WithTools(wait, look), aycoder.WithModelMiddleware(pot.Model), aycoder.WithApprover(aycoder.ApproverFunc(
				func(_ context.Context, _ *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
					if s.Effect == aycoder.EffectReadOnly {
						return aycoder.Allow()
					}
					return aycoder.Ask()
				})))
			if err != nil {
				return nil, err
			}
			s, err := session.Open(ctx, store, id, loop)
			if err != nil {
				return nil, err
			}
			return &temporal.Agent{Session: s}, nil
		},
	}
	if h.Build != "" {
		config.Deployment = sdkworker.DeploymentOptions{UseVersioning: true, Version: sdkworker.WorkerDeploymentVersion{DeploymentName: h.Queue, BuildID: h.Build}}
		if h.Pinned {
			config.Deployment.DefaultVersioningBehavior = workflow.VersioningBehaviorPinned
		}
	}
	n, err := worker.New(config)
	must(t, err)
	return n, store
}

// modelFunc is a model whose answer depends on the request alone, in parts that take their time.
type modelFunc func(req *aycoder.Request) script.Step

// Stream implements [aycoder.ModelClient].
func (f modelFunc) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return script.New(f(req)).With(script.WithPace(10*time.Millisecond), script.WithChunk(100)).Stream(ctx, req)
}

// work is the worker process: SIGTERM drains it.
func (h helper) work(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	n, _ := h.node(t, ctx)
	patiently(t, func(context.Context) error { return n.Run(ctx) })
	fmt.Println("drained")
}

func patiently(t testing.TB, f func(ctx context.Context) error) {
	t.Helper()
	for n := 0; ; n++ {
		err := f(context.WithoutCancel(t.Context()))
		if err == nil {
			return
		}
		if n > 600 {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// process is a worker process.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// start starts the process by a command, such as one that enters a namespace.
func (h helper) start(t *testing.T, in ...string) *process {
	t.Helper()
	data, err := json.Marshal(h)
	must(t, err)
	args := append(in, os.Args[0], "-test.run=^TestNodes$", "-test.timeout=10m")
	p := &process{Cmd: exec.Command(args[0], args[1:]...)}
	p.Env = append(os.Environ(), helperVariable+"="+string(data))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	must(t, err)
	must(t, p.Start())
	p.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// says waits for a line that begins with something, and returns the rest of it.
func (p *process) says(t *testing.T, want string) string {
	t.Helper()
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), want); ok {
			return rest
		}
	}
	t.Fatalf("the process has not said %q: %v", want, p.Wait())
	return ""
}

// drain ends the process in good order.
func (p *process) drain(t *testing.T) {
	t.Helper()
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.says(t, "drained")
	must(t, p.Wait())
}

// web asks the server of this process, which has no worker.
type web struct {
	t        *testing.T
	url, who string
}

// events yields the events of a session.
func (w *web) events(path string) iter.Seq[aycoder.Event] {
	return func(yield func(aycoder.Event) bool) {
		req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.url+path+"/events", nil)
		must(w.t, err)
		req.Header.Set("Authorization", w.who)
		res, err := http.DefaultClient.Do(req)
		must(w.t, err)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				ev, err := aycoder.DecodeEvent([]byte(data))
				must(w.t, err)
				if !yield(ev) {
					return
				}
			}
		}
	}
}

// prompt starts a run in a session, or in a new one, and returns its path.
func (w *web) prompt(text, session string) string {
	w.t.Helper()
	var made struct{ Session string }
	w.ask(http.StatusAccepted, "POST", "/api/prompt", fmt.Sprintf(`{"prompt":%q,"session":%q}`, text, session), &made)
	return "/api/sessions/" + made.Session
}

// allow allows what a session asks.
func (w *web) allow(path string, q aycoder.ApprovalRequest) {
	w.t.Helper()
	w.ask(http.StatusNoContent, "POST", path+"/approvals/"+q.CallID, fmt.Sprintf(`{"decision":"allow","digest":%q}`, q.Digest), nil)
}

func (w *web) ask(status int, method, path, body string, into any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	must(w.t, err)
	req.Header.Set("Authorization", w.who)
	res, err := http.DefaultClient.Do(req)
	must(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(w.t, err)
	if res.StatusCode != status {
		w.t.Fatalf("%s %s: status %d: %s", method, path, res.StatusCode, text)
	}
	if into != nil {
		must(w.t, json.Unmarshal(text, into))
	}
}

// shown is what a display shows of a session, until a number of runs have ended.
type shown struct {
	text   strings.Builder
	parts  int
	events []string
	ends   int
}

func (s *shown) add(ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		s.parts++
		s.text.WriteString(ev.Text)
	case *aycoder.Retrying:
		if ev.Discarded {
			s.text.Reset()
		}
	case *aycoder.ApprovalRequested:
		s.events = append(s.events, "asks "+ev.Request.CallID)
	case *aycoder.ToolStarted:
		s.events = append(s.events, "starts "+ev.Call.ID)
	case *aycoder.ToolFinished:
		s.events = append(s.events, fmt.Sprint("ends ", ev.Call.ID, " ", ev.Output.IsError))
	case *aycoder.RunFinished:
		s.ends++
		s.events = append(s.events, "over "+string(ev.Result.End), s.text.String())
		s.text.Reset()
	}
}

// lateFeed delivers three seconds late, and loses every third message.
type lateFeed struct{ *postgres.Store }

func (f lateFeed) Subscribe(ctx context.Context, id string) iter.Seq2[[]byte, error] {
	type timed struct {
		at   time.Time
		data []byte
	}
	return func(yield func([]byte, error) bool) {
		all := make(chan timed, 10000)
		go func() {
			defer close(all)
			n := 0
			for m, err := range f.Store.Subscribe(ctx, id) {
				if err != nil {
					return
				}
				if n++; n%3 != 0 {
					all <- timed{time.Now().Add(3 * time.Second), m}
				}
			}
		}()
		for m := range all {
			<-time.After(time.Until(m.at))
			if !yield(m.data, nil) {
				return
			}
		}
	}
}

// startServers starts the servers, and a node that serves and does not work. It completes the helper.
func startServers(t *testing.T, h helper) (helper, *web, *postgres.Store) {
	t.Helper()
	s, err := temporalserver.Start()
	if errors.Is(err, temporalserver.ErrMissing) || errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, s.Stop()) })
	patiently(t, func(ctx context.Context) error {
		c, err := client.DialContext(ctx, client.Options{HostPort: s.Address(), Logger: quiet()})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "default",
			WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		return err
	})
	h.Temporal, h.Database, h.Go = s.Address(), s.Database.Address(), t.TempDir()+"/go"
	n, store := h.node(t, t.Context())
	t.Cleanup(func() { must(t, store.Close()) })
	ts := httptest.NewServer(n)
	t.Cleanup(ts.Close)
	return h, &web{t, ts.URL, "alice"}, store
}

// A server process shows runs of worker processes as they go on, also to a reader whose messages come three seconds late or not at
// all. It answers their questions. A worker that is killed while the model talks is replaced, and one that is told to end first ends
// its steps.
func TestNodes(t *testing.T) {
	if text := os.Getenv(helperVariable); text != "" {
		var h helper
		must(t, json.Unmarshal([]byte(text), &h))
		h.work(t)
		return
	}
	h, w, store := startServers(t, helper{Queue: "nodes"})
	first := h.start(t)
	path := w.prompt("tell", "")
	id := strings.TrimPrefix(path, "/api/sessions/")
	late, lateAsked := make(chan *shown, 1), make(chan struct{}, 10)
	go func() {
		defer close(lateAsked)
		var l shown
		for f, err := range server.Follow(t.Context(), store, lateFeed{store}, id, "", "") {
			if err != nil {
				break
			}
			if _, asks := f.Event.(*aycoder.ApprovalRequested); asks {
				lateAsked <- struct{}{}
			}
			if l.add(f.Event); l.ends == 2 {
				break
			}
		}
		late <- &l
	}()
	var live shown
	killed, asked := false, false
	var second *process
	for ev := range w.events(path) {
		live.add(ev)
		if !killed && live.parts == 5 { // in the middle of the message
			killed = true
			must(t, first.Process.Kill())
			_ = first.Wait()
			second = h.start(t)
		}
		if _, over := ev.(*aycoder.RunFinished); over && live.ends == 1 {
			w.prompt("wait", id)
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok && !asked {
			asked = true
			<-lateAsked // nobody is shown a question that was answered before
			w.ask(http.StatusConflict, "POST", path+"/approvals/w1", `{"decision":"allow","digest":"another"}`, nil)
			w.allow(path, q.Request)
			second.says(t, "waits")
			must(t, second.Process.Signal(syscall.SIGTERM))
			<-time.After(time.Second) // a moment that may be any
			must(t, os.WriteFile(h.Go, nil, 0o600))
			second.says(t, "drained")
			must(t, second.Wait())
			h.start(t) // which goes on
		}
		if live.ends == 2 {
			break
		}
	}
	want := []string{"over done", story, "asks w1", "starts w1", "ends w1 false", "over done", "It said: gone on"}
	if fmt.Sprint(live.events) != fmt.Sprint(want) {
		t.Errorf("shown:\n%q\nwant\n%q", live.events, want)
	}
	if l := <-late; fmt.Sprint(l.events) != fmt.Sprint(want) {
		t.Errorf("shown late:\n%q\nwant\n%q", l.events, want)
	}
	if live.parts < 20 {
		t.Errorf("the texts have come in %d parts", live.parts)
	}
	t.Logf("texts in %d parts", live.parts)

	w.ask(http.StatusNotFound, "GET", "/api/sessions/bob-x", "", nil)
	w.ask(http.StatusNotFound, "GET", "/api/sessions/alice-x/events", "", nil)
	w.ask(http.StatusNotFound, "POST", "/api/prompt", `{"prompt":"x","session":"alice-x"}`, nil)
	w.ask(http.StatusBadRequest, "POST", "/api/prompt", `{"prompt":" "}`, nil)
	w.ask(http.StatusBadRequest, "POST", "/api/prompt", `{"x":1}`, nil)
	w.ask(http.StatusOK, "GET", "/ready", "", nil)
	res, err := http.Get(w.url + "/metrics")
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody has got the metrics: status %d", res.StatusCode)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/metrics", nil)
	must(t, err)
	req.Header.Set("Authorization", "alice")
	res, err = http.DefaultClient.Do(req)
	must(t, err)
	text, err := io.ReadAll(res.Body)
	must(t, err)
	for _, name := range []string{`aycoder_queue_backlog{kind="activity"} 0`, "aycoder_step_lag_seconds_count 0", `aycoder_queue_workers{kind="workflow"} `} {
		if !strings.Contains(string(text), name) {
			t.Errorf("the metrics have no %s:\n%s", name, text)
		}
	}
}

// The metrics have the tokens of all messages of the model, also of those with calls, whose turns end in another step.
func TestMetrics(t *testing.T) {
	h, _, _ := startServers(t, helper{Queue: "metrics"})
	ctx, stop := context.WithCancel(t.Context())
	n, store := h.node(t, ctx)
	ts := httptest.NewServer(n)
	defer ts.Close()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	w := &web{t, ts.URL, "alice"}
	for ev := range w.events(w.prompt("look", "")) {
		if _, over := ev.(*aycoder.RunFinished); over {
			break
		}
	}
	req, err := http.NewRequestWithContext(ctx, "GET", ts.URL+"/metrics", nil)
	must(t, err)
	req.Header.Set("Authorization", "alice")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	text, err := io.ReadAll(res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	for _, line := range []string{`aycoder_turns_total{tenant="alice"} 2`, `aycoder_tokens_total{tenant="alice",kind="input"} 1800`,
		`aycoder_tokens_total{tenant="alice",kind="output"} 200`} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("the metrics have no %s:\n%s", line, text)
		}
	}
	stop()
	must(t, <-ended)
	must(t, store.Close())
}
