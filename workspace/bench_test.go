//go:build unix

package workspace

import (
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// bigTree returns a directory with 10,000 files or more and their names: the first of the
// list AYCODER_TREES, or the Go installation.
func bigTree(b *testing.B) (string, []string) {
	b.Helper()
	dir := os.Getenv("AYCODER_TREES")
	if dir != "" {
		dir = filepath.SplitList(dir)[0]
	} else {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		require.NoError(b, err)
		dir = strings.TrimSpace(string(out))
	}
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(p, ".git/") {
			names = append(names, p)
		}
		return nil
	})
	require.NoError(b, err)
	if len(names) < 10_000 {
		b.Skipf("no tree with 10,000 files: %s has %d", dir, len(names))
	}
	return dir, names
}

// BenchmarkWorkspaceOpen reads all files of a tree in three ways, in turns. The ratios
// are of the time of the processors in the best turns.
func BenchmarkWorkspaceOpen(b *testing.B) {
	dir, names := bigTree(b)
	w, err := Open(dir, WithAllowed("**"))
	require.NoError(b, err)
	defer w.Close()
	ways := []struct {
		name string
		open func(string) (fs.File, error)
	}{
		{"os", func(n string) (fs.File, error) { return os.Open(filepath.Join(dir, n)) }},
		{"root", func(n string) (fs.File, error) { return w.first.root.Open(n) }},
		{"workspace", w.Open},
	}
	best := map[string]time.Duration{"os": math.MaxInt64, "root": math.MaxInt64, "workspace": math.MaxInt64}
	buf := make([]byte, 1<<20)
	for b.Loop() {
		for _, way := range ways {
			start := timed.CPU()
			for _, n := range names {
				f, err := way.open(n)
				require.NoError(b, err)
				_, err = io.ReadFull(f, buf)
				require.True(b, err == nil || err == io.EOF || err == io.ErrUnexpectedEOF, err)
				f.Close()
			}
			best[way.name] = min(best[way.name], timed.CPU()-start)
		}
	}
	b.ReportMetric(float64(len(names)), "files")
	b.ReportMetric(float64(best["root"])/float64(best["os"]), "root/os")
	b.ReportMetric(float64(best["workspace"])/float64(best["os"]), "workspace/os")
}
