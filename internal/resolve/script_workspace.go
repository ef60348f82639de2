package resolve

import (
	"path"
	"slices"
	"strings"
)

// findMembers returns the packages of the workspace whose root is a directory, by their names. A workspace is
// declared in package.json (npm, Yarn, Bun), pnpm-workspace.yaml or lerna.json.
func (r *scriptIndex) findMembers(dir string) map[string]string {
	globs := r.workspaceGlobs(dir)
	if globs == nil {
		return nil
	}
	dirs := map[string]bool{}
	for _, glob := range globs {
		glob, without := strings.CutPrefix(glob, "!")
		for _, d := range r.expand(dir, strings.Split(path.Clean(glob), "/")) {
			dirs[d] = !without
		}
	}
	dirs[dir] = true
	members := map[string]string{}
	for d, in := range dirs {
		if pkg := r.pkg.Get(d); in && pkg != nil && pkg.name != "" {
			if other, ok := members[pkg.name]; !ok || d < other {
				members[pkg.name] = d
			}
		}
	}
	return members
}

// workspaceGlobs returns the patterns of the directories of a workspace, or nil if the directory is not the
// root of one.
func (r *scriptIndex) workspaceGlobs(dir string) (globs []string) {
	if pkg := r.pkg.Get(dir); pkg != nil {
		globs = pkg.workspaces
	}
	if yaml := r.x.read(path.Join(dir, "pnpm-workspace.yaml")); yaml != nil {
		globs = append(slices.Clip(globs), yamlPackages(string(yaml))...)
	}
	if globs == nil {
		if p := path.Join(dir, "lerna.json"); r.x.file(p) {
			if globs = r.json.Get(p).get("packages").strings(); globs == nil {
				globs = []string{"packages/*"}
			}
		}
	}
	return globs
}

// yamlPackages returns the list under packages in pnpm-workspace.yaml.
func yamlPackages(text string) (globs []string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimRight(line, "\r\n"))
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "packages:"):
			in = true
			list := strings.Trim(strings.TrimSpace(strings.TrimPrefix(line, "packages:")), "[]")
			for item := range strings.SplitSeq(list, ",") {
				globs = appendYAML(globs, item)
			}
		case in && line[0] == '-':
			globs = appendYAML(globs, line[1:])
		default:
			in = false
		}
	}
	return globs
}

// appendYAML appends a string of YAML without quotes and comment.
func appendYAML(globs []string, item string) []string {
	item = strings.TrimSpace(item)
	if len(item) > 1 && (item[0] == '"' || item[0] == '\'') {
		item, _, _ = strings.Cut(item[1:], item[:1])
	} else {
		item, _, _ = strings.Cut(item, " #")
		item = strings.TrimSpace(item)
	}
	if item == "" {
		return globs
	}
	return append(globs, item)
}

// expand returns the directories below one that match a pattern. Two stars stand for any number of directories.
// Directories of installed packages and hidden ones are left out.
func (r *scriptIndex) expand(dir string, pattern []string) (dirs []string) {
	for depth, at := 0, []string{dir}; depth <= maxDirectories && len(at) > 0; depth++ {
		if len(pattern) == 0 {
			return append(dirs, at...)
		}
		if pattern[0] == "." {
			pattern = pattern[1:]
			continue
		}
		if pattern[0] == "**" {
			dirs = append(dirs, r.under(at, pattern[1:])...)
			return dirs
		}
		var next []string
		for _, d := range at {
			next = append(next, r.matching(d, pattern[0])...)
		}
		at, pattern = next, pattern[1:]
	}
	return dirs
}

// maxDirectories is how deep a workspace is searched.
const maxDirectories = 12

// under returns the directories that match a pattern without stars for several directories, at any depth.
func (r *scriptIndex) under(at []string, pattern []string) (dirs []string) {
	if slices.Contains(pattern, "**") {
		pattern = pattern[slices.Index(pattern, "**")+1:]
	}
	for range maxDirectories {
		var next []string
		for _, d := range at {
			dirs = append(dirs, r.expand(d, pattern)...)
			next = append(next, r.matching(d, "*")...)
		}
		at = next
	}
	return dirs
}

// matching returns the directories in one whose names match a pattern.
func (r *scriptIndex) matching(dir, pattern string) (dirs []string) {
	if !strings.ContainsAny(pattern, "*?[{") {
		if p := path.Join(dir, pattern); r.x.names(p) != nil {
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
	for _, name := range r.x.names(dir) {
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
