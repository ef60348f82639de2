package tty_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// names returns the keys of bytes that come in these reads, with nothing after them.
func names(reads ...string) string {
	var d tty.Decoder
	var out []string
	add := func(keys []tty.Key) {
		for _, k := range keys {
			if k.Name == tty.Paste {
				out = append(out, "paste("+k.Text+")")
				continue
			}
			out = append(out, k.String())
		}
	}
	for _, r := range reads {
		add(d.Decode([]byte(r), time.Time{}))
	}
	add(d.Flush(time.Time{}))
	return strings.Join(out, " ")
}

// The sequences are those of xterm's ctlseqs, of the kitty keyboard protocol, of the Linux
// console and of rxvt.
func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, bytes, want string }{
		{"letters", "aÉ漢👍", "a É 漢 👍"},
		{"controls", "\x01\x17\r\n\t\x7f\x08\x00\x1c\x1f", `ctrl+a ctrl+w enter ctrl+j tab backspace ctrl+h ctrl+space ctrl+\ ctrl+_`},
		{"space", " ", "space"},
		{"a lone escape", "\x1b", "esc"},
		{"two escapes", "\x1b\x1b", "esc esc"},
		{"escape and text in one read", "\x1bb\x1b\x7f\x1b\r\x1b\xc3\xa9", "alt+b alt+backspace alt+enter alt+é"},
		{"alt and keys that begin sequences", "\x1b[", "alt+["},
		{"alt O", "\x1bO", "alt+O"},
		{"alt ]", "\x1b]", "alt+]"},
		{"alt P and text", "\x1bPa", "alt+P a"},
		{"arrows", "\x1b[A\x1b[B\x1bOC\x1bOD", "up down right left"},
		{"xterm modifiers", "\x1b[1;5D\x1b[1;3C\x1b[1;2A\x1b[1;8B", "ctrl+left alt+right shift+up ctrl+alt+shift+down"},
		{"modifiers of SS3", "\x1bO5D", "ctrl+left"},
		{"tilde keys", "\x1b[1~\x1b[2~\x1b[3~\x1b[4~\x1b[5~\x1b[6~\x1b[3;5~", "home insert delete end pageup pagedown ctrl+delete"},
		{"home and end", "\x1b[H\x1b[F\x1bOH\x1bOF\x1b[7~\x1b[8~", "home end home end home end"},
		{"function keys", "\x1bOP\x1b[15~\x1b[24~\x1b[1;2P\x1b[[A\x1b[[E", "f1 f5 f12 shift+f1 f1 f5"},
		{"keypad", "\x1bOj\x1bOp\x1bOM", "* 0 enter"},
		{"back tab", "\x1b[Z", "shift+tab"},
		{"kitty", "\x1b[97;5u\x1b[13;2u\x1b[27u\x1b[97:65;2u\x1b[121u", "ctrl+a shift+enter esc A y"},
		{"kitty releases a key", "\x1b[97;1:3u", ""},
		{"kitty with locks", "\x1b[1;129A", "up"},
		{"kitty super", "\x1b[97;9u", ""},
		{"modifyOtherKeys", "\x1b[27;5;13~\x1b[27;6;65~", "ctrl+enter ctrl+A"},
		{"escape before a sequence", "\x1b\x1b[A\x1b\x1bOB", "alt+up alt+down"},
		{"unknown sequences", "a\x1b[?1;2cb\x1b[5;7Rc\x1b[>0;1;2cd\x1b[99~e\x1bOZf", "a b c d e f"},
		{"too long for a key", "a\x1b[" + strings.Repeat("1;", 200) + "Ab", "a b"},
		{"interrupted", "\x1b[1;\x1b[A\x1b[2\x01", "up ctrl+a"},
		{"mouse", "\x1b[M !!a\x1b[<0;1;1Mb\x1b[<0;1;1mc\x1b[32;1;1Md", "a b c d"},
		{"focus", "\x1b[Ia\x1b[O", "a"},
		{"answers of the terminal", "\x1b]11;rgb:0/0/0\x07a\x1b]11;x\x1b\\b\x1bP1$r0m\x1b\\c\x1b_Gi=1;OK\x1b\\d", "a b c d"},
		{"bytes that are not UTF-8", "\xffa\xc3(\xe2\x82", "� a � ( � �"},
		{"a C1 control", "\u009b", "�"},
		{"a paste", "\x1b[200~a\r\nb\rc\nd\x1b[Ay\x03\x1b[201~e", "paste(a\nb\nc\nd\x1b[Ay\x03) e"},
		{"an empty paste", "\x1b[200~\x1b[201~", "paste()"},
		{"a paste that has not ended", "\x1b[200~y\r", ""},
		{"a paste behind escape", "\x1b\x1b[200~y\x1b[201~", "esc paste(y)"},
		{"the end of a paste alone", "\x1b[201~a", "a"},
		{"two pastes", "\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~", "paste(a) paste(b)"},
		{"a paste with an end in it", "\x1b[200~a\x1b[201~\r!b\r\x1b[201~c", "paste(a) paste(\n!b\n) c"},
		{"a paste with other ends in it", "\x1b[200~a\x1b[201~\rb\x1b[200~c\x1b[201~\x1b[201~d", "paste(a) paste(\nb\x1b[200~c) paste() d"},
		{"a paste that is not UTF-8", "\x1b[200~\xff\x1b[201~", "paste(�)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, names(tt.bytes))
			require.Equal(t, tt.want, names(strings.SplitAfter(tt.bytes, "")...))
			var single []string
			for i := range len(tt.bytes) {
				single = append(single, tt.bytes[i:i+1])
			}
			require.Equal(t, tt.want, names(single...))
		})
	}
}

func TestDecodeLines(t *testing.T) {
	t.Parallel()
	d := tty.Decoder{Lines: true}
	require.Equal(t, []tty.Key{{Rune: 'a', Read: 2}, {Name: tty.Enter, Read: 2}}, d.Decode([]byte("a\n"), time.Time{}))
}

func TestDecodeTellsTheRead(t *testing.T) {
	t.Parallel()
	var d tty.Decoder
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, []tty.Key{{Rune: 'y', At: at, Read: 1}}, d.Decode([]byte("y"), at))
	require.Equal(t, []tty.Key{{Rune: 'y', At: at, Read: 2}, {Name: tty.Enter, At: at, Read: 2}}, d.Decode([]byte("y\r"), at))
	require.Empty(t, d.Decode([]byte("\xc3"), at))
	require.Equal(t, []tty.Key{{Rune: 'é', At: at.Add(1), Read: 1}}, d.Decode([]byte("\xa9"), at.Add(1)))
}

// A large paste is kept up to the limit, in whole runes, and its end is found.
func TestDecodeLargePaste(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	const piece = "aé漢" // 6 bytes, which do not divide the limit
	n := tty.MaxPaste/len(piece) + 1000
	for _, size := range []int{1 << 10, 4095, 1 << 20} {
		var d tty.Decoder
		var keys []tty.Key
		all := "\x1b[200~" + strings.Repeat(piece, n) + "\x1b[201~x"
		for len(all) > 0 {
			part := all[:min(size, len(all))]
			keys = append(keys, d.Decode([]byte(part), time.Time{})...)
			all = all[len(part):]
		}
		keys = append(keys, d.Flush(time.Time{})...)
		require.Len(t, keys, 2)
		require.LessOrEqual(t, len(keys[0].Text), tty.MaxPaste)
		require.Greater(t, len(keys[0].Text), tty.MaxPaste-4)
		require.True(t, strings.HasPrefix(strings.Repeat(piece, n), keys[0].Text))
		require.Equal(t, n*len(piece), len(keys[0].Text)+keys[0].Dropped)
		require.Equal(t, 'x', keys[1].Rune)
	}
}

func TestDecodeEnd(t *testing.T) {
	t.Parallel()
	var d tty.Decoder
	require.Empty(t, d.Decode([]byte("\x1b[200~half\x1b[20"), time.Time{}))
	require.Empty(t, d.Flush(time.Time{}))
	require.Equal(t, []tty.Key{{Name: tty.Paste, Text: "half\x1b[20"}}, d.End(time.Time{}))
}

// The keys do not depend on the reads, memory is bounded, and a paste has no keys.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"a\x1b[1;5A\x1b\x1b[B\x1bOP", "\x1b[200~x\x1b[201~y", "\x1b]11;a\x1b[A", "\x1b[M\x1b[A", "\xe2\x82", "\x1b[[\x1b[", "\x1b\x1b[200~", "\x1bP1\x1b",
	} {
		f.Add([]byte(s), uint64(0x12345))
	}
	f.Fuzz(func(t *testing.T, data []byte, splits uint64) {
		decode := func(next func() int) (keys []tty.Key) {
			var d tty.Decoder
			for rest := data; len(rest) > 0; {
				n := min(next(), len(rest))
				keys = append(keys, d.Decode(rest[:n], time.Time{})...)
				rest = rest[n:]
			}
			keys = append(keys, d.End(time.Time{})...)
			for i := range keys {
				keys[i].Read = 0
			}
			return keys
		}
		want := decode(func() int { return len(data) })
		require.Equal(t, want, decode(func() int { return 1 }))
		require.Equal(t, want, decode(func() int {
			splits = splits*6364136223846793005 + 1442695040888963407
			return 1 + int(splits>>61)
		}))

		if text := string(data); !strings.Contains(text+"\x1b[201~", "\x1b[201~\x1b[201~") && !strings.Contains(text, "\x1b[201~") {
			var d tty.Decoder
			keys := d.Decode([]byte("\x1b[200~"+text+"\x1b[201~"), time.Time{})
			require.Equal(t, tty.Paste, keys[0].Name)
			if !strings.ContainsAny(text, "\x1b[") {
				require.Len(t, keys, 1)
			}
		}
	})
}

// The beginning of Alt and an arrow, on a line that stalls, is not the key Esc, which stops something.
func TestUndecidedAltKeys(t *testing.T) {
	for text, want := range map[string]string{"\x1b\x1b[1": "[]", "\x1b\x1b[1;": "[]", "\x1b\x1b[": "[alt+[]", "\x1b\x1bO": "[alt+O]",
		"\x1b\x1b\x1b[1": "[esc]", "\x1b\x1b": "[esc esc]", "\x1b\x1ba": "[esc alt+a]"} {
		var d tty.Decoder
		keys := append(d.Decode([]byte(text), time.Time{}), d.Flush(time.Time{})...)
		require.Equal(t, want, fmt.Sprint(keys), "%q", text)
	}
}

// Lines that come at once are a paste, also without brackets. Keys that a user can have pressed are not.
func TestPasteWithoutBrackets(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		lines bool
		reads []string
		want  string
	}{
		{"lines", false, []string{"one\rtwo\rthree"}, "paste(one|two|three)"},
		{"with an end each", false, []string{"one\r\ntwo\r\n"}, "paste(one|two|)"},
		{"an empty line between", false, []string{"one\r\rtwo"}, "paste(one||two)"},
		{"tabs", false, []string{"if\r\tx\ry"}, "paste(if|\tx|y)"},
		{"in pieces, one of which ends in a character and one at an end", false, []string{"\xc3", "\xa4\rb\rc\xc3", "\xa4d", "e\r"}, "paste(ä|b|cäde|)"},
		{"its last byte alone", false, []string{strings.Repeat("a\r", 3), "\r"}, "paste(a|a|a||)"},
		{"one byte in the middle", false, []string{"a\rb\r", "x", "y\rz"}, "paste(a|b|xy|z)"},
		{"a form feed behind it", false, []string{"a\rb\r", "x\fy\rz\r"}, "paste(a|b|x\fy|z|)"},
		{"ctrl+c behind it", false, []string{"a\rb\r", "c\x03"}, "paste(a|b|c) ctrl+c"},
		{"a sequence behind it", false, []string{"a\rb\rc", "\x1b[A"}, "paste(a|b|c) up"},
		{"what was being typed before", false, []string{"x", "a\rb\r"}, "x paste(a|b|)"},
		{"two lines", false, []string{"fix it\rand go on"}, "paste(fix it|and go on)"},
		{"two lines, written one by one", false, []string{"fix it\r", "and go on"}, "paste(fix it|and go on)"},
		{"two lines, the end in a write of its own", false, []string{"fix", "\r", "and go on"}, "f i x paste(|and go on)"},
		{"two lines behind others", false, []string{"fix it now", "\rab"}, "f i x space i t space n o w paste(|ab)"},
		{"two lines with a last end", false, []string{"fix it\r", "go on\r"}, "paste(fix it|go on|)"},
		{"a line, and another one later", false, []string{"/clear\r", "", "go on\r"}, "/ c l e a r enter g o space o n enter"},
		{"a line, and keys that are no text", false, []string{"go on\r", "\x15"}, "g o space o n enter ctrl+u"},
		{"a line, and a key", false, []string{"fix it\r", "\x1b[A"}, "f i x space i t enter up"},
		{"a line", false, []string{"ab\r"}, "a b enter"},
		{"a half character at the end", false, []string{"a\rb\xc3"}, "a enter b \ufffd"},
		{"a line and the begin of the next one", false, []string{"a\rb"}, "a enter b"},
		{"an end in two characters", false, []string{"a\r\n"}, "a enter ctrl+j"},
		{"enter several times", false, []string{"a\r\r\r"}, "a enter enter enter"},
		{"keys that are no text", false, []string{"a\rb\r\x03"}, "a enter b enter ctrl+c"},
		{"with brackets", false, []string{"\x1b[200~a\rb\r", "c\rd\x1b[201~"}, "paste(a|b|c|d)"},
		{"behind escape", false, []string{"\x1b", "a\rb\rc"}, "alt+a enter b enter c"},
		{"a terminal that delivers lines", true, []string{"a\nb\n"}, "a enter b enter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := tty.Decoder{Lines: tt.lines}
			var keys []tty.Key
			at := start
			for _, r := range tt.reads {
				if at = at.Add(time.Millisecond); r != "" { // else nothing comes for a while
					keys = append(keys, d.Read([]byte(r), at)...)
				}
			}
			var got []string
			for _, k := range append(keys, d.End(start.Add(time.Second))...) {
				if got = append(got, k.String()); k.Name == tty.Paste {
					got[len(got)-1] = "paste(" + strings.ReplaceAll(k.Text, "\n", "|") + ")"
				}
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}
