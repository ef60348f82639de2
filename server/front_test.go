package server_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

// A chunk is an event of a form, of either.
type chunk struct {
	Type, Message, Delta, MessageID, ToolCallID, ToolName, ToolCallName, ParentMessageID, Content, Output, ErrorText, Code, ApprovalID, ID, FinishReason string
	Input                                                                                                                                                json.RawMessage
	ProviderMetadata                                                                                                                                     json.RawMessage
	Messages                                                                                                                                             []json.RawMessage
	Outcome                                                                                                                                              struct {
		Type       string
		Interrupts []struct{ ID, Reason, ToolCallID string }
	}
}

// told sends a request and reads the events of a form. They end with an error if the connection broke.
func (s *site) told(method, path string, body any) (all []chunk, err error) {
	s.t.Helper()
	res := s.do(method, path, body)
	defer res.Body.Close()
	if res.StatusCode != 200 {
		data, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s: %s", res.Status, data)
	}
	for ev, err := range sse.Read(res.Body, &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			return all, err
		}
		if ev.Data == "[DONE]" {
			all = append(all, chunk{Type: ev.Data})
			continue
		}
		var c chunk
		require.NoError(s.t, json.Unmarshal([]byte(ev.Data), &c), ev.Data)
		all = append(all, c)
	}
	return all, nil
}

func (s *site) tells(path string, body any) []chunk {
	s.t.Helper()
	all, err := s.told("POST", path, body)
	require.NoError(s.t, err)
	return all
}

func shown(all []chunk) (out []string) {
	for _, c := range all {
		if c.Type != "RAW" && c.Type != "data-aycoder" {
			out = append(out, strings.TrimSpace(c.Type+" "+c.Delta+c.ToolName+c.ToolCallName))
		}
	}
	return out
}

type list = []map[string]any

func aguiBody(run string, more ...any) map[string]any {
	b := map[string]any{"threadId": "t", "runId": run, "messages": list{{"id": "u1", "role": "user", "content": "go"}}, "tools": []any{}, "state": map[string]any{}}
	for i := 0; i < len(more); i += 2 {
		b[more[i].(string)] = more[i+1]
	}
	return b
}

func resolved(id string, payload map[string]any) list {
	return list{{"interruptId": id, "status": "resolved", "payload": payload}}
}

// The events are in the order that the protocol demands, and a question goes on in the next process.
func TestAGUI(t *testing.T) {
	s := newSite(t, script.New(script.Reply(script.Think("Hm."), script.Say("Editing."),
		script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"})), script.Say("Done."))).start()
	first := s.tells("/api/agui", aguiBody("r1", "context", list{{"description": "Page", "value": "home"}}))
	require.Equal(t, []string{"RUN_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT Hm.", "REASONING_MESSAGE_END", "REASONING_END",
		"TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT Editing.", "TEXT_MESSAGE_END",
		"TOOL_CALL_START edit_file", `TOOL_CALL_ARGS {"new_string":"three","old_string":"two","path":"a.txt"}`, "TOOL_CALL_END", "RUN_FINISHED"}, shown(first))
	require.Contains(t, s.model.(*script.Model).Requests()[0].Messages[0].Text(), "Page: home")
	last := first[len(first)-1]
	require.Equal(t, "interrupt", last.Outcome.Type)
	ask := last.Outcome.Interrupts[0]
	require.Equal(t, "tool_call", ask.Reason)

	// Another message does not get past the question, and neither does another answer than yes or no.
	busy := s.tells("/api/agui", aguiBody("r2", "messages", list{{"id": "u2", "role": "user", "content": "more"}}))
	require.Equal(t, []string{"RUN_ERROR busy"}, []string{busy[0].Type + " " + busy[0].Code})
	bad := s.tells("/api/agui", aguiBody("r3", "resume", resolved(ask.ID, map[string]any{})))
	require.Equal(t, "invalid_request", bad[0].Code)
	// The same request again asks the same again.
	require.Equal(t, shown(first), shown(s.tells("/api/agui", aguiBody("r1", "context", list{{"description": "Page", "value": "home"}}))))

	next := s.again(script.New(script.Say("Done.")))
	yes := aguiBody("r4", "resume", resolved(ask.ID, map[string]any{"approved": true}))
	second := next.tells("/api/agui", yes)
	require.Equal(t, []string{"RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT Done.", "TEXT_MESSAGE_END", "RUN_FINISHED"}, shown(second))
	require.Equal(t, "success", second[len(second)-1].Outcome.Type)
	require.Equal(t, "one\nthree\n", next.file("a.txt"))
	// The same answer again joins the run, from its beginning. Another one is too late.
	again := next.tells("/api/agui", yes)
	require.Equal(t, "RUN_STARTED", again[0].Type)
	require.Contains(t, shown(again), "TOOL_CALL_START edit_file")
	require.Contains(t, shown(again), "TEXT_MESSAGE_CONTENT Done.")
	no := next.tells("/api/agui", aguiBody("r5", "resume", resolved(ask.ID, map[string]any{"approved": false})))
	require.Equal(t, "decided", no[0].Code)
	require.Equal(t, "one\nthree\n", next.file("a.txt"))
	// A client that has a part of the run loses it, and gets it again.
	had := list{{"id": "u1", "role": "user", "content": "go"}, {"id": second[3].MessageID, "role": "assistant", "content": "Do"}}
	whole := next.tells("/api/agui", aguiBody("r1", "messages", had, "context", list{{"description": "Page", "value": "home"}}))
	require.Equal(t, "MESSAGES_SNAPSHOT", whole[1].Type)
	require.Len(t, whole[1].Messages, 1)
	require.Contains(t, string(whole[1].Messages[0]), "u1")
}

// Words of a user come with their images, and the session of a client that brings a conversation begins with it.
func TestFrontHistory(t *testing.T) {
	for _, path := range []string{"/api/agui", "/api/chat"} {
		m := script.New(script.Say("Hello."), script.Say("Again."))
		s := newSite(t, m).start()
		pixel := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
		old := []any{map[string]any{"id": "s", "role": "system", "content": "Be short.", "parts": list{{"type": "text", "text": "Be short."}}},
			map[string]any{"id": "a", "role": "user", "content": "hi", "parts": list{{"type": "text", "text": "hi"}}},
			map[string]any{"id": "b", "role": "assistant", "content": "Hi.", "parts": list{{"type": "text", "text": "Hi."}}}}
		newest := map[string]any{"id": "c", "role": "user",
			"content": list{{"type": "text", "text": "look"}, {"type": "image", "source": map[string]any{"type": "data", "value": pixel, "mimeType": "image/png"}}},
			"parts":   list{{"type": "text", "text": "look"}, {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + pixel}}}
		body := map[string]any{"threadId": "t", "runId": "r", "id": "t", "messages": append(old, newest)}
		s.tells(path, body)
		asked := m.Requests()[0].Messages
		require.Len(t, asked, 3)
		require.Equal(t, "Be short.hi", asked[0].Text())
		require.Equal(t, "look", asked[2].Text())
		require.Len(t, asked[2].Parts, 2)
		body["runId"], body["messages"] = "r2", append(old, newest, map[string]any{"id": "d", "role": "user", "content": "more", "parts": list{{"type": "text", "text": "more"}}})
		s.tells(path, body)
		asked = m.Requests()[1].Messages
		require.Len(t, asked, 5, "the session has what was before")
	}
}

func uiBody(messages ...any) map[string]any {
	return map[string]any{"id": "t", "trigger": "submit-message", "messages": append([]any{map[string]any{"id": "u1", "role": "user", "parts": list{{"type": "text", "text": "go"}}}}, messages...)}
}

// The same for a UI message stream: the question is answered in the message that asks.
func TestUIStream(t *testing.T) {
	s := newSite(t, editor("Done.")).start()
	require.Equal(t, 204, s.do("GET", "/api/chat/t/stream", nil).StatusCode)
	first := s.tells("/api/chat", uiBody())
	want := []string{"start", "start-step", "tool-input-available edit_file", "tool-approval-request", "finish-step", "finish", "[DONE]"}
	require.Equal(t, want, shown(first))
	resumed, err := s.told("GET", "/api/chat/t/stream", nil)
	require.NoError(t, err)
	require.Equal(t, want, shown(resumed))
	require.Equal(t, first[0].MessageID, resumed[0].MessageID)

	next := s.again(script.New(script.Say("Done.")))
	answer := func(approved bool) any {
		return map[string]any{"id": first[0].MessageID, "role": "assistant", "parts": list{{"type": "step-start"}, {"type": "dynamic-tool", "state": "approval-responded",
			"approval": map[string]any{"id": first[3].ApprovalID, "approved": approved}}}}
	}
	second := next.tells("/api/chat", uiBody(answer(true)))
	require.Equal(t, []string{"start", "tool-output-available", "finish-step", "start-step", "text-start", "text-delta Done.", "text-end", "finish-step", "finish", "[DONE]"}, shown(second))
	require.Equal(t, first[0].MessageID, second[0].MessageID)
	require.Equal(t, "stop", second[8].FinishReason)
	require.Equal(t, "one\nthree\n", next.file("a.txt"))
	next.refused(409, "decided", "POST", "/api/chat", uiBody(answer(false)))
	next.refused(400, "invalid_request", "POST", "/api/chat", uiBody(map[string]any{"id": "x", "role": "assistant", "parts": list{}}))
	require.Equal(t, 204, next.do("GET", "/api/chat/t/stream", nil).StatusCode)
	// The same message of the user joins its run.
	require.Contains(t, shown(next.tells("/api/chat", uiBody())), "text-delta Done.")
	other := uiBody()
	other["messages"].([]any)[0].(map[string]any)["parts"] = list{{"type": "text", "text": "other"}}
	next.refused(422, "idempotency_key", "POST", "/api/chat", other)
}

// A call that somebody else carries out is a question, too.
func TestFrontResults(t *testing.T) {
	tool, err := aycoder.DeclareTool[struct{}]("ask_user", "Asks the user.")
	require.NoError(t, err)
	site := func() *site {
		s := newSite(t, script.New(script.Call("ask_user", `{}`), script.Say("Decided.")))
		s.more = []harness.Option{harness.WithTools(tool), harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.Allow()
		}))}
		return s.start()
	}
	s := site()
	first := s.tells("/api/agui", aguiBody("r1"))
	ask := first[len(first)-1].Outcome.Interrupts[0]
	require.Equal(t, "input_required", ask.Reason)
	second := s.tells("/api/agui", aguiBody("r2", "resume", resolved(ask.ID, map[string]any{"text": "The second."})))
	require.Equal(t, "The second.", second[1].Content)
	require.Contains(t, shown(second), "TEXT_MESSAGE_CONTENT Decided.")

	s = site()
	asked := s.tells("/api/chat", uiBody())
	call := asked[2]
	require.Equal(t, "tool-input-available ask_user", call.Type+" "+call.ToolName)
	more := s.tells("/api/chat", uiBody(map[string]any{"id": asked[0].MessageID, "role": "assistant", "parts": list{
		{"type": "dynamic-tool", "state": "output-available", "output": "The second.", "callProviderMetadata": call.ProviderMetadata}}}))
	require.Contains(t, shown(more), "text-delta Decided.")
	require.Equal(t, "The second.", more[1].Output)
}

// A client that takes back the question for a result has answered it, and null does not replace the arguments.
func TestFrontDecisions(t *testing.T) {
	tool, err := aycoder.DeclareTool[struct{}]("ask_user", "Asks the user.")
	require.NoError(t, err)
	s := newSite(t, script.New(script.Call("ask_user", `{}`), script.Say("Decided.")))
	s.more = []harness.Option{harness.WithTools(tool)}
	s.start()
	answered := false
	for body := aguiBody("r1"); ; answered = true {
		all := s.tells("/api/agui", body)
		last := all[len(all)-1]
		if last.Outcome.Type != "interrupt" {
			require.Contains(t, shown(all), "TEXT_MESSAGE_CONTENT Decided.")
			break
		}
		ask := last.Outcome.Interrupts[0]
		body = aguiBody("again", "resume", resolved(ask.ID, map[string]any{"approved": true}))
		if ask.Reason == "input_required" {
			body = aguiBody("r9", "resume", list{{"interruptId": ask.ID, "status": "cancelled"}})
		}
	}
	require.True(t, answered)

	s = newSite(t, script.New(script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"}), script.Say("Done."))).start()
	first := s.tells("/api/agui", aguiBody("r1"))
	ask := first[len(first)-1].Outcome.Interrupts[0]
	second := s.tells("/api/agui", aguiBody("r2", "resume", resolved(ask.ID, map[string]any{"approved": true, "editedArgs": nil})))
	require.Equal(t, "success", second[len(second)-1].Outcome.Type, shown(second))
	require.Equal(t, "one\nthree\n", s.file("a.txt"))
}

// Somebody who may open no further session can still answer what an open one asks.
func TestFrontNeedsNoRoom(t *testing.T) {
	s := newSite(t, script.New(script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"}), script.Say("Done.")),
		server.WithLimits(server.Limits{OwnSessions: 1})).start()
	first := s.tells("/api/agui", aguiBody("r1"))
	ask := first[len(first)-1].Outcome.Interrupts[0]
	second := s.tells("/api/agui", aguiBody("r2", "resume", resolved(ask.ID, map[string]any{"approved": true})))
	require.Equal(t, "success", second[len(second)-1].Outcome.Type, shown(second))
	require.Equal(t, "one\nthree\n", s.file("a.txt"))
}

// Several questions come together, one of a run inside a call as one of the call, and each is answered by itself.
func TestFrontQuestions(t *testing.T) {
	s := newSite(t, script.New(script.Reply(
		script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"}),
		script.Call("write_file", map[string]any{"path": "b.txt", "content": "new"})), script.Say("Done."))).start()
	open, body := 0, aguiBody("r1")
	var last chunk
	for turns := 0; last.Outcome.Type != "success"; turns++ {
		require.Less(t, turns, 4)
		all := s.tells("/api/agui", body)
		last = all[len(all)-1]
		var answers list
		for _, q := range last.Outcome.Interrupts {
			open++
			answers = append(answers, map[string]any{"interruptId": q.ID, "status": "resolved", "payload": map[string]any{"approved": q.ToolCallID != "call_1"}})
		}
		body = aguiBody("again", "resume", answers)
	}
	require.Equal(t, 2, open)
	require.Equal(t, "new", s.file("b.txt"))
	require.Equal(t, "one\ntwo\n", s.file("a.txt"))
}

// If one of several answers comes too late, nothing is taken, and the client is told which it was.
func TestFrontLateAnswer(t *testing.T) {
	tool, err := aycoder.DeclareTool[struct{ Q string }]("ask_user", "Asks the user.")
	require.NoError(t, err)
	s := newSite(t, script.New(script.Reply(script.Call("ask_user", `{"Q":"a"}`), script.Call("ask_user", `{"Q":"b"}`)), script.Say("Decided.")))
	s.more = []harness.Option{harness.WithTools(tool), harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	}))}
	s.start()
	first := s.tells("/api/agui", aguiBody("r1"))
	asked := first[len(first)-1].Outcome.Interrupts
	require.Len(t, asked, 2)
	run := "/api/runs/" + strings.TrimSuffix(first[1].ParentMessageID, ".m0")
	var st struct{ Calls []aycoder.CallRequest }
	s.get(200, &st, "GET", run, nil)
	require.Len(t, st.Calls, 2)
	s.get(204, nil, "POST", run+"/results/call_1", map[string]any{"digest": st.Calls[0].Digest, "text": "first"})
	both := append(resolved(asked[0].ID, map[string]any{"text": "late"}), resolved(asked[1].ID, map[string]any{"text": "second"})...)
	late := s.tells("/api/agui", aguiBody("r2", "resume", both))
	require.Equal(t, "RUN_ERROR decided", late[0].Type+" "+late[0].Code)
	require.Contains(t, late[0].Message, "nothing was taken, because of call_1")
	s.get(200, &st, "GET", run, nil)
	require.Len(t, st.Calls, 1, "the other one is still open")
	last := s.tells("/api/agui", aguiBody("r3", "resume", both[1:]))
	require.Contains(t, shown(last), "TEXT_MESSAGE_CONTENT Decided.")
	// An answer that was taken can be given again.
	require.Equal(t, "decided", s.tells("/api/agui", aguiBody("r4", "resume", both))[0].Code)
	require.Contains(t, shown(s.tells("/api/agui", aguiBody("r5", "resume", both[1:]))), "TEXT_MESSAGE_CONTENT Decided.")
}

// A message does not take back what was asked before a restart: the question comes again, and holds.
func TestFrontQuestionAfterRestart(t *testing.T) {
	for _, killed := range []bool{true, false} {
		s := newSite(t, editor("Done.")).start()
		first := s.tells("/api/agui", aguiBody("r1"))
		ask := first[len(first)-1].Outcome.Interrupts[0]
		if !killed {
			require.NoError(t, s.srv.Shutdown(t.Context()))
		}
		next := s.again(script.New(script.Say("Done.")))
		more := aguiBody("r2", "messages", list{{"id": "u2", "role": "user", "content": "more"}})
		require.Equal(t, "busy", next.tells("/api/agui", more)[0].Code)
		again := next.tells("/api/agui", aguiBody("r1"))
		require.Equal(t, shown(first), shown(again))
		require.Equal(t, "busy", next.tells("/api/agui", more)[0].Code)
		second := next.tells("/api/agui", aguiBody("r3", "resume", resolved(ask.ID, map[string]any{"approved": true})))
		require.Equal(t, "success", second[len(second)-1].Outcome.Type, shown(second))
		require.Equal(t, "one\nthree\n", next.file("a.txt"))
	}
}

// The text of an attempt of the model that does not count is marked.
func TestFrontDiscarded(t *testing.T) {
	first := true
	model := aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			if first {
				first = false
				if yield(&aycoder.TextDelta{Text: "Half"}, nil) {
					yield(&aycoder.Retrying{Discarded: true, Attempt: 1, Err: io.ErrUnexpectedEOF}, nil)
				}
			}
			_ = yield(&aycoder.TextDelta{Text: "Whole."}, nil) && yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "Whole."}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
		}
	})
	for _, path := range []string{"/api/agui", "/api/chat", "/v1/chat/completions"} {
		first = true
		s := newSite(t, model).start()
		body := aguiBody("r1")
		if path == "/api/chat" {
			body = uiBody()
		}
		body["stream"] = true
		res := s.do("POST", path, body)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		res.Body.Close()
		text := string(data)
		require.Less(t, strings.Index(text, "Half"), strings.Index(text, "broke off"), path)
		require.Less(t, strings.Index(text, "broke off"), strings.Index(text, "Whole."), path)
	}
}

// A server that ends breaks the connection, so that no client takes the end of the stream for that of the run.
func TestFrontWhileTheServerEnds(t *testing.T) {
	for _, path := range []string{"/api/agui", "/api/chat"} {
		begun, end := make(chan struct{}), make(chan struct{})
		s := newSite(t, aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				close(begun)
				<-end
				_ = yield(&aycoder.BlockDone{Part: &aycoder.ToolUse{ID: "c1", Name: "list_files", Args: []byte(`{}`)}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopToolUse}, nil)
			}
		})).start()
		body := aguiBody("r1")
		if path == "/api/chat" {
			body = uiBody()
		}
		over := make(chan error, 1)
		go func() {
			_, err := s.told("POST", path, body)
			over <- err
		}()
		<-begun
		done := make(chan error, 1)
		go func() { done <- s.srv.Shutdown(context.Background()) }()
		for s.do("GET", "/ready", nil).StatusCode == http.StatusOK {
		}
		close(end)
		require.NoError(t, <-done)
		require.Error(t, <-over)
		next := s.again(script.New(script.Say("Done.")))
		require.Contains(t, strings.Join(shown(next.tells(path, body)), "\n"), "Done.")
	}
}

// Cancelling and failing are told as such, and a client of a form can do what one of the API can.
func TestFrontEnds(t *testing.T) {
	s := newSite(t, editor("Done."), server.WithLimits(server.Limits{})).start()
	first := s.tells("/api/agui", aguiBody("r1"))
	run := strings.TrimSuffix(first[1].ParentMessageID, ".m0")
	s.get(204, nil, "POST", "/api/runs/"+run+"/cancel", nil)
	s.events(run, "")
	ended := s.tells("/api/agui", aguiBody("r1"))
	require.Equal(t, "cancelled", ended[len(ended)-1].Outcome.Type)
	s.refused(422, "trigger", "POST", "/api/chat", map[string]any{"id": "t", "trigger": "regenerate-message", "messages": list{{"id": "u", "role": "user"}}})
	for name, body := range map[string]map[string]any{
		"tools":        aguiBody("r2", "tools", list{{"name": "x"}}),
		"no run":       aguiBody(""),
		"no user":      aguiBody("r2", "messages", list{}),
		"empty":        aguiBody("r2", "messages", list{{"id": "u", "role": "user", "content": " "}}),
		"long thread":  aguiBody("r2", "threadId", strings.Repeat("x", 300)),
		"link":         aguiBody("r2", "messages", list{{"id": "u", "role": "user", "content": list{{"type": "image", "source": map[string]any{"type": "url", "value": "http://x/"}}}}}),
		"other role":   aguiBody("r2", "messages", list{{"id": "u", "role": "boss", "content": "x"}}),
		"wrong ticket": aguiBody("r2", "resume", list{{"interruptId": "e30", "status": "cancelled"}}),
	} {
		all := s.tells("/api/agui", body)
		require.Equal(t, "RUN_ERROR invalid_request", all[0].Type+" "+all[0].Code, name)
		require.Len(t, all, 1)
	}
}
