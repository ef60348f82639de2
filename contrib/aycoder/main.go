// Aycoder is the coding agent of examples/aycoder, with the protocols that other modules bring: servers of the Model
// Context Protocol give it tools, aycoder mcp serves its own tools, aycoder acp serves the agent to editors, aycoder serve
// offers metrics to Prometheus, telemetry goes to a collector of OpenTelemetry, and aycoder models and aycoder gpu are for models on the user's own hardware.
//
//	go install github.com/aycoder/aycoder/contrib/aycoder@latest
package main

import (
	"os"

	"github.com/aycoder/aycoder/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	telemetry, end := telemetryExtension(os.Stderr)
	defer end()
	return cli.Main(compatArgs(os.Args[1:], os.Getenv(compatVariable)), append(extensions(), telemetry)...)
}

// extensions are what this program links beside the agent.
func extensions() []cli.Extension {
	return []cli.Extension{
		mcpExtension(),
		acpExtension(),
		compatExtension(),
		metricsExtension(),
		localExtension(),
	}
}
