package paint_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/paint"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// golden paints in each style, and compares the result with a file of testdata. In the file, ␛
// stands for the beginning of an escape sequence. Lines must fit.
func golden(t *testing.T, name string, do func(s paint.Style) string) {
	t.Helper()
	var all strings.Builder
	for _, width := range []int{40, 60, 80, 200} {
		for _, s := range []paint.Style{
			{Color: true, Width: width}, {Width: width}, {Plain: true, Width: width},
		} {
			out := do(s)
			checkLines(t, s, out, name)
			fmt.Fprintf(&all, "==== %+v\n%s", s, out)
		}
	}
	file := filepath.Join("testdata", name+".golden")
	got := strings.ReplaceAll(all.String(), "\x1b", "␛")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, name)
}
