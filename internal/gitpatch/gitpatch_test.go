package gitpatch_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aycoder/aycoder/internal/gitpatch"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

// Git itself applies the patch of one file, and takes it back.
func TestGitAppliesPatches(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	texts := []string{"", "a\n", "a", "a\r\nb\r\n", "a\nb\nc\nd\n", "\x00\x01", "\x00" + string(make([]byte, 300)), "--- a/x\n+++ b/y\n@@ -1 +1 @@\n", "diff --git a/x b/x\n"}
	big := make([]byte, 5000)
	for i := range big {
		big[i] = byte(rand.New(rand.NewPCG(1, uint64(i))).IntN(256))
	}
	texts = append(texts, string(big))
	modes := []int{0, 0o100644, 0o100755, 0o120000}
	names := [][2]string{{"f", "f"}, {"-f", "-f"}, {"a b", "a b"}, {"q\"\n\t\\é", "q\"\n\t\\é"}, {"dir/f", "other/g"}}
	n := 0
	for _, name := range names {
		for _, from := range modes {
			for _, to := range modes {
				for i, before := range texts {
					for j, after := range texts {
						if from == 0 && (i > 0 || to == 0) || to == 0 && j > 0 || name[0] != name[1] && (from == 0 || from != to || i != j) {
							continue
						}
						if link := 0o120000; from == link && (i == 0 || before[0] == 0 || i == 9) || to == link && (j == 0 || after[0] == 0 || j == 9) {
							continue
						}
						if (i+3*j+from+to)%19 > 0 && (i != j || from == to || i%4 > 0) { // some of all
							continue
						}
						n++
						check(t, name, gitpatch.Version{Mode: from, Data: []byte(before)}, gitpatch.Version{Mode: to, Data: []byte(after)})
					}
				}
			}
		}
	}
	t.Logf("%d patches", n)
}

func check(t *testing.T, name [2]string, before, after gitpatch.Version) {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, name[0]), before)
	patch, _, _ := gitpatch.Of(name[0], name[1], before, after)
	if len(patch) == 0 {
		require.Equal(t, before, after)
		return
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".patch"), patch, 0o644))
	git(t, dir, patch)
	require.Equal(t, after, get(t, filepath.Join(dir, name[1])), "%s", patch)
	if name[0] != name[1] {
		require.Zero(t, get(t, filepath.Join(dir, name[0])).Mode)
	}
	git(t, dir, patch, "-R")
	require.Equal(t, before, get(t, filepath.Join(dir, name[0])), "%s", patch)
}

func git(t *testing.T, dir string, patch []byte, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append(append([]string{"apply"}, args...), ".patch")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, patch)
}

func put(t *testing.T, name string, v gitpatch.Version) {
	t.Helper()
	var err error
	if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
		switch v.Mode {
		case 0:
		case 0o120000:
			err = os.Symlink(string(v.Data), name)
		default:
			err = os.WriteFile(name, v.Data, os.FileMode(v.Mode&0o777))
		}
	}
	require.NoError(t, err)
}

func get(t *testing.T, name string) gitpatch.Version {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
		return gitpatch.Version{Data: []byte{}}
	}
	if info.Mode()&os.ModeSymlink != 0 {
		to, err := os.Readlink(name)
		require.NoError(t, err)
		return gitpatch.Version{Mode: 0o120000, Data: []byte(to)}
	}
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	mode := 0o100644
	if info.Mode()&0o100 != 0 {
		mode = 0o100755
	}
	return gitpatch.Version{Mode: mode, Data: data}
}
