// Package regular reads files that somebody else may have put there: a named pipe, a device or a file that is too
// large in their place is an error, and never makes the program wait or fill its memory.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading. Symbolic links are followed. The error is an [*fs.PathError].
func Open(name string) (*os.File, error) { return openRegular(name, os.Stat, os.OpenFile) }

// OpenIn is like [Open] for a file in a root. The name is in the form of the system.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return openRegular(name, root.Stat, root.OpenFile)
}

// Read returns the contents of a regular file of at most the given number of bytes. The rest is
// as with [Open].
func Read(name string, most int64) ([]byte, error) {
	return read(name, most, os.Stat, os.OpenFile)
}

// ReadIn is like [Read] for a file in a root. The name is in the form of the system.
func ReadIn(root *os.Root, name string, most int64) ([]byte, error) {
	return read(name, most, root.Stat, root.OpenFile)
}

type (
	statter func(name string) (fs.FileInfo, error)
	opener  func(name string, flag int, mode fs.FileMode) (*os.File, error)
)

func read(name string, most int64, stat statter, open opener) ([]byte, error) {
	f, err := openRegular(name, stat, open)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	var data []byte
	if err == nil && info.Size() <= most { // a file that grows is read no further either
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if err == nil && max(info.Size(), int64(len(data))) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", most)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// openRegular looks at the file twice: before it is opened, since opening a device may do something, and after that,
// since it may have been replaced meanwhile.
func openRegular(name string, stat statter, open opener) (*os.File, error) {
	if err := check(name, func() (fs.FileInfo, error) { return stat(name) }); err != nil {
		return nil, err
	}
	f, err := open(name, os.O_RDONLY|nonblock, 0)
	if nonblock != 0 && errors.Is(err, syscall.EAGAIN) {
		f, err = open(name, os.O_RDONLY, 0) // a lease on a regular file: the system ends it in time
	}
	if err != nil {
		return nil, err
	}
	if err := check(name, f.Stat); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func check(name string, stat func() (fs.FileInfo, error)) error {
	info, err := stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	return err
}
