package anthropic

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Every answer that was written for the project decodes to what the documentation says.
func TestAnswers(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/messages", 70, func(_ string, rt http.RoundTripper) aycoder.ModelClient {
		return newClient(t, rt)
	})
}

// The same API in the frames of Amazon Bedrock.
func TestAnswersOfBedrock(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/bedrock-invoke", 40, func(_ string, rt http.RoundTripper) aycoder.ModelClient {
		return newClient(t, rt, WithBedrock("us-east-1"))
	})
}
