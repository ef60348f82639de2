package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// median returns the median of the times that f takes.
func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// compare runs ours and bare in turns, and reports the ratio of the medians.
func compare(b *testing.B, ours, bare func(i int)) {
	var a, c []time.Duration
	i := 0
	for b.Loop() {
		for range 10 {
			start := time.Now()
			bare(i)
			middle := time.Now()
			ours(i)
			a, c = append(a, time.Since(middle)), append(c, middle.Sub(start))
			i++
		}
	}
	x, y := median(a), median(c)
	b.ReportMetric(float64(x)/float64(y), "ratio")
	b.ReportMetric(float64(x.Microseconds()), "ours-µs")
	b.ReportMetric(float64(y.Microseconds()), "bare-µs")
}

func writeSynced(b *testing.B, name string, data []byte) {
	f, err := os.Create(name)
	require.NoError(b, err)
	_, err = f.Write(data)
	require.NoError(b, err)
	require.NoError(b, f.Sync())
	require.NoError(b, f.Close())
	require.NoError(b, os.Rename(name, name+".x"))
}

func benchDir(b *testing.B) (Store, string, Journal) {
	dir := b.TempDir()
	s, err := Dir(dir)
	require.NoError(b, err)
	j, err := s.Create(b.Context(), testID)
	require.NoError(b, err)
	b.Cleanup(func() { j.Close() })
	return s, dir, j
}

var benchRecord = []byte(`{"type":"node","id":17,"parent":16,"text":"` + strings.Repeat("some text ", 80) + `"}`)

// BenchmarkDirAppend compares a durable append with a bare write and flush of the same bytes.
func BenchmarkDirAppend(b *testing.B) {
	_, dir, j := benchDir(b)
	f, err := os.Create(filepath.Join(dir, "bare"))
	require.NoError(b, err)
	defer f.Close()
	text, _ := encodeLines([][]byte{benchRecord})
	compare(b, func(int) {
		require.NoError(b, j.Append(b.Context(), true, benchRecord))
	}, func(int) {
		_, err := f.Write(text)
		require.NoError(b, err)
		require.NoError(b, f.Sync())
	})
}

// BenchmarkDirAppendObject compares an append with a new object with two files that are written,
// flushed and renamed.
func BenchmarkDirAppendObject(b *testing.B) {
	_, dir, j := benchDir(b)
	object := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, strings.Repeat("some code ", 800)) }
	compare(b, func(i int) {
		data := object(i)
		require.NoError(b, j.Put(b.Context(), HashOf(data), data))
		require.NoError(b, j.Append(b.Context(), true, benchRecord))
	}, func(i int) {
		writeSynced(b, filepath.Join(dir, fmt.Sprint("a", i)), object(i))
		writeSynced(b, filepath.Join(dir, fmt.Sprint("b", i)), benchRecord)
	})
}

// BenchmarkDirOpen compares opening and reading with reading and decoding the lines.
func BenchmarkDirOpen(b *testing.B) {
	s, dir, j := benchDir(b)
	for range 10_000 {
		require.NoError(b, j.Append(b.Context(), false, benchRecord))
	}
	require.NoError(b, j.Close())
	type node struct {
		Type, Text string
		ID, Parent int
	}
	compare(b, func(int) {
		j, err := s.Open(b.Context(), testID, true)
		require.NoError(b, err)
		n := 0
		for r, err := range j.Records(b.Context()) {
			var x node
			if err != nil || json.Unmarshal(r, &x) != nil {
				b.Fatal(err)
			}
			n++
		}
		require.Equal(b, 10_000, n)
		require.NoError(b, j.Close())
	}, func(int) { decodeLines[node](b, filepath.Join(dir, testID, journalName), 10_000) })
}

func decodeLines[T any](b *testing.B, file string, want int) {
	data, err := os.ReadFile(file)
	require.NoError(b, err)
	n := 0
	for l := range bytes.Lines(data) {
		var x T
		if err := json.Unmarshal(l[len(`["1a2b3c4d",`):len(l)-len("]\n")], &x); err != nil {
			b.Fatal(err)
		}
		n++
	}
	require.Equal(b, want, n)
}

// BenchmarkDirList compares the list of 10,000 sessions with reading and decoding the index.
func BenchmarkDirList(b *testing.B) {
	const n = 10_000
	dir := b.TempDir()
	s, err := Dir(dir)
	require.NoError(b, err)
	for i := range n {
		id := fmt.Sprintf("session-%d", i)
		require.NoError(b, os.Mkdir(filepath.Join(dir, id), 0o700))
		require.NoError(b, os.WriteFile(filepath.Join(dir, id, journalName), nil, 0o600))
		j, err := s.Open(b.Context(), id, false)
		require.NoError(b, err)
		require.NoError(b, j.Describe(b.Context(), Entry{Title: "the title", Prompt: "Please mend the parser of dates",
			Dir: "/home/user/project", Branch: "main", Model: "model-1", Nodes: i, Created: time.Now(), Used: time.Now()}))
		require.NoError(b, j.Close())
	}
	compare(b, func(int) {
		k := 0
		for _, err := range s.List(b.Context()) {
			require.NoError(b, err)
			k++
		}
		require.Equal(b, n, k)
	}, func(int) { decodeLines[Entry](b, filepath.Join(dir, indexName, journalName), n) })
}
