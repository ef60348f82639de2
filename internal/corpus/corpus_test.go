package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test that notes how it ended.
type ending struct {
	testing.TB
	skipped, failed string
}

func (e *ending) Helper() {}

func (e *ending) Skipf(format string, args ...any) {
	e.skipped = fmt.Sprintf(format, args...)
	panic(e)
}

func (e *ending) Fatalf(format string, args ...any) {
	e.failed = fmt.Sprintf(format, args...)
	panic(e)
}

// path calls Path in a repository that is in a separate directory.
func path(t *testing.T, name string) (got string, e *ending) {
	e = &ending{TB: t}
	defer func() {
		if r := recover(); r != nil && r != e {
			panic(r)
		}
	}()
	return Path(e, name, "12 cases"), e
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"repo/go.mod", "repo/inner/go.mod", "repo/inner/pkg/x", "else/set.json"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	t.Setenv(Env, "")
	t.Chdir(filepath.Join(dir, "repo", "inner", "pkg"))

	_, e := path(t, "set.json")
	assert.Equal(t, "no recorded material: 12 cases in set.json did not run; docs/testing.md says how to run them", e.skipped)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "shared"), 0o755))
	_, e = path(t, "set.json")
	assert.NotEmpty(t, e.skipped, "the set is missing")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shared", "set.json"), nil, 0o644))
	got, _ := path(t, "set.json")
	wantDir, err := os.Stat(filepath.Join(dir, "shared", "set.json"))
	require.NoError(t, err)
	gotDir, err := os.Stat(got)
	require.NoError(t, err)
	assert.True(t, os.SameFile(wantDir, gotDir), got)

	t.Setenv(Env, filepath.Join(dir, "else"))
	got, _ = path(t, "set.json")
	assert.Equal(t, filepath.Join(dir, "else", "set.json"), got)
	_, e = path(t, "other.json")
	assert.Contains(t, e.failed, "other.json", "whoever sets the variable wants the cases to run")
	t.Setenv(Env, "else")
	_, e = path(t, "set.json")
	assert.Contains(t, e.failed, "not an absolute path")
}
