package merge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/merge"
)

// conflicting returns a merge of n conflicts, in the regions 0, 2, 4 …, for which no rule finds a
// text. The name tells the texts of several files apart.
func conflicting(name string, n int, opts ...merge.Option) merge.Result {
	side := func(who string) []byte {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, "%s%s%d\n1\n2\n3\n4\n", who, name, i)
		}
		return b.Bytes()
	}
	return merge.Merge(side("base"), side("ours"), side("theirs"), opts...)
}

// first returns the rule, the side and the number of the suggestions of each open conflict.
func first(open []merge.OpenConflict) []string {
	var out []string
	for _, o := range open {
		var text strings.Builder
		text.WriteString(fmt.Sprint(o.Region, ":"))
		for _, s := range o.Suggestions {
			text.WriteString(fmt.Sprintf(" %s %s", s.Rule, s.From))
		}
		out = append(out, text.String())
	}
	return out
}

func TestOpenFollows(t *testing.T) {
	none := []string{"0:", "2:", "4:", "6:"}
	tests := []struct {
		name    string
		resolve func(t *testing.T, r merge.Result)
		want    []string
	}{
		{"nothing was resolved", func(*testing.T, merge.Result) {}, none},
		{"the last before", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(2, merge.ChooseTheirs))
		}, []string{"0:", "4: last theirs", "6: last theirs"}},
		{"a text that is one side", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.ResolveWith(0, []byte("ours0\n")))
		}, []string{"2: last ours", "4: last ours", "6: last ours"}},
		{"all before", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(0, merge.ChooseOurs))
			require.NoError(t, r.Resolve(2, merge.ChooseOurs))
		}, []string{"4: all ours", "6: all ours"}},
		{"one of two before", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(0, merge.ChooseOurs))
			require.NoError(t, r.Resolve(2, merge.ChooseTheirs))
		}, []string{"4: last theirs", "6: last theirs"}},
		{"never after a composed one", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(0, merge.ChooseOurs))
			require.NoError(t, r.Resolve(2, merge.ChooseOursFirst))
		}, []string{"4:", "6:"}},
		{"the base is no side", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(0, merge.ChooseBase))
		}, []string{"2:", "4:", "6:"}},
		{"those after it count as the others of all files", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(4, merge.ChooseTheirs))
			require.NoError(t, r.Resolve(6, merge.ChooseTheirs))
		}, []string{"0: files theirs", "2: files theirs"}},
		{"a region that was no conflict does not count", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(1, merge.ChooseTheirs))
		}, none},
		{"undone", func(t *testing.T, r merge.Result) {
			require.NoError(t, r.Resolve(0, merge.ChooseOurs))
			require.NoError(t, r.Reopen(0))
		}, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := conflicting("", 4)
			tt.resolve(t, r)
			assert.Equal(t, tt.want, first(r.Open()))
			assert.Len(t, r.Open(), r.Conflicts())
			assert.Equal(t, first(r.Open()), first(r.Open(r, merge.Result{})), "a file beside itself")
		})
	}
}

// Three quarters of the conflicts of all files decide where none before is resolved in this one.
func TestOpenFollowsFiles(t *testing.T) {
	a, b := conflicting("a", 4), conflicting("b", 2)
	require.NoError(t, a.Resolve(0, merge.ChooseTheirs))
	assert.Equal(t, []string{"0:", "2:"}, first(b.Open(a)), "one is too few")
	require.NoError(t, a.Resolve(2, merge.ChooseTheirs))
	assert.Equal(t, []string{"0: files theirs", "2: files theirs"}, first(b.Open(a)))
	assert.Equal(t, "theirsb0\n", string(b.Open(a)[0].Suggestions[0].Text))
	require.NoError(t, a.Resolve(4, merge.ChooseTheirs))
	require.NoError(t, a.Resolve(6, merge.ChooseOurs))
	assert.Equal(t, []string{"0: files theirs", "2: files theirs"}, first(b.Open(a)), "three of four")
	require.NoError(t, b.Resolve(0, merge.ChooseOurs))
	assert.Equal(t, []string{"2: last ours"}, first(b.Open(a)), "this file counts more")
	require.NoError(t, b.Resolve(0, merge.ChooseTheirsFirst))
	assert.Equal(t, []string{"2:"}, first(b.Open(a)), "never after a composed one")
}

// A suggestion of a rule is kept beside the one that follows the file, unless it is the same text.
func TestOpenKeepsTheOther(t *testing.T) {
	base := []byte("x\n1\n2\n3\n4\nf(a, b, c)\n")
	ours, theirs := []byte("o\n1\n2\n3\n4\nf(x, b, c)\n"), []byte("t\n1\n2\n3\n4\nf(a, b, y)\n")
	r := merge.Merge(base, ours, theirs)
	assert.Equal(t, []string{"0:", "2: tokens both"}, first(r.Open()))
	require.NoError(t, r.Resolve(0, merge.ChooseOurs))
	assert.Equal(t, []string{"2: last ours tokens both"}, first(r.Open()))
	assert.Equal(t, "tokens", r.Regions[2].Suggestion.Rule, "what Merge has found stays")

	theirs = []byte("t\n1\n2\n3\n4\nf(x, y, c)\n")
	r = merge.Merge(base, ours, theirs)
	assert.Equal(t, []string{"0:", "2: contained theirs"}, first(r.Open()))
	require.NoError(t, r.Resolve(0, merge.ChooseTheirs))
	assert.Equal(t, []string{"2: last theirs"}, first(r.Open()))
}

func TestWithGrade(t *testing.T) {
	base, ours, theirs := []byte("f(a, b, c)\n"), []byte("f(x, b, c)\n"), []byte("f(a, b, y)\n")
	for grade, want := range map[merge.Grade][]string{
		merge.Hint: {"0: tokens both"}, merge.Even: {"0:"}, merge.Likely: {"0:"},
	} {
		r := merge.Merge(base, ours, theirs, merge.WithGrade(grade))
		assert.Equal(t, want, first(r.Open()), grade)
		assert.Equal(t, 1, r.Conflicts())
	}
	r := conflicting("", 2, merge.WithGrade(merge.Likely))
	require.NoError(t, r.Resolve(0, merge.ChooseOurs))
	assert.Equal(t, []string{"2: last ours"}, first(r.Open()))
	assert.Equal(t, "Grade(7)", merge.Grade(7).String())
}

func TestResolveRest(t *testing.T) {
	r := conflicting("", 4)
	require.NoError(t, r.Resolve(4, merge.ChooseOurs))
	before := string(r.Bytes())
	done, err := r.ResolveRest(0, merge.ChooseTheirs)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 6}, done)
	assert.Contains(t, string(r.Bytes()), "ours0\n=======\ntheirs0\n")
	assert.Contains(t, string(r.Bytes()), "theirs1\n1\n2\n3\n4\nours2\n1\n2\n3\n4\ntheirs3\n")
	for _, i := range done {
		require.NoError(t, r.Reopen(i))
	}
	assert.Equal(t, before, string(r.Bytes()))

	for _, choice := range []merge.Choice{merge.ChooseSuggestion, -1, 99} {
		_, err = r.ResolveRest(-1, choice)
		require.Error(t, err)
	}
	assert.Equal(t, 3, r.Conflicts())
	done, err = r.ResolveRest(-7, merge.ChooseOurs)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 2, 6}, done)
	done, err = r.ResolveRest(99, merge.ChooseOurs)
	require.NoError(t, err)
	assert.Empty(t, done)
}

func TestReopen(t *testing.T) {
	r := merge.Merge([]byte("a\nb\nc\n"), []byte("A\nb\nc\n"), []byte("a\nb\nC\n"))
	require.NoError(t, r.Resolve(0, merge.ChooseBase))
	assert.Equal(t, "a\nb\nC\n", string(r.Bytes()))
	require.NoError(t, r.Reopen(0))
	require.NoError(t, r.Reopen(1), "nothing to undo")
	assert.Equal(t, "A\nb\nC\n", string(r.Bytes()))
	require.Error(t, r.Reopen(3))
	require.Error(t, r.Reopen(-1))
	var zero merge.Result
	require.Error(t, zero.Reopen(0))
	assert.Empty(t, zero.Open())
}

func TestReason(t *testing.T) {
	tests := []struct {
		s    merge.Suggestion
		want string
	}{
		{merge.Suggestion{Rule: merge.RuleContained, From: merge.Ours}, "takes yours, which already contains the change of the agent or has higher versions"},
		{merge.Suggestion{Rule: merge.RuleContained, From: merge.Theirs}, "takes the agent, which already contains the change of yours or has higher versions"},
		{merge.Suggestion{Rule: merge.RuleContained, From: merge.Both}, "is what both have"},
		{merge.Suggestion{Rule: merge.RuleLast, From: merge.Theirs}, "takes the agent and not yours, as the last conflict before"},
		{merge.Suggestion{Rule: merge.RuleTokens, From: merge.Both}, "makes both changes, which do not overlap"},
		{merge.Suggestion{Rule: "a model", From: merge.Ours}, "takes yours, as a model proposes"},
		{merge.Suggestion{Rule: "a model", From: merge.Both}, "is from a model and has the changes of both"},
		{merge.Suggestion{Rule: "a model", From: merge.Conflict, Omits: []string{"x", "y"}}, "is from a model and leaves out x, y"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.s.Reason("yours", "the agent"))
	}
	for rule := range confidences(t) {
		s := merge.Suggestion{Rule: rule, From: merge.Ours}
		assert.NotContains(t, s.Reason("yours", "the agent"), "proposes", "%s has a reason", rule)
	}
}

func TestAsk(t *testing.T) {
	base, ours, theirs := "x\nf(a)\ny\n", "x\nf(a, b)\ny\n", "x\nf(a).c()\ny\n"
	answer := func(text string) merge.Source {
		return merge.Source{Name: "a model", Confidence: 0.6, Propose: func(context.Context, merge.Sides) ([]byte, error) {
			return []byte(text), nil
		}}
	}
	tests := []struct {
		name, text string
		parses     func([]byte) bool
		want       string // Text, or the end of the error
		from       merge.Kind
		omits      []string
	}{
		{"both", "f(a, b).c()\n", nil, "f(a, b).c()\n", merge.Both, nil},
		{"no newline", "f(a, b).c()", nil, "f(a, b).c()\n", merge.Both, nil},
		{"one side", "f(a, b)\n", nil, "f(a, b)\n", merge.Ours, nil},
		{"other words", "f(a, z)\n", nil, "f(a, z)\n", merge.Conflict, []string{"b", ".", "c"}},
		{"nothing", "", nil, "", merge.Conflict, []string{",", "b", ".", "c", "(", ")"}},
		{"markers", "<<<<<<< a\nf(a, b).c()\n", nil, "the answer has conflict markers", 0, nil},
		{"too large", strings.Repeat("f(a, b).c()\n", 1<<13), nil, "the answer is too large", 0, nil},
		{"does not parse", "f(a, b.c()\n", balanced, "the file does not parse with the answer", 0, nil},
		{"parses", "f(a, b).c()\n", balanced, "f(a, b).c()\n", merge.Both, nil},
		{"nothing parses", "f(a, b.c()\n", func([]byte) bool { return false }, "f(a, b.c()\n", merge.Both, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := merge.Merge([]byte(base), []byte(ours), []byte(theirs), merge.WithStyle(merge.StyleDiff3))
			source := answer(tt.text)
			source.Parses = tt.parses
			s, err := r.Ask(t.Context(), 1, source)
			assert.Equal(t, 1, r.Conflicts())
			if err != nil {
				assert.EqualError(t, err, "ask a model about region 1: "+tt.want)
				assert.NotContains(t, first(r.Open())[0], "a model")
				return
			}
			assert.Equal(t, tt.want, string(s.Text))
			assert.Equal(t, tt.from, s.From)
			assert.Subset(t, s.Omits, tt.omits)
			assert.Equal(t, tt.omits == nil, s.Omits == nil)
			assert.Contains(t, r.Open()[0].Suggestions, s)
			again, err := r.Ask(t.Context(), 1, source)
			require.NoError(t, err)
			assert.Equal(t, s, again)
			assert.Equal(t, 1, strings.Count(first(r.Open())[0], "a model"), "it takes the place of the one before")
		})
	}
}

// balanced is a parser.
func balanced(file []byte) bool {
	return bytes.Count(file, []byte("(")) == bytes.Count(file, []byte(")"))
}

func TestAskErrors(t *testing.T) {
	asked := 0
	source := merge.Source{Name: "rule", Propose: func(_ context.Context, c merge.Sides) ([]byte, error) {
		asked++
		return nil, errors.New("no idea")
	}}
	r := conflicting("", 2)
	_, err := r.Ask(t.Context(), 0, source)
	require.EqualError(t, err, "ask rule about region 0: no idea")
	require.NoError(t, r.Resolve(2, merge.ChooseOurs))
	for _, region := range []int{-1, 1, 2, 4} {
		_, err := r.Ask(t.Context(), region, source)
		require.Error(t, err, region)
	}
	large := strings.Repeat("o", 1<<17)
	for _, r := range []merge.Result{
		{},
		merge.Merge([]byte("a\x00"), []byte("b\x00"), []byte("c\x00")),
		merge.Merge([]byte("a\n"), []byte(large), []byte("c\n")),
	} {
		_, err := r.Ask(t.Context(), 0, source)
		require.Error(t, err)
	}
	assert.Equal(t, 1, asked)
}

// A file that has fences does not end the quotes of the question.
func TestQuestion(t *testing.T) {
	base := "```\n" + strings.Repeat("line\n", 30) + "b\nend"
	r := merge.Merge([]byte(base), []byte(strings.Replace(base, "b\n", "o\n````\n", 1)), []byte(strings.Replace(base, "b\n", "t\n", 1)))
	c := r.Sides(1)
	assert.Equal(t, strings.Repeat("line\n", 20), string(c.Before))
	assert.Equal(t, []string{"b\n", "o\n````\n", "t\n", "end"}, []string{string(c.Base), string(c.Ours), string(c.Theirs), string(c.After)})
	q := c.Question()
	assert.Contains(t, q, "\n`````\no\n````\n`````\n")
	assert.Contains(t, q, "\n```\nend\n```\n")
	assert.Zero(t, r.Sides(9))

	long := strings.Repeat(strings.Repeat("x", 1<<10)+"\n", 20)
	r = merge.Merge([]byte(long+"b\n"), []byte(long+"o\n"), []byte(long+"t\n"))
	assert.Len(t, r.Sides(1).Before, 5*(1<<10+1))
}

func TestAnswer(t *testing.T) {
	for reply, want := range map[string]string{
		"Here:\n```go\na\n```\nDone.": "a\n",
		"```\na\n```go\nb\n```":       "a\n```go\nb\n",
		"```\n```":                    "",
	} {
		got, err := merge.Answer(reply)
		require.NoError(t, err, reply)
		assert.Equal(t, want, string(got))
	}
	for _, reply := range []string{"", "a", "```", "```\na\n"} {
		_, err := merge.Answer(reply)
		require.Error(t, err, reply)
	}
}

// TestRandomReview resolves random merges in a random way. Suggestions change neither the verdict
// nor what was resolved, the same question gives the same answer, and what is undone is undone.
func TestRandomReview(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 18))
	followed := 0
	for range 3000 {
		base := randomLines(rng, nil)
		ours, theirs := randomLines(rng, base), randomLines(rng, base)
		texts := [][]byte{joinLines(base), joinLines(ours), joinLines(theirs)}
		style := merge.WithStyle(merge.Style(rng.IntN(3)))
		r := merge.Merge(texts[0], texts[1], texts[2], style)
		fresh, conflicts := string(r.Bytes()), r.Conflicts()
		var done []int
		for range rng.IntN(2 * (conflicts + 1)) {
			open := r.Open()
			require.Equal(t, open, r.Open())
			require.Len(t, open, r.Conflicts())
			if len(open) == 0 {
				break
			}
			o := open[rng.IntN(len(open))]
			for i, s := range o.Suggestions {
				checkSuggestion(t, s, r.Regions[o.Region], texts)
				require.True(t, i == 0 || s.Confidence <= o.Suggestions[i-1].Confidence)
				if s.Rule == merge.RuleLast || s.Rule == merge.RuleAll || s.Rule == merge.RuleFiles {
					followed++
				}
			}
			before := r.Conflicts()
			if n := len(o.Suggestions); n > 0 && rng.IntN(2) == 0 {
				require.NoError(t, r.ResolveWith(o.Region, o.Suggestions[rng.IntN(n)].Text))
			} else {
				require.NoError(t, r.Resolve(o.Region, merge.Choice(rng.IntN(5))))
			}
			require.Equal(t, before-1, r.Conflicts())
			done = append(done, o.Region)
		}
		checkSpans(t, r)
		for _, i := range done {
			require.NoError(t, r.Reopen(i))
		}
		require.Equal(t, fresh, string(r.Bytes()))
		require.Equal(t, conflicts, r.Conflicts())
	}
	assert.Greater(t, followed, 100)
}

// checkSuggestion checks that a suggestion is the text of the side that it names, or has all words
// of both sides.
func checkSuggestion(t *testing.T, s merge.Suggestion, g merge.Region, texts [][]byte) {
	t.Helper()
	base, ours, theirs := g.Base.Of(texts[0]), g.Ours.Of(texts[1]), g.Theirs.Of(texts[2])
	switch s.From {
	case merge.Ours:
		require.True(t, bytes.Equal(ours, s.Text), s)
	case merge.Theirs:
		require.True(t, bytes.Equal(theirs, s.Text), s)
	default:
		require.Equal(t, merge.Both, s.From)
		for _, side := range [][]byte{ours, theirs} {
			// A side may have deleted a sign within a word of the other side.
			for word := range bytes.FieldsFuncSeq(side, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
				if !bytes.Contains(base, word) {
					require.Contains(t, string(s.Text), string(word), s)
				}
			}
		}
	}
}

// randomLines returns random lines, or changes some.
func randomLines(rng *rand.Rand, lines []string) []string {
	line := func() string {
		words := make([]string, 1+rng.IntN(5))
		for i := range words {
			words[i] = string(rune('a' + rng.IntN(12)))
		}
		return strings.Join(words, " ") + "\n"
	}
	var out []string
	if lines == nil {
		for range 4 + rng.IntN(30) {
			out = append(out, line())
		}
		return out
	}
	for _, l := range lines {
		switch rng.IntN(12) {
		case 0:
			out = append(out, line())
		case 1:
			out = append(out, strings.Replace(l, " ", " new ", 1))
		case 2:
		case 3:
			out = append(out, l, line())
		default:
			out = append(out, l)
		}
	}
	return out
}

func joinLines(lines []string) []byte { return []byte(strings.Join(lines, "")) }
