package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/tools"
)

// try runs the program, and skips the test on a machine without a complete sandbox.
func try(t *testing.T, dir, outside string) (output string) {
	t.Setenv("HOME", filepath.Dir(outside))
	var out strings.Builder
	err := run(t.Context(), &out, dir, outside)
	complete := "files confined: true, network blocked: true, missing: []"
	if errors.Is(err, tools.ErrSandbox) || err == nil && !strings.HasPrefix(out.String(), complete) {
		t.Skipf("no complete sandbox on this machine: %v %s", err, &out)
	}
	require.NoError(t, err)
	return out.String()
}

func TestSandbox(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside.txt")
	t.Log(try(t, dir, outside))
	require.FileExists(t, filepath.Join(dir, "inside.txt"))
	require.NoFileExists(t, outside)
}
