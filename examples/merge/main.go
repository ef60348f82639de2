// Merge merges two changes of a file, as git merge-file -p does: merge OURS BASE THEIRS
// prints the merged text. The exit status is 0 if it is clean and 1 if it has conflicts.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/aycoder/aycoder/merge"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit status.
func run(names []string, stdout, stderr io.Writer) int {
	if len(names) != 3 {
		fmt.Fprintln(stderr, "usage: merge OURS BASE THEIRS")
		return 2
	}
	var texts [3][]byte
	for i, name := range names {
		var err error
		if texts[i], err = os.ReadFile(name); err != nil {
			fmt.Fprintln(stderr, "merge:", err)
			return 2
		}
	}
	ours, base, theirs := texts[0], texts[1], texts[2]
	r := merge.Merge(base, ours, theirs, merge.WithLabels(names[0], names[1], names[2]))
	suggest(r, stderr)
	if _, err := stdout.Write(r.Bytes()); err != nil {
		fmt.Fprintln(stderr, "merge:", err)
		return 2
	}
	if !r.Clean() {
		return 1
	}
	return 0
}

// suggest shows what the conflicts could be resolved by. It decides nothing: that would be
// r.Resolve(i, merge.ChooseSuggestion).
func suggest(r merge.Result, w io.Writer) {
	for _, g := range r.Regions {
		if g.Kind == merge.Conflict && g.Suggestion != nil {
			fmt.Fprintf(w, "line %d could be: %s", g.Ours.FirstLine+1, g.Suggestion.Text)
		}
	}
}
