//go:build unix

package policy_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/policy"
)

// A named pipe in the place of a file of rules is an error, and nobody waits for its writer.
func TestRulesInPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	_, err := policy.ReadRules(name)
	require.ErrorContains(t, err, "not a regular file")
}
