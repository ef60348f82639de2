package merge_test

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/merge"
)

// TestMergeRecorded checks the exported form of a merge: the spans, what every
// choice gives, and the bytes.
func TestRecorded(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	timed.Long(t, "recorded merges")
	corpus.Each(t, "merge/cases.jsonl.gz", "455 of 3,640 merges", 8, func(c *corpus.Merge) {
		base, ours, theirs := []byte(c.Base), c.Ours.Apply(c.Base), c.Theirs.Apply(c.Base)
		r := merge.Merge(base, ours, theirs, merge.WithMarkerSize(7))
		out := r.Bytes()
		if r.Conflicts() == c.Git["merge"].Conflicts {
			assert.Len(t, out, c.Git["merge"].Size, c.ID)
		}
		var at merge.Region
		for i, g := range r.Regions {
			assert.Equal(t, at.Base.End, g.Base.Start)
			assert.Equal(t, at.Ours.EndLine, g.Ours.FirstLine)
			assert.Equal(t, g.Theirs.EndLine-g.Theirs.FirstLine, countLines(g.Theirs.Of(theirs)), "%s %d", c.ID, i)
			at = g
		}
		for choice, want := range map[merge.Choice][]byte{
			merge.ChooseBase: base, merge.ChooseTheirs: theirs, merge.ChooseOurs: ours,
		} {
			for i := range r.Regions {
				require.NoError(t, r.Resolve(i, choice))
			}
			assert.True(t, r.Clean())
			checkSpans(t, r)
			if wholeEnding(base) == wholeEnding(ours) && wholeEnding(base) == wholeEnding(theirs) {
				assert.True(t, bytes.Equal(want, r.Bytes()), "%s by choice %d", c.ID, choice)
			}
		}
	})
}

func countLines(text []byte) int {
	n := 0
	for range bytes.Lines(text) {
		n++
	}
	return n
}

func wholeEnding(text []byte) bool { return bytes.Contains(text, []byte("\r\n")) }

func TestOptions(t *testing.T) {
	base, ours, theirs := "a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nb\nC\nd\n"
	tests := []struct {
		name string
		opts []merge.Option
		want string
	}{
		{"plain", nil, "a\n<<<<<<< ours\nB\nc\n=======\nb\nC\n>>>>>>> theirs\nd\n"},
		{
			"style", []merge.Option{merge.WithStyle(merge.StyleDiff3)},
			"a\n<<<<<<< ours\nB\nc\n||||||| base\nb\nc\n=======\nb\nC\n>>>>>>> theirs\nd\n",
		},
		{
			"labels", []merge.Option{merge.WithLabels("before", "yours", "the agent's")},
			"a\n<<<<<<< yours\nB\nc\n=======\nb\nC\n>>>>>>> the agent's\nd\n",
		},
		{
			"marker size", []merge.Option{merge.WithMarkerSize(3)},
			"a\n<<< ours\nB\nc\n===\nb\nC\n>>> theirs\nd\n",
		},
		{"touching", []merge.Option{merge.WithTouchingEdits(true)}, "a\nB\nC\nd\n"},
		{
			"last wins", []merge.Option{merge.WithTouchingEdits(false), merge.WithTouchingEdits(true)},
			"a\nB\nC\nd\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := merge.Merge([]byte(base), []byte(ours), []byte(theirs), tt.opts...)
			assert.Equal(t, tt.want, string(r.Bytes()))
			assert.Equal(t, strings.Contains(tt.want, "<<<"), !r.Clean())
		})
	}
}

func TestKeepsBytes(t *testing.T) {
	tests := []struct{ name, base, ours, theirs, want string }{
		{"byte order mark", "\ufeffa\nb\nc\n", "\ufeffA\nb\nc\n", "\ufeffa\nb\nC\n", "\ufeffA\nb\nC\n"},
		{"no newline at the end", "a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC"},
		{"CRLF", "a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", "A\r\nb\r\nC\r\n"},
		{"mixed ends", "a\r\nb\nc\r\n", "A\nb\nc\r\n", "a\r\nb\nC\n", "A\nb\nC\n"},
		{"not UTF-8", "\xe9\nb\n\xff\n", "\xe8\nb\n\xff\n", "\xe9\nb\n\xfe\n", "\xe8\nb\n\xfe\n"},
		{"binary, one side", "\x00a\n", "\x00a\n", "\x00b\n", "\x00b\n"},
		{"nothing", "", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := merge.Merge([]byte(tt.base), []byte(tt.ours), []byte(tt.theirs))
			assert.True(t, r.Clean())
			assert.Equal(t, tt.want, string(r.Bytes()))
		})
	}
}

func TestResolve(t *testing.T) {
	base, ours, theirs := []byte("x\nf(a, b, c)"), []byte("x\nf(A, b, c)"), []byte("X\nf(a, b, C)")
	tests := []struct {
		name   string
		choice merge.Choice
		want   string
	}{
		{"ours", merge.ChooseOurs, "x\nf(A, b, c)"},
		{"theirs", merge.ChooseTheirs, "X\nf(a, b, C)"},
		{"base", merge.ChooseBase, "x\nf(a, b, c)"},
		{"ours first", merge.ChooseOursFirst, "x\nf(A, b, c)\nX\nf(a, b, C)"},
		{"theirs first", merge.ChooseTheirsFirst, "X\nf(a, b, C)\nx\nf(A, b, c)"},
		{"suggestion", merge.ChooseSuggestion, "X\nf(A, b, C)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := merge.Merge(base, ours, theirs)
			require.Equal(t, 1, r.Conflicts())
			require.NoError(t, r.Resolve(0, tt.choice))
			assert.True(t, r.Clean())
			assert.Equal(t, tt.want, string(r.Bytes()))
		})
	}
}

// Choosing base for the conflict gives what git merge-file prints in the two styles that show
// base, less the markers, ours and theirs; StyleMerge cuts this conflict as StyleZdiff3 does.
func TestChooseBase(t *testing.T) {
	base, ours, theirs := "h\nfunc load()\ne\n", "h\nsame\nfunc load(n)\ne\n", "h\nsame\nfunc load(x)\ne\n"
	for style, want := range map[merge.Style]string{
		merge.StyleMerge:  "h\nsame\nfunc load()\ne\n",
		merge.StyleDiff3:  "h\nfunc load()\ne\n",
		merge.StyleZdiff3: "h\nsame\nfunc load()\ne\n",
	} {
		r := merge.Merge([]byte(base), []byte(ours), []byte(theirs), merge.WithStyle(style))
		require.Equal(t, 1, r.Conflicts())
		for i, g := range r.Regions {
			if g.Kind == merge.Conflict {
				assert.Equal(t, "func load()\n", string(g.Base.Of([]byte(base))))
				require.NoError(t, r.Resolve(i, merge.ChooseBase))
			}
		}
		assert.Equal(t, want, string(r.Bytes()), "style %d", style)
	}
}

// A text that resolves a region is made of lines, whatever follows it.
func TestResolveEndsLines(t *testing.T) {
	tests := []struct {
		name, base, ours, theirs string
		resolve                  func(r merge.Result) error
		want                     string
	}{
		{"amid a text", "a\nb\nc\n", "a\nB\nc\n", "a\n8\nc\n", with(1, "new"), "a\nnew\nc\n"},
		{"amid CRLF", "a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n", "a\r\n8\r\nc\r\n", with(1, "new"), "a\r\nnew\r\nc\r\n"},
		{"at the start", "b\r\nc\r\n", "B\r\nc\r\n", "8\r\nc\r\n", with(0, "new"), "new\r\nc\r\n"},
		{"at the end", "a\nb\n", "a\nB\n", "a\n8\n", with(1, "new"), "a\nnew"},
		{"nothing", "a\nb\nc\n", "a\nB\nc\n", "a\n8\nc\n", with(1, ""), "a\nc\n"},
		{"both sides in CRLF", "a\r\nx", "a\r\nm", "a\r\nt", choose(1, merge.ChooseOursFirst), "a\r\nm\r\nt"},
		{"both sides in LF", "a\nx", "a\nm", "a\nt", choose(1, merge.ChooseTheirsFirst), "a\nt\nm"},
		{
			"before a conflict", "a\nb\nc\n", "A\nb\nC\n", "a\nb\n3\n", with(1, "new"),
			"A\nnew\n<<<<<<< ours\nC\n=======\n3\n>>>>>>> theirs\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := merge.Merge([]byte(tt.base), []byte(tt.ours), []byte(tt.theirs))
			require.NoError(t, tt.resolve(r))
			assert.Equal(t, tt.want, string(r.Bytes()))
			checkSpans(t, r)
		})
	}
}

func with(region int, text string) func(merge.Result) error {
	return func(r merge.Result) error { return r.ResolveWith(region, []byte(text)) }
}

func choose(region int, c merge.Choice) func(merge.Result) error {
	return func(r merge.Result) error { return r.Resolve(region, c) }
}

// checkSpans checks that the spans cut the merged text between lines, and count those.
func checkSpans(t *testing.T, r merge.Result) {
	t.Helper()
	out, spans := r.Bytes(), r.Spans()
	require.Len(t, spans, len(r.Regions))
	var at merge.Span
	for i, s := range spans {
		require.Equal(t, at.End, s.Start, "region %d", i)
		require.Equal(t, countLines(out[:s.Start]), s.FirstLine, "region %d", i)
		require.Equal(t, countLines(out[:s.End]), s.EndLine, "region %d", i)
		require.True(t, s.Start == 0 || s.Start == len(out) || out[s.Start-1] == '\n', "region %d", i)
		at = s
	}
	require.Equal(t, at.End, len(out))
}

func TestSpans(t *testing.T) {
	r := merge.Merge([]byte("a\nb\n1\n2\n3\n4\ne"), []byte("a\nB\n1\n2\n3\n4\nE"), []byte("a\n8\n1\n2\n3\n4\n5"))
	require.Equal(t, []merge.Span{
		{FirstLine: 0, EndLine: 1, Start: 0, End: 2},
		{FirstLine: 1, EndLine: 6, Start: 2, End: 42},
		{FirstLine: 6, EndLine: 10, Start: 42, End: 50},
		{FirstLine: 10, EndLine: 15, Start: 50, End: 90},
	}, r.Spans())
	require.NoError(t, r.ResolveWith(1, []byte("new")))
	require.NoError(t, r.Resolve(3, merge.ChooseOurs))
	assert.Equal(t, "a\nnew\n1\n2\n3\n4\nE", string(r.Bytes()))
	assert.Equal(t, merge.Span{FirstLine: 6, EndLine: 7, Start: 14, End: 15}, r.Spans()[3])
	checkSpans(t, r)
}

// The exported constants stand for those inside, and the comments of the rules tell what they
// claim.
func TestConstants(t *testing.T) {
	assert.Equal(t, []int{int(diff3.StyleMerge), int(diff3.StyleDiff3), int(diff3.StyleZdiff3)},
		[]int{int(merge.StyleMerge), int(merge.StyleDiff3), int(merge.StyleZdiff3)})
	for kind, inside := range map[merge.Kind]diff3.Kind{
		merge.Unchanged: diff3.Unchanged, merge.Ours: diff3.Ours, merge.Theirs: diff3.Theirs,
		merge.Both: diff3.Both, merge.Conflict: diff3.Conflict,
	} {
		assert.Equal(t, int(inside), int(kind), kind)
	}
	claims := confidences(t)
	for rule, x := range map[string][3]string{
		merge.RuleLineEndings: {"a\nb\n", "a\r\nb\r\n", "y\nb\n"},
		merge.RuleDeletion: {
			"one two\nthree four\nfive six\nseven eight\n", "",
			"one two\nthree 4\nfive six\nseven eight\n",
		},
		merge.RuleContained: {"a\n", "a\nb\n", "a\nc\nb\n"},
		merge.RuleTouching:  {"a b c d\nf g h i\n", "x b c d\nf g h i\n", "a b c d\nf g h y\n"},
		merge.RuleFile:      {"one two\n", "", "one 2 three\n"},
		merge.RuleLarger:    {"a b c d e f\n", "a b c d f\n", "a f\n"},
		merge.RuleImports:   {"", "import a\nimport d\n", "import b\n"},
		merge.RuleTokens: {
			"func load(path string) error {\n", "func load(path string, strict bool) error {\n",
			"func load(path string) (*Config, error) {\n",
		},
		merge.RuleSuperset: {"a\n", "b\na c d\n", "d\na b c e\n"},
	} {
		r := merge.Merge([]byte(x[0]), []byte(x[1]), []byte(x[2]), merge.WithStyle(merge.StyleDiff3))
		i := slices.IndexFunc(r.Regions, func(g merge.Region) bool { return g.Suggestion != nil })
		require.GreaterOrEqual(t, i, 0, rule)
		s := r.Regions[i].Suggestion
		assert.Equal(t, rule, s.Rule)
		assert.InDelta(t, claims[rule], s.Confidence, 0, rule)
	}
}

var ruleComment = regexp.MustCompile(`Rule\w+ += "([a-z ]+)" +// (0\.\d\d): `)

func source(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("suggest.go")
	require.NoError(t, err)
	return string(text)
}

// A side that changed the line endings of the whole text conflicts, as with git, and the
// suggestion has the other side's change in them.
func TestLineEndings(t *testing.T) {
	base, ours, theirs := []byte("a\nb\nc\n"), []byte("a\r\nb\r\nc\r\n"), []byte("A\nb\nc\n")
	for _, sides := range [][2][]byte{{ours, theirs}, {theirs, ours}} {
		r := merge.Merge(base, sides[0], sides[1])
		require.Equal(t, 1, r.Conflicts())
		s := r.Regions[0].Suggestion
		require.NotNil(t, s)
		assert.Equal(t, "line endings", s.Rule)
		require.NoError(t, r.Resolve(0, merge.ChooseSuggestion))
		assert.Equal(t, "A\r\nb\r\nc\r\n", string(r.Bytes()))
	}
}

func TestResolveErrors(t *testing.T) {
	r := merge.Merge([]byte("a\n"), []byte("b\n"), []byte("c\n"))
	require.Error(t, r.Resolve(1, merge.ChooseOurs))
	require.Error(t, r.Resolve(-1, merge.ChooseOurs))
	require.Error(t, r.ResolveWith(1, nil))
	require.Error(t, r.Resolve(0, merge.ChooseSuggestion), "there is none")
	require.Error(t, r.Resolve(0, merge.Choice(99)))
	assert.Equal(t, 1, r.Conflicts(), "nothing was resolved")

	text := []byte("d\n")
	require.NoError(t, r.ResolveWith(0, text))
	text[0] = 'x'
	assert.Equal(t, "d\n", string(r.Bytes()), "the text is copied")

	var zero merge.Result
	assert.True(t, zero.Clean())
	assert.Empty(t, zero.Bytes())
	require.Error(t, zero.Resolve(0, merge.ChooseOurs))
	assert.Equal(t, "conflict", merge.Conflict.String())
	assert.Equal(t, "Kind(9)", merge.Kind(9).String())
}

func TestTakesBackAChange(t *testing.T) {
	r := merge.Merge([]byte("a\nb\nc\n"), []byte("A\nb\nc\n"), []byte("a\nb\nC\n"))
	var kinds []string
	for _, g := range r.Regions {
		kinds = append(kinds, g.Kind.String())
	}
	assert.Equal(t, []string{"ours", "unchanged", "theirs"}, kinds)
	require.NoError(t, r.Resolve(2, merge.ChooseBase))
	assert.Equal(t, "A\nb\nc\n", string(r.Bytes()))
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nB\nc\n"), []byte("a\nb\nC"), 0, 0)
	f.Add([]byte("\x00"), []byte("\x00a"), []byte("<<<<<<<<<\n"), 1, 9)
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte, choice, size int) {
		r := merge.Merge(base, ours, theirs, merge.WithStyle(merge.Style(choice%3)),
			merge.WithMarkerSize(size), merge.WithTouchingEdits(choice%2 == 0))
		before := r.Bytes()
		checkSpans(t, r)
		for i := range r.Regions {
			err := r.Resolve(i, merge.Choice(choice))
			ok := choice >= 0 && choice < int(merge.ChooseSuggestion) ||
				choice == int(merge.ChooseSuggestion) && r.Regions[i].Suggestion != nil
			assert.Equal(t, ok, err == nil, err)
		}
		checkSpans(t, r)
		if choice < 0 || choice > int(merge.ChooseSuggestion) {
			assert.Equal(t, before, r.Bytes())
		}
		for i := range r.Regions {
			require.NoError(t, r.Reopen(i))
		}
		assert.Equal(t, before, r.Bytes())
	})
}

// FuzzReview resolves the conflicts of a merge one by one, and asks a source that answers with any
// text. The bits of picks say what is chosen.
func FuzzReview(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nB\nc\n"), []byte("a\nb\nC"), []byte("<<<<<<< x\n"), uint64(5))
	f.Add([]byte("a\n1\n2\n3\n4\nb\n"), []byte("x\n1\n2\n3\n4\ny\n"), []byte("z\n1\n2\n3\n4\n"), []byte("c"), uint64(0))
	f.Fuzz(func(t *testing.T, base, ours, theirs, answer []byte, picks uint64) {
		texts := [][]byte{base, ours, theirs}
		r := merge.Merge(base, ours, theirs, merge.WithStyle(merge.Style(picks%3)))
		plain, verdict := r.Bytes(), r.Conflicts()
		source := merge.Source{Name: "any", Confidence: 0.5, Propose: func(context.Context, merge.Sides) ([]byte, error) {
			return answer, nil
		}}
		for n := verdict; n > 0; n-- {
			open := r.Open()
			require.Len(t, open, n)
			o := open[picks%uint64(n)]
			_, err := r.Ask(t.Context(), o.Region, source)
			require.Equal(t, open[0].Region, r.Open()[0].Region)
			if n == verdict {
				require.Equal(t, plain, r.Bytes(), err)
			}
			for _, s := range r.Open()[picks%uint64(n)].Suggestions {
				require.NotEmpty(t, s.Reason("yours", "theirs"))
				if s.Rule != "any" && s.Rule != merge.RuleLineEndings {
					checkSuggestion(t, s, r.Regions[o.Region], texts)
				}
				if picks&4 != 0 {
					require.NoError(t, r.ResolveWith(o.Region, s.Text))
				}
			}
			if r.Conflicts() == n {
				require.NoError(t, r.Resolve(o.Region, merge.Choice(picks>>3%5)))
			}
			picks = picks>>1 | picks<<63
		}
		checkSpans(t, r)
		require.True(t, r.Clean())
	})
}
