package textdiff

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// pair is an old and a new version of a text.
type pair struct{ name, a, b string }

// recordedPairs returns the recorded merges' base and ours: real ones and made ones. Without
// them, which lie beside the repository, the test is skipped. With -race it takes
// every tenth.
func recordedPairs(t testing.TB) []pair {
	t.Helper()
	var out []pair
	eachLine(t, "cases.jsonl.gz", func(line []byte) {
		var c struct {
			ID, Path string
			Base     json.RawMessage
			Ours     [][3]json.RawMessage // edits of base: from, to, text
		}
		require.NoError(t, json.Unmarshal(line, &c))
		base, ours, at := decoded(t, c.Base), "", 0
		for _, e := range c.Ours {
			var lo, hi int
			require.NoError(t, json.Unmarshal(e[0], &lo))
			require.NoError(t, json.Unmarshal(e[1], &hi))
			ours += base[at:lo] + decoded(t, e[2])
			at = hi
		}
		out = append(out, pair{c.ID + " " + c.Path, base, ours + base[at:]})
	})
	eachLine(t, "synthetic.jsonl.gz", func(line []byte) {
		var c struct {
			ID, Kind   string
			Base, Ours json.RawMessage
		}
		require.NoError(t, json.Unmarshal(line, &c))
		out = append(out, pair{c.ID + " " + c.Kind, decoded(t, c.Base), decoded(t, c.Ours)})
	})
	return out
}

func eachLine(t testing.TB, name string, each func([]byte)) {
	t.Helper()
	timed.Long(t, "recorded merges")
	f, err := os.Open(corpus.Path(t, "merge/"+name, "the pairs of 5,925 merges"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := bufio.NewReaderSize(z, 1<<20)
	reduced := timed.Reduced(t)
	for i := 0; ; i++ {
		line, err := r.ReadBytes('\n')
		if len(line) > 1 && (!reduced || i%10 == 0) {
			each(line)
		}
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return
		}
	}
}

// decoded returns a recorded text: {"b64": …}, or a string in which the lone
// surrogates U+DC80 to U+DCFF stand for the bytes 0x80 to 0xFF. They are taken through
// the decoder as U+F780 to U+F7FF, which nothing else uses.
func decoded(t testing.TB, data json.RawMessage) string {
	t.Helper()
	var s string
	if data[0] == '{' {
		var v struct{ B64 string }
		require.NoError(t, json.Unmarshal(data, &v))
		text, err := base64.StdEncoding.DecodeString(v.B64)
		require.NoError(t, err)
		return string(text)
	}
	lone := strings.Contains(string(data), `\udc`)
	if lone {
		one := regexp.MustCompile(`\\ud[89ab]..\\ud[c-f]..|\\\\|\\udc[89a-f][0-9a-f]`)
		data = one.ReplaceAllFunc(data, func(m []byte) []byte {
			if len(m) == len(`\udc80`) {
				m = append([]byte(`\uf7`), m[4:]...)
			}
			return m
		})
	}
	require.NoError(t, json.Unmarshal(data, &s))
	if !lone {
		return s
	}
	var out []byte
	for _, r := range s {
		if 0xf780 <= r && r <= 0xf7ff {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}
