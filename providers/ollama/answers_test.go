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
	wiretest.RunAnswers(t, answers, 65, answerClient(t))
}

// An answer that is cut anywhere ends in a typed error, or is the same answer.
func TestAnswersCut(t *testing.T) { wiretest.CutAnswers(t, answers, answerClient(t)) }

const answers = "testdata/answers/native"

func answerClient(t testing.TB) func(name string, rt http.RoundTripper) aycoder.ModelClient {
	return func(name string, rt http.RoundTripper) aycoder.ModelClient {
		if tokens, ok := strings.CutPrefix(name, "context "); ok {
			n, err := strconv.Atoi(tokens)
			require.NoError(t, err)
			return clientOf(t, rt, ollama.WithContextLength(n))
		}
		return clientOf(t, rt)
	}
}
