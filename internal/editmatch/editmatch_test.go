package editmatch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/editmatch"
)

func levels(r *editmatch.Result) []editmatch.Level {
	var out []editmatch.Level
	for _, c := range r.Match.Changes {
		out = append(out, c.Level)
	}
	return out
}

func TestPlan(t *testing.T) {
	const (
		ends, tail, typo   = editmatch.LineEndings, editmatch.TrailingSpace, editmatch.Typographic
		indent, blank      = editmatch.Indentation, editmatch.BlankLines
		number, esc, elide = editmatch.LineNumbers, editmatch.Escapes, editmatch.Elided
	)
	tests := []struct {
		name, file, old, new string
		want                 string
		levels               []editmatch.Level
	}{
		{"one line", "a\nb\nc\n", "b", "B", "a\nB\nc\n", nil},
		{"part of a line", "foo(bar)\n", "bar", "baz", "foo(baz)\n", nil},
		{"no last newline", "a\nb", "b", "c", "a\nc", nil},
		{"delete", "a\nb\nc\n", "b\n", "", "a\nc\n", nil},
		{"delete all", "a\n", "a\n", "", "", nil},
		{"delete the last of the old lines", "a\nb\nc\n", "a\nb", "a", "a\nc\n", nil},
		{"delete between", "a\nb\nc", "a\nb\nc", "a\nc", "a\nc", nil},
		{"dollar is text", "a\n", "a", "$1\\1", "$1\\1\n", nil},
		{"byte order mark", "\ufeffa\nb\n", "a", "b", "\ufeffb\nb\n", nil},
		{"byte order mark copied", "\ufeffa\nb\n", "\ufeffa", "\ufeffc", "\ufeffc\nb\n", nil},
		{"not UTF-8", "\xff\xfe\na\n\x80", "a", "b", "\xff\xfe\nb\n\x80", nil},
		{"not UTF-8 in the place", "\xff a b\n", "\xff a", "\xff c", "\xff c b\n", nil},
		{"lone CR", "a\rb\rc", "b", "x", "a\rx\rc", nil},
		{"CRLF for an LF file", "a\n", "a", "b\r\nc", "b\r\nc\n", nil},
		{"an empty file", "", "", "a\n", "a\n", nil},
		{"a file with a mark only", "\ufeff", "", "a\n", "\ufeffa\n", nil},

		{"CRLF file", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n", []editmatch.Level{ends}},
		{"CRLF file, one line grows", "a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n", nil},
		{"CRLF in old and new", "a\nb\n", "a\r\nb", "x\r\ny\r\nz", "x\ny\nz\n", []editmatch.Level{ends}},
		{"mixed", "a\r\nb\nc\r\n", "b", "b\nB", "a\r\nb\nB\nc\r\n", nil},
		{"mixed, what stays stays", "a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nX\nd", "a\r\nb\nX\r\nd\n",
			[]editmatch.Level{ends}},
		{"mixed, CRLF on purpose", "a\nb\na\r\nb\n", "a\r\nb", "c\r\nb", "a\nb\nc\r\nb\n", nil},
		{"CRLF, no newline at the end", "a\r\nb", "b", "b\nc", "a\r\nb\r\nc", nil},
		{"line break that the end lacks", "a\nb", "b\n", "c\n", "a\nc", []editmatch.Level{ends}},

		{"blanks in the file", "a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\t\nc\n", []editmatch.Level{tail}},
		{"blanks in a line that goes", "if x:\n    y()\n    \nz()\n", "    y()\n\n", "    y()\n", "if x:\n    y()\nz()\n", []editmatch.Level{tail}},
		{"blanks in the last line, which goes", "a\n  \n", "a\n\n", "a\n", "a\n", []editmatch.Level{tail}},
		{"blanks in old", "a\nb\n", "a \nb", "a \nc", "a\nc\n", []editmatch.Level{tail}},
		{"blanks in old, gone in new", "a\nb\n", "a \nb", "A\nb", "A\nb\n", []editmatch.Level{tail}},
		{"part of lines, blanks", "x a  \nb y\n", "a\nb", "A\nb", "x A  \nb y\n", []editmatch.Level{tail}},
		{"a line after blanks", "a  \nb\n", "a", "a\nc", "a  \nc\nb\n", nil},

		{"quotes", "say “hi” — now\n", `say "hi" - now`, `say "ho" - now`, "say “ho” — now\n",
			[]editmatch.Level{typo}},
		{"part of a line, quotes", "x don’t y\n", "don't", "do not", "x do not y\n", []editmatch.Level{typo}},
		{"quotes in old only", "it's\n", "it’s", "it’s so", "it's so\n", []editmatch.Level{typo}},
		{"no-break space", "a\u00a0b c\n", "a b c", "a b d", "a\u00a0b d\n", []editmatch.Level{typo}},
		{"dots", "wait…\nx\n", "wait...\nx", "wait...\ny", "wait…\ny\n", []editmatch.Level{typo}},
		{"quotes and indentation", "\tsay “a” and b\n\tx\n", "  say \"a\" and b\n  x", "  say \"a\" and c\n  y",
			"\tsay “a” and c\n\ty\n", []editmatch.Level{typo, indent}},

		{"shifted left", "\tif x {\n\t\ty()\n\t}\n", "if x {\n\ty()\n}\n", "if x {\n\ty()\n\tz()\n}\n",
			"\tif x {\n\t\ty()\n\t\tz()\n\t}\n", []editmatch.Level{indent}},
		{"shifted right", "if x {\n\ty()\n}\n", "  if x {\n  \ty()\n  }", "  if x {\n  \tz()\n  }",
			"if x {\n\tz()\n}\n", []editmatch.Level{indent}},
		{"spaces for tabs", "\tif x {\n\t\ty()\n\t}\n", "    if x {\n        y()",
			"    if x {\n        if z {\n            y()",
			"\tif x {\n\t\tif z {\n\t\t\ty()\n\t}\n", []editmatch.Level{indent}},
		{"spaces for tabs, first line trimmed", "\tif x {\n\t\ty()\n\t}\n", "if x {\n        y()\n    }",
			"if z {\n        y()\n    }", "\tif z {\n\t\ty()\n\t}\n", []editmatch.Level{indent}},
		{"tabs for spaces", "a:\n  b:\n    c\n", "\tb:\n\t\tc", "\tb:\n\t\tc\n\t\t\td", "a:\n  b:\n    c\n      d\n",
			[]editmatch.Level{indent}},
		{"shifted, and spaces for tabs", "\tf {\n\t\tg {\n\t\t\th\n", "f {\n  g {\n    h", "f {\n  g {\n    h\n      i",
			"\tf {\n\t\tg {\n\t\t\th\n\t\t\t\ti\n", []editmatch.Level{indent}},
		{"line before a trimmed one", "  a\n  b\n", "a\n  b", "x\na\n  b", "  x\n  a\n  b\n", nil},
		{"trimmed line goes", "  a\n  b\n", "a\n  b", "  b", "  b\n", nil},

		{"blank lines around", "a\nb\nc\n", "\n\nb\n\n", "\n\nB\n\n", "a\nB\nc\n", []editmatch.Level{blank}},
		{"blank line before, no last newline", "if x {\n  }\n\n}", "\n}\n", "\n]\n", "if x {\n  }\n\n]", []editmatch.Level{ends}},
		{"blanks for a last line, which goes", "a\n    ", "a\n\n", "b\n", "b", []editmatch.Level{ends, tail}},
		{"the same, indented", "\ta\n    ", "  a\n\n", "  b\n", "\tb", []editmatch.Level{ends, tail, editmatch.Indentation}},
		{"blank lines after, with blanks in new", "c\nz\n", "c\n\n\n", "d\n    \n\n", "d\nz\n", []editmatch.Level{blank}},
		{"blank line before, gone in new", "x\nb  \nc\n", "\n\nb\nc\n", "b\nd\n", "x\nb  \nd\n",
			[]editmatch.Level{tail, blank}},
		{"cat -n", "x\nfoo\n\tbar\n", "     2\tfoo\n     3\t\tbar", "     2\tfoo\n     3\t\tbaz", "x\nfoo\n\tbaz\n",
			[]editmatch.Level{number}},
		{"12| text", "x\nfoo\n  bar\n", "2| foo\n3|   bar", "2| foo\n3|   baz", "x\nfoo\n  baz\n",
			[]editmatch.Level{number}},
		{"numbers, and nothing new", "x\nfoo\nbar\n", "2: foo\n3: bar\n", "", "x\n", []editmatch.Level{number}},
		{"one number", "x\nfoo\n", "2\tfoo", "2\tbar", "x\nbar\n", []editmatch.Level{number}},
		{"escaped line breaks", "a\n\tb\nc\n", `a\n\tb`, `a\n\tB`, "a\n\tB\nc\n", []editmatch.Level{esc}},
		{"escaped quotes", "f(\"a\\n\")\n", `f(\"a\n\")`, `f(\"b\n\")`, "f(\"b\\n\")\n", []editmatch.Level{esc}},
		{"escaped as JSON", "f(\"a\\n\")\ng()\n", `f(\"a\\n\")\ng()`, `f(\"b\\n\")\ng()`, "f(\"b\\n\")\ng()\n",
			[]editmatch.Level{esc}},
		{"only old is escaped", "f(\"a\")\n", `f(\"a\")`, `f("b")`, "f(\"b\")\n", []editmatch.Level{esc}},
		{"dots for lines", "a\nb\nc\nd\n", "a\n...\nd", "A\n...\nD", "A\nb\nc\nD\n", []editmatch.Level{elide}},
		{"comment for lines", "a\n  b “x”  \n\tc\nd\n", "a\n// ... existing code ...\nd",
			"a\ne\n// ... existing code ...\nd",
			"a\ne\n  b “x”  \n\tc\nd\n", []editmatch.Level{elide}},
		{"dots at the beginning", "a\nb\nc\n", "...\nb\nc", "...\nb\nC", "a\nb\nC\n", []editmatch.Level{elide}},
		{"dots that are there", "a\n...\nb\n", "a\n...\nb", "a\nb", "a\nb\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := editmatch.Plan([]byte(tt.file), editmatch.Edit{Old: tt.old, New: tt.new})
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(r.Text))
			assert.Equal(t, tt.levels, levels(r))
			require.NoError(t, onlyInside(tt.file, r))
		})
	}
}

func TestRefuses(t *testing.T) {
	long := strings.Repeat("a\n", 500)
	tests := []struct {
		name, file, old, new string
		kind                 editmatch.Kind
		says                 string
	}{
		{"not there", "a\nb\n", "zz", "y", editmatch.NotFound, "Nothing in it is like"},
		{"nearest", "x\nfunc Foo(a int) {\n\treturn\n}\n", "func Foo(b int) {\n\treturn\n}", "x", editmatch.NotFound,
			"     2\tfunc Foo(a int) {"},
		{"what differs", "one\ntwo\nthree\n", "one\ntwp\nthree", "x", editmatch.NotFound,
			`line 2 is not as in old_string, which has "twp"`},
		{"an empty file", "", "a", "b", editmatch.NotFound, "leave old_string empty"},
		{"twice", "a\nb\na\n", "a", "b", editmatch.Ambiguous, "2 times, in lines 1, 3; take in"},
		{"overlapping", "aaa\n", "aa", "b", editmatch.Ambiguous, "2 times"},
		{"very often", long, "a", "b", editmatch.Ambiguous, "more than 100 times"},
		{"twice but for indentation", "\ta\n\tb\n  a\n  b\n", "    a\n    b", "x", editmatch.Ambiguous,
			"2 times but for indentation, in lines 1, 3"},
		{"same in CRLF and LF", "a\r\nb\r\na\nb\n", "a\nb", "x", editmatch.Ambiguous, "in lines 1, 3"},
		{"the same", "a\n", "a", "a", editmatch.NoChange, "are the same"},
		{"line endings only", "a\r\nb\r\n", "a\r\nb", "a\nb", editmatch.NoChange, "line endings only"},
		{"done already in other lines", "\n\r\n\r\n\r\n…", "\n\r\n\r\n\u00a0…", "  \r\n\r\n\n…",
			editmatch.NoChange, "is as new_string has it"},
		{"done already", "a\nb\n", "a \nb", "a\nb", editmatch.NoChange, "line 1 is as new_string has it"},
		{"empty old", "a\n", "", "b", editmatch.EmptyOld, "old_string is empty"},
		{"indented unlike", "a\n  b\n b\n", "  a\n  b\n  b", "x", editmatch.Unclear,
			"not all of its lines are indented alike"},
		{"indentation that nothing tells", "\ta\n\t\tb\n", "    a\n\tb", "    a\n      c\n\tb", editmatch.Unclear,
			`how far to indent this line of new_string: "      c"`},
		{"tabs that the file has not", "a\nb\n  c\n", "\ta\n\tb", "\ta\n\t\tx\n\tb", editmatch.Unclear, "how far"},
		{"wrong number", "x\nfoo\n", "7\tfoo", "7\tbar", editmatch.NotFound, "line numbers"},
		{"numbers in old only", "x\nfoo\nbar\n", "2: foo\n3: bar", "foo\nbaz", editmatch.NotFound, "line numbers"},
		{"escaped line break in old only", "a\nb\n", `a\nb`, "x", editmatch.NotFound, "backslash"},
		{"numbers with a gap", "x\nfoo\nbar\n", "2\tfoo\n4\tbar", "y", editmatch.NotFound, "line numbers"},
		{"some numbers in new", "x\nfoo\nbar\n", "2\tfoo\n3\tbar", "2\tfoo\nbar", editmatch.NotFound, "line numbers"},
		{"quotes escaped and not", "f(\"a\", \"b\")\n", `f(\"a\", "b")`, "x", editmatch.NotFound, "backslash"},
		{"escapes that may be meant", "a\nb\n", `a\nb`, `f("a\nb")`, editmatch.NotFound, "backslash"},
		{"dots in old only", "a\nb\nc\n", "a\n...\nc", "x", editmatch.NotFound, "leave out lines"},
		{"one end twice", "a\nb\na\nc\n", "a\n...\nc", "a\n...\nd", editmatch.Ambiguous, "a piece of it"},
		{"ends in the wrong order", "a\nb\nc\n", "c\n...\na", "c\n...\nx", editmatch.NotFound, "leave out lines"},
		{"another comment for lines", "a\nb\nc\n", "a\n// ...\nc", "a\n// ... b\nd", editmatch.NotFound, "leave out lines"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := editmatch.Plan([]byte(tt.file), editmatch.Edit{Old: tt.old, New: tt.new})
			e, ok := errors.AsType[*editmatch.Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, tt.kind, e.Kind)
			assert.Contains(t, e.Error(), tt.says)
		})
	}
}

func TestReplaceAll(t *testing.T) {
	tests := []struct{ name, file, old, new, want string }{
		{"lines", "x\nx\n", "x", "y", "y\ny\n"},
		{"on a line", "x x x", "x", "yy", "yy yy yy"},
		{"overlapping", "aaaa\n", "aa", "b", "bb\n"},
		{"CRLF", "a\r\nb\r\na\r\nb\r\n", "a\nb", "c\nd\ne", "c\r\nd\r\ne\r\nc\r\nd\r\ne\r\n"},
		{"each its indentation", "\ta\n\tb\n    a\n    b\n", "  a\n  b", "  a\n  c", "\ta\n\tc\n    a\n    c\n"},
		{"quotes", "‘a’ ‛a′", "'a'", "'b'", "‘b’ ‛b′"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := editmatch.Plan([]byte(tt.file), editmatch.Edit{Old: tt.old, New: tt.new, ReplaceAll: true})
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(r.Text))
			require.NoError(t, onlyInside(tt.file, r))
		})
	}
}
