// Merge merges two changes of a file, as git merge-file -p does: merge OURS BASE THEIRS
// prints the merged text. The exit status is the number of conflicts, at most 127, or 255 if
// the files cannot be merged. It refuses binary files.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/aycoder/aycoder/merge"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// refused is the exit status when nothing was merged. Lower ones are numbers of conflicts.
const refused = 255

// run returns the exit status.
func run(names []string, stdout, stderr io.Writer) int {
	if len(names) != 3 {
		fmt.Fprintln(stderr, "usage: merge OURS BASE THEIRS")
		return refused
	}
	var texts [3][]byte
	for i, name := range names {
		var err error
		if texts[i], err = os.ReadFile(name); err != nil {
			fmt.Fprintln(stderr, "merge:", err)
			return refused
		}
	}
	ours, base, theirs := texts[0], texts[1], texts[2]
	r := merge.Merge(base, ours, theirs, merge.WithLabels(names[1], names[0], names[2]), merge.WithMarkerSize(7))
	if r.Binary { // in a conflict of such files, r.Bytes has no markers and nothing of theirs
		fmt.Fprintln(stderr, "merge: cannot merge binary files")
		return refused
	}
	suggest(r, stderr)
	if _, err := stdout.Write(r.Bytes()); err != nil {
		fmt.Fprintln(stderr, "merge:", err)
		return refused
	}
	return min(r.Conflicts(), 127)
}

// suggest shows what the conflicts could be resolved by. It decides nothing: that would be
// r.Resolve(i, merge.ChooseSuggestion).
func suggest(r merge.Result, w io.Writer) {
	spans := r.Spans() // in the merged text
	for i, g := range r.Regions {
		if g.Kind == merge.Conflict && g.Suggestion != nil {
			fmt.Fprintf(w, "the conflict in line %d could be: %s", spans[i].FirstLine+1, g.Suggestion.Text)
		}
	}
}
