package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/internal/beneath"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/rootpath"
)

// Open opens a regular file for reading. For a pipe or a device, it returns an error and does not
// block. While Apply exchanges the file, Open waits, for at most 100 ms.
func (w *Workspace) Open(name string) (fs.File, error) {
	f, err := w.openRegular(name)
	for try := 0; try < maxTries && errors.Is(err, syscall.EAGAIN); try++ { // see held.closeToOthers
		time.Sleep(time.Millisecond)
		f, err = w.openRegular(name)
	}
	return f, err
}

func (w *Workspace) openRegular(name string) (fs.File, error) {
	rel, err := w.rel("read", name)
	if err == nil {
		err = w.mayRead(name, rel)
	}
	if err != nil {
		return nil, err
	}
	r, sub := w.in(rel)
	if f, err := beneath.Regular(r.self, sub, openFlags); err == nil {
		return f, nil
	}
	f, exact, err := w.open(rel, openFlags)
	if err != nil {
		return nil, wrapError("read", name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = checkRegular("read", name, info)
	}
	if err == nil && !exact {
		err = w.checkOpened(f, name, rel)
	}
	if err != nil {
		f.Close()
		return nil, wrapError("read", name, err)
	}
	return f, nil
}

// open opens a clean path for reading. Exact says that there was no symbolic link on the way
// and that the kernel resolved the path in one step. The kernel does not follow paths that lead
// out; for all that it refuses, [os.Root] decides.
func (w *Workspace) open(rel string, flags int) (f *os.File, exact bool, err error) {
	r, sub := w.in(rel)
	if f, err := beneath.Open(r.self, sub, os.O_RDONLY|flags); err == nil {
		return f, true, nil
	}
	f, err = r.root.OpenFile(filepath.FromSlash(sub), os.O_RDONLY|flags, 0)
	return f, false, err
}

// checkOpened checks the path of a file that was opened through links, since a link can change
// between the check of its name and the call of open.
func (w *Workspace) checkOpened(f *os.File, name, rel string) error {
	r, sub := w.in(rel)
	final, ok := r.finalName(f)
	if !ok {
		var err error
		if final, err = r.resolve("read", name, sub); err != nil {
			return err
		}
	}
	return w.mayRead(name, r.path(final))
}

// checkRegular refuses devices and pipes, a read of which may never end.
func checkRegular(op, name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return &Error{op, name, KindIsDirectory, errors.New("is a directory")}
	case !info.Mode().IsRegular():
		return &Error{op, name, KindNotRegular, errors.New("is not a regular file")}
	}
	return nil
}

// ReadDir returns the entries of a directory, sorted by name. It omits the temporary files of
// [Workspace.Apply]. If the directory has more than 200,000 entries, ReadDir returns the 200,000
// that the system lists first, together with an error of kind [KindTooLarge]. If ctx ends,
// ReadDir returns the cause of the cancellation.
func (w *Workspace) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return w.readDir(ctx, name, maxEntries)
}

// readDir lists a directory without the temporary files of plans. Of one that is too large
// it returns the entries that were read, with an error.
func (w *Workspace) readDir(ctx context.Context, name string, limit int) ([]fs.DirEntry, error) {
	rel, err := w.rel("list", name)
	if err != nil {
		return nil, err
	}
	f, _, err := w.open(rel, openFlags|directoryFlags)
	if err != nil {
		return nil, wrapError("list", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.IsDir() {
		return nil, &Error{"list", name, KindNotDirectory, errors.New("is not a directory")}
	}
	var entries []fs.DirEntry
	hidden := ignore.Temp
	if rel == "." {
		entries = w.entries()
		hidden = func(name string) bool {
			return ignore.Temp(name) || w.named(strings.TrimSuffix(name, ":")) != nil && rootpath.IsRoot(name)
		}
	}
	for ; err == nil && len(entries) <= limit; err = cmp.Or(context.Cause(ctx), err) {
		var some []fs.DirEntry
		some, err = f.ReadDir(4096) // in batches, since a large directory takes long
		entries = append(entries, slices.DeleteFunc(some, func(e fs.DirEntry) bool { return hidden(e.Name()) })...)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(entries) > limit:
		entries = entries[:limit]
		err = &Error{"list", name, KindTooLarge, fmt.Errorf("has more than %d entries", limit)}
	case err == io.EOF:
		err = nil
	default:
		return nil, wrapError("list", name, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
