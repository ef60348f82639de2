package openai

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const (
	chatAnswers = "testdata/answers/chat"
	respAnswers = "testdata/answers/responses"
)

func chatAnswering(t testing.TB) func(string, http.RoundTripper) aycoder.ModelClient {
	return func(_ string, rt http.RoundTripper) aycoder.ModelClient { return newChat(t, rt) }
}

func respAnswering(t testing.TB) func(string, http.RoundTripper) aycoder.ModelClient {
	return func(_ string, rt http.RoundTripper) aycoder.ModelClient { return respClient(t, rt) }
}

// Every answer that was written for the project decodes to what the documentation says.
func TestChatAnswers(t *testing.T)      { wiretest.RunAnswers(t, chatAnswers, 110, chatAnswering(t)) }
func TestResponsesAnswers(t *testing.T) { wiretest.RunAnswers(t, respAnswers, 60, respAnswering(t)) }

// An answer that is cut anywhere ends in a typed error, or is the same answer.
func TestChatAnswersCut(t *testing.T)      { wiretest.CutAnswers(t, chatAnswers, chatAnswering(t)) }
func TestResponsesAnswersCut(t *testing.T) { wiretest.CutAnswers(t, respAnswers, respAnswering(t)) }
