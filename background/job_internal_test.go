package background

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// unstarted returns a job that nobody runs, with its group.
func unstarted(output int) *Job {
	g := &Group{limits: Limits{Output: output}}
	return &Job{group: g, news: make(chan struct{}, 1), done: make(chan struct{})}
}

// The chunks in which output arrives do not matter: Take returns all of it.
func FuzzJob(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\xc3\xa9\x1b]0;t\x07"), uint8(1))
	f.Add([]byte("\x1b\x1b[\xf0\x9f"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		const most = 1 << 16
		data = data[:min(len(data), most)]
		j := unstarted(most)
		var got []byte
		for chunk := range slices.Chunk(data, 1+int(size)%50) {
			_, _ = j.Write(chunk)
			text, lost := j.Take()
			require.Zero(t, lost)
			got = append(got, text...)
		}
		close(j.done)
		text, _ := j.Take()
		require.Equal(t, string(data), string(append(got, text...)))
	})
}

// However much is written, the group keeps little more than the limit twice.
func TestOutputIsBounded(t *testing.T) {
	const most = 1 << 10
	written := 1 << 30
	if timed.Reduced(t) {
		written = 1 << 26
	}
	j := unstarted(most)
	block := make([]byte, 32<<10)
	largest := 0
	for range written / len(block) {
		_, _ = j.Write(block)
		largest = max(largest, len(j.unread))
	}
	text, lost := j.Take()
	require.Len(t, text, most)
	require.Equal(t, int64(written-most), lost)
	require.LessOrEqual(t, largest, 2*most)
	require.LessOrEqual(t, cap(j.unread), 2*most+2*len(block))
}
