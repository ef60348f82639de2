package cases

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.txt")
	text := "What this is.\n\n=== a name\nsource: by hand: counted\n-- base --\na\n\n-- ours (escaped, noeol) --\n" +
		"\\ufeffb\\x20\n\\xff \"q\" \\\\n\n-- theirs (crlf) --\nc\nd\n-- want --\n\n=== two\nsource: x\n-- file a b --\n=======\n-- not one\n"
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	about, all, err := ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "What this is.\n", about)
	want := []Section{{"base", "a\n\n"}, {"ours", "\ufeffb \n\xff \"q\" \\n"}, {"theirs", "c\r\nd\r\n"}, {"want", ""}}
	assert.Equal(t, want, all[0].Sections)
	assert.Equal(t, "by hand: counted", all[0].Value("source"))
	assert.Equal(t, []Section{{"file a b", "=======\n-- not one\n"}}, all[1].Sections)
	assert.Equal(t, name+":16: two", all[1].Where)
	require.NoError(t, WriteFile(name, about, all))
	again, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, text, string(again))
	for _, bad := range []string{"no case", "=== a\nno key\n", "=== a\n-- b (odd) --\n", "=== a\n-- b (escaped) --\n\\q\n"} {
		require.NoError(t, os.WriteFile(name, []byte(bad), 0o600))
		_, _, err := ReadFile(name)
		assert.Error(t, err, bad)
	}
}

// Cases that the checks refuse have to fail a test: a case without a source, and one that is
// there twice.
func TestOnce(t *testing.T) {
	for want, rows := range map[int][][2]string{
		0: {{"man", "ls"}, {"man", "ls -l"}},
		1: {{"man", "ls"}, {"strace", "ls"}},
		2: {{" ", "ls"}, {"", "pwd"}},
	} {
		var seen once
		var count counter
		for _, r := range rows {
			seen.check(&count, "x", r[0], r[1])
		}
		assert.Equal(t, want, count.errors)
	}
}

type counter struct {
	testing.TB
	errors int
}

func (c *counter) Helper()               {}
func (c *counter) Errorf(string, ...any) { c.errors++ }

func FuzzSection(f *testing.F) {
	for _, s := range []string{"", "\n", "a", "a\r\nb\r\n", "a\r\nb\n", "a \n\t\n", "=== x\n-- y --\n", "\xef\xbb\xbfa\\\n", "\x00\xff\"", "\r\n\r", "a\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Case{Name: "n", Head: []Key{{"source", "fuzz"}}, Sections: []Section{{"x", text}, {"y", text}}}
		name := filepath.Join(t.TempDir(), "f")
		require.NoError(t, WriteFile(name, "", []Case{c, c}))
		_, all, err := ReadFile(name)
		require.NoError(t, err)
		for i := range all {
			require.Equal(t, c.Sections, all[i].Sections)
		}
		require.Len(t, all, 2)
	})
}
