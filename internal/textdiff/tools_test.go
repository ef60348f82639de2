package textdiff

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// tool is a program that applies patches.
type tool struct {
	name string
	args []string
}

var tools = []tool{
	{"git", []string{"apply", "--whitespace=nowarn", "-"}},
	{"patch", []string{"-p1", "--fuzz=0", "--no-backup-if-mismatch", "--quiet"}},
}

// found skips the test if the tool is not there.
func (p tool) found(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(p.name); err != nil {
		t.Skipf("no %s on this machine", p.name)
	}
}

// apply writes a file, unless its name is empty, and applies a patch to it.
func (p tool) apply(t *testing.T, name, text string, patch []byte) string {
	t.Helper()
	dir := t.TempDir()
	if name != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), p.name, p.args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, patch)
	return dir
}

// TestTools has real programs apply a sample of the real diffs.
func TestTools(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "a comparison with diff and patch")
	for _, p := range tools {
		t.Run(p.name, func(t *testing.T) {
			p.found(t)
			n := 0
			for i, c := range recordedPairs(t) {
				d := compare(c.a, c.b, 3)
				if i%60 != 0 || d.Binary || c.a == c.b {
					continue
				}
				dir := p.apply(t, "x", c.a, d.Append(nil))
				got, err := os.ReadFile(filepath.Join(dir, "x"))
				require.NoError(t, err, c.name)
				require.True(t, c.b == string(got), "%s: %q", c.name, got)
				n++
			}
			t.Logf("%d diffs applied by %s", n, p.name)
			assert.Greater(t, n, 10)
		})
	}
}

// TestToolsFiles has real programs create, delete, rename and fill files, under
// names that need care.
func TestToolsFiles(t *testing.T) {
	tests := []struct{ name, from, to, a, b string }{
		{"created", "", "x", "", "a\nb"},
		{"created empty", "", "x y", "", ""},
		{"deleted", "x", "", "a\nb", ""},
		{"deleted empty", "x", "", "", ""},
		{"emptied", "x", "x", "a\n", ""},
		{"filled", "x", "x", "", "a"},
		{"renamed", "x", "y", "a\nb\n", "a\nc\n"},
		{"renamed only", "x z", "y z", "a\n", "a\n"},
		{"blanks in the name", "x y z", "x y z", "a\n", "b\n"},
		{"odd name", "a\t\"\\\nä\x01", "a\t\"\\\nä\x01", "a\n", "b\n"},
		{"name that is no UTF-8", "\xff", "\xff", "a\n", "b\n"},
		{"lines like headers", "x", "x", "-- a\n++ b\n", "-- b\n++ a\n"},
		{"carriage returns", "x", "x", "a\r\nb\rc\r\n\r", "a\nb\rc\r\n"},
		{"byte order mark", "x", "x", "\ufeffa\n", "a\n"},
		{"no text", "x", "x", "\xff\xfe\nb\n\x80", "\xff\xff\nb\n\x80\n"},
	}
	for _, tt := range tests {
		d := Compare([]byte(tt.a), []byte(tt.b), Options{OldName: tt.from, NewName: tt.to, Context: 3})
		patch := d.Append(nil)
		for _, p := range tools {
			t.Run(tt.name+" "+p.name, func(t *testing.T) {
				p.found(t)
				dir := p.apply(t, tt.from, tt.a, patch)
				if tt.to != "" {
					got, err := os.ReadFile(filepath.Join(dir, tt.to))
					require.NoError(t, err, "%s", patch)
					assert.Equal(t, tt.b, string(got))
				}
				if tt.from != "" && tt.from != tt.to {
					_, err := os.Stat(filepath.Join(dir, tt.from))
					assert.ErrorIs(t, err, fs.ErrNotExist)
				}
			})
		}
	}
}

// TestToolsNoContext has real programs apply a diff that shows no unchanged lines, which git does
// if it is told of it.
func TestToolsNoContext(t *testing.T) {
	before, after := "1\n2\n3\n4\n5\n6\n7\n", "0\n1\n3\n4\nnew\n5\n6\nseven"
	patch := compare(before, after, 0).Append(nil)
	for _, p := range tools {
		t.Run(p.name, func(t *testing.T) {
			p.found(t)
			if p.name == "git" {
				p.args = append([]string{"apply", "--unidiff-zero"}, p.args[1:]...)
			}
			got, err := os.ReadFile(filepath.Join(p.apply(t, "x", before, patch), "x"))
			require.NoError(t, err)
			assert.Equal(t, after, string(got))
		})
	}
}

// TestHunksAreGits checks that most real diffs are what git diff shows. Its rule for
// where an insertion stands is another, but means the same.
func TestHunksAreGits(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "a comparison with git diff")
	tools[0].found(t)
	dir := t.TempDir()
	n, same := 0, 0
	for i, c := range recordedPairs(t) {
		if i%29 != 0 || !strings.Contains(c.name, ".") || c.a == c.b {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(c.a), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte(c.b), 0o600))
		cmd := exec.CommandContext(t.Context(), "git", "diff", "--no-index", "--text", "--", "a", "b")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
		out, err := cmd.Output()
		_, failed := errors.AsType[*exec.ExitError](err) // it exits with 1 if there is a difference
		require.True(t, failed, "%v", err)
		n++
		if heads(string(out)) == heads(string(compare(c.a, c.b, 3).Append(nil))) {
			same++
		}
	}
	t.Logf("%d of %d real diffs have git's hunks", same, n)
	assert.Greater(t, float64(same), 0.95*float64(n))
}

// heads returns where the hunks of a diff are.
func heads(patch string) string {
	var b strings.Builder
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "@@ ") {
			b.WriteString(strings.SplitAfter(line, " @@")[0] + "\n")
		}
	}
	return b.String()
}
