package source_test

import (
	"fmt"
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
	"ruby":            strings.Fields(`def class end module do if`),
	"swift":           strings.Fields(`func class enum protocol var let init`),
}

// repeated returns a source of a length that repeats a fragment.
func repeated(fragment []string, size int) []byte {
	one := strings.Join(fragment, "")
	if !strings.Contains(one, unique) {
		return []byte(strings.Repeat(one, size/len(one)+1)[:size])
	}
	out := make([]byte, 0, size+len(one)+20)
	for n := 0; len(out) < size; n++ {
		out = append(out, strings.ReplaceAll(one, unique, "x"+strconv.Itoa(n))...)
	}
	return out[:size]
}

// perMB returns the shortest time that a scan takes for a megabyte.
func perMB(lang source.Language, src []byte, times int) time.Duration {
	return forMB(timed.Best(times, func() { source.Scan(lang, src, source.All) }), src)
}

func forMB(took time.Duration, src []byte) time.Duration {
	return time.Duration(float64(took) * float64(1<<20) / float64(len(src)))
}

// slowest searches for the fragment that is slowest to read when it is repeated: all of one and two pieces, and
// then changes of the slowest ones.
func slowest(lang source.Language, tries int, rnd *rand.Rand) (worst [][]string) {
	const size = 1 << 16
	all := slices.Concat(pieces[""], []string{" ", "\n"}, pieces[lang])
	for i, p := range all {
		if strings.Trim(p, "abcdefghijklmnopqrstuvwxyz") == "" && len(p) > 1 {
			all[i] = " " + p + " "
		}
	}
	type found struct {
		fragment []string
		took     time.Duration
	}
	var best []found
	try := func(fragment []string) {
		best = append(best, found{fragment, perMB(lang, repeated(fragment, size), 2)})
		if len(best) >= 200 {
			slices.SortFunc(best, func(a, b found) int { return int(b.took - a.took) })
			best = best[:50]
		}
	}
	for _, a := range all {
		try([]string{a})
		for _, b := range all {
			try([]string{a, b})
		}
	}
	for range tries {
		fragment := slices.Clone(best[rnd.IntN(min(len(best), 50))].fragment)
		if len(fragment) < 6 && rnd.IntN(3) > 0 {
			fragment = slices.Insert(fragment, rnd.IntN(len(fragment)+1), all[rnd.IntN(len(all))])
		} else {
			fragment[rnd.IntN(len(fragment))] = all[rnd.IntN(len(all))]
		}
		try(fragment)
	}
	slices.SortFunc(best, func(a, b found) int { return int(b.took - a.took) })
	for _, f := range best[:5] {
		worst = append(worst, f.fragment)
	}
	return worst
}

// No input takes much longer for a megabyte than what people write. AYCODER_WORST says how many fragments are tried
// for each language, beyond those of one and two pieces.
func TestWorstInputs(t *testing.T) {
	tries, err := strconv.Atoi(os.Getenv("AYCODER_WORST"))
	if err != nil {
		t.Skip("AYCODER_WORST is not set: the search takes minutes")
	}
	const large = 10 << 20
	for _, lang := range []source.Language{source.Go, source.Python, source.TypeScript, source.Rust, source.Java, source.C, "ruby", "swift"} {
		t.Run(string(lang), func(t *testing.T) {
			usual, longest := usualTime(t, lang)
			report := func(name string, src []byte) {
				start := timed.CPU() // in so long a time, other programs would count
				source.Scan(lang, src, source.All)
				took := forMB(timed.CPU()-start, src)
				t.Logf("%s: %.1f of the median", name, float64(took)/float64(usual))
				timed.AtMost(t, took, 5*usual, name)
			}
			report("a file of one line", []byte(strings.ReplaceAll(string(longest), "\n", " ")))
			for _, fragment := range slowest(lang, tries, rand.New(rand.NewPCG(3, 3))) {
				report(fmt.Sprintf("%q", fragment), repeated(fragment, large))
			}
		})
	}
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
	return median, []byte(strings.Repeat(string(longest), 10<<20/len(longest)+1))
}
