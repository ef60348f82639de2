package tools

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

func allowAll(a *aycoder.ApprovalRequested) { a.Allow() }

func TestWriteFile(t *testing.T) {
	tests := []struct{ name, shown, now, content, want, kind string }{
		{"as it was shown", "a\n", "a\n", "b\n", "b\n", ""},
		{"empty", "", "", "b\n", "b\n", ""},
		{"no last newline", "a\n", "a\n", "b", "b", ""},
		{"crlf", "a\r\nb\r\n", "a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n", ""},
		{"mixed", "a\r\nb\nc\r\n", "a\r\nb\nc\r\n", "a\nb\nx\nc\n", "a\r\nb\nx\nc\r\n", ""},
		{"carriage return in a line, crlf", "a\r\nb\r\r\nc\r\n", "a\r\nb\r\r\nc\r\n", "a\nb\nc\nd\n", "a\r\nb\r\nc\r\nd\r\n", ""},
		{"byte order mark alone", "\ufeff", "\ufeff", "a\n", "\ufeffa\n", ""},
		{"byte order mark", "\ufeffa\n", "\ufeffa\n", "b\n", "\ufeffb\n", ""},
		{"byte order mark twice", "\ufeffa\r\n", "\ufeffa\r\n", "\ufeffb\nc\n", "\ufeffb\r\nc\r\n", ""},
		{"merged", "a\nb\nc\nd\n", "user\na\nb\nc\nd\n", "a\nb\nc\nD\n", "user\na\nb\nc\nD\n", ""},
		{"merged, crlf", "a\r\nb\r\nc\r\nd\r\n", "user\r\na\r\nb\r\nc\r\nd\r\n", "a\nb\nc\nD\n", "user\r\na\r\nb\r\nc\r\nD\r\n", ""},
		{"the same lines", "a\nb\n", "user\nb\n", "x\nb\n", "user\nb\n", "conflict"},
		{"so already", "a\n", "a\n", "a\n", "a\n", "no_change"},
		{"so already, crlf", "a\r\n", "a\r\n", "a\n", "a\r\n", "no_change"},
		{"the user did the same", "a\n", "b\n", "b\n", "b\n", "no_change"},
		{"not read", "", "a\n", "b\n", "a\n", "not_read"},
		{"not utf-8, as it was shown", "caf\xe9\nb\n", "caf\xe9\nb\n", "caf\uFFFD\nc\n", "caf\xe9\nb\n", "binary_file"},
		{"not utf-8, written anew", "caf\xe9\n", "caf\xe9\n", "café\n", "café\n", ""},
		{"of utf-8, with the character", "a\uFFFD\n", "a\uFFFD\n", "b\uFFFD\uFFFD\n", "b\uFFFD\uFFFD\n", ""},
		{"binary", "", "\x00", "b\n", "\x00", "binary_file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.now})
			if tt.shown != "" {
				w.ws.Seen().Add("f", tt.shown)
			}
			in := args{"path": "f", "content": tt.content}
			if tt.kind != "" {
				w.fails(tt.kind, "write_file", in)
			} else {
				w.ok("write_file", in)
			}
			assert.Equal(t, tt.want, w.read("f"))
		})
	}
}

// A model that has read a part of a file would delete the rest.
func TestWriteFileThatWasReadInPart(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n"
	page := func(first, lines int) args { return args{"path": "f", "offset": first, "limit": lines} }
	for name, tt := range map[string]struct {
		pages []args
		whole bool
	}{
		"beginning":           {[]args{page(1, 4)}, false},
		"end":                 {[]args{page(2, 9)}, false},
		"in pages":            {[]args{page(1, 2), page(3, 2), page(5, 2)}, true},
		"in another order":    {[]args{page(5, 1), page(1, 2), page(2, 3)}, true},
		"all but one":         {[]args{page(1, 2), page(4, 2)}, false},
		"all at once":         {[]args{page(1, 5)}, true},
		"a part after it all": {[]args{page(0, 0), page(2, 1)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": text})
			for _, p := range tt.pages {
				w.ok("read_file", p)
			}
			in := args{"path": "f", "content": "1\n"}
			if tt.whole {
				w.ok("write_file", in)
				return
			}
			assert.Contains(t, w.fails("not_read", "write_file", in), "you have not read all of f")
			assert.Equal(t, text, w.read("f"))
		})
	}
	w := newWorld(t, map[string]string{"f": text, "long": "a\n" + strings.Repeat("x", maxLine+1) + "\n"})
	w.ok("read_file", page(1, 3))
	w.write("f", text+"6\n") // so these are pages of two contents
	w.ok("read_file", page(4, 3))
	w.fails("not_read", "write_file", args{"path": "f", "content": "1\n"})
	w.ok("read_file", args{"path": "long"})
	w.fails("not_read", "write_file", args{"path": "long", "content": "a\n"})
}

// A person has added so many lines to the text of the model that it was not told all of them. Writing the
// file again does not delete them.
func TestWriteFileAfterReviewThatWasNotShown(t *testing.T) {
	for name, before := range map[string]string{"created": "", "changed": "a\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			if before != "" {
				w.write("f", before)
				w.ok("read_file", args{"path": "f"})
			}
			reviewed := "b\n" + strings.Repeat("of the person\n", 5000) + "c\n"
			plan, err := w.plan("write_file", args{"path": "f", "content": "b\nc\n"}).WithProposed("f", reviewed)
			require.NoError(t, err)
			inv := aycoder.NewInvocation("c1", "write_file", mustJSON(t, args{"path": "f", "content": "b\nc\n"}), nil)
			inv.Plan = &plan
			r, err := w.tool["write_file"].Call(t.Context(), inv)
			require.NoError(t, err)
			require.Less(t, strings.Count(r.Text(), "of the person"), 5000)
			require.Equal(t, reviewed, w.read("f"))
			again := aycoder.NewInvocation("c2", "write_file", mustJSON(t, args{"path": "f", "content": "b\nc\nd\n"}), nil)
			r, err = w.tool["write_file"].Call(t.Context(), again)
			require.NoError(t, err)
			assert.True(t, r.IsError)
			assert.Equal(t, reviewed, w.read("f"))
		})
	}
}

func TestWriteFileCreates(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, nil)
	text := w.ok("write_file", args{"path": "d/e/f", "content": "a\nb\n"})
	assert.Equal(t, "d/e/f: created, 2 lines.\n", text)
	assert.Equal(t, "a\nb\n", w.read("d/e/f"))
	// A written file counts as shown.
	w.ok("write_file", args{"path": "d/e/f", "content": "c\n"})
	assert.Equal(t, "c\n", w.read("d/e/f"))
	w.fails("too_large", "write_file", args{"path": "g", "content": strings.Repeat("x", maxEdited+1)})
	w.fails("is_directory", "write_file", args{"path": "d", "content": "x"})
}

// A file that the model knows only by its hash is written if it is unchanged.
func TestWriteFileThatIsForgotten(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, map[string]string{"f": "a\n"})
	w.ws.Seen().Add("f", "a\n")
	for i := range 9 { // 64 MiB are kept
		w.ws.Seen().Add("big"+string(rune('0'+i)), strings.Repeat(string(rune('a'+i)), 8<<20))
	}
	require.Empty(t, w.ws.Seen().Contents("f"))
	w.ok("write_file", args{"path": "f", "content": "b\n"})
	assert.Equal(t, "b\n", w.read("f"))
	for i := range 9 {
		w.ws.Seen().Add("big"+string(rune('0'+i)), strings.Repeat(string(rune('b'+i)), 8<<20))
	}
	w.write("f", "user\n")
	w.fails("stale", "write_file", args{"path": "f", "content": "c\n"})
	w.fails("stale", "edit_file", args{"path": "f", "old_string": "b\n", "new_string": "c\n"})
	assert.Equal(t, "user\n", w.read("f"))
}

// The model edits a version that it was shown before the user changed it.
func TestStaleEdits(t *testing.T) {
	base := numbered(10)
	tests := []struct {
		name       string
		shown      []string // versions, the newest last
		now        string
		old, text  string
		kind, want string
	}{
		{"line that is not there any more", []string{base}, strings.Replace(base, "line 3\n", "user\n", 1), "line 3\nline 4\nline 5\n",
			"line 3\nline 4\nLINE 5\n", "", strings.NewReplacer("line 3\n", "user\n", "line 5\n", "LINE 5\n").Replace(base)},
		{"line that the user changed", []string{base}, strings.Replace(base, "line 3\n", "user\n", 1), "line 3\n", "LINE 3\n", "conflict", ""},
		{"an older text", []string{base, strings.Replace(base, "line 1\n", "one\n", 1)}, strings.Replace(base, "line 1\n", "user\n", 1),
			"line 1\nline 2\nline 3\nline 4\n", "line 1\nline 2\nline 3\nLINE 4\n", "",
			strings.NewReplacer("line 1\n", "user\n", "line 4\n", "LINE 4\n").Replace(base)},
		{"part of a line that is another now", []string{base}, strings.Replace(base, "line 4\n", "line 4 + 1\n", 1),
			"line 2\nline 3\nline 4", "LINE 2\nline 3\nline 4", "",
			strings.NewReplacer("line 2\n", "LINE 2\n", "line 4\n", "line 4 + 1\n").Replace(base)},
		{"two places, of which one is left", []string{"a\nb\na\n"}, "user\nb\na\n", "a\n", "A\n", "ambiguous_match", ""},
		{"never there", []string{base}, strings.Replace(base, "line 3\n", "user\n", 1), "zz", "y", "no_match", ""},
		{"the user did it already", []string{base}, strings.Replace(base, "line 3\n", "LINE 3\n", 1), "line 3\n", "LINE 3\n", "no_change", ""},
		{"elsewhere by now", []string{"a = 1\nb = 1\n"}, "b = 1\nc = 1\na = 2\n", "a = 1", "a = 3", "conflict", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.now})
			for _, s := range tt.shown {
				w.ws.Seen().Add("f", s)
			}
			in := args{"path": "f", "old_string": tt.old, "new_string": tt.text}
			if tt.kind == "" {
				assert.Contains(t, w.ok("edit_file", in), "changed and merged; it had changed since you read it")
				assert.Equal(t, tt.want, w.read("f"))
				return
			}
			text := w.fails(tt.kind, "edit_file", in)
			assert.Equal(t, tt.now, w.read("f"))
			if tt.kind == "no_match" {
				assert.Contains(t, text, "f has changed since you read it:\n")
				assert.Contains(t, text, "-line 3\n+user\n")
			}
		})
	}
}

// A file with a second name keeps its old content there, and the model is told so.
func TestWriteTellsOfOtherNames(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	if err := os.Link(w.path("f"), w.path("g")); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	assert.Contains(t, w.ok("edit_file", args{"path": "f", "old_string": "a", "new_string": "b"}), "hard links")
	assert.Equal(t, "a\n", w.read("g"))
}

// Lines of the user's that the model was not shown are merged with the text it writes,
// even if it changed the file in between.
func TestWriteFileAfterEdit(t *testing.T) {
	const read = "a\nb\nc\nd\ne\n"
	for name, user := range map[string]string{
		"edited beside":               "user\n",
		"merged, too long to be told": strings.Repeat("user\nb\n", 4000),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": read})
			w.ok("read_file", args{"path": "f"})
			w.write("f", read+user)
			w.ok("edit_file", args{"path": "f", "old_string": "b\n", "new_string": "B\n"})
			assert.Equal(t, "a\nB\nc\nd\ne\n"+user, w.read("f"))
			w.ok("write_file", args{"path": "f", "content": "a\nB\nc\nD\ne\n"})
			assert.Equal(t, "a\nB\nc\nD\ne\n"+user, w.read("f"))
		})
	}
}
