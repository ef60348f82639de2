package diff3

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// merged merges texts whose lines are separated by blanks, in style diff3.
func merged(base, ours, theirs string, o Options) string {
	cut := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(strings.ReplaceAll(s, " ", "\n") + "\n")
	}
	r := Merge(cut(base), cut(ours), cut(theirs), o)
	out := render(r, Format{}, unresolved)
	return strings.TrimSuffix(strings.ReplaceAll(string(out), "\n", " "), " ")
}

func TestMerge(t *testing.T) {
	touching := Options{Style: StyleDiff3, Touching: true}
	diff3, zdiff3 := Options{Style: StyleDiff3}, Options{Style: StyleZdiff3}
	tests := []struct {
		name, base, ours, theirs string
		o                        Options
		want                     string
	}{
		{"one side", "a b c", "a x c", "a b c", diff3, "a x c"},
		{"a line between", "a b c", "x b c", "a b y", diff3, "x b y"},
		{"no line between", "a b c", "x b c", "a y c", diff3, "<<<<<<< x b ||||||| a b ======= a y >>>>>>> c"},
		{"touching on request", "a b c", "x b c", "a y c", touching, "x y c"},
		{"touching the other way round", "a b c", "a y c", "x b c", touching, "x y c"},
		{"touching deletion", "a b c", "b c", "a y c", touching, "y c"},
		{"touching thrice", "a b c d", "x b y d", "a p c q", touching, "x p y q"},
		{"insertion beside a change", "a b c", "a i b c", "a y c", touching, "a <<<<<<< i b ||||||| b ======= y >>>>>>> c"},
		{"overlap", "a b c d", "a x y d", "a b z d", touching, "a <<<<<<< x y ||||||| b c ======= b z >>>>>>> d"},
		{"the same change", "a b c", "a x c", "a x c", diff3, "a x c"},
		{"the same insertion", "a c", "a x c", "a x c", diff3, "a x c"},
		{"a shared head", "a c", "a x y c", "a x z c", Options{}, "a x <<<<<<< y ======= z >>>>>>> c"},
		{"a shared head in diff3", "a c", "a x y c", "a x z c", diff3, "a <<<<<<< x y ||||||| ======= x z >>>>>>> c"},
		{"a shared head in zdiff3", "a c", "a x y c", "a x z c", zdiff3, "a x <<<<<<< y ||||||| ======= z >>>>>>> c"},
		{
			"near conflicts are joined", "a b c d e", "1 b 2 d e", "3 b 4 d e", Options{},
			"<<<<<<< 1 b 2 ======= 3 b 4 >>>>>>> d e",
		},
		{"everything deleted", "a b", "", "", diff3, ""},
		{"deleted and changed", "a b", "", "a x", diff3, "<<<<<<< ||||||| a b ======= a x >>>>>>>"},
		{"all empty", "", "", "", diff3, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, merged(tt.base, tt.ours, tt.theirs, tt.o))
		})
	}
}

func TestMarkers(t *testing.T) {
	base := []byte("a\n")
	ours := []byte("b\n<<<<<<<<< not a marker\n")
	theirs := []byte("c\n")
	r := Merge(base, ours, theirs, Options{})
	f := Format{Ours: "mine\nnot this", Theirs: "yours"}
	grown := strings.Repeat("<", 10) + " mine\n"
	assert.True(t, bytes.HasPrefix(render(r, f, unresolved), []byte(grown)), "markers grow")
	long := Merge(base, ours, append(theirs, strings.Repeat("=", 251)+"\n"+strings.Repeat(">", 5000)...), Options{})
	assert.True(t, bytes.HasPrefix(render(long, f, unresolved), []byte(grown)), "but not without end")
	theirs = append(theirs, strings.Repeat("|", 250)+"\n"+strings.Repeat(">", 251)...)
	x := triple{base, ours, theirs}
	checkMerge(t, "long runs", x, Merge(base, ours, theirs, Options{Style: StyleDiff3}))
	f.MarkerSize = 7
	assert.True(t, bytes.HasPrefix(render(r, f, unresolved), []byte("<<<<<<< mine\n")), "size as asked for")

	r = Merge([]byte("a"), []byte("b"), []byte("c"), Options{Style: StyleDiff3})
	want := "<<<<<<< o\nb\n|||||||\na\n=======\nc\n>>>>>>>\n"
	assert.Equal(t, want, string(render(r, Format{Ours: "o"}, unresolved)))

	r = Merge([]byte("x\r\na\r\n"), []byte("x\r\nb\r\n"), []byte("x\r\nc"), Options{})
	assert.Equal(t, "x\r\n<<<<<<<\r\nb\r\n=======\r\nc\r\n>>>>>>>\r\n", string(render(r, Format{}, unresolved)))
}

// Where one side changed all line endings, git finds a conflict, and so do we: with a
// suggestion that has the other side's changes in the new line endings.
func TestLineEndings(t *testing.T) {
	tests := []struct {
		name, base, ours, theirs string
		conflicts                int
		suggested                string // the text when all conflicts are resolved as suggested
	}{
		{"ours to CRLF", "a\nb\nc\n", "a\r\nb\r\nc\r\n", "a\nB\nc\n", 1, "a\r\nB\r\nc\r\n"},
		{"theirs to CRLF", "a\nb\nc\n", "a\nB\nc\n", "a\r\nb\r\nc\r\n", 1, "a\r\nB\r\nc\r\n"},
		{"to LF", "a\r\nb\r\nc", "a\nb\nc", "a\r\nb\r\nC", 1, "a\nb\nC"},
		{"mixed to LF", "a\r\nb\nc\n", "a\nb\nc\n", "A\r\nb\nc\n", 1, "A\nb\nc\n"},
		{"mixed to LF, around lines that were LF", "a\r\nb\nc\r\n", "a\nb\nc\n", "A\r\nB\nc\r\n", 1, "A\nB\nc\n"},
		{"new line at the end", "a\nb\n", "a\r\nb\r\n", "a\nb\nc", 1, "a\r\nb\r\nc"},
		{"both to CRLF", "a\nb\n", "a\r\nb\r\n", "a\r\nb\r\n", 0, "a\r\nb\r\n"},
		{"nothing else to merge", "a\nb\n", "a\r\nb\r\n", "a\nb\n", 0, "a\r\nb\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := triple{[]byte(tt.base), []byte(tt.ours), []byte(tt.theirs)}
			r := Merge(x.base, x.ours, x.theirs, Options{})
			checkMerge(t, tt.name, x, r)
			assert.Equal(t, tt.conflicts, r.Conflicts())
			out := render(r, Format{}, func(i int) ([][]byte, bool) {
				s := r.Regions[i].Suggestion
				if s == nil {
					return nil, false
				}
				assert.Equal(t, RuleEndings, s.Rule)
				return [][]byte{s.Text}, true
			})
			assert.Equal(t, tt.suggested, string(out))
		})
	}
}

func TestBinary(t *testing.T) {
	a, b, c := []byte("a\x00\n"), []byte("b\x00\n"), []byte("c\n")
	tests := []struct {
		name               string
		base, ours, theirs []byte
		kind               Kind
	}{
		{"unchanged", a, a, a, Unchanged},
		{"ours", a, b, a, Ours},
		{"theirs", a, a, b, Theirs},
		{"both", a, b, b, Both},
		{"conflict", a, b, c, Conflict},
		{"became binary", c, b, nil, Conflict},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Merge(tt.base, tt.ours, tt.theirs, Options{})
			checkMerge(t, tt.name, triple{tt.base, tt.ours, tt.theirs}, r)
			assert.True(t, r.Binary)
			assert.Len(t, r.Regions, 1)
			assert.Equal(t, tt.kind, r.Regions[0].Kind)
			want := tt.ours
			if tt.kind == Theirs {
				want = tt.theirs
			}
			assert.Equal(t, string(want), string(render(r, Format{}, unresolved)))
		})
	}
}

func TestSuggest(t *testing.T) {
	tests := []struct {
		name, base, ours, theirs string
		rule                     string
		from                     Kind
		want                     string
	}{
		{"tokens", "f(a, b, c)\n", "f(x, b, c)\n", "f(a, b, z)\n", RuleTokens, Both, "f(x, b, z)\n"},
		{"a token that both changed", "a b c d\n", "x b c d\n", "x b c e\n", RuleContained, Theirs, "x b c e\n"},
		{"the higher version", "v = 0.51.1\n", "v = 0.72.1\n", "v = 0.51.0\n", RuleContained, Ours, "v = 0.72.1\n"},
		{"the longer number", "n = 8\n", "n = 9\n", "n = 10\n", RuleContained, Theirs, "n = 10\n"},
		{"a version in quotes", "\"^1.2\"\n", "\"^1.10\"\n", "\"^1.9.1\"\n", RuleContained, Ours, "\"^1.10\"\n"},
		{"the same version, written otherwise", "\"1.1\"\n", "\"^1.2\"\n", "\"~1.2\"\n", "", 0, ""},
		{"a version with a suffix", "v = 1.0-rc1\n", "v = 1.0\n", "v = 1.0-rc2\n", "", 0, ""},
		{"strings are whole", "s = \"a b\"\n", "s = \"x b\"\n", "s = \"a y\"\n", "", 0, ""},
		{"contained", "a\n", "a\nb\n", "a\nc\nb\n", RuleContained, Theirs, "a\nc\nb\n"},
		{"a larger deletion", "a b c d e f\n", "a b c d f\n", "a f\n", RuleLarger, Theirs, "a f\n"},
		{
			"deletion of what was changed a little", "one two\nthree four\nfive six\nseven eight\n", "",
			"one two\nthree 4\nfive six\nseven eight\n", RuleDeletion, Ours, "",
		},
		{"deletion of what was changed much", "one two\n", "", "one 2 three\n", RuleFile, Theirs, "one 2 three\n"},
		{"touching", "a b c d\nf g h i\n", "x b c d\nf g h i\n", "a b c d\nf g h y\n", RuleTouching, Both, "x b c d\nf g h y\n"},
		{"white space", "a b\nc\n", "\ta b\n\tc\n", "d\n", RuleSuperset, Theirs, "d\n"},
		{"in another order", "a\n", "b\na c d\n", "c\na e\n", "", 0, ""},
		{"a superset in another order", "a\n", "b\na c d\n", "d\na b c e\n", RuleSuperset, Theirs, "d\na b c e\n"},
		{"line endings", "a\nb\nc\n", "a\r\nb\r\nc\r\n", "y\nb\n", RuleEndings, Both, "y\r\nb\r\n"},
		{"line endings and more", "a\nb\nc\n", "a\r\nb\r\nx\r\n", "y\nb\nz\n", "", 0, ""},
		{
			"imported names", "from m import b, d\n", "from m import b, c, d\n", "from m import a, b, d\n",
			RuleImports, Both, "from m import a, b, c, d\n",
		},
		{
			"new imported names", "import { b } from 'm';\n", "import { b, c } from 'm';\n",
			"import { b, d } from 'm';\n", RuleImports, Both, "import { b, c, d } from 'm';\n",
		},
		{"all names removed", "use a::{b};\n", "use a::{};\n", "use a::{b, c};\n", RuleImports, Both, "use a::{c};\n"},
		{"new imports", "", "import a\nimport d\n", "import b\n", RuleImports, Both, "import a\nimport b\nimport d\n"},
		{
			"new Go imports", "", "\t\"x/a\"\n\tm \"x/c\"\n", "\t\"x/b\"\n",
			RuleImports, Both, "\t\"x/a\"\n\t\"x/b\"\n\tm \"x/c\"\n",
		},
		{"nothing in common", "a\n", "b\n", "c\n", "", 0, ""},
		{"both deleted all", "a\n", "", "", RuleContained, Both, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := suggested(triple{[]byte(tt.base), []byte(tt.ours), []byte(tt.theirs)})
			if tt.rule == "" {
				if s != nil {
					t.Fatalf("%s suggests %q", s.Rule, s.Text)
				}
				return
			}
			if assert.NotNil(t, s) {
				assert.Equal(t, tt.want, string(s.Text))
				assert.Equal(t, tt.rule, s.Rule)
				assert.Equal(t, tt.from, s.From)
			}
		})
	}
}

// Only the first conflicts of a large merge are looked into, so that it does not take long.
func TestSuggestBounded(t *testing.T) {
	file := func(word string) []byte {
		var b bytes.Buffer
		for i := range 200 {
			fmt.Fprintf(&b, "%s%s\nline %d\n1\n2\n3\n4\n", strings.Repeat("x ", maxConflict/2-50), word, i)
		}
		return b.Bytes()
	}
	r := Merge(file("b"), file("b c"), file("b d c"), Options{})
	looked := 0
	for _, g := range r.Regions {
		if g.Suggestion != nil {
			looked++
		}
	}
	assert.Equal(t, 200, r.Conflicts())
	assert.GreaterOrEqual(t, looked, maxConflicts/maxConflict)
	assert.Less(t, looked, maxConflicts/maxConflict+10)
}
