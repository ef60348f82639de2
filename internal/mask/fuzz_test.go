package mask

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// window is how many bytes of a secret must not be seen in a row.
const window = 16

func checkHidden(t *testing.T, got string, s sample) {
	t.Helper()
	for i := 0; i+min(window, len(s.secret)) <= len(s.secret); i++ {
		if part := s.secret[i : i+min(window, len(s.secret))]; strings.Contains(got, part) {
			t.Fatalf("%s: %q of %q is in\n%q", s.name, part, s.text, got)
		}
	}
}

// No secret is seen, whatever is around and wherever the text is cut; what was masked
// stays, and is had back.
func FuzzMask(f *testing.F) {
	for seed, s := range newSource(3).samples() {
		f.Add(s.text, "password: ", uint64(seed), []byte{1, 7, 30})
	}
	f.Add("-----BEGIN PRIVATE KEY-----\nabc\n", "-----END PRIVATE KEY-----", uint64(500), []byte{200})
	f.Add("[secret:known:0123456789]", "]known-value-0123", uint64(9), []byte{0})
	f.Fuzz(func(t *testing.T, before, after string, seed uint64, cuts []byte) {
		r := newSource(seed)
		all := r.samples()
		s := all[r.IntN(len(all))]
		known := "known-" + r.an(20)
		m := New(known, before)
		text := before + "\n" + s.text + "\n" + known + "\n" + after
		got := m.Mask(text)
		checkHidden(t, got, s)
		checkHidden(t, got, sample{"known", text, known})
		if again := m.Mask(got); again != got {
			t.Fatalf("masked again, %q becomes %q", got, again)
		}
		if back := m.Secrets(text).Restore(got); back != text {
			t.Fatalf("restored, %q becomes %q", text, back)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		if pieces := inPieces(t, m, text, cuts); pieces != got {
			t.Fatalf("in pieces %v:\n%q, not\n%q", cuts, pieces, got)
		}
	})
}

// inPieces writes a text in pieces of the sizes that are given, over and over.
func inPieces(t *testing.T, m *Masker, text string, cuts []byte) string {
	t.Helper()
	var b strings.Builder
	w := m.Writer(&b)
	for i := 0; text != ""; i++ {
		n := len(text)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])+1)
		}
		if _, err := w.Write([]byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// All characters are visible, and the text can be restored.
func FuzzVisible(f *testing.F) {
	f.Add("a\u202eb\u200b\x1b[31m \u2066<U+202E>\U000e0041\xff\r\n\r")
	f.Add("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 می\u200cخواهم a\ufe0f\u200d👩 א\u200f!")
	f.Fuzz(func(t *testing.T, text string) {
		got := Visible(text)
		if !utf8.ValidString(got) || Visible(got) != got {
			t.Fatalf("%q becomes %q, and that %q", text, got, Visible(got))
		}
		for i, r := range got {
			prev, _ := utf8.DecodeLastRuneInString(got[:i])
			if i == 0 {
				prev = -1
			}
			next := got[i+utf8.RuneLen(r):]
			if hidden(r) && !keeps(prev, r, next) && (r != '\r' || !strings.HasPrefix(next, "\n")) {
				t.Fatalf("%q has %U", got, r)
			}
		}
		if back, ambiguous := HiddenIn(text).Unescape(got); !ambiguous && utf8.ValidString(text) && back != text {
			t.Fatalf("%q comes back as %q", text, back)
		}
		plain := StripEscapes(text)
		if strings.ContainsAny(plain, "\x1b\u009b\r\b") || StripEscapes(plain) != plain {
			t.Fatalf("%q still has escapes: %q", text, plain)
		}
	})
}
