package mask

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// A line that does not end is written before its end, without a secret in it and with
// a bound on what is kept.
func TestWriterLongLines(t *testing.T) {
	timed.Serial(t)
	r := newSource(5)
	m := New("a known value, with spaces")
	for name, filler := range map[string]string{
		"words": "some words ", "minified": "a.b(c,d);", "no end": "abcdefgh", "commas": "1,2,3,",
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			w := m.Writer(&b)
			var secrets []string
			most := 0
			for range 60 {
				token, password := "gh"+"p_"+r.an(36), r.an(20)
				secrets = append(secrets, token, password)
				text := strings.Repeat(filler, 80_000/len(filler)) + " " + token + " \"password\": \"" + password + "\" a known value, with spaces "
				for text != "" {
					n := min(len(text), 1+r.IntN(5000))
					_, err := w.Write([]byte(text[:n]))
					require.NoError(t, err)
					text = text[n:]
					most = max(most, len(w.held))
				}
			}
			assert.Positive(t, b.Len(), "something was written before the end")
			require.NoError(t, w.Close())
			for _, s := range append(secrets, "a known value") {
				require.NotContains(t, b.String(), s)
			}
			assert.LessOrEqual(t, most, maxHeld+5000)
		})
	}
}

// Of a block that is too long to keep, the rest is left out.
func TestWriterLongBlocks(t *testing.T) {
	r := newSource(6)
	for _, lines := range []int{100, 1500, 3000} {
		block := r.block("", lines)
		var b strings.Builder
		w := New().Writer(&b)
		for line := range strings.Lines("before\n" + block + "\nafter\n") {
			_, err := w.Write([]byte(line))
			require.NoError(t, err)
			require.LessOrEqual(t, len(w.held), maxBlock+200)
		}
		require.NoError(t, w.Close())
		got := b.String()
		assert.True(t, strings.HasPrefix(got, "before\n[secret:private-key:"), got)
		assert.True(t, strings.HasSuffix(got, "after\n"), got)
		assert.Less(t, len(got), 100, "%d lines", lines)
	}
}

// Text outside of blocks is not held back.
func TestWriterPassesOn(t *testing.T) {
	var b strings.Builder
	w := New().Writer(&b)
	for _, line := range []string{"a line\n", "DONE\n", "0123456789abcdef\n", "ok 12 seconds\n"} {
		_, err := w.Write([]byte(line))
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(b.String(), line), line)
	}
	_, err := w.Write([]byte("half"))
	require.NoError(t, err)
	require.NotContains(t, b.String(), "half")
	require.NoError(t, w.Close())
	require.True(t, strings.HasSuffix(b.String(), "half"))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken")

func TestWriterFails(t *testing.T) {
	w := New().Writer(brokenWriter{})
	_, err := w.Write([]byte("a\n"))
	require.ErrorIs(t, err, errBroken)
	_, err = w.Write([]byte("b\n"))
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, w.Close(), errBroken)
}

func TestLine(t *testing.T) {
	m := New()
	key := newSource(1).an(64)
	assert.NotContains(t, m.Line(key), key)
	assert.NotContains(t, m.Line("    12\t"+key), key)
	assert.NotContains(t, m.Line("0a1b2c3d (Me 2026-01-02 10:00:00 +0000  4) "+key), key)
	for _, s := range []string{"compiling x", "", newSource(1).hex(40), "abc", "see projects/123/locations/US/dataExchanges/456"} {
		assert.Equal(t, s, m.Line(s))
	}
}

func TestVisible(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "a\tb\r\nc", "a\tb\r\nc"},
		{"bidi", "a\u202eb\u2066c\u2069", "a<U+202E>b<U+2066>c<U+2069>"},
		{"zero width", "a\u200bb\u200dc\u2060d\ufeffe\u00adf", "a<U+200B>b<U+200D>c<U+2060>d<U+FEFF>e<U+00AD>f"},
		{"byte order mark", "\ufeffa", "\ufeffa"},
		{"tags", "a\U000e0068\U000e0069", "a<U+E0068><U+E0069>"},
		{"controls", "\x1b[31m\x00\x7f\u0085\b", "<U+001B>[31m<U+0000><U+007F><U+0085><U+0008>"},
		{"carriage return", "good\rbad", "good<U+000D>bad"},
		{"family", "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 ❤\ufe0f\u200d🔥 ☎\ufe0e 1\ufe0f\u20e3", "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 ❤\ufe0f\u200d🔥 ☎\ufe0e 1\ufe0f\u20e3"},
		{"Persian", "می\u200cخواهم", "می\u200cخواهم"},
		{"Hindi", "क्\u200dष", "क्\u200dष"},
		{"joiners in a row", "م\u200c\u200c\u200cم", "م\u200c<U+200C><U+200C>م"},
		{"Hebrew", "א\u200f!", "א\u200f!"},
		{"direction mark in code", "if a\u200f == b", "if a<U+200F> == b"},
		{"selectors that carry a message", "x\ufe01\ufe02\U000e0101", "x<U+FE01><U+FE02><U+E0101>"},
		{"ideographic variant", "葛\U000e0100", "葛\U000e0100"},
		{"fillers", "\u3164\u115f\u2800", "<U+3164><U+115F><U+2800>"},
		{"private and not assigned", "\ue000\U0010ffff\u0378", "<U+E000><U+10FFFF><U+0378>"},
		{"separators", "a\u2028b\u2029", "a<U+2028>b<U+2029>"},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, Visible(tt.in)) })
	}
}

func TestStripEscapes(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"title and link", "\x1b]0;t\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"},
		{"C1", "\u009b31mred", "red"},
		{"cursor", "\x1b[2J\x1b[1;1Hx\x1b7\x1b8\x1b(B\x1bc", "x"},
		{"no end", "\x1b[31", "[31"},
		{"title without end", "\x1b]0;text\nmore", "]0;text\nmore"},
		{"overstruck", "N\bNA\bAM", "NAM"},
		{"progress", "10%\r20%\r\n", "10%\n20%\n"},
		{"line endings", "a\r\nb\r\r\n", "a\nb\n"},
		{"backspaces at the beginning", "\n\b\bx", "\nx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, StripEscapes(tt.in)) })
	}
}

func TestEnvironment(t *testing.T) {
	r := newSource(2)
	key := r.an(20)
	got := Environment([]string{
		"API_KEY=" + key, "HOME=/root", "PWD=/x/y", "SSH_AUTH_SOCK=/tmp/ssh-1/agent.2", "KEY_FILE=/etc/x.pem", "TOKEN_URL=https://x/y",
		"DATABASE_URL=postgres://app:" + key[:10] + "@db/x", "PASSWORD_HASH=" + key, "DB_PASSWORD=many-words-are-a-password", "GIT_AUTHOR_NAME=Somebody Else",
		"SECRET_LENGTH=12345678", "AUTH_TOKEN=short", "KEYBOARD=american", "MY_SECRET=${OTHER_SECRET}", "NPM_TOKEN=changeme", "=x", "NO_VALUE",
	})
	require.Equal(t, []string{key, key[:10], "many-words-are-a-password"}, got)
}

func TestKnownValues(t *testing.T) {
	m := New("short", "first-line-1\n  second-line-2\n", "quote\"and/slash+1", "[secret:")
	for _, s := range []string{
		"first-line-1", "x second-line-2", `{"a":"quote\"and\/slash+1"}`, "quote%22and%2Fslash%2B1", "cXVvdGUiYW5kL3NsYXNoKzE=", "YWJxdW90ZSJhbmQvc2xhc2grMQ==",
	} {
		assert.Contains(t, m.Mask(s), "[secret:known:", s)
	}
	assert.Equal(t, "short", m.Mask("short"))
	assert.NotEqual(t, m.Mask("first-line-1"), m.Mask("second-line-2"))
}

func TestRestore(t *testing.T) {
	r := newSource(4)
	m := New()
	a, b := "gh"+"p_"+r.an(36), "gh"+"p_"+r.an(36)
	pa, pb := m.Mask(a), m.Mask(b)
	tests := []struct{ name, text, within, want string }{
		{"there", "x " + pa, "y " + a, "x " + a},
		{"not there", "x " + pb, "y " + a, "x " + pb},
		{"some", pa + pb + pa, a, a + pb + a},
		{"no placeholder", "plain", a, "plain"},
		{"other secrets stay", b, a, b},
		{"literally there, too", pa, a + " " + pa, pa},
		{"broken", "[secret:x [secret:github-token:12] " + pa[:20], a, "[secret:x [secret:github-token:12] " + pa[:20]},
		{"another key", New().Mask(a), a, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.text
			}
			require.Equal(t, want, m.Secrets(tt.within).Restore(tt.text))
		})
	}
	require.Equal(t, []string{pa, pb}, m.Unresolved("a"+pa+pb+"[secret:"+pa))
	require.Empty(t, m.Unresolved("[secret:] [secret:a:b]"))
	shown := "     7\t" + strings.ReplaceAll(r.block("", 3), "\n", "\n     8\t")
	file := strings.ReplaceAll(strings.TrimPrefix(shown, "     7\t"), "\n     8\t", "\n")
	require.Equal(t, "     7\t"+file, m.Secrets(file).Restore(m.Mask(shown)), "a block has the same placeholder with line numbers")
}
