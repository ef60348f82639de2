package compat

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/google"
)

const googleAnswer = `data: {"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"modelVersion":"m","responseId":"r"}` + "\r\n\r\n"

// googleBody is the body of a request. The SDK has types for its parts, but none for the
// whole: https://ai.google.dev/api/generate-content#request-body.
type googleBody struct {
	Contents          []*genai.Content        `json:"contents" api:"required"`
	SystemInstruction *genai.Content          `json:"systemInstruction"`
	Tools             []*genai.Tool           `json:"tools"`
	ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
	SafetySettings    []*genai.SafetySetting  `json:"safetySettings"`
	GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
	CachedContent     string                  `json:"cachedContent"`
	Labels            map[string]string       `json:"labels"`
}

// googleSends returns the body that the SDK sends for the decoded request.
func googleSends(t testing.TB, b *googleBody, vertex bool) []byte {
	t.Helper()
	var config genai.GenerateContentConfig
	if b.GenerationConfig != nil { // has the same fields
		data, err := json.Marshal(b.GenerationConfig)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &config))
	}
	config.SystemInstruction, config.Tools, config.ToolConfig = b.SystemInstruction, b.Tools, b.ToolConfig
	config.SafetySettings, config.CachedContent, config.Labels = b.SafetySettings, b.CachedContent, b.Labels
	return googleSDKSends(t, vertex, b.Contents, &config)
}

func googleSDKSends(t testing.TB, vertex bool, contents []*genai.Content,
	config *genai.GenerateContentConfig) []byte {
	t.Helper()
	k := &keeper{answer: googleAnswer}
	cc := &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: "key", HTTPClient: k.client()}
	if vertex {
		cc = &genai.ClientConfig{Backend: genai.BackendVertexAI, Project: "p", Location: "global", HTTPClient: k.client()}
	}
	c, err := genai.NewClient(t.Context(), cc)
	require.NoError(t, err)
	for _, err := range c.Models.GenerateContentStream(t.Context(), "m", contents, config) {
		require.NoError(t, err)
	}
	return k.body
}

func googleReads(t testing.TB, rules rules, body []byte, vertex bool) {
	t.Helper()
	var b googleBody
	if requireStrict(t, rules, body, &b) > 0 {
		return
	}
	sameBodies(t, withoutEmpty(t, body), withoutEmpty(t, googleSends(t, &b, vertex)))
}

// withoutEmpty removes parts without a meaning: the SDK omits empty fields, and adds the
// role of a system instruction.
func withoutEmpty(t testing.TB, body []byte) []byte {
	t.Helper()
	doc, err := parse(body)
	require.NoError(t, err)
	m := doc.(map[string]any)
	if sys, ok := m["systemInstruction"].(map[string]any); ok {
		delete(sys, "role")
	}
	dropEmpty(doc)
	out, err := json.Marshal(doc)
	require.NoError(t, err)
	return out
}

func dropEmpty(doc any) {
	switch doc := doc.(type) {
	case []any:
		for _, inner := range doc {
			dropEmpty(inner)
		}
	case map[string]any:
		for name, inner := range doc {
			dropEmpty(inner)
			m, isObject := inner.(map[string]any)
			if inner == "" || isObject && len(m) == 0 {
				delete(doc, name)
			}
		}
	}
}

func googleClient(t testing.TB, rt http.RoundTripper, model string, vertex bool) aycoder.ModelClient {
	t.Helper()
	opts := []google.Option{google.WithHTTPClient(&http.Client{Transport: rt}), google.WithAPIKey("key")}
	if vertex {
		opts = append(opts[:1], google.WithVertex("p", "global"), google.WithTokenSource(token))
	}
	c, err := google.New(model, opts...)
	require.NoError(t, err)
	return c
}

func googleOwn() []aycoder.Part {
	opaque := func(raw string) *aycoder.Opaque {
		return &aycoder.Opaque{Provider: "google", Raw: json.RawMessage(raw)}
	}
	return []aycoder.Part{
		&aycoder.Thinking{Text: "hm", Signature: "c2ln", Provider: "google"},
		&aycoder.Text{Text: "signed", Extra: opaque(`{"thoughtSignature":"c2lnbmF0dXJl"}`)},
		&aycoder.Text{Extra: opaque(`{"thoughtSignature":"c2lnbmF0dXJl"}`)},
		opaque(`{"executableCode":{"language":"PYTHON","code":"print(1)"}}`),
		opaque(`{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}`),
	}
}

func TestGoogle(t *testing.T) {
	rules := readRules(t, "google.golang.org/genai")
	extra := map[string]json.RawMessage{
		"safetySettings":   json.RawMessage(`[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_ONLY_HIGH"}]`),
		"generationConfig": json.RawMessage(`{"topK":3,"seed":1,"mediaResolution":"MEDIA_RESOLUTION_LOW"}`),
	}
	for _, in := range []struct {
		name, model string
		vertex      bool
	}{
		{"2.0", "gemini-2.0-flash", false}, {"2.5", "gemini-2.5-flash", false},
		{"3", "gemini-3-pro-preview", false}, {"vertex", "gemini-2.5-pro", true},
	} {
		for _, c := range cases(t, googleOwn(), extra) {
			t.Run(in.name+"/"+c.name, func(t *testing.T) {
				k := &keeper{answer: googleAnswer}
				body, err := bodyOf(t, k, googleClient(t, k, in.model, in.vertex), c.req)
				require.NoError(t, err)
				googleReads(t, rules, body, in.vertex)
			})
		}
	}
}

func TestGoogleRecorded(t *testing.T) {
	known := readRules(t, "google.golang.org/genai")
	client := func(rt http.RoundTripper, model string) aycoder.ModelClient {
		return googleClient(t, rt, model, false)
	}
	eachResent(t, "gemini", client, func(r *resent) {
		known.sent = r.sent
		t.Run(r.id, func(t *testing.T) { googleReads(t, known, r.body, false) })
	})
}
