// Package ignore knows which files a walk leaves out: those that .gitignore files
// name, with git's own rules, and those that carry a telling name.
package ignore

import (
	"bytes"
	"strings"
)

// The bounds are far beyond what people write. Patterns beyond them ignore nothing.
const (
	maxFile     = 1 << 20  // bytes of an ignore file that are read
	maxLine     = 4096     // bytes of a pattern
	maxPatterns = 2000     // of a layer
	maxSteps    = 16 << 10 // of the patterns with wildcards, in a layer and those above it
)

// Layer is the patterns of one folder on top of those of the folders above it. It
// is immutable and safe for concurrent use. The nil Layer ignores nothing.
type Layer struct {
	base     string // folder of the patterns, "" or with a slash at its end
	patterns []pattern
	above    *Layer
	steps    int // of the patterns with wildcards here and above
}

// Push returns a layer with the patterns of an ignore file on top of l. Folder is
// the slash-separated path of the folder that the patterns are relative to, "." or
// "" for the root. Without patterns it returns l.
func (l *Layer) Push(folder string, file []byte) *Layer {
	steps := 0
	if l != nil {
		steps = l.steps
	}
	patterns, steps := parse(file, steps)
	if len(patterns) == 0 {
		return l
	}
	base := ""
	if folder != "" && folder != "." {
		base = folder + "/"
	}
	return &Layer{base: base, patterns: patterns, above: l, steps: steps}
}

// Ignored reports whether the file or folder at path is ignored by a pattern of its
// own. As in git, what is below an ignored folder is ignored too, so the caller does
// not go into one.
//
// From gitignore(5): "Within one level of precedence, the last matching pattern
// decides the outcome", and patterns in lower folders override those above.
func (l *Layer) Ignored(path string, isDir bool) bool {
	for ; l != nil; l = l.above {
		rel, ok := strings.CutPrefix(path, l.base)
		if !ok {
			continue
		}
		for i := len(l.patterns) - 1; i >= 0; i-- {
			if p := &l.patterns[i]; p.match(rel, isDir) {
				return !p.negative
			}
		}
	}
	return false
}

// pattern is one line of an ignore file.
type pattern struct {
	text     string // without "!" in front, slash at the end
	literal  string // what text starts with before the first special character
	rest     wild   // what follows literal
	negative bool
	dirOnly  bool
	name     bool // has no slash: matches the last element
	suffix   bool // is "*" and a literal
}

// parse returns the patterns of a file. Git reads such a file as lines that end in
// \n, of which it drops one \r, as bytes, after a byte order mark. Steps is how many
// were taken by the layers above, and comes back with those of the patterns.
func parse(file []byte, steps int) ([]pattern, int) {
	file = file[:min(len(file), maxFile)]
	file = bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))
	var all []pattern
	for line := range bytes.SplitSeq(file, []byte("\n")) {
		if len(all) == maxPatterns {
			break
		}
		if len(line) == 0 || line[0] == '#' || len(line) > maxLine {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		line, _, _ = bytes.Cut(line, []byte{0})
		p, ok := parseLine(trimSpaces(string(line)))
		if n := p.steps(); ok && steps+n <= maxSteps {
			all = append(all, p)
			steps += n
		}
	}
	return all, steps
}

// steps is how many there are to try for each byte of a path. A text that is only
// compared has none.
func (p *pattern) steps() int {
	if n := len(p.rest.prog.Insts); n > 1 && !p.plain() {
		return n
	}
	return 0
}

// plain reports whether the pattern is matched by comparing names.
func (p *pattern) plain() bool { return p.name && (len(p.literal) == len(p.text) || p.suffix) }

// trimSpaces removes spaces at the end: "Trailing spaces are ignored unless they
// are quoted with backslash".
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			end = i + 1
		} else if s[i] != ' ' {
			end = i + 1
		}
	}
	return s[:end]
}

func parseLine(s string) (pattern, bool) {
	var p pattern
	s, p.negative = strings.CutPrefix(s, "!")
	s, p.dirOnly = strings.CutSuffix(s, "/")
	if s == "" {
		return p, false
	}
	p.text = s
	p.name = !strings.Contains(s, "/")
	p.suffix = s[0] == '*' && !strings.ContainsAny(s[1:], special)
	s = strings.TrimPrefix(s, "/")
	// Git compares what comes before the first special character byte by byte, and
	// only the rest is a pattern to it, so that the "**" of "a**/b" is at its start.
	n := strings.IndexAny(s, special)
	if n < 0 {
		n = len(s)
	}
	p.literal = s[:n]
	if p.name {
		p.rest = compileWild(s, false)
	} else {
		p.rest = compileWild(s[n:], true)
	}
	return p, true
}

func (p *pattern) match(rel string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	if p.name {
		return p.matchName(rel[strings.LastIndexByte(rel, '/')+1:])
	}
	rest, ok := strings.CutPrefix(rel, p.literal)
	return ok && p.rest.match(rest)
}

func (p *pattern) matchName(name string) bool {
	switch {
	case len(p.literal) == len(p.text):
		return name == p.text
	case p.suffix:
		return strings.HasSuffix(name, p.text[1:])
	default:
		return p.rest.match(name)
	}
}
