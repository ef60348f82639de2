package aycoder

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustPlan(t testing.TB, edits ...FileEdit) EditPlan {
	t.Helper()
	p, err := NewEditPlan(edits...)
	require.NoError(t, err)
	return p
}

func change(name, base, proposed string) FileEdit {
	return FileEdit{Path: name, Kind: EditChange, Base: base, Proposed: proposed}
}

func TestNewEditPlanRefuses(t *testing.T) {
	many := make([]FileEdit, maxPlanFiles+1)
	for i := range many {
		many[i] = FileEdit{Path: strings.Repeat("a", i+1), Kind: EditCreate, Proposed: "x"}
	}
	tests := []struct {
		name, says string
		edits      []FileEdit
	}{
		{"no path", "path is empty", []FileEdit{change("", "a", "b")}},
		{"nul", "path is empty, too long", []FileEdit{change("a\x00", "a", "b")}},
		{"not utf-8", "not valid text", []FileEdit{change("\xff", "a", "b")}},
		{"long path", "too long", []FileEdit{change(strings.Repeat("a", maxPlanPath+1), "a", "b")}},
		{"create with base", "has no base", []FileEdit{{Path: "a", Kind: EditCreate, Base: "x", Proposed: "y"}}},
		{"delete with proposal", "no proposed content", []FileEdit{{Path: "a", Kind: EditDelete, Base: "x", Proposed: "y"}}},
		{"no kind", `no kind of edit ""`, []FileEdit{{Path: "a", Base: "x", Proposed: "y"}}},
		{"twice", "in the plan twice", []FileEdit{change("a", "1", "2"), change("./a", "2", "3")}},
		{"too many", "256 files", many},
		{"too large", "bytes in a plan", []FileEdit{change("a", strings.Repeat("x", maxPlanBytes), "y")}},
		{"large memo", "bytes in a plan", []FileEdit{{Path: "a", Kind: EditCreate, Memo: strings.Repeat("x", maxPlanBytes+1)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewEditPlan(tt.edits...)
			require.ErrorContains(t, err, tt.says)
			assert.Less(t, len(err.Error()), 1000)
		})
	}
}

func TestEditPlanDigest(t *testing.T) {
	p := mustPlan(t, change("a", "1", "2"), FileEdit{Path: "b", Kind: EditCreate, Proposed: "x"})
	assert.Equal(t, p.Digest(), mustPlan(t, change("./a", "1", "2"), FileEdit{Path: "b", Kind: EditCreate, Proposed: "x"}).Digest())
	seen := map[string]bool{p.Digest(): true, EditPlan{}.Digest(): true}
	for _, other := range []EditPlan{
		mustPlan(t, change("a", "1", "2")),
		mustPlan(t, change("a", "1", "3"), FileEdit{Path: "b", Kind: EditCreate, Proposed: "x"}),
		mustPlan(t, change("a", "0", "2"), FileEdit{Path: "b", Kind: EditCreate, Proposed: "x"}),
		mustPlan(t, change("a", "1", "2"), FileEdit{Path: "c", Kind: EditCreate, Proposed: "x"}),
		mustPlan(t, change("a", "1", "2"), FileEdit{Path: "b", Kind: EditChange, Proposed: "x"}),
		mustPlan(t, change("a", "1", "2"), FileEdit{Path: "b", Kind: EditCreate, Proposed: "x", Memo: "m"}),
		mustPlan(t, change("a", "1", "2"), FileEdit{Path: "b", Kind: EditCreate, Proposed: "x", Memo: "n"}),
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

func TestEditPlanJSON(t *testing.T) {
	p := mustPlan(t, change("a", "1\r\n\x00", "\xff\xfe"), FileEdit{Path: "d", Kind: EditDelete, Base: "<&>\u2028", Memo: "\xff"})
	q, err := p.WithProposed("a", "edited")
	require.NoError(t, err)
	for _, plan := range []EditPlan{p, q, {}} {
		data, err := json.Marshal(plan)
		require.NoError(t, err)
		var back EditPlan
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, plan.Digest(), back.Digest())
		assert.Equal(t, plan.OmittedText(), back.OmittedText())
	}
	data, err := json.Marshal(mustPlan(t, change("a", "x", "\xff")))
	require.NoError(t, err)
	assert.JSONEq(t, `{"files":[{"path":"a","kind":"change","base":"x","proposed":{"base64":"/w=="}}]}`, string(data))
	for _, bad := range []string{`[]`, `{"files":[{"path":"a"}]}`, `{"files":[{"path":"a","kind":"change","base":7}]}`,
		`{"files":[],"asked":[{"path":"","kind":"create"}]}`} {
		var plan EditPlan
		assert.Error(t, json.Unmarshal([]byte(bad), &plan), bad)
	}
}

const (
	reviewBase = "1\n2\n3\n4\n5\n6\n"
	reviewText = "1\nTWO\n3\n4\n5\n6\n7\n"
)

func reviewPlan(t testing.TB) EditPlan {
	return mustPlan(t, change("a.txt", reviewBase, reviewText), FileEdit{Path: "new.txt", Kind: EditCreate, Proposed: "hello\n"},
		FileEdit{Path: "old.txt", Kind: EditDelete, Base: "bye\n"})
}

func TestEditPlanReview(t *testing.T) {
	p := reviewPlan(t)
	h := p.Hunks()
	require.Len(t, h, 4)
	assert.Equal(t, LineChange{2, 2, "2\n", "TWO\n"}, h[0].LineChange)
	assert.Equal(t, LineChange{7, 7, "", "7\n"}, h[1].LineChange)
	assert.Equal(t, EditCreate, h[2].Kind)
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
		review func() (EditPlan, error)
		files  []string // path=proposed
		told   []string
	}{
		{"keep one", func() (EditPlan, error) { return p.Keep(ids(0)...) },
			[]string{"a.txt=1\nTWO\n3\n4\n5\n6\n"}, []string{"a.txt", "-7", "new.txt: left out", "old.txt: left out"}},
		{"without one", func() (EditPlan, error) { return p.Without(ids(0)...) },
			[]string{"a.txt=1\n2\n3\n4\n5\n6\n7\n", "new.txt=hello\n", "old.txt="}, []string{"@@ line 2 @@\n-TWO\n+2\n"}},
		{"keep all", func() (EditPlan, error) { return p.Keep(ids(0, 1, 2, 3)...) },
			[]string{"a.txt=" + reviewText, "new.txt=hello\n", "old.txt="}, nil},
		{"keep none", func() (EditPlan, error) { return p.Keep() }, nil, []string{"a.txt: left out"}},
		{"by file", func() (EditPlan, error) { return p.KeepFiles("old.txt") },
			[]string{"old.txt="}, []string{"a.txt: left out", "new.txt: left out"}},
		{"edited", func() (EditPlan, error) { return p.WithProposed("new.txt", "HELLO\n") },
			[]string{"a.txt=" + reviewText, "new.txt=HELLO\n", "old.txt="}, []string{"-hello\n+HELLO\n"}},
		{"edited instead of deleted", func() (EditPlan, error) { return p.WithProposed("old.txt", "short\n") },
			[]string{"a.txt=" + reviewText, "new.txt=hello\n", "old.txt=short\n"},
			[]string{"old.txt: changed instead of deleted"}},
		{"edited back", func() (EditPlan, error) { return p.WithProposed("a.txt", reviewBase) },
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

func TestEditPlanReviewRefuses(t *testing.T) {
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
func TestEditPlanReviewTwice(t *testing.T) {
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

func FuzzEditPlanJSON(f *testing.F) {
	for _, p := range []EditPlan{reviewPlan(f), {}, mustPlan(f, change("a", "\xff", "\x00"))} {
		data, err := json.Marshal(p)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"files":[{"path":"a","kind":"change","base":{"base64":"AA=="},"proposed":null}],"asked":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p EditPlan
		if json.Unmarshal(data, &p) != nil {
			return
		}
		again, err := json.Marshal(p)
		require.NoError(t, err)
		var q EditPlan
		require.NoError(t, json.Unmarshal(again, &q))
		require.Equal(t, p.Digest(), q.Digest())
		require.Equal(t, p.OmittedText(), q.OmittedText())
		require.True(t, utf8.ValidString(p.OmittedText()))
	})
}

// All hunks give the proposal and none gives the base. The kept and the dropped hunks
// together give the proposal, too.
func FuzzEditPlanHunks(f *testing.F) {
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
		proposal := func(q EditPlan, err error) string {
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

func rebuild(base string, hunks []EditHunk) string { return withChanges(base, hunks) }

func grown(hunks []EditHunk, ids []string) int {
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
