// Package search walks the files of a workspace and searches their text.
package search

import (
	"context"
	"io"
	"io/fs"
	"path"

	"github.com/aycoder/aycoder/internal/ignore"
)

// Source is the files to walk. Paths are slash-separated, "." is the root.
type Source interface {
	// ReadDir returns the entries of a folder, sorted by name.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Open opens a regular file.
	Open(name string) (fs.File, error)
}

// maxIgnoreFile is how much of an ignore file is read.
const maxIgnoreFile = 1 << 20

// Folder is a folder with the ignore patterns of those above it.
type Folder struct {
	Path  string
	layer *ignore.Layer
}

// Entry is a file or folder.
type Entry struct {
	Path  string
	Entry fs.DirEntry
}

// Start returns a folder to start from. What is in it is subject to the ignore
// files above it, but it itself is not: whoever names an ignored folder means it.
func Start(src Source, folder string) Folder {
	var l *ignore.Layer
	l = l.Push("", read(src, ".git/info/exclude"))
	for i := range len(folder) {
		if folder != "." && (i == 0 || folder[i] == '/') {
			l = l.Push(folder[:i], read(src, path.Join(folder[:i], ".gitignore")))
		}
	}
	return Folder{folder, l}
}

func read(src Source, name string) []byte {
	f, err := src.Open(name)
	if err != nil {
		return nil // no such file, mostly; one that cannot be read ignores nothing
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return data
}

// Children returns what is in a folder and not ignored, sorted by name, and how many
// entries are. The folders among the entries that a walk goes into come again in
// down; with deep, folders of version control and dependencies are left out.
func Children(
	ctx context.Context, src Source, dir Folder, deep bool,
) (all []Entry, down []Folder, ignored int, err error) {
	entries, err := src.ReadDir(ctx, dir.Path)
	if err != nil {
		return nil, nil, 0, err
	}
	l := dir.layer
	for _, e := range entries {
		if e.Name() == ".gitignore" && e.Type().IsRegular() {
			l = l.Push(dir.Path, read(src, path.Join(dir.Path, ".gitignore")))
		}
	}
	for _, e := range entries {
		if ctx.Err() != nil { // many patterns take long
			return nil, nil, 0, context.Cause(ctx)
		}
		p := path.Join(dir.Path, e.Name())
		if l.Ignored(p, e.IsDir()) || deep && e.IsDir() && ignore.Skipped(e.Name()) {
			ignored++
			continue
		}
		all = append(all, Entry{p, e})
		if e.IsDir() {
			down = append(down, Folder{p, l})
		}
	}
	return all, down, ignored, nil
}
