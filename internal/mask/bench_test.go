package mask

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sources is plain source code: that of this repository, over and over.
func sources(tb testing.TB) string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "*.go"))
	require.NoError(tb, err)
	require.NotEmpty(tb, files)
	var b strings.Builder
	for b.Len() < 4<<20 {
		for _, name := range files {
			data, err := os.ReadFile(name)
			require.NoError(tb, err)
			b.Write(data)
		}
	}
	return b.String()
}

// BenchmarkMask compares with the least that looking at all of a text can cost.
func BenchmarkMask(b *testing.B) {
	text := sources(b)
	data := []byte(text)
	m := New("a-value-of-the-host", "another-value-of-it")
	b.SetBytes(int64(len(text)))
	var masking, floor time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		got := m.Mask(text)
		masking += time.Since(start)
		start = time.Now()
		n += bytes.Count(data, []byte{'\n'})
		floor += time.Since(start)
		require.Equal(b, len(text), len(got))
	}
	require.Positive(b, n)
	b.ReportMetric(float64(b.N)*float64(len(text))/masking.Seconds()/1e6, "mask-MB/s")
	b.ReportMetric(float64(b.N)*float64(len(text))/floor.Seconds()/1e6, "count-MB/s")
	b.ReportMetric(masking.Seconds()/floor.Seconds(), "mask/count")
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New("a-value-of-the-host")
	}
}
