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
	// ReadDir returns the entries of a directory, sorted by name. Of a very large one it
	// may return a part, and an error.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Open opens a regular file.
	Open(name string) (fs.File, error)
}

// maxIgnoreFile is how much of an ignore file is read.
const maxIgnoreFile = 1 << 20

// Directory is a directory with the ignore patterns of those above it.
type Directory struct {
	Path  string
	layer *ignore.Layer
}

// Entry is a file or directory.
type Entry struct {
	Path  string
	Entry fs.DirEntry
}

// Start returns a directory to start from. Its entries are subject to the ignore files above
// it, but the directory itself is not: a caller who names an ignored directory means it.
//
// Git's order is that of the layers, the last one that has a pattern for a path
// decides: more, which are the user's own patterns for all repositories (what git
// reads from core.excludesFile), .git/info/exclude, .gitignore from the top.
func Start(src Source, directory string, more []byte) Directory {
	var l *ignore.Layer
	l = l.Push("", more).Push("", read(src, ".git/info/exclude"))
	for i := range len(directory) {
		if directory != "." && (i == 0 || directory[i] == '/') {
			l = l.Push(directory[:i], read(src, path.Join(directory[:i], ".gitignore")))
		}
	}
	return Directory{directory, l}
}

// read returns the beginning of a file, or nil.
func read(src Source, name string) []byte {
	f, err := src.Open(name)
	if err != nil {
		return nil // no such file, mostly; one that cannot be read ignores nothing
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return data
}

// Listing is what is in a directory.
type Listing struct {
	// Entries are what is not ignored, sorted by name.
	Entries []Entry
	// Down are the directories among them, in the same order.
	Down []Directory
	// Ignored is how many entries are left out, those that git ignores, and with deep
	// directories of version control and dependencies.
	Ignored int
	// Partial says that the directory has more entries than the source returned.
	Partial bool
}

// Children lists a directory. With deep, directories of version control and dependencies are
// left out too. Entries that a source returns with an error, other than that of ctx, are taken
// for a part of the directory.
func Children(ctx context.Context, src Source, dir Directory, deep bool) (*Listing, error) {
	entries, err := src.ReadDir(ctx, dir.Path)
	if err != nil && (len(entries) == 0 || ctx.Err() != nil) {
		return nil, err
	}
	found := &Listing{Partial: err != nil}
	l := dir.layer
	for _, e := range entries {
		if e.Name() == ".gitignore" && e.Type().IsRegular() {
			l = l.Push(dir.Path, read(src, path.Join(dir.Path, ".gitignore")))
		}
	}
	for _, e := range entries {
		if ctx.Err() != nil { // many patterns take long
			return nil, context.Cause(ctx)
		}
		p := e.Name()
		if dir.Path != "." {
			p = dir.Path + "/" + p
		}
		if ignore.Temp(p) {
			continue
		}
		if l.Ignored(p, e.IsDir()) || deep && e.IsDir() && ignore.Skipped(e.Name()) {
			found.Ignored++
			continue
		}
		found.Entries = append(found.Entries, Entry{p, e})
		if e.IsDir() {
			found.Down = append(found.Down, Directory{p, l})
		}
	}
	return found, nil
}
