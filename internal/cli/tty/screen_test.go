package tty_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/timed"
)

// sample returns how often a slow test with one goroutine runs.
func sample(t testing.TB, n int) int {
	t.Helper()
	if timed.Reduced(t) {
		return n / 10
	}
	return n
}

// A recorder counts writes to an emulated screen.
type recorder struct {
	*ttytest.Emulator
	writes []time.Time
	raw    strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, time.Now())
	r.raw.Write(p)
	return r.Emulator.Write(p)
}

func env(vars ...string) tty.Options {
	return tty.Options{Getenv: func(name string) string {
		for _, v := range vars {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}}
}

func newScreen(cols, rows int, vars ...string) (*tty.Screen, *recorder) {
	r := &recorder{Emulator: ttytest.NewEmulator(cols, rows)}
	s := tty.New(r, func() (int, int) { return cols, rows }, env(append(vars, "TERM=xterm")...))
	return s, r
}

var words = strings.Fields("the quick brown fox 漢字 jumps over e\u0301tudes 👩\u200d👩\u200d👧 lazy_dogs_without_any_end_of_the_word ｶﾅ ü ● \x1b[1mbold\x1b[0m \x1b[31;4mred \x1b[m")

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(20) {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteString([]string{" ", " ", " ", "\n", "\t", "", "\n\n"}[r.IntN(7)])
	}
	return b.String()
}

// pieces cuts text between clusters, where terminals agree about widths.
func pieces(r *rand.Rand, text string) (out []string) {
	for text != "" {
		n := 0
		for range 1 + r.IntN(9) {
			size, _ := tty.Next(text[n:])
			n += size
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// Text is on the screen as if it had been written in one piece without a status area,
// whatever the area was in between.
func TestPrintAroundTheArea(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for round := range sample(t, 400) {
			cols, rows := 2+r.IntN(40), 3+r.IntN(10)
			s, e := newScreen(cols, rows)
			var all strings.Builder
			for range 1 + r.IntN(6) {
				text := randomText(r)
				all.WriteString(text)
				for _, p := range pieces(r, text) {
					s.Print(p)
					if r.IntN(3) == 0 {
						time.Sleep(20 * time.Millisecond)
					}
					if r.IntN(3) == 0 {
						s.Status(randomArea(r, cols))
					}
				}
			}
			require.NoError(t, s.Close())
			want := ttytest.NewEmulator(cols, rows)
			_, _ = io.WriteString(want, rawText(all.String()))
			require.Equal(t, want.Text(), e.Text(), "round %d: %d × %d: %q\nraw %q", round, cols, rows, all.String(), e.raw.String())
			require.Empty(t, e.Unknown)
		}
	})
}

func randomArea(r *rand.Rand, cols int) ([]string, tty.Cursor) {
	lines := make([]string, r.IntN(4))
	for i := range lines {
		lines[i] = strings.Repeat("#漢"[:1+3*r.IntN(2)], r.IntN(cols+3))
	}
	return lines, tty.Cursor{Row: r.IntN(5) - 1, Col: r.IntN(cols)}
}

// rawText is text as a terminal needs it, with tabs as spaces.
func rawText(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteString("\r\n")
		}
		for j, part := range strings.Split(line, "\t") {
			if j > 0 {
				before := tty.Width(strings.ReplaceAll(b.String()[strings.LastIndexByte(b.String(), '\n')+1:], "\r", ""))
				b.WriteString(strings.Repeat(" ", 8-before%8))
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

func TestArea(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 6)
		s.Print("text\nhalf a line")
		s.Status([]string{"working", "> typed\x1b[A", "tall\nline"}, tty.Cursor{Row: 1, Col: 7})
		require.NoError(t, s.Flush())
		require.Equal(t, []string{"text", "working", "> typed␛[A", "tall line", "", ""}, e.Lines())
		row, col := e.Cursor()
		require.Equal(t, []int{2, 7}, []int{row, col})

		s.Print(" goes on\n")
		s.Status([]string{strings.Repeat("x", 30)}, tty.NoCursor)
		require.NoError(t, s.Flush())
		require.Equal(t, []string{"text", "half a line goes on", strings.Repeat("x", 19) + "…", "", "", ""}, e.Lines())
		require.False(t, e.Modes["25"])

		n := len(e.writes)
		s.Status([]string{strings.Repeat("x", 30)}, tty.NoCursor)
		require.NoError(t, s.Flush())
		require.Len(t, e.writes, n, "nothing has changed")

		s.Status([]string{"0", "1", "2", "3", "4", "5", "6", "7"}, tty.Cursor{Row: 1})
		require.NoError(t, s.Flush())
		require.Equal(t, "1 2 3 4 5", strings.Join(e.Lines()[1:], " "))
		row, _ = e.Cursor()
		require.Equal(t, 1, row)

		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		s.Print("too late")
		s.Status([]string{"too late"}, tty.NoCursor)
		time.Sleep(time.Second)
		require.Equal(t, "text\nhalf a line goes on", e.Text())
		require.True(t, e.Modes["25"])
	})
}

// An area on the first row leaves nothing in the scrollback of tmux, which keeps what is
// erased from the first cell on.
func TestAreaOnTheFirstRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 6)
		for i := range 5 {
			s.Status([]string{fmt.Sprint("working ", i), "> "}, tty.Cursor{Row: i % 2})
			require.NoError(t, s.Flush())
			require.Equal(t, fmt.Sprintf("working %d\n>", i), e.Text())
		}
		require.NoError(t, s.Close())
		require.Empty(t, e.Text())
	})
}

// While the terminal is lent, text waits and nothing is painted. A Close meanwhile is final.
func TestLendWithoutTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 6)
		s.Print("half a line") // which ends here
		s.Status([]string{"area"}, tty.NoCursor)
		require.ErrorIs(t, s.Lend(func() error {
			require.Equal(t, "half a line", e.Text())
			require.True(t, e.Modes["25"])
			s.Print("meanwhile\n")
			time.Sleep(time.Second)
			require.Equal(t, "half a line", e.Text())
			return io.ErrUnexpectedEOF
		}), io.ErrUnexpectedEOF)
		require.Equal(t, "half a line\nmeanwhile\narea", e.Text())
		require.NotEmpty(t, s.Resized())
		require.NoError(t, s.Lend(s.Close))
		require.Equal(t, "half a line\nmeanwhile", e.Text())
		require.Error(t, s.Lend(func() error { return nil }))
	})
}

// A panic closes the screen, also while the terminal is lent.
func TestCloseByPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 6)
		s.Print("text")
		s.Status([]string{"area"}, tty.NoCursor)
		require.PanicsWithValue(t, "as asked", func() {
			defer s.Close()
			_ = s.Lend(func() error { panic("as asked") })
		})
		require.Equal(t, "text", e.Text())
		require.True(t, e.Modes["25"])
		s.Print("too late")
		require.NoError(t, s.Flush())
		require.Equal(t, "text", e.Text())
	})
}

func TestDrawnCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 6)
		for _, col := range []int{0, 2, 3, 5, 7} {
			s.Status([]string{"busy", "a漢b\x1b[1mc\x1b[0m"}, tty.Cursor{Row: 1, Col: col, Drawn: true})
			require.NoError(t, s.Flush())
			require.Equal(t, "busy\na漢bc", e.Text())
			for i := range 8 {
				want := i == col && i != 2 || i == 1 && col == 2 // a wide character as a whole
				require.Equal(t, want, strings.HasSuffix(";"+e.Style(1, i), ";7"), "%d at %d", col, i)
			}
			row, x := e.Cursor()
			require.Equal(t, []int{0, 0}, []int{row, x})
			require.False(t, e.Modes["25"])
		}
	})
}

// With a drawn cursor, frames that the terminal gets after a resize that the program has not
// heard of leave nothing, and lose nothing.
func TestResizeOvertakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for range sample(t, 50) {
			cols, rows := 80, 60
			e := &recorder{Emulator: ttytest.NewEmulator(cols, rows)}
			s := tty.New(e, func() (int, int) { return cols, rows }, env("TERM=xterm"))
			var want strings.Builder
			for i := range 40 {
				text := fmt.Sprintf("line %d %s", i, strings.Repeat("some words ", r.IntN(6)))
				want.WriteString(text)
				for _, p := range pieces(r, text) {
					s.Print(p)
					lines, at := randomArea(r, cols)
					at.Drawn = true
					s.Status(lines, at)
					require.NoError(t, s.Flush())
					if r.IntN(8) == 0 {
						if r.IntN(2) == 0 {
							cols, _ = e.Size() // only now the program hears of the last one
						}
						e.Resize(40+r.IntN(100), rows)
					}
				}
				s.Print("\n")
			}
			require.NoError(t, s.Close())
			require.Equal(t, strings.Join(strings.Fields(want.String()), ""), strings.Join(strings.Fields(e.Text()), ""))
		}
	})
}

// A style ends with its line, and is not in the area.
func TestStyleAroundTheArea(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 5)
		s.Print("\x1b[1m\x1b[31mred\nplain \x1b[31mred\x1b[0m x")
		s.Status([]string{"area"}, tty.NoCursor)
		require.NoError(t, s.Flush())
		require.Equal(t, []string{"red", "area"}, e.Lines()[:2])
		require.Equal(t, "1;31", e.Style(0, 0))
		require.Empty(t, e.Style(1, 0))
		s.Print(" y\n")
		require.NoError(t, s.Flush())
		require.Equal(t, "plain red x y", e.Lines()[1])
		require.Empty(t, e.Style(1, 0))
		require.Equal(t, "31", e.Style(1, 6))
		require.Empty(t, e.Style(1, 10))
	})
}

// While text streams, there are at most 60 writes a second, and nothing waits for longer
// than a frame.
func TestWritesPerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(80, 24)
		start := time.Now()
		for i := range sample(t, 10_000) {
			s.Print("a few letters and ")
			s.Status([]string{fmt.Sprint("spinner ", i)}, tty.NoCursor)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second / 60)
		synctest.Wait()
		require.Contains(t, e.Text(), fmt.Sprint("spinner ", sample(t, 10_000)-1))
		seconds := time.Since(start).Seconds()
		require.LessOrEqual(t, float64(len(e.writes)), 60*seconds+1)
		require.GreaterOrEqual(t, float64(len(e.writes)), 55*seconds)
		require.NoError(t, s.Close())
	})
}

// Foreign sequences are shown, not obeyed. A rune or a sequence in two pieces is whole.
func TestPrintForeignText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(60, 5)
		for _, text := range []string{"\x1b]0;title\a\x1b[2J\x1b[5A\r\u009b1mx\u202e ", "h\xc3", "\xa4 \x1b[3", "1mred\x1b[0", "m \xff!\n"} {
			s.Print(text)
			require.NoError(t, s.Flush())
		}
		require.Equal(t, "␛]0;title␇␛[2J␛[5A<009b>1mx<202e> hä red �!", e.Text())
		require.Equal(t, "31", e.Style(0, strings.Index("␛]0;title␇␛[2J␛[5A<009b>1mx<202e> hä red", "red")-4*2-1))
		require.Empty(t, e.Title)
		require.Empty(t, e.Unknown)
		s.Print("\xe2\x82")
		require.NoError(t, s.Close())
		require.True(t, strings.HasSuffix(e.Text(), "!\n��"), e.Text())
	})
}

func TestPlainScreens(t *testing.T) {
	t.Parallel()
	for _, o := range []tty.Options{env("TERM=dumb"), env("TERM="), {Plain: true, Getenv: env("TERM=xterm").Getenv}} {
		synctest.Test(t, func(t *testing.T) {
			var b strings.Builder
			s := tty.New(&b, func() (int, int) { return 20, 5 }, o)
			for _, text := range []string{"one \x1b[31mred\x1b[0m h\xc3", "\xa4\n\ttwo\x07\xe2\x82"} {
				s.Print(text)
				require.NoError(t, s.Flush())
			}
			s.Status([]string{"area"}, tty.Cursor{})
			s.Title("title")
			s.Bell()
			s.Notify("note")
			require.False(t, s.Copy("text"))
			require.NoError(t, s.Close())
			require.Equal(t, "one red hä\n        two␇��\n", b.String())
			require.Equal(t, "*", s.Glyph("●", "*"))
			require.False(t, s.Fancy() || s.Color())
		})
	}
}

func TestNoColor(t *testing.T) {
	t.Parallel()
	s, _ := newScreen(20, 5, "NO_COLOR=1")
	require.True(t, s.Fancy())
	require.False(t, s.Color())
	s, _ = newScreen(20, 5)
	require.True(t, s.Color())
	require.Equal(t, "●", s.Glyph("●", "*"))
}

func TestHelpers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(20, 5)
		s.Title("a\x1b]\a\nb")
		s.Bell()
		s.Notify("4;1;\x1b\\done")
		require.True(t, s.Copy("clip\x1b"))
		require.False(t, s.Copy(strings.Repeat("x", 100<<10)))
		require.Equal(t, "a␛]␇ b", e.Title)
		require.Equal(t, 1, e.Bells)
		require.Equal(t, []string{"\x1b[22;0t", "\x1b]9; 4;1;␛\\done", "\x1b]52;c;Y2xpcBs="}, e.Unknown)
		require.NoError(t, s.Close())
		require.Equal(t, "\x1b[23;0t", e.Unknown[3])
		require.Empty(t, e.Text())
	})
}

// Resizes at any moment lose no text and leave nothing of the area, in terminals that wrap
// lines again and in those that cut them.
func TestResize(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string][]string{"wraps": nil, "cuts": {"XTERM_VERSION=XTerm(1)"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 4))
				for range sample(t, 50) {
					resizeOnce(t, r, vars, func() { time.Sleep(20 * time.Millisecond) })
				}
			})
		})
	}
}

func resizeOnce(t *testing.T, r *rand.Rand, vars []string, wait func()) {
	t.Helper()
	size := func() int { return []int{40, 60, 80, 200, 20 + r.IntN(100)}[r.IntN(5)] }
	cols, rows := size(), 24+r.IntN(20) // the area always fits
	e := &recorder{Emulator: ttytest.NewEmulator(cols, rows)}
	e.Reflow = vars == nil
	s := tty.New(e, func() (int, int) { return cols, rows }, env(append(vars, "TERM=xterm")...))
	var want strings.Builder
	for i := range 30 {
		line := fmt.Sprintf("line %d %s", i, strings.Repeat("ab ", r.IntN(4)))
		if e.Reflow {
			line += strings.Repeat("漢字 word ", r.IntN(12)) // it goes on in the next row
		}
		want.WriteString(line)
		for _, p := range pieces(r, line) {
			s.Print(p)
			if r.IntN(3) == 0 {
				lines, at := randomArea(r, cols)
				s.Status(lines, at)
				wait()
			}
			if r.IntN(10) == 0 {
				require.NoError(t, s.Flush())
				cols = size()
				e.Resize(cols, rows)
			}
		}
		s.Print("\n")
	}
	require.NoError(t, s.Close())
	require.Equal(t, strings.Join(strings.Fields(want.String()), ""), strings.Join(strings.Fields(e.Text()), ""), "raw %q", e.raw.String())
	if !e.Reflow {
		require.Equal(t, 30, strings.Count(e.Text()+"\n", "\n"))
	}
}

// A burst of lines leaves them as they are.
func TestPrintManyLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(300, 5)
		s.Print(strings.Repeat("a line of some more words than one\n", 8_000) + "half")
		s.Print(" a line\n")
		require.NoError(t, s.Close())
		require.Contains(t, e.Text(), "than one\nhalf a line")
	})
}

// A line that is too long to be one is written before it ends.
func TestPrintEndlessLine(t *testing.T) {
	if timed.Reduced(t) {
		t.Skip("the emulator is slow with the race detector")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newScreen(300, 5)
		s.Print("\n" + strings.Repeat("é", 140_000))
		require.NoError(t, s.Flush())
		require.Contains(t, e.Text(), "éé")
		require.NotContains(t, e.Text(), "\ufffd")
		require.NoError(t, s.Close())
	})
}
