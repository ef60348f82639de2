package ollama_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/ollama"
)

// Every answer that was written for the project decodes to what the documentation says.
func TestAnswers(t *testing.T) {
	wiretest.RunAnswers(t, "testdata/answers/native", 65, func(name string, rt http.RoundTripper) aycoder.ModelClient {
		if tokens, ok := strings.CutPrefix(name, "context "); ok {
			n, err := strconv.Atoi(tokens)
			require.NoError(t, err)
			return clientOf(t, rt, ollama.WithContextLength(n))
		}
		return clientOf(t, rt)
	})
}
