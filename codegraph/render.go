package codegraph

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
)

// Level is how much of a file a context shows.
type Level uint8

// The levels of detail. Each shows more than the one before.
const (
	Names      Level = iota + 1 // the names that the file exports
	Signatures                  // the signatures of the declarations that are used
	Skeleton                    // all declarations, without the bodies of functions
	Bodies                      // as Skeleton, with the bodies of the functions that are used
	Whole                       // the text of the file
)

var levelNames = [...]string{"nothing", "names", "signatures", "skeleton", "bodies", "whole"}

// String returns the name of the level in lower case.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

const maxNames = 40 // of exports

// render returns a file at a level. Used reports for each declaration whether the files in play use it.
func render(facts *source.Facts, src []byte, level Level, used []bool) string {
	switch {
	case level == Names:
		return exports(facts)
	case level == Whole || len(facts.Decls) == 0:
		return string(src)
	}
	var out bytes.Buffer
	cuts := cutsOf(facts, src, level, used)
	end := int32(0) // of what was written
	for i, d := range facts.Decls {
		if d.Parent >= 0 || d.At.End <= end || level == Signatures && !used[i] {
			continue
		}
		pos := max(d.At.Start, end)
		for len(cuts) > 0 && cuts[0].Start < d.At.End {
			if c := cuts[0]; c.Start >= pos {
				out.Write(src[pos:c.Start])
				out.WriteString(c.text)
				pos = c.End
			}
			cuts = cuts[1:]
		}
		if end = d.At.End; pos < end {
			out.Write(src[pos:end])
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// A cut is a part of a file that is replaced by a short text.
type cut struct {
	source.Span
	text string
}

// cutsOf returns what a level leaves out of the declarations that it shows, by where it begins. A cut may
// lie within another one.
func cutsOf(facts *source.Facts, src []byte, level Level, used []bool) (cuts []cut) {
	for i, d := range facts.Decls {
		if level == Signatures && !used[i] && d.Parent >= 0 {
			cuts = append(cuts, cut{Span: d.At})
			continue
		}
		if doc := restOfDoc(src, d); doc.End > doc.Start {
			cuts = append(cuts, cut{Span: doc})
		}
		if d.Body.End <= d.Body.Start || level == Bodies && used[i] {
			continue
		}
		text := "…"
		if src[d.Body.Start] == '{' {
			text = "{ … }"
		}
		cuts = append(cuts, cut{d.Body, text})
	}
	order.By(cuts, func(a, b *cut) int { return cmp.Compare(a.Start, b.Start) })
	return cuts
}

// restOfDoc returns the lines of a comment before a declaration without the first one.
func restOfDoc(src []byte, d source.Decl) (rest source.Span) {
	pos := d.At.Start
	for pos < d.NameAt {
		line := src[pos:d.NameAt]
		i := bytes.IndexByte(line, '\n')
		if i < 0 || !comment(line[:i]) {
			break
		}
		if pos += int32(i) + 1; rest.Start == 0 {
			rest.Start = pos
		}
		rest.End = pos
	}
	if rest.Start < d.NameAt {
		return rest
	}
	return source.Span{}
}

// comment reports whether a line before a declaration is one of a comment. In Rust and C, lines with # are
// not.
func comment(line []byte) bool {
	line = bytes.TrimSpace(line)
	for _, begin := range []string{"//", "/*", "*", "# ", "--"} {
		if bytes.HasPrefix(line, []byte(begin)) {
			return true
		}
	}
	return len(line) == 0
}

// exports returns the names that a file gives to others, in a line.
func exports(facts *source.Facts) string {
	var names []string
	for _, d := range facts.Decls {
		if d.Exported && d.Parent < 0 && d.Kind != source.Method {
			names = append(names, d.Name)
		}
	}
	for _, e := range facts.Exports {
		if e.Name != "*" {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "exports " + listed(slices.Compact(names), maxNames) + "\n"
}

// listed lists the first names, and says how many others there are.
func listed(names []string, limit int) string {
	if more := len(names) - limit; more > 0 {
		names = append(names[:limit], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
