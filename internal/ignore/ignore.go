// Package ignore knows which files a walk leaves out: those that .gitignore files
// name, with git's own rules, and those that carry a telling name.
package ignore

import (
	"bytes"
	"slices"
	"strings"
)

// The bounds are far beyond what people write. Patterns beyond them ignore nothing.
const (
	maxFile     = 1 << 20  // bytes of an ignore file that are read
	maxLine     = 4096     // bytes of a pattern
	maxPatterns = 2000     // of a layer
	maxSteps    = 16 << 10 // states of the patterns with wildcards, in a layer and those above it
)

// Layer is the patterns of one directory on top of those of the directories above it. It is
// immutable and safe for concurrent use. The nil Layer ignores nothing. Layers share those
// above them, so a tree of directories needs each file once.
type Layer struct {
	base     string // directory of the patterns, "" or with a slash at its end
	above    *Layer
	steps    int    // states of the patterns with wildcards here and above
	negative []bool // by the number of the pattern

	names, paths texts // that are matched whole
	ends         texts // of names
	endLens      []int // the lengths of ends, ascending
	wildNames    *automaton
	wildPaths    *automaton
}

// texts are what patterns without wildcards compare with: for each text the last pattern
// that is for any file, and the last that is for directories, plus one. Most patterns of
// real files are plain names and ends such as *.o, and these are found by one look-up each.
type texts map[string][2]int32

// add overwrites an earlier pattern with the same text, since the last one decides.
func (t texts) add(text string, p pattern, number int32) {
	last := t[text]
	if last[1] = number + 1; !p.dirOnly {
		last[0] = number + 1
	}
	t[text] = last
}

// match returns the last pattern for a text, or -1.
func (t texts) match(text string, isDir bool) int {
	last := t[text]
	if isDir {
		return int(last[1]) - 1
	}
	return int(last[0]) - 1
}

// Push returns a layer with the patterns of an ignore file on top of l. Directory is the
// slash-separated path of the directory that the patterns are relative to, "." or "" for
// the root. Without patterns it returns l. The file is bounded, since it may come from a
// stranger's repository.
func (l *Layer) Push(directory string, file []byte) *Layer {
	if len(file) == 0 {
		return l
	}
	top := &Layer{above: l, names: texts{}, paths: texts{}, ends: texts{}}
	if l != nil {
		top.steps = l.steps
	}
	if top.parse(file); len(top.negative) == 0 {
		return l
	}
	if directory != "" && directory != "." {
		top.base = directory + "/"
	}
	return top
}

// Ignored reports whether the file or directory at path itself matches an ignore pattern. As in
// git, what is below an ignored directory is ignored too, so the caller does not go into one.
//
// From gitignore(5): "Within one level of precedence, the last matching pattern
// decides the outcome", and patterns in lower directories override those above.
func (l *Layer) Ignored(path string, isDir bool) bool {
	for ; l != nil; l = l.above {
		rel, ok := strings.CutPrefix(path, l.base)
		if !ok {
			continue
		}
		if last := l.match(rel, isDir); last >= 0 {
			return !l.negative[last]
		}
	}
	return false
}

// match returns the last pattern of the layer for a path, or -1. Each of the five kinds
// gives its last pattern, and the last of these decides.
func (l *Layer) match(rel string, isDir bool) int {
	name := rel[strings.LastIndexByte(rel, '/')+1:]
	last := max(l.names.match(name, isDir), l.paths.match(rel, isDir))
	for _, n := range l.endLens {
		if n > len(name) {
			break
		}
		last = max(last, l.ends.match(name[len(name)-n:], isDir))
	}
	if l.wildNames != nil {
		last = max(last, l.wildNames.match(name, isDir))
	}
	if l.wildPaths != nil {
		last = max(last, l.wildPaths.match(rel, isDir))
	}
	return last
}

// pattern is one line of an ignore file.
type pattern struct {
	text     string // without "!" in front, slash at the end
	literal  string // what text starts with before the first special character, without a slash in front
	rest     string // what follows literal
	negative bool
	dirOnly  bool
	name     bool // has no slash: matches the last element
}

// parse takes the patterns of a file. Git reads such a file as lines that end in \n, of
// which it drops one \r, as bytes, after a byte order mark. A pattern that is too long, or
// one too many, is left out: it ignores nothing, so that at worst more files are shown.
func (l *Layer) parse(file []byte) {
	file = file[:min(len(file), maxFile)]
	file = bytes.TrimPrefix(file, []byte("\xef\xbb\xbf"))
	var names, paths []chain
	known := byteSets{}
	for line := range bytes.SplitSeq(file, []byte("\n")) {
		if len(l.negative) == maxPatterns {
			break
		}
		if len(line) == 0 || line[0] == '#' || len(line) > maxLine {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		// Git takes a line for a C string.
		line, _, _ = bytes.Cut(line, []byte{0})
		p, ok := parseLine(trimSpaces(string(line)))
		if !ok {
			continue
		}
		number := int32(len(l.negative))
		end, isEnd := strings.CutPrefix(p.text, "*")
		switch {
		case p.rest == "" && p.name:
			l.names.add(p.literal, p, number)
		case p.rest == "":
			l.paths.add(p.literal, p, number)
		// This is *.o and the like, by far the most frequent pattern with a wildcard.
		case p.name && isEnd && !strings.ContainsAny(end, special):
			l.ends.add(end, p, number)
		default:
			c := chain{known.wildcards(p.literal, p.rest, !p.name, maxSteps-l.steps), number, p.dirOnly}
			if len(c.states) == 0 {
				continue
			}
			l.steps += len(c.states)
			if p.name {
				names = append(names, c)
			} else {
				paths = append(paths, c)
			}
		}
		l.negative = append(l.negative, p.negative)
	}
	for end := range l.ends {
		l.endLens = append(l.endLens, len(end))
	}
	slices.Sort(l.endLens)
	l.endLens = slices.Compact(l.endLens)
	l.wildNames, l.wildPaths = newAutomaton(names), newAutomaton(paths)
}

// trimSpaces removes spaces at the end: "Trailing spaces are ignored unless they are quoted
// with backslash". Other white space is part of the pattern.
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

// parseLine takes a pattern apart. It returns false for one that is empty without its
// signs, which git ignores.
func parseLine(s string) (pattern, bool) {
	var p pattern
	s, p.negative = strings.CutPrefix(s, "!")
	s, p.dirOnly = strings.CutSuffix(s, "/")
	if s == "" {
		return p, false
	}
	p.text = s
	p.name = !strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	// Git compares what comes before the first special character byte by byte, and
	// only the rest is a pattern to it, so that the "**" of "a**/b" is at its start.
	n := strings.IndexAny(s, special)
	if n < 0 {
		n = len(s)
	}
	p.literal, p.rest = s[:n], s[n:]
	return p, true
}
