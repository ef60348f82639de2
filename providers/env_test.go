package providers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/providers/anthropic"
)

// baseVariables are all variables for URLs and keys that clients read.
var baseVariables = []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL",
	"GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL",
	"OLLAMA_HOST", "GROQ_BASE_URL", "TOGETHER_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY",
	"GEMINI_API_KEY", "GOOGLE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GROQ_API_KEY", "TOGETHER_API_KEY", "OLLAMA_API_KEY",
	"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}

// listen returns the URL of a server, and the requests that it received.
func listen(t *testing.T) (string, *[]*http.Request) {
	var got []*http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	return s.URL, &got
}

func complete(t *testing.T, c aycoder.ModelClient) {
	_, err := aycoder.Complete(t.Context(), c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
	require.Error(t, err) // the server responds with 418
}

// Requests and the key are sent to the URL in the environment, as with the services' own
// clients; an option overrides it.
func TestBaseURLOfEnvironment(t *testing.T) {
	const secret = "key-0123456789"
	for _, tt := range []struct{ model, env, suffix, keyEnv, path string }{
		{"openai/m", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY", "/v1/responses"},
		{"openai-chat/m", "OPENAI_BASE_URL", "/v1/", "OPENAI_API_KEY", "/v1/chat/completions"},
		{"anthropic/m", "ANTHROPIC_BASE_URL", "", "ANTHROPIC_API_KEY", "/v1/messages"},
		{"anthropic/m", "ANTHROPIC_BASE_URL", "/proxy", "ANTHROPIC_AUTH_TOKEN", "/proxy/v1/messages"},
		{"google/m", "GOOGLE_GEMINI_BASE_URL", "", "GEMINI_API_KEY", "/v1beta/models/m:streamGenerateContent"},
		{"google/m", "GOOGLE_GEMINI_BASE_URL", "/v1", "GOOGLE_API_KEY", "/v1/models/m:streamGenerateContent"},
		{"bedrock/m", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "", "AWS_BEARER_TOKEN_BEDROCK", "/model/m/converse-stream"},
		{"bedrock/m", "AWS_ENDPOINT_URL", "", "AWS_BEARER_TOKEN_BEDROCK", "/model/m/converse-stream"},
		{"ollama/m", "OLLAMA_HOST", "", "", "/api/chat"},
		{"groq/m", "GROQ_BASE_URL", "", "GROQ_API_KEY", "/openai/v1/chat/completions"},
		{"together/m", "TOGETHER_BASE_URL", "/v1", "TOGETHER_API_KEY", "/v1/chat/completions"},
	} {
		t.Run(tt.model+"/"+tt.env+tt.suffix, func(t *testing.T) {
			for _, name := range baseVariables {
				t.Setenv(name, "")
			}
			base, got := listen(t)
			t.Setenv(tt.env, base+tt.suffix)
			c, err := providers.Open(tt.model)
			require.NoError(t, err, "no key is needed there")
			if tt.keyEnv != "" {
				t.Setenv(tt.keyEnv, secret)
				c, err = providers.Open(tt.model)
				require.NoError(t, err)
			}
			complete(t, c)
			require.NotEmpty(t, *got)
			assert.Equal(t, tt.path, (*got)[0].URL.Path)
			headers := (*got)[0].Header
			sent := headers.Get("Authorization") + headers.Get("X-Api-Key") + headers.Get("X-Goog-Api-Key")
			assert.Equal(t, tt.keyEnv != "", strings.Contains(sent, secret), "%v", headers)

			*got = nil
			other, others := listen(t)
			c, err = providers.Open(tt.model, providers.WithBaseURL(other))
			require.NoError(t, err)
			complete(t, c)
			assert.Empty(t, *got, "an option wins")
			require.NotEmpty(t, *others)
			assert.NotContains(t, fmt.Sprint((*others)[0].Header), secret)

			t.Setenv(tt.env, "ftp://nowhere")
			_, err = providers.Open(tt.model)
			var config *aycoder.ConfigError
			require.ErrorAs(t, err, &config)
			assert.Equal(t, tt.env, config.Option)
		})
	}
}

// Requests to a cloud are sent to the URL in the environment.
func TestBaseURLOfClouds(t *testing.T) {
	for env, opts := range map[string][]anthropic.Option{
		"ANTHROPIC_BEDROCK_BASE_URL": {anthropic.WithBedrock("us-east-1"), anthropic.WithAPIKey("k-0123456789")},
		"ANTHROPIC_VERTEX_BASE_URL":  {anthropic.WithVertex("p", "global"), anthropic.WithAPIKey("k-0123456789")},
	} {
		base, got := listen(t)
		t.Setenv(env, base)
		c, err := anthropic.New("m", opts...)
		require.NoError(t, err)
		complete(t, c)
		assert.Len(t, *got, 1, env)
	}
}
