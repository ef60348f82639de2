package diff3

import (
	"encoding/json"
	"testing"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// eachCase calls each for all cases of a file, or with -race for every tenth.
func eachCase[T any](t testing.TB, name string, each func(c *T)) {
	t.Helper()
	timed.Long(t, "recorded merges")
	step := 1
	if timed.Reduced(t) {
		step = 10
	}
	cases := map[string]string{"cases.jsonl.gz": "3,640 merges", "synthetic.jsonl.gz": "2,285 merges"}[name]
	corpus.Each(t, "merge/"+name, cases, step, each)
}

func realTriple(c *corpus.Merge) triple {
	return triple{c.Base, c.Ours.Apply(c.Base), c.Theirs.Apply(c.Base)}
}

// madeCase is a merge that somebody made up.
type madeCase struct {
	ID, Kind           string
	Base, Ours, Theirs corpus.Text
	Git                map[string]madeMerge
}

type madeMerge struct {
	conflicts int // 255 if it refused
	out       corpus.Text
}

func (m *madeMerge) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&m.conflicts, &m.out})
}

var styles = map[string]Style{"merge": StyleMerge, "diff3": StyleDiff3, "zdiff3": StyleZdiff3}

// likeGit renders a merge as git merge-file does.
func likeGit(r *Result) []byte {
	return render(r, Format{Ours: "ours", Base: "base", Theirs: "theirs", MarkerSize: 7}, unresolved)
}
