package ollama

// What tests look at from outside.
var (
	Lines      = lines
	HostURL    = hostURL
	Parameters = parameters
)
