package openai

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Every answer that was written for the project decodes to what the documentation says.
func TestChatAnswers(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/chat", 100, func(_ string, rt http.RoundTripper) aycoder.ModelClient {
		return newChat(t, rt)
	})
}

func TestResponsesAnswers(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/responses", 60, func(_ string, rt http.RoundTripper) aycoder.ModelClient {
		return respClient(t, rt)
	})
}
