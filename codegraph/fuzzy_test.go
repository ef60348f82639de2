package codegraph_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// open returns a graph of files, which are pairs of a path and a text.
func open(t testing.TB, files ...string) (*codegraph.Graph, string) {
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, dir, files[i], files[i+1])
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	g, err := codegraph.New(ws)
	require.NoError(t, err)
	return g, dir
}

func write(t testing.TB, dir, name, text string) {
	name = filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestFind(t *testing.T) {
	g, _ := open(t,
		"src/user_profile.go", "package src\n", "src/profile.go", "package src\n", "src/used_proof.txt", "",
		"a/b/config.go", "package b\n", "config/a.go", "package config\n", "README.md", "", "x/HTTPServer.ts", "", "ü/größe.py", "",
	)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	for _, c := range []struct{ query, first string }{
		{"usrprof", "src/user_profile.go"},
		{"profile.go", "src/profile.go"},
		{"config", "a/b/config.go"},
		{"cfg/a", "config/a.go"},
		{"readme", "README.md"},
		{"hs", "x/HTTPServer.ts"},
		{"HTTPS", "x/HTTPServer.ts"},
		{"größ", "ü/größe.py"},
	} {
		found := s.Find(c.query, 5)
		require.NotEmpty(t, found, c.query)
		require.Equal(t, c.first, found[0].Path, "%s: %v", c.query, found)
	}
	require.Empty(t, s.Find("Readme", 5), "a capital letter counts")
	require.Empty(t, s.Find("zzz", 5))
	require.Empty(t, s.Find("", 5))
	require.Len(t, s.Find("o", 2), 2)
	require.Equal(t, s.Find("o", 100), s.Find("o", math.MaxInt))
}

// The score is the best over all ways to find the letters: it is compared with trying each.
func FuzzFind(f *testing.F) {
	for _, seed := range [][2]string{{"usp", "user_profile"}, {"aa", "aAa_a1a"}, {"1", "a1"}, {"X", "xX"}, {"é", "É"}, {"a\xff", "a\xffb"}, {" a", "a"}, {"\xc3 \x89", "É"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, query, name string) {
		letters := slices.DeleteFunc([]rune(query), unicode.IsSpace)
		if len(letters) > 6 || len(name) > 14 || len(letters) == 0 {
			codegraph.Score(query, name)
			return
		}
		exact := strings.ContainsFunc(query, unicode.IsUpper)
		best, found := 0, false
		var try func(k, from, sum int)
		in := []rune(name)
		try = func(k, from, sum int) {
			if k == len(letters) {
				if !found || sum > best {
					best, found = sum, true
				}
				return
			}
			for j := from; j < len(in); j++ {
				if in[j] != letters[k] && (exact || unicode.ToLower(in[j]) != letters[k]) {
					continue
				}
				points := 10
				if in[j] == letters[k] {
					points++
				}
				if j == 0 || wordBegins(in[j-1], in[j]) {
					points += 25
				}
				switch {
				case k > 0 && j == from:
					try(k+1, j+1, sum+points+20)
				case k > 0:
					try(k+1, j+1, sum+points-1)
				default:
					try(k+1, j+1, sum+points)
				}
			}
		}
		try(0, 0, 0)
		want := 0
		if found {
			want = best - min(len(in)-len(letters), 15)
			if len(in) == len(letters) {
				want += 40
			}
			want = max(want, 1)
		}
		require.Equal(t, want, codegraph.Score(query, name), "%q in %q", query, name)
	})
}

// wordBegins reports whether a word begins between two letters: after what is neither letter nor digit, at
// a capital letter after another, and at the first digit.
func wordBegins(before, r rune) bool {
	switch {
	case !unicode.IsLetter(before) && !unicode.IsDigit(before):
		return true
	case unicode.IsUpper(r):
		return !unicode.IsUpper(before)
	}
	return unicode.IsDigit(r) && !unicode.IsDigit(before)
}
