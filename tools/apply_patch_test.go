package tools

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/internal/timed"
)

func patchText(body string) args {
	return args{"patch": "*** Begin Patch\n" + body + "*** End Patch\n"}
}

func TestPatchUpdates(t *testing.T) {
	timed.Serial(t)
	python := "class A:\n    def f(self):\n        x = 1\n        return x\n\n    def g(self):\n        x = 1\n        return x\n\n" +
		"class B:\n    def f(self):\n        x = 1\n        return x\n"
	second := strings.Replace(strings.Replace(python, "x = 1", "x = 0", 1), "x = 1", "x = 2", 1)
	second = strings.Replace(second, "x = 0", "x = 1", 1)
	third := python[:strings.LastIndex(python, "x = 1")] + "x = 2\n        return x\n"
	tests := []struct{ name, before, patch, want string }{
		{"one line", "a\nb\nc\n", "@@\n-b\n+B\n", "a\nB\nc\n"},
		{"no part of a line", "xa\na\n", "@@\n-a\n+A\n", "xa\nA\n"},
		{"several changes", "a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n c\n-d\n", "A\nb\nc\n"},
		{"changes in the wrong order", "a\nb\n", "@@\n-b\n+B\n@@\n-a\n+A\n", "A\nB\n"},
		{"the first may come without @@", "a\nb\n", " a\n-b\n+c\n", "a\nc\n"},
		{"the header tells", python, "@@ class A:\n@@ def g(self):\n-        x = 1\n+        x = 2\n", second},
		{"the beginning of the header tells", python, "@@ class B\n-        x = 1\n+        x = 2\n", third},
		{"the line of the header is what changes below", "f() {\n}\ng() {\n}\n", "@@ g() {\n-}\n+};\n", "f() {\n}\ng() {\n};\n"},
		{"the header binds, beside an exact match above", "f() {\n\tx = 1\n}\ng() {\n\tx  =  1\n\tx = 1 \n}\n", "@@ g() {\n-\tx = 1\n+\tx = 2\n",
			"f() {\n\tx = 1\n}\ng() {\n\tx  =  1\n\tx = 2 \n}\n"},
		{"the header is in the lines of the change", "// f\nf() {\n\tx\n}\n", "@@ f() {\n-// f\n+// F\n f() {\n", "// F\nf() {\n\tx\n}\n"},
		{"the header goes", "a\nf() {\n}\n", "@@ f() {\n-f() {\n+g() {\n", "a\ng() {\n}\n"},
		{"the bracket after the header is on a line of its own", "x\nf()\n{\n\tx\n}\n", "@@ f()\n-\tx\n+\ty\n", "x\nf()\n{\n\ty\n}\n"},
		{"headers and the order tell", "f\n x\n x\ng\n x\n", "@@ f\n f\n- x\n+ y\n@@ f\n- x\n+ z\n", "f\n y\n z\ng\n x\n"},
		{"the header has @@ at its end", "f:\n x\ng:\n x\n", "@@ g: @@\n- x\n+ y\n", "f:\n x\ng:\n y\n"},
		{"the order tells", "a\nx\nb\nx\n", "@@\n-b\n+B\n@@\n-x\n+X\n", "a\nx\nB\nX\n"},
		{"the end tells", "x\na\nx\na\n", "@@\n-a\n+A\n*** End of File\n", "x\na\nx\nA\n"},
		{"the end, without a line end", "a\nb\na", "@@\n-a\n+A\n*** End of File\n", "a\nb\nA"},
		{"the order tells, without a line end", "}\nx\n}", "@@\n-x\n+y\n@@\n }\n+z\n", "}\ny\n}\nz"},
		{"the end of crlf, without a line end", "a\r\nb", "@@\n b\n+c\n*** End of File\n", "a\r\nb\r\nc"},
		{"the last line goes, other line ends", "a\nb\r\nc", "@@\n b\n-c\n", "a\nb"},
		{"the last line goes, other line ends first", "a\r\nb\nc", "@@\n b\n-c\n", "a\r\nb"},
		{"a carriage return at the end", "a\r", "@@\n-a\n+b\n", "b\r"},
		{"more at the end", "a\n", "@@\n+b\n", "a\nb\n"},
		{"more at the end, marked", "a\r\nb", "@@ f\n+c\n*** End of File\n", "a\r\nb\r\nc\r\n"},
		{"more at the end, crlf in a line", "a\r\n", "@@\n+b\r\n+c\n", "a\r\nb\r\nc\r\n"},
		{"more in an empty file", "", "@@\n+a\n+b\n", "a\nb\n"},
		{"more in two parts", "a\n", "@@\n+b\n@@\n+c\n", "a\nb\nc\n"},
		{"more at the end, after a change", "a\n", "@@\n-a\n+A\n@@\n+b\n", "A\nb\n"},
		{"more in an empty file, numbered", "", "@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"},
		{"more at the end, numbered and marked", "a\n", "@@ -1,0 +2 @@\n+b\n*** End of File\n", "a\nb\n"},
		{"more at the end, before a blank line of the patch", "a\n\nb\n", "@@\n+c\n\n", "a\n\nb\nc\n"},
		{"crlf", "a\r\nb\r\n", "@@\n a\n-b\n+B\n+c\n", "a\r\nB\r\nc\r\n"},
		{"byte order mark", "\ufeffa\nb\n", "@@\n-a\n+A\n b\n", "\ufeffA\nb\n"},
		{"indentation", "\tif x {\n\t\ty()\n\t}\n", "@@\n if x {\n-    y()\n+    z()\n }\n", "\tif x {\n\t\tz()\n\t}\n"},
		{"trailing blanks stay", "a  \nb\n", "@@\n a\n-b\n+c\n", "a  \nc\n"},
		{"lines that are only shown", "a\nb\nc\n", "@@\n a\n@@\n-c\n+C\n", "a\nb\nC\n"},
		{"all lines", "a\nb\n", "@@\n-a\n-b\n", ""},
		{"the same file twice", "a\nb\n", "@@\n-a\n+A\n*** Update File: f\n@@\n-b\n+B\n", "A\nB\n"},
		{"what a change before it brought", "a\n", "@@\n-a\n+b\n@@\n-b\n+c\n", "c\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			w.ok("read_file", args{"path": "f"})
			in := patchText("*** Update File: f\n" + tt.patch)
			plan := w.plan("apply_patch", in)
			assert.Equal(t, tt.want, plan.Files()[0].Proposed)
			w.ok("apply_patch", in)
			assert.Equal(t, tt.want, w.read("f"))
		})
	}
}

func TestPatchRefuses(t *testing.T) {
	tests := []struct{ name, before, patch, kind, says string }{
		{"twice", "a\nb\na\n", "@@\n-a\n+A\n", "ambiguous_match", "2 times, in lines 1, 3; give more of the lines around it, or put the line of the function"},
		{"twice, without a line end", "a\nb\na", "@@\n-a\n+A\n", "ambiguous_match", "2 times, in lines 1, 3"},
		{"twice below the header", "f\n a\n a\n", "@@ f\n- a\n+ b\n", "ambiguous_match", "in lines 2, 3"},
		{"header twice", "f\n a\nf\n a\n", "@@ f\n- a\n+ b\n", "ambiguous_match", "in lines 2, 4; give more of the lines around it, or after @@ a line above it that is in the file once"},
		{"only above the header", "f() {\n\treturn nil\n}\ng() {\n\treturn nil, 0\n}\n", "@@ g() {\n-\treturn nil\n+\treturn err\n", "no_match",
			"the change in line 3 of the patch: its old text is in line 2 of the file, above the line after @@, which is line 4"},
		{"twice below the header, and once after a change further down", "f\n x\n x\ng\n y\n x\n", "@@ g\n- y\n+ z\n@@ f\n- x\n+ w\n", "ambiguous_match", "in lines 2, 3, 6"},
		{"below the header no more, and once in another block", "f\n x\n x\n y\n w\ng\n x\n", "@@ f\n- y\n+ z\n@@ f\n- x\n+ v\n", "ambiguous_match", "in lines 2, 3, 7"},
		{"only above the second header", "a:\n f:\n  x\n g:\n  y\n", "@@ a:\n@@ g:\n-  x\n+  z\n", "no_match", "line 3 of the file"},
		{"the header is nowhere, and the order would tell", "a\nx\nb\nx\n", "@@\n-b\n+B\n@@ c\n-x\n+X\n", "ambiguous_match", "in lines 2, 4"},
		{"not there", "a\nb\n", "@@\n a\n-c\n", "no_match", "the change in line 3 of the patch: its old text does not occur"},
		{"second change", "a\nb\n", "@@\n-a\n@@\n-c\n", "no_match", "the change in line 5 of the patch"},
		{"part of a line", "banana\n", "@@\n-a\n+b\n", "no_match", "line 3"},
		{"nothing changes", "a\n", "@@\n a\n", "no_change", "so already"},
		{"nowhere", "a\n", "@@ a\n+b\n", "invalid_patch", "where its lines go"},
		{"only numbers say where", "a\nb\n", "@@ -1,0 +2,1 @@\n+x\n", "invalid_patch", "where its lines go; give the lines that stay before and after them"},
		{"more, before a change", "a\nb\n", "@@\n+x\n@@\n-b\n+c\n", "invalid_patch", "line 3 of the patch: the change does not say where its lines go"},
		{"binary", "a\x00\n", "@@\n-a\n", "binary_file", "bash"},
		{"twice in the patch", "a\n", "@@\n-a\n*** Delete File: f\n", "invalid_patch", "line 5 of the patch"},
		{"twice by another name", "a\n", "@@\n-a\n+b\n*** Delete File: ./f\n", "invalid_patch", "twice"},
		{"unknown line", "a\n", "@@\n*a\n", "invalid_patch", "line 4 of the patch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			text := w.fails(tt.kind, "apply_patch", patchText("*** Update File: f\n"+tt.patch))
			assert.Contains(t, text, tt.says)
			assert.NotContains(t, text, "old_string")
			assert.Equal(t, tt.before, w.read("f"))
		})
	}
}

func TestPatchFiles(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "a\n", "b": "b\n", "bin": "\x00", "d/x": "x\n", "empty": ""})
	text := w.ok("apply_patch", patchText("*** Add File: new/n\n+n\n*** Update File: a\n*** Move to: m/c\n@@\n-a\n+c\n"+
		"*** Delete File: b\n*** Delete File: bin\n*** Add File: empty\n+e\n*** Add File: nothing\n"))
	assert.Contains(t, text, "new/n: created, 1 line.\n")
	assert.Contains(t, text, "m/c: created, 1 line.\na: deleted.\nb: deleted.\n")
	assert.Equal(t, "n\n", w.read("new/n"))
	assert.Equal(t, "c\n", w.read("m/c"))
	assert.Equal(t, "e\n", w.read("empty"))
	assert.Equal(t, "", w.read("nothing"))
	for _, name := range []string{"a", "b", "bin"} {
		assert.NoFileExists(t, w.path(name))
	}
	w.fails("exists", "apply_patch", patchText("*** Add File: d/x\n+y\n"))
	w.fails("exists", "apply_patch", patchText("*** Update File: d/x\n*** Move to: m/c\n"))
	assert.Contains(t, w.fails("not_found", "apply_patch", patchText("*** Delete File: d/X\n")), "did you mean d/x?")
	w.fails("invalid_patch", "apply_patch", patchText("*** Add File: q\n+y\n*** Update File: d/x\n*** Move to: q\n"))
	// All or nothing.
	w.fails("no_match", "apply_patch", patchText("*** Delete File: d/x\n*** Update File: m/c\n@@\n-zz\n"))
	assert.Equal(t, "x\n", w.read("d/x"))
	w.ok("apply_patch", patchText("*** Update File: d/x\n*** Move to: d/y\n"))
	assert.Equal(t, "x\n", w.read("d/y"))
}

// Changes that the user made since the files were shown are merged, or are conflicts.
func TestPatchOfStaleFiles(t *testing.T) {
	base := numbered(20)
	user := strings.Replace(base, "line 15\n", "user\n", 1)
	stale := func() *world {
		w := newWorld(t, map[string]string{"f": user})
		w.ws.Seen().Add("f", base)
		return w
	}
	w := stale()
	r := w.call("apply_patch", patchText("*** Update File: f\n@@\n line 14\n line 15\n line 16\n-line 17\n+LINE 17\n"))
	assert.Contains(t, r.Text(), "changed and merged")
	assert.Equal(t, strings.Replace(user, "line 17\n", "LINE 17\n", 1), w.read("f"))

	w = stale()
	w.ok("apply_patch", patchText("*** Update File: f\n*** Move to: g\n@@\n line 14\n line 15\n line 16\n-line 17\n+LINE 17\n"))
	assert.Equal(t, strings.Replace(user, "line 17\n", "LINE 17\n", 1), w.read("g"))
	assert.NoFileExists(t, w.path("f"))

	w = stale()
	text := w.fails("conflict", "apply_patch", patchText("*** Delete File: f\n"))
	assert.Contains(t, text, "+user\n")
	assert.Equal(t, user, w.read("f"))

	w = stale()
	w.fails("conflict", "apply_patch", patchText("*** Update File: f\n@@\n-line 15\n+LINE 15\n"))
	assert.Equal(t, user, w.read("f"))
}

// The user's lines count also if only the hash of what the model was shown is kept.
func TestPatchDeletesAfterManyFiles(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\nuser\n"})
	w.ws.Seen().Add("f", "a\n")
	w.ws.Seen().Add("other", strings.Repeat("x", 64<<20)) // as much as is kept
	w.fails("stale", "apply_patch", patchText("*** Delete File: f\n"))
	assert.Equal(t, "a\nuser\n", w.read("f"))
	w.ok("read_file", args{"path": "f"})
	w.ok("apply_patch", patchText("*** Delete File: f\n"))
	assert.NoFileExists(t, w.path("f"))
}

func TestPatchRenamesNoLink(t *testing.T) {
	w := newWorld(t, map[string]string{"d/f": "a\n"})
	require.NoError(t, os.Symlink("f", w.path("d/l")))
	require.NoError(t, os.Symlink("d", w.path("e")))
	for _, patch := range []string{"*** Update File: d/l\n*** Move to: g\n", "*** Update File: e/l\n*** Move to: g\n@@\n-a\n+b\n"} {
		assert.Contains(t, w.fails("invalid_patch", "apply_patch", patchText(patch)), "is a symbolic link; rename it with bash")
	}
	to, err := os.Readlink(w.path("d/l"))
	require.NoError(t, err)
	assert.Equal(t, "f", to)
	w.ok("apply_patch", patchText("*** Update File: e/f\n*** Move to: e/g\n"))
	assert.Equal(t, "a\n", w.read("d/g"))
}

// A review that leaves the new file of a renaming out keeps the old one.
func TestPatchReviewedRenaming(t *testing.T) {
	in := patchText("*** Update File: f\n*** Move to: g\n@@\n-a\n+b\n*** Delete File: other\n")
	for _, keep := range [][]string{{"f"}, {"f", "other"}, {"g"}, {"g", "f"}} {
		w := newWorld(t, map[string]string{"f": "a\n", "other": "o\n"})
		plan, err := w.plan("apply_patch", in).KeepFiles(keep...)
		require.NoError(t, err)
		r, err := w.tool["apply_patch"].Call(t.Context(), &aycoder.Invocation{Plan: &plan})
		require.NoError(t, err)
		want := map[string]string{"f": "a\n", "other": "o\n"}
		if slices.Contains(keep, "g") {
			want["g"] = "b\n"
		}
		if len(keep) == 2 {
			delete(want, keep[1])
		}
		assert.Equal(t, want, w.files(), "%v", keep)
		assert.Equal(t, want["f"] != "", strings.Contains(r.Text(), "f: left out; the file stays as it is.\n"), "%v: %s", keep, r.Text())
	}
}

func TestPatchBounded(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, map[string]string{"f": "a\n"})
	w.fails("too_large", "apply_patch", args{"patch": strings.Repeat("x", maxEdited+1)})
	w.fails("invalid_patch", "apply_patch", patchText("*** Update File: f\n"+strings.Repeat("@@\n-a\n+a\n", maxChunks+1)))
	var many strings.Builder
	for i := range 300 {
		many.WriteString("*** Add File: n" + strings.Repeat("x", i%50) + string(rune('a'+i/50)) + "\n+x\n")
	}
	assert.Contains(t, w.fails("too_large", "apply_patch", patchText(many.String())), "at most 256 files")
}

// TestPatchesAtRandom makes patches of changes that it knows, with a line around each, for texts whose lines are often alike. A
// patch makes its change, or says that it is not clear where.
func TestPatchesAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() string { return []string{"a", "\ta", "b", "}", "if x {"}[rng.IntN(5)] }
	made := 0
	for range 5000 {
		var old, want []string
		var lines []string // of the patch, without an @@
		for range 2 + rng.IntN(10) {
			l, op := some(), rng.IntN(8)
			old = append(old, l)
			if op < 2 {
				x := some()
				want, lines = append(want, x), append(lines, "+"+x)
			}
			if op == 0 || op == 2 {
				lines = append(lines, "-"+l)
				continue
			}
			want, lines = append(want, l), append(lines, " "+l)
		}
		body, shown := "", false
		for i, l := range lines {
			near := strings.Join(lines[max(0, i-1):min(len(lines), i+2)], "\n")
			if !strings.ContainsAny("\n"+near, "+-") {
				shown = false
				continue
			}
			if !shown {
				body += "@@\n"
			}
			shown, body = true, body+l+"\n"
		}
		eol := []string{"\n", "\r\n"}[rng.IntN(2)]
		end := []string{"", eol}[rng.IntN(2)]
		files, err := patch.Parse("*** Begin Patch\n*** Update File: f\n" + body + "*** End Patch\n")
		if err != nil || len(want) == 0 {
			continue // nothing is changed, or left
		}
		e, err := inChunks(t.Context(), strings.Join(old, eol)+end, files[0].Chunks)
		if kindOfProblem(err) == "ambiguous_match" {
			continue
		}
		require.NoError(t, err, "%q: %s", old, body)
		require.Equal(t, strings.Join(want, eol)+end, e.text, "%q: %s", old, body)
		made++
	}
	require.Greater(t, made, 3000)
}

// A patch that replaces the whole of one text by another produces the other.
func FuzzApplyPatch(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc\n", byte(0))
	f.Add("\n\n", "a\n", byte(1))
	f.Add("a\na\n", "a\n", byte(3))
	f.Fuzz(func(t *testing.T, before, after string, flags byte) {
		if len(before)+len(after) > 5000 || strings.ContainsAny(before+after, " \t\v\f\r\ufeff") {
			return
		}
		lines := func(s string) []string { return strings.Split(s, "\n") }
		c := patch.Chunk{Old: lines(before), New: lines(after), AtEnd: flags&1 > 0, Line: 1}
		if flags&2 > 0 && c.Old[0] != "" { // a header is not empty
			c.Headers = []string{c.Old[0]}
		}
		e, err := inChunks(t.Context(), before+"\n", []patch.Chunk{c})
		require.NoError(t, err)
		require.Equal(t, after+"\n", e.text)
	})
}
