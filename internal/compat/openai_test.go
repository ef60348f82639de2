package compat

import (
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/openai"
)

const (
	chatAnswer = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`
	responsesAnswer = `event: response.completed
data: {"type":"response.completed","sequence_number":1,"response":{"id":"r1","object":"response","created_at":1,"model":"m","status":"completed","output":[{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}

`
)

// A flavour is a way to ask OpenAI.
type flavour struct {
	name  string
	model string
	opts  []openai.Option
}

func openaiClient(t testing.TB, rt http.RoundTripper, in flavour) aycoder.ModelClient {
	t.Helper()
	opts := append([]openai.Option{openai.WithAPIKey("key"), openai.WithHTTPClient(&http.Client{Transport: rt})},
		in.opts...)
	c, err := openai.New(in.model, opts...)
	require.NoError(t, err)
	return c
}

func openaiSDK(hc *http.Client) sdk.Client {
	return sdk.NewClient(option.WithAPIKey("key"), option.WithHTTPClient(hc))
}

func openaiRules(t testing.TB) rules {
	t.Helper()
	const path = "github.com/openai/openai-go/v3"
	return readRules(t, path, path+"/shared", path+"/responses")
}

// chatReads checks that the SDK understands a body. "stream" is not a parameter of
// the SDK, which has a separate method for streams.
func chatReads(t testing.TB, rules rules, body []byte) {
	t.Helper()
	var params sdk.ChatCompletionNewParams
	if requireStrict(t, rules, without(t, body, "stream"), &params) == 0 {
		sameBodies(t, body, chatSends(t, params))
	}
}

func chatSends(t testing.TB, params sdk.ChatCompletionNewParams) []byte {
	t.Helper()
	k := &keeper{answer: chatAnswer}
	c := openaiSDK(k.client())
	s := c.Chat.Completions.NewStreaming(t.Context(), params)
	for s.Next() {
	}
	require.NoError(t, s.Err())
	return k.body
}

func responsesReads(t testing.TB, rules rules, body []byte) {
	t.Helper()
	var params responses.ResponseNewParams
	if requireStrict(t, rules, without(t, body, "stream"), &params) == 0 {
		sameBodies(t, body, responsesSends(t, params))
	}
}

func responsesSends(t testing.TB, params responses.ResponseNewParams) []byte {
	t.Helper()
	k := &keeper{answer: responsesAnswer}
	c := openaiSDK(k.client())
	s := c.Responses.NewStreaming(t.Context(), params)
	for s.Next() {
	}
	require.NoError(t, s.Err())
	return k.body
}

func TestOpenAIChat(t *testing.T) {
	rules := openaiRules(t)
	extra := map[string]json.RawMessage{"seed": json.RawMessage("1"), "parallel_tool_calls": json.RawMessage("false"),
		"verbosity": json.RawMessage(`"low"`), "metadata": json.RawMessage(`{"a":"b"}`)}
	for _, in := range []flavour{
		{"plain", "gpt-4o", nil},
		{"reasoning", "gpt-5", []openai.Option{openai.WithThinking("low"), openai.WithMaxTokens(99)}},
		{"compatible", "local", []openai.Option{openai.WithBaseURL("https://example.com/v1")}},
	} {
		for _, c := range cases(t, nil, extra) {
			t.Run(in.name+"/"+c.name, func(t *testing.T) {
				k := &keeper{answer: chatAnswer}
				body, err := bodyOf(t, k, openaiClient(t, k, in), c.req)
				if in.name == "reasoning" && len(c.req.Stop) > 0 { // which such models refuse
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				chatReads(t, rules, body)
			})
		}
	}
}

// chatReadsRest is chatReads without "reasoning_details". OpenRouter and similar services
// send this field and want it back, but OpenAI does not have it.
func chatReadsRest(t testing.TB, rules rules, body []byte) {
	t.Helper()
	doc, err := parse(body)
	require.NoError(t, err)
	messages, _ := doc.(map[string]any)["messages"].([]any)
	for _, m := range messages {
		delete(m.(map[string]any), "reasoning_details")
	}
	body, err = json.Marshal(doc)
	require.NoError(t, err)
	chatReads(t, rules, body)
}

// responsesOwn are parts of the Responses API.
func responsesOwn() []aycoder.Part {
	const owner = "openai/responses"
	return []aycoder.Part{
		&aycoder.Thinking{Text: "hm", Provider: owner, Signature: `{"type":"reasoning","id":"rs_1","status":"completed",` +
			`"summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"ZW5j"}`},
		&aycoder.Text{Text: "cited", Extra: &aycoder.Opaque{Provider: owner, Raw: json.RawMessage(
			`{"phase":"commentary","annotations":[{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com","title":"x"}]}`)}},
		&aycoder.Opaque{Provider: owner, Raw: json.RawMessage(
			`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}}`)},
	}
}

func TestOpenAIResponses(t *testing.T) {
	rules := openaiRules(t)
	extra := map[string]json.RawMessage{"user": json.RawMessage(`"u"`), "parallel_tool_calls": json.RawMessage("false"),
		"text": json.RawMessage(`{"verbosity":"low"}`), "metadata": json.RawMessage(`{"a":"b"}`)}
	for _, in := range []flavour{
		{"plain", "gpt-4o", []openai.Option{openai.WithResponses(true)}},
		{"reasoning", "gpt-5", []openai.Option{openai.WithResponses(true), openai.WithThinking("low"),
			openai.WithPromptCacheKey("k")}},
	} {
		for _, c := range cases(t, responsesOwn(), extra) {
			t.Run(in.name+"/"+c.name, func(t *testing.T) {
				k := &keeper{answer: responsesAnswer}
				body, err := bodyOf(t, k, openaiClient(t, k, in), c.req)
				if len(c.req.Stop) > 0 {
					require.ErrorContains(t, err, "stop sequences", "the API has no field for them")
					return
				}
				require.NoError(t, err)
				responsesReads(t, rules, body)
			})
		}
	}
}

func TestOpenAIRecorded(t *testing.T) {
	known := openaiRules(t)
	for _, in := range []struct {
		family string
		opts   []openai.Option
		reads  func(testing.TB, rules, []byte)
	}{
		{"openai-chat", nil, chatReadsRest},
		{"openai-responses", []openai.Option{openai.WithResponses(true)}, responsesReads},
	} {
		t.Run(in.family, func(t *testing.T) {
			client := func(rt http.RoundTripper, model string) aycoder.ModelClient {
				return openaiClient(t, rt, flavour{"", model, in.opts})
			}
			eachResent(t, in.family, client, func(r *resent) {
				known.sent = r.sent
				t.Run(r.id, func(t *testing.T) { in.reads(t, known, r.body) })
			})
		})
	}
}
