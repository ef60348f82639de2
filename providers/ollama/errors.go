package ollama

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/api"
)

// failure parses an error response, or a line with an error: {"error": "…"}. Ollama sends
// only texts, and the status 500 for many errors that are not its own.
func (c *Client) failure(data []byte, h http.Header) api.Failure {
	return failureOf(data, h, c.cfg.context)
}

func failureOf(data []byte, h http.Header, context int64) api.Failure {
	f := api.ParseFailure(data, h)
	text := strings.ToLower(f.Message)
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case slices.ContainsFunc(tooLong, has):
		f.Code = "context_length_exceeded"
		if context > 0 {
			f.Details = append(f.Details, fmt.Sprintf("num_ctx limit %d", context))
		}
	case has("pull model manifest") && has("file does not exist"):
		f.Code = "model_not_found"
	case slices.ContainsFunc(lasting, has):
		// These errors are permanent, so the header must not allow a retry.
		f.Header = f.Header.Clone()
		if f.Header == nil {
			f.Header = http.Header{}
		}
		f.Header.Set("X-Should-Retry", "false")
	}
	return f
}

// tooLong are the texts for a conversation that does not fit: those of the server, of its
// current runners, and of earlier ones.
var tooLong = []string{
	"exceeds the context length", "longer than the context length", "exceeds the available context",
	"exceeds the model's maximum context length", "exceeds maximum context length",
	"exceed_context_size",
}

// lasting are the texts of errors that persist until somebody changes the machine, the
// model or the request.
var lasting = []string{
	"requires more system memory", "unable to load model", "may be incompatible with your version",
	"unknown model architecture", "unsupported model", "failed to parse grammar",
	"failed to load model vocabulary",
}
