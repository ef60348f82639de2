package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program prints what the guide shows.
func TestGuide(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.txt")
	printed := strings.ReplaceAll(try(t, t.TempDir(), outside), outside, "/etc/aycoder-was-here")
	guide, err := os.ReadFile("../../docs/sandbox.md")
	require.NoError(t, err)
	require.Contains(t, string(guide), "```text\n"+printed+"```")
}
