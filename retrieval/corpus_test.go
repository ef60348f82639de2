package retrieval_test

import (
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// goFiles returns the source files of Go, by path, at most limit bytes of them.
func goFiles(tb testing.TB, limit int) (files map[string][]byte) {
	tb.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		tb.Skipf("the source of Go is missing: %v", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	files = map[string][]byte{}
	require.NoError(tb, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = data
		if limit -= len(data); limit < 0 {
			return fs.SkipAll
		}
		return err
	}))
	return files
}

// pieces returns n pieces of real code of about 20 lines.
func pieces(tb testing.TB, n int) (out []string) {
	tb.Helper()
	files := goFiles(tb, n*1500)
	for _, path := range sorted(files) {
		lines := strings.SplitAfter(string(files[path]), "\n")
		for len(lines) > 10 && len(out) < n {
			k := min(len(lines), 12+int(hash(lines[0]+lines[5])%16))
			out = append(out, strings.Join(lines[:k], ""))
			lines = lines[k:]
		}
	}
	require.Len(tb, out, n, "the source of Go is too small")
	return out
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// hashed stands in for an embedder: each word of a text, and each piece of four letters of it, adds to
// three of the numbers of its vector.
func hashed(text string, dim int) []float32 {
	v := make([]float32, dim)
	add := func(s string, weight float32) {
		h := hash(s)
		for range 3 {
			sign := float32(1)
			if h&1 == 0 {
				sign = -1
			}
			v[(h>>1)%uint64(dim)] += sign * weight
			h = h*0x9E3779B97F4A7C15 + 0x7F4A7C15
			h ^= h >> 29
		}
	}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		add(w, 1)
		for i := 0; i+4 <= len(w); i++ {
			add("#"+w[i:i+4], 0.5)
		}
	}
	v[0] += 0.01 // for a text without words
	return v
}
