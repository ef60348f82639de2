package edit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/merge"
)

// conflicted returns what Apply finds of a file in which both sides changed the same two lines.
func conflicted(path string) (File, FileResult) {
	text := func(who string) string { return fmt.Sprintf("%s 1\n1\n2\n3\n4\n%[1]s 2\n", who) }
	base, ours, theirs := text("base"), text("user"), text("agent")
	m := merge.Merge([]byte(base), []byte(ours), []byte(theirs))
	return change(path, base, theirs), FileResult{
		Path: path, Kind: Change, Outcome: OutcomeConflicted, Exists: true,
		Base: base, Ours: ours, Theirs: theirs, Merge: &m,
	}
}

// A person who takes the same side in a file is offered that side in the next one.
func TestOpenFollowsFilesBefore(t *testing.T) {
	var plan []File
	e := &ConflictError{}
	for _, path := range []string{"a", "b", "c"} {
		p, f := conflicted(path)
		plan, e.Files = append(plan, p), append(e.Files, f)
	}
	var offered []string
	next, ok := e.Resolve(mustPlan(t, plan...), func(f *FileResult) (string, bool) {
		require.Len(t, f.Open(), 2)
		rule := ""
		for _, s := range f.Open()[0].Suggestions {
			rule = fmt.Sprintf("%s: %s %s", f.Path, s.Rule, s.From)
		}
		offered = append(offered, rule)
		_, err := f.Merge.ResolveRest(-1, merge.ChooseTheirs)
		require.NoError(t, err)
		require.Empty(t, f.Open())
		return string(f.Merge.Bytes()), true
	})
	require.True(t, ok)
	assert.Len(t, next.Files(), 3)
	assert.Equal(t, []string{"", "b: files theirs", "c: files theirs"}, offered)
	assert.Empty(t, (&FileResult{}).Open())
}
