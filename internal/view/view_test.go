package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestView(t *testing.T) {
	for _, s := range []string{"", "a", "\x00\xff", "some text"} {
		assert.Equal(t, []byte(s), append([]byte{}, Bytes(s)...))
		assert.Len(t, Bytes(s), len(s))
		assert.Equal(t, s, String([]byte(s)))
	}
	assert.Empty(t, String(nil))
	long := string(make([]byte, 1<<20))
	assert.Zero(t, testing.AllocsPerRun(10, func() { _ = String(Bytes(long)) }), "nothing is copied")
}
