//go:build unix

package eval_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/agenttest/eval"
)

// A pipe or a huge file in the place of a file ends no check late, and fills no memory.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	build := coder(says("x"))
	table, err := eval.Run(t.Context(), one(eval.FileIs("pipe", ""), eval.NoFile("pipe"), eval.FileMatches("huge", "x"), eval.NoFile("huge")),
		func(ctx context.Context, dir string, c *eval.Case) (*eval.Subject, error) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "huge"), nil, 0o600))
			require.NoError(t, os.Truncate(filepath.Join(dir, "huge"), 1<<40))
			return build(ctx, dir, c)
		}, eval.Options{})
	require.NoError(t, err)
	all := strings.Join(table.Rows[0].Failures, "\n")
	require.Len(t, table.Rows[0].Failures, 4, all)
	require.Equal(t, 2, strings.Count(all, "not a regular file"), all)
	require.Equal(t, 2, strings.Count(all, "larger than"), all)
}
