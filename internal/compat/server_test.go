package compat

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	scripted "github.com/aycoder/aycoder/providers/script"
	httpserver "github.com/aycoder/aycoder/server"
	"github.com/aycoder/aycoder/session"
)

// A frontSite is a server whose model does what the newest message of the user says.
type frontSite struct {
	dir, url string
}

func newFrontSite(t *testing.T) *frontSite {
	t.Helper()
	s := &frontSite{dir: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "a.txt"), []byte("one\ntwo\n"), 0o600))
	store, gate := journal.Memory(), make(chan struct{}, 100)
	srv, err := httpserver.New(httpserver.Host{
		Store: func(string) journal.Store { return store },
		Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			return harness.New(ctx, s.dir, harness.WithClient(obedient(gate)), harness.WithStore(store, id, opts...))
		},
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", srv)
	mux.HandleFunc("/gate", func(http.ResponseWriter, *http.Request) { gate <- struct{}{} })
	web := httptest.NewServer(mux)
	s.url = web.URL
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		web.Close()
	})
	return s
}

func (s *frontSite) file(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "a.txt"))
	require.NoError(t, err)
	return string(data)
}

// obedient is a model that does what the newest message of the user says. To be slow, it waits in the middle of a text until
// the gate opens.
func obedient(gate <-chan struct{}) aycoder.ModelClient {
	edit := func(id, old, new string) *aycoder.ToolUse {
		args, _ := json.Marshal(map[string]string{"path": "a.txt", "old_string": old, "new_string": new})
		return &aycoder.ToolUse{ID: id, Name: "edit_file", Args: args}
	}
	return aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		order, answered := "", false
		for _, m := range req.Messages {
			if text := m.Text(); m.Role == aycoder.RoleUser && text != "" {
				order, answered = text, false
			}
			for _, p := range m.Parts {
				_, is := p.(*aycoder.ToolOutput)
				answered = answered || is
			}
		}
		steps := []scripted.Step{scripted.Say("Nothing.")}
		switch {
		case answered:
			steps = []scripted.Step{scripted.Say("It is done.")}
		case strings.HasSuffix(order, "change it"):
			steps = []scripted.Step{scripted.Think("Hm, hm."), scripted.Say("I look."), scripted.Call("read_file", `{"path":"a.txt"}`), scripted.Block(edit("edit_1", "two", "three"))}
		case strings.HasSuffix(order, "change it again"):
			steps = []scripted.Step{scripted.Block(edit("edit_2", "one", "four"))}
		case strings.HasSuffix(order, "fail"):
			steps = []scripted.Step{scripted.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "x", Status: 401}})}
		case strings.HasSuffix(order, "be slow"):
			return func(yield func(aycoder.ModelEvent, error) bool) {
				if !yield(&aycoder.TextDelta{Text: "Slow "}, nil) {
					return
				}
				select {
				case <-gate:
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
				_ = yield(&aycoder.TextDelta{Text: "but sure."}, nil) &&
					yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "Slow but sure."}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			}
		}
		return scripted.New(scripted.Reply(steps...)).Stream(ctx, req)
	})
}

// The SDK of OpenAI for Go reads the form of chat completions: in one piece, and as a stream.
func TestServerOpenAI(t *testing.T) {
	s := newFrontSite(t)
	client := sdk.NewClient(option.WithAPIKey("none"), option.WithBaseURL(s.url+"/v1"), option.WithMaxRetries(0))
	models, err := client.Models.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "aycoder", models.Data[0].ID)
	params := sdk.ChatCompletionNewParams{Model: "aycoder", Messages: []sdk.ChatCompletionMessageParamUnion{
		sdk.SystemMessage("Be short."), sdk.UserMessage("change it")}}
	whole, err := client.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, "It is done.", whole.Choices[0].Message.Content)
	require.Equal(t, "stop", whole.Choices[0].FinishReason)
	require.Equal(t, whole.Usage.PromptTokens+whole.Usage.CompletionTokens, whole.Usage.TotalTokens)

	params.StreamOptions.IncludeUsage = sdk.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var all sdk.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, all.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Equal(t, "I look.\n\nIt is done.", all.Choices[0].Message.Content)
	require.Equal(t, "stop", all.Choices[0].FinishReason)
	require.Positive(t, all.Usage.TotalTokens)
	require.Equal(t, "one\ntwo\n", s.file(t), "nobody can be asked, so nothing was changed")

	params.Messages = []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("fail")}
	stream = client.Chat.Completions.NewStreaming(t.Context(), params)
	for stream.Next() {
	}
	require.ErrorContains(t, stream.Err(), "does not accept the key")
	_, err = client.Chat.Completions.New(t.Context(), params)
	var failed *sdk.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 502, failed.StatusCode)
}

// node runs a program that talks to a site, and decodes what it prints.
func node(t *testing.T, s *frontSite, program string, into any) {
	t.Helper()
	dir := os.Getenv("AYCODER_NODE_MODULES")
	if dir == "" {
		t.Skip("AYCODER_NODE_MODULES is not set: a directory with the packages @ag-ui/client, ai and @ai-sdk/react")
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", program), dir, s.url)
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	require.NoError(t, err, warnings.String())
	require.Empty(t, warnings.String(), "the client has complaints")
	require.NoError(t, json.Unmarshal(out, into), string(out))
}

type aguiMessage struct {
	ID, Role, Content, ToolCallID string
	ToolCalls                     []struct {
		ID       string
		Function struct{ Name, Arguments string }
	}
}

// The client of AG-UI reads texts, thoughts and calls, answers questions, and goes on after its connection broke.
func TestServerAGUI(t *testing.T) {
	s := newFrontSite(t)
	var got struct {
		Asked struct {
			Outcome    string
			Interrupts []struct{ Reason, Message, Tool, Preview string }
		}
		Allowed struct {
			Outcome  string
			Messages []aguiMessage
		}
		Replayed                           []aguiMessage
		Denied, Part, Whole, Error, Failed string
		Answers                            int
	}
	node(t, s, "agui.mjs", &got)
	require.Equal(t, "interrupt", got.Asked.Outcome)
	require.Len(t, got.Asked.Interrupts, 1)
	q := got.Asked.Interrupts[0]
	require.Equal(t, "tool_call edit_1 Allow edit_file a.txt?", q.Reason+" "+q.Tool+" "+q.Message)
	require.Contains(t, q.Preview, "+three")
	require.Equal(t, "success", got.Allowed.Outcome)
	var roles []string
	for _, m := range got.Allowed.Messages {
		roles = append(roles, m.Role)
	}
	require.Equal(t, []string{"user", "reasoning", "assistant", "tool", "tool", "assistant"}, roles)
	all := got.Allowed.Messages
	require.Equal(t, "Hm, hm.", all[1].Content)
	require.Equal(t, "I look.", all[2].Content)
	require.Len(t, all[2].ToolCalls, 2)
	require.JSONEq(t, `{"path":"a.txt","old_string":"two","new_string":"three"}`, all[2].ToolCalls[1].Function.Arguments)
	require.Contains(t, all[3].Content, "two")
	require.Equal(t, "edit_1", all[4].ToolCallID)
	require.Equal(t, "It is done.", all[5].Content)
	require.ElementsMatch(t, all, got.Replayed, "the same answer again changes nothing")
	require.Equal(t, "It is done.", got.Denied)
	require.Equal(t, "one\nthree\n", s.file(t), "what was allowed was done, and what was denied was not")
	require.Equal(t, "Slow ", got.Part)
	require.Equal(t, "Slow but sure.", got.Whole)
	require.Equal(t, 1, got.Answers)
	require.Equal(t, "invalid_request", got.Error)
	require.Equal(t, "model_auth", got.Failed)
}

type uiPart struct {
	Type, Text, ToolName, State, Output, ErrorText string
	Input                                          json.RawMessage
}

func (p uiPart) String() string {
	return strings.TrimSpace(p.Type + " " + p.ToolName + p.Text + " " + p.State)
}

func uiParts(parts []uiPart) (out []string) {
	for _, p := range parts {
		out = append(out, p.String())
	}
	return out
}

// The Chat of useChat does, too. After a page was loaded again, it has the whole message.
func TestServerUseChat(t *testing.T) {
	s := newFrontSite(t)
	var got struct {
		Asked struct {
			Parts   []uiPart
			Preview string
		}
		Allowed struct {
			Parts    []uiPart
			Messages int
		}
		Denied, Whole      []uiPart
		Idle               []any
		Failures           int
		Failed, Regenerate string
	}
	node(t, s, "uichat.mjs", &got)
	first := []string{"step-start", "reasoning Hm, hm. done", "text I look. done", "dynamic-tool read_file output-available"}
	require.Equal(t, append(first[:4:4], "dynamic-tool edit_file approval-requested"), uiParts(got.Asked.Parts))
	require.Contains(t, got.Asked.Preview, "+three")
	require.Equal(t, append(first, "dynamic-tool edit_file output-available", "step-start", "text It is done. done"), uiParts(got.Allowed.Parts))
	require.Equal(t, 2, got.Allowed.Messages, "the answer goes on with the message that asks")
	require.Contains(t, got.Allowed.Parts[3].Output, "two")
	require.JSONEq(t, `{"path":"a.txt","old_string":"two","new_string":"three"}`, string(got.Allowed.Parts[4].Input))
	require.Equal(t, []string{"step-start", "dynamic-tool edit_file output-error", "step-start", "text It is done. done"}, uiParts(got.Denied))
	require.Contains(t, got.Denied[1].ErrorText, "not now")
	require.Equal(t, "one\nthree\n", s.file(t), "what was allowed was done, and what was denied was not")
	require.Equal(t, []string{"step-start", "text Slow but sure. done"}, uiParts(got.Whole))
	require.Equal(t, []any{"ready", 0.0}, got.Idle)
	require.Zero(t, got.Failures)
	require.Contains(t, got.Failed, "does not accept the key")
	require.Equal(t, "trigger", got.Regenerate)
}
