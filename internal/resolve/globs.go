package resolve

import (
	"path"
	"slices"
	"strings"
)

// Patterns of directories say which are the packages of a workspace, in package.json and in Cargo.toml.

// expand returns the directories below one that match a pattern. Two stars stand for any number of directories.
// Directories of installed packages and hidden ones are left out. A pattern of more parts than a workspace is searched
// matches nothing.
func (x *Index) expand(dir string, pattern []string) []string {
	if len(pattern) > 2*maxDirectories {
		return nil
	}
	dirs := []string{dir}
	for _, part := range pattern {
		switch part {
		case ".":
		case "**":
			dirs = x.under(dirs)
		default:
			dirs = x.each(dirs, part)
		}
	}
	return dirs
}

// maxDirectories is how deep a workspace is searched.
const maxDirectories = 12

// under returns directories and those in them, at any depth, each once.
func (x *Index) under(at []string) (dirs []string) {
	for range maxDirectories {
		dirs = append(dirs, at...)
		at = x.each(at, "*")
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// each returns the directories in some whose names match a pattern.
func (x *Index) each(at []string, pattern string) (dirs []string) {
	for _, d := range at {
		dirs = append(dirs, x.matching(d, pattern)...)
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
