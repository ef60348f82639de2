package resolve

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTOMLValues(t *testing.T) {
	got := map[string]string{}
	for key, v := range TOML([]byte(`
# a comment
title = "a \"b\" \u00e9" # another
[a.b."c.d"]
x = 'raw \n'
list = [ "one", # first
  'two', ["three"] ]
inline = { path = "../x", deep.er = true, list = ["y"] }
[[bin]]
name = "first"
[[bin]]
path = """
two
lines"""
[target.'cfg(unix)'.dependencies]
dep.workspace = true
`)) {
		got[strings.ReplaceAll(key, TOMLSep, "/")] = strings.Join(v, "|")
	}
	require.Equal(t, map[string]string{
		"title": `a "b" é`, "a/b/c.d/x": `raw \n`, "a/b/c.d/list": "one|two|three", "a/b/c.d/inline/path": "../x",
		"a/b/c.d/inline/deep/er": "true", "a/b/c.d/inline/list": "y", "bin/0/name": "first", "bin/1/path": "\ntwo\nlines",
		"target/cfg(unix)/dependencies/dep/workspace": "true",
	}, got)
}

// A long name of a table before many short keys does not make all of them long.
func TestTOMLMemory(t *testing.T) {
	var text strings.Builder
	text.WriteString("[" + strings.Repeat("a", 900) + "]\n")
	for i := range 100_000 {
		text.WriteString(strconv.Itoa(i) + "=1\n")
	}
	size := 0
	for key := range TOML([]byte(text.String())) {
		size += len(key)
	}
	require.Less(t, size, 16*text.Len())
}

func FuzzBuildFiles(f *testing.F) {
	f.Add([]byte("[a]\nb = [1, {c = 'd'}]\n[[e]]\nf.g = \"\"\"h"))
	f.Add([]byte("target_include_directories(a PUBLIC ${X}/b c) -I d -iquote e"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		TOML(data)
		optionDirs(data)
		cmakeDirs(data)
	})
}
