package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A watched is an answer that tells what is written.
type watched struct {
	*httptest.ResponseRecorder
	saw func(p []byte)
}

func (w *watched) Write(p []byte) (int, error) {
	w.saw(p)
	return w.ResponseRecorder.Write(p)
}

// status sends a request and returns the status of the answer.
func status(t *testing.T, s *Server, method, path, body string, headers ...string) int {
	w := httptest.NewRecorder()
	r := localRequest(t.Context(), method, path, body)
	r.Header.Set("Accept", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	s.ServeHTTP(w, r)
	return w.Code
}

// Whoever has seen the end of a run can start the next one, and the session can be looked at meanwhile.
func TestNextRun(t *testing.T) {
	s := served(t, talker(1, 8), WithLimits(Limits{Rate: 1e6}))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	body := `{"prompt":"go","session":"` + c.id + `"}`
	require.Equal(t, 202, status(t, s, "POST", "/api/prompt", body))
	<-c.last.done
	stop := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = status(t, s, "GET", "/api/sessions/"+c.id, "")
			}
		}
	})
	for range 50 {
		next := 0
		w := &watched{ResponseRecorder: httptest.NewRecorder(), saw: func(p []byte) {
			if strings.Contains(string(p), `"type":"run_end"`) {
				next = status(t, s, "POST", "/api/prompt", body)
			}
		}}
		s.ServeHTTP(w, localRequest(t.Context(), "POST", "/api/prompt", body))
		require.Equal(t, 202, next)
		c.mu.Lock()
		last := c.last
		c.mu.Unlock()
		<-last.done
	}
	close(stop)
	looks.Wait()
	s.release(c)
	require.NoError(t, s.Close())
}

// A request that came too late is not noted as one that has started a run.
func TestKeyWhileTheServerEnds(t *testing.T) {
	s := served(t, talker(1, 8))
	c, err := s.open(t.Context(), local, "", "k")
	require.NoError(t, err)
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for range 2 {
		require.Equal(t, 503, status(t, s, "POST", "/api/prompt", `{"prompt":"go"}`, "Idempotency-Key", "k"))
	}
	s.release(c)
	require.NoError(t, s.Close())
}

// A run that another process goes on with has no answer here.
func TestChatWhileTheServerEnds(t *testing.T) {
	s := served(t, talker(1, 8))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	require.Equal(t, 503, problemOf((&chatForm{}).whole(httptest.NewRecorder(), c.newRun(position{}))).Status)
	s.release(c)
	require.NoError(t, s.Close())
}

// The events of a run of the past are sent as they are read.
func TestPastInParts(t *testing.T) {
	s := served(t, talker(8, 200<<10))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	require.Equal(t, 202, status(t, s, "POST", "/api/prompt", `{"prompt":"go","session":"`+c.id+`"}`))
	run := c.last.id
	<-c.last.done
	c.mu.Lock()
	c.last = nil
	c.mu.Unlock()
	largest := 0
	w := &watched{ResponseRecorder: httptest.NewRecorder(), saw: func(p []byte) { largest = max(largest, len(p)) }}
	s.ServeHTTP(w, localRequest(t.Context(), "GET", "/api/runs/"+run+"/events", ""))
	require.Equal(t, 8, strings.Count(w.Body.String(), `"type":"turn_end"`))
	require.Equal(t, 1, strings.Count(w.Body.String(), `"type":"run_end"`))
	require.Less(t, largest, 512<<10)
	s.release(c)
	require.NoError(t, s.Close())
}

// Nobody else waits while the host looks for a store, or while a client takes the answer that the server is ready.
func TestStoreIsSlow(t *testing.T) {
	s := served(t, talker(1, 8))
	var held []bool
	look := func() {
		free := s.mu.TryLock()
		if held = append(held, !free); free {
			s.mu.Unlock()
		}
	}
	of := s.host.Store
	s.host.Store = func(who string) journal.Store { look(); return of(who) }
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	s.ServeHTTP(&watched{ResponseRecorder: httptest.NewRecorder(), saw: func([]byte) { look() }}, localRequest(t.Context(), "GET", "/ready", ""))
	require.Equal(t, []bool{false, false, false}, held)
	s.release(c)
	require.NoError(t, s.Close())
}

// A stream does not keep the conversation that its client has sent.
func TestFormLetsGo(t *testing.T) {
	f := &aguiForm{run: "s.1", had: []json.RawMessage{[]byte(`{"id":"s.1.m0","role":"assistant"}`)}}
	told := 0
	f.tell(step{what: stepBegin}, func(...any) { told++ })
	require.Equal(t, 2, told)
	require.Empty(t, f.had)
}

// The server ends in time while a store does not answer, and does not try it any more.
func TestShutdownWhileAStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t, talker(1, 8))
		store := &hangs{Store: s.host.Store(local), until: make(chan struct{})}
		s.host.Store = func(string) journal.Store { return store }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, localRequest(ctx, "GET", "/ready", ""))
		require.NotEqual(t, 200, w.Code)
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		err := s.Shutdown(late)
		close(store.until)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, s.Close())
		time.Sleep(probeTime)
		require.Error(t, s.writable(t.Context(), map[string]journal.Store{local: store}))
		require.EqualValues(t, 1, store.tried)
	})
}

// A store whose disk does not answer.
type hangs struct {
	journal.Store
	until chan struct{}
	tried int
}

func (h *hangs) Create(context.Context, string) (journal.Journal, error) {
	h.tried++
	<-h.until
	return nil, fs.ErrClosed
}

// Two servers may try the same store at once, and one of them removes what the other has made.
func TestProbesMeet(t *testing.T) {
	store := &meets{journal.Memory()}
	require.NoError(t, tries(t.Context(), store))
}

type meets struct{ journal.Store }

func (m *meets) Delete(ctx context.Context, id string) error {
	_ = m.Store.Delete(ctx, id) // the other one
	return m.Store.Delete(ctx, id)
}

// Nobody who is unknown sends much.
func TestLoginIsSmall(t *testing.T) {
	s := served(t, talker(1, 8), WithToken("0123456789abcdef"))
	large := fmt.Sprintf(`{"token":%q}`, strings.Repeat("x", 64<<10))
	require.Equal(t, http.StatusRequestEntityTooLarge, status(t, s, "POST", "/login", large))
	require.NoError(t, s.Close())
}

// Each of these headers says that a proxy has passed on a request.
func TestProxyIsNotLoopback(t *testing.T) {
	s := served(t, talker(1, 8))
	require.Equal(t, 200, status(t, s, "GET", "/api/sessions", ""))
	for _, h := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"} {
		require.Equal(t, 401, status(t, s, "GET", "/api/sessions", "", h, "1.1 example"), h)
	}
	require.NoError(t, s.Close())
}

// Two runs inside of calls may ask the same about calls with the same id, and each gets its answer.
func TestSameQuestions(t *testing.T) {
	s := served(t, talker(1, 8))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	x := c.newRun(position{})
	tool, err := aycoder.NewTool("touch", "Touches.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("done"), nil
	})
	require.NoError(t, err)
	ask := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() })
	var runs sync.WaitGroup
	asked := make(chan string, 2)
	for range 2 {
		agent, err := aycoder.New(script.New(script.Call("touch", `{}`), script.Say("So.")), aycoder.WithTools(tool), aycoder.WithApprover(ask))
		require.NoError(t, err)
		runs.Go(func() {
			for ev, err := range agent.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				if err != nil {
					asked <- err.Error()
					return
				}
				x.take(ev)
				if q, ok := ev.(*aycoder.ApprovalRequested); ok {
					asked <- q.Request.CallID + " " + q.Request.Digest
				}
			}
		})
	}
	one := <-asked
	require.Equal(t, one, <-asked)
	require.Len(t, x.questions(), 2)
	for range 2 {
		q := x.questions()[0]
		a := said{ticket: ticket{Call: q.call, Digest: q.digest}, answer: &answer{Decision: "allow"}}
		require.Same(t, q, match([]said{a}, x.questions())[0])
		require.NoError(t, s.give(localRequest(t.Context(), "POST", "/", ""), x, &a, q))
	}
	require.Empty(t, x.questions())
	runs.Wait()
	s.release(c)
	require.NoError(t, s.Close())
}

// A key is not forgotten, however many others come, and each is recorded by itself.
func TestKeysAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t, talker(1, 8), WithLimits(Limits{Rate: 1e6, Idle: time.Minute}))
		c, err := s.open(t.Context(), local, "", "")
		require.NoError(t, err)
		body := `{"prompt":"go","session":"` + c.id + `"}`
		run := func(key string) string {
			w := httptest.NewRecorder()
			r := localRequest(t.Context(), "POST", "/api/prompt", body)
			r.Header.Set("Accept", "application/json")
			r.Header.Set("Idempotency-Key", key)
			s.ServeHTTP(w, r)
			synctest.Wait()
			require.Equal(t, 202, w.Code, w.Body)
			return w.Header().Get("Aycoder-Run")
		}
		// noted returns the size of the records that have keys.
		noted := func() (n int) {
			j, err := s.host.Store(local).Open(t.Context(), c.id, false)
			require.NoError(t, err)
			for line, err := range j.Records(t.Context()) {
				require.NoError(t, err)
				if strings.Contains(string(line), `"server `) {
					n += len(line)
				}
			}
			require.NoError(t, j.Close())
			return n
		}
		first := run("first")
		for i := range 30 {
			run(fmt.Sprint("a", i))
		}
		before := noted()
		for i := range 300 {
			run(fmt.Sprint("b", i))
		}
		require.Less(t, noted(), before*12)
		require.Equal(t, first, run("first"))
		s.release(c)
		time.Sleep(48 * time.Hour) // the session is closed
		require.Equal(t, first, run("first"))
		require.NoError(t, s.Close())
	})
}

// Servers that share the ids of their sessions and not the sessions give the same key to different ones.
func TestServersShareIDs(t *testing.T) {
	store := journal.Memory()
	for _, name := range []string{"/one", "/two"} {
		mine := map[string]bool{}
		s, err := New(Host{
			Name:  name,
			Store: func(string) journal.Store { return store },
			Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
				if id != "" && !mine[id] {
					return nil, fs.ErrNotExist
				}
				rt, err := harness.New(ctx, t.TempDir(), harness.WithClient(talker(1, 8)), harness.WithStore(store, id, opts...))
				if err == nil {
					mine[rt.Session.ID()] = true
				}
				return rt, err
			},
		})
		require.NoError(t, err)
		require.Equal(t, 202, status(t, s, "POST", "/api/prompt", `{"prompt":"go"}`, "Idempotency-Key", "k"))
		require.NoError(t, s.Close())
	}
}

// Why a run has failed is told after a restart, too.
func TestFailureAfterRestart(t *testing.T) {
	store, dir := journal.Memory(), t.TempDir()
	end := func(path, body string) (run, end string) {
		s, err := New(Host{Store: func(string) journal.Store { return store }, Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			model := script.New(script.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "x", Status: 401}}))
			return harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, id, opts...))
		}})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		method := "GET"
		if body != "" {
			method = "POST"
		}
		s.ServeHTTP(w, localRequest(t.Context(), method, path, body))
		require.NoError(t, s.Close())
		all := w.Body.String()
		return w.Header().Get("Aycoder-Run"), all[strings.LastIndex(all, "data: "):]
	}
	run, live := end("/api/prompt", `{"prompt":"go"}`)
	require.Contains(t, live, `"kind":"model_auth"`)
	_, later := end("/api/runs/"+run+"/events", "")
	_, want, _ := strings.Cut(live, `"error":`)
	require.Contains(t, later, `"reason":"failed"`)
	require.Contains(t, later, `"error":`+want)
}

// A key that was noted just before a crash is not that of a run that an earlier process had left.
func TestKeyOfTheLastMoment(t *testing.T) {
	dirs, work := []string{t.TempDir(), t.TempDir(), t.TempDir()}, t.TempDir()
	began := make(chan struct{})
	model := aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			close(began)
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	})
	open := func(dir, id string) (*Server, *conversation) {
		store, err := journal.Dir(dir)
		require.NoError(t, err)
		s, err := New(Host{Store: func(string) journal.Store { return store }, Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			return harness.New(ctx, work, harness.WithClient(model), harness.WithStore(store, id, opts...))
		}})
		require.NoError(t, err)
		c, err := s.open(t.Context(), local, id, "")
		require.NoError(t, err)
		return s, c
	}
	crash := func(from, to string) { require.NoError(t, os.CopyFS(to, os.DirFS(from))) }

	first, c := open(dirs[0], "")
	require.Equal(t, 202, status(t, first, "POST", "/api/prompt", `{"prompt":"first","session":"`+c.id+`"}`))
	<-began
	crash(dirs[0], dirs[1])
	second, c2 := open(dirs[1], c.id)
	key := hashOf(local, "k")
	x := c2.newRun(position{})
	x.started = startedRun{Key: key, Body: hashOf("second")}
	c2.mu.Lock()
	err := c2.begin(dies(func() { crash(dirs[1], dirs[2]) }), aycoder.Input{Prompt: "second"}, x)
	c2.mu.Unlock()
	require.Error(t, err)
	third, c3 := open(dirs[2], c.id)
	require.NotNil(t, c3.rt.Session.Pending())
	require.False(t, c3.kept(startedValue+key, new(startedRun)))
	for s, c := range map[*Server]*conversation{first: c, second: c2, third: c3} {
		s.release(c)
		require.NoError(t, s.Close())
	}
}

// An agent whose process ends before its run has begun.
type dies func()

func (d dies) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		d()
		yield(nil, context.Canceled)
	}
}

// An agent of the host may panic. The server, and the session, go on.
func TestAgentPanics(t *testing.T) {
	for _, late := range []bool{false, true} {
		store, dir := journal.Memory(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o600))
		broken := true
		s, err := New(Host{Store: func(string) journal.Store { return store }, Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			return harness.New(ctx, dir, harness.WithClient(talker(1, 8)), harness.WithStore(store, id, opts...),
				harness.WithAgentMiddleware(func(*harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
					return func(next aycoder.Agent) aycoder.Agent {
						return panics{next, func(ev aycoder.Event) {
							if _, tool := ev.(*aycoder.ToolStarted); broken && tool == late {
								panic("secret of the host")
							}
						}}
					}, nil
				}))
		}})
		require.NoError(t, err)
		call := func() string {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, localRequest(t.Context(), "POST", "/api/tools/read_file", `{"args":{"path":"a.txt"}}`))
			return w.Body.String()
		}
		told := call()
		require.NotContains(t, told, "secret")
		require.Contains(t, told, `"kind":"internal"`)
		broken = false
		require.Contains(t, call(), `"reason":"done"`)
		require.NoError(t, s.Close())
	}
}

type panics struct {
	aycoder.Agent
	look func(aycoder.Event)
}

func (p panics) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		p.look(nil)
		for ev, err := range p.Agent.Run(ctx, in, opts...) {
			p.look(ev)
			if !yield(ev, err) {
				return
			}
		}
	}
}
