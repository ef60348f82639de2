//go:build linux

package tools

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cases"
	"github.com/aycoder/aycoder/internal/timed"
)

var ownPaths = filepath.Join("testdata", "paths.txt")

// ownWorld is what the paths of testdata are about.
func ownWorld() []step {
	steps := []step{
		{"file": "out/secret", "content": "SECRET-OUT"}, {"file": "out/d/deep", "content": "SECRET-DEEP"},
		{"file": "ws2/secret", "content": "SECRET-WS2"}, {"file": "home/.ssh/id_rsa", "content": "SECRET-KEY"},
	}
	for _, name := range []string{
		"a.txt", "dir/b.txt", "dir/sub/c.txt", "sp ace.txt", "-rf", "~/f", "$HOME/f", ".../f", "..hidden",
		"%2e%2e/f", `a\b.txt`, "*.txt", "café.txt", "NUL", ".env.example", "src/environment.py", "src/keyboard.go",
	} {
		steps = append(steps, step{"file": "ws/" + name, "content": "inside " + name + "\n"})
	}
	for _, name := range []string{
		".env", ".env.local", ".ENV", "keys/id_ed25519", "keys/server.pem", ".npmrc", ".netrc", "config/credentials.json",
		".aws/config", "infra/terraform.tfstate",
	} {
		steps = append(steps, step{"file": "ws/" + name, "content": "SENSITIVE"})
	}
	for _, link := range [][2]string{
		{"link", "../out"}, {"filelink", "../out/secret"}, {"abs", "${OUT}"}, {"chain1", "chain2"}, {"chain2", "../out"},
		{"up", ".."}, {"rootlink", "/"}, {"dangling", "../out/new"}, {"inlink", "dir"}, {"dir/back", "../a.txt"}, {"self", "."},
		{"loop", "loop"}, {"envlink", ".env"},
	} {
		steps = append(steps, step{"symlink": "ws/" + link[0], "to": link[1]})
	}
	return steps
}

// TestOwnPaths carries out the operations on the paths of testdata, each in a separate
// directory.
func TestOwnPaths(t *testing.T) {
	timed.Serial(t)
	rows := cases.ReadTable(t, ownPaths, 4)
	for _, r := range rows {
		c := pathCase{Expect: r[0], Why: r[1], Setup: ownWorld()}
		c.Op, c.Path, _ = strings.Cut(r[3], " ")
		c.Path, c.To, _ = strings.Cut(c.Path, " → ")
		require.Empty(t, c.leftOut(), r)
		t.Run(c.Op+" "+c.Why, c.run)
	}
	t.Logf("%d attacks ran", len(rows))
	require.GreaterOrEqual(t, len(rows), 90)
}

// TestOwnPathsAreReal asks realpath where the paths of testdata lead.
func TestOwnPathsAreReal(t *testing.T) {
	timed.Serial(t)
	realpath, err := exec.LookPath("realpath")
	if err != nil {
		t.Skip("skipped: no realpath to ask")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, setUp(t, base, ownWorld()))
	asked := 0
	for _, r := range cases.ReadTable(t, ownPaths, 4) {
		want, ok := strings.CutPrefix(r[2], "realpath: ")
		if !ok {
			continue
		}
		asked++
		var said []string
		_, paths, _ := strings.Cut(r[3], " ")
		for p := range strings.SplitSeq(paths, " → ") {
			cmd := exec.CommandContext(t.Context(), realpath, "-m", "--", placed(base, p))
			cmd.Dir = filepath.Join(base, "ws")
			out, err := cmd.Output()
			require.NoError(t, err, r)
			place := strings.TrimSuffix(string(out), "\n")
			if rel, err := filepath.Rel(base, place); err == nil && !strings.HasPrefix(rel, "..") {
				place = rel
			}
			said = append(said, place)
		}
		assert.Equal(t, want, strings.Join(said, " → "), r)
		inside := true
		for _, place := range said {
			inside = inside && (place == "ws" || strings.HasPrefix(place, "ws/") && !strings.HasPrefix(place, "ws/.env"))
		}
		assert.Equal(t, inside, r[0] == "allow", "%q leads to %q", r, said)
	}
	t.Logf("realpath was asked about %d paths", asked)
}
