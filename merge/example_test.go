package merge_test

import (
	"fmt"

	"github.com/aycoder/aycoder/merge"
)

// The user's edits during the agent's turn are merged with the agent's text.
func ExampleMerge() {
	base := []byte("one\ntwo\nthree\nfour\n")
	user := []byte("one\ntwo\nthree\nFOUR\n")
	agent := []byte("ONE\ntwo\nthree\nfour\n")

	r := merge.Merge(base, user, agent)
	fmt.Println(r.Clean())
	fmt.Print(string(r.Bytes()))
	// Output:
	// true
	// ONE
	// two
	// three
	// FOUR
}

// A conflict is shown region by region, with a suggestion where there is one. Nothing
// is decided until somebody decides.
func ExampleResult_Resolve() {
	base := []byte("func load(path string) error {\n")
	user := []byte("func load(path string, strict bool) error {\n")
	agent := []byte("func load(path string) (*Config, error) {\n")

	r := merge.Merge(base, user, agent, merge.WithLabels("before", "you", "agent"))
	fmt.Print(string(r.Bytes()))
	spans := r.Spans()
	for i, g := range r.Regions {
		if g.Kind != merge.Conflict || g.Suggestion == nil {
			continue
		}
		fmt.Printf("conflict in line %d, by %s: %s", spans[i].FirstLine+1, g.Suggestion.Rule, g.Suggestion.Text)
		if err := r.Resolve(i, merge.ChooseSuggestion); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("conflicts left:", r.Conflicts())
	// Output:
	// <<<<<<< you
	// func load(path string, strict bool) error {
	// =======
	// func load(path string) (*Config, error) {
	// >>>>>>> agent
	// conflict in line 1, by tokens: func load(path string, strict bool) (*Config, error) {
	// conflicts left: 0
}
