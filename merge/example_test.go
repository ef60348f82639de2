package merge_test

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"

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

// After a person has taken a side, the same side is suggested for what is open, and can be taken
// for the rest of the file. A resolution can be undone.
func ExampleResult_Open() {
	base := []byte("a := 1\n\nb := 2\nc := 3\nd := 4\ne := 5\n")
	user := []byte("a := ten\n\nb := 2\nc := 3\nd := 4\ne := fifty\n")
	agent := []byte("a := one\n\nb := 2\nc := 3\nd := 4\ne := five\n")

	r := merge.Merge(base, user, agent)
	if err := r.Resolve(r.Open()[0].Region, merge.ChooseTheirs); err != nil {
		fmt.Println(err)
	}
	for _, c := range r.Open() {
		for _, s := range c.Suggestions {
			fmt.Printf("region %d, %s: %q %s\n", c.Region, s.Grade, s.Text, s.Reason("your text", "the agent's"))
		}
	}

	done, err := r.ResolveRest(0, merge.ChooseTheirs)
	fmt.Println("resolved:", done, err, "open:", len(r.Open()))
	for _, region := range done {
		if err := r.Reopen(region); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("undone, open:", len(r.Open()))
	// Output:
	// region 2, likely: "e := five\n" takes the agent's and not your text, as the last conflict before
	// resolved: [2] <nil> open: 0
	// undone, open: 1
}

// A host's own rule, or a model, proposes a text. The answer is checked, and becomes a
// suggestion.
func ExampleResult_Ask() {
	base := []byte("package p\n\nfunc f() {}\n")
	ours := []byte("package p\n\nfunc f(n int) {}\n")
	theirs := []byte("package p\n\nfunc f(s string) error { return nil }\n")
	source := merge.Source{
		Name:       "a model",
		Confidence: 0.6,
		Propose: func(_ context.Context, c merge.Sides) ([]byte, error) {
			_ = c.Question() // the prompt for the model, whose reply is:
			return merge.Answer("```go\nfunc f(n int) error { return nil }\n```")
		},
		Parses: func(file []byte) bool {
			_, err := parser.ParseFile(token.NewFileSet(), "", file, 0)
			return err == nil
		},
	}

	r := merge.Merge(base, ours, theirs)
	for _, c := range r.Open() {
		s, err := r.Ask(context.Background(), c.Region, source)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s%s\n", s.Text, s.Reason("your text", "the agent's"))
	}
	fmt.Println("open:", r.Conflicts())
	// Output:
	// func f(n int) error { return nil }
	// is from a model and leaves out s, string
	// open: 1
}
