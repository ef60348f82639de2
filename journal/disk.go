package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/internal/flock"
)

// disk is a directory and what is below it. The store in files does everything through a disk, so
// that a test can lose what was not flushed, or fail at any operation. Names are relative and have
// slashes. No operation leaves the directory.
type disk interface {
	// open opens a regular file, with the flags of package os. It refuses links and devices.
	open(name string, flag int) (diskFile, error)
	// sub opens a directory, and refuses a link.
	sub(name string) (disk, error)
	mkdir(name string) error
	rename(from, to string) error
	remove(name string) error
	names(dir string) ([]string, error)
	// stat returns the size and the time of the last change. It does not follow links.
	stat(name string) (size int64, changed time.Time, err error)
	// sync flushes the names in a directory.
	sync(dir string) error
	// size returns the size of f, which must still have the given name: a directory above it may
	// have been removed or moved.
	size(name string, f diskFile) (int64, error)
	// lock locks f until it is closed or the process ends. It returns false if f is locked by
	// someone else, in this process or in another.
	lock(f diskFile) (bool, error)
	// unlock ends the lock of f, which is about to be closed.
	unlock(f diskFile)
	close() error
}

// diskFile is an open file. [os.File] implements it.
type diskFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

var (
	errIrregular = errors.New("it is not a regular file")
	errMoved     = errors.New("the file was moved, removed or replaced while it was open")
)

// rootDisk is a directory of the operating system.
type rootDisk struct {
	*os.Root
	path string // absolute
}

func openDisk(path string) (disk, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return rootDisk{root, path}, nil
}

// open compares the file with what its name was before. So neither a link is followed, nor does
// the opening of a pipe wait for its other end.
func (d rootDisk) open(name string, flag int) (diskFile, error) {
	const tries = 10 // another process may replace the file meanwhile, by a rename
	for i := 0; ; i++ {
		before, err := d.Lstat(name)
		if err == nil && !before.Mode().IsRegular() {
			return nil, &fs.PathError{Op: "open", Path: d.full(name), Err: errIrregular}
		}
		if err != nil && flag&os.O_CREATE == 0 {
			return nil, err
		}
		f, err := d.OpenFile(name, flag, 0o600)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() && (before == nil || os.SameFile(before, info)) {
			return f, nil
		}
		f.Close()
		if i == tries {
			return nil, &fs.PathError{Op: "open", Path: d.full(name), Err: errMoved}
		}
	}
}

func (d rootDisk) full(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

func (d rootDisk) sub(name string) (disk, error) {
	info, err := d.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: d.full(name), Err: syscall.ENOTDIR}
	}
	root, err := d.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return rootDisk{root, d.full(name)}, nil
}

func (d rootDisk) mkdir(name string) error       { return d.Mkdir(name, 0o700) }
func (d rootDisk) rename(from, to string) error  { return d.Rename(from, to) }
func (d rootDisk) remove(name string) error      { return d.Remove(name) }
func (d rootDisk) close() error                  { return d.Close() }
func (d rootDisk) lock(f diskFile) (bool, error) { return flock.Try(f.(*os.File)) }
func (d rootDisk) unlock(f diskFile)             { _ = flock.Unlock(f.(*os.File)) }

func (d rootDisk) stat(name string) (int64, time.Time, error) {
	info, err := d.Lstat(name)
	if err != nil {
		return 0, time.Time{}, err
	}
	return info.Size(), info.ModTime(), nil
}

// names does not look up the entries, as os.File.ReadDir does in an os.Root. That takes longer than
// reading the index.
func (d rootDisk) names(dir string) ([]string, error) {
	f, err := d.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d rootDisk) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // NTFS keeps a journal of names, and directories cannot be flushed
	}
	f, err := d.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// size looks the name up from the root of the file system: a directory that was moved is open
// still, but nobody will find in it what is written.
func (d rootDisk) size(name string, f diskFile) (int64, error) {
	info, err := f.(*os.File).Stat()
	if err != nil {
		return 0, err
	}
	named, err := os.Lstat(d.full(name))
	if err != nil {
		return 0, err
	}
	if !os.SameFile(info, named) {
		return 0, &fs.PathError{Op: "stat", Path: d.full(name), Err: errMoved}
	}
	return info.Size(), nil
}

// makeDirs makes a directory and those above it, durably.
func makeDirs(path string) error {
	_, err := os.Stat(path)
	above := filepath.Dir(path)
	if !errors.Is(err, fs.ErrNotExist) || above == path {
		return err
	}
	if err := makeDirs(above); err != nil {
		return err
	}
	if err := ignoreExisting(os.Mkdir(path, 0o700)); err != nil {
		return err
	}
	d, err := openDisk(above)
	if err != nil {
		return err
	}
	defer d.close()
	return d.sync(".")
}
