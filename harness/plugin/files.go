package plugin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxFiles = 5000
	maxFile  = 16 << 20 // bytes
	maxAll   = 64 << 20 // bytes of all files
	maxDeep  = 24       // directories within each other
)

var (
	errMany    = fmt.Errorf("has more than %d files", maxFiles)
	errLarge   = fmt.Errorf("is larger than %d MiB", maxFile>>20)
	errAll     = fmt.Errorf("its files have more than %d MiB", maxAll>>20)
	errChanged = errors.New("has changed since it was looked at")
)

// A file is what belongs to the hash of a plugin.
type file struct {
	sum  [sha256.Size]byte
	size int64
	run  bool // may be executed
}

// Files are the files of a plugin as they were when it was read. Open returns an error for one that has changed since.
// They implement Files of package project, and are safe for concurrent use.
type Files struct {
	dir   string
	files map[string]file
	dirs  map[string][]fs.DirEntry
	left  []string // links, pipes and the like
}

// gitNames matches names in a directory that is a repository, in each spelling that a file system takes for .git.
var gitNames = late.Regexp(`(?i)(^|/)(\.git[. ]*|git~[0-9]+)(/|$)`)

// sane reports whether a name of a file, with slashes, may be in a plugin.
func sane(name string) error {
	switch {
	case !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name || strings.Contains(name, `\`) ||
		strings.Contains(name, ":"):
		return errors.New("is no name of a file in a directory")
	case gitNames().MatchString(name):
		return errors.New("is in a repository of git")
	case runes.Path(name) != name:
		return errors.New("has characters in its name that mislead, or is too long")
	case strings.Count(name, "/") > maxDeep:
		return errors.New("is too deep")
	}
	return nil
}

// A walker calls visit for each regular file, and left for links, pipes and the like.
type walker struct {
	root  *os.Root
	visit func(name string, info fs.FileInfo) error
	left  func(name string)
	// copies says that a repository is left out. Otherwise it is an error, so that nothing is outside of the hash.
	copies bool
	count  int
	bytes  int64
}

// walk visits the files below a directory in the order of their names.
func (w *walker) walk(ctx context.Context, dir string) error {
	f, err := w.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(maxFiles + 1 - w.count)
	if err := errors.Join(ignoreEOF(err), f.Close()); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := w.entry(ctx, path.Join(dir, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (w *walker) entry(ctx context.Context, name string, e fs.DirEntry) error {
	if w.copies && e.Name() == ".git" {
		return nil
	}
	if w.count++; w.count > maxFiles {
		return errMany
	}
	if err := sane(name); err != nil {
		return &fs.PathError{Op: "read", Path: name, Err: err}
	}
	switch {
	case e.IsDir():
		return w.walk(ctx, name)
	case !e.Type().IsRegular():
		w.left(name)
		return nil
	}
	info, err := w.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	if w.bytes += info.Size(); info.Size() > maxFile {
		return &fs.PathError{Op: "read", Path: name, Err: errLarge}
	}
	if w.bytes > maxAll {
		return errAll
	}
	return w.visit(name, info)
}

// scan reads the files of a directory.
func scan(ctx context.Context, dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f := &Files{dir: dir, files: map[string]file{}, dirs: map[string][]fs.DirEntry{".": nil}}
	w := walker{root: root, left: func(name string) { f.left = append(f.left, name) }}
	w.visit = func(name string, info fs.FileInfo) error {
		data, err := regular.ReadIn(root, filepath.FromSlash(name), maxFile)
		if err != nil {
			return err
		}
		f.add(name, file{sha256.Sum256(data), int64(len(data)), info.Mode()&0o100 != 0})
		return nil
	}
	return f, w.walk(ctx, ".")
}

// add adds a file, and its directories.
func (f *Files) add(name string, x file) {
	f.files[name] = x
	var e fs.DirEntry = entry{path.Base(name), x.size, 0o644}
	for {
		dir := path.Dir(name)
		_, known := f.dirs[dir]
		f.dirs[dir] = append(f.dirs[dir], e)
		if known {
			return
		}
		name, e = dir, entry{path.Base(dir), 0, fs.ModeDir | 0o755}
	}
}

// hash identifies the contents.
func (f *Files) hash() string {
	h := sha256.New()
	for _, name := range f.Names() {
		x := f.files[name]
		fmt.Fprintf(h, "%d %s %t %x\n", len(name), name, x.run, x.sum)
	}
	for _, name := range f.left {
		fmt.Fprintf(h, "left out %d %s\n", len(name), name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Names returns the names of all files, sorted.
func (f *Files) Names() []string { return slices.Sorted(maps.Keys(f.files)) }

// Rel implements Files of package project.
func (f *Files) Rel(name string) (string, error) {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(f.dir, name)
		if err != nil {
			return "", err
		}
		name = rel
	}
	name = path.Clean(filepath.ToSlash(name))
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return name, nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *Files) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	rel, err := f.Rel(name)
	if err != nil {
		return nil, err
	}
	entries, ok := f.dirs[rel]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Open opens a file. It reads the file as a whole. In a Markdown file, ${CLAUDE_PLUGIN_ROOT} is replaced.
func (f *Files) Open(name string) (fs.File, error) {
	data, err := f.read(name)
	if err != nil {
		return nil, err
	}
	if path.Ext(name) == ".md" {
		data = bytes.ReplaceAll(data, []byte("${"+rootVariable+"}"), []byte(f.dir))
	}
	return &opened{bytes.NewReader(data), entry{path.Base(name), int64(len(data)), 0o644}}, nil
}

func (f *Files) read(name string) ([]byte, error) {
	rel, err := f.Rel(name)
	if err != nil {
		return nil, err
	}
	known, ok := f.files[rel]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := regular.ReadIn(root, filepath.FromSlash(rel), maxFile)
	if err == nil && sha256.Sum256(data) != known.sum {
		err = &fs.PathError{Op: "open", Path: name, Err: errChanged}
	}
	return data, err
}

// An entry describes a file or a directory.
type entry struct {
	name string
	size int64
	mode fs.FileMode
}

func (e entry) Name() string               { return e.name }
func (e entry) Size() int64                { return e.size }
func (e entry) Mode() fs.FileMode          { return e.mode }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Sys() any                   { return nil }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }

// opened is an open file.
type opened struct {
	*bytes.Reader
	info entry
}

// Stat implements fs.File.
func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }

// Close implements fs.File.
func (o *opened) Close() error { return nil }
