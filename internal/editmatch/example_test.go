package editmatch_test

import (
	"fmt"

	"github.com/aycoder/aycoder/internal/editmatch"
)

// A model wrote four spaces for each tab. The place is found, and what is written
// has tabs.
func ExamplePlan() {
	file := "func f() {\n\tif ok {\n\t\tg()\n\t}\n}\n"
	r, err := editmatch.Plan([]byte(file), editmatch.Edit{
		Old: "    if ok {\n        g()\n    }",
		New: "    if ok {\n        g()\n        h()\n    }",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(r.Text))
	fmt.Println(r.Match.Changes[0].Level)
	// Output:
	// func f() {
	// 	if ok {
	// 		g()
	// 		h()
	// 	}
	// }
	// indentation
}

// An ambiguous edit is refused, with a text for the model.
func ExampleError() {
	_, err := editmatch.Plan([]byte("a\nb\na\n"), editmatch.Edit{Old: "a", New: "c"})
	fmt.Println(err)
	// Output:
	// old_string occurs 2 times, in lines 1, 3; take in more of the lines around it, or set replace_all
}
