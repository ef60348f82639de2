package runes_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/runes"
)

// Git says which files are binary: it counts no lines of them.
func TestBinaryIsGitsRule(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	line := strings.Repeat("x", 99) + "\n"
	files := map[string]string{
		"empty": "", "text": line, "nul": "\x00", "nul at the end": line + "\x00",
		"last that counts":    strings.Repeat(line, 79) + strings.Repeat("x", 99) + "\x00",
		"first that does not": strings.Repeat(line, 80) + "\x00",
		"far":                 strings.Repeat(line, 200) + "\x00",
		"utf-8":               "é\n", "latin-1": "\xe9\n", "utf-16": "\xff\xfea\x00", "escape": "\x1b[0m\x01\n",
	}
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		cmd := exec.Command("git", "diff", "--no-index", "--numstat", os.DevNull, name)
		cmd.Dir = dir
		out, _ := cmd.Output() // it exits with 1, as the files differ
		assert.Equal(t, bytes.HasPrefix(out, []byte("-\t-\t")), runes.Binary([]byte(content)), name)
	}
}
