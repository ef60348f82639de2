// The command vet is go vet on source alone: it reads the types of imported packages from their
// source, where go vet compiles them. For another system, whose compiled packages nothing else needs,
// that takes a sixth of the time. The environment variables GOOS and GOARCH select the system.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
