package merge_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/merge"
)

// mergeCase is a recorded merge with git's answer in style merge.
type mergeCase struct {
	ID, Base     string
	Ours, Theirs [][3]any // edits of base: from, to, text
	Git          map[string][3]any
}

func (c *mergeCase) apply(edits [][3]any) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, c.Base[at:int(e[0].(float64))]...), e[2].(string)...)
		at = int(e[1].(float64))
	}
	return append(out, c.Base[at:]...)
}

// eachMerge reads recorded merges; internal/diff3 tests all of them in all styles.
func eachMerge(t *testing.T, step int, each func(c *mergeCase)) {
	t.Helper()
	timed.Long(t, "recorded merges")
	f, err := os.Open(corpus.Path(t, "merge/cases.jsonl.gz", fmt.Sprintf("%d of 3,640 merges", 3640/step)))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r, n := bufio.NewReader(z), 0
	for i := 0; ; i++ {
		line, err := r.ReadBytes('\n')
		if len(line) > 1 && i%step == 0 {
			c := new(mergeCase)
			require.NoError(t, json.Unmarshal(line, c))
			each(c)
			n++
		}
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	t.Logf("%d recorded merges", n)
}

// TestMergeRecorded checks the exported form of a merge: the spans, what every
// choice gives, and the bytes.
func TestRecorded(t *testing.T) {
	t.Parallel()
	eachMerge(t, 8, func(c *mergeCase) {
		base, ours, theirs := []byte(c.Base), c.apply(c.Ours), c.apply(c.Theirs)
		r := merge.Merge(base, ours, theirs, merge.WithMarkerSize(7))
		out := r.Bytes()
		if r.Conflicts() == int(c.Git["merge"][0].(float64)) {
			assert.Len(t, out, int(c.Git["merge"][2].(float64)), c.ID)
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
			"labels", []merge.Option{merge.WithLabels("yours", "before", "the agent's")},
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
		for i := range r.Regions {
			err := r.Resolve(i, merge.Choice(choice))
			ok := choice >= 0 && choice < int(merge.ChooseSuggestion) ||
				choice == int(merge.ChooseSuggestion) && r.Regions[i].Suggestion != nil
			assert.Equal(t, ok, err == nil, err)
		}
		if choice < 0 || choice > int(merge.ChooseSuggestion) {
			assert.Equal(t, before, r.Bytes())
		}
	})
}
