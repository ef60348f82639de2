package journal

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Memory returns a store that keeps sessions in memory, for conversations that must leave nothing
// on disk. The sessions are lost when the process ends, also those that were appended durably.
func Memory() Store {
	mu, root := new(sync.Mutex), &memoryNode{names: map[string]*memoryNode{}}
	return &dirStore{open: func(string) (disk, error) { return &memoryDisk{mu: mu, root: root}, nil }}
}

// memoryNode is a file or, with names, a directory.
type memoryNode struct {
	names   map[string]*memoryNode
	data    []byte
	changed time.Time
	lock    *memoryFile
}

// memoryDisk is a directory in memory. All disks of a store share the mutex, which guards the nodes.
type memoryDisk struct {
	mu     *sync.Mutex
	root   *memoryNode
	closed bool
}

// at calls f with the directory that holds a name, the last part of the name, and what has the name.
// If there is none, f is called with nil if create is true.
func (d *memoryDisk) at(name string, create bool, f func(dir *memoryNode, base string, n *memoryNode) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fs.ErrClosed
	}
	dir, n, base := d.root, d.root, "."
	for part := range strings.SplitSeq(name, "/") {
		if n == nil {
			return fs.ErrNotExist
		}
		if part != "." {
			dir, n, base = n, n.names[part], part
		}
	}
	if n == nil && !create {
		return fs.ErrNotExist
	}
	return f(dir, base, n)
}

func (d *memoryDisk) open(name string, flag int) (f diskFile, err error) {
	err = d.at(name, flag&os.O_CREATE != 0, func(dir *memoryNode, base string, n *memoryNode) error {
		switch {
		case n == nil:
			n = &memoryNode{changed: time.Now()}
			dir.names[base] = n
		case flag&os.O_EXCL != 0:
			return fs.ErrExist
		case flag&os.O_TRUNC != 0:
			n.data = nil
		}
		f = &memoryFile{d.mu, n}
		return nil
	})
	return f, err
}

func (d *memoryDisk) sub(name string) (sub disk, err error) {
	err = d.at(name, false, func(_ *memoryNode, _ string, n *memoryNode) error {
		sub = &memoryDisk{mu: d.mu, root: n}
		return nil
	})
	return sub, err
}

func (d *memoryDisk) mkdir(name string) error {
	return d.at(name, true, func(dir *memoryNode, base string, n *memoryNode) error {
		if n != nil {
			return fs.ErrExist
		}
		dir.names[base] = &memoryNode{names: map[string]*memoryNode{}}
		return nil
	})
}

func (d *memoryDisk) rename(from, to string) error {
	return d.at(from, false, func(source *memoryNode, name string, n *memoryNode) error {
		dir, base := d.root, to
		if above, below, ok := strings.Cut(to, "/"); ok {
			dir, base = d.root.names[above], below
		}
		if dir == nil {
			return fs.ErrNotExist
		}
		delete(source.names, name)
		dir.names[base] = n
		return nil
	})
}

func (d *memoryDisk) remove(name string) error {
	return d.at(name, false, func(dir *memoryNode, base string, n *memoryNode) error {
		if len(n.names) > 0 {
			return syscall.ENOTEMPTY
		}
		delete(dir.names, base)
		return nil
	})
}

func (d *memoryDisk) names(name string) (list []string, err error) {
	err = d.at(name, false, func(_ *memoryNode, _ string, n *memoryNode) error {
		list = slices.Collect(maps.Keys(n.names))
		return nil
	})
	return list, err
}

func (d *memoryDisk) stat(name string) (size int64, changed time.Time, err error) {
	err = d.at(name, false, func(_ *memoryNode, _ string, n *memoryNode) error {
		size, changed = int64(len(n.data)), n.changed
		return nil
	})
	return size, changed, err
}

func (d *memoryDisk) size(name string, f diskFile) (size int64, err error) {
	err = d.at(name, false, func(_ *memoryNode, _ string, n *memoryNode) error {
		if size = int64(len(n.data)); n != f.(*memoryFile).node {
			return errMoved
		}
		return nil
	})
	return size, err
}

func (d *memoryDisk) sync(string) error { return nil }
func (d *memoryDisk) unlock(diskFile)   {} // closing the file does it

func (d *memoryDisk) lock(f diskFile) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := f.(*memoryFile)
	if m.node.lock == nil {
		m.node.lock = m
	}
	return m.node.lock == m, nil
}

func (d *memoryDisk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// memoryFile is an open file.
type memoryFile struct {
	mu   *sync.Mutex
	node *memoryNode
}

func (f *memoryFile) ReadAt(p []byte, offset int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n = copy(p, f.node.data[min(offset, int64(len(f.node.data))):]); n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *memoryFile) WriteAt(p []byte, offset int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.data = append(f.node.data[:offset], p...) // journals only grow
	f.node.changed = time.Now()
	return len(p), nil
}

func (f *memoryFile) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node.data = f.node.data[:size]
	return nil
}

func (f *memoryFile) Sync() error { return nil }

func (f *memoryFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node.lock == f {
		f.node.lock = nil
	}
	return nil
}
