package mask

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In real source code next to nothing is masked, but keys of tests. The directory
// AYCODER_MASK_TREE is looked through instead of a part of Go source, if it is set; with -v all
// that was found is listed.
func TestTree(t *testing.T) {
	if testing.Short() {
		t.Skip("reads many megabytes")
	}
	roots := []string{os.Getenv("AYCODER_MASK_TREE")}
	if roots[0] == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Skipf("no go command: %v", err)
		}
		src := filepath.Join(strings.TrimSpace(string(out)), "src")
		roots = []string{filepath.Join(src, "net"), filepath.Join(src, "encoding"), filepath.Join(src, "go"), filepath.Join(src, "os")}
	}
	c := &census{m: New()}
	for _, root := range roots {
		require.NoError(t, filepath.WalkDir(root, c.visit))
	}
	if c.bytes == 0 {
		t.Skipf("no source code in %v", roots)
	}
	rate, share := float64(len(c.found))/float64(c.bytes)*1e6, float64(len(c.found))/float64(c.lines)*100
	t.Logf("%d MB, %d lines, %d found, %.2f/MB, %.4f %% of the lines\n%s",
		c.bytes>>20, c.lines, len(c.found), rate, share, strings.Join(c.found, "\n"))
	assert.Less(t, rate, 3.0)
	assert.LessOrEqual(t, share, 0.03)
}

type census struct {
	m     *Masker
	bytes int
	lines int
	found []string
}

// visit looks at a file that is text.
func (c *census) visit(path string, d fs.DirEntry, err error) error {
	if err != nil || !d.Type().IsRegular() {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) > 8<<20 || bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
		return err
	}
	c.bytes += len(data)
	c.lines += bytes.Count(data, []byte("\n")) + 1
	text := string(data)
	for _, s := range c.m.index.findAround(text) {
		value := text[s.from:min(s.to, s.from+80)]
		c.found = append(c.found, filepath.Base(path)+": "+s.kind+": "+strings.ReplaceAll(value, "\n", " "))
	}
	return nil
}
