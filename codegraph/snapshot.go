package codegraph

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder/codegraph/source"
)

// Snapshot is a graph at one moment. It does not change, and is safe for concurrent use. Paths are relative to
// the workspace, with slashes.
type Snapshot struct {
	files   []*file // sorted by path
	partial bool

	linked sync.Once
	link   *links
}

// Partial reports that the workspace has more files than a graph may have, and that some are left out.
func (s *Snapshot) Partial() bool { return s.partial }

// Files returns the paths of all files, sorted, also of those that are not source code.
func (s *Snapshot) Files() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range s.files {
			if !yield(f.path) {
				return
			}
		}
	}
}

// Facts returns what a file says of itself, or nil if there is no such file or it is not known as source
// code. The caller must not change it.
func (s *Snapshot) Facts(path string) *source.Facts {
	if f := s.file(path); f != nil {
		return f.facts
	}
	return nil
}

func (s *Snapshot) at(path string) (int, bool) {
	return slices.BinarySearchFunc(s.files, path, fileByPath)
}

func (s *Snapshot) file(path string) *file {
	if i, ok := s.at(path); ok {
		return s.files[i]
	}
	return nil
}

// list returns the names in a directory, sorted, those of directories with a slash.
func (s *Snapshot) list(dir string) (names []string) {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	for i, _ := s.at(prefix); i < len(s.files); {
		rest, ok := strings.CutPrefix(s.files[i].path, prefix)
		if !ok {
			break
		}
		name, _, isDir := strings.Cut(rest, "/")
		if !isDir {
			names = append(names, name)
			i++
			continue
		}
		names = append(names, name+"/")
		i, _ = s.at(prefix + name + "0") // the byte after the slash: after all that is in the directory
	}
	slices.Sort(names)
	return names
}
