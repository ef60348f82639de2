package ollama

// Internals that external tests use.
var (
	Lines      = lines
	HostURL    = hostURL
	Parameters = parameters
)
