package diff3

import (
	"bytes"
	"slices"
	"strings"
)

// maxImports bounds the number of import lines, or of names in one of them, that are merged. Each
// is compared with all others, so the time is quadratic.
const maxImports = 100

// imports merges a conflict that consists of import lines only. The order of such lines does not
// matter, and neither does that of the names in one line, so both sides can be united.
func (c *conflict) imports() ([]byte, Kind, bool) {
	base, ours, theirs := importLines(c.text[inBase]), importLines(c.text[inOurs]), importLines(c.text[inTheirs])
	if len(ours) == 0 || len(theirs) == 0 || base == nil && len(c.text[inBase]) > 0 {
		return nil, Conflict, false
	}
	head, sep, tail, key := "", "", "", importKey
	if len(base) == 1 && len(ours) == 1 && len(theirs) == 1 {
		b, o, t := cutNames(base[0]), cutNames(ours[0]), cutNames(theirs[0])
		if b.names == nil || b.head != o.head || b.head != t.head || b.tail != o.tail || b.tail != t.tail {
			return nil, Conflict, false
		}
		if slices.ContainsFunc([][]string{b.names, o.names, t.names}, repeats) {
			return nil, Conflict, false // a name that one side added once more may be one that the other side removed
		}
		base, ours, theirs = b.names, o.names, t.names
		head, sep, tail, key = b.head, ", ", b.tail, func(name string) string { return name }
	}
	if max(len(base), len(ours), len(theirs)) > maxImports {
		return nil, Conflict, false
	}
	gone := func(name string) bool {
		return slices.Contains(base, name) && !(slices.Contains(ours, name) && slices.Contains(theirs, name))
	}
	if sep == "" && slices.ContainsFunc(base, gone) {
		return nil, Conflict, false // people seldom unite lines of which one side deleted some
	}
	// A name that one side removed must not come back from the other side.
	all := slices.DeleteFunc(unite(ours, theirs, key), gone)
	return []byte(head + strings.Join(all, sep) + tail), Both, len(all) > 0
}

// importLines returns the lines of text, or nil if one of them is not an import.
func importLines(text []byte) []string {
	var out []string
	for line := range bytes.Lines(text) {
		if !isImport(strings.TrimSpace(string(line))) || line[len(line)-1] != '\n' {
			return nil
		}
		out = append(out, string(line))
	}
	return out
}

// isImport reports whether a line is an import in Go, Python, JavaScript, Rust, C, C#, PHP, Ruby
// or Java.
func isImport(line string) bool {
	for _, word := range []string{"import ", "from ", "use ", "pub use ", "using ", "#include ",
		"require "} {
		if strings.HasPrefix(line, word) {
			return !strings.HasSuffix(line, "{") && !strings.HasSuffix(line, "(") &&
				!strings.HasSuffix(line, ",")
		}
	}
	name, path, ok := strings.Cut(line, `"`)
	return ok && strings.HasSuffix(path, `"`) && strings.Contains(path, "/") &&
		!strings.ContainsAny(name, "=(:,{")
}

// unite adds to ours the lines that only theirs has. If both are sorted, the result is sorted,
// too. Otherwise a line is added after the line that precedes it in theirs.
func unite(ours, theirs []string, key func(string) string) []string {
	order := func(a, b string) int { return strings.Compare(key(a), key(b)) }
	out := slices.Clone(ours)
	sorted := slices.IsSortedFunc(ours, order) && slices.IsSortedFunc(theirs, order)
	for i, line := range theirs {
		if slices.Contains(out, line) {
			continue
		}
		at := len(out)
		if sorted {
			at, _ = slices.BinarySearchFunc(out, line, order)
		} else if i > 0 {
			at = slices.Index(out, theirs[i-1]) + 1
		}
		out = slices.Insert(out, at, line)
	}
	return out
}

// importKey returns the part of an import line by which formatters sort: the path in Go and
// JavaScript, and otherwise the whole line.
func importKey(line string) string {
	if _, path, ok := strings.Cut(line, `"`); ok {
		return path
	}
	if _, path, ok := strings.Cut(line, " from '"); ok {
		return path
	}
	return strings.TrimSuffix(line, "\n")
}

// repeats reports whether a name is in the list more than once.
func repeats(names []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names)
}

// nameList is an import line that is split into its names and the text around them.
type nameList struct {
	head, tail string
	names      []string
}

// cutNames splits an import line. The names of the result are nil if the line has another form.
func cutNames(line string) nameList {
	open, end := strings.IndexByte(line, '{'), strings.IndexByte(line, '}')
	if open < 0 {
		open = strings.Index(line, " import ")
		end = strings.IndexAny(line, "#(\r\n")
		if open >= 0 {
			open += len(" import")
		}
	}
	if open < 0 || end < open {
		return nameList{}
	}
	list := line[open+1 : end]
	inner := strings.TrimSpace(list)
	at := open + 1 + strings.Index(list, inner)
	names := []string{}
	if inner != "" {
		names = strings.Split(inner, ", ")
	}
	return nameList{line[:at], line[at+len(inner):], names}
}
