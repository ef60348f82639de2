package eventstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/sse"
	"github.com/aycoder/aycoder/internal/timed"
)

func read(r io.Reader) (all []sse.Event, err error) {
	next := Events(r)
	for {
		ev, err := next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
}

// raw returns a message with unchecked headers.
func raw(headers, payload string) []byte {
	m := make([]byte, prelude)
	binary.BigEndian.PutUint32(m, uint32(prelude+len(headers)+len(payload)+trailer))
	binary.BigEndian.PutUint32(m[4:], uint32(len(headers)))
	binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
	m = append(append(m, headers...), payload...)
	return binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
}

// head returns a prelude with these sizes.
func head(total, headers uint32) []byte {
	m := binary.BigEndian.AppendUint32(nil, total)
	m = binary.BigEndian.AppendUint32(m, headers)
	return binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[(at+len(b))%len(b)] ^= 1
	return b
}

func TestEvents(t *testing.T) {
	one := AppendEvent(nil, "chunk", `{"a":1}`)
	tooLarge := &sse.TooLargeError{Limit: sse.DefaultLimit}
	tests := []struct {
		name string
		in   []byte
		want []sse.Event
		err  error
	}{
		{"nothing", nil, nil, nil},
		{"two", AppendEvent(bytes.Clone(one), "end", ""), []sse.Event{{Type: "chunk", Data: `{"a":1}`}, {Type: "end"}}, nil},
		{"exception", AppendException(nil, "throttlingException", `{"message":"slow"}`),
			[]sse.Event{{Type: "failure:throttlingException", Data: `{"message":"slow"}`}}, nil},
		{"exception without a word", AppendException(nil, "x", ""), []sse.Event{{Type: "failure:x", Data: "{}"}}, nil},
		{"error", Append(nil, "", ":message-type", "error", ":error-code", "500", ":error-message", `a"b`),
			[]sse.Event{{Type: "failure:500", Data: `{"message":"a\"b"}`}}, nil},
		{"all types of headers", raw("\x01a\x00\x01b\x01\x01c\x02\xff\x01d\x03\x00\x01\x01e\x04aaaa\x01f\x05bbbbbbbb"+
			"\x01g\x06\x00\x02xy\x01h\x08cccccccc\x01i\x09dddddddddddddddd\x0b:event-type\x07\x00\x01z", "p"),
			[]sse.Event{{Type: "z", Data: "p"}}, nil},
		{"event type that is not text", raw("\x0b:event-type\x06\x00\x01z", "p"), []sse.Event{{Data: "p"}}, nil},
		{"header of an unknown type", raw("\x01a\x0a", ""), nil, errHeaders},
		{"name that is too long", raw("\x09a\x00", ""), nil, errHeaders},
		{"name alone", raw("\x01a", ""), nil, errHeaders},
		{"value that is too long", raw("\x01a\x07\x00\x09x", ""), nil, errHeaders},
		{"half a length", raw("\x01a\x07\x00", ""), nil, errHeaders},
		{"wrong checksum of a prelude", flip(one, 9), nil, errPrelude},
		{"wrong length", flip(one, 3), nil, errPrelude},
		{"wrong checksum of a message", flip(one, -1), nil, errMessage},
		{"another payload", flip(one, -6), nil, errMessage},
		{"shorter than itself", head(15, 0), nil, errLength},
		{"headers longer than all", head(100, 90), nil, errLength},
		{"headers that are too long", head(1<<20, maxHeaders+1), nil, errLength},
		{"too large", head(sse.DefaultLimit+1, 0), nil, tooLarge},
		{"largest there is", head(1<<32-1, 1<<32-1), nil, tooLarge},
		{"server-sent events", []byte("event: x\ndata: {}\n\n"), nil, errPrelude},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole": bytes.NewReader(tt.in), "bytes": iotest.OneByteReader(bytes.NewReader(tt.in)),
				"with the end": iotest.DataErrReader(bytes.NewReader(tt.in)),
			} {
				got, err := read(r)
				assert.Equal(t, tt.err, err, name)
				assert.Equal(t, tt.want, got, name)
			}
		})
	}
}

// A stream that is cut off inside of a message ends in an error.
func TestTruncated(t *testing.T) {
	one := AppendEvent(nil, "chunk", `{"a":1}`)
	all := AppendEvent(bytes.Clone(one), "chunk", `{"a":2}`)
	for at := range len(all) {
		got, err := read(bytes.NewReader(all[:at]))
		if at == 0 || at == len(one) {
			assert.NoError(t, err, "%d", at)
		} else {
			assert.Equal(t, sse.ErrTruncated, err, "%d", at)
		}
		assert.Len(t, got, at/len(one), "%d", at)
	}
}

func TestReadError(t *testing.T) {
	lost := errors.New("lost")
	one := AppendEvent(nil, "chunk", `{"a":1}`)
	for _, at := range []int{0, 5, 20, len(one)} {
		_, err := read(io.MultiReader(bytes.NewReader(one[:at]), iotest.ErrReader(lost)))
		assert.ErrorIs(t, err, lost, "%d", at)
	}
}

// The announced length of a message does not determine the memory that is allocated.
func TestMemory(t *testing.T) {
	in := append(head(sse.DefaultLimit, 0), make([]byte, 1000)...)
	bytesPerRun := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := read(bytes.NewReader(in))
			assert.Equal(b, sse.ErrTruncated, err)
		}
	}).AllocedBytesPerOp()
	assert.Less(t, bytesPerRun, int64(200<<10))
}

// No bytes make it panic, and one that is changed is found.
func FuzzEvents(f *testing.F) {
	f.Add(AppendEvent(nil, "chunk", `{"a":1}`), uint(3))
	f.Add(AppendException(AppendEvent(nil, "a", ""), "throttlingException", `{}`), uint(40))
	f.Add(raw("\x01a\x09dddddddddddddddd", "p"), uint(14))
	f.Fuzz(func(t *testing.T, in []byte, at uint) {
		got, err := read(bytes.NewReader(in))
		small, smallErr := read(iotest.OneByteReader(bytes.NewReader(in)))
		require.Equal(t, got, small)
		require.Equal(t, fmt.Sprint(err), fmt.Sprint(smallErr))
		if err != nil || len(in) == 0 {
			return
		}
		_, err = read(bytes.NewReader(flip(in, int(at%uint(len(in))))))
		require.Error(t, err, "byte %d was changed", at)
	})
}

// small is a reader of small pieces.
type small struct{ r io.Reader }

func (s small) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1000)]) }

// A large message in small reads costs time that grows with its size only.
func TestLinear(t *testing.T) {
	timed.Long(t, "a message of 10 MB")
	cost := func(size int) time.Duration {
		in := AppendEvent(nil, "chunk", strings.Repeat("x", size))
		return timed.Best(3, func() {
			got, err := read(small{bytes.NewReader(in)})
			require.NoError(t, err)
			require.Len(t, got[0].Data, size)
		})
	}
	small, large := cost(1<<20), cost(10<<20)
	t.Logf("1 MB: %v, 10 MB: %v", small, large)
	timed.AtMost(t, large, 50*small)
}

func BenchmarkEvents(b *testing.B) {
	const n = 10_000
	var in []byte
	for range n {
		in = AppendEvent(in, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" some"},"p":"abcdefghijkl"}`)
	}
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		count := 0
		next := Events(bytes.NewReader(in))
		for _, err := next(); err != io.EOF; _, err = next() {
			if err != nil {
				b.Fatal(err)
			}
			count++
		}
		require.Equal(b, n, count)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
