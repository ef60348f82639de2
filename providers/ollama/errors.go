package ollama

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/api"
)

// failure takes an error answer apart, or a line that is one: {"error": "…"}. Ollama has
// texts only, and a status of 500 for much that is no fault of its own.
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
		// What the header says is what is true of these: asking again does not help.
		f.Header = f.Header.Clone()
		if f.Header == nil {
			f.Header = http.Header{}
		}
		f.Header.Set("X-Should-Retry", "false")
	}
	return f
}

// tooLong are the texts for a conversation that does not fit: of the server, of its
// runners now, and of those before.
var tooLong = []string{
	"exceeds the context length", "longer than the context length", "exceeds the available context",
	"exceeds the model's maximum context length", "exceeds maximum context length", "exceed_context_size",
}

// lasting are the texts for what stays as it is until somebody changes the machine, the
// model or the request.
var lasting = []string{
	"requires more system memory", "unable to load model", "may be incompatible with your version",
	"unknown model architecture", "unsupported model", "failed to parse grammar", "failed to load model vocabulary",
}
