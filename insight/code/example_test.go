package code_test

import (
	"fmt"

	"github.com/aycoder/aycoder/insight/code"
)

func ExampleComplexity() {
	funcs, ok := code.Complexity([]byte(`package p

func (t *Tree) Find(name string) *Node {
	for _, n := range t.nodes {
		if n != nil && n.Name == name {
			return n
		}
	}
	return nil
}
`))
	fmt.Println(funcs, ok)
	// Output: [{(*Tree).Find 3 4}] true
}

func ExampleCountLines() {
	fmt.Println(code.CountLines("a.go", []byte("package a\n\n// F is empty.\nfunc F() {} // really\n")))
	// Output: 2 1 1
}
