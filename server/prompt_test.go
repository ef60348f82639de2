package server_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

func pull[V any](seq iter.Seq2[V, error]) (func() (V, error, bool), func()) { return iter.Pull2(seq) }

// tour is a model that reads, edits and answers.
func tour() *script.Model {
	return script.New(
		script.Reply(script.Think("I look at the file first."), script.Say("Let me look at the file."), script.Call("read_file", `{"path":"a.txt"}`), script.Call("read_file", `{"path":"none.txt"}`)),
		script.Reply(script.Say("Now I change it."), script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"})),
		script.Say("It says three now."),
	).With(script.WithChunk(4))
}

func TestPrompt(t *testing.T) {
	s := newSite(t, script.New(script.Say("Hello there.")).With(script.WithChunk(3))).start()
	events, res := s.ask(prompt("hi"))
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Equal(t, "run_start", events[0].kind)
	require.Equal(t, "Hello there.", answers(events))
	last := events[len(events)-1]
	require.Equal(t, "run_end", last.kind)
	require.Equal(t, aycoder.EndDone, last.ev.(*aycoder.RunFinished).Result.End)
	require.Equal(t, "Hello there.", last.ev.(*aycoder.RunFinished).Result.Text())
	session := res.Header.Get("Aycoder-Session")
	require.Equal(t, "/api/runs/"+runOf(res)+"/events", res.Header.Get("Location"))
	require.True(t, strings.HasPrefix(runOf(res), session+"."))
	for i, e := range events[1:] {
		require.NotEmpty(t, e.id, i)
	}

	// A program that needs no stream gets the ids.
	s.model = script.New(script.Say("Again."))
	var ids map[string]string
	s.get(http.StatusAccepted, &ids, "POST", "/api/prompt", prompt("once more"), "Accept", "application/json")
	require.Equal(t, "Again.", answers(s.events(ids["run"], "")))
}

func TestPromptsThatAreRefused(t *testing.T) {
	s := newSite(t, script.New(script.Say("Hello."))).start()
	s.refused(400, "invalid_request", "POST", "/api/prompt", prompt(" "))
	s.refused(400, "invalid_request", "POST", "/api/prompt", map[string]any{"prompt": "x", "more": 1})
	s.refused(400, "invalid_request", "POST", "/api/prompt", map[string]any{"prompt": "x", "images": []any{map[string]any{"type": "text/html", "data": "AA=="}}})
	s.refused(400, "invalid_request", "POST", "/api/prompt", map[string]any{"prompt": "x", "images": []any{map[string]any{"type": "image/png", "data": "iVBORw0KGgo="}}})
	s.refused(404, "not_found", "POST", "/api/prompt", map[string]any{"prompt": "x", "session": "none"})
	s.refused(404, "not_found", "POST", "/api/prompt", map[string]any{"prompt": "x", "session": "../../etc"})
	s.refused(415, "media_type", "POST", "/api/prompt", prompt("x"), "Content-Type", "text/plain")
	s.refused(400, "invalid_request", "POST", "/api/prompt", prompt("x"), "Last-Event-ID", "17")
	s.refused(404, "not_found", "GET", "/api/nothing", nil)
	s.refused(404, "not_found", "GET", "/api/runs/a.b/events", nil)

	// The model fails before it says anything: that is an event of the run.
	s.model = script.New(script.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{Err: fmt.Errorf("key sk-secret is wrong")}}))
	events, _ := s.ask(prompt("hi"))
	last := events[len(events)-1]
	require.Contains(t, last.data, `"kind":"model_auth"`)
	require.NotContains(t, last.data, "sk-secret")
}

// An image of a type that only some models take, as of phones, is for those.
func TestPromptWithImageOfPhone(t *testing.T) {
	m := script.New(script.Say("Hello."))
	s := newSite(t, m).start()
	s.ask(map[string]any{"prompt": "look", "images": []any{map[string]any{"type": "image/heic", "data": "AAAAGGZ0eXBoZWlj"}}})
	require.Equal(t, &aycoder.Media{Type: "image/heic", Data: []byte("\x00\x00\x00\x18ftypheic")}, m.Requests()[0].Messages[0].Parts[0])
}

// A client that comes with the id of any event gets exactly what it misses: from the log, and after a restart from the
// journal. Some models give their calls no ids, and others give all of them the same.
func TestReconnectAnywhere(t *testing.T) {
	t.Run("ids", func(t *testing.T) { reconnectAnywhere(t, tour()) })
	for _, id := range []string{"", "call"} {
		t.Run("id "+id, func(t *testing.T) { reconnectAnywhere(t, sameIDs{tour(), id}) })
	}
}

// sameIDs gives all calls of a model the same id.
type sameIDs struct {
	*script.Model
	id string
}

func (m sameIDs) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range m.Model.Stream(ctx, req) {
			if b, ok := ev.(*aycoder.BlockDone); ok {
				if call, ok := b.Part.(*aycoder.ToolUse); ok {
					ev = &aycoder.BlockDone{Part: &aycoder.ToolUse{ID: m.id, Name: call.Name, Args: call.Args}}
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func reconnectAnywhere(t *testing.T, model aycoder.ModelClient) {
	s := newSite(t, model)
	s.start()
	res := s.do("POST", "/api/prompt", prompt("change it"))
	r := s.read(res)
	var all []event
	for {
		e, ok := r.one()
		if !ok {
			break
		}
		if q, ok := e.ev.(*aycoder.ApprovalRequested); ok {
			s.get(204, nil, "POST", "/api/runs/"+runOf(res)+"/approvals/"+q.Request.CallID, map[string]any{"decision": "allow", "digest": q.Request.Digest})
		}
		if e.ev != nil {
			all = append(all, e)
		}
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "one\nthree\n", string(data))
	want := story(all)
	require.GreaterOrEqual(t, len(all), 12)
	run := runOf(res)
	require.Equal(t, want, story(s.events(run, "")))

	restarted := s.again(script.New())
	require.Equal(t, want, story(restarted.events(run, "")), "from the journal")
	for i, e := range all {
		if e.kind == "run_end" {
			continue
		}
		require.Equal(t, want, story(append(all[:i+1:i+1], s.events(run, e.id)...)), "in this process after %s %s", e.kind, e.data)
		require.Equal(t, want, story(append(all[:i+1:i+1], restarted.events(run, e.id)...)), "after a restart after %s %s, %s", e.kind, e.data, e.id)
	}
}

// The id of an event of another run says nothing about what a client has seen of this one.
func TestPlaceInAnotherRun(t *testing.T) {
	s := newSite(t, script.New(script.Say("One."), script.Say("Two."))).start()
	first, _ := s.ask(prompt("go"))
	_, res := s.ask(prompt("go"))
	require.Equal(t, "Two.", answers(s.events(runOf(res), first[len(first)-1].id)))
	next := s.again(script.New())
	require.Equal(t, "Two.", answers(next.events(runOf(res), first[len(first)-1].id)))
}

// The same Idempotency-Key never starts a second run, in this process or another, with a session or without.
func TestIdempotencyKey(t *testing.T) {
	model := script.New(script.Say("Once."), script.Say("Twice."))
	s := newSite(t, model).start()
	first, res := s.ask(prompt("go"), "Idempotency-Key", "k1")
	again, res2 := s.ask(prompt("go"), "Idempotency-Key", "k1")
	require.Equal(t, story(first), story(again))
	require.Equal(t, runOf(res), runOf(res2))
	s.refused(422, "idempotency_key", "POST", "/api/prompt", prompt("something else"), "Idempotency-Key", "k1")
	in := map[string]any{"prompt": "more", "session": res.Header.Get("Aycoder-Session")}
	second, res3 := s.ask(in, "Idempotency-Key", "k2")
	require.Equal(t, "Twice.", answers(second))
	require.NotEqual(t, runOf(res), runOf(res3))

	restarted := s.again(script.New())
	for _, c := range []struct {
		key  string
		body any
		want []event
	}{{"k1", prompt("go"), first}, {"k2", in, second}} {
		got, res := restarted.ask(c.body, "Idempotency-Key", c.key)
		require.Equal(t, story(c.want), story(got))
		require.Contains(t, []string{runOf(res2), runOf(res3)}, runOf(res))
	}
	require.Len(t, model.Requests(), 2)

	// Many at the same time join one run.
	s.model = script.New(script.Say("Together."))
	runs := make(chan string, 8)
	for range cap(runs) {
		go func() {
			_, res := s.ask(prompt("all"), "Idempotency-Key", "k3")
			runs <- runOf(res)
		}()
	}
	one := <-runs
	for range cap(runs) - 1 {
		require.Equal(t, one, <-runs)
	}
}

// A client that goes away cancels nothing, and one that comes meanwhile sees the run go on.
func TestClientGoesAway(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, held("Half ", gate, "and half.")).start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	r := s.read(res)
	at := r.until("text_delta")
	r.close()
	other := s.read(s.do("GET", "/api/runs/"+runOf(res)+"/events", nil, "Last-Event-ID", at.id))
	s.refused(409, "busy", "POST", "/api/prompt", map[string]any{"prompt": "x", "session": res.Header.Get("Aycoder-Session")})
	close(gate)
	rest := other.rest()
	require.Equal(t, "Half and half.", at.ev.(*aycoder.TextDelta).Text+answers(rest))
	require.Equal(t, "run_end", rest[len(rest)-1].kind)
}

// held is a model that says something, and the rest when gate is closed.
func held(before string, gate <-chan struct{}, after string) aycoder.ModelClient {
	return aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			if !yield(&aycoder.TextDelta{Text: before}, nil) {
				return
			}
			select {
			case <-gate:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			_ = yield(&aycoder.TextDelta{Text: after}, nil) &&
				yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: before + after}}, nil) &&
				yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
		}
	})
}

// A run that works when its process is killed goes on when a client asks for its events.
func TestKilledInTheMiddle(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, held("I begin", gate, "")).start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	r := s.read(res)
	at := r.until("text_delta")
	restarted := s.again(script.New(script.Say("Something else.")))
	rest := restarted.events(runOf(res), at.id)
	require.Equal(t, "retry", rest[0].kind)
	require.True(t, rest[0].ev.(*aycoder.Retrying).Discarded)
	require.Equal(t, "Something else.", answers(rest))
	require.Equal(t, "run_end", rest[len(rest)-1].kind)
	require.Equal(t, answers(rest), answers(restarted.again(script.New()).events(runOf(res), "")))
	close(gate)
	r.rest()
}

func TestSteerAndCancel(t *testing.T) {
	gate := make(chan struct{})
	s := newSite(t, held("Half ", gate, "and half.")).start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	r := s.read(res)
	r.until("text_delta")
	path := "/api/runs/" + runOf(res)
	s.get(204, nil, "POST", path+"/steer", map[string]any{"text": "and then stop", "follow_up": true})
	s.refused(400, "invalid_request", "POST", path+"/steer", map[string]any{"text": ""})
	s.get(204, nil, "POST", path+"/cancel", nil)
	rest := r.rest()
	require.Equal(t, aycoder.EndCancelled, rest[len(rest)-1].ev.(*aycoder.RunFinished).Result.End)
	s.refused(409, "over", "POST", path+"/cancel", nil)
	s.refused(409, "over", "POST", path+"/steer", map[string]any{"text": "late"})
	close(gate)
	timed.Until(t, func() bool {
		var st struct{ Working bool }
		s.get(200, &st, "GET", path, nil)
		return !st.Working
	})
}
