package diff3

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// sharedFile opens a file of the recorded merges.
func sharedFile(t testing.TB, name string) io.Reader {
	t.Helper()
	timed.Long(t, "recorded merges")
	cases := map[string]string{"cases.jsonl.gz": "3,640 merges", "synthetic.jsonl.gz": "2,285 merges"}[name]
	f, err := os.Open(corpus.Path(t, "merge/"+name, cases))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	return z
}

// eachCase calls each for all cases of a file, or with -race for every tenth.
func eachCase[T any](t testing.TB, name string, each func(c *T)) {
	t.Helper()
	r := bufio.NewReaderSize(sharedFile(t, name), 1<<20)
	for i := 0; ; i++ {
		line, err := r.ReadBytes('\n')
		if len(line) > 1 && (!timed.Race || i%10 == 0) {
			c := new(T)
			require.NoError(t, json.Unmarshal(line, c))
			each(c)
		}
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return
		}
	}
}

// text is bytes as the recorded files hold them: a string in which the lone
// surrogates U+DC80 to U+DCFF stand for the bytes 0x80 to 0xFF, or {"b64": …}.
type text []byte

func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		var v struct{ B64 []byte }
		err := json.Unmarshal(data, &v)
		*t = v.B64
		return err
	}
	var s string
	if !bytes.Contains(data, []byte(`\udc`)) {
		err := json.Unmarshal(data, &s)
		*t = text(s)
		return err
	}
	// The escape of a lone surrogate becomes that of U+F780 to U+F7FF, which nothing
	// else uses, and that the byte.
	lone := regexp.MustCompile(`\\ud[89ab]..\\ud[c-f]..|\\\\|\\udc[89a-f][0-9a-f]`)
	data = lone.ReplaceAllFunc(data, func(m []byte) []byte {
		if len(m) == len(`\udc80`) {
			return append([]byte(`\uf7`), m[4:]...)
		}
		return m
	})
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	for _, r := range s {
		if 0xf780 <= r && r <= 0xf7ff {
			*t = append(*t, byte(r))
		} else {
			*t = utf8.AppendRune(*t, r)
		}
	}
	return nil
}

// realCase is a merge from a public history. The sides are edits of base.
type realCase struct {
	ID, Repo, Path, Why string
	HumanIs             string `json:"human_is"`
	Git                 map[string]recordedMerge
	Base                text
	Ours, Theirs, Human edits
}

func (c *realCase) triple() triple {
	return triple{c.Base, c.Ours.apply(c.Base), c.Theirs.apply(c.Base)}
}

// edits are [from, to, text] each, in bytes.
type edits []edit

type edit struct {
	lo, hi int
	text   text
}

func (e *edit) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&e.lo, &e.hi, &e.text})
}

func (es edits) apply(base []byte) []byte {
	var out []byte
	at := 0
	for _, e := range es {
		out = append(append(out, base[at:e.lo]...), e.text...)
		at = e.hi
	}
	return append(out, base[at:]...)
}

// recordedMerge is what git merge-file made of a case.
type recordedMerge struct {
	conflicts int // at most 127
	sha       string
	size      int
}

func (m *recordedMerge) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&m.conflicts, &m.sha, &m.size})
}

// madeCase is a merge that somebody made up.
type madeCase struct {
	ID, Kind           string
	Base, Ours, Theirs text
	Git                map[string]madeMerge
}

type madeMerge struct {
	conflicts int // 255 if it refused
	out       text
}

func (m *madeMerge) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&m.conflicts, &m.out})
}

var styles = map[string]Style{"merge": StyleMerge, "diff3": StyleDiff3, "zdiff3": StyleZdiff3}

// likeGit renders a merge as git merge-file does.
func likeGit(r *Result) []byte {
	return render(r, Format{Ours: "ours", Base: "base", Theirs: "theirs", MarkerSize: 7}, unresolved)
}
