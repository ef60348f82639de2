// Package search lists the files of a workspace and searches their text.
package search

import (
	"context"
	"io"
	"io/fs"
	"path"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/rootpath"
)

// Source is a tree of files. Paths are slash-separated, and "." is the root.
type Source interface {
	// ReadDir returns the entries of a directory, sorted by name. If a directory is very large,
	// it may return a part of the entries with an error.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Open opens a regular file.
	Open(name string) (fs.File, error)
}

// maxIgnoreFile is the number of bytes of an ignore file that are read. The rest is not used.
const maxIgnoreFile = 1 << 20

// Directory is a directory together with the ignore patterns of all directories above it.
type Directory struct {
	Path  string
	layer *ignore.Layer
	more  []byte // see Start
}

// Entry is a file or directory with its path from the root.
type Entry struct {
	Path  string
	Entry fs.DirEntry
}

// Start returns the directory to start from. The ignore files above it apply to its entries, but
// not to the directory itself: if a caller names an ignored directory, the caller means it.
//
// The order of the patterns is that of git, and for each path the last pattern that matches
// decides. First come the user's own patterns for all repositories, which the caller passes as
// the parameter more (git's core.excludesFile). Then come those of .git/info/exclude, and then
// those of each .gitignore file, from the root downwards. Of several roots (package rootpath),
// each has separate patterns.
func Start(src Source, directory string, more []byte) Directory {
	root, rest := rootpath.Cut(directory)
	top := rootpath.Join(root, ".")
	var l *ignore.Layer
	l = l.Push(top, more).Push(top, read(src, path.Join(top, ".git/info/exclude")))
	for i := range len(rest) {
		if rest != "." && (i == 0 || rest[i] == '/') {
			above := rootpath.Join(root, path.Clean(rest[:i]))
			l = l.Push(above, read(src, path.Join(above, ".gitignore")))
		}
	}
	return Directory{directory, l, more}
}

// read returns the content of an ignore file, cut off at maxIgnoreFile, or nil.
func read(src Source, name string) []byte {
	f, err := src.Open(name)
	if err != nil {
		return nil // no such file, mostly; one that cannot be read ignores nothing
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return data
}

// Listing is the content of a directory, as [Children] returns it.
type Listing struct {
	// Entries are the entries that are not ignored, sorted by name.
	Entries []Entry
	// Down are those of Entries that are directories, in the same order.
	Down []Directory
	// Ignored is the number of entries that were left out.
	Ignored int
	// Partial reports that the source returned only a part of the entries.
	Partial bool
}

// Children lists a directory without the entries that git ignores. If deep is set, it also leaves
// out directories of version control and dependencies. If the source returns some entries with an
// error, these are listed, and the listing is partial; but if ctx has ended, Children returns the
// error.
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
		if rootpath.IsRoot(p) {
			found.Entries = append(found.Entries, Entry{p, e})
			found.Down = append(found.Down, Start(src, p, dir.more))
			continue
		}
		if l.Ignored(p, e.IsDir()) || deep && e.IsDir() && ignore.Skipped(e.Name()) {
			found.Ignored++
			continue
		}
		found.Entries = append(found.Entries, Entry{p, e})
		if e.IsDir() {
			found.Down = append(found.Down, Directory{p, l, dir.more})
		}
	}
	return found, nil
}
