package shell

// AnalyzeBare is Analyze that lets panics through.
func AnalyzeBare(script string, w World) *Analysis { return analyze(script, w) }

// Refuse is why a script is not parsed.
func Refuse(script string) string { return refuse(script) }

// MaxScript is how much of a script is looked at, in bytes.
const MaxScript = maxScript
