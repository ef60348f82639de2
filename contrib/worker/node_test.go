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
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/aycoder/aycoder"
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

type helper struct{ Temporal, Database, Go string }

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
		store, err = postgres.Open(ctx, h.Database)
		return err
	})
	patiently(t, func(ctx context.Context) (err error) {
		c, err = client.DialContext(ctx, client.Options{HostPort: h.Temporal, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		return err
	})
	type none struct{}
	wait, err := aycoder.NewTool("wait", "Waits", func(ctx context.Context, inv *aycoder.Invocation, _ none) (*aycoder.ToolResult, error) {
		fmt.Println("waits")
		for {
			if _, err := os.Stat(h.Go); err == nil {
				return aycoder.TextResult("gone on"), nil
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
	model := modelFunc(func(req *aycoder.Request) script.Step {
		switch out := script.LastOutput(req); {
		case strings.HasPrefix(script.LastText(req), "wait"):
			return script.Call("wait", nil).WithID("w1")
		case out != nil && out.ID == "w1":
			return script.Say("It said: " + out.Text())
		}
		return script.Say(story)
	})
	n, err := worker.New(worker.Config{Temporal: c, Store: store, Queue: "nodes", Heartbeat: 2 * time.Second, Drain: time.Minute,
		Principal: func(r *http.Request) (string, error) {
			if who := r.Header.Get("Authorization"); who != "" {
				return who, nil
			}
			return "", errors.New("nobody")
		},
		Open: func(ctx context.Context, _, id string) (*temporal.Agent, error) {
			loop, err := aycoder.New(model, aycoder.WithTools(wait), aycoder.WithApprover(aycoder.ApproverFunc(
				func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })))
			if err != nil {
				return nil, err
			}
			s, err := session.Open(ctx, store, id, loop)
			if err != nil {
				return nil, err
			}
			return &temporal.Agent{Session: s}, nil
		},
	})
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

func (h helper) start(t *testing.T) *process {
	t.Helper()
	data, err := json.Marshal(h)
	must(t, err)
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^TestNodes$", "-test.timeout=10m")}
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

// says waits for a line.
func (p *process) says(t *testing.T, want string) {
	t.Helper()
	for p.lines.Scan() {
		if p.lines.Text() == want {
			return
		}
	}
	t.Fatalf("the process has not said %q: %v", want, p.Wait())
}

// client asks the server of this process, which has no worker.
type web struct {
	t   *testing.T
	url string
}

func (w *web) ask(status int, method, path, body string, into any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	must(w.t, err)
	req.Header.Set("Authorization", "alice")
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
	s, err := temporalserver.Start()
	if errors.Is(err, temporalserver.ErrMissing) || errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, s.Stop()) })
	patiently(t, func(ctx context.Context) error {
		c, err := client.DialContext(ctx, client.Options{HostPort: s.Address(), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "default",
			WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		return err
	})
	h := helper{Temporal: s.Address(), Database: s.Database.Address(), Go: t.TempDir() + "/go"}
	n, store := h.node(t, t.Context())
	defer store.Close()
	ts := httptest.NewServer(n)
	defer ts.Close()
	w := &web{t, ts.URL}
	first := h.start(t)

	var made struct{ Session string }
	w.ask(http.StatusAccepted, "POST", "/api/prompt", `{"prompt":"tell"}`, &made)
	path := "/api/sessions/" + made.Session
	late, lateAsked := make(chan *shown, 1), make(chan struct{}, 10)
	go func() {
		defer close(lateAsked)
		var l shown
		for f, err := range server.Follow(t.Context(), store, lateFeed{store}, made.Session, "", "") {
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
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+path+"/events", nil)
	must(t, err)
	req.Header.Set("Authorization", "alice")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	var live shown
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	killed, asked := false, false
	var second *process
	for live.ends < 2 && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		ev, err := aycoder.DecodeEvent([]byte(data))
		must(t, err)
		live.add(ev)
		if !killed && live.parts == 5 { // in the middle of the message
			killed = true
			must(t, first.Process.Kill())
			_ = first.Wait()
			second = h.start(t)
		}
		if _, over := ev.(*aycoder.RunFinished); over && live.ends == 1 {
			w.ask(http.StatusAccepted, "POST", "/api/prompt", fmt.Sprintf(`{"prompt":"wait","session":%q}`, made.Session), nil)
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok && !asked {
			asked = true
			<-lateAsked // nobody is shown a question that was answered before
			w.ask(http.StatusConflict, "POST", path+"/approvals/w1", `{"decision":"allow","digest":"another"}`, nil)
			w.ask(http.StatusNoContent, "POST", path+"/approvals/w1", fmt.Sprintf(`{"decision":"allow","digest":%q}`, q.Request.Digest), nil)
			second.says(t, "waits")
			must(t, second.Process.Signal(syscall.SIGTERM))
			<-time.After(time.Second) // a moment that may be any
			must(t, os.WriteFile(h.Go, nil, 0o600))
			second.says(t, "drained")
			must(t, second.Wait())
			h.start(t) // which goes on
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
	res, err = http.Get(w.url + "/metrics")
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody has got the metrics: status %d", res.StatusCode)
	}
	req, err = http.NewRequestWithContext(t.Context(), "GET", w.url+"/metrics", nil)
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
