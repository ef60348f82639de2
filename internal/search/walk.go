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
	// ReadDir returns the entries of a folder, sorted by name. Of a very large one it
	// may return a part, and an error.
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
//
// Git's order is that of the layers, the last one that has a pattern for a path
// decides: more, which are the user's own patterns for all repositories (what git
// reads from core.excludesFile), .git/info/exclude, .gitignore from the top.
func Start(src Source, folder string, more []byte) Folder {
	var l *ignore.Layer
	l = l.Push("", more).Push("", read(src, ".git/info/exclude"))
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

// Listing is what is in a folder.
type Listing struct {
	// Entries are what is not ignored, sorted by name.
	Entries []Entry
	// Down are the folders among them, in the same order.
	Down []Folder
	// Ignored is how many entries are left out, those that git ignores, and with deep
	// folders of version control and dependencies.
	Ignored int
	// Partial says that the folder has more entries than the source returned.
	Partial bool
}

// Children lists a folder. With deep, folders of version control and dependencies are
// left out too. What a source returns beside an error other than that of ctx is taken
// for a part of the folder.
func Children(ctx context.Context, src Source, dir Folder, deep bool) (*Listing, error) {
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
			found.Down = append(found.Down, Folder{p, l})
		}
	}
	return found, nil
}
