package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// I have greeted Ada.
}

// The program is the first thing that a reader of README.md sees: 30 lines of code.
func TestProgramIsSmall(t *testing.T) {
	src, err := os.ReadFile("main.go")
	require.NoError(t, err)
	code := regexp.MustCompile(`(?m)^\s*[^/\s].*$`).FindAll(src, -1)
	require.LessOrEqual(t, len(code), 30)
}
