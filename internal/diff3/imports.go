package diff3

import (
	"bytes"
	"slices"
	"strings"
)

// maxImports is how many lines of imports, or names in one of them, are merged at
// most, since each is looked for among the others.
const maxImports = 100

// imports merges conflicts that consist of import lines only. Such lines are a set,
// and so are the names in one of them.
func (c *conflict) imports() ([]byte, bool) {
	base, ours, theirs := importLines(c.base), importLines(c.ours), importLines(c.theirs)
	if len(ours) == 0 || len(theirs) == 0 || base == nil && len(c.base) > 0 {
		return nil, false
	}
	if len(base) == 1 && len(ours) == 1 && len(theirs) == 1 {
		return mergeNames(base[0], ours[0], theirs[0])
	}
	if max(len(ours), len(theirs)) > maxImports || !subset(base, ours) || !subset(base, theirs) {
		return nil, false
	}
	out := unite(ours, theirs, lineOrder)
	return []byte(strings.Join(out, "")), len(out) > 0
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

// isImport reports whether a line imports something, as Go, Python, JavaScript,
// Rust, C, C#, PHP, Ruby and Java write it.
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

// subset reports whether all lines of a are in b.
func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(line string) bool { return !slices.Contains(b, line) })
}

// unite adds to ours what only theirs has: in order, if both sides are, or else
// after what precedes it in theirs.
func unite(ours, theirs []string, order func(a, b string) int) []string {
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

// lineOrder sorts imports as formatters do, by what is imported.
func lineOrder(a, b string) int { return strings.Compare(importKey(a), importKey(b)) }

// importKey returns the part of an import line that formatters sort by: the path of
// Go and JavaScript imports, all of others.
func importKey(line string) string {
	if _, path, ok := strings.Cut(line, `"`); ok {
		return path
	}
	if _, path, ok := strings.Cut(line, " from '"); ok {
		return path
	}
	return strings.TrimSuffix(line, "\n")
}

// mergeNames merges the names of one import line: what stands between braces, or
// after Python's import. The rest of the line must not have changed.
func mergeNames(base, ours, theirs string) ([]byte, bool) {
	b, o, t := cutNames(base), cutNames(ours), cutNames(theirs)
	if b.names == nil || max(len(b.names), len(o.names), len(t.names)) > maxImports {
		return nil, false
	}
	if b.head != o.head || b.head != t.head || b.tail != o.tail || b.tail != t.tail {
		return nil, false
	}
	gone := func(name string) bool {
		return slices.Contains(b.names, name) &&
			!(slices.Contains(o.names, name) && slices.Contains(t.names, name))
	}
	out := slices.DeleteFunc(unite(o.names, t.names, strings.Compare), gone)
	if len(out) == 0 {
		return nil, false
	}
	return []byte(b.head + strings.Join(out, ", ") + b.tail), true
}

// nameList is an import line that is cut into its names and what is around them.
type nameList struct {
	head, tail string
	names      []string
}

// cutNames finds the names of an import line. There are none if it has another form.
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
	return nameList{line[:at], line[at+len(inner):], strings.Split(inner, ", ")}
}
