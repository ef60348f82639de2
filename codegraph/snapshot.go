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

// Import is an import that leads to a file of the workspace.
type Import struct {
	// File is that file. For a package of Go, or all classes of a package of Java, it is the directory,
	// with a slash at the end ("./" for the workspace itself).
	File string
	// Index is the index of the import in Imports of the facts of the file that imports.
	Index int
	// Optional says that the file may not be used: it is mocked in a test, or included in a branch that is
	// not compiled, or runs only because its package is imported.
	Optional bool
}

// Imports returns the imports of a file that lead to files of the workspace, in the order of the source.
func (s *Snapshot) Imports(path string) (out []Import) {
	if f := s.file(path); f != nil {
		for _, e := range f.imports {
			out = append(out, Import{e.To, int(e.Import), e.Optional})
		}
	}
	return out
}

// Reference is a declaration of another file that a file uses, also through re-exports.
type Reference struct {
	// File declares the name.
	File string
	// Name is "" if the file is used as a whole.
	Name string
	// Count is how often it is used, or 0 if it is only imported.
	Count int
}

// References returns the declarations of other files that a file uses, sorted by File and Name.
func (s *Snapshot) References(path string) (out []Reference) {
	if f := s.file(path); f != nil {
		for r := range f.refs.All() {
			out = append(out, Reference{r.To, r.Name, int(r.Count)})
		}
	}
	return out
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
