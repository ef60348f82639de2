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
		for _, d := range r.x.expand(dir, strings.Split(path.Clean(glob), "/")) {
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
