package cli

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/ttytest"
)

// A palette has a colour for each style of the terminal that the demo uses.
type palette struct {
	ground, text string
	colours      map[string]string // by the parameter of SGR
}

var palettes = map[string]palette{
	"light": {"#ffffff", "#1f2328", map[string]string{
		"2": "#59636e", "31": "#c21f2b", "32": "#1a7f37", "36": "#0b6a75", "90": "#59636e", "95": "#8250df"}},
	"dark": {"#0d1117", "#e6edf3", map[string]string{
		"2": "#9198a1", "31": "#ff7b72", "32": "#56d364", "36": "#56d4dd", "90": "#9198a1", "95": "#d2a8ff"}},
}

// The picture of the README is the screen of the demo.
func TestPictureOfDemo(t *testing.T) {
	t.Parallel()
	p := &terminal{t: t, temp: t.TempDir(), rows: 60}
	p.begin(nil, nil, func(*exec.Cmd) {})
	p.expect(demoTask)
	p.Type("\r")
	p.expect("Apply?")
	p.answers("y")
	p.expect("The check passes")
	var rows [][]ttytest.Run
	p.Until("the end", func(e *ttytest.Emulator) bool {
		rows = e.Runs()
		return lastRows(e, 1)[0] == "demo>"
	})
	p.Type("\x04")
	p.ends(exitOK)
	first := 0
	for !strings.HasPrefix(rowText(rows[first]), "demo> ") {
		first++
	}
	last := first
	for i, row := range rows {
		if strings.HasPrefix(rowText(row), "demo · ") {
			last = i
		}
	}
	rows = rows[first : last+1]
	for name, colours := range palettes {
		file := "../../docs/demo-" + name + ".svg"
		picture := colours.draw(t, rows)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(picture), 0o644))
		}
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(kept), picture, "%s is not what the demo shows: run go test ./internal/cli -run TestPicture -update, and look at it", file)
	}
}

func rowText(row []ttytest.Run) string {
	var all strings.Builder
	for _, r := range row {
		all.WriteString(r.Text)
	}
	return all.String()
}

const (
	cellWidth, cellHeight = 8.4, 18
	margin                = 16
)

var drawnTime = regexp.MustCompile(`\d+ms$|\d+\.\ds$`)

// draw returns the picture of rows. Times are those of no machine.
func (p *palette) draw(t *testing.T, rows [][]ttytest.Run) string {
	t.Helper()
	var b strings.Builder
	width, height := 80*cellWidth+2*margin, float64(len(rows)*cellHeight+2*margin)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14">`+"\n", width, height, width, height)
	b.WriteString("<title>The demo of aycoder: a scripted model makes a failing check pass, and asks before it changes a file.</title>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="8" fill="%s"/>`+"\n", width, height, p.ground)
	for i, row := range rows {
		col := 0
		for n, run := range row {
			text := drawnTime.ReplaceAllString(run.Text, "5ms")
			if n > 0 { // it ends where it did
				col += utf8.RuneCountInString(run.Text) - utf8.RuneCountInString(text)
			}
			p.run(t, &b, text, run.Style, col, i)
			col += utf8.RuneCountInString(text)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// run draws a text in one style.
func (p *palette) run(t *testing.T, b *strings.Builder, text, style string, col, row int) {
	t.Helper()
	shown := strings.TrimLeft(text, " ")
	col += utf8.RuneCountInString(text) - utf8.RuneCountInString(shown)
	if shown = strings.TrimRight(shown, " "); shown == "" {
		return
	}
	colour, weight := p.text, ""
	for code := range strings.SplitSeq(style, ";") {
		switch c, known := p.colours[code]; {
		case known:
			colour = c
		case code == "1":
			weight = ` font-weight="bold"`
		case code != "":
			require.Failf(t, "unknown style", "%q of %q", style, text)
		}
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>`+"\n",
		margin+float64(col)*cellWidth, margin+row*cellHeight+13, float64(utf8.RuneCountInString(shown))*cellWidth, colour, weight, html.EscapeString(shown))
}
