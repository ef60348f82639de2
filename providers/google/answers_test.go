package google

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Every answer that was written for the project decodes to what the documentation says.
func TestAnswers(t *testing.T) {
	wiretest.RunAnswers(t, answers, 75, answering(t))
}

// An answer that is cut anywhere ends in a typed error, or is the same answer.
func TestAnswersCut(t *testing.T) { wiretest.CutAnswers(t, answers, answering(t)) }

const answers = "testdata/answers/gemini"

func answering(t testing.TB) func(name string, rt http.RoundTripper) aycoder.ModelClient {
	return func(name string, rt http.RoundTripper) aycoder.ModelClient {
		if name == "vertex" {
			return newClient(t, rt, WithVertex("p", "global"))
		}
		return newClient(t, rt)
	}
}
