package editmatch_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/timed"
)

// mistake makes an edit that is right one that a model or an editor got wrong. It
// reports false if the mistake makes no difference.
type mistake struct {
	name string
	make func(c *recorded, r *rand.Rand) bool
}

// eachLine changes the lines of texts, without their line breaks.
func eachLine(f func(string) string, texts ...*string) {
	for _, t := range texts {
		lines := strings.Split(*t, "\n")
		for i, l := range lines {
			if l != "" {
				lines[i] = f(l)
			}
		}
		*t = strings.Join(lines, "\n")
	}
}

func indentOf(l string) string { return l[:len(l)-len(strings.TrimLeft(l, " \t"))] }

// commonIndent returns what all lines of texts begin with.
func commonIndent(texts ...string) string {
	common, first := "", true
	for _, t := range texts {
		for l := range strings.Lines(t) {
			if strings.TrimSpace(l) == "" {
				continue
			}
			in := indentOf(l)
			if first {
				common, first = in, false
			}
			for !strings.HasPrefix(in, common) {
				common = common[:len(common)-1]
			}
		}
	}
	return common
}

func reindent(from, to string) func(*recorded, *rand.Rand) bool {
	return func(c *recorded, _ *rand.Rand) bool {
		before := c.Old
		eachLine(func(l string) string {
			in := indentOf(l)
			return strings.ReplaceAll(in, from, to) + l[len(in):]
		}, &c.Old, &c.New)
		return c.Old != before
	}
}

func numberLines(format string) func(*recorded, *rand.Rand) bool {
	return func(c *recorded, r *rand.Rand) bool {
		first := 1 + strings.Count(c.File[:strings.Index(c.File, c.Old)], "\n")
		for _, t := range []*string{&c.Old, &c.New} {
			lines := strings.Split(*t, "\n")
			if lines[0] == "" || indentOf(lines[0]) == lines[0] {
				return false
			}
			for i, l := range lines {
				lines[i] = fmt.Sprintf(format, first+i, l)
			}
			*t = strings.Join(lines, "\n")
		}
		return strings.Contains(c.Old, "\n")
	}
}

func inFile(f func(l string, r *rand.Rand) string) func(*recorded, *rand.Rand) bool {
	return func(c *recorded, r *rand.Rand) bool {
		before := c.File
		eachLine(func(l string) string { return f(l, r) }, &c.File)
		return before != c.File
	}
}

// inOrder are mistakes in the old string that may be made one after the other.
var inOrder = []mistake{
	{"shifted left", func(c *recorded, _ *rand.Rand) bool {
		in := commonIndent(c.Old, c.New)
		eachLine(func(l string) string { return strings.TrimPrefix(l, in) }, &c.Old, &c.New)
		return in != ""
	}},
	{"shifted right", func(c *recorded, _ *rand.Rand) bool {
		eachLine(func(l string) string { return "    " + l }, &c.Old, &c.New)
		return true
	}},
	{"four spaces for a tab", reindent("\t", "    ")},
	{"two spaces for a tab", reindent("\t", "  ")},
	{"eight spaces for a tab", reindent("\t", "        ")},
	{"a tab for four spaces", reindent("    ", "\t")},
	{"a tab for two spaces", reindent("  ", "\t")},
	{"first line trimmed", func(c *recorded, _ *rand.Rand) bool {
		o, n := indentOf(c.Old), indentOf(c.New)
		c.Old, c.New = c.Old[len(o):], c.New[len(n):]
		return o != "" && o == n
	}},
	{"blanks at line ends", func(c *recorded, r *rand.Rand) bool {
		same := map[string]string{}
		eachLine(func(l string) string {
			if _, ok := same[l]; !ok {
				same[l] = l + strings.Repeat(" ", r.IntN(3))
			}
			return same[l]
		}, &c.Old, &c.New)
		return true
	}},
	{"\\r\\n in the strings", func(c *recorded, _ *rand.Rand) bool {
		c.Old, c.New = strings.ReplaceAll(c.Old, "\n", "\r\n"), strings.ReplaceAll(c.New, "\n", "\r\n")
		return strings.Contains(c.Old, "\n")
	}},
	{"blank lines around", func(c *recorded, _ *rand.Rand) bool {
		c.Old, c.New = "\n"+c.Old+"\n\n", "\n"+c.New+"\n\n"
		return true
	}},
}

// last is made after those in order, one of them.
var last = []mistake{
	{"cat -n", numberLines("%6d\t%s")},
	{"12| text", numberLines("%d| %s")},
	{"12|text", numberLines("%d|%s")},
	{"12: text", numberLines("%4d: %s")},
	{"12→text", numberLines("%5d→%s")},
	{"12 │ text", numberLines("%5d │ %s")},
	{"JSON", func(c *recorded, _ *rand.Rand) bool {
		for _, t := range []*string{&c.Old, &c.New} {
			var b strings.Builder
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if e.Encode(*t) != nil || strings.Contains(b.String(), `\u`) {
				return false
			}
			*t = b.String()[1 : b.Len()-2]
		}
		return strings.Contains(c.Old, `\`)
	}},
	{"quotes escaped", func(c *recorded, _ *rand.Rand) bool {
		before := c.Old
		c.Old, c.New = strings.ReplaceAll(c.Old, `"`, `\"`), strings.ReplaceAll(c.New, `"`, `\"`)
		return c.Old != before
	}},
}

// ofFile are made in the file, and undone in the outcome before it is compared.
var ofFile = []mistake{
	{"blanks in the file", inFile(func(l string, r *rand.Rand) string {
		return l + strings.Repeat(" ", r.IntN(3))
	})},
	{"tab in the file", inFile(func(l string, _ *rand.Rand) string { return l + "\t" })},
	{"typographic file", inFile(func(l string, r *rand.Rand) string {
		in := indentOf(l)
		return in + strings.NewReplacer(
			`'`, []string{"‘", "’", "'"}[r.IntN(3)], `"`, []string{"“", "”", `"`}[r.IntN(3)],
			"-", []string{"–", "—", "-"}[r.IntN(3)], "...", "…",
		).Replace(l[len(in):])
	})},
	{"\\r\\n in the file", func(c *recorded, _ *rand.Rand) bool {
		c.File = strings.ReplaceAll(c.File, "\n", "\r\n")
		return true
	}},
}

// plain undoes what was done to a file.
func plain(text string) string {
	text = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`, "–", "-", "—", "-", "…", "...",
		"\u00a0", " ", "\r\n", "\n").Replace(text)
	var b strings.Builder
	for l := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(l, " \t\n"))
		if strings.HasSuffix(l, "\n") {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Several mistakes at once, made in edits that were right: the outcome has to be the
// one that it would have been without, or a refusal. Most single mistakes have to be
// understood.
func TestMistakes(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "thousands of edits with mistakes")
	cases := recordedEdits(t)
	r := rand.New(rand.NewPCG(1, 2))
	var all tally
	byName := map[string]*tally{}
	var names []string
	for i := range cases {
		if cases[i].Cat != "exact" && cases[i].Cat != "delete-lines" {
			continue
		}
		for _, one := range [][]mistake{inOrder, last, ofFile} {
			for _, m := range one {
				c := cases[i]
				if !m.make(&c, r) {
					continue
				}
				if byName[m.name] == nil {
					byName[m.name], names = &tally{}, append(names, m.name)
				}
				byName[m.name].add(judgeMistakes(t, &cases[i], &c, m.name))
			}
		}
		for range 12 {
			c := cases[i]
			name := severalMistakes(&c, r)
			all.add(judgeMistakes(t, &cases[i], &c, name))
		}
	}
	for _, name := range names {
		t.Logf("%-28s %+v", name, *byName[name])
		assert.GreaterOrEqual(t, byName[name].right*10, byName[name].all()*8, name)
		all.add(*byName[name])
	}
	t.Logf("%-28s %+v of %d", "all", all, all.all())
	assert.LessOrEqual(t, all.wrong*2000, all.all(), "wrong")
	assert.Zero(t, all.outside)
}

func severalMistakes(c *recorded, r *rand.Rand) string {
	var names []string
	try := func(m mistake) {
		before := *c
		if m.make(c, r) {
			names = append(names, m.name)
		} else {
			*c = before
		}
	}
	if r.IntN(4) == 0 && strings.Contains(c.File, c.Old) {
		try(last[r.IntN(len(last))])
	} else {
		units := false // changing them twice leaves nothing to tell them by
		for _, m := range inOrder {
			if isUnit := strings.Contains(m.name, " for "); r.IntN(4) == 0 && !(units && isUnit) {
				try(m)
				units = units || isUnit
			}
		}
	}
	for _, m := range ofFile {
		if r.IntN(4) == 0 {
			try(m)
		}
	}
	return strings.Join(names, ", ")
}

func judgeMistakes(t *testing.T, is, c *recorded, name string) (one tally) {
	r, err := editmatch.Plan([]byte(c.File), c.edit())
	if err != nil {
		return tally{refused: 1}
	}
	require.NoError(t, onlyInside(c.File, r), name)
	want, got := plain(is.Accept[0]), plain(string(r.Text))
	if want == got {
		return tally{right: 1}
	}
	t.Logf("%s: wrong, %s:\nfile %q\nold %q\nnew %q\n%s\n%+v", is.ID, name, "", c.Old, c.New, levels(r), r.Splices)
	return tally{wrong: 1}
}
