package aycoder

import (
	"encoding/json"
	"testing"

	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Another process may answer a question: what it sends is a verdict whatever the bytes are,
// or an error, and the same verdict when it is stored and read once more.
func FuzzVerdictJSON(f *testing.F) {
	plan, err := edit.NewPlan(edit.File{Path: "a.txt", Kind: edit.Change, Base: "1\n2\n", Proposed: "1\nTWO\n"})
	require.NoError(f, err)
	for _, v := range []Verdict{
		Ask(), Allow(), Allow().held(), AllowWith(json.RawMessage(`{"a": "<"}`)), Deny("no\xff"), Suspend(),
		AllowPlan(plan),
	} {
		data, err := json.Marshal(v)
		require.NoError(f, err)
		var w Verdict
		require.NoError(f, json.Unmarshal(data, &w))
		require.Equal(f, v.readOnly(), w.readOnly())
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"allow","args":null,"plan":null}`))
	f.Add([]byte(`{"kind":"maybe"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v, w Verdict
		if json.Unmarshal(data, &v) != nil {
			assert.Equal(t, Verdict{}, v, "a decision came with an error")
			return
		}
		first, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(first, &w))
		second, err := json.Marshal(w)
		require.NoError(t, err)
		assert.Equal(t, string(first), string(second))
		assert.Equal(t, v.kind, w.kind)
		assert.Equal(t, v.readOnly(), w.readOnly())
	})
}
