package anthropic

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/eventstream"
)

func anyToken(context.Context) (string, error) { return "ya29.token", nil }

func TestHosts(t *testing.T) {
	tests := []struct {
		name, model string
		opts        []Option
		url         string
		headers     map[string]string // "" means absent
		head        string            // of the body
	}{
		{"anthropic", "m", []Option{WithAPIKey(testKey), WithBeta("a")}, "https://api.anthropic.com/v1/messages",
			map[string]string{"X-Api-Key": testKey, "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "a", "Authorization": ""},
			`{"model":"m","max_tokens":8192,"stream":true,"cache_control":{"type":"ephemeral"},"messages":[`},
		{"vertex", "claude-sonnet-4-5@20250929", []Option{WithVertex("my-project", "europe-west1"), WithTokenSource(anyToken), WithBeta("a")},
			"https://europe-west1-aiplatform.googleapis.com/v1/projects/my-project/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
			map[string]string{"X-Api-Key": "", "Anthropic-Version": "", "Anthropic-Beta": "a", "Authorization": "Bearer ya29.token"},
			`{"anthropic_version":"vertex-2023-10-16","max_tokens":8192,"stream":true,"messages":[`},
		{"vertex everywhere", "m", []Option{WithVertex("a.com:p", "global"), WithAPIKey("k")},
			"https://aiplatform.googleapis.com/v1/projects/a.com:p/locations/global/publishers/anthropic/models/m:streamRawPredict",
			map[string]string{"X-Api-Key": "", "Authorization": "Bearer k"}, `{"anthropic_version":"vertex-2023-10-16",`},
		{"vertex of several regions", "m", []Option{WithVertex("p", "eu"), WithAPIKey("k")},
			"https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/models/m:streamRawPredict",
			nil, `{"anthropic_version":"vertex-2023-10-16",`},
		{"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", []Option{WithBedrock("us-east-1"), WithAPIKey("k"), WithBeta("a", "b")},
			"https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream",
			map[string]string{"X-Api-Key": "", "Anthropic-Version": "", "Anthropic-Beta": "", "Authorization": "Bearer k", "Accept": "application/json"},
			`{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["a","b"],"max_tokens":8192,"messages":[`},
		{"bedrock, the name is an address", "arn:aws:bedrock:us-east-1:1:inference-profile/x", []Option{WithBedrock("us-east-1"), WithAPIKey("k"), WithBaseURL("http://localhost:9/aws/")},
			"http://localhost:9/aws/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/invoke-with-response-stream",
			nil, `{"anthropic_version":"bedrock-2023-05-31",`},
		{"token", "m", []Option{WithTokenSource(anyToken)}, "https://api.anthropic.com/v1/messages",
			map[string]string{"X-Api-Key": "", "Authorization": "Bearer ya29.token"}, `{"model":"m",`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got *http.Request
			var sent bytes.Buffer
			rt := roundTrip(func(r *http.Request) (*http.Response, error) {
				got = r
				_, _ = sent.ReadFrom(r.Body)
				return stream(helloStream).RoundTrip(r)
			})
			c, err := New(tt.model, append(tt.opts, WithHTTPClient(&http.Client{Transport: rt}))...)
			require.NoError(t, err)
			ask(c)
			require.NotNil(t, got)
			assert.Equal(t, tt.url, got.URL.String())
			for name, want := range tt.headers {
				assert.Equal(t, want, got.Header.Get(name), name)
			}
			assert.True(t, json.Valid(sent.Bytes()))
			assert.True(t, strings.HasPrefix(sent.String(), tt.head), "%s", &sent)
		})
	}
}

func TestHostKeys(t *testing.T) {
	own := WithHTTPClient(&http.Client{})
	tests := []struct {
		name, env string
		opts      []Option
		want      string // of the error
		key       string
	}{
		{"bedrock, key of the environment", "aws-key", []Option{WithBedrock("us-east-1")}, "", "aws-key"},
		{"bedrock, own key", "aws-key", []Option{WithBedrock("us-east-1"), WithAPIKey("own")}, "", "own"},
		{"bedrock, no key", "", []Option{WithBedrock("us-east-1")}, "set AWS_BEARER_TOKEN_BEDROCK or pass WithAPIKey", ""},
		{"bedrock, signed by the client", "", []Option{WithBedrock("us-east-1"), own}, "", ""},
		{"bedrock elsewhere", "aws-key", []Option{WithBedrock("us-east-1"), WithBaseURL("http://localhost:1")}, "", ""},
		{"bedrock, region", "k", []Option{WithBedrock("us-east-1.evil.com/")}, "WithBedrock: region", ""},
		{"vertex, no token", "aws-key", []Option{WithVertex("p", "us-east5")}, "no token: pass WithTokenSource", ""},
		{"vertex, token by the client", "", []Option{WithVertex("p", "us-east5"), own}, "", ""},
		{"vertex, location", "", []Option{WithVertex("p", "x/y"), WithAPIKey("k")}, "WithVertex: project", ""},
		{"vertex, project", "", []Option{WithVertex("", "us-east5"), WithAPIKey("k")}, "WithVertex: project", ""},
		{"no function", "", []Option{WithTokenSource(nil), WithAPIKey("k")}, "WithTokenSource: function is nil", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(keyEnv, "anthropic-key") // must not be sent to others
			t.Setenv(bedrockKeyEnv, tt.env)
			c, err := New("m", tt.opts...)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.key, c.cfg.Key())
		})
	}
}

// chunked puts events into AWS frames.
func chunked(data ...string) string {
	var b []byte
	for _, d := range data {
		payload := fmt.Sprintf(`{"bytes":%q}`, base64.StdEncoding.EncodeToString([]byte(d)))
		b = eventstream.AppendEvent(b, "chunk", payload)
	}
	return string(b)
}

func TestBedrockStream(t *testing.T) {
	text := []string{begin, started(`{"type":"text","text":""}`), piece(`{"type":"text_delta","text":"hi"}`)}
	ended := append(text[:3:3], stop0, endTurn, end)
	exception := func(name, message string) string {
		return chunked(text...) + string(eventstream.AppendException(nil, name, `{"message":"`+message+`"}`))
	}
	unmodelled := string(eventstream.Append(nil, "", ":message-type", "error", ":error-code", "InternalError", ":error-message", "lost it"))
	tests := []struct {
		name, body string
		want       error // its type
		text       string
	}{
		{"whole", chunked(ended...), nil, ""},
		{"document", `{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}]}`, nil, ""},
		{"other events", string(eventstream.AppendEvent(nil, "news", `{}`)) + chunked(ended...), nil, ""},
		{"throttled", exception("throttlingException", "Too many requests"), &aycoder.RateLimitError{}, "Too many requests"},
		{"model failed", exception("modelStreamErrorException", "try again"), &aycoder.OverloadedError{}, "try again"},
		{"inside", exception("internalServerException", "x"), &aycoder.OverloadedError{}, "x"},
		{"timeout", exception("modelTimeoutException", "x"), &aycoder.TimeoutError{}, "x"},
		{"bad", exception("validationException", "x"), &aycoder.BadRequestError{}, "x"},
		{"too long", exception("validationException", "Input is too long for requested model."), &aycoder.ContextTooLargeError{}, "too long"},
		{"error of the transport", chunked(text...) + unmodelled, &aycoder.StreamBrokenError{}, "lost it"},
		{"error inside of a chunk", chunked(append(text[:3:3], `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)...), &aycoder.OverloadedError{}, "busy"},
		{"no end", chunked(text...), &aycoder.StreamBrokenError{}, "before the message was complete"},
		{"cut", chunked(ended...)[:300], &aycoder.StreamBrokenError{}, "inside an event"},
		{"no bytes", string(eventstream.AppendEvent(nil, "chunk", `{}`)), &aycoder.StreamBrokenError{}, "chunk without bytes"},
		{"no JSON", string(eventstream.AppendEvent(nil, "chunk", `{`)), &aycoder.StreamBrokenError{}, "unexpected end"},
		{"no base64", string(eventstream.AppendEvent(nil, "chunk", `{"bytes":"%"}`)), &aycoder.StreamBrokenError{}, "illegal base64"},
		{"server-sent events", helloStream, &aycoder.BadRequestError{}, "message_start"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, answered("application/vnd.amazon.eventstream", tt.body), WithBedrock("us-east-1"))
			a := ask(c)
			if tt.want == nil {
				require.NoError(t, a.err)
				assert.Equal(t, "hi", a.text)
				assert.True(t, a.done)
				return
			}
			require.IsType(t, tt.want, a.err)
			assert.ErrorContains(t, a.err, tt.text)
		})
	}
}

// Hosts do not support a breakpoint that moves by itself, so it is set on the last user
// message. Without it each body begins with the previous one.
func TestMark(t *testing.T) {
	const mark = `,"cache_control":{"type":"ephemeral"}`
	c := newClient(t, nil, WithBedrock("us-east-1"))
	all := history(20)
	var before []byte
	for n := 1; n <= len(all); n += 2 {
		body, err := c.wire(&aycoder.Request{Messages: all[:n]})
		require.NoError(t, err)
		require.True(t, json.Valid(body))
		require.Equal(t, 1, bytes.Count(body, []byte(mark)))
		body = bytes.Replace(body, []byte(mark), nil, 1)
		require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), "step %d", n)
		before = body
	}
	opaque := &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(`{"type":"x","cache_control":{"type":"ephemeral"}}`)}
	tests := []struct {
		name string
		req  aycoder.Request
		want int
	}{
		{"nothing", aycoder.Request{}, 0},
		{"not wanted", aycoder.Request{NoCache: true, Messages: all}, 0},
		{"the model speaks last", aycoder.Request{Messages: all[:2]}, 1},
		{"one of the caller's own", aycoder.Request{Messages: []*aycoder.Message{
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{opaque, &aycoder.Text{Text: "a"}}}}}, 1},
		{"with system and tools", aycoder.Request{Messages: all, System: []*aycoder.Text{{Text: "s"}}, Tools: []*aycoder.ToolSpec{{Name: "t"}}}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := c.wire(&tt.req)
			require.NoError(t, err)
			assert.True(t, json.Valid(body))
			assert.Equal(t, tt.want, bytes.Count(body, []byte(`"cache_control"`)), "%s", body)
		})
	}
}

func TestOutput(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`
	const bound = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"integer","description":"(minimum 1)"}},"required":["a"],"additionalProperties":false}}}`
	bedrock := []Option{WithBedrock("us-east-1")}
	tests := []struct {
		name, model, schema string
		opts                []Option
		extra               string
		want                string // in the body
	}{
		{"new model", "claude-sonnet-4-5", schema, nil, "", bound},
		{"new model on bedrock", "us.anthropic.claude-opus-4-6-v1", schema, bedrock, "", bound},
		{"beside an effort", "claude-opus-4-6", schema, nil, `{"effort":"low"}`, `"output_config":{"effort":"low","format":{"type":"json_schema",`},
		{"the caller's own", "claude-opus-4-6", schema, nil, `{"format":{"type":"x"}}`, `"output_config":{"format":{"type":"x"}}`},
		{"in words", "claude-opus-4-6", `{"type":"object","additionalProperties":{}}`, nil, "",
			`"system":[{"type":"text","text":"Answer with one JSON document and nothing else. It must fit this JSON Schema:\n{\"type\":\"object\",\"additionalProperties\":{}}"`},
		{"old model", "claude-sonnet-4-20250514", schema, nil, "", ""},
		{"vertex", "claude-sonnet-4-5", schema, []Option{WithVertex("p", "eu")}, "", ""},
		{"gateway", "claude-sonnet-4-5", schema, []Option{WithBaseURL("http://localhost:1")}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, nil, tt.opts...)
			req := &aycoder.Request{Model: tt.model, NoCache: true,
				Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(tt.schema)}}
			if tt.extra != "" {
				req.Extra = map[string]json.RawMessage{"output_config": json.RawMessage(tt.extra), "z": json.RawMessage("1")}
			}
			body, err := c.wire(req)
			require.NoError(t, err)
			assert.True(t, json.Valid(body), "%s", body)
			assert.Equal(t, tt.want != "", c.FormatsOutput(tt.model))
			assert.Contains(t, string(body), tt.want)
			assert.LessOrEqual(t, strings.Count(string(body), `"output_config"`), 1)
			if tt.want == "" {
				assert.NotContains(t, string(body), `"required"`)
			}
		})
	}
	a := askFor(t.Context(), newClient(t, nil), &aycoder.Request{Model: "claude-opus-4-6",
		Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`[]`)}})
	_, ok := errors.AsType[*aycoder.BadRequestError](a.err)
	require.True(t, ok)
	assert.ErrorContains(t, a.err, `output "x": schema is not a JSON object`)
}
