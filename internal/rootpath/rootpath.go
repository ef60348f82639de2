// Package rootpath knows the paths in a workspace of several directories, its roots.
//
// The files of the first root have their plain paths, such as "src/a.go". Those of a further
// root have its name with a colon as their first element, such as "lib:/src/a.go", and the
// root itself is "lib:". So package path splits and joins all of them alike, and a walk from
// "." finds the further roots as directories. A first element of that form is a root even if
// the workspace has none of that name: what a path means does not depend on that.
package rootpath

import (
	"path"
	"strings"
)

// maxName bounds the length of a name, in bytes.
const maxName = 64

// Valid reports whether a root may have this name: a letter, then at least one more letter, digit,
// dot, hyphen or underscore. A single letter would be a drive of Windows.
func Valid(name string) bool {
	if len(name) < 2 || len(name) > maxName || !letter(name[0]) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune("._-", rune(c)) {
			return false
		}
	}
	return true
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// Cut splits a slash-separated path into the name of its root and the path in there, which is "."
// for the root itself. The name of the first root is "".
func Cut(p string) (root, rest string) {
	first, rest, _ := strings.Cut(p, "/")
	root, ok := strings.CutSuffix(first, ":")
	if !ok || !Valid(root) {
		return "", p
	}
	if rest == "" {
		rest = "."
	}
	return root, rest
}

// IsRoot reports whether a path is that of a further root itself.
func IsRoot(p string) bool {
	root, rest := Cut(p)
	return root != "" && rest == "."
}

// Meant reports whether a pattern that permits something may be about the root of a path: a wildcard for a directory
// of the first root does not stand for another root. Only "**" does, which is all of the workspace.
func Meant(pattern, p string) bool {
	root, _ := Cut(p)
	first, _, _ := strings.Cut(pattern, "/")
	return root == "" || first == "**" || strings.HasSuffix(first, ":")
}

// Join returns the path of a file of a root: it is the reverse of Cut.
func Join(root, rest string) string {
	if root == "" {
		return rest
	}
	return path.Join(root+":", rest)
}

// Clean is [path.Clean] for a path that must not lead from one root to another, neither by ".."
// nor by a name of a root that does not stand first. Of such a path the ".." stay, or "./" stands
// before the name, so that whoever opens it refuses it.
func Clean(p string) string {
	root, rest := Cut(p)
	if root == "" {
		p = path.Clean(p)
		if root, _ := Cut(p); root != "" {
			p = "./" + p
		}
		return p
	}
	rest = path.Clean(strings.TrimLeft(rest, "/"))
	if rest == ".." || strings.HasPrefix(rest, "../") {
		return root + ":/" + rest
	}
	return Join(root, rest)
}
