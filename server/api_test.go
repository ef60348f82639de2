package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/server/webhook"
	"github.com/aycoder/aycoder/session"
)

func TestSessions(t *testing.T) {
	s := newSite(t, script.New(script.Say("One."), script.Say("Two."))).start()
	var list struct{ Sessions []struct{ ID, Prompt string } }
	s.get(200, &list, "GET", "/api/sessions", nil)
	require.Empty(t, list.Sessions)
	_, res := s.ask(prompt("first"))
	id := res.Header.Get("Aycoder-Session")
	s.ask(map[string]any{"prompt": "second", "session": id})
	s.get(200, &list, "GET", "/api/sessions", nil)
	require.Len(t, list.Sessions, 1)
	require.Equal(t, "first", list.Sessions[0].Prompt)

	type node struct {
		ID, Parent int
		Text, Run  string
		Message    *aycoder.Message
	}
	var got struct {
		Head  int
		Nodes []node
	}
	texts := func() (out []string) {
		s.get(200, &got, "GET", "/api/sessions/"+id, nil)
		for _, n := range got.Nodes {
			if n.Message != nil {
				out = append(out, n.Message.Text())
			}
		}
		return out
	}
	require.Equal(t, []string{"first", "One.", "second", "Two."}, texts())
	require.Equal(t, runOf(res), got.Nodes[2].Run)
	s.get(200, nil, "POST", "/api/sessions/"+id+"/checkout", map[string]any{"node": got.Nodes[2].ID})
	require.Equal(t, []string{"first", "One."}, texts())
	s.get(200, &got, "GET", "/api/sessions/"+id+"/tree", nil)
	require.Len(t, got.Nodes, 5)
	require.Equal(t, "second", got.Nodes[3].Text)
	s.refused(404, "not_found", "POST", "/api/sessions/"+id+"/checkout", map[string]any{"node": 77})
	s.refused(404, "not_found", "GET", "/api/sessions/none", nil)
}

// A call of a tool is asked about like one of a model, and is counted.
func TestTools(t *testing.T) {
	s := newSite(t, script.New()).start()
	var list struct{ Tools []struct{ Name string } }
	s.get(200, &list, "GET", "/api/tools", nil)
	require.NotEmpty(t, list.Tools)
	s.refused(404, "not_found", "POST", "/api/tools/none", map[string]any{"args": map[string]any{}})

	read := s.read(s.do("POST", "/api/tools/read_file", map[string]any{"args": map[string]any{"path": "a.txt"}}))
	require.Contains(t, read.until("tool_end").data, "two")
	read.rest()

	edit := map[string]any{"args": map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"}}
	res := s.do("POST", "/api/tools/edit_file", edit)
	r := s.read(res)
	q := r.until("approval_request").ev.(*aycoder.ApprovalRequested).Request
	s.refused(409, "busy", "POST", "/api/tools/edit_file", edit)
	s.get(204, nil, "POST", "/api/runs/"+runOf(res)+"/approvals/"+q.CallID, map[string]any{"decision": "allow", "digest": q.Digest})
	require.Contains(t, r.until("tool_end").data, "a.txt")
	rest := r.rest()
	require.Equal(t, "run_end", rest[len(rest)-1].kind)
	require.Equal(t, "one\nthree\n", s.file("a.txt"))

	// Calls are in the journal, so the next process has them, too. They are beside the conversation and not in it.
	next := s.again(script.New(script.Say("Hi.")))
	whole := next.events(runOf(res), "")
	require.Equal(t, story(s.events(runOf(res), "")), story(whole))
	require.Contains(t, answers(whole), "is over")
	var tree struct {
		Head  int
		Nodes []struct{ Run, Branch string }
	}
	id, _, _ := strings.Cut(runOf(res), ".")
	next.get(200, &tree, "GET", "/api/sessions/"+id+"/tree", nil)
	require.Zero(t, tree.Head)
	require.Len(t, tree.Nodes, 9, "two calls of four messages, and the root")
	require.Equal(t, "calls", tree.Nodes[8].Branch)
	events, _ := next.ask(map[string]any{"prompt": "hi", "session": id})
	require.Equal(t, "Hi.", answers(events))

	var figures struct {
		Calls []struct {
			Tool, Status string
			Count        int
		} `json:"aycoder_tool_calls_total"`
	}
	s.get(200, &figures, "GET", "/api/metrics", nil)
	require.Len(t, figures.Calls, 2)
	s.get(200, nil, "GET", "/health", nil)
	s.get(200, nil, "GET", "/ready", nil)
	require.NoError(t, s.srv.Shutdown(t.Context()))
	s.get(200, nil, "GET", "/health", nil)
	s.refused(503, "draining", "GET", "/ready", nil)
}

// Calls of tools are told to webhooks like those of a model, and no message is.
func TestCallsAreTold(t *testing.T) {
	hooks, err := webhook.Open(t.TempDir(), webhook.Options{})
	require.NoError(t, err)
	secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))
	require.NoError(t, hooks.Register(webhook.Endpoint{ID: "ci", URL: "https://ci.example.com", Secrets: []string{secret}}))
	s := newSite(t, script.New())
	s.more = []harness.Option{harness.WithAgentMiddleware(func(rt *harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
		w := hooks.Watch(rt.Session.ID(), 0)
		return w.Agent, w.Close
	})}
	s.start()
	r := s.read(s.do("POST", "/api/tools/read_file", map[string]any{"args": map[string]any{"path": "a.txt"}}))
	r.rest()
	var types []string
	for _, d := range hooks.Waiting() {
		types = append(types, d.Type)
	}
	require.Equal(t, []string{webhook.SessionStart, webhook.ToolCalled, webhook.ToolCompleted, webhook.FileRead}, types)
	s.end()
	require.NoError(t, hooks.Close())
}

// The costs of agents inside of calls count, too.
func TestFiguresOfNestedRuns(t *testing.T) {
	inner, err := aycoder.New(priced{script.New(script.Say("Inner."))})
	require.NoError(t, err)
	ask, err := aycoder.NewTool("ask", "Asks.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		for _, err := range inner.Run(ctx, aycoder.Input{Prompt: "x"}, aycoder.WithParent(inv)) {
			if err != nil {
				return nil, err
			}
		}
		return aycoder.TextResult("done"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	s := newSite(t, priced{script.New(script.Call("ask", `{}`), script.Say("Outer."))})
	s.more = []harness.Option{harness.WithTools(ask)}
	s.start()
	events, _ := s.ask(prompt("go"))
	require.Equal(t, "Outer.", answers(events))
	var figures struct {
		Messages map[string]int `json:"aycoder_messages_total"`
		Cost     float64        `json:"aycoder_api_cost_dollars_total"`
	}
	s.get(200, &figures, "GET", "/api/metrics", nil)
	require.InDelta(t, 3, figures.Cost, 1e-9)
	require.Equal(t, map[string]int{"user": 1, "assistant": 3}, figures.Messages)
}

// priced is a client whose answers cost a dollar.
type priced struct{ aycoder.ModelClient }

// Stream implements [aycoder.ModelClient].
func (p priced) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range p.ModelClient.Stream(ctx, req) {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				with := *done
				with.Cost = new(1.0)
				ev = &with
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// A call of a tool reads no messages, and none goes to the conversation beside it.
func TestCallIsNotSteered(t *testing.T) {
	s := newSite(t, script.New(script.Func(func(req *aycoder.Request) script.Step {
		for _, m := range req.Messages {
			require.NotContains(t, m.Text(), "by the way")
		}
		return script.Say("Done.")
	}))).start()
	var call struct{ Run, Session string }
	s.get(202, &call, "POST", "/api/tools/write_file", map[string]any{"args": map[string]any{"path": "b.txt", "content": "new"}}, "Accept", "application/json")
	s.refused(409, "call", "POST", "/api/runs/"+call.Run+"/steer", map[string]any{"text": "by the way"})
	require.Equal(t, 204, s.do("POST", "/api/runs/"+call.Run+"/cancel", map[string]any{}).StatusCode)
	s.events(call.Run, "")
	events, _ := s.ask(map[string]any{"session": call.Session, "prompt": "go"})
	require.Contains(t, answers(events), "Done.")
}

// A server whose sessions cannot be written is not ready, also while no session is open.
func TestReadyNeedsJournals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fullStore{Store: journal.Memory()}
		srv, err := server.New(server.Host{Store: func(string) journal.Store { return store }, Open: func(context.Context, string, string, ...session.Option) (*harness.Runtime, error) {
			return nil, fs.ErrNotExist
		}})
		require.NoError(t, err)
		ready := func() int {
			w := httptest.NewRecorder()
			srv.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/ready", nil))
			return w.Code
		}
		require.Equal(t, 200, ready())
		for range 5 {
			store.full = true
			require.Equal(t, 200, ready(), "whoever asks often does not write often")
			time.Sleep(11 * time.Second)
			require.Equal(t, 503, ready())
			store.full = false
			time.Sleep(11 * time.Second)
			require.Equal(t, 200, ready())
		}
		for e, err := range store.List(t.Context()) {
			require.NoError(t, err)
			t.Errorf("the attempts have left %s", e.ID)
		}
		require.NoError(t, srv.Close())
	})
}

// A fullStore is on a disk that may be full.
type fullStore struct {
	journal.Store
	full bool
}

func (s *fullStore) Create(ctx context.Context, id string) (journal.Journal, error) {
	if s.full {
		return nil, journal.Error("create", id, syscall.ENOSPC)
	}
	return s.Store.Create(ctx, id)
}

// One principal cannot take the sessions of all.
func TestSessionsOfPrincipals(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			<-gate
			_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "Hi."}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
		}
	}), server.WithLimits(server.Limits{Sessions: 8}))
	s.host.Principal = func(r *http.Request) (string, error) { return r.Header.Get("Who"), nil }
	s.start()
	as := func(who string) []string { return []string{"Who", who, "Accept", "application/json"} }
	for range 2 {
		s.get(202, nil, "POST", "/api/prompt", prompt("go"), as("alice")...)
	}
	s.refused(503, "too_many_sessions", "POST", "/api/prompt", prompt("go"), as("alice")...)
	for _, who := range []string{"bob", "bob", "carol", "carol", "dave"} {
		s.get(202, nil, "POST", "/api/prompt", prompt("go"), as(who)...)
	}
	close(gate)
}

// A call that was killed with its process is told as such, and the next one begins.
func TestCallWasKilled(t *testing.T) {
	s := newSite(t, script.New()).start()
	res := s.do("POST", "/api/tools/edit_file", map[string]any{"args": map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"}})
	s.read(res).until("approval_request")
	next := s.again(script.New())
	told := func() string {
		events := next.events(runOf(res), "")
		return events[len(events)-1].data
	}
	notRun := `"detail":"the server ended before the call began; it was not run","kind":"interrupted"`
	require.Contains(t, told(), notRun)
	id, _, _ := strings.Cut(runOf(res), ".")
	more := next.read(next.do("POST", "/api/tools/read_file", map[string]any{"session": id, "args": map[string]any{"path": "a.txt"}}))
	require.Contains(t, more.until("tool_end").data, "two")
	more.rest()
	require.Equal(t, "one\ntwo\n", next.file("a.txt"))
	require.Contains(t, told(), notRun)
}

// Nobody knows what a call has done that was killed in the middle.
func TestCallWasKilledAtWork(t *testing.T) {
	began := make(chan struct{})
	tool, err := aycoder.NewTool("wait", "Waits.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	s := newSite(t, script.New())
	s.more = []harness.Option{harness.WithTools(tool)}
	res := s.start().do("POST", "/api/tools/wait", map[string]any{"args": map[string]any{}}, "Accept", "application/json")
	<-began
	events := s.again(script.New()).events(res.Header.Get("Aycoder-Run"), "")
	require.Contains(t, events[len(events)-1].data, "its outcome is unknown")
}

// A run that was killed, and with which nobody went on before the next message, is not told as one that is done.
func TestRunWasKilledAndLeft(t *testing.T) {
	began := make(chan struct{})
	s := newSite(t, aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			close(began)
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	})).start()
	res := s.do("POST", "/api/prompt", prompt("first"), "Accept", "application/json")
	<-began
	next := s.again(script.New(script.Say("Second.")))
	more := next.do("POST", "/api/prompt", map[string]any{"session": res.Header.Get("Aycoder-Session"), "prompt": "second"})
	require.Contains(t, next.read(more).until("run_end").data, `"reason":"done"`)
	events := next.events(res.Header.Get("Aycoder-Run"), "")
	require.Contains(t, events[len(events)-1].data, `"reason":"failed"`)
	require.Contains(t, events[len(events)-1].data, `"kind":"interrupted"`)
}

// A session whose workspace is on a machine that cannot be reached is an error that passes.
func TestWorkspaceOutOfReach(t *testing.T) {
	store := journal.Memory()
	srv, err := server.New(server.Host{Store: func(string) journal.Store { return store }, Open: func(context.Context, string, string, ...session.Option) (*harness.Runtime, error) {
		return nil, fmt.Errorf("the runner is not connected: %w", os.ErrDeadlineExceeded)
	}})
	require.NoError(t, err)
	defer srv.Close()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/api/prompt", strings.NewReader(`{"prompt":"hi"}`))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	require.Equal(t, 503, w.Code)
	require.Contains(t, w.Body.String(), "the runner is not connected")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}
