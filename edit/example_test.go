package edit_test

import (
	"fmt"

	"github.com/aycoder/aycoder/edit"
)

// A person keeps one hunk and drops the other, and the model learns of it.
func ExamplePlan_Keep() {
	plan, _ := edit.NewPlan(edit.File{
		Path: "list.txt", Kind: edit.Change, Base: "milk\nbread\neggs\n", Proposed: "oat milk\nbread\nno eggs\n",
	})
	hunks := plan.Hunks()
	for _, h := range hunks {
		fmt.Printf("%s:%d: %q -> %q\n", h.Path, h.OldLine, h.Old, h.New)
	}
	kept, err := plan.Keep(hunks[0].ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", kept.Files()[0].Proposed)
	fmt.Print(kept.OmittedText())
	// Output:
	// list.txt:1: "milk\n" -> "oat milk\n"
	// list.txt:3: "eggs\n" -> "no eggs\n"
	// "oat milk\nbread\neggs\n"
	// The user reviewed your changes and left out a part, or changed it. Do not make these changes again unless asked to.
	//
	// list.txt: your text (-) and what was approved (+):
	// @@ line 3 @@
	// -no eggs
	// +eggs
}
