package corpus

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResolutions(t *testing.T) {
	const unknown = "?"
	tests := []struct {
		name, pieces, file string // the pieces are separated by #, and lines by blanks
		want               []string
	}{
		{"one", "a b #c d ", "a b x c d ", []string{"x "}},
		{"two", "a #b c #d ", "a x b c y d ", []string{"x ", "y "}},
		{"nothing", "a #b c #d ", "a b c d ", []string{"", ""}},
		{"at both ends", "#b c #", "x b c y ", []string{"x ", "y "}},
		{"the whole file", "#", "x y ", []string{"x y "}},
		{"a piece that the resolution repeats", "a #b #d ", "a b b d ", []string{unknown, unknown}},
		{"only one of them is clear", "a #b c #e #f ", "a x b c e e f ", []string{"x ", unknown, unknown}},
		{"a piece within a line", "a #b #d ", "a xb b y d ", []string{"xb ", "y "}},
		{"more was changed", "z a b #c d z ", "y a b x c d z ", []string{"x "}},
		{"next to it", "z a b #c d z ", "z a y x c d z ", []string{unknown}},
		{"the line next to it occurs twice", "z a b #c d z ", "y b x c d b y ", []string{unknown}},
		{"in the wrong order", "z a #c z ", "y c x a y ", []string{unknown}},
	}
	lines := func(s string) []byte { return []byte(strings.ReplaceAll(s, " ", "\n")) }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pieces [][]byte
			for piece := range strings.SplitSeq(tt.pieces, "#") {
				pieces = append(pieces, lines(piece))
			}
			var got []string
			for _, text := range Resolutions(pieces, lines(tt.file)) {
				if text == nil {
					got = append(got, unknown)
				} else {
					got = append(got, strings.ReplaceAll(string(text), "\n", " "))
				}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestText(t *testing.T) {
	for data, want := range map[string]string{
		`"a"`: "a", `"\udcff\\udcff"`: "\xff\\udcff", `"é\ud83d\ude00\udc80"`: "é😀\x80", `{"b64":"AA=="}`: "\x00",
	} {
		var got Text
		require.NoError(t, json.Unmarshal([]byte(data), &got), data)
		assert.Equal(t, want, string(got), data)
	}
}
