package retrieval_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/retrieval"
)

// factsOf returns the declarations of a Go file, from go/parser.
func factsOf(tb testing.TB, src []byte) *source.Facts {
	tb.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.ParseComments)
	require.NoError(tb, err)
	f := &source.Facts{Language: source.Go}
	span := func(from, to token.Pos) source.Span {
		return source.Span{Start: int32(fset.Position(from).Offset), End: int32(fset.Position(to).Offset)}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			from := d.Pos()
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
			kind, of := source.Func, ""
			if d.Recv != nil {
				kind, of = source.Method, "T"
			}
			f.Decls = append(f.Decls, source.Decl{Name: d.Name.Name, Kind: kind, Of: of, Parent: -1, At: span(from, d.End())})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					f.Decls = append(f.Decls, source.Decl{Name: t.Name.Name, Kind: source.Type, Parent: -1, At: span(d.Pos(), d.End())})
				}
			}
		}
	}
	return f
}

// checkChunks checks what holds for all chunks.
func checkChunks(t *testing.T, path string, src []byte, chunks []retrieval.Chunk) {
	t.Helper()
	ids, covered := map[string]bool{}, 0
	for _, c := range chunks {
		require.False(t, ids[c.ID], "%s twice", c.ID)
		ids[c.ID] = true
		require.Equal(t, path, c.Path)
		require.True(t, c.Start < c.End && c.End <= len(src))
		require.LessOrEqual(t, c.End-c.Start, 2200)
		require.Empty(t, bytes.TrimSpace(src[covered:max(covered, c.Start)]), "left out before %d", c.Start)
		require.Greater(t, c.End, covered)
		covered = c.End
		require.Equal(t, 1+bytes.Count(src[:c.Start], []byte("\n")), c.Line)
		require.Equal(t, 1+bytes.Count(src[:c.End-1], []byte("\n")), c.EndLine)
	}
	require.Empty(t, bytes.TrimSpace(src[covered:]))
}

// Chunks cover real files, and do not divide a declaration that is small enough.
func TestChunksOfGo(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	whole, n := 0, 0
	for path, src := range goFiles(t, 3<<20) {
		facts := &source.Facts{}
		if _, err := parser.ParseFile(token.NewFileSet(), "", src, 0); err == nil {
			facts = factsOf(t, src)
		}
		chunks := retrieval.Chunks(path, src, facts)
		checkChunks(t, path, src, chunks)
		for _, d := range facts.Decls {
			if d.At.End-d.At.Start > 2000 {
				continue
			}
			n++
			for _, c := range chunks {
				if c.Start <= int(d.At.Start) && int(d.At.End) <= c.End {
					whole++
					break
				}
			}
		}
	}
	require.Greater(t, n, 1000)
	require.Equal(t, n, whole)
}

func TestChunks(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("\tx = x + 1\n", 60) // 660 bytes
	src := []byte("package p\n\nimport \"fmt\"\n\n// A does.\nfunc A() {\n" + body + "}\n\nfunc (t T) B() {\n" + body + "}\n\ntype C int\n\nfunc D() {\n" +
		strings.Repeat(body, 5) + "}\n")
	var got []string
	chunks := retrieval.Chunks("a.go", src, factsOf(t, src))
	checkChunks(t, "a.go", src, chunks)
	for _, c := range chunks {
		got = append(got, fmt.Sprintf("%s %s %d-%d", c.Kind, c.Name, c.Line, c.EndLine))
		require.Equal(t, source.Go, c.Language)
	}
	require.Equal(t, []string{"func A 1-67", "method T.B 69-132"}, got[:2])
	require.True(t, strings.HasPrefix(got[2], "func D 13"), got)
	require.Equal(t, "func D", got[len(got)-1][:6])

	// A class that is too large is divided into its methods.
	method := "    def %s(self):\n" + strings.Repeat("        x = 1\n", 50)
	text := "class K:\n" + fmt.Sprintf(method, "a") + fmt.Sprintf(method, "b") + fmt.Sprintf(method, "c") + "    last = 1\n"
	at := func(name string) source.Span {
		start := strings.Index(text, "    def "+name)
		return source.Span{Start: int32(start), End: int32(start + 717)}
	}
	facts := &source.Facts{Language: source.Python, Decls: []source.Decl{
		{Name: "K", Kind: source.Class, Parent: -1, At: source.Span{End: int32(len(text))}},
		{Name: "a", Kind: source.Method, At: at("a")}, {Name: "b", Kind: source.Method, At: at("b")}, {Name: "c", Kind: source.Method, At: at("c")},
	}}
	chunks = retrieval.Chunks("k.py", []byte(text), facts)
	checkChunks(t, "k.py", []byte(text), chunks)
	got = nil
	for _, c := range chunks {
		got = append(got, c.Kind+" "+c.Name)
	}
	require.Equal(t, []string{"method K.a", "method K.b", "method K.c"}, got)
	require.Empty(t, retrieval.Chunks("x", []byte(" \n\n"), nil))
}

// The chunks before and behind a change keep their IDs, also those that are equal to another.
func TestChunkIDs(t *testing.T) {
	t.Parallel()
	var src []byte
	for i := range 20 {
		src = fmt.Appendf(src, "func F%d() {\n%s}\n\n", i%15, strings.Repeat("\tcall()\n", 60+i%15))
	}
	src = append([]byte("package p\n\n"), src...)
	idsOf := func(src []byte) map[string]bool {
		out := map[string]bool{}
		for _, c := range retrieval.Chunks("a.go", src, factsOf(t, src)) {
			out[c.ID] = true
		}
		return out
	}
	before := idsOf(src)
	after := idsOf(bytes.Replace(src, []byte("func F7() {\n"), []byte("func F7() {\n\tanother()\n"), 1))
	changed := 0
	for id := range after {
		if !before[id] {
			changed++
		}
	}
	require.Equal(t, 1, changed)
	require.Equal(t, len(before), len(after))
}

// Whatever the facts say, the chunks cover the file.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("package p\n\nfunc a() {\n}\n"), int64(1))
	f.Fuzz(func(t *testing.T, src []byte, seed int64) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		src = bytes.Repeat(src, 1+rnd.IntN(100))
		facts := &source.Facts{}
		for range rnd.IntN(20) {
			d := source.Decl{Name: "x", Kind: source.DeclKind(rnd.IntN(10)), Parent: int32(rnd.IntN(len(facts.Decls)+1) - 1)}
			d.At.Start, d.At.End = int32(rnd.IntN(len(src)+1)), int32(rnd.IntN(len(src)+2))
			facts.Decls = append(facts.Decls, d)
		}
		checkChunks(t, "f", src, retrieval.Chunks("f", src, facts))
	})
}
