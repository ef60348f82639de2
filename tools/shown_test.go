package tools

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nested has the same statement in two places, with different indentation.
const nested = "func a() {\n\tif x {\n\t\tgo(1)\n\t}\n}\n\nfunc b() {\n\tgo(2)\n}\n"

// An edit of an unseen file that does not match exactly changes nothing: its meaning
// would be a guess.
func TestUnseenFileIsNotGuessedAt(t *testing.T) {
	tests := []struct{ name, before, old, text, quoted string }{
		{"indentation", nested, "    if x {\n        go(1)\n    }", "    if x {\n        go(3)\n    }", "     2\t\tif x {\n     3\t\t\tgo(1)\n     4\t\t}\n"},
		{"blanks at the end", "a  \nb\n", "a\nb", "a\nc", "     1\ta  \n     2\tb\n"},
		{"typographic characters", "say “hi”\n", `say "hi"`, `say "ho"`, "     1\tsay “hi”\n"},
		{"blank lines around", "a\nb\n", "\n\na\nb\n\n", "\n\nA\nb\n\n", "     1\ta\n"},
		{"line numbers", "a\nb\n", "     1\ta\n     2\tb\n", "     1\tA\n     2\tb\n", "     1\ta\n     2\tb\n"},
		{"lines left out", "f(\n1\n2\n3\n)\ng\n", "f(\n...\n)\n", "h(\n...\n)\n", "     1\tf(\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			calls := map[string]args{
				"edit_file":   {"path": "f", "old_string": tt.old, "new_string": tt.text},
				"multi_edit":  {"path": "f", "edits": pairs(tt.old, tt.text)},
				"apply_patch": patchText("*** Update File: f\n@@\n-" + strings.ReplaceAll(tt.old, "\n", "\n-") + "\n+" + strings.ReplaceAll(tt.text, "\n", "\n+") + "\n"),
			}
			for tool, in := range calls {
				if tool == "apply_patch" && (tt.name == "lines left out" || tt.name == "line numbers") {
					continue // patches do not tolerate these
				}
				_, err := w.tryPlan(tool, in)
				require.ErrorContains(t, err, "no_match: ", "%s: nobody is asked about it", tool)
				text := w.fails("no_match", tool, in)
				assert.Contains(t, text, "you have not been shown this file", tool)
				assert.Contains(t, text, tt.quoted, tool)
				assert.Equal(t, tt.before, w.read("f"), tool)
			}
			w.ok("read_file", args{"path": "f"})
			w.ok("edit_file", calls["edit_file"])
			assert.NotEqual(t, tt.before, w.read("f"))
		})
	}
}

// An exact match is replaced, whatever the line endings, which are invisible.
func TestUnseenFileIsChangedExactly(t *testing.T) {
	w := newWorld(t, map[string]string{"f": nested, "crlf": "a\r\nb\r\n"})
	w.ok("edit_file", args{"path": "f", "old_string": "\tif x {\n\t\tgo(1)", "new_string": "\tif x {\n\t\tgo(3)"})
	assert.Contains(t, w.read("f"), "go(3)")
	w.ok("edit_file", args{"path": "crlf", "old_string": "a\nb", "new_string": "a\nc"})
	assert.Equal(t, "a\r\nc\r\n", w.read("crlf"))
	// The diff of an edit is not the whole file: lines that it does not show must not be
	// overwritten.
	w.fails("not_read", "write_file", args{"path": "f", "content": "x\n"})
}

// Text of a file that a search or a command has shown is remembered as of that moment.
func TestSeenOtherwise(t *testing.T) {
	bash := func(script string) func(*world) {
		return func(w *world) { w.ok("bash", args{"command": script}) }
	}
	tests := []struct {
		name string
		see  func(w *world)
		seen bool
	}{
		{"cat", bash("cat d/f"), true},
		{"numbered", bash("cat -n d/f"), true},
		{"a part", bash("head -n 3 d/f"), true},
		{"some lines", bash("sed -n '2,3p' d/f"), true},
		{"found", bash("grep -n 'go' d/f other"), true},
		{"in its directory", bash("cd d && cat f"), true},
		{"by its whole path", func(w *world) { w.ok("bash", args{"command": "cat '" + w.path("d/f") + "'"}) }, true},
		{"as input", bash("cat < d/f"), true},
		{"beside what fails", bash("cat d/f missing"), true},
		{"through a link", bash("cat link"), false}, // a link is another name
		{"counted", bash("wc -l d/f"), false},
		{"listed", bash("ls -l d/f"), false},
		{"not printed", bash("cat d/f > /dev/null"), false},
		{"another file", bash("cat other"), false},
		{"in the background", bash("cat d/f & wait"), true},
		{"searched", func(w *world) { w.ok("code_search", args{"pattern": `go\(1`}) }, true},
		{"searched with context", func(w *world) { w.ok("code_search", args{"pattern": "func a", "path": "d/f", "context": 2}) }, true},
		{"searched for something else", func(w *world) { w.ok("code_search", args{"pattern": "nothing here"}) }, false},
	}
	edit := args{"path": "d/f", "old_string": "    if x {\n        go(1)\n    }", "new_string": "    if x {\n        go(3)\n    }"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"d/f": nested, "other": "go(1)\n"})
			require.NoError(t, os.Symlink("d/f", w.path("link")))
			tt.see(w)
			w.fails("not_read", "write_file", args{"path": "d/f", "content": "x\n"}) // it was not read as a whole
			if !tt.seen {
				w.fails("no_match", "edit_file", edit)
				return
			}
			assert.Equal(t, []string{nested}, w.ws.Seen().Contents("d/f"))
			// The user moves the block, and has the text elsewhere: the edit means the
			// old place.
			now := strings.Replace(nested, "\tif x {\n\t\tgo(1)\n\t}\n", "\tif y {\n\t\tgo(1)\n\t}\n", 1) + "if x {\n    go(1)\n}\n"
			w.write("d/f", now)
			w.fails("conflict", "edit_file", edit)
			assert.Equal(t, now, w.read("d/f"))
			w.write("d/f", nested+"// more\n")
			text := w.ok("edit_file", edit)
			assert.Contains(t, text, "applied after allowing for indentation")
			assert.Contains(t, text, "lines 2-4 now read:]\n     2\t\tif x {\n     3\t\t\tgo(3)\n     4\t\t}\n")
			assert.Equal(t, strings.Replace(nested, "go(1)", "go(3)", 1)+"// more\n", w.read("d/f"))
		})
	}
}

// If a file changes while a command runs, the output tells which version the command has
// printed, and that version is remembered. If it does not tell, the older one is, because
// an edit of it is merged.
func TestSeenWhileItChanges(t *testing.T) {
	tests := []struct {
		name, script string
		want         []string // the newest first
	}{
		{"before", "cat f; printf 'same\\nnew\\n' > f", []string{"same\nold\n"}},
		{"after", "printf 'same\\nnew\\n' > f; cat f", []string{"same\nnew\n"}},
		{"both", "cat f; printf 'same\\nnew\\n' > f; cat f", []string{"same\nnew\n", "same\nold\n"}},
		{"what both have", "head -n 1 f; printf 'same\\nnew\\n' > f", []string{"same\nold\n"}},
		{"deleted", "cat f; rm f", []string{"same\nold\n"}},
		{"not shown", "test -f f && printf 'same\\nnew\\n' > f", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": "same\nold\n"})
			w.call("bash", args{"command": tt.script})
			assert.Equal(t, tt.want, w.ws.Seen().Contents("f"))
		})
	}
}

// Files outside, secrets and binary files are not remembered, and the memory is bounded.
func TestSeenIsBounded(t *testing.T) {
	many := map[string]string{
		".env": "KEY=value\n", "bin": "text\n\x00\n", "large": strings.Repeat("line\n", maxLookedBytes/5+1), "d/x": "x\n",
	}
	names := []string{}
	for i := range maxLooked + 5 {
		name := "n" + strings.Repeat("x", i)
		many[name] = "line\n"
		names = append(names, name)
	}
	w := newWorld(t, many)
	require.NoError(t, os.WriteFile(w.base+"/outside", []byte("line\n"), 0o644))
	require.NoError(t, os.Symlink("../outside", w.path("out")))
	w.call("bash", args{"command": "cat .env bin large d out ../outside " + strings.Join(names, " ")})
	for _, name := range []string{".env", "bin", "large", "d", "d/x", "out", "../outside", names[maxLooked]} {
		assert.Empty(t, w.ws.Seen().Contents(name), name)
	}
	assert.NotEmpty(t, w.ws.Seen().Contents(names[0]))
	w.ok("code_search", args{"pattern": "line", "max_results": 1000})
	assert.Empty(t, w.ws.Seen().Contents("large"), "nor by a search")
}

// The last line is quoted, too, if the file ends without a line break.
func TestQuotedLastLine(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n\tb"})
	w.ok("read_file", args{"path": "f"})
	text := w.ok("apply_patch", patchText("*** Update File: f\n@@\n-    b\n+    c\n"))
	assert.Equal(t, "a\n\tc", w.read("f"))
	assert.Contains(t, text, "found in lines 2-2; lines 2-2 now read:]\n     2\t\tc\n")
}

// The quoted lines are those of the file after all edits.
func TestQuotedLinesAreThoseOfTheFile(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "\ta\n\tb\nc\n"})
	w.ok("read_file", args{"path": "f"})
	text := w.ok("multi_edit", args{"path": "f", "edits": pairs("    a\n    b", "    a\n    B\n    B2", "\ta\n", "x\ny\n\tA\n", "c\n", "C\n")})
	assert.Equal(t, "x\ny\n\tA\n\tB\n\tB2\nC\n", w.read("f"))
	assert.Contains(t, text, "; old_string was found in lines 1-2; lines 1-5 now read:]\n"+
		"     1\tx\n     2\ty\n     3\t\tA\n     4\t\tB\n     5\t\tB2\ndiff ")
	text = w.ok("multi_edit", args{"path": "f", "edits": pairs("    B\n    B2", "    b\n    b2", "x\ny\n", "y\n")})
	assert.Contains(t, text, "; old_string was found in lines 4-5; lines 3-4 now read:]\n     3\t\tb\n     4\t\tb2\ndiff ")
	w.ok("edit_file", args{"path": "f", "old_string": "C\n", "new_string": "c\n"})
	text = w.ok("edit_file", args{"path": "f", "old_string": "    A\n    b\n", "new_string": ""})
	assert.NotContains(t, text, "now read", "nothing is left of them")
	// The diff shows other merged lines; the quoted numbers differ from those of the
	// file.
	w.write("f", "user\n"+w.read("f"))
	text = w.ok("edit_file", args{"path": "f", "old_string": "    b2", "new_string": "    b3"})
	assert.Equal(t, "user\ny\n\tb3\nc\n", w.read("f"))
	assert.Contains(t, text, "applied after allowing for indentation")
}
