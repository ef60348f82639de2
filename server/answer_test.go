package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

func editor(last string) *script.Model {
	return script.New(script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "three"}), script.Say(last))
}

// An auditor that keeps its records.
type auditor struct {
	mu      sync.Mutex
	records []*aycoder.AuditRecord
}

func (a *auditor) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, rec)
	return nil
}

func TestApproval(t *testing.T) {
	for decision, want := range map[string]string{"allow": "one\nthree\n", "deny": "one\ntwo\n"} {
		t.Run(decision, func(t *testing.T) {
			log := &auditor{}
			s := newSite(t, editor("Done."), server.WithAudit(log)).start()
			res := s.do("POST", "/api/prompt", prompt("go"))
			r := s.read(res)
			ask := r.until("approval_request")
			q := ask.ev.(*aycoder.ApprovalRequested).Request
			require.NotContains(t, ask.data, `"plan"`)
			require.Contains(t, q.Preview, "three")

			var st struct {
				Working   bool
				Phase     string
				Approvals []aycoder.ApprovalRequest
			}
			run := "/api/runs/" + runOf(res)
			s.get(200, &st, "GET", run, nil)
			require.True(t, st.Working)
			require.Len(t, st.Approvals, 1)
			require.Equal(t, q.Digest, st.Approvals[0].Digest)

			path := run + "/approvals/" + q.CallID
			good := map[string]any{"decision": decision, "digest": q.Digest}
			s.refused(400, "invalid_request", "POST", path, map[string]any{"decision": "allow"})
			s.refused(400, "invalid_request", "POST", path, map[string]any{"decision": "yes", "digest": q.Digest})
			s.refused(409, "decided", "POST", path, map[string]any{"decision": "allow", "digest": "0000"})
			s.refused(409, "decided", "POST", run+"/approvals/other", good)
			if decision == "allow" { // what does not fit leaves the question open
				s.refused(422, "tool_args", "POST", path, map[string]any{"decision": "allow", "digest": q.Digest, "args": map[string]any{"path": 1}})
				s.refused(422, "answer", "POST", path, map[string]any{"decision": "allow", "digest": q.Digest, "rule": "bash"})
			}
			s.get(204, nil, "POST", path, good)
			rest := r.rest()
			require.Equal(t, "Done.", answers(rest))
			s.refused(409, "decided", "POST", path, good) // again
			data, err := os.ReadFile(filepath.Join(s.dir, "a.txt"))
			require.NoError(t, err)
			require.Equal(t, want, string(data))
			require.Len(t, log.records, 1)
			require.Equal(t, decision, log.records[0].Verdict)
			require.Equal(t, "answered by local", log.records[0].Reason)
			sum := sha256.Sum256(q.Args)
			require.Equal(t, hex.EncodeToString(sum[:]), log.records[0].Digest)
		})
	}
}

// A server that ends suspends the question, and the next one asks it again, or takes the answer.
func TestShutdownKeepsQuestions(t *testing.T) {
	for _, how := range []string{"stream", "answer"} {
		t.Run(how, func(t *testing.T) {
			s := newSite(t, editor("Done.")).start()
			res := s.do("POST", "/api/prompt", prompt("go"))
			r := s.read(res)
			ask := r.until("approval_request")
			q := ask.ev.(*aycoder.ApprovalRequested).Request
			require.NoError(t, s.srv.Shutdown(t.Context()))
			rest := r.rest()
			require.Equal(t, aycoder.EndSuspended, rest[len(rest)-1].ev.(*aycoder.RunFinished).Result.End)
			s.refused(503, "draining", "POST", "/api/prompt", prompt("more"))

			next := s.again(script.New(script.Say("Done.")))
			run := "/api/runs/" + runOf(res)
			body := map[string]any{"decision": "allow", "digest": q.Digest}
			if how == "stream" {
				r := next.read(next.do("GET", run+"/events", nil, "Last-Event-ID", ask.id))
				q := r.until("approval_request").ev.(*aycoder.ApprovalRequested).Request
				require.Equal(t, body["digest"], q.Digest)
				next.get(204, nil, "POST", run+"/approvals/"+q.CallID, body)
				require.Equal(t, "Done.", answers(r.rest()))
			} else {
				next.refused(409, "decided", "POST", run+"/approvals/"+q.CallID, map[string]any{"decision": "allow", "digest": "0000"})
			}
			if how == "answer" {
				next = s.again(script.New(script.Say("Done.")))
				next.get(204, nil, "POST", run+"/approvals/"+q.CallID, body)
				require.Equal(t, "Done.", answers(next.events(runOf(res), ask.id)))
			}
			data, err := os.ReadFile(filepath.Join(s.dir, "a.txt"))
			require.NoError(t, err)
			require.Equal(t, "one\nthree\n", string(data))
		})
	}
}

// Answers come to the next process, too: with a rule, and after the first one was killed while the question was open.
func TestAnswerInTheNextProcess(t *testing.T) {
	for _, how := range []string{"rule", "killed", "killed rule"} {
		t.Run(how, func(t *testing.T) {
			s := newSite(t, editor("Done.")).start()
			res := s.do("POST", "/api/prompt", prompt("go"))
			r := s.read(res)
			q := r.until("approval_request").ev.(*aycoder.ApprovalRequested).Request
			if how == "rule" {
				require.NoError(t, s.srv.Shutdown(t.Context()))
			}
			next := s.again(script.New(script.Say("Done."), script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "three", "new_string": "four"}), script.Say("Once more.")))
			run := "/api/runs/" + runOf(res)
			body := map[string]any{"decision": "allow", "digest": q.Digest}
			if how != "killed" {
				require.NotEmpty(t, q.Suggested)
				next.refused(422, "answer", "POST", run+"/approvals/"+q.CallID, map[string]any{"decision": "allow", "digest": q.Digest, "rule": "bash"})
				body["rule"] = q.Suggested[0]
			}
			next.get(204, nil, "POST", run+"/approvals/"+q.CallID, body)
			next.events(runOf(res), "")
			require.Equal(t, "one\nthree\n", next.file("a.txt"))
			if how != "killed" { // nobody is asked about the next change
				events, _ := next.ask(map[string]any{"prompt": "more", "session": res.Header.Get("Aycoder-Session")})
				require.Equal(t, "Once more.", answers(events))
				require.Equal(t, "one\nfour\n", next.file("a.txt"))
			}
			r.close()
		})
	}
}

// A server that ends lets the message of the model finish, and the next one goes on behind it.
func TestShutdownBetweenTurns(t *testing.T) {
	gate := make(chan struct{})
	turn := 0
	model := aycoder.ModelFunc(nil)
	first := held("I look.", gate, "")
	model = func(ctx context.Context, req *aycoder.Request) seqOfModel {
		if turn++; turn > 1 {
			t.Error("the model was asked again")
		}
		return withCall(first.Stream(ctx, req))
	}
	s := newSite(t, model).start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	r := s.read(res)
	seen := []event{r.until("text_delta")}
	done := make(chan error)
	go func() { done <- s.srv.Shutdown(t.Context()) }()
	for {
		res := s.do("POST", "/api/prompt", prompt("more"))
		res.Body.Close()
		if res.StatusCode == 503 {
			break
		}
	}
	close(gate)
	require.NoError(t, <-done)
	seen = append(seen, r.rest()...)
	require.NotEqual(t, "run_end", seen[len(seen)-1].kind)

	next := s.again(script.New(script.Say("It says two.")))
	all := append(seen, next.events(runOf(res), seen[len(seen)-1].id)...)
	require.Equal(t, []string{"text_delta I look.", "tool_start", "tool_end", "turn_end", "text_delta It says two.", "turn_end", "run_end"},
		kinds(story(all)))
}

func kinds(story []string) (out []string) {
	for _, line := range story {
		switch kind := cutWord(line); kind {
		case "text_delta":
			out = append(out, line)
		default:
			out = append(out, kind)
		}
	}
	return out
}

// A call that somebody else carries out gets its result by POST.
func TestResultFromOutside(t *testing.T) {
	type args struct {
		Question string `json:"question"`
	}
	tool, err := aycoder.DeclareTool[args]("ask_user", "Asks the user.")
	require.NoError(t, err)
	s := newSite(t, script.New(script.Call("ask_user", `{"question":"Which?"}`), script.Say("So be it.")))
	s.more = []harness.Option{harness.WithTools(tool), harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	}))}
	s.start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	r := s.read(res)
	q := r.until("call_request").ev.(*aycoder.CallRequested).Request
	path := "/api/runs/" + runOf(res) + "/results/"
	good := map[string]any{"digest": q.Digest, "text": "The second."}
	s.refused(409, "decided", "POST", path+"other", good)
	s.refused(409, "decided", "POST", path+q.CallID, map[string]any{"digest": "0", "text": "x"})
	s.get(204, nil, "POST", path+q.CallID, good)
	rest := r.rest()
	require.Equal(t, "So be it.", answers(rest))
	s.refused(409, "decided", "POST", path+q.CallID, good)
}

// A call that waits when the server ends gets its result from the next one, which nobody has asked for the run before.
func TestResultAfterShutdown(t *testing.T) {
	tool, err := aycoder.DeclareTool[struct{}]("ask_user", "Asks the user.")
	require.NoError(t, err)
	s := newSite(t, script.New(script.Call("ask_user", `{}`)))
	s.more = []harness.Option{harness.WithTools(tool), harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	}))}
	s.start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	q := s.read(res).until("call_request").ev.(*aycoder.CallRequested).Request
	require.NoError(t, s.srv.Shutdown(t.Context()))
	next := s.again(script.New(script.Say("So be it.")))
	path := "/api/runs/" + runOf(res)
	good := map[string]any{"digest": q.Digest, "text": "The second."}
	next.get(204, nil, "POST", path+"/results/"+q.CallID, good)
	require.Equal(t, "So be it.", answers(next.events(runOf(res), "")))
	next.refused(409, "decided", "POST", path+"/results/"+q.CallID, good)
}
