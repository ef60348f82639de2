package tools

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
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
		{"append", "a\n", "", "b\n", false, "a\nb\n"},
		{"append after no newline", "a", "", "b", false, "a\nb"},
		{"append crlf", "a\r\nb", "", "c\n", false, "a\r\nb\r\nc\r\n"},
		{"append to empty", "", "", "hi\n", false, "hi\n"},
		{"crlf for an lf file stays", "a\n", "a", "b\r\nc", false, "b\r\nc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			in := args{"path": "f", "old_string": tt.old, "new_string": tt.text, "replace_all": tt.all}
			preview := w.preview(in)
			assert.Equal(t, tt.before, w.read("f"))
			assert.Equal(t, preview, w.ok("edit_file", in))
			assert.Equal(t, tt.want, w.read("f"))
		})
	}
}

func (w *world) preview(in args) string {
	w.t.Helper()
	raw := mustJSON(w.t, in)
	text, err := w.tool["edit_file"].(aycoder.Previewer).Preview(w.t.Context(), aycoder.NewInvocation("c1", "edit_file", raw, nil))
	require.NoError(w.t, err)
	return text
}

func TestEditRefuses(t *testing.T) {
	tests := []struct {
		name, before, old, text string
		kind, says              string
	}{
		{"no match", "a\n", "zz", "y", "no_match", "read_file"},
		{"nearest", "func Foo(a int) {\n\treturn\n}\n", "func Foo(b int) {\n\treturn\n}", "x", "no_match", "     1\tfunc Foo(a int) {"},
		{"white space", "\tif x {\n\t\ty()\n\t}\n", "    if x {\n        y()\n    }", "z", "no_match", "differs only in white space"},
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
			text := w.fails(tt.kind, "edit_file", args{"path": "f", "old_string": tt.old, "new_string": tt.text})
			assert.Contains(t, text, tt.says)
			assert.Equal(t, tt.before, w.read("f"))
		})
	}
}

func TestEditCreates(t *testing.T) {
	w := newWorld(t, map[string]string{"main.go": "x"})
	in := args{"path": "new/dir/f", "old_string": "", "new_string": "a\nb\n"}
	assert.Contains(t, w.preview(in), "@@ -0,0 +1,2 @@\n+a\n+b\n")
	assert.NoDirExists(t, w.path("new"))
	assert.Contains(t, w.ok("edit_file", in), "--- /dev/null\n+++ b/new/dir/f\n")
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
			w.ok("edit_file", args{"path": "f", "old_string": "", "new_string": fmt.Sprintf("line %d\n", i)})
		})
	}
	wg.Wait()
	for i := range 50 {
		assert.Contains(t, w.read("f"), fmt.Sprintf("line %d\n", i))
	}
	assert.Equal(t, 51, strings.Count(w.read("f"), "\n"))
}

// What a user writes between the moment an edit is planned and the one it is made
// stays, whatever the time stamps say.
func TestEditLosesNothing(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "head\n"})
	info, err := os.Stat(w.path("f"))
	require.NoError(t, err)
	e := &editor{ws: w.ws}
	p, err := e.plan(t.Context(), editArgs{Path: "f", OldString: "head", NewString: "HEAD"})
	require.NoError(t, err)
	w.write("f", "user\n")
	require.NoError(t, os.Chtimes(w.path("f"), info.ModTime(), info.ModTime()))
	err = w.ws.Replace("f", p.before, p.after())
	assert.Equal(t, "stale", kindOf(err))
	assert.Equal(t, "user\n", w.read("f"))

	p, err = e.plan(t.Context(), editArgs{Path: "new", NewString: "x"})
	require.NoError(t, err)
	w.write("new", "user\n")
	assert.Equal(t, "stale", kindOf(w.ws.Create("new", p.after())))
	assert.Equal(t, "user\n", w.read("new"))
	left, err := filepath.Glob(w.path(".aycoder-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
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

// Git has to make the new file of the old one and the diff.
func TestDiffAppliesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not on this machine: nothing to apply diffs with")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	const n = 150
	for range n {
		before, splices := randomEdit(r)
		p := &plan{path: "f", before: []byte(before), splices: splices}
		after := string(p.after())
		if after == before {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(before), 0o644))
		d := p.diff()
		require.NotEmpty(t, d.text)
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--whitespace=nowarn", "--unidiff-zero", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(d.text)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s\nbefore %q", out, d.text, before)
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, after, string(got), d.text)
		require.Equal(t, d.added-d.removed, lineCount(after)-lineCount(before), d.text)
	}
	t.Logf("%d diffs applied", n)
}

func lineCount(s string) int { return len(splitLines(s)) }

func randomEdit(r *rand.Rand) (string, []splice) {
	piece := func(n int) string {
		var b strings.Builder
		for range r.IntN(n) {
			b.WriteString([]string{"a\n", "b\n", "line\n", "\n", "x", "long line\n", "crlf\r\n"}[r.IntN(7)])
		}
		return b.String()
	}
	before := "first\n" + piece(60)
	var splices []splice
	for pos := 0; pos < len(before); {
		from := pos + r.IntN(len(before)-pos+1)
		to := min(len(before), from+r.IntN(20))
		text := piece(6)
		if text != before[from:to] {
			splices = append(splices, splice{from, to, text})
		}
		pos = to + 1 + r.IntN(60)
	}
	return before, splices
}

// A change to a big file must not cost what comparing it would.
func TestBigDiff(t *testing.T) {
	big := strings.Repeat("some line\n", 400_000) + "needle\n" + strings.Repeat("more\n", 100_000)
	w := newWorld(t, map[string]string{"f": big})
	start := time.Now()
	text := w.ok("edit_file", args{"path": "f", "old_string": "needle", "new_string": "pin"})
	assert.Less(t, time.Since(start), 5*time.Second)
	assert.Contains(t, text, "@@ -399998,7 +399998,7 @@\n some line\n some line\n some line\n-needle\n+pin\n more\n")
	w.write("f", strings.Repeat("some line\n", maxSplices)+strings.Repeat("more\n", 400_000))
	start = time.Now()
	text = w.ok("edit_file", args{"path": "f", "old_string": "some", "new_string": "any", "replace_all": true})
	assert.Less(t, time.Since(start), 10*time.Second)
	assert.Less(t, len(text), 60_000)
	assert.Contains(t, text, "[diff truncated]")
}

// What is asked for must not take more memory than there is.
func TestEditBounded(t *testing.T) {
	big := strings.Repeat("x", maxEdited/2) + "\n"
	tests := []struct {
		name, before, old, text string
		all                     bool
	}{
		{"all get longer", strings.Repeat("a\n", 50_000), "a", strings.Repeat("b", 200), true},
		{"more line breaks than text", strings.Repeat("a\r\n", 50_000), "a", strings.Repeat("\n", 90), true},
		{"too many places", strings.Repeat("a", maxSplices+1), "a", "b", true},
		{"one gets longer", big, "\n", "\n" + big, false},
		{"more at the end", big, "", big, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			in := args{"path": "f", "old_string": tt.old, "new_string": tt.text, "replace_all": tt.all}
			assert.Contains(t, w.fails("too_large", "edit_file", in), "bash")
			assert.Equal(t, len(tt.before), len(w.read("f")))
		})
	}
	w := newWorld(t, nil)
	w.fails("too_large", "edit_file", args{"path": "f", "old_string": "", "new_string": strings.Repeat("x", maxEdited+1)})
	assert.NoFileExists(t, w.path("f"))
}

// Each place must not cost what going through its line does: this would take minutes.
func TestEditManyPlacesOnALine(t *testing.T) {
	line := strings.Repeat("a"+strings.Repeat("x", 79), maxSplices)
	for _, before := range []string{line + "\r\n", "\r\n" + line} {
		w := newWorld(t, map[string]string{"f": before})
		start := time.Now()
		w.ok("edit_file", args{"path": "f", "old_string": "a", "new_string": "b", "replace_all": true})
		assert.Less(t, time.Since(start), 20*time.Second) // alone it is under 1
		assert.True(t, strings.ReplaceAll(before, "a", "b") == w.read("f"))
	}
}

func TestReplaceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	in := editArgs{OldString: "a", NewString: "b", ReplaceAll: true}
	_, err := replace(ctx, []byte(strings.Repeat("a", 5000)), in)
	require.ErrorIs(t, err, stop)
}

func FuzzEdit(f *testing.F) {
	f.Add("a\r\nb\nc", "b", "x\ny", false)
	f.Add("\xef\xbb\xbfa\n", "a", "", true)
	f.Add("aaa", "aa", "b", true)
	f.Fuzz(func(t *testing.T, before, old, text string, all bool) {
		if old == "" || len(before) > 5000 {
			return
		}
		splices, err := replace(t.Context(), []byte(before), editArgs{OldString: old, NewString: text, ReplaceAll: all})
		if err != nil {
			return
		}
		p := &plan{path: "f", before: []byte(before), splices: splices}
		// Seen with \n for line breaks, it is what strings.Replace does.
		was, is := newView([]byte(before)), newView(p.after())
		if len(was.crlf) == 0 && !strings.Contains(text, "\r") {
			require.Equal(t, strings.ReplaceAll(was.text, old, text), string(p.after())[was.bom:])
		} else if len(was.crlf) > 0 && !strings.Contains(was.text+text+old, "\r") {
			require.Equal(t, strings.ReplaceAll(was.text, old, text), strings.ReplaceAll(is.text, "\r\n", "\n"))
		}
		p.diff()
	})
}

func BenchmarkEdit(b *testing.B) {
	before := strings.Repeat("some line of code\n", 5000) + "needle\n" + strings.Repeat("more of it\n", 5000)
	b.SetBytes(int64(len(before)))
	for b.Loop() {
		splices, err := replace(b.Context(), []byte(before), editArgs{OldString: "needle", NewString: "pin"})
		require.NoError(b, err)
		unified("f", false, []byte(before), splices)
	}
}
