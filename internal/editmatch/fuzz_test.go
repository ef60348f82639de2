package editmatch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/editmatch"
)

// places counts where old is in file, overlapping, as a model sees the two.
func places(file, old string) int {
	file = strings.ReplaceAll(strings.TrimPrefix(file, "\ufeff"), "\r\n", "\n")
	old = strings.ReplaceAll(strings.TrimPrefix(old, "\ufeff"), "\r\n", "\n")
	n := 0
	for i := range len(file) {
		if strings.HasPrefix(file[i:], old) {
			n++
		}
	}
	return n
}

// keepsLines checks that what is written over was in the old string: all lines but
// the first and the last of each place, which may be matched in part, are lines of
// it but for what the levels allow.
func keepsLines(file, old string, r *editmatch.Result) error {
	if slices.ContainsFunc(r.Match.Changes, func(c editmatch.Change) bool {
		return c.Level == editmatch.LineNumbers || c.Level == editmatch.Escapes
	}) {
		return nil
	}
	same := strings.NewReplacer("\u00ad", "", "\u200b", "", "\u2060", "", "\ufeff", "", "\u202f", " ", "\u205f", " ",
		"\u3000", " ", "‚", "'", "‛", "'", "′", "'", "„", `"`, "‟", `"`, "″", `"`, "‐", "-", "‑", "-", "‒", "-",
		"―", "-", "−", "-") // beside those of plain
	bare := func(l string) string { return strings.TrimSpace(plain(same.Replace(l))) }
	in := map[string]bool{}
	for l := range strings.SplitSeq(strings.ReplaceAll(old, "\r\n", "\n"), "\n") {
		in[bare(l)] = true
	}
	lines := strings.Split(file, "\n")
	for _, p := range r.Match.Places {
		for i := p.FirstLine; i < p.LastLine-1; i++ {
			if !in[bare(lines[i])] {
				return fmt.Errorf("line %d, %q, is not in the old string", i+1, lines[i])
			}
		}
	}
	return nil
}

func checkPlan(t *testing.T, file, old, new string, all bool) {
	t.Helper()
	edit := editmatch.Edit{Old: old, New: new, ReplaceAll: all}
	r, err := editmatch.Plan([]byte(file), edit)
	n := places(file, old)
	if err != nil {
		e, ok := errors.AsType[*editmatch.Error](err)
		require.True(t, ok)
		require.Less(t, len(e.Error()), 20_000)
		require.False(t, n > 0 && e.Kind == editmatch.NotFound, "it is there: %v", err)
		require.False(t, n == 1 && e.Kind == editmatch.Ambiguous, "it is there once: %v", err)
		return
	}
	require.NotEqual(t, file, string(r.Text), "an edit that changes nothing")
	require.NoError(t, onlyInside(file, r))
	if old == "" {
		return
	}
	require.True(t, all || n <= 1 || strings.Contains(old, "\r\n"), "a guess among %d places", n)
	require.NoError(t, keepsLines(file, old, r))
	noBlanks := !strings.ContainsAny(file+old+new, " \t\v\f\r\ufeff")
	if n == 1 && noBlanks && !all {
		require.Equal(t, strings.Replace(file, old, new, 1), string(r.Text))
	}
}

func FuzzPlan(f *testing.F) {
	f.Add("a\r\nb\nc", "b", "x\ny", false)
	f.Add("\ufeffa\n", "a", "", true)
	f.Add("aaa", "aa", "b", true)
	f.Add("\tif x {\n\t\ty\n\t}\n", "    if x {\n        y\n", "    if x {\n", false)
	f.Add("say “hi”…\n  x  \n", "say \"hi\"...\nx", "say \"ho\"...\nx\n", false)
	f.Add("a\nb\nc\nd\n", "a\n...\nd\n", "A\n...\nD\n", false)
	f.Add("a\nb\n", "1\ta\n2\tb", "1\ta\n2\tc", false)
	f.Add("f(\"a\")\nb\n", `f(\"a\")\nb`, `f(\"b\")\nb`, false)
	f.Add("\xff\xfe\n\x80\u200b", "\xfe\n\x80", "", false)
	f.Fuzz(func(t *testing.T, file, old, new string, all bool) {
		if len(file)+len(old)+len(new) < 10_000 {
			checkPlan(t, file, old, new, all)
		}
	})
}

// FuzzAlike makes texts that are like each other: each byte stands for a piece.
func FuzzAlike(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06"), byte(1), byte(4), []byte("\x07\x08"), []byte("\x09"))
	f.Add([]byte("28Y12"), byte(0), byte('_'), []byte("9B20"), []byte("00")) // characters without width
	f.Add([]byte("abcdefghijklmnop"), byte(3), byte(9), []byte("ddd"), []byte("e"))
	pieces := []string{"a", "b", "foo", "}", "\n", "\n", "\n", "\r\n", "  ", "    ", "\t", "\t\t", " ",
		"“", "\"", "’", "'", "…", "...", "\n...\n", "\n// ...\n", "1\t", "2| ", `\n`, `\"`,
		"\u00a0", "\xff", "\u200b", "-", "–", "\\"}
	build := func(in []byte) string {
		var b strings.Builder
		for _, c := range in[:min(len(in), 200)] {
			b.WriteString(pieces[int(c)%len(pieces)])
		}
		return b.String()
	}
	f.Fuzz(func(t *testing.T, in []byte, from, to byte, replace, with []byte) {
		lo := min(int(from), len(in))
		hi := min(max(int(to), lo), len(in))
		old := slices.Clone(in[lo:hi])
		for i := 0; i+1 < len(replace); i += 2 { // pieces that are others in old
			if len(old) > 0 {
				old[int(replace[i])%len(old)] = replace[i+1]
			}
		}
		new := slices.Clone(old)
		for i := 0; i+1 < len(with); i += 2 {
			if len(new) > 0 {
				new[int(with[i])%len(new)] = with[i+1]
			}
		}
		checkPlan(t, build(in), build(old), build(new), len(with)%5 == 0)
	})
}
