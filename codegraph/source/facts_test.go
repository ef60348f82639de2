package source_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

var kindNames = []string{"func", "method", "type", "class", "interface", "const", "var", "field", "module", "macro"}

// show writes facts one a line, with the beginning of the body of each declaration.
func show(src string, f *source.Facts) string {
	var b strings.Builder
	for _, i := range f.Imports {
		fmt.Fprintf(&b, "import %d %s", i.Kind, i.Path)
		if i.Within != "" {
			fmt.Fprintf(&b, " in %s", i.Within)
		}
		for _, n := range i.Names {
			if n.As != "" && !strings.HasSuffix(i.Path, n.As) {
				fmt.Fprintf(&b, " as %s", n.As)
			}
		}
		b.WriteByte('\n')
	}
	for _, d := range f.Decls {
		if d.Parent >= 0 {
			fmt.Fprintf(&b, "%s.", f.Decls[d.Parent].Name)
		}
		if d.Of != "" {
			fmt.Fprintf(&b, "(%s) ", d.Of)
		}
		fmt.Fprintf(&b, "%s %s", d.Name, kindNames[d.Kind])
		if !d.Exported {
			b.WriteString(" private")
		}
		if d.Body.End > 0 {
			fmt.Fprintf(&b, " %.12q…", src[d.Body.Start:d.Body.End])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The samples declare and import these, as read by hand.
var sampleFacts = map[source.Language]string{
	source.Rust: `
import 0 std::fmt
import 0 std::io
import 0 std::io::Read as _
import 2 crate::a::b::C
import 2 crate::a::b::d as e
import 2 crate::a::b::*
import 6 unix.rs as imp
import 0 crate::a::z
import 0 super::S in inner
import 0 super::super::S in inner::deeper
import 6 file in inner::deeper
S type
(S) fmt method "{\n        le"…
helper macro private
Tr interface
Tr.N const
Tr.m method "{ [0; 3] }"…
Tr.n method
inner module private
inner.f func "{}"…
inner.deeper module private
c func private
match func "{ || {} }"…
G var private
`,
	source.Java: `
import 0 java.util.*
import 0 a.c.K.MAX
import 0 a.c.D
Foo class
Foo.XS field private
Foo.YS field private
Foo.map field
Foo.Foo method "{ this.x = x"…
Foo.get method "{ D.call(u);"…
Foo.size method
Foo.Kind type
Kind.A field
Kind.B field
Kind.n field
Kind.Kind method "{}"…
Foo.P class
P.P method "{ check(x); "…
Foo.I interface
Foo.Ann interface
Ann.value method
Foo.text field
`,
	source.C: `
import 5 stdio.h
import 0 a/b.h
import 0 live.h
MAX macro
point type
point.x field
point.y field
point_t type
point_p type
color type
color.RED field
color.GREEN field
names var private
other var private
callback var
add func
old func private "{ return a +"…
branch func "{\n  if (x) {"…
after func "{ return &p-"…
n module
n.V class
V.V method "{}"…
V.~V method
V.operator== method "{ return o.b"…
V.f method
V.b field
(V) g method "{ auto s = R"…
`,
	"csharp": `
B module
B.Foo class
Foo.X field
Foo.path field private
Foo.Go method "{ return awa"…
Foo.Y field
Foo.E type
E.A field
E.B field
`,
	"kotlin": `
P class
P.z field private
P.(List) go method "{\n        re"…
P.short method
top func "{ println(\"}"…
`,
	"ruby": `
A module
A.B class
B.(self) go method "\n      x.map"…
B.one method
`,
}

func TestSampleFacts(t *testing.T) {
	for lang, src := range samples {
		require.Equal(t, strings.TrimPrefix(sampleFacts[lang], "\n"), show(src, source.Scan(lang, []byte(src), source.All)), lang)
		checkTokens(t, lang, []byte(src))
		checkFacts(t, lang, []byte(src))
	}
}

// Uses are those of other files, and not of locals, members of values and what is declared there.
func TestSampleUses(t *testing.T) {
	for lang, want := range map[source.Language]string{
		source.Rust: "Clone Debug Fn Ok S T cfg char deny derive expr helper i32 macro_rules missing_docs path str u8 unix usize x " +
			"crate::a.write fmt.Display fmt.Formatter fmt.Result self::imp.go",
		source.Java: "Ann Comparable D E HashMap I List MAX Map Override Q String T U check f init name permits put record sealed value x D.call",
		source.C:    "ATTR DECLARE_THING RED T V W X __cplusplus a b branch foo fwd helper p point puts n.V",
	} {
		var got []string
		for _, u := range source.Scan(lang, []byte(samples[lang]), source.All).Uses {
			got = append(got, strings.TrimPrefix(u.Of+"."+u.Name, "."))
		}
		require.Equal(t, want, strings.Join(got, " "), lang)
	}
}

// A quote that begins no string is not part of a name: in OCaml it is before the parameter of a type, and in Julia it
// transposes.
func TestQuotesAreNotNames(t *testing.T) {
	for lang, src := range map[source.Language]string{
		"ocaml": "type 'a tree = Leaf | Node of 'a tree\n", "julia": "struct tree\n c = a' * b'\nend\n",
	} {
		f := source.Scan(lang, []byte(src), source.All)
		require.Equal(t, "tree type\n", show(src, f), lang)
		require.False(t, slices.ContainsFunc(f.Uses, func(u source.Use) bool { return u.Name[0] == '\'' }), "%v", f.Uses)
	}
}

// skeleton returns a source with a text in place of each body.
func skeleton(src []byte, f *source.Facts, placeholder string) (out []byte) {
	at := int32(0)
	for _, d := range f.Decls {
		if d.Body.Start < d.Body.End && d.Body.Start >= at {
			out = append(append(out, src[at:d.Body.Start]...), placeholder...)
			at = d.Body.End
		}
	}
	return append(out, src[at:]...)
}

// A skeleton is still a file that the compiler can parse.
func TestSkeletonsParse(t *testing.T) {
	for _, tt := range []struct {
		lang  source.Language
		every int // a compiler is slow to start
		args  []string
	}{
		{source.Rust, 10, []string{"rustc", "-Zunpretty=ast-tree", "--edition=2024"}},
		{source.Java, 60, []string{"javac", "-XDshould-stop.at=PARSE", "-XDshould-stop.ifNoError=PARSE", "-proc:none"}},
	} {
		t.Run(string(tt.lang), func(t *testing.T) {
			if _, err := exec.LookPath(tt.args[0]); err != nil {
				t.Skip(err)
			}
			files := realFiles(t, tt.lang, os.Getenv("AYCODER_REPOS"))
			for i, p := range slices.Sorted(maps.Keys(files)) {
				if i%tt.every > 0 {
					continue
				}
				out := filepath.Join(t.TempDir(), filepath.Base(p))
				require.NoError(t, os.WriteFile(out, skeleton(files[p], source.Scan(tt.lang, files[p], source.All), "{}"), 0o600))
				cmd := exec.Command(tt.args[0], append(tt.args[1:], out)...)
				cmd.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1")
				answer, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %.1000s", p, answer)
			}
		})
	}
}

// The facts of a file that no person wrote are bounded.
func TestFactsAreBounded(t *testing.T) {
	timed.Serial(t)
	const most = 1 << 16
	lines := func(line string) []byte {
		var out []byte
		for n := range most + 10 {
			out = append(out, strings.ReplaceAll(line, "N", strconv.Itoa(n))...)
		}
		return out
	}
	for lang, line := range map[source.Language]string{
		source.Python: "xN = 1\n", source.TypeScript: "let xN = 1\n", source.Rust: "fn xN() {}\n",
		source.C: "#define xN\n", source.Java: "class XN {}\n", "ruby": "def xN; end\n",
	} {
		require.LessOrEqual(t, len(source.Scan(lang, lines(line), source.All).Decls), most, lang)
	}
	for lang, line := range map[source.Language]string{
		source.Python: "import xN\n", source.TypeScript: "import 'xN'\n", source.Rust: "use xN;\n",
		source.C: "#include <xN>\n", source.Java: "import xN;\n",
	} {
		require.Len(t, source.Scan(lang, lines(line), source.All).Imports, most, lang)
		require.Len(t, source.Scan(lang, lines(line), source.ImportsOnly).Imports, most, lang)
	}
}
