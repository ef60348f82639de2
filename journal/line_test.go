package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// line makes a line as the documentation of the format says.
func line(record string) string {
	sum := crc32.Checksum([]byte(record), crc32.MakeTable(crc32.Castagnoli))
	return fmt.Sprintf(`["%08x",%s]`, sum, record) + "\n"
}

type parsed struct {
	n      int
	record string
	err    error
}

func parse(t *testing.T, r io.Reader) (list []parsed) {
	t.Helper()
	require.NoError(t, readLines(r, func(n int, record []byte, err error) bool {
		list = append(list, parsed{n, string(record), err})
		return true
	}))
	return list
}

func TestLines(t *testing.T) {
	t.Parallel()
	// The check value of CRC-32C, of the catalogue of CRC algorithms.
	require.Equal(t, `["e3069283",123456789]`+"\n", string(appendLine(nil, []byte("123456789"))))
	a, b := line(`{"a":1}`), line("{\"b\":\"\u2028\u2029\u0085\r\"}")
	long := line(`"` + strings.Repeat("x", 200<<10) + `"`)
	record := func(s string) string { return strings.TrimSuffix(s[12:], "]\n") }
	for _, tt := range []struct {
		name, text string
		want       []parsed
	}{
		{"empty", "", nil},
		{"two", a + b, []parsed{{1, record(a), nil}, {2, record(b), nil}}},
		{"long", a + long + b, []parsed{{1, record(a), nil}, {2, record(long), nil}, {3, record(b), nil}}},
		{"empty record", line(""), []parsed{{1, "", nil}}},
		{"torn", a + b[:9], []parsed{{1, record(a), nil}, {2, "", errTorn}}},
		{"without a line feed", a + b[:len(b)-1], []parsed{{1, record(a), nil}, {2, "", errTorn}}},
		{"torn, long", a + long[:100<<10], []parsed{{1, record(a), nil}, {2, "", errTorn}}},
		{"NUL bytes in the middle", a + strings.Repeat("\x00", 5000) + "\n" + b,
			[]parsed{{1, record(a), nil}, {2, "", errLine}, {3, record(b), nil}}},
		{"NUL bytes before a record", a + strings.Repeat("\x00", 5000) + b,
			[]parsed{{1, record(a), nil}, {2, "", errLine}, {2, record(b), nil}}},
		{"half a record before another", a + b[:20] + a + b,
			[]parsed{{1, record(a), nil}, {2, "", errChecksum}, {2, record(a), nil}, {3, record(b), nil}}},
		{"half a record before one with lines in it", a[:20] + line(`[`+strings.Repeat(`["00000000",1],`, 3)+`1]`),
			[]parsed{{1, "", errChecksum}, {1, `[["00000000",1],["00000000",1],["00000000",1],1]`, nil}}},
		{"still JSON", strings.Replace(a, `"a":1`, `"a":2`, 1), []parsed{{1, "", errChecksum}}},
		{"upper case", strings.Replace(a, a[2:10], strings.ToUpper(a[2:10]), 1),
			[]parsed{{1, "", errChecksum}}},
		{"empty line", a + "\n" + b, []parsed{{1, record(a), nil}, {2, "", errLine}, {3, record(b), nil}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, parse(t, strings.NewReader(tt.text)))
		})
	}
}

// A line above the limit is reported, and is not kept in memory.
func TestTooLongLine(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	huge := io.LimitReader(zeros{}, MaxRecord+10<<20)
	got := parse(t, io.MultiReader(strings.NewReader(line("1")), huge, strings.NewReader("\n"+line("2"))))
	require.Equal(t, []parsed{{1, "1", nil}, {2, "", ErrTooLarge}, {3, "2", nil}}, got)

	require.ErrorIs(t, CheckRecord(make([]byte, MaxRecord+1)), ErrTooLarge)
	require.NoError(t, CheckRecord(make([]byte, MaxRecord)))
	require.Error(t, CheckRecord([]byte("a\nb")))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzLines writes a record between bytes that are anything. The parser returns it, and no record
// that has no right checksum.
func FuzzLines(f *testing.F) {
	f.Add([]byte(line("{}")), []byte(`{"a":1}`), []byte("x"))
	f.Add([]byte("\x00\x00"), []byte(``), []byte(line("1")[:9]))
	f.Add([]byte(`["`), []byte(`["00000000",]`), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, before, record, after []byte) {
		if bytes.IndexByte(record, '\n') >= 0 {
			return
		}
		text := bytes.Join([][]byte{before, []byte("\n" + line(string(record))), after}, nil)
		found, last := false, 0
		require.NoError(t, readLines(bytes.NewReader(text), func(n int, r []byte, err error) bool {
			require.GreaterOrEqual(t, n, last)
			last = n
			if err == nil {
				require.Contains(t, string(text), line(string(r)))
				found = found || bytes.Equal(r, record)
			}
			return true
		}))
		require.True(t, found)
	})
}

func TestReadLinesStops(t *testing.T) {
	t.Parallel()
	text := line("1") + "x\n" + line("2")
	for stop := 1; stop <= 3; stop++ {
		calls := 0
		require.NoError(t, readLines(strings.NewReader(text), func(int, []byte, error) bool {
			calls++
			return calls < stop
		}))
		require.Equal(t, stop, calls)
	}
	broken := errors.New("broken")
	err := readLines(io.MultiReader(strings.NewReader(text), errReader{broken}),
		func(int, []byte, error) bool { return true })
	require.ErrorIs(t, err, broken)
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
