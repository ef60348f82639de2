package resolve

import (
	"path"
	"slices"
	"strings"
)

// Patterns of directories say which are the packages of a workspace, in package.json and in Cargo.toml.

// expand returns the directories below one that match a pattern. Two stars stand for any number of directories.
// Directories of installed packages and hidden ones are left out.
func (x *Index) expand(dir string, pattern []string) []string {
	dirs := []string{dir}
	for i, part := range pattern {
		switch part {
		case ".":
			continue
		case "**":
			return x.under(dirs, pattern[i+1:])
		}
		var next []string
		for _, d := range dirs {
			next = append(next, x.matching(d, part)...)
		}
		dirs = next
	}
	return dirs
}

// maxDirectories is how deep a workspace is searched.
const maxDirectories = 12

// under returns the directories that match a pattern without stars for several directories, at any depth.
func (x *Index) under(at []string, pattern []string) (dirs []string) {
	if slices.Contains(pattern, "**") {
		pattern = pattern[slices.Index(pattern, "**")+1:]
	}
	for range maxDirectories {
		var next []string
		for _, d := range at {
			dirs = append(dirs, x.expand(d, pattern)...)
			next = append(next, x.matching(d, "*")...)
		}
		at = next
	}
	return dirs
}

// matching returns the directories in one whose names match a pattern.
func (x *Index) matching(dir, pattern string) (dirs []string) {
	if !strings.ContainsAny(pattern, "*?[{") {
		if p := path.Join(dir, pattern); x.names(p) != nil {
			return []string{p}
		}
		return nil
	}
	alternatives := []string{pattern}
	if before, rest, ok := strings.Cut(pattern, "{"); ok {
		list, after, _ := strings.Cut(rest, "}")
		alternatives = nil
		for item := range strings.SplitSeq(list, ",") {
			alternatives = append(alternatives, before+item+after)
		}
	}
	for _, name := range x.names(dir) {
		name, isDir := strings.CutSuffix(name, "/")
		if !isDir || name[0] == '.' || name == "node_modules" {
			continue
		}
		for _, a := range alternatives {
			if ok, _ := path.Match(a, name); ok {
				dirs = append(dirs, path.Join(dir, name))
				break
			}
		}
	}
	return dirs
}
