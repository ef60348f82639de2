package codegraph

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/search"
)

// FS is what a graph reads: a [github.com/aycoder/aycoder/workspace.Workspace], for example, which lets
// no path out of its directory. Names are relative to it, with slashes, and "." is the root. The
// methods must be safe for concurrent use.
type FS interface {
	// Open opens a regular file.
	Open(name string) (fs.File, error)
	// ReadDir returns the entries of a directory, sorted by name. If it is too large, it may return a
	// part of them with an error. If Info of an entry is an error, the file is read again by each
	// [Graph.Refresh] of the whole workspace.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
}

// A stamp tells versions of a file apart without reading it.
type stamp struct {
	size int64
	time int64 // of the last change, in microseconds since 1970
	real int64 // the same, where the system has a time that no program can set, or time
}

func stampFrom(info fs.FileInfo) stamp {
	_, changed := regular.Identity(info)
	return stamp{info.Size(), info.ModTime().UnixMicro(), changed.UnixMicro()}
}

// A walked file is a regular file of the workspace.
type walked struct {
	path string
	stamp
}

// maxIndex is the number of bytes of git's index that are read: about 500,000 files.
const maxIndex = 64 << 20

// walk lists the files that git would: those that are tracked, and those that no pattern ignores, without
// other repositories. Without a repository, it also leaves out directories of dependencies. Symbolic links
// are not followed. The index of the workspace itself is that of git, and may be outside of it. The list is
// sorted. If there are more than limit files, more is true, and which are left out is not said. It is also true if
// a directory is so large that only a part of it is listed.
func walk(ctx context.Context, files, git FS, ignored []byte, limit int) (found []walked, more bool, err error) {
	var tracked []string
	repository := map[string]bool{} // by root
	partial := false                // a directory was too large to list
	down := []search.Directory{search.Start(files, ".", ignored)}
	for len(down) > 0 && !more {
		dir := down[len(down)-1]
		down = down[:len(down)-1]
		root, rest := rootpath.Cut(dir.Path)
		if rest == "." {
			name, in := path.Join(dir.Path, ".git"), files
			repository[root] = exists(files, name+"/HEAD") || exists(files, name) // a file in a worktree
			if dir.Path == "." {
				in = git
			}
			for _, name := range gitrepo.Tracked(readAll(in, name+"/index", maxIndex)) {
				tracked = append(tracked, rootpath.Join(root, name))
			}
		}
		listing, err := search.Children(ctx, files, dir, !repository[root])
		if err != nil && (ctx.Err() != nil || dir.Path == ".") {
			return nil, false, cmp.Or(context.Cause(ctx), err)
		}
		if err != nil || rest != "." && nested(files, listing, dir.Path) {
			continue // a directory that cannot be read has no files
		}
		partial = partial || listing.Partial
		for _, e := range listing.Entries {
			if e.Entry.Type().IsRegular() && e.Entry.Name() != ".git" {
				found = append(found, walked{e.Path, stampOf(e.Entry)})
			}
		}
		for _, d := range listing.Down {
			if path.Base(d.Path) != ".git" {
				down = append(down, d)
			}
		}
		more = len(found) > limit
	}
	order.By(found, compare)
	lists := lists{files, map[string][]fs.DirEntry{}}
	untracked := len(found)
	for _, name := range tracked {
		if _, ok := slices.BinarySearchFunc(found[:untracked], name, byPath); ok || !fs.ValidPath(name) {
			continue
		}
		if e := lists.entry(ctx, name); e != nil && e.Type().IsRegular() { // ignored, but tracked
			found = append(found, walked{name, stampOf(e)})
		}
	}
	order.By(found, compare)
	if len(found) > limit {
		return found[:limit], true, nil
	}
	return found, more || partial, nil
}

func compare(a, b *walked) int { return strings.Compare(a.path, b.path) }

func byPath(w walked, name string) int { return strings.Compare(w.path, name) }

// lists are the entries of directories that were looked at.
type lists struct {
	files FS
	dirs  map[string][]fs.DirEntry
}

// entry returns what has a name, or nil. No directory on the way to it may be a symbolic link.
func (l lists) entry(ctx context.Context, name string) fs.DirEntry {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	entries, ok := l.dirs[dir]
	if !ok {
		if dir == "." || isDir(l.entry(ctx, dir)) {
			entries, _ = l.files.ReadDir(ctx, dir) // what cannot be listed has no files
		}
		l.dirs[dir] = entries
	}
	i, ok := slices.BinarySearchFunc(entries, base, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	if !ok {
		return nil
	}
	return entries[i]
}

// regular returns the stamp of a regular file to which no symbolic link leads.
func (l lists) regular(ctx context.Context, name string) (stamp, bool) {
	if files, ok := l.files.(interface {
		Lstat(string) (fs.FileInfo, error)
	}); ok { // of a workspace, which lists no directory for it
		info, err := files.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			return stamp{}, false
		}
		return stampFrom(info), true
	}
	e := l.entry(ctx, name)
	if e == nil || !e.Type().IsRegular() {
		return stamp{}, false
	}
	return stampOf(e), true
}

func isDir(e fs.DirEntry) bool { return e != nil && e.IsDir() }

// nested reports whether a directory is another repository, also if a pattern ignores its .git.
func nested(files FS, listing *search.Listing, dir string) bool {
	return slices.ContainsFunc(listing.Entries, func(e search.Entry) bool { return e.Entry.Name() == ".git" }) ||
		listing.Ignored > 0 && (exists(files, dir+"/.git/HEAD") || exists(files, dir+"/.git"))
}

func stampOf(e fs.DirEntry) stamp {
	info, err := e.Info()
	if err != nil {
		return stamp{size: unread}
	}
	return stampFrom(info)
}

// stat returns the stamp of a file, if it is a regular one that can be opened.
func stat(files FS, name string) (stamp, bool) {
	f, err := files.Open(name)
	if err != nil {
		return stamp{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return stamp{}, false
	}
	return stampFrom(info), true
}

func exists(files FS, name string) bool {
	_, ok := stat(files, name)
	return ok
}

// readAll returns the content of a file, or nil if there is none or it is larger than limit.
func readAll(files FS, name string, limit int64) []byte {
	return readInto(new(bytes.Buffer), files, name, limit)
}

// readInto returns what readAll does, in the memory of a buffer, until that is used again.
func readInto(data *bytes.Buffer, files FS, name string, limit int64) []byte {
	data.Reset()
	f, err := files.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if data.Cap() == 0 {
		room := int64(bytes.MinRead) // for Buffer to find the end without growing
		if info, err := f.Stat(); err == nil {
			room += min(max(info.Size(), 0), limit)
		}
		data.Grow(int(room))
	}
	if n, err := data.ReadFrom(io.LimitReader(f, limit+1)); err != nil || n > limit {
		return nil
	}
	return data.Bytes()
}
