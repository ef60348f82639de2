//go:build unix

package tools

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cases"
)

// TestOwnRobust calls the tools that read with what testdata has for them.
func TestOwnRobust(t *testing.T) {
	all := cases.Read(t, filepath.Join("testdata", "robust.txt"))
	for i := range all {
		c := &all[i]
		files := map[string]string{}
		for _, s := range c.Sections {
			if name, ok := strings.CutPrefix(s.Name, "file "); ok {
				files[cases.Unquote(name)] = s.Text
			}
		}
		raw, ok := c.Text("args")
		require.True(t, ok, c.Where)
		w := newWorld(t, files)
		r, err := w.callRaw(t.Context(), c.Value("tool"), json.RawMessage(raw))
		require.NoError(t, err, c.Where)
		kind := c.Value("refused")
		assert.Equal(t, kind != "", r.IsError, "%s: %s", c.Where, r.Text())
		assert.True(t, kind == "" || strings.HasPrefix(r.Text(), kind+": "), "%s: want %s: %s", c.Where, kind, r.Text())
		has, _ := c.Text("has")
		not, _ := c.Text("hasnot")
		for text := range strings.Lines(has) {
			assert.Contains(t, r.Text(), strings.TrimSuffix(text, "\n"), c.Where)
		}
		for text := range strings.Lines(not) {
			assert.NotContains(t, r.Text(), strings.TrimSuffix(text, "\n"), c.Where)
		}
		assert.NotEmpty(t, has+not, "%s: it wants nothing", c.Where)
		assert.Equal(t, files, w.files(), c.Where)
	}
	t.Logf("%d attacks ran", len(all))
	require.GreaterOrEqual(t, len(all), 15)
}
