package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/api"
)

func TestAppendName(t *testing.T) {
	for _, limit := range []int{64, 128} {
		seen := map[string]string{}
		long := strings.Repeat("a", limit)
		for _, id := range []string{"", "a", "a.b", "a:b", "a b", "a_b", long, long + "b", long + "c", "é", "è", "\xff", "\x00"} {
			got := string(api.AppendName(nil, id, limit))
			assert.Equal(t, got, string(api.AppendName(nil, id, limit)), "the same each time")
			assert.Regexp(t, `^"[a-zA-Z0-9_-]+"$`, got)
			assert.LessOrEqual(t, len(got), limit+2)
			other, dup := seen[got]
			assert.False(t, dup, "%q and %q are both %s", id, other, got)
			seen[got] = id
		}
	}
	assert.Equal(t, `"functions_x_0_e8e8c763431edc72"`, string(api.AppendName(nil, "functions.x:0", 128)))
}
