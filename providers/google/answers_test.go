package google

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Every answer that was written for the project decodes to what the documentation says.
func TestAnswers(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/gemini", 75, func(name string, rt http.RoundTripper) aycoder.ModelClient {
		if name == "vertex" {
			return newClient(t, rt, WithVertex("p", "global"))
		}
		return newClient(t, rt)
	})
}
