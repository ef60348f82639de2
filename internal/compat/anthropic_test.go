package compat

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
)

const anthropicAnswer = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`

// anthropicWhole is an answer without streaming, which a service may always send.
const anthropicWhole = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],` +
	`"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`

func anthropicOver(t testing.TB, rt http.RoundTripper, model string, opts ...anthropic.Option) aycoder.ModelClient {
	t.Helper()
	opts = append([]anthropic.Option{anthropic.WithAPIKey("key"),
		anthropic.WithHTTPClient(&http.Client{Transport: rt})}, opts...)
	c, err := anthropic.New(model, opts...)
	require.NoError(t, err)
	return c
}

// anthropicSends returns the body that the SDK sends.
func anthropicSends(t testing.TB, params sdk.MessageNewParams) []byte {
	t.Helper()
	k := &keeper{answer: anthropicAnswer}
	c := sdk.NewClient(option.WithAPIKey("key"), option.WithHTTPClient(k.client()))
	s := c.Messages.NewStreaming(t.Context(), params)
	for s.Next() {
	}
	require.NoError(t, s.Err())
	return k.body
}

// anthropicReads checks that the SDK understands a body. Some hosts of the API carry parts
// of the body elsewhere.
func anthropicReads(t testing.TB, rules rules, body []byte, version string) {
	t.Helper()
	if version != "" {
		var doc map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(body, &doc))
		require.JSONEq(t, `"`+version+`"`, string(doc["anthropic_version"]))
		delete(doc, "anthropic_version")
		delete(doc, "anthropic_beta")
		doc["model"], doc["stream"] = json.RawMessage(`"m"`), json.RawMessage("true")
		var err error
		body, err = json.Marshal(doc)
		require.NoError(t, err)
	}
	var params sdk.MessageNewParams
	requireStrict(t, rules, without(t, body, "stream"), &params) // the SDK has a separate method instead
	sameBodies(t, body, anthropicSends(t, params))
}

func token(context.Context) (string, error) { return "token", nil }

func anthropicOwn() ([]aycoder.Part, map[string]json.RawMessage) {
	opaque := func(raw string) aycoder.Part {
		return &aycoder.Opaque{Provider: "anthropic", Raw: json.RawMessage(raw)}
	}
	return []aycoder.Part{
			&aycoder.Thinking{Text: "hm", Signature: "c2ln", Provider: "anthropic"},
			&aycoder.Thinking{Signature: "c2ln", Provider: "anthropic"},
			opaque(`{"type":"redacted_thinking","data":"ZGF0YQ=="}`),
			opaque(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}`),
			opaque(`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result",` +
				`"url":"https://example.com","title":"x","encrypted_content":"ZW5j","page_age":null}]}`),
			&aycoder.Text{Text: "cited", Extra: &aycoder.Opaque{Provider: "anthropic", Raw: json.RawMessage(
				`{"citations":[{"type":"web_search_result_location","url":"https://example.com","title":"x","cited_text":"y","encrypted_index":"aQ=="}]}`)}},
		}, map[string]json.RawMessage{"top_k": json.RawMessage("5"), "metadata": json.RawMessage(`{"user_id":"u"}`),
			"service_tier": json.RawMessage(`"auto"`)}
}

func TestAnthropic(t *testing.T) {
	rules := readRules(t, "github.com/anthropics/anthropic-sdk-go")
	for _, in := range []struct {
		name, version string
		opts          []anthropic.Option
	}{
		{"own", "", nil},
		{"options", "", []anthropic.Option{anthropic.WithCacheTTL(time.Hour), anthropic.WithMaxTokens(99),
			anthropic.WithBeta("b")}},
		{"bedrock", "bedrock-2023-05-31", []anthropic.Option{anthropic.WithBedrock("us-east-1"), anthropic.WithBeta("b")}},
		{"vertex", "vertex-2023-10-16", []anthropic.Option{anthropic.WithVertex("p", "global"),
			anthropic.WithTokenSource(token)}},
	} {
		own, extra := anthropicOwn()
		for _, c := range cases(t, own, extra) {
			t.Run(in.name+"/"+c.name, func(t *testing.T) {
				k := &keeper{answer: anthropicAnswer}
				if in.name == "bedrock" {
					k.answer = anthropicWhole
				}
				body, err := bodyOf(t, k, anthropicOver(t, k, "claude-sonnet-4-5", in.opts...), c.req)
				require.NoError(t, err)
				anthropicReads(t, rules, body, in.version)
			})
		}
	}
}

func TestAnthropicRecorded(t *testing.T) {
	rules := readRules(t, "github.com/anthropics/anthropic-sdk-go")
	client := func(rt http.RoundTripper, model string) aycoder.ModelClient { return anthropicOver(t, rt, model) }
	beta := 0
	eachResent(t, "anthropic-messages", client, func(r *resent) {
		t.Run(r.id, func(t *testing.T) {
			var params sdk.MessageNewParams
			if wrong, _ := strictly(rules, without(t, r.body, "stream"), &params); len(wrong) == 0 {
				sameBodies(t, r.body, anthropicSends(t, params))
				return
			}
			beta++
			rules := rules
			rules.sent = r.sent
			anthropicBetaReads(t, rules, r.body)
		})
	})
	t.Logf("%d bodies have parts that the SDK knows in its beta types alone", beta)
}

// anthropicBetaReads is anthropicReads with the SDK's types for beta features.
func anthropicBetaReads(t testing.TB, rules rules, body []byte) {
	t.Helper()
	var params sdk.BetaMessageNewParams
	if requireStrict(t, rules, without(t, body, "stream"), &params) > 0 {
		return
	}
	k := &keeper{answer: anthropicAnswer}
	c := sdk.NewClient(option.WithAPIKey("key"), option.WithHTTPClient(k.client()))
	s := c.Beta.Messages.NewStreaming(t.Context(), params)
	for s.Next() {
	}
	require.NoError(t, s.Err())
	sameBodies(t, body, k.body)
}
