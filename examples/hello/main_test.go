package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	main()
	// Output:
	// Hello, Ada!
	// I have greeted Ada.
}

func TestProgramIsSmall(t *testing.T) {
	src, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(src), "\n"), 30)
}
