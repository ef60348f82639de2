package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/tools"
)

func TestRun(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir, outside := t.TempDir(), filepath.Join(home, "outside.txt")
	var out strings.Builder
	err := run(t.Context(), &out, dir, outside)
	if errors.Is(err, tools.ErrSandbox) || strings.Contains(out.String(), "files confined: false") {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	require.NoError(t, err)
	t.Log(out.String())
	require.FileExists(t, filepath.Join(dir, "inside.txt"))
	_, err = os.Stat(outside)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Contains(t, out.String(), "[exit 0]")
}
