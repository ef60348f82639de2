package corpus

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"testing"
	"unicode/utf8"
)

// Each decodes every line of a compressed file of the material, such as "merge/cases.jsonl.gz",
// or every step-th line. The parameter cases is as in [Path].
func Each[T any](t testing.TB, name, cases string, step int, each func(c *T)) {
	t.Helper()
	if err := read(Path(t, name, cases), step, each); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
}

func read[T any](path string, step int, each func(c *T)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(z, 1<<20)
	for i := 0; ; i++ {
		line, err := r.ReadBytes('\n')
		if len(line) > 1 && i%step == 0 {
			c := new(T)
			if err := json.Unmarshal(line, c); err != nil {
				return err
			}
			each(c)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Merge is a merge from a public history. The sides, and what a human committed, are edits of base.
type Merge struct {
	ID, Repo, Path, Why string
	Commit              string `json:"merge"`
	HumanIs             string `json:"human_is"`
	Git                 map[string]GitMerge
	Base                Text
	Ours, Theirs, Human Edits
}

// Edits are changes of a text, in order.
type Edits []Edit

// Edit replaces the bytes of a text from Lo up to but not including Hi.
type Edit struct {
	Lo, Hi int
	Text   Text
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Edit) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&e.Lo, &e.Hi, &e.Text})
}

// Apply returns the changed text.
func (es Edits) Apply(base []byte) []byte {
	var out []byte
	at := 0
	for _, e := range es {
		out = append(append(out, base[at:e.Lo]...), e.Text...)
		at = e.Hi
	}
	return append(out, base[at:]...)
}

// GitMerge is what git merge-file made of a merge in one style.
type GitMerge struct {
	Conflicts int // at most 127
	SHA256    string
	Size      int
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *GitMerge) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&m.Conflicts, &m.SHA256, &m.Size})
}

// Text is bytes as the recorded files hold them: a string in which the lone surrogates U+DC80 to
// U+DCFF stand for the bytes 0x80 to 0xFF, or {"b64": …}.
type Text []byte

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Text) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		var v struct{ B64 []byte }
		err := json.Unmarshal(data, &v)
		*t = v.B64
		return err
	}
	var s string
	if !bytes.Contains(data, []byte(`\udc`)) {
		err := json.Unmarshal(data, &s)
		*t = Text(s)
		return err
	}
	// The escape of a lone surrogate becomes that of U+F780 to U+F7FF, which nothing else uses, and
	// that the byte.
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
