package shell

import (
	"maps"
	"slices"
)

// AnalyzeBare is Analyze that lets panics through.
func AnalyzeBare(script string, w World) *Analysis { return analyze(script, w) }

// Refuse is why a script is not parsed.
func Refuse(script string) string { return refuse(script) }

// MaxScript is how much of a script is looked at, in bytes.
const MaxScript = maxScript

// Programs are the programs, and subcommands of git, that may run unasked.
func Programs() []string {
	names := slices.Collect(maps.Keys(tables().rows))
	for sub := range tables().gitRows {
		names = append(names, "git "+sub)
	}
	slices.Sort(names)
	return names
}
