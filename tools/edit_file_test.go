package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/timed"
)

func TestEdit(t *testing.T) {
	tests := []struct {
		name, before, old, text string
		all                     bool
		want                    string
	}{
		{"one line", "a\nb\nc\n", "b", "B", false, "a\nB\nc\n"},
		{"part of a line", "foo(bar)\n", "bar", "baz", false, "foo(baz)\n"},
		{"all", "x\nx\n", "x", "y", true, "y\ny\n"},
		{"all, on a line", "x x x", "x", "yy", true, "yy yy yy"},
		{"all, overlapping", "aaaa\n", "aa", "b", true, "bb\n"},
		{"dollar is text", "a\n", "a", "$1\\1", false, "$1\\1\n"},
		{"regex is text", "a.b*c\n", ".b*", "-", false, "a-c\n"},
		{"no last newline", "a\nb", "b", "c", false, "a\nc"},
		{"delete", "a\nb\nc\n", "b\n", "", false, "a\nc\n"},
		{"delete all", "a\n", "a\n", "", false, ""},
		{"byte order mark", "\xef\xbb\xbfa\n", "a", "b", false, "\xef\xbb\xbfb\n"},
		{"crlf", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false, "x\r\ny\r\nz\r\nc\r\n"},
		{"crlf, one line grows", "a\r\nb\r\n", "b", "b\nc", false, "a\r\nb\r\nc\r\n"},
		{"crlf in the strings", "a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n"},
		{"crlf with mark", "\xef\xbb\xbfa\r\nb\r\n", "\nb", "\nc", false, "\xef\xbb\xbfa\r\nc\r\n"},
		{"mixed", "a\r\nb\nc\r\n", "b", "b\nB", false, "a\r\nb\nB\nc\r\n"},
		{"mixed, unchanged lines stay", "a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nX\nd", false, "a\r\nb\nX\r\nd\n"},
		{"crlf at the end", "a\r\nb", "b", "b\nc", false, "a\r\nb\r\nc"},
		{"not utf-8 elsewhere", "\xff\xfe\na\n\x80", "a", "b", false, "\xff\xfe\nb\n\x80"},
		{"lone cr", "a\rb\rc", "b", "x", false, "a\rx\rc"},
		{"fill an empty file", "", "", "hi\n", false, "hi\n"},
		{"fill a file of a mark", "\xef\xbb\xbf", "", "hi\n", false, "\xef\xbb\xbfhi\n"},
		{"crlf for an lf file stays", "a\n", "a", "b\r\nc", false, "b\r\nc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			in := args{"path": "f", "old_string": tt.old, "new_string": tt.text, "replace_all": tt.all}
			plan := w.plan("edit_file", in)
			assert.Equal(t, tt.want, plan.Files()[0].Proposed)
			assert.Equal(t, tt.before, w.read("f"))
			text := w.ok("edit_file", in)
			assert.Contains(t, text, "--- a/f\n+++ b/f\n@@")
			assert.Equal(t, tt.want, w.read("f"))
		})
	}
}

// plan returns the plan of a call.
func (w *world) plan(tool string, in args) edit.Plan {
	w.t.Helper()
	plan, err := w.tryPlan(tool, in)
	require.NoError(w.t, err)
	return plan
}

func (w *world) tryPlan(tool string, in args) (edit.Plan, error) {
	w.t.Helper()
	inv := aycoder.NewInvocation("c1", tool, mustJSON(w.t, in), nil)
	return w.tool[tool].(aycoder.Planner).Plan(w.t.Context(), inv)
}

func TestEditRefuses(t *testing.T) {
	timed.Serial(t)
	tests := []struct {
		name, before, old, text string
		kind, says              string
	}{
		{"no match", "a\n", "zz", "y", "no_match", "Read the file again"},
		{"nearest", "func Foo(a int) {\n\treturn\n}\n", "func Foo(b int) {\n\treturn\n}", "x", "no_match", "     1\tfunc Foo(a int) {"},
		{"no indentation to tell", "\ta\n\t\tb\n", "    a\n\tb", "    a\n      c\n\tb", "no_match", "how far"},
		{"empty old", "a\n", "", "b", "invalid_arguments", "old_string is empty"},
		{"line numbers", "foo\nbar\n", "     1\tfoo\n     2\tbar", "x", "no_match", "line number"},
		{"escaped newline", "a\nb\n", `a\nb`, "x", "no_match", `\n`},
		{"ambiguous", "a\nb\na\n", "a", "b", "ambiguous_match", "2 times, in lines 1, 3"},
		{"overlapping", "aaa\n", "aa", "b", "ambiguous_match", "2 times"},
		{"very ambiguous", strings.Repeat("a\n", 500), "a", "b", "ambiguous_match", "more than 100 times"},
		{"the same", "a\n", "a", "a", "no_change", "same"},
		{"nothing to add", "a\n", "", "", "no_change", "same"},
		{"line endings only", "a\r\nb\r\n", "a\r\nb", "a\nb", "no_change", "line endings"},
		{"binary", "a\x00b\n", "a", "b", "binary_file", "bash"},
		{"too large", strings.Repeat("a", maxEdited+1), "b", "c", "too_large", "bash"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			in := args{"path": "f", "old_string": tt.old, "new_string": tt.text}
			_, err := w.tryPlan("edit_file", in)
			assert.ErrorContains(t, err, tt.kind+": ", "nobody is asked about what cannot work")
			text := w.fails(tt.kind, "edit_file", in)
			assert.Contains(t, text, tt.says)
			assert.Equal(t, tt.before, w.read("f"))
		})
	}
}

func TestEditCreates(t *testing.T) {
	w := newWorld(t, map[string]string{"main.go": "x"})
	in := args{"path": "new/dir/f", "old_string": "", "new_string": "a\nb\n"}
	assert.Equal(t, edit.Create, w.plan("edit_file", in).Files()[0].Kind)
	assert.NoDirExists(t, w.path("new"))
	assert.Equal(t, "new/dir/f: created, 2 lines.\n", w.ok("edit_file", in))
	assert.Equal(t, "a\nb\n", w.read("new/dir/f"))
	text := w.fails("not_found", "edit_file", args{"path": "mian.go", "old_string": "a", "new_string": "b"})
	assert.Contains(t, text, "did you mean main.go?")
	assert.Contains(t, text, "leave old_string empty")
	w.fails("is_directory", "edit_file", args{"path": "new", "old_string": "a", "new_string": "b"})
	w.ok("edit_file", args{"path": "empty", "old_string": "", "new_string": ""})
	assert.Equal(t, "", w.read("empty"))
}

func TestEditKeepsModeAndLink(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	require.NoError(t, os.Chmod(w.path("f"), 0o751))
	require.NoError(t, os.Symlink("f", w.path("l")))
	w.ok("edit_file", args{"path": "l", "old_string": "a", "new_string": "b"})
	assert.Equal(t, "b\n", w.read("f"))
	info, err := os.Lstat(w.path("f"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o751), info.Mode())
	info, err = os.Lstat(w.path("l"))
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
}

func TestParallelEdits(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "0\n"})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			w.ok("edit_file", args{"path": "f", "old_string": "0\n", "new_string": fmt.Sprintf("0\nline %d.\n", i)})
		})
	}
	wg.Wait()
	for i := range 50 {
		assert.Contains(t, w.read("f"), fmt.Sprintf("line %d.\n", i))
	}
	assert.Equal(t, 51, strings.Count(w.read("f"), "\n"))
}

func TestEditCancelled(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	_, err := w.callCtx(ctx, "edit_file", args{"path": "f", "old_string": "a", "new_string": "b"})
	require.ErrorIs(t, err, stop)
	assert.Equal(t, "a\n", w.read("f"))
}

// A change to a big file must not cost as much as a comparison of the whole file.
func TestBigDiff(t *testing.T) {
	timed.Long(t, "edits of files of megabytes")
	timed.Serial(t)
	big := strings.Repeat("some line\n", 400_000) + "needle\n" + strings.Repeat("more\n", 100_000)
	w := newWorld(t, map[string]string{"f": big})
	start := time.Now()
	text := w.ok("edit_file", args{"path": "f", "old_string": "needle", "new_string": "pin"})
	timed.Within(t, start, 5*time.Second)
	assert.Contains(t, text, "@@ -399998,7 +399998,7 @@\n some line\n some line\n some line\n-needle\n+pin\n more\n")
	w.write("f", strings.Repeat("some line\n", 100_000)+strings.Repeat("more\n", 400_000))
	start = time.Now()
	text = w.ok("edit_file", args{"path": "f", "old_string": "some", "new_string": "any", "replace_all": true})
	timed.Within(t, start, 10*time.Second)
	assert.Less(t, len(text), 60_000)
	assert.Contains(t, text, "[")
}

// A request must not take more memory than the machine has.
func TestEditBounded(t *testing.T) {
	timed.Serial(t)
	big := strings.Repeat("x", maxEdited/2) + "\n"
	tests := []struct {
		name, before, old, text string
		all                     bool
	}{
		{"all get longer", strings.Repeat("a\n", 50_000), "a", strings.Repeat("b", 200), true},
		{"more line breaks than text", strings.Repeat("a\r\n", 50_000), "a", strings.Repeat("\n", 90), true},
		{"too many places", strings.Repeat("a", 100_001), "a", "b", true},
		{"one gets longer", big, "\n", "\n" + big, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			in := args{"path": "f", "old_string": tt.old, "new_string": tt.text, "replace_all": tt.all}
			w.fails("too_large", "edit_file", in)
			assert.Equal(t, len(tt.before), len(w.read("f")))
		})
	}
	w := newWorld(t, nil)
	w.fails("too_large", "edit_file", args{"path": "f", "old_string": "", "new_string": strings.Repeat("x", maxEdited+1)})
	assert.NoFileExists(t, w.path("f"))
}

// A match must not cost a pass over its whole line: this test would take minutes.
func TestEditManyPlacesOnALine(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "100,000 places on a line")
	line := strings.Repeat("a"+strings.Repeat("x", 79), 100_000)
	for _, before := range []string{line + "\r\n", "\r\n" + line} {
		w := newWorld(t, map[string]string{"f": before})
		start := time.Now()
		w.ok("edit_file", args{"path": "f", "old_string": "a", "new_string": "b", "replace_all": true})
		timed.Within(t, start, 20*time.Second) // alone it is under 1
		assert.True(t, strings.ReplaceAll(before, "a", "b") == w.read("f"))
	}
}

func TestEditsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	_, err := inOrder(ctx, strings.Repeat("a", 5000), []editmatch.Edit{{Old: "a", New: "b", ReplaceAll: true}})
	require.ErrorIs(t, err, stop)
}

func BenchmarkEdit(b *testing.B) {
	before := strings.Repeat("some line of code\n", 5000) + "needle\n" + strings.Repeat("more of it\n", 5000)
	f := &textFile{path: "f", exists: true, text: before}
	b.SetBytes(int64(len(before)))
	for b.Loop() {
		p, err := f.propose(func(text string) (*edited, error) {
			return inOrder(b.Context(), text, []editmatch.Edit{{Old: "needle", New: "pin"}})
		})
		require.NoError(b, err)
		_, err = p.plan()
		require.NoError(b, err)
	}
}
