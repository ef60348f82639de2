package source_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

// unique stands for a name that occurs nowhere else.
const unique = "\x00"

// pieces are what slow inputs are made of, in all languages and in one.
var pieces = map[source.Language][]string{
	"": strings.Fields(unique + ` a T , ; . .. : :: ( ) { } [ ] < > = == => -> * & ! | ? @ # \ " ' / /* */ // 1 0x ( ) { }`),

	source.Go:         strings.Fields("func type struct interface map chan case switch if else for range := ... ` var package return select"),
	source.Python:     strings.Fields(`def class import from as if for lambda with async f" f' """ ''' : \n not in global yield`),
	source.TypeScript: strings.Fields("function class import export from type interface const let ` ${ } /[ => ... enum namespace declare async get < /> </a> as"),
	source.Rust:       strings.Fields(`fn mod use struct impl trait enum pub r# r#" b" macro_rules! ! where let match 'a <'a $`),
	source.Java:       strings.Fields(`class interface import package enum record public void static """ @A new int extends throws default`),
	source.C:          strings.Fields(`#include #define #if #endif #else struct class namespace template typedef enum R"( int void static operator ~ \ extern`),
}

// genericPieces are those of the languages that have only the generic scanner: the words that begin, change and end
// a declaration in one of them, and the marks of their comments and strings.
var genericPieces = strings.Fields(unique + ` a , ; . : = ( ) { } [ ] < > @ # \ " ' / /* */ 1
	def func class module package const var end private do rescue self
	-- --[[ ]] [[ {- -} (* *) #= =# =begin =end % """ @" $@" '''`)

// generic are the languages that have only the generic scanner. The files of the last one are read as those of any other.
var generic = []source.Language{
	"kotlin", "swift", "scala", "groovy", "protobuf", "zig", "lua", "sql", "haskell", "ocaml", "erlang", "julia", "ruby", "perl",
	"shell", "r", "elixir", "csharp", "dart", "php",
}

// A shape is a source in four parts: the first and third are there once, and the others fill it, each repeated. So
// something can be long before something else is frequent, and what opens can be closed again.
type shape [4][]string

// attacks are shapes that took more than a hundred times as long as they should at some time.
var attacks = map[source.Language][]shape{
	source.Go: {{{"package a\n"}, {"//\n"}, {"var ("}, {"a = 1;"}}, {nil, {"func a() {"}, nil, {"}"}}},
	source.Python: {
		{{"from a import "}, {"b", ","}}, {{"from a import "}, {unique, ","}}, {{"f'"}, {"{"}, nil, {"}"}},
	},
	source.TypeScript: {
		{nil, {"//\n"}, {"const {"}, {"a", ","}}, {nil, {"<", ","}, nil, {">", "(", ")"}}, {nil, {"is():x?(a)\n"}},
		{nil, {"let a;"}, {"export {"}, {"a", ","}}, {{"enum a{"}, {"a", ","}}, {{"import {"}, {"a", ","}}, {nil, {"<a<"}},
		{{"let "}, {"a", ","}}, {nil, {"//\n"}, {"class a{"}, {"a", ";"}},
	},
	source.Rust: {
		{{"#["}, {"a "}, {"] type a"}, {"{}"}}, {{"use {"}, {"a", ","}}, {{"use ", strings.Repeat("aaa::", 55), "{"}, {"a", ","}},
		{{"use "}, {"a", "::", "{"}, nil, {"a", ","}},
	},
	source.Java: {
		{{"int a;"}, {"/**/"}}, {nil, {"a "}, {"="}, {"{}"}}, {nil, {"@a("}, nil, {")"}}, {nil, {"@", "a", "."}, nil, {"{}"}},
		{nil, {";/"}}, {nil, {";*/"}}, {nil, {"a["}}, {nil, {"a,"}}, {nil, {"}", ",", ",", "a"}}, {nil, {"a<"}, nil, {">"}}, {{`"""`}, {`\u0022`}}, {nil, {"class a{"}, nil, {"}"}},
	},
	source.C: {
		{{"int a;"}, {"/**/"}}, {nil, {"#a\\\r\n"}}, {nil, {"f(a)int a;", strings.Repeat("a;", 140)}}, {{"struct "}, {"a "}, nil, {"{}"}},
		{{"A::A("}, {"a "}, {"):a"}, {"{},a"}}, {{strings.Repeat("struct{", 98)}, {"int a;"}, {strings.Repeat("};", 98)}},
		{nil, {"int ", strings.Repeat("a,", 140), "a;"}},
	},
}

// source returns the source of a length.
func (s shape) source(size int) []byte {
	fill := size / 2
	if len(s[1]) == 0 || len(s[3]) == 0 {
		fill = size
	}
	var out []byte
	for i, part := range s {
		one, end := strings.Join(part, ""), len(out)+fill
		if i%2 == 0 {
			end = len(out) + 1
		}
		if one != "" && !strings.Contains(one, unique) {
			out = append(out, strings.Repeat(one, (end-len(out)+len(one)-1)/len(one))...)
		}
		for n := 0; one != "" && len(out) < end; n++ {
			out = append(out, strings.ReplaceAll(one, unique, "x"+strconv.Itoa(n))...)
		}
	}
	return out[:min(size, len(out))]
}

func (s shape) String() string {
	var out []string
	for i, part := range s {
		if text := strconv.Quote(strings.Join(part, "")); len(part) > 0 {
			if len(text) > 40 {
				text = text[:40] + "…"
			}
			out = append(out, text+[]string{"", " repeated"}[i%2])
		}
	}
	return strings.Join(out, ", ")
}

// large is the length of the sources that count.
const large = 10 << 20

// perMB returns the least processor time that a scan takes for a megabyte.
func perMB(lang source.Language, src []byte, times int) (best time.Duration) {
	for i := range times {
		start := timed.CPU() // other programs count in any other time
		source.Scan(lang, src, source.All)
		if took := timed.CPU() - start; i == 0 || took < best {
			best = took
		}
	}
	return time.Duration(float64(best) * float64(1<<20) / float64(len(src)))
}

// slowest searches for the shapes that are slowest to read: those that were slow once, all fragments of one and two
// pieces, and then changes of the slowest ones.
func slowest(t *testing.T, lang source.Language, usual time.Duration, tries int, rnd *rand.Rand) (worst []shape) {
	const size = 4 << 20 // so that bounds on what is read are reached, and what is slow without them is slowest
	all := slices.Concat(pieces[""], pieces[lang])
	if pieces[lang] == nil {
		all = slices.Clone(genericPieces)
	}
	all = append(all, " ", "\n", "\r\n", "//\n", "/**/", "")
	for i, p := range all {
		if strings.Trim(p, "abcdefghijklmnopqrstuvwxyz") == "" && len(p) > 1 {
			all[i] = " " + p + " "
		}
	}
	type found struct {
		shape
		took time.Duration
	}
	var best []found
	least := 2 * usual
	try := func(s shape) {
		if src := s.source(size / 64); len(src) > size/256 {
			small := perMB(lang, src, 1)
			if small > 20*usual { // few milliseconds: it may have been the collector of garbage
				small = perMB(lang, src, 5)
			}
			if small > 100*usual {
				t.Fatalf("64 kB of %s take %s for a megabyte", s, small) // all might take hours
			}
			if small > least {
				best = append(best, found{s, perMB(lang, s.source(size), 1)})
			}
		}
		if len(best) >= 200 {
			slices.SortFunc(best, func(a, b found) int { return int(b.took - a.took) })
			best = best[:50]
			least = max(least, best[49].took*3/4) // others would not be among the slowest
		}
	}
	known := attacks[lang]
	if lang == "csharp" || lang == "dart" { // which are read as Java is
		known = attacks[source.Java]
	}
	for _, s := range known {
		try(s)
	}
	if tries > 0 {
		for _, a := range all {
			for _, b := range all {
				try(shape{nil, {a, b}})
			}
		}
	}
	for range tries {
		if len(best) == 0 {
			break
		}
		s := best[rnd.IntN(min(len(best), 50))].shape
		i := rnd.IntN(4)
		part := slices.Clone(s[i])
		if n := len(part); n < 6 && (n == 0 || rnd.IntN(3) > 0) {
			part = slices.Insert(part, rnd.IntN(n+1), all[rnd.IntN(len(all))])
		} else {
			part[rnd.IntN(n)] = all[rnd.IntN(len(all))]
		}
		s[i] = part
		try(s)
	}
	for i := range best { // what reaches a bound behind size is less slow
		best[i].took = perMB(lang, best[i].source(large), 1)
	}
	slices.SortFunc(best, func(a, b found) int { return int(b.took - a.took) })
	for _, f := range best[:min(len(best), 5)] {
		worst = append(worst, f.shape)
	}
	return worst
}

// Sources that took long once are still read as any other.
func TestAttacks(t *testing.T) {
	for lang, shapes := range attacks {
		for _, s := range shapes {
			src := s.source(1 << 13)
			checkTokens(t, lang, src)
			checkFacts(t, lang, src)
		}
	}
}

// No input takes much longer for a megabyte than what people write. AYCODER_WORST says how many changes are tried
// for each language, beyond fragments of one and two pieces; with 0, only what was slow once is read.
func TestWorstInputs(t *testing.T) {
	tries, err := strconv.Atoi(os.Getenv("AYCODER_WORST"))
	if err != nil {
		t.Skip("AYCODER_WORST is not set: the search takes minutes")
	}
	own := []source.Language{source.Go, source.Python, source.TypeScript, source.Rust, source.Java, source.C}
	for _, lang := range slices.Concat(own, generic) {
		t.Run(string(lang), func(t *testing.T) {
			usual, longest := usualTime(t, lang)
			report := func(name string, src []byte) {
				took := perMB(lang, src, 3) // as often as the real files
				t.Logf("%s: %.1f of the median", name, float64(took)/float64(usual))
				timed.AtMost(t, took, 5*usual, name)
			}
			report("a file of one line", oneLine(lang, longest))
			for _, s := range slowest(t, lang, usual, tries, rand.New(rand.NewPCG(3, 3))) {
				report(s.String(), s.source(large))
			}
		})
	}
}

// oneLine returns a source in one line, without its comments: the first might be all of it.
func oneLine(lang source.Language, src []byte) (out []byte) {
	at := 0
	for tok := range source.Tokens(lang, src) {
		out = append(out, src[at:tok.Start]...)
		if at = int(tok.Start); tok.Kind == source.Comment {
			at = int(tok.End)
		}
	}
	return bytes.ReplaceAll(append(out, src[at:]...), []byte("\n"), []byte(" "))
}

// usualTime returns the median of the times for a megabyte of real files, and ten megabytes of such a file.
func usualTime(t *testing.T, lang source.Language) (time.Duration, []byte) {
	dirs := []string{os.Getenv("AYCODER_REPOS")}
	if lang == source.Go {
		dirs = append(dirs, "/usr/local/go/src/net", "/usr/local/go/src/go")
	}
	var took []time.Duration
	var longest []byte
	for _, src := range realFiles(t, lang, dirs...) {
		if len(src) > 4<<10 && len(took) < 300 {
			took = append(took, perMB(lang, src, 3))
		}
		if len(src) > len(longest) {
			longest = src
		}
	}
	require.NotEmpty(t, took)
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("%d files: %s for a megabyte", len(took), median)
	return median, []byte(strings.Repeat(string(longest), large/len(longest)+1))
}
