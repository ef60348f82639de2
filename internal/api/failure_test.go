package api

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sse"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// failing returns an exchange in which every response has the status and body.
func failing(status int, body string, h http.Header) *Exchange {
	c := NewConfig("test", "http://service.test")
	if err := c.SetKey("key", "sk-SECRET-0123456789"); err != nil {
		panic(err)
	}
	i := &wiretest.Interaction{}
	i.Response.Status = status
	i.Response.Headers = map[string]string{}
	for k := range h {
		i.Response.Headers[k] = h.Get(k)
	}
	c.do = (&http.Client{Transport: i.Transport(body, 1<<20)}).Do
	return &Exchange{
		Config: &c, Model: "m-1", URL: "http://service.test/x",
		Encode:     func() (*Payload, error) { return &Payload{}, nil },
		SetHeaders: func(http.Header) {},
		Decode:     func(k *Call) Decoder { return failDecoder{k} },
	}
}

// failDecoder treats every event as a failure.
type failDecoder struct{ k *Call }

func (d failDecoder) Event(ev sse.Event) (bool, error) {
	return true, d.k.Fail(ParseFailure([]byte(ev.Data), nil))
}
func (d failDecoder) Whole(data string) error { return d.k.Fail(ParseFailure([]byte(data), nil)) }
func (d failDecoder) End() error              { return ErrUnfinished }

func lastError(seq iter.Seq2[aycoder.ModelEvent, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

func typeName(err error) string { return strings.TrimPrefix(fmt.Sprintf("%T", err), "*aycoder.") }

func TestFailures(t *testing.T) {
	const (
		auth    = "AuthError"
		bad     = "BadRequestError"
		rate    = "RateLimitError"
		over    = "OverloadedError"
		large   = "ContextTooLargeError"
		model   = "UnknownModelError"
		refusal = "RefusalError"
		late    = "TimeoutError"
		plain   = "ModelError"
		broken  = "StreamBrokenError"
	)
	openai := func(msg, typ, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, msg, typ, code)
	}
	amazon := func(msg string) string { return fmt.Sprintf(`{"message":%q}`, msg) }
	google := func(code int, status, msg string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q}}`, code, msg, status)
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   string
		actual int64
		max    int64
	}{
		{"anthropic too long", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, large, 210000, 200000},
		{"anthropic with the answer", 400, openai("input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length", "invalid_request_error", ""), large, 211333, 200000},
		{"anthropic body too large", 413, openai("Request exceeds the maximum size", "request_too_large", ""), large, 0, 0},
		{"openai too long", 400, openai("This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.", "invalid_request_error", "context_length_exceeded"), large, 150000, 128000},
		{"openai responses too long", 400, openai("Your input exceeds the context window of this model. Please adjust your input and try again.", "invalid_request_error", "context_length_exceeded"), large, 0, 0},
		{"openai one request over the limit", 429, openai("Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 50000. The input or output tokens must be reduced in order to run successfully.", "tokens", "rate_limit_exceeded"), large, 50000, 30000},
		{"vllm too long", 400, openai("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion).", "BadRequestError", "400"), large, 5000, 4096},
		{"vllm prompt", 400, `{"object":"error","message":"The decoder prompt (length 1500) is longer than the maximum model length of 1024.","type":"BadRequestError","param":null,"code":400}`, large, 1500, 1024},
		{"openrouter too long", 400, `{"error":{"message":"This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens (2500021 of text input).","code":400}}`, large, 2500021, 200000},
		{"gemini too long", 400, google(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), large, 1200000, 1048576},
		{"gemini too long as a limit", 429, google(429, "RESOURCE_EXHAUSTED", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), large, 1200000, 1048576},
		{"bedrock too long", 400, amazon("Input is too long for requested model."), large, 0, 0},
		{"xai too long", 400, `{"code":"invalid-argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, large, 537812, 131072},
		{"mistral too long", 400, `{"object":"error","message":"Prompt contains 200,000 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_prompt_too_long","code":"3051"}`, large, 200000, 131072},
		{"llama.cpp too long", 400, `{"error":{"code":400,"message":"the request exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`, large, 5000, 4096},
		{"llama.cpp, numbers that say nothing", 400, `{"error":{"code":400,"message":"too large","type":"exceed_context_size_error","n_prompt_tokens":-1,"n_ctx":4096}}`, large, 0, 0},
		{"vllm answer too long", 400, openai("'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length is 4096 tokens and your request has 3900 input tokens (500 > 4096 - 3900). None", "BadRequestError", "400"), large, 4400, 4096},
		{"lm studio too long", 400, `{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`, large, 5000, 4096},
		{"length before limit", 400, openai("The total length of 140000 tokens exceeds the context window of 131072 tokens.", "", "context_length_exceeded"), large, 140000, 131072},
		{"moonshot too long", 400, openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", "invalid_request_error", ""), large, 300000, 262144},
		{"copilot too long", 400, openai("prompt token count of 150000 exceeds the limit of 128000", "", "model_max_prompt_tokens_exceeded"), large, 150000, 128000},
		{"tgi too long", 422, `{"error":"Input validation error: ` + "`inputs`" + ` must have less than 4096 tokens. Given: 5021","error_type":"validation"}`, large, 5021, 4096},
		{"openai body too large", 413, openai("Maximum content size limit (26214400) exceeded (26988112 bytes read)", "server_error", ""), large, 0, 0},
		{"groq per minute", 413, openai("Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested 7000", "tokens", "rate_limit_exceeded"), large, 7000, 6000},

		{"openai rate limit", 429, openai("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29421, Requested 1206. Please try again in 1.254s.", "tokens", "rate_limit_exceeded"), rate, 0, 0},
		{"bedrock throttling", 429, amazon("Too many tokens, please wait before trying again."), rate, 0, 0},
		{"gemini quota", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: free_tier_input token count, limit: 125000"), rate, 0, 0},
		{"openrouter from behind", 429, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"x is temporarily rate-limited upstream","provider_name":"Groq"}}}`, rate, 0, 0},
		{"plain 429", 429, ``, rate, 0, 0},

		{"quota that is used up", 429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), auth, 0, 0},
		{"wrong key", 401, openai("Incorrect API key provided: sk-SECRET-0123456789.", "invalid_request_error", "invalid_api_key"), auth, 0, 0},
		{"wrong key of a kind that is not", 401, openai("Unauthorized", "api_error", ""), auth, 0, 0},
		{"google key", 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, auth, 0, 0},
		{"fastapi", 401, `{"detail":"Could not parse your authentication token."}`, auth, 0, 0},
		{"no money", 402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), auth, 0, 0},
		{"no credit", 400, openai("Your credit balance is too low to access the API.", "invalid_request_error", ""), auth, 0, 0},
		{"bedrock without a form", 404, amazon("Model use case details have not been submitted for this account."), auth, 0, 0},
		{"anthropic filter", 400, openai("Output blocked by content filtering policy", "invalid_request_error", ""), refusal, 0, 0},
		{"bedrock on demand", 400, amazon("Invocation of model ID x with on-demand throughput isn't supported."), model, 0, 0},
		{"cloudflare", 524, "", late, 0, 0},
		{"forbidden", 403, `{"error":{"code":"forbidden","message":"Forbidden"}}`, auth, 0, 0},

		{"openai model", 404, openai("The model `gpt-9` does not exist or you do not have access to it.", "invalid_request_error", "model_not_found"), model, 0, 0},
		{"anthropic model", 404, openai("model: claude-9", "not_found_error", ""), model, 0, 0},
		{"mistral model", 400, `{"object":"error","message":"Invalid model: x","type":"invalid_model","param":null,"code":"1500"}`, model, 0, 0},
		{"openrouter model", 400, `{"error":{"message":"x/y is not a valid model ID","code":400}}`, model, 0, 0},
		{"gemini model", 404, google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta"), model, 0, 0},
		{"ollama model", 404, `{"error":"model 'x:latest' not found"}`, model, 0, 0},
		{"bedrock model", 400, amazon("The provided model identifier is invalid."), model, 0, 0},
		{"bedrock old model", 404, amazon("This model version has reached the end of its life."), model, 0, 0},
		{"openrouter without a host", 404, `{"error":{"message":"No endpoints found for x/y.","code":404}}`, model, 0, 0},
		{"a model that is told of", 400, openai("model: it is wrong", "invalid_request_error", ""), bad, 0, 0},
		{"azure deployment", 404, openai("The API deployment for this resource does not exist.", "", "DeploymentNotFound"), model, 0, 0},

		{"wrong address", 404, `{"error":{"code":"404","message": "Resource not found"}}`, bad, 0, 0},
		{"parameter of a model", 400, openai("Unsupported parameter: 'stop' is not supported with this model.", "invalid_request_error", "unsupported_parameter"), bad, 0, 0},
		{"effort of a model", 400, openai("This model does not support effort level 'xhigh'.", "invalid_request_error", ""), bad, 0, 0},
		{"validation list", 422, `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"}]}`, bad, 0, 0},
		{"response that is gone", 400, openai("Previous response with id 'resp_1' not found.", "invalid_request_error", "previous_response_not_found"), bad, 0, 0},

		{"azure filter", 400, openai("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "", "content_filter"), refusal, 0, 0},
		{"overloaded", 529, openai("Overloaded", "overloaded_error", ""), over, 0, 0},
		{"server", 500, openai("error: something", "server_error", "500"), over, 0, 0},
		{"server that blames the request", 500, openai("oops", "invalid_request_error", ""), over, 0, 0},
		{"unavailable", 503, google(503, "UNAVAILABLE", "The model is overloaded."), over, 0, 0},
		{"web page", 504, "<html><h1>504 Gateway Time-out</h1></html>", late, 0, 0},
		{"teapot", 418, "short and stout", bad, 0, 0},

		{"limit in a stream", 200, "event: error\ndata: " + `{"type":"error","code":"rate_limit_exceeded","message":"slow down"}` + "\n\n", rate, 0, 0},
		{"too long in a stream", 200, "data: " + `{"error":{"code":400,"message":"maximum context length is 10 tokens"}}` + "\n\n", large, 0, 10},
		{"status in a stream", 200, "data: " + `{"error":{"code":502,"message":"bad gateway"}}` + "\n\n", over, 0, 0},
		{"filter in a document", 200, `{"error":{"code":"content_filter","message":"filtered"}}`, refusal, 0, 0},
		{"nothing known in a stream", 200, "data: {\"error\":{\"message\":\"oops\"}}\n\n", broken, 0, 0},
		{"failed response", 200, "data: " + `{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}` + "\n\n", over, 0, 0},
		{"openai id that is too long", 400, openai("Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 53 instead.", "invalid_request_error", "string_above_max_length"), bad, 0, 0},
		{"lm studio too long", 400, `{"error":"The model is loaded with context length of only 4096 tokens, which is not enough."}`, large, 0, 4096},
		{"lm studio too long on the way", 400, `{"error":"Reached context length of 4096 tokens with model (arch: llama) that does not currently support mid-generation context overflow."}`, large, 0, 4096},
		{"sglang too long", 400, openai("The input (40000 tokens) is longer than the model's context length (32768 tokens).", "BadRequestError", "400"), large, 40000, 32768},
		{"tokens a minute of many requests", 429, `{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`, rate, 0, 0},
		{"tokens a day of many requests", 429, `{"message":"Tokens per day limit exceeded - too many tokens processed."}`, rate, 0, 0},
		{"quota in a stream", 200, `data: {"message":"x","code":"token_quota_exceeded"}` + "\n\n", rate, 0, 0},
		{"xai key", 400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***yz."}`, auth, 0, 0},
		{"no balance as a limit", 429, `{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}`, auth, 0, 0},
		{"copilot model", 400, openai("The requested model is not supported.", "invalid_request_error", "model_not_supported"), model, 0, 0},
		{"litellm budget", 429, openai("Budget has been exceeded! Current cost: 1.0, Max budget: 0.5", "budget_exceeded", "429"), auth, 0, 0},
		{"litellm key", 400, openai("Authentication Error, LiteLLM Virtual Key expected.", "auth_error", "400"), auth, 0, 0},
		{"proxy", 407, "<html>Proxy Authentication Required</html>", auth, 0, 0},
		{"tgi in a stream", 0, `{"error":{"message":"Input validation error: x","http_status_code":422}}`, bad, 0, 0},
		{"groq capacity", 498, openai("Flex tier capacity exceeded, please try again later", "invalid_request_error", "capacity_exceeded"), over, 0, 0},
		{"openai policy", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_request_error", "invalid_prompt"), refusal, 0, 0},
		{"openai prompt that is wrong", 400, openai("Invalid prompt: it is empty.", "invalid_request_error", "invalid_prompt"), bad, 0, 0},
		{"own number in a stream, filter", 200, `data: {"error":{"code":"1301","message":"System detected potentially unsafe or sensitive content in input or generation."}}` + "\n\n", refusal, 0, 0},
		{"own number in a stream, minimax filter", 200, `data: {"error":{"code":1026,"message":"input new_sensitive"}}` + "\n\n", refusal, 0, 0},
		{"own number in a stream, request", 200, `data: {"error":{"code":"3051","message":"Invalid request"}}` + "\n\n", bad, 0, 0},
		{"own number in a stream, key", 200, `data: {"error":{"code":1004,"message":"authentication failed"}}` + "\n\n", auth, 0, 0},
		{"own number in a stream", 200, `data: {"error":{"code":600,"message":"x"}}` + "\n\n", broken, 0, 0},
		{"invalid request as a limit", 429, openai("Invalid request rate", "", ""), rate, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := lastError(failing(tt.status, tt.body, nil).Stream(t.Context()))
			require.Equal(t, tt.want, typeName(err), "%v", err)
			base, ok := errors.AsType[*aycoder.ModelError](err)
			require.True(t, ok)
			assert.Equal(t, "test", base.Provider)
			assert.Equal(t, "m-1", base.Model)
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, base), "SECRET")
			if e, ok := errors.AsType[*aycoder.ContextTooLargeError](err); ok {
				assert.Equal(t, [2]int64{tt.actual, tt.max}, [2]int64{e.Actual, e.Max}, "%v", err)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	now := time.Now()
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	tests := []struct {
		name  string
		h     http.Header
		body  string
		after time.Duration
		reset time.Duration // from now, within a second
	}{
		{"seconds", header("Retry-After", "7"), `{}`, 7 * time.Second, 0},
		{"milliseconds", header("Retry-After-Ms", "1254", "Retry-After", "2"), `{}`, 1254 * time.Millisecond, 0},
		{"google", nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36.5s"}]}}`, 36500 * time.Millisecond, 0},
		{"text", nil, `{"error":{"message":"Please try again in 6m1.5s."}}`, 6*time.Minute + 1500*time.Millisecond, 0},
		{"text of azure", nil, `{"error":{"message":"Please retry after 13 seconds."}}`, 13 * time.Second, 0},
		{"text without an amount", nil, `{"error":{"message":"Please retry after some time"}}`, 0, 0},
		{"openai headers", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s", "X-Ratelimit-Remaining-Requests", "9", "X-Ratelimit-Reset-Requests", "10m"), `{}`, 0, 6 * time.Minute},
		{"anthropic headers", header("Anthropic-Ratelimit-Requests-Reset", now.Add(time.Hour).UTC().Format(time.RFC3339)), `{}`, 0, time.Hour},
		{"seconds since 1970", header("X-Ratelimit-Reset", fmt.Sprint(now.Add(time.Minute).Unix())), `{}`, 0, time.Minute},
		{"openrouter headers in the body", nil, fmt.Sprintf(`{"error":{"code":429,"message":"x","metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"%d"}}}}`, now.Add(time.Minute).UnixMilli()), 0, time.Minute},
		{"draft of the IETF", header("Ratelimit-Reset", "30"), `{}`, 0, 30 * time.Second},
		{"nonsense", header("Retry-After", "-3", "X-Ratelimit-Reset", "soon", "Retry-After-Ms", "1e300"), `{}`, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := lastError(failing(http.StatusTooManyRequests, tt.body, tt.h).Stream(t.Context()))
			e, ok := errors.AsType[*aycoder.RateLimitError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, tt.after, e.RetryAfter)
			if tt.reset == 0 {
				assert.Zero(t, e.ResetAt)
				return
			}
			// A service says whole seconds, and some say how long from now.
			assert.False(t, e.ResetAt.Before(now.Add(tt.reset-time.Second)), e.ResetAt)
			assert.False(t, e.ResetAt.After(time.Now().Add(tt.reset)), e.ResetAt)
		})
	}
}

// Some services write another time than seconds or an HTTP date into Retry-After.
func TestOddRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(26 * 365 * 24 * time.Hour) // from 2000 on, where seconds since 1970 are few
		at := time.Now().Add(time.Minute)
		for value, want := range map[string]time.Duration{
			"60": time.Minute, "60.0": time.Minute, "60s": time.Minute, "1m": time.Minute, at.UTC().Format(http.TimeFormat): time.Minute,
			at.Format(time.RFC3339): time.Minute, fmt.Sprint(at.Unix()): time.Minute, fmt.Sprint(at.UnixMilli()): time.Minute,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): 0, "soon": 0, "-1": 0, "": 0,
		} {
			err := lastError(failing(http.StatusTooManyRequests, `{}`, http.Header{"Retry-After": {value}}).Stream(t.Context()))
			e, ok := errors.AsType[*aycoder.RateLimitError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, want, e.RetryAfter, value)
		}
	})
}

// Every recorded failure has a type that determines the reaction.
func TestRecordedFailures(t *testing.T) {
	types := map[string]int{}
	n := 0
	wiretest.Each(t, func(r *wiretest.Recording) {
		for _, i := range r.Interactions {
			if i.Expected == nil || i.Expected.Error == nil || i.Expected.Error.Where != "status" {
				continue
			}
			h := http.Header{}
			for k, v := range i.Response.Headers {
				h.Set(k, v)
			}
			err := lastError(failing(i.Response.Status, i.Body(), h).Stream(t.Context()))
			base, ok := errors.AsType[*aycoder.ModelError](err)
			require.True(t, ok, "%s/%d: %v", r.ID, i.Seq, err)
			assert.Equal(t, i.Response.Status, base.Status, r.ID)
			assert.NotEqual(t, reflect.TypeFor[*aycoder.ModelError](), reflect.TypeOf(err), "%s/%d has no class: %v", r.ID, i.Seq, err)
			if want := i.Expected.Error.Message; !strings.HasPrefix(want, "<") {
				assert.Contains(t, base.Err.Error(), want[:min(len(want), 1000)], r.ID)
			}
			types[typeName(err)]++
			n++
		}
	})
	t.Logf("%d failures: %v", n, types)
	assert.Greater(t, n, 60)
}

func FuzzFailure(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"try again in 3s, 10 > 5","code":429,"details":[{"retryDelay":"1s"}]}}`), 429)
	f.Add([]byte(`[{"error":{"message":["x"]}}]`), 400)
	f.Add([]byte("<html>"), 502)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		status = 300 + max(status, -status)%300
		err := lastError(failing(status, string(body), nil).Stream(t.Context()))
		base, ok := errors.AsType[*aycoder.ModelError](err)
		require.True(t, ok)
		require.NotNil(t, base.Err)
		require.Less(t, len(err.Error()), 2*maxErrorText)
		require.NotContains(t, err.Error(), "sk-SECRET-0123456789")
	})
}

// A failure with thousands of details takes no more time than reading its bytes, and no
// additional memory.
func TestManyDetails(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"error":{"message":"m","code":429,"details":[`)
	for i := range 100_000 {
		fmt.Fprintf(&b, `{"reason":"r%d"},`, i)
	}
	b.WriteString(`{"reason":"last"}],"metadata":{"headers":{`)
	for i := range 10_000 {
		fmt.Fprintf(&b, `"X-H%d":"%d",`, i, i)
	}
	b.WriteString(`"X-Last":"1"}}}}`)
	f := ParseFailure([]byte(b.String()), http.Header{"Retry-After": {"3"}})
	assert.Len(t, f.Details, maxDetails)
	assert.LessOrEqual(t, len(f.Header), maxDetails+1)
	assert.Equal(t, "3", f.Header.Get("Retry-After"))
}
