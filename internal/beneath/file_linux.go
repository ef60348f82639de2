package beneath

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"
)

// Regular opens a regular file for reading. Anything else is an error, which says
// nothing about the name either.
//
// The file is no [os.File], which would ask the system twice more whether it can wait
// for a file that is always ready: a search opens thousands.
func Regular(dir *os.File, name string, flags int) (fs.File, error) {
	fd, err := open(dir, name, flags)
	if err != nil {
		return nil, err
	}
	f := &file{fd: fd}
	err = again(func() error { return syscall.Fstat(fd, &f.info.stat) })
	if err == nil && f.info.stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = errors.ErrUnsupported
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	f.info.name = path.Base(name)
	return f, nil
}

// file is an open regular file. Its methods are safe for concurrent use.
type file struct {
	info info // as it was opened

	mu sync.RWMutex // Close waits for what goes on
	fd int          // -1 when it is closed
}

// use does something with the descriptor.
func (f *file) use(do func(fd int) (int, error)) (n int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 {
		return 0, fs.ErrClosed
	}
	err = again(func() error {
		n, err = do(f.fd)
		return err
	})
	return max(n, 0), err
}

func again(do func() error) error {
	for {
		if err := do(); err != syscall.EINTR {
			return err
		}
	}
}

// Stat returns what the file was when it was opened.
func (f *file) Stat() (fs.FileInfo, error) { return &f.info, nil }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.use(func(fd int) (int, error) { return syscall.Read(fd, p) })
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// ReadAt implements [io.ReaderAt].
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = f.use(func(fd int) (int, error) { return syscall.Pread(fd, p[n:], off+int64(n)) })
		if n += k; k == 0 && err == nil {
			err = io.EOF
		}
	}
	return n, err
}

// Seek implements [io.Seeker].
func (f *file) Seek(offset int64, whence int) (at int64, err error) {
	_, err = f.use(func(fd int) (int, error) {
		at, err = syscall.Seek(fd, offset, whence)
		return 0, err
	})
	return at, err
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return fs.ErrClosed
	}
	fd := f.fd
	f.fd = -1
	return syscall.Close(fd)
}

// info tells of a regular file.
type info struct {
	name string
	stat syscall.Stat_t
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.stat.Size }
func (i *info) ModTime() time.Time { return time.Unix(i.stat.Mtim.Unix()) }
func (i *info) IsDir() bool        { return false }
func (i *info) Sys() any           { return &i.stat }

func (i *info) Mode() fs.FileMode {
	mode := fs.FileMode(i.stat.Mode & 0o777)
	for bit, special := range map[uint32]fs.FileMode{
		syscall.S_ISUID: fs.ModeSetuid, syscall.S_ISGID: fs.ModeSetgid, syscall.S_ISVTX: fs.ModeSticky,
	} {
		if i.stat.Mode&bit != 0 {
			mode |= special
		}
	}
	return mode
}
