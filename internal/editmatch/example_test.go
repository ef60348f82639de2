package editmatch_test

import (
	"errors"
	"fmt"

	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/merge"
)

// A model wrote four spaces for each tab. The place is found, and what is written
// has tabs.
func ExamplePlan() {
	file := "func f() {\n\tif ok {\n\t\tg()\n\t}\n}\n"
	r, err := editmatch.Plan([]byte(file), []editmatch.Edit{{
		Old: "    if ok {\n        g()\n    }",
		New: "    if ok {\n        g()\n        h()\n    }",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(r.Text))
	fmt.Println(r.Matches[0].Changes[0].Level)
	// Output:
	// func f() {
	// 	if ok {
	// 		g()
	// 		h()
	// 	}
	// }
	// indentation
}

// The user has changed a line that the model wants to keep. The edit is made to the
// text that the model saw, and that is merged into the file.
func ExampleApply() {
	shown := []byte("one\ntwo\nthree\nfour\n")
	file := []byte("one\ntwo\nthree\nby the user\n")
	_, err := editmatch.Apply(file, shown, []editmatch.Edit{{Old: "two\nthree\nfour", New: "2\nthree\nfour"}})
	if e, ok := errors.AsType[*editmatch.Error](err); ok && e.Kind == editmatch.Stale {
		fmt.Print(string(merge.Merge(shown, file, e.Plan.Text).Bytes()))
	}
	// Output:
	// one
	// 2
	// three
	// by the user
}

// An ambiguous edit is refused, with a text for the model.
func ExampleError() {
	_, err := editmatch.Plan([]byte("a\nb\na\n"), []editmatch.Edit{{Old: "a", New: "c"}})
	fmt.Println(err)
	// Output:
	// edit 1: old_string occurs 2 times, in lines 1, 3; take in more of the lines around it, or set replace_all
}
