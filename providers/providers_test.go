package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/providers/openai"
	"github.com/aycoder/aycoder/providers/script"
)

// keyless are the providers that do not require a key.
var keyless = map[string]bool{"ollama": true, "vllm": true, "llamacpp": true, "lmstudio": true}

// Every provider in the table opens, and sends its requests to the base URL, with the key
// and the headers, and for the named model.
func TestOpenEach(t *testing.T) {
	for _, name := range providers.Names() {
		t.Run(name, func(t *testing.T) {
			var asked *http.Request
			var body string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked == nil {
					data, _ := io.ReadAll(r.Body)
					asked, body = r, string(data)
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			defer s.Close()
			m, err := providers.Open(name+"/maker/model-1", providers.WithAPIKey("key-0123456789"),
				providers.WithBaseURL(s.URL), providers.WithHTTPClient(s.Client()), providers.WithHeader("X-Test", "yes"),
				providers.WithMaxTokens(77), providers.WithIdleTimeout(time.Minute))
			require.NoError(t, err)
			_, err = aycoder.Complete(t.Context(), m, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
			base, ok := errors.AsType[*aycoder.ModelError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "maker/model-1", base.Model)
			assert.Equal(t, http.StatusServiceUnavailable, base.Status)
			assert.Contains(t, asked.URL.EscapedPath()+body, "model-1")
			assert.Contains(t, body, "77")
			assert.Equal(t, "yes", asked.Header.Get("X-Test"))
			assert.Contains(t, fmt.Sprint(asked.Header), "key-0123456789")
			namer, ok := aycoder.As[aycoder.ModelNamer](m)
			require.True(t, ok)
			_, model := namer.ModelName()
			assert.Equal(t, "maker/model-1", model)
		})
	}
}

// Every dialect says which provider and model answered, and the ids of the message and the request.
func TestAnswerSaysWhoAnswered(t *testing.T) {
	chat := `{"id":"m1","model":"x-1","choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	for name, answer := range map[string]string{
		"anthropic": `{"type":"message","id":"m1","model":"x-1","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`,
		"groq":      chat,
		"mistral":   chat,
		"google":    `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"modelVersion":"x-1","responseId":"m1"}`,
		"ollama":    `{"model":"x-1","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop"}`,
		"openai":    `{"object":"response","id":"m1","model":"x-1","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "req-7")
				_, _ = io.WriteString(w, answer)
			}))
			defer s.Close()
			m, err := providers.Open(name+"/asked", providers.WithAPIKey("key-0123456789"),
				providers.WithBaseURL(s.URL), providers.WithHTTPClient(s.Client()))
			require.NoError(t, err)
			var done *aycoder.MessageDone
			for ev, err := range m.Stream(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}}) {
				require.NoError(t, err)
				done, _ = ev.(*aycoder.MessageDone)
			}
			id := "m1"
			if name == "ollama" { // sends none
				id = ""
			}
			namer, _ := aycoder.As[aycoder.ModelNamer](m)
			provider, _ := namer.ModelName()
			assert.Equal(t, []string{provider, "x-1", id, "req-7"}, []string{done.Provider, done.Model, done.ID, done.RequestID})
		})
	}
}

// The clients of all providers open their own answers, and those of no client that embeds them.
func TestClientsOpenTheirAnswers(t *testing.T) {
	for _, name := range providers.Names() {
		m, err := providers.Open(name+"/model-1", providers.WithAPIKey("key-0123456789"), providers.WithBaseURL("http://127.0.0.1:1"))
		require.NoError(t, err)
		o, ok := m.(aycoder.ModelOpener)
		require.True(t, ok, name)
		assert.True(t, o.Opens(m), name)
		assert.False(t, o.Opens(struct{ aycoder.ModelClient }{m}), name)
	}
}

func TestOpenWithoutKey(t *testing.T) {
	for _, env := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "XAI_API_KEY",
		"OPENROUTER_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "MOONSHOT_API_KEY", "MISTRAL_API_KEY", "ZAI_API_KEY",
		"TOGETHER_API_KEY", "COPILOT_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AWS_BEARER_TOKEN_BEDROCK",
		"OLLAMA_HOST", "OLLAMA_API_KEY", "OPENAI_API_VERSION"} {
		t.Setenv(env, "")
	}
	for _, name := range providers.Names() {
		t.Run(name, func(t *testing.T) {
			m, err := providers.Open(name + "/model-1")
			if keyless[name] {
				require.NoError(t, err)
				require.NotNil(t, m)
				return
			}
			require.Error(t, err)
			require.Nil(t, m, "no typed nil")
			_, auth := errors.AsType[*aycoder.AuthError](err)
			_, config := errors.AsType[*aycoder.ConfigError](err)
			assert.True(t, auth || config, "%v", err)
		})
	}
}

func TestOpenErrors(t *testing.T) {
	tests := []struct {
		name, in, want string
		opts           []providers.Option
	}{
		{"empty", "", "provider/model", nil},
		{"no provider", "claude-sonnet-4-5", "provider/model", nil},
		{"no model", "anthropic/", "provider/model", nil},
		{"no name", "/x", "provider/model", nil},
		{"unknown", "antropic/x", `unknown provider; providers: anthropic, openai`, nil},
		{"wrong option", "anthropic/x", "WithBaseURL", []providers.Option{providers.WithBaseURL("nowhere")}},
		{"nil option", "anthropic/x", "option: is nil", []providers.Option{nil}},
		{"azure without address", "azure/x", "AZURE_OPENAI_ENDPOINT", nil},
	}
	t.Setenv("AZURE_OPENAI_ENDPOINT", "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := providers.Open(tt.in, tt.opts...)
			require.Nil(t, m)
			_, ok := errors.AsType[*aycoder.ConfigError](err)
			require.True(t, ok, "%v", err)
			assert.Contains(t, err.Error(), tt.want)
		})
	}
}

func ExampleOpen() {
	client, err := providers.Open("ollama/qwen3:8b", providers.WithBaseURL("http://localhost:11434"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client)

	_, err = providers.Open("olama/qwen3:8b")
	text, _, _ := strings.Cut(err.Error(), ";")
	fmt.Println(text)
	// Output:
	// ollama.Client(qwen3:8b at http://localhost:11434)
	// open model: name: "olama/qwen3:8b" names an unknown provider
}

// A step of a conversation costs only the work for its new messages: earlier ones are not
// encoded again, and cause no allocations. (The list of encoded messages grows, in a few
// allocations.)
func TestStepCostsWhatIsNew(t *testing.T) {
	timed.Serial(t)
	clients := map[string]aycoder.ModelClient{}
	for _, name := range providers.Names() {
		m, err := providers.Open(name+"/maker/model-1", providers.WithAPIKey("key-0123456789"),
			providers.WithBaseURL("http://localhost"), providers.WithHTTPClient(&http.Client{Transport: refusing{}}))
		require.NoError(t, err)
		clients[name] = m
	}
	m, err := openai.New("model-1", openai.WithAPIKey("key-0123456789"), openai.WithResponses(true),
		openai.WithHTTPClient(&http.Client{Transport: refusing{}}))
	require.NoError(t, err)
	clients["responses"] = m
	for name, m := range clients {
		t.Run(name, func(t *testing.T) {
			allocs := func(turns int) float64 {
				req := &aycoder.Request{Messages: conversation(turns)}
				return testing.AllocsPerRun(5, func() {
					_, err := aycoder.Complete(t.Context(), m, req)
					if _, ok := errors.AsType[*aycoder.OverloadedError](err); !ok {
						t.Fatal(err)
					}
				})
			}
			few, many := allocs(100), allocs(2000)
			t.Logf("%.0f allocations with 100 turns, %.0f with 2,000", few, many)
			assert.LessOrEqual(t, many, 1.1*few)
		})
	}
}

// Nor does a step of a run, with the answers of a server, and all steps use one connection.
func TestStepOfRunCostsWhatIsNew(t *testing.T) {
	timed.Serial(t)
	const item = `{"type":"function_call","id":"f%[1]d","call_id":"c%[1]d","name":"look","arguments":"{}"}`
	answers := map[string]string{
		"messages": lines(`{"type":"message_start","message":{"id":"m","content":[]}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c%d","name":"look","input":{}}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`),
		"chat": lines(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c%d","function":{"name":"look","arguments":"{}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]"),
		"responses": lines(`{"type":"response.output_item.done","output_index":0,"item":`+item+`}`,
			`{"type":"response.completed","response":{"id":"r","status":"completed","output":[`+item+`]}}`),
		"gemini": lines(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"c%d","name":"look","args":{}}}]},"finishReason":"STOP"}]}`),
	}
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("an output"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	const turns = 2000
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			requests, connections := 0, atomic.Int32{}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				requests++
				_, _ = fmt.Fprintf(w, answer, requests)
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			s.Start()
			defer s.Close()
			m, err := providers.Open(dialects[name], providers.WithAPIKey("key-0123456789"), providers.WithBaseURL(s.URL),
				providers.WithHTTPClient(s.Client()))
			require.NoError(t, err)
			l, err := aycoder.New(m, aycoder.WithTools(tool), aycoder.WithLimits(aycoder.Limits{Turns: turns}))
			require.NoError(t, err)
			var at [turns + 1]uint64 // the number of allocations
			var mem runtime.MemStats
			for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				if end, ok := ev.(*aycoder.TurnFinished); ok && end.Turn%100 == 0 {
					runtime.ReadMemStats(&mem)
					at[end.Turn] = mem.Mallocs
				}
				if err != nil {
					require.ErrorAs(t, err, new(*aycoder.LimitError))
				}
			}
			few, many := at[200]-at[100], at[turns]-at[turns-100]
			t.Logf("%d allocations of 100 early steps, %d of the last ones", few, many)
			assert.LessOrEqual(t, float64(many), 1.1*float64(few))
			assert.Equal(t, turns, requests)
			assert.EqualValues(t, 1, connections.Load())
		})
	}
}

// refusing reads requests and answers that it is overloaded.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, err
}

// conversation has turns with all kinds of messages: calls with their outputs, each
// followed by two user messages.
func conversation(turns int) []*aycoder.Message {
	messages := []*aycoder.Message{aycoder.User("go")}
	for i := range turns {
		said := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "some words"}}}
		got := &aycoder.Message{Role: aycoder.RoleUser}
		for n := range 3 {
			id := fmt.Sprintf("call_%d_%d", i, n)
			said.Parts = append(said.Parts, &aycoder.ToolUse{ID: id, Name: "lookup", Args: []byte(`{"query":"x"}`)})
			got.Parts = append(got.Parts, &aycoder.ToolOutput{ID: id, Name: "lookup", Parts: []aycoder.Part{&aycoder.Text{Text: "found"}}})
		}
		messages = append(messages, said, got, aycoder.User("and"), aycoder.User("then"))
	}
	return messages
}

// A run that goes on with a client of another provider does not send what only the old one understands:
// thinking, opaque parts, and what comes with a call. A client of the same provider gets it again.
func TestOtherProvider(t *testing.T) {
	const mark = "T0xEIG1hcms="
	raw := json.RawMessage(`{"type":"reasoning","id":"` + mark + `","encrypted_content":"` + mark + `","summary":[]}`)
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("an output"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	pairs, kept := 0, map[string]bool{}
	var body string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body = string(data)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer s.Close()
	open := func(name string) (aycoder.ModelClient, string) {
		m, err := providers.Open(name+"/model", providers.WithAPIKey("key-0123456789"), providers.WithBaseURL(s.URL), providers.WithHTTPClient(s.Client()))
		require.NoError(t, err)
		n, ok := aycoder.As[aycoder.ModelNamer](m)
		require.True(t, ok)
		provider, _ := n.ModelName()
		return m, provider
	}
	for _, from := range providers.Names() {
		_, old := open(from)
		for _, to := range providers.Names() {
			next, provider := open(to)
			opaque := &aycoder.Opaque{Provider: old, Raw: raw}
			first := script.New(script.Reply(script.Block(&aycoder.Thinking{Text: mark, Signature: string(raw), Provider: old}),
				script.Block(&aycoder.Thinking{Text: mark, Signature: mark, Provider: old}), script.Block(opaque),
				script.Block(&aycoder.Text{Text: "a text", Extra: opaque}),
				script.Block(&aycoder.ToolUse{ID: "call_1", Name: "look", Args: json.RawMessage(`{}`), Extra: opaque})))
			turn := 0
			l, err := aycoder.New(first, aycoder.WithTools(tool), aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				if turn++; turn == 2 {
					now.Client = next
				}
				return now, nil
			}))
			require.NoError(t, err)
			body = ""
			var failed error
			for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				failed = err
			}
			require.ErrorAs(t, failed, new(*aycoder.ModelError), "%s to %s", from, to)
			require.Contains(t, body, "a text", "%s to %s", from, to)
			require.Contains(t, body, "an output", "%s to %s", from, to)
			if old == provider {
				kept[provider] = kept[provider] || strings.Contains(body, mark)
				continue
			}
			pairs++
			require.NotContains(t, body, mark, "%s to %s", from, to)
		}
	}
	t.Log(pairs, "pairs;", kept)
	require.Positive(t, pairs)
	for _, name := range []string{"anthropic", "bedrock", "google", "mistral", "ollama"} {
		require.True(t, kept[name], "%s gets its own parts again", name)
	}
}
