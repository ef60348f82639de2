package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	gosse "github.com/tmaxmax/go-sse"
)

// sized reads at most n bytes at a time.
type sized struct {
	r io.Reader
	n int
}

func (s sized) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

func collect(r io.Reader, limit int) (got []Event, err error) {
	var events Reader
	for events.Reset(r, limit); ; {
		ev, err := events.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		ev.Data = strings.Clone(ev.Data)
		got = append(got, ev)
	}
}

func TestEvents(t *testing.T) {
	a, b := Event{Type: "a", Data: "1"}, Event{Data: "2"}
	tests := []struct {
		name, in string
		want     []Event
		err      error
	}{
		{"empty", "", nil, nil},
		{"blank lines only", "\n\r\n\r\n\n\n", nil, nil},
		{"lf", "event: a\ndata: 1\n\ndata: 2\n\n", []Event{a, b}, nil},
		{"crlf", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []Event{a, b}, nil},
		{"cr", "event: a\rdata: 1\r\rdata: 2\r\r", []Event{a, b}, nil},
		{"mixed", "event: a\rdata: 1\n\rdata: 2\r\n\n", []Event{a, b}, nil},
		{"byte order mark", "\ufeffevent: a\ndata: 1\n\n", []Event{a}, nil},
		{"no space", "event:a\ndata:1\n\n", []Event{a}, nil},
		{"many lines", "data: 1\ndata:\ndata: 3\n\n", []Event{{Data: "1\n\n3"}}, nil},
		{"comment", ": hello\n\nevent: a\n: x\ndata: 1\n\n", []Event{a}, nil},
		{"error field", "error: {\"code\":500}\n\ndata: 2\n\n", []Event{{Type: "error", Data: `{"code":500}`}, b}, nil},
		{"error field after others", "id: 7\r\nerror: x\r\n\r\n", []Event{{Type: "error", Data: "x"}}, nil},
		{"error field of many lines", "error:\nerror: {\nerror: }\n\n", []Event{{Type: "error", Data: "\n{\n}"}}, nil},
		{"unknown field", "foo: x\nlongfieldname: y\nevent: a\ndata: 1\n\n", []Event{a}, nil},
		{"hundreds of blank lines", strings.Repeat("\n", 500) + "event: a\ndata: 1\n\n", []Event{a}, nil},
		{"no blank line", "event: a\ndata: {\"x\":1}\n", []Event{{"a", `{"x":1}`}}, nil},
		{"no line end", "event: a\r\ndata: {\"x\":1}", []Event{{"a", `{"x":1}`}}, nil},
		{"object in two lines", "data: {\"x\":\ndata: 1}", []Event{{"", "{\"x\":\n1}"}}, nil},
		{"comment and half a field", "data: 1\n\n:\r0", []Event{{"", "1"}}, ErrTruncated},
		{"end marker without a line end", "data: 1\n\ndata: [DONE]", []Event{{"", "1"}, {"", "[DONE]"}}, nil},
		{"failure without a line end", "error: {\"message\":1", []Event{{"error", `{"message":1`}}, nil},
		{"half an object", "event: a\ndata: {\"x\":1", nil, ErrTruncated},
		{"half a marker", "data: [DON", nil, ErrTruncated},
		{"a type without data", "data: 1\n\nevent: a\n", []Event{{"", "1"}}, ErrTruncated},
		{"a comment at the end", "data: 1\n\n: ping", []Event{{"", "1"}}, nil},
		{"cut in a line", "event: a\ndata: 1\n\ndata: 2", []Event{a}, ErrTruncated},
		{"cut after a line", "event: a\ndata: 1\n\ndata: 2\n", []Event{a}, ErrTruncated},
		{"cut between cr and lf", "event: a\r\ndata: 1\r\n\r", []Event{a}, nil},
		{"too large, whole", "event: a\ndata: 1\n\ndata: " + strings.Repeat("x", 99) + "\n\n", []Event{a}, &TooLargeError{64}},
		{"too large, open", "data: " + strings.Repeat("x", 9999), nil, &TooLargeError{64}},
		{"too large comment", ": " + strings.Repeat("x\n: ", 9999), nil, &TooLargeError{64}},
		{"just large enough", "data: " + strings.Repeat("x", 56) + "\n\n", []Event{{Data: strings.Repeat("x", 56)}}, nil},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, size), func(t *testing.T) {
				got, err := collect(sized{strings.NewReader(tt.in), size}, 64)
				assert.Equal(t, tt.want, got)
				assert.Equal(t, tt.err, err)
			})
		}
	}
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("connection reset")
	tests := []struct {
		name string
		r    io.Reader
		want error
	}{
		{"between events", io.MultiReader(strings.NewReader("data: 1\n\n"), iotest.ErrReader(broken)), broken},
		{"inside an event", io.MultiReader(strings.NewReader("data: 1\n\ndata: 2"), iotest.ErrReader(broken)), broken},
		{"with the data", iotest.DataErrReader(strings.NewReader("data: 1\n\n")), nil},
		{"nothing for ever", io.MultiReader(strings.NewReader("data: 1\n\n"), readNothing{}), io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := collect(tt.r, 0)
			assert.Equal(t, []Event{{Data: "1"}}, got)
			assert.Equal(t, tt.want, err)
		})
	}
}

type readNothing struct{}

func (readNothing) Read([]byte) (int, error) { return 0, nil }

// An event must be returned when its blank line has arrived, not when the next one has.
func TestEventsAreNotHeldBack(t *testing.T) {
	for _, nl := range []string{"\n", "\r\n", "\r"} {
		t.Run(fmt.Sprintf("%q", nl), func(t *testing.T) {
			r, w := io.Pipe()
			got := make(chan Event)
			go func() {
				defer close(got)
				var events Reader
				events.Reset(r, 0)
				ev, err := events.Next()
				for err == nil {
					ev.Data = strings.Clone(ev.Data)
					got <- ev
					ev, err = events.Next()
				}
				assert.Equal(t, io.EOF, err)
			}()
			for i := range 3 {
				_, err := io.WriteString(w, fmt.Sprintf("data: %d%s%s", i, nl, nl))
				require.NoError(t, err)
				require.Equal(t, Event{Data: fmt.Sprint(i)}, <-got)
			}
			require.NoError(t, w.Close())
			_, open := <-got
			assert.False(t, open)
		})
	}
}

func TestLargeEvents(t *testing.T) {
	var in strings.Builder
	var want []Event
	for _, n := range []int{10, 4 << 10, 70 << 10, 3, 10 << 20, 1, 100 << 10} {
		data := strings.Repeat("é", n/2)
		want = append(want, Event{Data: data})
		fmt.Fprintf(&in, "data: %s\r\n\r\n", data)
	}
	got, err := collect(sized{strings.NewReader(in.String()), 1400}, 0)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		assert.True(t, want[i] == got[i], "event %d of %d bytes", i, len(want[i].Data))
	}
}

func TestBreak(t *testing.T) {
	r := strings.NewReader(strings.Repeat("data: 1\n\n", 10_000))
	var events Reader
	events.Reset(r, 0)
	_, err := events.Next()
	require.NoError(t, err)
	assert.Greater(t, r.Len(), 0, "the rest is not read")
}

// The bytes before the first are dropped, and those behind it are kept.
func TestFirst(t *testing.T) {
	tests := []struct {
		in    string
		first byte
		rest  string
	}{
		{"data: 1\n\n", 'd', "data: 1\n\n"},
		{" \t\r\n\ufeff \ufeff{\"a\":1}\n", '{', "{\"a\":1}\n"},
		{strings.Repeat("\n", 9000) + "[" + strings.Repeat("x", 9000), '[', "[" + strings.Repeat("x", 9000)},
		{"\xef\xbbx", 0xef, "\xef\xbbx"},
		{"\xef\xbb", 0xef, "\xef\xbb"},
	}
	for _, tt := range tests {
		for _, n := range []int{1, 2, 7, 1 << 20} {
			var events Reader
			events.Reset(sized{strings.NewReader(tt.in), n}, 0)
			first, err := events.First()
			require.NoError(t, err)
			assert.Equal(t, tt.first, first, "%q", tt.in)
			rest, err := io.ReadAll(events.Rest())
			require.NoError(t, err)
			assert.Equal(t, tt.rest, string(rest), "at %d bytes", n)
		}
	}
	broken := errors.New("broken")
	for _, want := range []error{io.EOF, broken} {
		var events Reader
		events.Reset(io.MultiReader(strings.NewReader("\n \n"), iotest.ErrReader(want)), 0)
		_, err := events.First()
		assert.Equal(t, want, err)
		_, err = events.Next()
		assert.Equal(t, want, err)
		_, err = events.Rest().Read(make([]byte, 1))
		assert.Equal(t, want, err)
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"event: a\ndata: 1\n\n", "data: 1\r\n\r\ndata: 2\r\r", "\ufeff\n: c\n\ndata\n\n",
		"id: 1\nretry: 3\n\n", "data: a\ndata: b\n\rdata: c", "\r\n\r\n\n", "\ufeff\ufeffdata: x\n\n",
		strings.Repeat("data: x\r", 2000) + "\r",
	} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(250))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		r := sized{bytes.NewReader(in), int(size) + 1}
		if bytes.Contains(in, []byte("error:")) {
			return // which go-sse drops
		}
		got, err := collect(r, 0)
		if err != nil {
			require.Equal(t, ErrTruncated, err)
		}
		whole := in[:len(in)-pending(in)]
		want := reference(t, whole)
		switch rest := in[len(whole):]; {
		case endsWhole(t, rest):
			require.NoError(t, err)
			want = append(want, reference(t, append(bytes.Clone(rest), "\n\n"...))...)
		default:
			require.Equal(t, err != nil, len(rest) > 0)
		}
		if !slices.Equal(want, got) {
			t.Errorf("events of %q at %d bytes = %q, want %q", in, int(size)+1, got, want)
		}
	})
}

// endsWhole reports whether the bytes after the last blank line are only comments, or a
// complete event.
func endsWhole(t *testing.T, rest []byte) bool {
	comments := len(rest) > 0
	for line := range strings.SplitSeq(strings.ReplaceAll(string(rest), "\r", "\n"), "\n") {
		line = strings.TrimSpace(line)
		comments = comments && (line == "" || line[0] == ':')
	}
	events := reference(t, append(bytes.Clone(rest), "\n\n"...))
	if comments || len(events) != 1 {
		return comments
	}
	var object map[string]any
	return events[0].Type == "error" || strings.TrimSpace(events[0].Data) == "[DONE]" ||
		json.Unmarshal([]byte(events[0].Data), &object) == nil && object != nil
}

// reference parses the same bytes with go-sse in one read.
func reference(t *testing.T, in []byte) []Event {
	var want []Event
	cfg := &gosse.ReadConfig{MaxEventSize: 2*len(in) + 8192}
	for ev, err := range gosse.Read(bytes.NewReader(in), cfg) {
		require.NoError(t, err)
		want = append(want, Event{Type: ev.Type, Data: ev.Data})
	}
	return want
}

// pending counts the bytes after the last blank line, in the simplest way.
func pending(in []byte) int {
	s := strings.ReplaceAll(string(in), "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	i := strings.LastIndex("\n"+s, "\n\n")
	if i < 0 {
		i = 0
		s = strings.TrimLeft(s, "\n")
		return pendingRaw(in, len(s))
	}
	return pendingRaw(in, len(s)-i-1)
}

// pendingRaw converts a count of bytes with plain line ends to one of raw bytes.
func pendingRaw(in []byte, n int) int {
	raw := 0
	for i := len(in) - 1; n > 0; i-- {
		raw++
		if in[i] == '\n' && i > 0 && in[i-1] == '\r' {
			continue
		}
		n--
	}
	return raw
}

func bigEvent() []byte {
	return []byte("event: content_block_delta\ndata: " + strings.Repeat("x", 1<<20) + "\n\n")
}

func smallEvents() []byte {
	const ev = "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" to retrieve"}    }` + "\n\n"
	return bytes.Repeat([]byte(ev), 10_000)
}

func BenchmarkRead(b *testing.B) {
	inputs := []struct {
		name string
		data []byte
		size int
	}{
		{"1MiB", bigEvent(), 1400},
		{"10000", smallEvents(), 1400},
	}
	for _, in := range inputs {
		r := func() io.Reader { return sized{bytes.NewReader(in.data), in.size} }
		b.Run(in.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var events Reader
				events.Reset(r(), 0)
				_, err := events.Next()
				for err == nil {
					_, err = events.Next()
				}
				require.Equal(b, io.EOF, err)
			}
		})
		b.Run(in.name+"/framer", func(b *testing.B) {
			for b.Loop() {
				f := &framer{r: r(), limit: DefaultLimit}
				_, err := f.event()
				for err == nil {
					_, err = f.event()
				}
				require.Equal(b, io.EOF, err)
			}
		})
		b.Run(in.name+"/go-sse", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range gosse.Read(r(), &gosse.ReadConfig{MaxEventSize: DefaultLimit}) {
					require.NoError(b, err)
				}
			}
		})
		b.Run(in.name+"/copy", func(b *testing.B) {
			for b.Loop() {
				_, err := io.Copy(&bytes.Buffer{}, r())
				require.NoError(b, err)
			}
		})
	}
}

// Streams that are read at the same time, and in part given up, use each other's buffers.
func TestBuffersAreUsedAgain(t *testing.T) {
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			text := strings.Repeat(string(rune('a'+n)), 300)
			stream := strings.Repeat("data: "+text+"\n\n", 100)
			for round := range 20 {
				var events Reader
				events.Reset(strings.NewReader(stream), 0)
				for range 5 * round {
					ev, err := events.Next()
					if !assert.NoError(t, err) || !assert.Equal(t, text, ev.Data) {
						return
					}
				}
				events.Close()
			}
		})
	}
	all.Wait()
	var events Reader
	events.Close() // of a reader that has read nothing
	stream := strings.Repeat("data: {}\n\n", 2000)
	assert.Less(t, testing.AllocsPerRun(20, func() {
		events.Reset(strings.NewReader(stream), 0)
		for range 2000 {
			_, err := events.Next()
			require.NoError(t, err)
		}
		events.Close()
	}), 3.0, "allocations of a reader whose buffers are there")
}
