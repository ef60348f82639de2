package line_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// press gives the keys of bytes to an editor. Between two sequences nothing comes, so that
// an ESC at the end of one is the key.
func press(e *line.Editor, sequences ...string) (events []line.Event) {
	for _, s := range sequences {
		var d tty.Decoder
		keys := d.Decode([]byte(s), time.Time{})
		for _, k := range append(keys, d.Flush(time.Time{})...) {
			if ev := e.Key(k); ev.Kind != line.None {
				events = append(events, ev)
			}
		}
	}
	return events
}

// shows returns the text on the screen, with | for the cursor.
func shows(e *line.Editor) string {
	v := e.View(80)
	row := v.Lines[v.Row]
	i, col := 0, 0
	for i < len(row) && col < v.Col {
		n, w := tty.Next(row[i:])
		i += n
		col += w
	}
	v.Lines = slices.Clone(v.Lines)
	v.Lines[v.Row] = row[:i] + "|" + row[i:]
	return strings.Join(v.Lines, "\n")
}

const (
	left, right, up, down = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
	home, end, del        = "\x1b[H", "\x1b[F", "\x1b[3~"
)

// The keys of Emacs and of GNU readline.
func TestEmacsKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		keys []string
		want string
	}{
		{"typing", []string{"aé漢👍"}, "aé漢👍|"},
		{"moving", []string{"abc", left, left, "x", right, "y", home, "<", end, ">"}, "<axbyc>|"},
		{"at the ends", []string{right, left, "a", right, right, "b"}, "ab|"},
		{"over combined characters", []string{"ae\u0301漢", left, "\x02", "x"}, "ax|e\u0301漢"},
		{"over an emoji of several", []string{"👩\u200d👩\u200d👧!", left, left, "<"}, "<|👩\u200d👩\u200d👧!"},
		{"deleting", []string{"abcd", "\x7f", home, del, right, "\x04"}, "b|"},
		{"deleting a combined character", []string{"ae\u0301", "\x7f"}, "a|"},
		{"words", []string{"one two-three", "\x1bb", "x", "\x1bb\x1bb", "y", "\x1bf", "z"}, "one ytwoz|-xthree"},
		{"ctrl and arrows", []string{"one two", "\x1b[1;5D", "x", "\x1b[1;5D\x1b[1;5D\x1b[1;5C", "y"}, "oney| xtwo"},
		{"kill to the end and yank", []string{"one two", "\x1bb", "\x0b", home, "\x19"}, "two|one "},
		{"kill to the begin", []string{"one two", "\x1bb", "\x15"}, "|two"},
		{"kills one after the other", []string{"one two three", "\x17", "\x17", "x", "\x19"}, "one xtwo three|"},
		{"kills forwards", []string{"one two three", home, "\x1bd\x1bd", end, "\x19"}, " threeone two|"},
		{"a kill after something else", []string{"one two", "\x17", home, "\x0b", "\x19"}, "one |"},
		{"words by spaces and by letters", []string{"a b-c d-e", "\x17", "\x7f", "\x1b\x7f"}, "a b-|"},
		{"yank the older one", []string{"one", "\x15", "two", "\x15", "three", "\x15", "\x19\x1by"}, "two|"},
		{"yank the oldest again", []string{"one", "\x15", "two", "\x15", "\x19\x1by\x1by"}, "two|"},
		{"alt-y alone", []string{"one", "\x15", "x", "\x1by"}, "x|"},
		{"transpose", []string{"abc", "\x14"}, "acb|"},
		{"transpose in the middle", []string{"abcd", left, left, "\x14"}, "acb|d"},
		{"transpose one character", []string{"a", "\x14"}, "a|"},
		{"transpose wide ones", []string{"漢e\u0301", "\x14"}, "e\u0301漢|"},
		{"undo words", []string{"one two", "\x1f"}, "one|"},
		{"undo a kill", []string{"one two", "\x15", "\x1f"}, "one two|"},
		{"undo everything", []string{"ab", "\x7f", "\x15", "\x1f\x1f\x1f\x1f\x1f"}, "|"},
		{"new lines", []string{"a", "\x1b\r", "b\n", "c\\\r", "d"}, "a\nb\nc\nd|"},
		{"a backslash in the middle", []string{"ab\\c", left, "\r"}, "ab\n|c"},
		{"up and down keep the column", []string{"long line\nx\nanother one", up, up, "|", down, down, "!"}, "long line|\nx\nanother on!|e"},
		{"begin and end of a line", []string{"ab\ncd\nef", up, home, "<", end, ">"}, "ab\n<cd>|\nef"},
		{"begin and end of the text", []string{"ab\ncd", "\x1b<", "<", "\x1b>", ">"}, "<ab\ncd>|"},
		{"kill a line feed", []string{"ab\ncd", up, end, "\x0b"}, "ab|cd"},
		{"kill back over a line feed", []string{"ab\ncd", home, "\x15"}, "ab|cd"},
		{"controls are visible", []string{"\x1b[200~a\x1b[31mb\tc\x1b[201~"}, "a␛[31mb    c|"},
		{"set aside and taken back", []string{"draft", "\x13", "other", "\r", "\x13", "!"}, "draft!|"},
		{"set aside, exchanged", []string{"one", "\x13", "two", "\x13"}, "one|"},
		{"a combining character joins", []string{"e\u0301", left, "a", right, "x"}, "ae\u0301x|"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := line.New(line.Options{})
			press(e, tt.keys...)
			if strings.Count(tt.want, "|") > 1 {
				require.Equal(t, strings.ReplaceAll(tt.want, "|", ""), strings.ReplaceAll(shows(e), "|", ""))
				return
			}
			require.Equal(t, tt.want, shows(e))
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	e := line.New(line.Options{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := func(k tty.Key, after time.Duration) line.Event {
		k.At = at.Add(after)
		return e.Key(k)
	}
	require.Equal(t, line.Event{Kind: line.EndOfInput}, key(tty.Key{Rune: 'd', Ctrl: true}, 0))
	key(tty.Key{Rune: 'a'}, time.Second)
	require.Equal(t, line.None, key(tty.Key{Rune: 'd', Ctrl: true}, time.Second).Kind)
	require.Equal(t, line.EditText, key(tty.Key{Rune: 'g', Ctrl: true}, 0).Kind)
	require.Equal(t, line.Unbound, key(tty.Key{Rune: 'c', Ctrl: true}, 0).Kind)
	require.Equal(t, line.Unbound, key(tty.Key{Name: tty.Esc}, 0).Kind)
	require.Equal(t, line.Unbound, key(tty.Key{Name: tty.Tab}, 0).Kind, "there is nothing to complete")
	require.False(t, e.Empty())
	require.Equal(t, line.Event{Kind: line.Submit, Text: "a", Began: at.Add(time.Second)}, key(tty.Key{Name: tty.Enter}, time.Minute))
	require.True(t, e.Empty())
	require.Equal(t, line.Event{Kind: line.Submit, Began: at.Add(time.Hour)}, key(tty.Key{Name: tty.Enter}, time.Hour))
	e.SetText("x\x1b\n")
	require.Equal(t, "x␛\n", e.Text())
	e.Clear()
	press(e, "\x1f")
	require.Equal(t, "x␛\n", e.Text())
}

func TestLargePaste(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\x1b\n", i)
	}
	paste := "\x1b[200~" + b.String() + "\x1b[201~"
	e := line.New(line.Options{Prompt: "> "})
	press(e, "see ", paste, " and ", "\x1b[200~"+strings.Repeat("é", 3000)+"\x1b[201~", "!")
	require.Equal(t, "> see [paste #1: 5,000 lines] and [paste #2: 3,000 characters]!|", shows(e))
	press(e, left, "\x7f")
	require.Equal(t, "> see [paste #1: 5,000 lines] and |!", shows(e), "it is one character")
	events := press(e, "\r")
	require.Equal(t, "see "+b.String()+" and !", events[0].Text)

	press(e, "x", paste, home, "<")
	require.Equal(t, "> <|x[paste #1: 5,000 lines]", shows(e), "the next text counts anew")
	press(e, end, "\x0f")
	require.Equal(t, "<x"+strings.ReplaceAll(b.String(), "\x1b", "␛"), e.Text())
	require.Len(t, e.View(80).Lines, 12)
	press(e, "\x1f")
	require.Equal(t, "> <x[paste #1: 5,000 lines]|", shows(e))

	press(e, "\x15", "\r") // killed, and taken back into the next text
	press(e, paste, "\x19")
	require.Equal(t, "> [paste #2: 5,000 lines]<x[paste #1: 5,000 lines]|", shows(e))
	require.Equal(t, b.String()+"<x"+b.String(), e.Text())

	e = line.New(line.Options{})
	press(e, "\x1b[200~a \U000f8000 b\x1b[201~")
	require.Equal(t, "a \ufffd b", e.Text(), "a marker in a paste is not a paste")
}

// The time of a motion does not grow with the square of a line without spaces.
func TestLongWideLine(t *testing.T) {
	timed.Serial(t)
	e := line.New(line.Options{})
	e.SetText("one\n" + strings.Repeat("漢", 20_000))
	start := time.Now()
	press(e, "\x17")
	timed.Within(t, start, time.Second, "deleting a word of 20,000 wide characters")
	require.Equal(t, "one\n", e.Text())
	press(e, "e\u0301漢", "\x17", "\x17")
	require.Empty(t, e.Text(), "a line feed is a space")
}

// The symbols of Nerd Fonts, whose last ones are the Material Design Icons from U+F0001 to U+F1AF0, are text.
func TestSymbolsOfFonts(t *testing.T) {
	t.Parallel()
	e := line.New(line.Options{})
	press(e, "\U000f02a2", "\x1b[200~\U000f1af0 \ue0b0\x1b[201~")
	require.Equal(t, "\U000f02a2\U000f1af0 \ue0b0", e.Text())
	e.SetText("\U000f0001 in an editor")
	require.Equal(t, "\U000f0001 in an editor", e.Text())
}

func TestView(t *testing.T) {
	t.Parallel()
	e := line.New(line.Options{Prompt: "> ", Rows: 4})
	press(e, "abcdefgh漢字")
	require.Equal(t, line.View{Lines: []string{"> abcdefgh", "  漢字"}, Row: 1, Col: 6}, e.View(10))
	require.Equal(t, line.View{Lines: []string{"> abcde", "  fgh漢", "  字"}, Row: 2, Col: 4}, e.View(7))
	press(e, "\n1\n2\n3", up, up)
	require.Equal(t, line.View{Lines: []string{"> abcdefgh漢", "  字", "  1", "  2"}, Row: 2, Col: 3}, e.View(12))
	e = line.New(line.Options{Prompt: "a wide prompt "})
	press(e, "漢é")
	require.Equal(t, line.View{Lines: []string{"漢", "é"}, Row: 1, Col: 1}, e.View(1))
	require.Equal(t, line.View{Lines: []string{"a …漢é", "   "}, Row: 1, Col: 3}, e.View(6))
	e = line.New(line.Options{Prompt: "> "})
	press(e, "\u17c50\n\u0301", up, "\x01")
	require.Equal(t, line.View{Lines: []string{"> ◌\u17c50", "  ◌\u0301"}, Row: 0, Col: 2}, e.View(12))
	e.SetText("\u304b\uff9e\u6f22\u0903")
	require.Equal(t, line.View{Lines: []string{"> \u304b\uff9e\u6f22\u0903"}, Row: 0, Col: 8}, e.View(12))
	require.Equal(t, line.View{Lines: []string{"> \u304b", "  ◌\uff9e", "  \u6f22", "  ◌\u0903", "  "}, Row: 4, Col: 2}, e.View(4))
}

func TestBindings(t *testing.T) {
	t.Parallel()
	e := line.New(line.Options{Bindings: map[string]string{
		"ctrl+x": "kill-line-start", "ctrl+u": "", "f2": "newline", "enter": "newline", "alt+enter": "submit", "é": "undo", "ctrl+k": "no-such-action",
	}})
	events := press(e, "ab\x15\r", "c\x1bOQd", "\x18\x1b\r")
	require.Equal(t, []line.Event{{Kind: line.Unbound}, {Kind: line.Submit, Text: "ab\nc\n"}}, events)
	press(e, "abé")
	require.Empty(t, e.Text())
	require.Equal(t, line.Unbound, press(e, "\x0b")[0].Kind)
	require.Equal(t, line.PlanMode, press(e, "\x1b[Z")[0].Kind)
	require.Contains(t, e.Actions(), "kill-line-start")
	for key, action := range map[string]string{"ctrl+w": "kill-space-left", "tab": "complete", "shift+tab": "plan-mode"} {
		require.Contains(t, e.Actions(), action, key)
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	var asked []string
	files := []line.Candidate{{Text: "@main.go", Note: "the program"}, {Text: "@main_test.go"}, {Text: "@my/domain.go"}, {Text: "@README.md"}}
	e := line.New(line.Options{Complete: func(text string, at int) (int, []line.Candidate) {
		asked = append(asked, text[:at])
		return strings.LastIndexByte(text[:at], ' ') + 1, files
	}})
	press(e, "see @main!", left, "\t")
	require.Equal(t, "see @main.go|!\n> @main.go       the program\n  @main_test.go\n  @my/domain.go", shows(e))
	press(e, "\t")
	require.Equal(t, "see @main_test.go|!", strings.Split(shows(e), "\n")[0])
	press(e, "\x1b[Z\x1b[Z")
	require.Equal(t, "see @my/domain.go|!", strings.Split(shows(e), "\n")[0])
	press(e, "\x1b")
	require.Equal(t, "see @main|!", shows(e))
	require.Equal(t, []string{"see @main"}, asked)
	press(e, "\t", "\r")
	require.Equal(t, "see @main.go|!", shows(e), "enter ends the menu only")
	press(e, "\x1f")
	require.Equal(t, "see @main|!", shows(e))
	press(e, "\t", "x")
	require.Equal(t, "see @main.gox|!", shows(e))
	press(e, "\x15", "@RDM\t")
	require.Equal(t, "@README.md|!", shows(e), "the only one")
	require.Empty(t, press(e, "\x15", "@zzz\t"))
}

func TestRank(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ query, better, worse string }{
		{"main", "main.go", "my/domain.go"},
		{"rf", "read_file", "surf"},
		{"rf", "readFile", "wharf"},
		{"edit", "edit.go", "credits/items.go"},
		{"a", "a", "a/long/path/of/many/parts"},
	} {
		b, ok := line.Match(tt.query, tt.better)
		require.True(t, ok)
		w, ok := line.Match(tt.query, tt.worse)
		require.True(t, ok)
		require.Greater(t, b, w, "%v", tt)
	}
	_, ok := line.Match("ba", "ab")
	require.False(t, ok)
	require.Equal(t, []line.Candidate{{Text: "b"}, {Text: "a"}}, line.Rank("", []line.Candidate{{Text: "b"}, {Text: "a"}}))
}

// Whatever keys come, the text is valid, the cursor is between two characters and in the
// view, no line is too wide, and what is submitted is what was shown.
func FuzzEditor(f *testing.F) {
	for _, s := range []string{
		"abc\x01\x0b\x19\x1by\x1f", "\x12a\x12\r", "e\u0301\x1b[D\x7f漢", "\x1b[200~a\nb\x1b[201~\x0f", "\t\t\x1b[Z\r",
		"\x1bd3wcwx\x1b.u2ddp", "one two\x1bbciwx\x1b$r漢~~u.", "a\\\rb\x1b[A\x1b[A\x1b[B\x13\x13", "\x1b0dtcfxyy3P\x1bggJ",
		"\u17c50\x01",
	} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(1))
	}
	long := strings.Repeat("x\n", 20)
	f.Fuzz(func(t *testing.T, keys []byte, flags uint8) {
		if len(keys) > 500 {
			t.Skip("the text is shown after each key")
		}
		h, err := line.LoadHistory("", "")
		require.NoError(t, err)
		for _, s := range []string{"first", "second\nline", "e\u0301", long} {
			require.NoError(t, h.Add(s))
		}
		e := line.New(line.Options{Vi: flags&1 != 0, History: h, Prompt: ">漢 ", Rows: 5, Complete: func(text string, at int) (int, []line.Candidate) {
			return max(0, at-int(flags>>4)), []line.Candidate{{Text: "cand\x1b"}, {Text: "other漢", Note: "n"}}
		}})
		var d tty.Decoder
		for _, b := range keys {
			for _, k := range append(d.Decode([]byte{b}, time.Time{}), flushed(&d, flags)...) {
				if k.Name == tty.Paste && k.Text == "large" {
					k.Text = long
				}
				before := e.Text()
				ev := e.Key(k)
				require.True(t, utf8.ValidString(e.Text()))
				if ev.Kind == line.Submit {
					require.Equal(t, before, ev.Text)
				}
				check(t, e, 2+int(flags>>1)%30)
			}
		}
	})
}

func flushed(d *tty.Decoder, flags uint8) []tty.Key {
	if flags&2 != 0 {
		return d.Flush(time.Time{})
	}
	return nil
}

func check(t *testing.T, e *line.Editor, width int) {
	t.Helper()
	v := e.View(width)
	require.Less(t, v.Row, len(v.Lines))
	require.GreaterOrEqual(t, v.Row, 0)
	require.Less(t, v.Col, width)
	require.GreaterOrEqual(t, v.Col, 0)
	require.LessOrEqual(t, len(v.Lines), 5+8)
	for _, l := range v.Lines {
		require.LessOrEqual(t, tty.Width(l), width, "%q", l)
		require.Equal(t, l, tty.Clean(l))
		require.NotContains(t, l, "\n")
	}
	col := 0
	for l := v.Lines[v.Row]; col < v.Col && l != ""; {
		n, w := tty.Next(l)
		col += w
		l = l[n:]
	}
	require.Equal(t, v.Col, col, "the cursor is between two characters: %q", v)
}
