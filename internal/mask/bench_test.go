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

// BenchmarkAttack masks texts that are made to take long: all of them are full of what
// begins like a secret. The time a byte must not grow with their length.
func BenchmarkAttack(b *testing.B) {
	m := New()
	for name, piece := range map[string]string{
		"prefixes": "sk-ant-", "bodies": "sk-ant-k5Ns3qB6Rh7Hj4Gz9KR4LB3", "names": "key:", "names2": ",key=", "quotes": `"key":"`, "urls": "://a:b@", "urls2": "://aaaaaaaaa",
		"blocks": "-----BEGIN PRIVATE KEY-----", "lines": "-----BEGIN PRIVATE KEY-----\nAAAA\n", "ends": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n",
		"azure": "JQQJ99", "jwt": ".eyJhbGci", "jwt2": "eyJ.eyJ", "aws": "AKIAIOSFODNN7EXAMPLE ", "brackets": "[secret:", "placeholders": "[secret:value:0123456789]password=",
		"bearer": "bearer ", "cookies": "cookie: a=", "kty": `"kty" "d" `, "putty": "Private-Lines: 999\nAAAA\n", "escapes": `\nAKIA\n`, "tokens": "token ", "words": "password=aB3dE5fG7h;",
	} {
		b.Run(name, func(b *testing.B) {
			long := strings.Repeat(piece, 256<<10/len(piece))
			var short, all time.Duration
			for b.Loop() {
				start := time.Now()
				m.Mask(long[:32<<10])
				short += time.Since(start)
				start = time.Now()
				m.Mask(long)
				all += time.Since(start)
			}
			b.ReportMetric(all.Seconds()*1e3/float64(b.N), "ms/256KiB")
			b.ReportMetric(all.Seconds()/short.Seconds()/8, "growth")
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New("a-value-of-the-host")
	}
}
