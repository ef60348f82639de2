package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/runes"
)

// Root is a directory of a [Workspace].
type Root struct {
	// Name is the name of a further root (see [WithRoot]), or "" for the first one.
	Name string
	// Dir is the absolute path of the directory, as it was given.
	Dir string
}

// RootName returns a name for a further root: the last element of its path, without what a name cannot
// have, or "dir" if nothing is left. Two directories may get the same name.
func RootName(dir string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && rootpath.Valid("xx"+string(r)) {
			return r
		}
		return '-'
	}, filepath.Base(dir))
	name = strings.TrimRight(strings.TrimLeft(name, "-._0123456789"), "-.")
	if name = name[:min(len(name), 60)]; !rootpath.Valid(name) {
		return "dir"
	}
	return name
}

// WithRoot adds a directory to the workspace. Its files have the path of their name in the
// directory behind the name of the root with a colon, such as "lib:/src/a.go", and the directory
// itself is "lib:". ReadDir of "." lists it as a directory, so that a walk finds the files of all
// roots, and one plan may change files of several roots. An absolute path below the directory
// leads to the same file.
//
// Each root is confined by itself: neither a symbolic link nor ".." leads from one root to
// another. The rules for secrets and for files that run code hold in each of them.
//
// The name is a letter and then at least one more letter, digit, ".", "-" or "_", up to 64 bytes.
// The directory must exist, and must be neither in another root nor around one. If it vanishes
// later, or another directory takes its place, the error for its files is of [KindNoRoot]; the
// other roots go on. The name must mean the same directory whenever files are taken back:
// an interrupted plan is recovered only with the roots that it was made with.
//
// A file of the first root that has the name of a further one, such as "lib:", is not listed and
// cannot be reached. A directory of such a name cannot be entered either, also in a workspace
// without this option. Default: no further roots.
func WithRoot(name, dir string) Option {
	return func(w *Workspace) error {
		r, err := (*root)(nil), errors.New("a name is a letter and then letters, digits, dots, hyphens or underscores")
		if rootpath.Valid(name) {
			r, err = newRoot(name, dir)
		}
		if err == nil {
			if slices.ContainsFunc(w.more, func(o *root) bool { return strings.EqualFold(o.Name, name) }) {
				err = errors.New("two roots have this name")
			}
			w.more = append(w.more, r)
		}
		if err != nil {
			return &aycoder.ConfigError{Option: "WithRoot", Err: fmt.Errorf("%q: %w", name, err)}
		}
		return nil
	}
}

// root is an open directory of the workspace. Names in it are clean, slash-separated and relative
// to it.
type root struct {
	Root
	real string   // Dir without symbolic links
	root *os.Root // confines all names
	self *os.File // the directory
}

// newRoot opens a directory.
func newRoot(name, dir string) (*root, error) {
	if dir == "" { // a missing setting must not select where the process happens to be
		return nil, errors.New(`the name of the directory is empty; "." is the current directory`)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r := &root{Root: Root{name, abs}}
	if r.real, err = filepath.EvalSymlinks(abs); err == nil {
		r.root, err = os.OpenRoot(r.real)
	}
	if err == nil {
		r.self, err = r.root.Open(".")
	}
	if err != nil {
		_ = r.close()
		return nil, fmt.Errorf("%s: %w", dir, cause(err))
	}
	return r, nil
}

func (r *root) close() error {
	var errs []error
	if r.root != nil {
		errs = append(errs, r.root.Close())
	}
	if r.self != nil {
		errs = append(errs, r.self.Close())
	}
	return errors.Join(errs...)
}

// path returns the path in the workspace of a name in the root.
func (r *root) path(sub string) string { return rootpath.Join(r.Name, sub) }

// check returns an error if the directory of a further root is not in its place any more. The open
// directory would still work, but nobody would find again what is written to it.
func (r *root) check(op, name string) error {
	if r.Name == "" {
		return nil
	}
	now, err := os.Stat(r.real)
	if err == nil {
		var was fs.FileInfo
		if was, err = r.self.Stat(); err == nil && !os.SameFile(now, was) {
			err = errors.New("another directory is in its place")
		}
	}
	if err != nil {
		return &Error{op, name, KindNoRoot, fmt.Errorf("the directory %s is not there any more: %v", r.Dir, cause(err))}
	}
	return nil
}

// around reports whether the directory is another one or around it. It compares files, not names:
// a file system may know a directory by several.
func (r *root) around(other *root) bool {
	own, err := r.self.Stat()
	for dir := other.real; err == nil; dir = filepath.Dir(dir) {
		info, errDir := os.Stat(dir)
		if errDir == nil && os.SameFile(info, own) {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// separate returns an error if a root is in another one.
func (w *Workspace) separate() error {
	all := w.all()
	for i, a := range all {
		for _, b := range all[:i] {
			if a.around(b) || b.around(a) {
				return &aycoder.ConfigError{Option: "WithRoot", Err: fmt.Errorf("%s and %s are the same directory, or one is in the other", b.Dir, a.Dir)}
			}
		}
	}
	return nil
}

// Roots returns the directories of the workspace, the first one first and the others in the order
// of the options.
func (w *Workspace) Roots() []Root {
	var all []Root
	for _, r := range w.all() {
		all = append(all, r.Root)
	}
	return all
}

func (w *Workspace) all() []*root { return append([]*root{w.first}, w.more...) }

// named returns the further root of a name, or nil.
func (w *Workspace) named(name string) *root {
	for _, r := range w.more {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// in returns the root of a path, and the name of the file in it. [Workspace.rel] has refused the paths
// of other roots.
func (w *Workspace) in(rel string) (*root, string) {
	if name, sub := rootpath.Cut(rel); name != "" {
		if r := w.named(name); r != nil {
			return r, sub
		}
	}
	return w.first, rel
}

// file returns the root of a path, and the name of the file in it in the form of the system.
func (w *Workspace) file(rel string) (*os.Root, string) {
	r, sub := w.in(rel)
	return r.root, filepath.FromSlash(sub)
}

// rootsOf returns the directories of the further roots that a record names files of.
func (w *Workspace) rootsOf(files []recordFile) map[string]string {
	var all map[string]string
	for _, f := range files {
		if r, _ := w.in(f.Edit.Path); r != w.first {
			if all == nil {
				all = map[string]string{}
			}
			all[r.Name] = r.real
		}
	}
	return all
}

// hasRoots returns an error if the workspace lacks one of the roots of a record.
func (w *Workspace) hasRoots(all map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := w.named(name)
		if r == nil || r.real != all[name] {
			return &Error{"recover", rootpath.Join(name, "."), KindNoRoot,
				fmt.Errorf("the plan changes files in %s, which is not in the workspace under this name", runes.Path(all[name]))}
		}
		if err := r.check("recover", rootpath.Join(name, ".")); err != nil {
			return err
		}
	}
	return nil
}

// abs returns a slash-separated absolute path, for an order of files that all processes have in common.
func (w *Workspace) abs(rel string) string {
	r, sub := w.in(rel)
	return path.Join(filepath.ToSlash(r.real), sub)
}

// rootEntry is a further root in the listing of the first one.
type rootEntry struct {
	fs.FileInfo
	name string
}

// Name implements [fs.FileInfo].
func (e rootEntry) Name() string { return e.name }

// entries returns the further roots as entries of a directory.
func (w *Workspace) entries() []fs.DirEntry {
	var all []fs.DirEntry
	for _, r := range w.more {
		if info, err := r.self.Stat(); err == nil {
			all = append(all, fs.FileInfoToDirEntry(rootEntry{info, r.Name + ":"}))
		}
	}
	return all
}
