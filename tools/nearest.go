package tools

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

const (
	nearLines = 20_000 // of the file that are looked at
	nearOld   = 200    // lines of old_string that are looked at
	nearShown = 15     // lines that are shown
	nearWidth = 120    // bytes of a line that are shown or compared
)

// numbered is a line as read_file shows it.
var numbered = regexp.MustCompile(`^\s*\d+[\t|:→]`)

// noMatch says why old_string was perhaps not found, and shows what is most like it.
func noMatch(v *view, old string) error {
	hint := ""
	switch lines := splitLines(old); {
	case allNumbered(lines):
		hint = " It seems to have line numbers in it; leave out what read_file puts in front of " +
			"a line: the line number and the tab."
	case strings.Contains(old, `\n`) && strings.Contains(v.text, strings.ReplaceAll(old, `\n`, "\n")):
		hint = ` It has \n as a backslash and an n where the file has a line break; send a line break.`
	}
	near, exact := nearest(v.text, old)
	switch {
	case near == "":
		near = " Read the file again with read_file, and copy the text from there."
	case exact:
		near = " This place differs only in white space (copy it exactly):\n" + near
	default:
		near = " The most similar place is:\n" + near +
			"Read the file again if that is not what you expect."
	}
	return problemf("no_match", "old_string does not occur in the file.%s%s", hint, near)
}

func allNumbered(lines []string) bool {
	for _, l := range lines {
		if !numbered.MatchString(l) {
			return false
		}
	}
	return len(lines) > 0
}

// nearest returns the lines of text that are most like old, with their numbers, and
// whether they differ in white space only. It looks at a bounded part of both.
func nearest(text, old string) (shown string, exact bool) {
	lines, want := head(text, nearLines), head(old, nearOld)
	start := vote(lines, want)
	if start < 0 {
		start = mostSimilar(lines, want)
	}
	if start < 0 {
		return "", false
	}
	end := min(start+len(want), len(lines))
	exact = end-start == len(want)
	for i := start; exact && i < end; i++ {
		exact = squeeze(lines[i]) == squeeze(want[i-start])
	}
	var b strings.Builder
	for i := start; i < min(end, start+nearShown); i++ {
		fmt.Fprintf(&b, "%6d\t%s\n", i+1, runes.Cut(lines[i], nearWidth))
	}
	return b.String(), exact
}

// head returns the first n lines, without their line breaks.
func head(s string, n int) []string {
	var lines []string
	for l := range strings.Lines(s) {
		if len(lines) == n {
			break
		}
		lines = append(lines, strings.TrimRight(l, "\r\n"))
	}
	return lines
}

// squeeze removes white space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// vote returns where want would start if the lines that are in both, but for white
// space, are to meet; -1 if there are none. A line that is a bracket says nothing.
func vote(lines, want []string) int {
	at := map[string][]int{}
	for i, w := range want {
		if s := squeeze(w); len(s) > 2 && len(at[s]) < 5 {
			at[s] = append(at[s], i)
		}
	}
	votes := map[int]int{}
	best := -1
	for i, l := range lines {
		for _, k := range at[squeeze(runes.Cut(l, 4*nearWidth))] {
			start := i - k
			if votes[start]++; start >= 0 && (best < 0 || votes[start] > votes[best]) {
				best = start
			}
		}
	}
	return best
}

// mostSimilar aligns the longest line of want with the line that shares the most
// pairs of letters with it.
func mostSimilar(lines, want []string) int {
	key := 0
	for i, w := range want {
		if len(squeeze(w)) > len(squeeze(want[key])) {
			key = i
		}
	}
	if len(want) == 0 {
		return -1
	}
	pairs := pairsOf(want[key])
	best, score := -1, 0.5
	for i, l := range lines {
		if s := similarity(pairs, pairsOf(l)); s > score {
			best, score = i, s
		}
	}
	if best < 0 {
		return -1
	}
	return max(0, best-key)
}

func pairsOf(s string) map[[2]byte]bool {
	s = squeeze(runes.Cut(s, nearWidth))
	pairs := make(map[[2]byte]bool, len(s))
	for i := 1; i < len(s); i++ {
		pairs[[2]byte{s[i-1], s[i]}] = true
	}
	return pairs
}

// similarity is Dice's: 1 for the same pairs, 0 for none in common.
func similarity(a, b map[[2]byte]bool) float64 {
	common := 0
	for p := range a {
		if b[p] {
			common++
		}
	}
	if len(a)+len(b) == 0 {
		return 0
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}
