package tools_test

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/tools"
)

// answering is a model that says "done", or blocks until it is cancelled.
func answering(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if strings.Contains(req.Messages[0].Text(), "hang") {
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "done"}}, nil) &&
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
	}
}

// page serves /page, and blocks at /hang until the client disconnects.
func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hang" {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<h1>Hello</h1>"+strings.Repeat("<p>text</p>", 2000))
}

func TestNetConformance(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(page))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	tests := []struct {
		name  string
		build func() (aycoder.Tool, error)
		cases []agenttest.ToolCase
	}{
		{"fetch", func() (aycoder.Tool, error) { return tools.Fetch(tools.WithPrivateHosts(host)) }, []agenttest.ToolCase{
			{Name: "page", Args: `{"url":"` + server.URL + `/page"}`, Want: "# Hello"},
			{Name: "part", Args: `{"url":"` + server.URL + `/page","offset":10,"max_bytes":20,"raw":true,"timeout":5}`, Want: "offset 30"},
			{Name: "private", Args: `{"url":"http://127.0.0.1/"}`, Fails: true},
			{Name: "hangs", Args: `{"url":"` + server.URL + `/hang"}`, Slow: true},
		}},
		{"todo", func() (aycoder.Tool, error) { return tools.Todo() }, []agenttest.ToolCase{
			{Name: "list", Args: `{"todos":[{"content":"read","status":"in_progress"}]}`, Want: "[>] read"},
			{Name: "empty item", Args: `{"todos":[{"content":"","status":"pending"}]}`, Fails: true},
		}},
		{"ask_user", func() (aycoder.Tool, error) {
			return tools.AskUser(func(ctx context.Context, q tools.Question) (tools.Answer, error) {
				if q.Text == "hang" {
					<-ctx.Done()
					return tools.Answer{}, ctx.Err()
				}
				return tools.Answer{Text: "yes"}, nil
			})
		}, []agenttest.ToolCase{
			{Name: "question", Args: `{"question":"ok?","options":["yes","no"],"multiple":false}`, Want: "The user says: yes"},
			{Name: "empty", Args: `{"question":""}`, Fails: true},
			{Name: "hangs", Args: `{"question":"hang"}`, Slow: true},
		}},
		{"subagent", func() (aycoder.Tool, error) {
			return tools.Subagent(tools.SubagentConfig{Model: aycoder.ModelFunc(answering)})
		}, []agenttest.ToolCase{
			{Name: "task", Args: `{"task":"go","description":"goes"}`, Want: "done"},
			{Name: "unknown tool", Args: `{"task":"go","tools":["bash"]}`, Fails: true},
			{Name: "hangs", Args: `{"task":"hang"}`, Slow: true},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
				t.Helper()
				tool, err := tt.build()
				if err != nil {
					t.Fatal(err)
				}
				return agenttest.ToolSetup{Tool: tool}
			}, tt.cases...)
		})
	}
}
