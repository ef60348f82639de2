package edit

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustPlan(t testing.TB, edits ...File) Plan {
	t.Helper()
	p, err := NewPlan(edits...)
	require.NoError(t, err)
	return p
}

func change(name, base, proposed string) File {
	return File{Path: name, Kind: Change, Base: base, Proposed: proposed}
}

func TestNewPlanRefuses(t *testing.T) {
	many := make([]File, maxPlanFiles+1)
	for i := range many {
		many[i] = File{Path: strings.Repeat("a", i+1), Kind: Create, Proposed: "x"}
	}
	tests := []struct {
		name, says string
		edits      []File
	}{
		{"no path", "path is empty", []File{change("", "a", "b")}},
		{"nul", "path is empty, too long", []File{change("a\x00", "a", "b")}},
		{"not utf-8", "not valid text", []File{change("\xff", "a", "b")}},
		{"long path", "too long", []File{change(strings.Repeat("a", maxPlanPath+1), "a", "b")}},
		{"create with base", "has no base", []File{{Path: "a", Kind: Create, Base: "x", Proposed: "y"}}},
		{"delete with proposal", "no proposed content", []File{{Path: "a", Kind: Delete, Base: "x", Proposed: "y"}}},
		{"no kind", `no kind of edit ""`, []File{{Path: "a", Base: "x", Proposed: "y"}}},
		{"twice", "in the plan twice", []File{change("a", "1", "2"), change("./a", "2", "3")}},
		{"too many", "256 files", many},
		{"too large", "bytes in a plan", []File{change("a", strings.Repeat("x", maxPlanBytes), "y")}},
		{"large memo", "bytes in a plan", []File{{Path: "a", Kind: Create, Memo: strings.Repeat("x", maxPlanBytes+1)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewPlan(tt.edits...)
			require.ErrorContains(t, err, tt.says)
			assert.Less(t, len(err.Error()), 1000)
		})
	}
}

func TestPlanDigest(t *testing.T) {
	p := mustPlan(t, change("a", "1", "2"), File{Path: "b", Kind: Create, Proposed: "x"})
	assert.Equal(t, p.Digest(), mustPlan(t, change("./a", "1", "2"), File{Path: "b", Kind: Create, Proposed: "x"}).Digest())
	seen := map[string]bool{p.Digest(): true, Plan{}.Digest(): true}
	for _, other := range []Plan{
		mustPlan(t, change("a", "1", "2")),
		mustPlan(t, change("a", "1", "3"), File{Path: "b", Kind: Create, Proposed: "x"}),
		mustPlan(t, change("a", "0", "2"), File{Path: "b", Kind: Create, Proposed: "x"}),
		mustPlan(t, change("a", "1", "2"), File{Path: "c", Kind: Create, Proposed: "x"}),
		mustPlan(t, change("a", "1", "2"), File{Path: "b", Kind: Change, Proposed: "x"}),
		mustPlan(t, change("a", "1", "2"), File{Path: "b", Kind: Create, Proposed: "x", Memo: "m"}),
		mustPlan(t, change("a", "1", "2"), File{Path: "b", Kind: Create, Proposed: "x", Memo: "n"}),
	} {
		require.False(t, seen[other.Digest()], other.files)
		seen[other.Digest()] = true
	}
	files := p.Files()
	files[0].Proposed = "changed by the caller"
	assert.Equal(t, "2", p.Files()[0].Proposed)
	_, ok := p.File("c")
	assert.False(t, ok)
}

func TestPlanJSON(t *testing.T) {
	p := mustPlan(t, change("a", "1\r\n\x00", "\xff\xfe"), File{Path: "d", Kind: Delete, Base: "<&>\u2028", Memo: "\xff"})
	q, err := p.WithProposed("a", "edited")
	require.NoError(t, err)
	for _, plan := range []Plan{p, q, {}} {
		data, err := json.Marshal(plan)
		require.NoError(t, err)
		var back Plan
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, plan.Digest(), back.Digest())
		assert.Equal(t, plan.OmittedText(), back.OmittedText())
	}
	data, err := json.Marshal(mustPlan(t, change("a", "x", "\xff")))
	require.NoError(t, err)
	assert.JSONEq(t, `{"files":[{"path":"a","kind":"change","base":"x","proposed":{"base64":"/w=="}}]}`, string(data))
	for _, bad := range []string{`[]`, `{"files":[{"path":"a"}]}`, `{"files":[{"path":"a","kind":"change","base":7}]}`,
		`{"files":[],"asked":[{"path":"","kind":"create"}]}`} {
		var plan Plan
		assert.Error(t, json.Unmarshal([]byte(bad), &plan), bad)
	}
}

const (
	reviewBase = "1\n2\n3\n4\n5\n6\n"
	reviewText = "1\nTWO\n3\n4\n5\n6\n7\n"
)

func reviewPlan(t testing.TB) Plan {
	return mustPlan(t, change("a.txt", reviewBase, reviewText), File{Path: "new.txt", Kind: Create, Proposed: "hello\n"},
		File{Path: "old.txt", Kind: Delete, Base: "bye\n"})
}

// A preview that the replacement of invalid bytes makes too long says so.
func TestPlanPreviewOfInvalidText(t *testing.T) {
	text := mustPlan(t, File{Path: "x", Kind: Create, Proposed: strings.Repeat("\xffa\n", 12_000)}).Preview()
	assert.LessOrEqual(t, len(text), 64<<10)
	assert.Regexp(t, `\n\[.*left out.*\]\n$|\n\[diff cut\]\n$`, text)
}

func TestPlanReview(t *testing.T) {
	p := reviewPlan(t)
	h := p.Hunks()
	require.Len(t, h, 4)
	assert.Equal(t, LineChange{2, 2, "2\n", "TWO\n"}, h[0].LineChange)
	assert.Equal(t, LineChange{7, 7, "", "7\n"}, h[1].LineChange)
	assert.Equal(t, Create, h[2].Kind)
	assert.Equal(t, LineChange{1, 1, "bye\n", ""}, h[3].LineChange)
	assert.Empty(t, p.OmittedText())

	ids := func(of ...int) (out []string) {
		for _, i := range of {
			out = append(out, h[i].ID)
		}
		return out
	}
	tests := []struct {
		name   string
		review func() (Plan, error)
		files  []string // path=proposed
		told   []string
	}{
		{"keep one", func() (Plan, error) { return p.Keep(ids(0)...) },
			[]string{"a.txt=1\nTWO\n3\n4\n5\n6\n"}, []string{"a.txt", "-7", "new.txt: left out", "old.txt: left out"}},
		{"without one", func() (Plan, error) { return p.Without(ids(0)...) },
			[]string{"a.txt=1\n2\n3\n4\n5\n6\n7\n", "new.txt=hello\n", "old.txt="}, []string{"@@ line 2 @@\n-TWO\n+2\n"}},
		{"keep all", func() (Plan, error) { return p.Keep(ids(0, 1, 2, 3)...) },
			[]string{"a.txt=" + reviewText, "new.txt=hello\n", "old.txt="}, nil},
		{"keep none", func() (Plan, error) { return p.Keep() }, nil, []string{"a.txt: left out"}},
		{"by file", func() (Plan, error) { return p.KeepFiles("old.txt") },
			[]string{"old.txt="}, []string{"a.txt: left out", "new.txt: left out"}},
		{"edited", func() (Plan, error) { return p.WithProposed("new.txt", "HELLO\n") },
			[]string{"a.txt=" + reviewText, "new.txt=HELLO\n", "old.txt="}, []string{"-hello\n+HELLO\n"}},
		{"edited instead of deleted", func() (Plan, error) { return p.WithProposed("old.txt", "short\n") },
			[]string{"a.txt=" + reviewText, "new.txt=hello\n", "old.txt=short\n"},
			[]string{"old.txt: changed instead of deleted"}},
		{"edited back", func() (Plan, error) { return p.WithProposed("a.txt", reviewBase) },
			[]string{"new.txt=hello\n", "old.txt="}, []string{"a.txt: left out"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := tt.review()
			require.NoError(t, err)
			var files []string
			for _, e := range q.Files() {
				files = append(files, e.Path+"="+e.Proposed)
			}
			assert.Equal(t, tt.files, files)
			if tt.told == nil {
				assert.Empty(t, q.OmittedText())
				assert.Equal(t, p.Digest(), q.Digest())
				return
			}
			assert.NotEqual(t, p.Digest(), q.Digest())
			for _, s := range tt.told {
				assert.Contains(t, q.OmittedText(), s)
			}
		})
	}
}

func TestPlanReviewRefuses(t *testing.T) {
	p := reviewPlan(t)
	q, err := p.Keep(p.Hunks()[0].ID)
	require.NoError(t, err)
	_, err = q.Keep(p.Hunks()[1].ID)
	require.ErrorContains(t, err, "1 of 1 hunks are not of this plan")
	_, err = p.Without("nothing")
	require.Error(t, err)
	_, err = p.KeepFiles("a.txt", "b.txt")
	require.ErrorContains(t, err, "b.txt: is not in the plan")
	_, err = p.WithProposed("b.txt", "")
	require.ErrorContains(t, err, "b.txt: is not in the plan")
	_, err = p.WithProposed("a.txt", strings.Repeat("x", maxPlanBytes))
	require.ErrorContains(t, err, "bytes in a plan")
}

// A plan that was reviewed twice still knows what the model asked for.
func TestPlanReviewTwice(t *testing.T) {
	p := reviewPlan(t)
	q, err := p.Without(p.Hunks()[0].ID)
	require.NoError(t, err)
	q, err = q.KeepFiles("a.txt", "old.txt")
	require.NoError(t, err)
	assert.Contains(t, q.OmittedText(), "-TWO")
	assert.Contains(t, q.OmittedText(), "new.txt: left out")
	assert.NotContains(t, q.OmittedText(), "old.txt")
}

func TestLeftOutBounded(t *testing.T) {
	long := strings.Repeat("\xffa", 1<<20)
	for _, text := range []string{long, strings.Repeat("line\n", 1<<18)} {
		p := mustPlan(t, change("a", "base", text))
		q, err := p.WithProposed("a", "short")
		require.NoError(t, err)
		told := q.OmittedText()
		assert.Less(t, len(told), 16<<10)
		assert.True(t, utf8.ValidString(told))
		assert.Contains(t, told, "more is not shown")
	}
}

func FuzzPlanJSON(f *testing.F) {
	for _, p := range []Plan{reviewPlan(f), {}, mustPlan(f, change("a", "\xff", "\x00"))} {
		data, err := json.Marshal(p)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"files":[{"path":"a","kind":"change","base":{"base64":"AA=="},"proposed":null}],"asked":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Plan
		if json.Unmarshal(data, &p) != nil {
			return
		}
		again, err := json.Marshal(p)
		require.NoError(t, err)
		var q Plan
		require.NoError(t, json.Unmarshal(again, &q))
		require.Equal(t, p.Digest(), q.Digest())
		require.Equal(t, p.OmittedText(), q.OmittedText())
		require.True(t, utf8.ValidString(p.OmittedText()))
	})
}

// All hunks give the proposal and none gives the base. The kept and the dropped hunks
// together give the proposal, too.
func FuzzPlanHunks(f *testing.F) {
	f.Add("1\n2\n3\n", "1\nx\n3\n4", uint64(1))
	f.Add("a", "a\nb", uint64(2))
	f.Add("\r\n\r\n", "\n", uint64(0))
	f.Fuzz(func(t *testing.T, base, proposed string, pick uint64) {
		p := mustPlan(t, change("f", base, proposed))
		hunks := p.Hunks()
		var all, some, rest []string
		for i, h := range hunks {
			all = append(all, h.ID)
			if pick>>(i%64)&1 == 1 {
				some = append(some, h.ID)
			} else {
				rest = append(rest, h.ID)
			}
		}
		proposal := func(q Plan, err error) string {
			require.NoError(t, err)
			if e, ok := q.File("f"); ok {
				return e.Proposed
			}
			return base
		}
		require.Equal(t, proposed, proposal(p.Keep(all...)))
		require.Equal(t, base, proposal(p.Keep()))
		require.Equal(t, proposed, proposal(p.Without()))
		require.Equal(t, base, proposal(p.Without(all...)))
		require.Equal(t, proposal(p.Keep(some...)), proposal(p.Without(rest...)))
		require.Equal(t, proposed, rebuild(base, hunks))
		// A part of the hunks, and then the others on top of it, gives the proposal too.
		part := proposal(p.Keep(some...))
		require.Equal(t, len(part)-len(base), grown(hunks, some))
	})
}

func rebuild(base string, hunks []Hunk) string { return withChanges(base, hunks) }

func grown(hunks []Hunk, ids []string) int {
	n := 0
	for _, h := range hunks {
		for _, id := range ids {
			if h.ID == id {
				n += len(h.New) - len(h.Old)
			}
		}
	}
	return n
}
