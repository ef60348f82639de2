package textcost

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// total returns the estimated number of tokens, in thousandths.
func total(text string) int64 {
	f, n := Scan(text), int64(0)
	for _, g := range f.Count() {
		n += g
	}
	return n
}

func TestScan(t *testing.T) {
	for _, tt := range []struct {
		text string
		want map[Feature]uint32
	}{
		{"", map[Feature]uint32{}},
		{"the", map[Feature]uint32{Word: 1}},
		{"The sea", map[Feature]uint32{Word: 2, Title: 1}},
		{"international", map[Feature]uint32{Word: 1, WordLetter: 6}},
		{"getUserName", map[Feature]uint32{Word: 1, Title: 2, Hump: 2}},
		{"HTTPServer", map[Feature]uint32{Caps: 1, Title: 1, Hump: 1}},
		{"aB", map[Feature]uint32{Word: 1, Cap: 1}},
		{"Für élan", map[Feature]uint32{Word: 2, Title: 1, Accent: 2}},
		{"Việt", map[Feature]uint32{Word: 1, Title: 1, Accent: 1}},
		{"jazz", map[Feature]uint32{Word: 1, Rare: 3}},
		{"x 1234567", map[Feature]uint32{Word: 1, Rare: 1, Number: 3, NumberSpace: 1}},
		{"f(a);\n", map[Feature]uint32{Word: 2, Marks: 2, Mark: 1, LineMark: 1}},
		{"a\n\n\n\nb", map[Feature]uint32{Word: 2, Line: 1, Repeat: 2}},
		{"a ======", map[Feature]uint32{Word: 1, Marks: 1, MarksSpace: 1, Repeat: 5}},
		{"\n        return", map[Feature]uint32{Line: 1, Indent: 1, Word: 1}},
		{"\t\ta", map[Feature]uint32{Tabs: 1, Tab: 1, Word: 1}},
		{"a   b ", map[Feature]uint32{Word: 2, Gap: 1, Trailing: 1}},
		{"привет мир", map[Feature]uint32{Cyrillic: 2, CyrillicMore: 3}},
		{"日本語です。", map[Feature]uint32{Han: 3, HanRun: 1, Kana: 2, Wide: 1}},
		{"한국어", map[Feature]uint32{Hangul: 3, HangulRun: 1}},
		{"────→", map[Feature]uint32{Symbol: 2, Repeat: 3}},
		{"🙂", map[Feature]uint32{Emoji: 1}},
		{"\xff\xc3", map[Feature]uint32{Invalid: 2}},
	} {
		got := map[Feature]uint32{}
		for i, n := range Scan(tt.text) {
			if n > 0 {
				got[Feature(i)] = n
			}
		}
		require.Equal(t, tt.want, got, "Scan(%q)", tt.text)
	}
}

// The table of classes says what its constants say.
func TestClasses(t *testing.T) {
	for i, got := range classOf {
		b, want := byte(i), uint8(mark)
		switch {
		case 'a' <= b && b <= 'z':
			want = lower
		case 'A' <= b && b <= 'Z':
			want = upper
		case '0' <= b && b <= '9':
			want = digit
		case b == ' ':
			want = space
		case b == '\t':
			want = tab
		case b == '\n', b == '\r':
			want = newline
		case b >= utf8.RuneSelf:
			want = high
		}
		if strings.IndexByte("jkqwxzJKQWXZ", b) >= 0 {
			want |= rareLetter
		}
		require.Equal(t, want, got, "%q", b)
	}
}

// Each feature costs something, so that no text is free however long.
func TestWeights(t *testing.T) {
	for i, w := range weights {
		require.Positive(t, w, "feature %d", i)
	}
	sum := int64(0)
	var all Features
	for i := range all {
		all[i] = 1
		sum += int64(weights[i])
	}
	for _, n := range all.Count() {
		sum -= n
	}
	require.Zero(t, sum, "a feature is in no group, or in two")
}

// alphabets are the characters of random texts.
var alphabets = []string{
	"a", "aB", "abcdefgh XYZ", "0123456789", " ", "\n", " \t\n", "{}();=", "é", "ЖИвет ", "日本語かな。", "한국", "─→", "🙂", "\xff\xe1\xc3", "\r\n ", "\x00",
}

// scanBounds checks what must hold of any two texts.
func scanBounds(t *testing.T, a, b string) {
	t.Helper()
	// A concatenation changes only the pieces at the seam.
	const seam = 8000
	na, nb, n := total(a), total(b), total(a+b)
	require.InDelta(t, na+nb, n, seam, "Scan(%q + %q)", a, b)
	require.GreaterOrEqual(t, n+seam, max(na, nb))
	require.GreaterOrEqual(t, na, int64(0))
	// A text has no more tokens than a byte costs at most, and no less than long runs.
	require.LessOrEqual(t, n, int64(4000*len(a+b)))
	require.GreaterOrEqual(t, n+2000, int64(len(a+b)*8))
}

func TestScanBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		var b strings.Builder
		for range rng.IntN(6) {
			chars := alphabets[rng.IntN(len(alphabets))]
			for range rng.IntN(40) {
				i := rng.IntN(len(chars))
				b.WriteString(chars[i : i+1+rng.IntN(len(chars)-i)])
			}
		}
		return b.String()
	}
	for range 20_000 {
		scanBounds(t, random(), random())
	}
}

func FuzzScan(f *testing.F) {
	for i, s := range alphabets {
		f.Add(s, alphabets[len(alphabets)-1-i])
	}
	f.Add("getUser", "Name(1234567)\n")
	f.Fuzz(scanBounds)
}

// Twice the text has twice the tokens: no piece is read twice or skipped.
func TestScanIsLinear(t *testing.T) {
	for _, chars := range alphabets {
		once := total(strings.Repeat(chars, 32_000))
		require.InDelta(t, 2*once, total(strings.Repeat(chars, 64_000)), 8000, "%q", chars)
	}
}

func TestScanAllocates(t *testing.T) {
	text := strings.Repeat("func main() { return 日本語 }\n", 100)
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = Scan(text) }))
}

func BenchmarkScan(b *testing.B) {
	text := strings.Repeat("\tif err := json.Unmarshal(data, &list); err != nil {\n\t\treturn fmt.Errorf(\"decode %d: %w\", 1024, err)\n\t}\n", 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		_ = Scan(text)
	}
}
