package paint_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/cli/paint"
)

// views paints everything that is made of plain data, with text from next.
func views(s paint.Style, next func(example string) string) string {
	var out []string
	add := func(lines []string) { out = append(out, lines...) }
	cost := 0.0234
	add(paint.Tool{Name: next("bash"), Subject: next("go test ./..."), State: paint.Failed, Result: next("exit 1"), Elapsed: 4 * time.Second}.Paint(s))
	add(paint.Output(next("--- FAIL: TestMerge (0.00s)\n\tgot 1\n\twant 2\n3\n4\n5\n6\n7\nFAIL\n"), 6, next("/show 3"), s))
	add(paint.Tool{Name: next("code_search"), Subject: next(`"Hello" in the files of a directory with a long name/and/a/longer/path`), State: paint.Done, Result: next("1 match"),
		Elapsed: 2 * time.Millisecond, Number: 2, Total: 7}.Paint(s))
	add(paint.Tool{Name: next("bash"), Subject: next("npm install"), State: paint.Cancelled, Elapsed: 3100 * time.Millisecond}.Paint(s))
	add(paint.Tool{Name: next("edit_file"), Subject: next("greet.sh"), State: paint.Refused, Result: next("keep the old name")}.Paint(s))
	add(paint.Tool{Name: next("read_file"), Subject: next("漢字/ファイル.go"), Frame: 3, Elapsed: 72 * time.Second}.Paint(s))
	add(paint.Conflict{
		Tool: next("edit_file"), File: next("server.go"), Note: next("you changed this file since the model read it"), Merged: 2, Changes: 3,
		Regions: []paint.Region{
			{Line: 40, Yours: next("\ttimeout := 30 * time.Second\n"), Base: next("\ttimeout := time.Second\n"), Agent: next("\ttimeout := cfg.Timeout * time.Second\n")},
			{Agent: next("\tadded := true // a line that is long enough to be wrapped in a terminal of 80 columns\n")},
		},
	}.Paint(s))
	add(paint.Todos([]paint.Todo{
		{next("find the race"), paint.Done}, {next("write a test that fails without the lock, and passes with it in each of two hundred runs"), paint.Running},
		{next("look at export.go"), paint.Refused},
	}, s))
	add(paint.Jobs([]paint.Job{
		{ID: "1", Command: next("npm run dev"), Note: next("listening on 127.0.0.1:5173"), Elapsed: 3700 * time.Second},
		{ID: "2", Command: next("go test -count=50 ./merge"), State: paint.Failed, Note: next("exit 1"), Elapsed: 12 * time.Second},
	}, s))
	add(paint.Status{Frame: 2, What: next("bash"), Subject: next("go test ./..."), Elapsed: 12 * time.Second, Note: next("3 of 50 failed so far"), Hint: next("esc to interrupt"), Typed: next("also check -race, and the other package")}.Paint(s))
	add(paint.Status{What: next("openai: rate limited (429)"), Wait: 18 * time.Second, Hint: next("esc to stop")}.Paint(s))
	add(paint.Turn{Model: next("anthropic/claude-x"), In: 12345, Cached: 8100, Out: 1200, Cost: &cost, Used: 84_000, Window: 200_000, Elapsed: 72 * time.Second}.Paint(s))
	add(paint.Turn{Model: next("demo"), In: 1_234_567, Out: 0}.Paint(s))
	return strings.Join(out, "\n") + "\n"
}

// TestViews compares the lines with what they look like.
func TestViews(t *testing.T) {
	t.Parallel()
	golden(t, "views", func(s paint.Style) string { return views(s, func(example string) string { return example }) })
}

// TestViewsFit checks hostile texts in all widths.
func TestViewsFit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 16))
	for range 150 {
		s := paint.Style{Color: rng.IntN(2) == 0, Plain: rng.IntN(3) == 0, Width: 10 + rng.IntN(150)}
		checkLines(t, s, views(s, func(string) string { return randomText(rng) }), "")
	}
}

// TestTypedStaysVisible checks that the end of what is typed is in the status line.
func TestTypedStaysVisible(t *testing.T) {
	t.Parallel()
	for width := 24; width < 200; width++ {
		s := paint.Style{Width: width, Plain: true}
		line := paint.Status{What: strings.Repeat("long ", 50), Note: strings.Repeat("note ", 50), Hint: "esc", Typed: strings.Repeat("x", 300) + "end"}.Paint(s)
		assert.Len(t, line, 1)
		assert.Regexp(t, "end$", line[0])
		assert.Contains(t, line[0], "0s")
	}
}

// TestClean lists what a terminal must not get.
func TestClean(t *testing.T) {
	t.Parallel()
	text := "a\x1b[2Jb\r\nc\td\x7f\u009be\u202ef\u2066\x00\xff"
	assert.Equal(t, "a␛[2Jb\nc\td␡<009b>e<202e>f<2066>␀\ufffd", paint.Style{}.Clean(text))
	assert.Equal(t, "a<2028>b<2029>", paint.Style{}.Clean("a\u2028b\u2029"))
	assert.Equal(t, "a^[[2Jb\nc\td^?<009b>e<202e>f<2066>^@\ufffd", paint.Style{Plain: true}.Clean(text))
}
