package tools

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/editmatch"
)

func pairs(texts ...string) []args {
	var edits []args
	for i := 0; i < len(texts); i += 2 {
		edits = append(edits, args{"old_string": texts[i], "new_string": texts[i+1]})
	}
	return edits
}

func TestMultiEdit(t *testing.T) {
	tests := []struct {
		name, before string
		edits        []args
		want         string
	}{
		{"two", "a\nb\n", pairs("a", "1", "b", "2"), "1\n2\n"},
		{"each on what the last has left", "a\n", pairs("a", "b", "b", "c"), "c\n"},
		{"one makes the next unique", "a\na\n", pairs("a\na", "a\nb", "a\n", "A\n"), "A\nb\n"},
		{"the same line twice", "a b\n", pairs("a", "1", "b", "2"), "1 2\n"},
		{"back again and on", "a\nb\n", pairs("a", "x", "b", "y", "x", "a"), "a\ny\n"},
		{"an empty file", "", pairs("", "a\n", "a", "b"), "b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			w.ok("multi_edit", args{"path": "f", "edits": tt.edits})
			assert.Equal(t, tt.want, w.read("f"))
		})
	}
	w := newWorld(t, nil)
	w.ok("multi_edit", args{"path": "d/new", "edits": pairs("", "a\n", "a", "b")})
	assert.Equal(t, "b\n", w.read("d/new"))
}

func TestMultiEditRefuses(t *testing.T) {
	tests := []struct {
		name, before string
		edits        []args
		kind, says   string
	}{
		{"the second", "a\nb\n", pairs("a", "1", "zz", "2"), "no_match", "edit 2: old_string does not occur"},
		{"ambiguous after the first", "a\nb\n", pairs("b", "a", "a", "c"), "ambiguous_match", "edit 2: old_string occurs 2 times, in lines 1, 2"},
		{"no change in the end", "a\nb\n", pairs("a", "x", "x", "a"), "no_change", "so already"},
		{"no change in one", "a\nb\n", pairs("a", "x", "b", "b"), "no_change", "edit 2: "},
		{"none", "a\n", []args{}, "invalid_arguments", "edits is empty"},
		{"empty", "a\n", pairs("a", "b", "", "c"), "invalid_arguments", "edit 2: old_string is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": tt.before})
			assert.Contains(t, w.fails(tt.kind, "multi_edit", args{"path": "f", "edits": tt.edits}), tt.says)
			assert.Equal(t, tt.before, w.read("f"))
		})
	}
	w := newWorld(t, nil)
	w.fails("not_found", "multi_edit", args{"path": "new", "edits": pairs("a", "b")})
	w.fails("no_match", "multi_edit", args{"path": "new", "edits": pairs("", "a", "b", "c")})
	assert.NoFileExists(t, w.path("new"))
}

func TestMatchingIsReported(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "\tif x {\n\t\ty()\n\t}\n"})
	w.ok("read_file", args{"path": "f"})
	text := w.ok("multi_edit", args{"path": "f", "edits": pairs("y()", "z()", "    if x {\n        z()", "    if y {\n        z()")})
	assert.Contains(t, text, "[edit 2: applied after allowing for indentation (old_string has 4 spaces where the file has 1 tab")
	assert.Contains(t, text, "; old_string was found in lines 1-2; lines 1-2 now read:]\n     1\t\tif y {\n     2\t\t\tz()\n")
	// The same holds if the call was approved before.
	w.write("f", "\ta\n\tb\n")
	w.ok("read_file", args{"path": "f"})
	text, _ = w.run("edit_file", args{"path": "f", "old_string": "a\nb", "new_string": "a\nc"}, allowAll)
	assert.Contains(t, text, "[applied after allowing for indentation")
	assert.Contains(t, text, "lines 1-2 now read:]\n     1\t\ta\n     2\t\tc\n")
	assert.Equal(t, "\ta\n\tc\n", w.read("f"))
}

// Numbers, booleans and lists that are written as strings are decoded.
func TestArgumentsWrittenAsText(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\na\n"})
	in := args{"path": "f", "edits": `[{"old_string":"a","new_string":"b","replace_all":"true"}]`}
	w.ok("multi_edit", in)
	assert.Equal(t, "b\nb\n", w.read("f"))
	w.write("f", "a\na\n")
	text, _ := w.run("multi_edit", in, allowAll)
	assert.Contains(t, text, "+b\n")
	assert.Equal(t, "b\nb\n", w.read("f"))
	text, _ = w.run("read_file", args{"path": "f", "limit": "1"}, allowAll)
	assert.Contains(t, text, "[lines 1-1 of 2")
}

// A text that occurs exactly once is replaced there and nowhere else; the tool never
// guesses among several places.
func FuzzMultiEdit(f *testing.F) {
	f.Add("a\nb\nc\n", "a\n", "x\n", "b", "a", "a", "y")
	f.Add("aaa", "aa", "b", "a", "", "", "x")
	f.Add("\tx\n\ty\n", "x\ny", "x\nz", "z", "\r\n", "z", "w")
	f.Fuzz(func(t *testing.T, text, old1, new1, old2, new2, old3, new3 string) {
		edits := []editmatch.Edit{{Old: old1, New: new1}, {Old: old2, New: new2}, {Old: old3, New: new3}}
		all := strings.Join([]string{text, old1, new1, old2, new2, old3, new3}, "")
		if len(all) > 5000 {
			return
		}
		e, err := inOrder(t.Context(), text, edits)
		if err != nil {
			require.NotEmpty(t, kindOfProblem(err), "%v", err)
			require.Less(t, len(err.Error()), 20_000)
		}
		if strings.ContainsAny(all, " \t\v\f\r\ufeff") {
			return
		}
		for _, edit := range edits {
			if edit.Old == "" || edit.Old == edit.New || placesOf(text, edit.Old) != 1 {
				return
			}
			text = strings.Replace(text, edit.Old, edit.New, 1)
		}
		require.NoError(t, err)
		require.Equal(t, text, e.text)
	})
}

func placesOf(text, old string) (n int) {
	for i := range len(text) {
		if strings.HasPrefix(text[i:], old) {
			n++
		}
	}
	return n
}
