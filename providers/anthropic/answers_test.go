package anthropic

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const (
	answers        = "testdata/answers/messages"
	bedrockAnswers = "testdata/answers/bedrock-invoke"
)

func answering(t testing.TB, opts ...Option) func(string, http.RoundTripper) aycoder.ModelClient {
	return func(_ string, rt http.RoundTripper) aycoder.ModelClient { return newClient(t, rt, opts...) }
}

// Every answer that was written for the project decodes to what the documentation says.
func TestAnswers(t *testing.T) { wiretest.RunAnswers(t, answers, 75, answering(t)) }

// An answer that is cut anywhere ends in a typed error, or is the same answer.
func TestAnswersCut(t *testing.T) { wiretest.CutAnswers(t, answers, answering(t)) }

// The same API in the frames of Amazon Bedrock.
func TestBedrockAnswers(t *testing.T) {
	wiretest.RunAnswers(t, bedrockAnswers, 50, answering(t, WithBedrock("us-east-1")))
}

func TestBedrockAnswersCut(t *testing.T) {
	wiretest.CutAnswers(t, bedrockAnswers, answering(t, WithBedrock("us-east-1")))
}
