package lru_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/lru"
)

func TestCacheDropsTheUnused(t *testing.T) {
	c := lru.New(10_000) // room for seven of 1,000 bytes
	data := []byte(strings.Repeat("x", 1000))
	for n := range 100 {
		require.True(t, c.Put(strings.Repeat("k", n+1), data))
		_, ok := c.Get("k")
		require.True(t, ok, "it is in use")
	}
	kept := 0
	for n := range 100 {
		if _, ok := c.Get(strings.Repeat("k", n+1)); ok {
			kept++
			require.True(t, n == 0 || n > 90, n)
		}
	}
	require.Equal(t, 7, kept)
	require.False(t, c.Put("k", make([]byte, 10_000)), "it has no room, by itself")
	_, ok := c.Get("k")
	require.False(t, ok)
	_, ok = c.Get(strings.Repeat("k", 100))
	require.True(t, ok, "the others stay")
}
