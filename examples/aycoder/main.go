// Aycoder is a coding agent for the command line. It talks to a model about the current
// directory, shows the model's actions, and asks before a change. Without a key and
// without arguments it shows a demo with a scripted model.
package main

import (
	"os"

	"github.com/aycoder/aycoder/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
