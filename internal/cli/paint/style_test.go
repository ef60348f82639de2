package paint_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/cli/paint"
)

// TestClean lists what a terminal must not get.
func TestClean(t *testing.T) {
	t.Parallel()
	text := "a\x1b[2Jb\r\nc\td\x7f\u009be\u202ef\u2066\x00\xff"
	assert.Equal(t, "a␛[2Jb\nc\td␡<009b>e<202e>f<2066>␀\ufffd", paint.Style{}.Clean(text))
	assert.Equal(t, "a<2028>b<2029>", paint.Style{}.Clean("a\u2028b\u2029"))
	assert.Equal(t, "a^[[2Jb\nc\td^?<009b>e<202e>f<2066>^@\ufffd", paint.Style{Plain: true}.Clean(text))
}
