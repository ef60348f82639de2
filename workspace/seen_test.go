package workspace_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The least recently used entries are dropped: contents beyond 64 MiB, and files beyond
// 100,000.
func TestSeenFilesForget(t *testing.T) {
	var s workspace.SeenFiles
	big := strings.Repeat("x", 8<<20)
	for i := range 8 {
		s.Add(strconv.Itoa(i), big[i:])
	}
	assert.Len(t, s.Contents("0"), 1, "it is used")
	s.Add("8", big)
	assert.Len(t, s.Contents("0"), 1)
	assert.Empty(t, s.Contents("1"), "the one that was not used for longest")
	assert.NotEmpty(t, s.Hash("1"))
	for i := range 100_000 {
		s.AddPart("f"+strconv.Itoa(i), "")
	}
	assert.Empty(t, s.Hash("0"))
	assert.NotEmpty(t, s.Contents("f0"))
	s.Add("one more", "")
	assert.Empty(t, s.Contents("f1"))
	assert.NotEmpty(t, s.Contents("f0"))
	assert.NotEmpty(t, s.Contents("f99999"))
}

// Lines that were shown are a base for merges, but no file that was read.
func TestShownInPart(t *testing.T) {
	var s workspace.SeenFiles
	s.AddPart("f", "a")
	assert.Equal(t, []string{"a"}, s.Contents("f"))
	assert.Empty(t, s.Hash("f"))
	s.Add("f", "b")
	read := s.Hash("f")
	s.AddPart("f", "c")
	assert.Equal(t, []string{"c", "b", "a"}, s.Contents("f"))
	assert.Equal(t, read, s.Hash("f"))
	for _, text := range []string{"d", "b", "e"} {
		s.AddPart("f", text)
	}
	assert.Equal(t, []string{"e", "b", "d", "c"}, s.Contents("f"), "at most four, each once")
}

// A file more, when as many are remembered as can be.
func BenchmarkSeenFilesAdd(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var s workspace.SeenFiles
			for i := range n {
				s.Add(strconv.Itoa(i), "text")
			}
			for i := n; b.Loop(); i++ {
				s.Add(strconv.Itoa(i), "text")
			}
		})
	}
}

// A second process can be given everything that the first one remembers.
func TestSeenFilesRestore(t *testing.T) {
	var s, again workspace.SeenFiles
	s.Add("a", "a1")
	s.Add("b", "b1")
	s.AddPart("a", "a2")
	s.AddPart("c", "c1")
	s.Contents("b")
	for _, f := range s.All() {
		again.Restore(f)
	}
	assert.Equal(t, s.All(), again.All())
	assert.Equal(t, "b", again.All()[2].Path)
	assert.Equal(t, []string{"a2", "a1"}, again.Contents("a"))
	assert.Equal(t, "f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114", again.Hash("a"), "sha256sum of a1")
	assert.Empty(t, again.Hash("c"))
}

func TestSeenFilesReset(t *testing.T) {
	var s workspace.SeenFiles
	s.Add("a", "1")
	s.AddPart("b", "2")
	s.Reset()
	require.Empty(t, s.All())
	require.Empty(t, s.Hash("a"))
	require.Nil(t, s.Contents("b"))
	s.Add("a", "3")
	require.Equal(t, []string{"3"}, s.Contents("a"))
}

// Each agent has what it was shown, in each workspace.
func TestSeenFilesOfReaders(t *testing.T) {
	var s, other workspace.SeenFiles
	var a, b workspace.Reader
	forA, forB := workspace.WithReader(t.Context(), &a), workspace.WithReader(t.Context(), &b)
	s.Add("f", "host")
	s.For(forA).Add("f", "a")
	s.For(workspace.WithReader(forA, &b)).Add("f", "b")
	require.Equal(t, []string{"host"}, s.For(t.Context()).Contents("f"))
	require.Equal(t, []string{"a"}, s.For(forA).Contents("f"))
	require.Equal(t, []string{"b"}, s.For(forB).Contents("f"))
	require.Empty(t, other.For(forA).All())
	require.Same(t, &s, s.For(workspace.WithReader(forA, nil)).SeenFiles)
}
