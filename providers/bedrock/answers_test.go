package bedrock

import (
	"net/http"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// Every answer that was written for the project decodes to what the documentation says.
func TestAnswers(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/converse", 65, func(_ string, rt http.RoundTripper) aycoder.ModelClient {
		return newClient(t, rt)
	})
}
