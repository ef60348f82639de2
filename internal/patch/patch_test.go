package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/patch"
)

const (
	begin = "*** Begin Patch\n"
	end   = "*** End Patch\n"
)

func TestParse(t *testing.T) {
	add := []patch.File{{Kind: patch.Add, Path: "n", Text: "x\n", Line: 2}}
	one := func(c patch.Chunk) []patch.File {
		return []patch.File{{Kind: patch.Update, Path: "f", Chunks: []patch.Chunk{c}, Line: 2}}
	}
	lines := func(s ...string) []string { return s }
	tests := []struct {
		name, text string
		want       []patch.File
	}{
		{"add", begin + "*** Add File: n\n+x\n" + end, add},
		{"no last line end", begin + "*** Add File: n\n+x\n*** End Patch", add},
		{"blanks at the ends of markers", "*** Begin Patch \n*** Add File:  n \n+x\n*** End Patch\t\n", add},
		{"windows", strings.ReplaceAll(begin+"*** Add File: n\n+x\n"+end, "\n", "\r\n"), add},
		{"empty file", begin + "*** Add File: n\n" + end, []patch.File{{Kind: patch.Add, Path: "n", Line: 2}}},
		{"lines of a new file", begin + "*** Add File: n\n++a\n+\n+*** End Patch\n" + end,
			[]patch.File{{Kind: patch.Add, Path: "n", Text: "+a\n\n*** End Patch\n", Line: 2}}},
		{"a blank line after a new file", begin + "*** Add File: n\n+x\n\n \n*** Delete File: f\n\n" + end,
			append(add, patch.File{Kind: patch.Delete, Path: "f", Line: 6})},
		{"a blank line after new lines", begin + "*** Update File: f\n@@\n+x\n\n" + end, one(patch.Chunk{New: lines("x"), Line: 3})},
		{"a blank line after a line that stays", begin + "*** Update File: f\n a\n+x\n\n" + end,
			one(patch.Chunk{Old: lines("a", ""), New: lines("a", "x", ""), Line: 3})},
		{"a blank line that stays", begin + "*** Update File: f\n+x\n \n" + end, one(patch.Chunk{Old: lines(""), New: lines("x", ""), Line: 3})},
		{"delete", begin + "*** Delete File: a b/c\n" + end, []patch.File{{Kind: patch.Delete, Path: "a b/c", Line: 2}}},
		{"update", begin + "*** Update File: f\n@@\n a\n-b\n+c\n" + end, one(patch.Chunk{Old: lines("a", "b"), New: lines("a", "c"), Line: 3})},
		{"without @@", begin + "*** Update File: f\n-b\n+c\n" + end, one(patch.Chunk{Old: lines("b"), New: lines("c"), Line: 3})},
		{"an empty line stays", begin + "*** Update File: f\n a\n\n-b\n" + end, one(patch.Chunk{Old: lines("a", "", "b"), New: lines("a", ""), Line: 3})},
		{"headers", begin + "*** Update File: f\n@@ class A\n@@ def f():\n-b\n" + end,
			one(patch.Chunk{Headers: lines("class A", "def f():"), Old: lines("b"), Line: 3})},
		{"numbers of a unified diff", begin + "*** Update File: f\n@@ -1,2 +3 @@ func f()\n-b\n\\ No newline at end of file\n+c\n" + end,
			one(patch.Chunk{Headers: lines("func f()"), Old: lines("b"), New: lines("c"), Numbered: true, Line: 3})},
		{"headers with @@ at their ends", begin + "*** Update File: f\n@@ class A: @@\n@@ -1 +1 @@ def f(): @@\n@@ @@\n-b\n" + end,
			one(patch.Chunk{Headers: lines("class A:", "def f():"), Old: lines("b"), Numbered: true, Line: 3})},
		{"only numbers", begin + "*** Update File: f\n@@ -1,2 +3,4 @@\n-b\n" + end, one(patch.Chunk{Old: lines("b"), Numbered: true, Line: 3})},
		{"end of file", begin + "*** Update File: f\n@@\n-b\n*** End of File\n" + end, one(patch.Chunk{Old: lines("b"), AtEnd: true, Line: 3})},
		{"a marker in the text", begin + "*** Update File: f\n *** Delete File: x\n-b\n" + end,
			one(patch.Chunk{Old: lines("*** Delete File: x", "b"), New: lines("*** Delete File: x"), Line: 3})},
		{"move", begin + "*** Update File: f\n*** Move to: g\n" + end, []patch.File{{Kind: patch.Update, Path: "f", MoveTo: "g", Line: 2}}},
		{"here document", "<<'EOF'\n" + begin + "*** Add File: n\n+x\n" + end + "EOF\n", []patch.File{{Kind: patch.Add, Path: "n", Text: "x\n", Line: 3}}},
		{"here document of a command", "apply_patch <<EOF\n" + begin + "*** Add File: n\n+x\n" + end + "EOF", []patch.File{{Kind: patch.Add, Path: "n", Text: "x\n", Line: 3}}},
		{"fence", "```diff\n\n" + begin + "*** Add File: n\n+x\n" + end + "```\n", []patch.File{{Kind: patch.Add, Path: "n", Text: "x\n", Line: 4}}},
		{"fence around a here document", "```\ncat <<-\"END\"\n" + begin + "*** Add File: n\n+x\n" + end + "END\n```", []patch.File{{Kind: patch.Add, Path: "n", Text: "x\n", Line: 4}}},
		{"blank lines between", begin + "\n*** Delete File: f\n\n\n" + end + "\n\n", []patch.File{{Kind: patch.Delete, Path: "f", Line: 3}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := patch.Parse(tt.text)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
			names, ok := patch.Paths(tt.text)
			assert.True(t, ok)
			assert.Equal(t, names, patch.Named(tt.text))
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
		says       string
	}{
		{"nothing", "", 1, "no line *** Begin Patch"},
		{"a unified diff", "--- a/f\n+++ b/f\n", 1, "does not begin with *** Begin Patch"},
		{"no end", begin + "*** Update File: f\n-a\n", 3, "ends without *** End Patch"},
		{"no end, only a beginning", begin, 1, "ends without *** End Patch"},
		{"no file", begin + end, 2, "changes no file"},
		{"no name", begin + "*** Delete File:\n" + end, 2, "names no file"},
		{"blank name", begin + "*** Add File:  \n" + end, 2, "names no file"},
		{"move to nothing", begin + "*** Update File: f\n*** Move to: \n" + end, 3, "names no file"},
		{"unknown marker", begin + "*** Rename File: f\n" + end, 2, "want one of"},
		{"text where a file belongs", begin + "hello\n" + end, 2, "want one of"},
		{"a blank line in a new file", begin + "*** Add File: f\n+a\n\n+b\n" + end, 4, "begins with +"},
		{"new file without plus", begin + "*** Add File: f\n+a\nb\n" + end, 4, "begins with +"},
		{"update of nothing", begin + "*** Update File: f\n" + end, 2, "what is changed"},
		{"a change without lines", begin + "*** Update File: f\n@@\n@@ x\n" + end, 5, "no lines"},
		{"a bad line", begin + "*** Update File: f\n@@\n a\nb\n" + end, 5, `not "b"`},
		{"no @@ after the end of the file", begin + "*** Update File: f\n-a\n*** End of File\n-b\n" + end, 5, "begins with @@"},
		{"text after the end", begin + "*** Delete File: f\n" + end + "and more\n", 4, "text after *** End Patch"},
		{"two patches", begin + "*** Delete File: f\n" + end + begin + "*** Delete File: g\n" + end, 4, "text after"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := patch.Parse(tt.text)
			e, ok := errors.AsType[*patch.Error](err)
			require.True(t, ok, "%v", err)
			assert.Contains(t, e.Error(), tt.says)
			assert.Equal(t, tt.line, e.Line)
		})
	}
}

// render writes a patch that says the same.
func render(files []patch.File) string {
	var b strings.Builder
	b.WriteString(begin)
	for _, f := range files {
		switch f.Kind {
		case patch.Add:
			b.WriteString("*** Add File: " + f.Path + "\n")
			for line := range strings.Lines(f.Text) {
				b.WriteString("+" + line)
			}
		case patch.Delete:
			b.WriteString("*** Delete File: " + f.Path + "\n")
		case patch.Update:
			b.WriteString("*** Update File: " + f.Path + "\n")
			if f.MoveTo != "" {
				b.WriteString("*** Move to: " + f.MoveTo + "\n")
			}
			for _, c := range f.Chunks {
				renderChunk(&b, c)
			}
		}
	}
	return b.String() + end
}

func renderChunk(b *strings.Builder, c patch.Chunk) {
	b.WriteString("@@\n")
	for _, h := range c.Headers {
		b.WriteString("@@ " + h + "\n")
	}
	for _, line := range c.Old {
		b.WriteString("-" + line + "\n")
	}
	for _, line := range c.New {
		b.WriteString("+" + line + "\n")
	}
	if c.AtEnd {
		b.WriteString("*** End of File\n")
	}
}

// anywhere leaves out the line numbers. Headers that look like the line numbers of a
// diff, or end in @@, are others when they are read again.
func anywhere(files []patch.File) (same bool) {
	same = true
	for i := range files {
		files[i].Line = 0
		for j := range files[i].Chunks {
			c := &files[i].Chunks[j]
			c.Line, c.Numbered = 0, false
			for _, h := range c.Headers {
				same = same && !strings.HasPrefix(h, "-") && !strings.HasSuffix(h, "@@")
			}
		}
	}
	return same
}

func FuzzPatch(f *testing.F) {
	f.Add(begin + "*** Add File: n\n+x\n" + end)
	f.Add("<<'EOF'\n" + begin + "*** Update File: f\n*** Move to: g\n@@ -1 +2 @@ class A\n@@ def f\n a\n\n-b\n+c\n*** End of File\n" + end + "EOF\n")
	f.Add("```\r\n" + begin + "*** Delete File: f\r\n" + end)
	f.Fuzz(func(t *testing.T, text string) {
		files, err := patch.Parse(text)
		if err != nil {
			e, ok := errors.AsType[*patch.Error](err)
			require.True(t, ok)
			require.True(t, e.Line >= 1 && e.Line <= strings.Count(text, "\n")+1, "%d", e.Line)
			return
		}
		require.NotEmpty(t, files)
		names, _ := patch.Paths(text)
		require.Equal(t, names, patch.Named(text))
		again, err := patch.Parse(render(files))
		require.NoError(t, err)
		if same := anywhere(files); anywhere(again) && same {
			require.Equal(t, files, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := begin + "*** Update File: f\n" + strings.Repeat("@@ func f() {\n a line\n-another line\n+one more line\n", 10_000) + end
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, err := patch.Parse(text)
		require.NoError(b, err)
	}
}
