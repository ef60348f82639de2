package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write writes the three files and returns their names.
func write(t testing.TB, ours, base, theirs string) []string {
	dir := t.TempDir()
	names := []string{filepath.Join(dir, "ours"), filepath.Join(dir, "base"), filepath.Join(dir, "theirs")}
	for i, text := range []string{ours, base, theirs} {
		require.NoError(t, os.WriteFile(names[i], []byte(text), 0o644))
	}
	return names
}

// The program prints what git prints, and has git's exit status.
func TestAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	for _, tt := range []struct{ name, ours, base, theirs string }{
		{"clean", "one\ntwo\nthree\nFOUR\n", "one\ntwo\nthree\nfour\n", "ONE\ntwo\nthree\nfour\n"},
		{"conflict", "a\nours\nz\n", "a\nb\nz\n", "a\ntheirs\nz\n"},
		{"two conflicts", "A\n1\n2\n3\n4\nB\n", "a\n1\n2\n3\n4\nb\n", "x\n1\n2\n3\n4\ny\n"},
		{"a line like a marker", "=========\nours\n", "=========\nb\n", "=========\ntheirs\n"},
		{"binary", "ours\x00", "b\x00", "theirs\x00"},
		{"binary on one side", "b", "b", "theirs\x00"},
		{"no newline", "a\nb", "a\n", "a\n"},
		{"empty", "", "a\n", "a\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := write(t, tt.ours, tt.base, tt.theirs)
			var out strings.Builder
			status := run(names, &out, io.Discard)
			want, err := exec.Command(git, append([]string{"merge-file", "-p"}, names...)...).Output()
			code := 0
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				code = e.ExitCode()
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, string(want), out.String())
			require.Equal(t, code, status)
		})
	}
}

func TestSuggests(t *testing.T) {
	names := write(t, "func load(path string, strict bool) error {\n",
		"func load(path string) error {\n", "func load(path string) (*Config, error) {\n")
	var hints strings.Builder
	require.Equal(t, 1, run(names, io.Discard, &hints))
	require.Equal(t, "the conflict in line 1 could be: func load(path string, strict bool) (*Config, error) {\n", hints.String())
}

func TestWrongUse(t *testing.T) {
	require.Equal(t, refused, run(nil, io.Discard, io.Discard))
	require.Equal(t, refused, run([]string{"a", "b", filepath.Join(t.TempDir(), "gone")}, io.Discard, io.Discard))
}
