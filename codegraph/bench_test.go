//go:build unix

package codegraph_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// library is a large directory of source code: AYCODER_CORPUS, or the library of Go.
func library(tb testing.TB) string {
	if dir := os.Getenv("AYCODER_CORPUS"); dir != "" {
		return dir
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(tb, err)
	return filepath.Join(string(out[:len(out)-1]), "src")
}

// ctags returns the processor time that ctags needs for the corpus, the median of three, or 0 if it is not
// installed.
func ctags(tb testing.TB, dir string) time.Duration {
	if _, err := exec.LookPath("ctags"); err != nil {
		return 0
	}
	var took []time.Duration
	for range 3 {
		cmd := exec.Command("ctags", "-R", "-f", filepath.Join(tb.TempDir(), "tags"), dir)
		require.NoError(tb, cmd.Run())
		took = append(took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return slices.Sorted(slices.Values(took))[1]
}

// compareWithCtags reports the processor time of a benchmark that began at start, beside that of ctags -R.
func compareWithCtags(b *testing.B, dir string, start time.Duration) {
	took := float64(timed.CPU()-start) / float64(b.N)
	b.ReportMetric(took, "cpu-ns/op")
	if other := ctags(b, dir); other > 0 {
		b.ReportMetric(took/float64(other), "x-ctags")
	}
}

// BenchmarkCold builds a graph on one processor, beside ctags -R.
func BenchmarkCold(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	dir := library(b)
	ws, err := workspace.Open(dir)
	require.NoError(b, err)
	defer ws.Close()
	var files int
	start := timed.CPU()
	for b.Loop() {
		g, err := codegraph.New(ws)
		require.NoError(b, err)
		s, err := g.Refresh(b.Context())
		require.NoError(b, err)
		files = len(slices.Collect(s.Files()))
	}
	b.ReportMetric(float64(files), "files")
	compareWithCtags(b, dir, start)
}

// BenchmarkImports finds the imports of all files on one processor, beside ctags -R.
func BenchmarkImports(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	dir := library(b)
	start := timed.CPU()
	for b.Loop() {
		require.NoError(b, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if lang := source.LanguageOf(p, nil); err == nil && lang != "" && d.Type().IsRegular() {
				data, err := os.ReadFile(p)
				source.Scan(lang, data, source.ImportsOnly)
				return err
			}
			return err
		}))
	}
	compareWithCtags(b, dir, start)
}

// BenchmarkOneFile writes one file after the other and brings the graph up to date each time. It reports
// the median, and the memory that a file takes.
func BenchmarkOneFile(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, os.CopyFS(dir, os.DirFS(library(b))))
	ws, err := workspace.Open(dir)
	require.NoError(b, err)
	defer ws.Close()
	before := heap()
	g, err := codegraph.New(ws)
	require.NoError(b, err)
	s, err := g.Refresh(b.Context())
	require.NoError(b, err)
	var files []string
	for f := range s.Files() {
		if s.Facts(f) != nil {
			files = append(files, f)
		}
	}
	memory := heap() - before
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		name := files[i*7919%len(files)]
		full := filepath.Join(dir, name)
		data, err := os.ReadFile(full)
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(full, append(data, "\n// more\n"...), 0o600))
		start := time.Now()
		_, err = g.Refresh(context.Background(), name)
		require.NoError(b, err)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns-median")
	b.ReportMetric(float64(memory)/float64(len(files)), "B/file")
}

// BenchmarkNothingNew builds a request of a conversation of 1,000 messages with 20 files in play, to which nothing is
// added, beside looking at the times of the files that are shown.
func BenchmarkNothingNew(b *testing.B) {
	dir := library(b)
	ws, err := workspace.Open(dir)
	require.NoError(b, err)
	defer ws.Close()
	g, err := codegraph.New(ws)
	require.NoError(b, err)
	var shown []string
	mw, err := codegraph.Middleware(g, codegraph.WithReport(func(r codegraph.Report) {
		for _, i := range r.Context.Items {
			shown = append(shown, i.Path)
		}
	}))
	require.NoError(b, err)
	s, err := g.Refresh(b.Context())
	require.NoError(b, err)
	var files []string
	for f := range s.Files() {
		if len(s.Dependencies(f)) > 3 && len(files) < 20 {
			files = append(files, f)
		}
	}
	var history []*aycoder.Message
	for i := range 500 {
		text := "go on"
		if i%25 == 0 {
			text = "read " + files[i/25]
		}
		history = append(history, aycoder.User(text), aycoder.Assistant("ok"))
	}
	to := mw(plain())
	for n := 1; n < len(history); n += 2 {
		build(b, to, "1", history[:n]...)
	}
	require.NotEmpty(b, shown)
	var took, stats time.Duration
	for b.Loop() {
		history = append(history, aycoder.User("go on"), aycoder.Assistant("ok"))
		start := time.Now()
		_, err := to.Build(b.Context(), aycoder.ContextInput{Run: "1", Messages: history[:len(history)-1]})
		took += time.Since(start)
		require.NoError(b, err)
		start = time.Now()
		for _, f := range shown {
			_, err := os.Stat(filepath.Join(dir, f))
			require.NoError(b, err)
		}
		stats += time.Since(start)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns-request")
	b.ReportMetric(float64(took)/float64(stats), "x-stat")
	b.ReportMetric(float64(len(shown)), "shown")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
