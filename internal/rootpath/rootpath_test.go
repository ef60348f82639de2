package rootpath

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct{ path, root, rest string }{
		{"src/a.go", "", "src/a.go"},
		{".", "", "."},
		{"", "", ""},
		{"lib:", "lib", "."},
		{"lib:/", "lib", "."},
		{"lib:/src/a.go", "lib", "src/a.go"},
		{"lib:/../a", "lib", "../a"},
		{"my-lib_2.0:/a", "my-lib_2.0", "a"},
		{"LIB:/a", "LIB", "a"},
		{"lib:src/a.go", "", "lib:src/a.go"}, // a file of the first root
		{"C:/a", "", "C:/a"},                 // a drive
		{"C:", "", "C:"},
		{":/a", "", ":/a"},
		{"./lib:/a", "", "./lib:/a"},
		{"/lib:/a", "", "/lib:/a"},
		{"2lib:/a", "", "2lib:/a"},
		{"-lib:/a", "", "-lib:/a"},
		{"..:/a", "", "..:/a"},
		{"a b:/a", "", "a b:/a"},
		{"lib::/a", "", "lib::/a"},
		{"bücher:/a", "", "bücher:/a"},
		{"a/lib:/b", "", "a/lib:/b"},
		{strings.Repeat("x", 65) + ":/a", "", strings.Repeat("x", 65) + ":/a"},
	} {
		root, rest := Cut(tt.path)
		assert.Equal(t, []string{tt.root, tt.rest}, []string{root, rest}, "Cut(%q)", tt.path)
		assert.Equal(t, tt.root != "" && tt.rest == ".", IsRoot(tt.path), "IsRoot(%q)", tt.path)
	}
}

func TestClean(t *testing.T) {
	for p, want := range map[string]string{
		"./a":             "a",
		"./lib:/a":        "./lib:/a",
		"a/../lib:/b/..":  "./lib:",
		"a//b/../c":       "a/c",
		"../x":            "../x",
		"lib:":            "lib:",
		"lib:/":           "lib:",
		"lib:/./":         "lib:",
		"lib:/a/..":       "lib:",
		"lib:/a//b/../c":  "lib:/a/c",
		"lib:///etc":      "lib:/etc",
		"lib:/../x":       "lib:/../x",
		"lib:/a/../../x":  "lib:/../x",
		"lib:/..":         "lib:/..",
		"lib://../../x":   "lib:/../../x",
		"lib:src/../../x": "../x", // a file of the first root, so it leads out
	} {
		assert.Equal(t, want, Clean(p), "Clean(%q)", p)
	}
}

func FuzzClean(f *testing.F) {
	for _, p := range []string{"lib:/a/../b", "lib:/../x", "a/../lib:/x", "lib://x", "lib:"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		clean := Clean(p)
		assert.Equal(t, clean, Clean(clean))
		was, _ := Cut(p)
		if root, rest := Cut(clean); was != "" {
			assert.Equal(t, was, root)
			if !strings.HasPrefix(rest, "..") {
				assert.Equal(t, clean, Join(root, rest))
			}
		}
	})
}
