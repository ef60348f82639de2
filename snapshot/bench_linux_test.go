package snapshot

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// benchTracker returns a tracker of a directory with n files of code-like text.
func benchTracker(b *testing.B, n int) (*Tracker, string, []string) {
	dir := b.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	var names []string
	for i := range n {
		name := fmt.Sprintf("d%d/e%d/f%d.go", i%20, i%97, i)
		require.NoError(b, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		text := strings.Repeat(fmt.Sprintf("line %d of file %d\n", r.IntN(1000), i), 1+r.IntN(20))
		if n <= 1000 {
			text = strings.Repeat(fmt.Sprintf("line %d of file %d\n", r.IntN(1000), i), 100+r.IntN(900))
		}
		require.NoError(b, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		names = append(names, name)
	}
	ws, err := workspace.Open(dir, workspace.WithPlanRecords(filepath.Join(b.TempDir(), "records")))
	require.NoError(b, err)
	b.Cleanup(func() { ws.Close() })
	objs := &objects{all: map[journal.Hash][]byte{}}
	return newTracker(ws, objs, nil), dir, names
}

// The walk over 20,000 unchanged files, compared with a walk that only looks at each file.
func BenchmarkFilesWalk(b *testing.B) {
	t, dir, _ := benchTracker(b, 20_000)
	t.limits.count = 30_000
	ctx := context.Background()
	require.NoError(b, t.walk(ctx))
	for _, f := range t.files { // as if the files had not been written just now
		f.sign.at = f.sign.at.Add(time.Minute)
	}
	var bare, walk time.Duration
	for b.Loop() {
		start := time.Now()
		require.NoError(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil {
				_, err = d.Info()
			}
			return err
		}))
		mid := time.Now()
		require.NoError(b, t.walk(ctx))
		bare, walk = bare+mid.Sub(start), walk+time.Since(mid)
	}
	b.ReportMetric(float64(walk)/float64(bare), "x/bare")
}

// The checkout of 200 files of which 100 differ, compared with writing, flushing and renaming the
// 100 files.
func BenchmarkFilesCheckout(b *testing.B) {
	t, dir, names := benchTracker(b, 200)
	ctx := context.Background()
	for _, name := range names {
		require.NoError(b, t.Pin(ctx, name))
	}
	node := func() map[string]State {
		require.NoError(b, t.Refresh(ctx))
		return changed(b, t, map[string]State{})
	}
	old := node()
	texts := map[string][]byte{}
	for _, name := range names[:100] {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(b, err)
		data = append([]byte("package changed\n"), data...)
		require.NoError(b, os.WriteFile(filepath.Join(dir, name), data, 0o644))
		texts[name] = data
	}
	next := node()
	plain := b.TempDir() // with the same directories, as a new file in another directory takes longer
	for _, name := range names {
		require.NoError(b, os.MkdirAll(filepath.Join(plain, filepath.Dir(name)), 0o755))
	}
	var bare, all time.Duration
	for b.Loop() {
		start := time.Now()
		for name, data := range texts {
			to := filepath.Join(plain, name)
			f, err := os.Create(to + ".tmp")
			require.NoError(b, err)
			_, err = f.Write(data)
			require.NoError(b, err)
			require.NoError(b, f.Sync())
			require.NoError(b, f.Close())
			require.NoError(b, os.Rename(to+".tmp", to))
		}
		mid := time.Now()
		plan, err := t.Plan(ctx, old)
		require.NoError(b, err)
		require.Len(b, plan, 100)
		_, err = t.Checkout(ctx, plan)
		require.NoError(b, err)
		bare, all = bare+mid.Sub(start), all+time.Since(mid)
		old, next = next, old
	}
	b.ReportMetric(bare.Seconds()*1000/float64(b.N*len(texts)), "bare-ms/file")
	b.ReportMetric(float64(all)/float64(bare), "x/bare")
}
