package line_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

// viTests have the results of Vim 9.0, for text typed in insert mode, ESC, and the keys. The
// cursor is on the character behind the bar.
var viTests = []struct{ text, keys, want string }{
	{"one two", "x", "one t|w"},
	{"one two", "0x", "|ne two"},
	{"one two three", "0dw", "|two three"},
	{"one two three", "02dw", "|three"},
	{"one two three four", "02d1w", "|three four"},
	{"one two three", "0wdw", "one |three"},
	{"one two", "0wdw", "one| "},
	{"one two\nthree", "k0wdw", "one| \nthree"},
	{"one two\nthree", "k0wdW", "one| \nthree"},
	{"one two three", "0wcwx\x1b", "one |x three"},
	{"one two three", "0wcwx\x1bw.", "one x |x"},
	{"one two three", "ciwx\x1b", "one two |x"},
	{"one two three", "0wdaw", "one |three"},
	{"one two", "0wi-\x1b", "one |-two"},
	{"one two", "0ea-\x1b", "one|- two"},
	{"one two", "0A-\x1bI+\x1b", "|+one two-"},
	{"one two", "dd", "|"},
	{"one\ntwo\nthree", "kdd", "one\n|three"},
	{"one\ntwo\nthree", "dd", "one\n|two"},
	{"one\ntwo", "yyp", "one\ntwo\n|two"},
	{"one\ntwo", "yyP", "one\n|two\ntwo"},
	{"one\ntwo\nthree", "kkyjG", "one\ntwo\n|three"},
	{"one\ntwo\nthree", "kkdj", "|three"},
	{"one\ntwo", "kccx\x1b", "|x\ntwo"},
	{"one two", "0D", "|"},
	{"one two", "0wD", "one| "},
	{"one two", "0wCx\x1b", "one |x"},
	{"abc", "0xp", "b|ac"},
	{"abc", "0xP", "|abc"},
	{"abc", "0x3p", "baa|ac"},
	{"one two", "0ywP", "one| one two"},
	{"one two", "u", "|"},
	{"one two", "0dwu", "|one two"},
	{"one two three", "0dwdwuu", "|one two three"},
	{"one two three", "0dw.", "|three"},
	{"abcdef", "0x3.", "|ef"},
	{"a.b c-d", "0w", "a|.b c-d"},
	{"a.b c-d", "0W", "a.b |c-d"},
	{"a.b c-d", "0E", "a.|b c-d"},
	{"a.b c-d", "B", "a.b |c-d"},
	{"a.b c-d", "bb", "a.b |c-d"},
	{"one two three", "0fw", "one t|wo three"},
	{"one two three", "0te", "o|ne two three"},
	{"one two three", "Ft", "one two |three"},
	{"one two three", "0f ;", "one two| three"},
	{"one two three", "0f ;,", "one| two three"},
	{"one two three", "0dfo", "| three"},
	{"one two three", "0wdt ", "one | three"},
	{"one two three", "0d$", "|"},
	{"one two", "d0", "|o"},
	{"one two", "db", "one |o"},
	{"abc", "0rx", "|xbc"},
	{"abc", "02rx", "x|xc"},
	{"aBc", "0~~~", "Ab|C"},
	{"abc", "0sx\x1b", "|xbc"},
	{"a\nb", "kJ", "a| b"},
	{"a\nb", "kox\x1b", "a\n|x\nb"},
	{"a\nb", "Ox\x1b", "a\n|x\nb"},
	{"f(a, b)", "hci(x\x1b", "f(|x)"},
	{"f(a, b)", "hda(", "|f"},
	{`say "hi" x`, `Fhci"no` + "\x1b", `say "n|o" x`},
	{"  indented", "^x", "  |ndented"},
	{"漢字e\u0301", "x", "漢|字"},
	{"漢字x", "0x", "|字x"},
	{"abc", "0dlx", "|c"},
	{"abc", "0dzx", "|bc"},
	{"abc", "03\x1bx", "|bc"},
}

func TestViKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range viTests {
		t.Run(tt.text+" "+tt.keys, func(t *testing.T) {
			e := line.New(line.Options{Vi: true})
			press(e, strings.ReplaceAll(tt.text, "\n", "\x1b\r"), "\x1b")
			// An ESC ends a sequence, as nobody types on within 50 ms.
			press(e, strings.SplitAfter(tt.keys, "\x1b")...)
			require.Equal(t, tt.want, shows(e))
		})
	}
}

// The table is true: Vim does the same.
func TestViKeysInVim(t *testing.T) {
	t.Parallel()
	vim, err := exec.LookPath("vim")
	if err != nil {
		t.Skip("vim is not installed")
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	var script strings.Builder
	script.WriteString("set encoding=utf-8 nofixendofline\n")
	for _, tt := range viTests {
		keys := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\x1b", `\<Esc>`, "\n", `\<CR>`).Replace("i" + tt.text + "\x1b" + tt.keys)
		fmt.Fprintf(&script, "enew!\nexe \"normal! %s\"\n", keys)
		fmt.Fprintf(&script, "call setline('.', strpart(getline('.'), 0, col('.') - 1) . '|' . strpart(getline('.'), col('.') - 1))\n")
		fmt.Fprintf(&script, "call writefile([join(getline(1, '$'), '~n')], '%s', 'a')\n", out)
	}
	script.WriteString("qa!\n")
	name := filepath.Join(dir, "script.vim")
	require.NoError(t, os.WriteFile(name, []byte(script.String()), 0o600))
	cmd := exec.Command(vim, "-u", "NONE", "-N", "-X", "-n", "-es", "-S", name)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=dumb")
	output, _ := cmd.CombinedOutput()
	data, err := os.ReadFile(out)
	require.NoError(t, err, string(output))
	got := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Len(t, got, len(viTests))
	for i, tt := range viTests {
		if strings.Contains(tt.keys, "u") || strings.Contains(tt.keys, "z") {
			continue // a script is undone as a whole, and ends at an unknown command
		}
		if text := strings.ReplaceAll(got[i], "~n", "\n"); text != tt.want {
			t.Errorf("%q %q is %q in Vim, want %q", tt.text, tt.keys, text, tt.want)
		}
	}
}

func TestViEvents(t *testing.T) {
	t.Parallel()
	e := line.New(line.Options{Vi: true})
	press(e, "abc", "\x1b")
	require.Equal(t, line.Unbound, press(e, "\x1b")[0].Kind)
	require.Equal(t, line.Unbound, e.Key(tty.Key{Rune: 'c', Ctrl: true, At: time.Time{}}).Kind)
	require.Equal(t, []line.Event{{Kind: line.Submit, Text: "abc"}}, press(e, "\r"))
	press(e, "x")
	require.Equal(t, "x", e.Text(), "a new text begins in insert mode")

	press(e, "\x1b", "A y")
	require.Equal(t, []line.Event{{Kind: line.Submit, Text: "x y"}}, press(e, "\r"))
	require.Empty(t, press(e, "\x1b[200~three\x1b[201~", "\x1b", "."))
	require.Equal(t, "three", e.Text(), "a change that was sent is not done again")
	press(e, "dd", "ione", "\x1b", "A\n", "\x1b", ".")
	require.Equal(t, "one\n\n", e.Text())
}
