package journal

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fakeFS is a file system in memory that knows what a loss of power would leave: the content of a
// file as of its last flush, and the names in a directory as of its last flush.
type fakeFS struct {
	mu   sync.Mutex
	root *fakeNode
	// fault may make an operation fail. A write that fails has written half of its data.
	fault func(op, name string) error
	// after is called after each operation that changes something.
	after func()
}

type fakeNode struct {
	dir            bool
	data, flushed  []byte
	names, durable map[string]*fakeNode
	locked         *fakeFile
}

func newFakeDir() *fakeNode {
	return &fakeNode{dir: true, names: map[string]*fakeNode{}, durable: map[string]*fakeNode{}}
}

func newFakeFS() *fakeFS { return &fakeFS{root: newFakeDir()} }

// newFakeStore returns a store whose files are in f.
func (f *fakeFS) store() *dirStore {
	return &dirStore{path: "/", open: func(string) (disk, error) { return &fakeDisk{fs: f, node: f.root}, nil }}
}

// killed ends the process: its locks are gone, and what it wrote stays.
func (f *fakeFS) killed() {
	var visit func(n *fakeNode)
	visit = func(n *fakeNode) {
		n.locked = nil
		for _, c := range n.names {
			visit(c)
		}
	}
	visit(f.root)
}

// crash returns the file system after a loss of power. With rnd, some of what was not flushed is
// there nevertheless: any of the names, and any pages of the content.
func (f *fakeFS) crash(rnd *rand.Rand) *fakeFS {
	seen := map[*fakeNode]*fakeNode{}
	var image func(n *fakeNode) *fakeNode
	image = func(n *fakeNode) *fakeNode {
		if seen[n] != nil {
			return seen[n]
		}
		c := newFakeDir()
		seen[n] = c
		if c.dir = n.dir; !n.dir {
			c.data = survivor(n, rnd)
			c.flushed = bytes.Clone(c.data)
			return c
		}
		all := maps.Clone(n.durable)
		maps.Copy(all, n.names)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			kept := n.durable[name]
			if rnd != nil && rnd.IntN(2) == 0 {
				kept = n.names[name]
			}
			if kept != nil {
				c.names[name] = image(kept)
			}
		}
		c.durable = maps.Clone(c.names)
		return c
	}
	return &fakeFS{root: image(f.root)}
}

// copy returns the file system as it is, with what is not flushed, and without locks.
func (f *fakeFS) copy() *fakeFS {
	seen := map[*fakeNode]*fakeNode{}
	var visit func(n *fakeNode) *fakeNode
	visit = func(n *fakeNode) *fakeNode {
		if seen[n] != nil {
			return seen[n]
		}
		c := newFakeDir()
		seen[n] = c
		c.dir, c.data, c.flushed = n.dir, bytes.Clone(n.data), bytes.Clone(n.flushed)
		for name, sub := range n.names {
			c.names[name] = visit(sub)
		}
		for name, sub := range n.durable {
			c.durable[name] = visit(sub)
		}
		return c
	}
	return &fakeFS{root: visit(f.root)}
}

// survivor returns the content of a file after a loss of power.
func survivor(n *fakeNode, rnd *rand.Rand) []byte {
	if rnd == nil || rnd.IntN(3) == 0 {
		return bytes.Clone(n.flushed)
	}
	if rnd.IntN(2) == 0 {
		return bytes.Clone(n.data)
	}
	same := 0 // what was flushed and has not changed since is certain
	for same < min(len(n.data), len(n.flushed)) && n.data[same] == n.flushed[same] {
		same++
	}
	data := bytes.Clone(n.data[:same+rnd.IntN(len(n.data)-same+1)])
	if len(data) > same && rnd.IntN(2) == 0 {
		i := same + rnd.IntN(len(data)-same)
		clear(data[i : i+rnd.IntN(len(data)-i+1)])
	}
	return data
}

// step begins an operation that changes something.
func (f *fakeFS) step(op, name string) error {
	if f.fault != nil {
		if err := f.fault(op, name); err != nil {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return nil
}

func (f *fakeFS) done() {
	if f.after != nil {
		f.after()
	}
}

type fakeDisk struct {
	fs     *fakeFS
	node   *fakeNode
	path   string
	closed bool
}

// find returns the directory that holds a name, and the base of the name.
func (d *fakeDisk) find(name string) (*fakeNode, string, error) {
	if d.closed {
		return nil, "", fs.ErrClosed
	}
	n := d.node
	dir, base := path.Split(path.Clean(name))
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if part != "" {
			if n = n.names[part]; n == nil || !n.dir {
				return nil, "", &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
			}
		}
	}
	return n, base, nil
}

func (d *fakeDisk) get(name string) (*fakeNode, error) {
	parent, base, err := d.find(name)
	if err != nil || base == "." {
		return d.node, err
	}
	if n := parent.names[base]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
}

// change lets an operation change the names of a directory.
func (d *fakeDisk) change(op, name string, f func(parent *fakeNode, base string) error) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	parent, base, err := d.find(name)
	if err == nil {
		err = d.fs.step(op, path.Join(d.path, name))
	}
	if err == nil {
		err = f(parent, base)
	}
	if err == nil {
		d.fs.done()
	}
	return err
}

func (d *fakeDisk) open(name string, flag int) (diskFile, error) {
	n, err := d.get(name)
	if err != nil && flag&os.O_CREATE != 0 {
		err = d.change("create", name, func(parent *fakeNode, base string) error {
			n = &fakeNode{}
			parent.names[base] = n
			return nil
		})
	} else if err == nil && flag&os.O_EXCL != 0 {
		err = fs.ErrExist
	}
	if err != nil {
		return nil, err
	}
	f := &fakeFile{disk: d, node: n, name: name}
	if flag&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	return f, err
}

func (d *fakeDisk) sub(name string) (disk, error) {
	n, err := d.get(name)
	if err != nil {
		return nil, err
	}
	return &fakeDisk{fs: d.fs, node: n, path: path.Join(d.path, name)}, nil
}

func (d *fakeDisk) mkdir(name string) error {
	return d.change("mkdir", name, func(parent *fakeNode, base string) error {
		if parent.names[base] != nil {
			return fs.ErrExist
		}
		parent.names[base] = newFakeDir()
		return nil
	})
}

func (d *fakeDisk) rename(from, to string) error {
	return d.change("rename", to, func(parent *fakeNode, base string) error {
		source, name, err := d.find(from)
		if err != nil || source.names[name] == nil {
			return fs.ErrNotExist
		}
		parent.names[base] = source.names[name]
		delete(source.names, name)
		return nil
	})
}

func (d *fakeDisk) remove(name string) error {
	return d.change("remove", name, func(parent *fakeNode, base string) error {
		n := parent.names[base]
		if n == nil {
			return fs.ErrNotExist
		}
		if len(n.names) > 0 {
			return syscall.ENOTEMPTY
		}
		delete(parent.names, base)
		return nil
	})
}

func (d *fakeDisk) names(dir string) ([]string, error) {
	n, err := d.get(dir)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, syscall.ENOTDIR
	}
	return slices.Sorted(maps.Keys(n.names)), nil
}

func (d *fakeDisk) stat(name string) (int64, time.Time, error) {
	n, err := d.get(name)
	if err != nil {
		return 0, time.Time{}, err
	}
	return int64(len(n.data)), time.Unix(1, 0), nil
}

func (d *fakeDisk) sync(dir string) error {
	n, err := d.get(dir)
	if err != nil {
		return err
	}
	if err := d.fs.step("sync", path.Join(d.path, dir)); err != nil {
		return err
	}
	n.durable = maps.Clone(n.names)
	d.fs.done()
	return nil
}

func (d *fakeDisk) size(name string, f diskFile) (int64, error) {
	n, err := d.get(name)
	if err != nil {
		return 0, err
	}
	if n != f.(*fakeFile).node {
		return 0, errMoved
	}
	return int64(len(n.data)), nil
}

func (d *fakeDisk) unlock(diskFile) {} // closing the file does it

func (d *fakeDisk) lock(f diskFile) (bool, error) {
	if err := d.fs.step("lock", f.(*fakeFile).name); err != nil {
		return false, err
	}
	n := f.(*fakeFile).node
	if n.locked != nil {
		return false, nil
	}
	n.locked = f.(*fakeFile)
	return true, nil
}

func (d *fakeDisk) close() error {
	d.closed = true
	return nil
}

type fakeFile struct {
	disk *fakeDisk
	node *fakeNode
	name string
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.disk.fs.step("read", f.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *fakeFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.disk.fs.step("write", path.Join(f.disk.path, f.name))
	if err != nil {
		p = p[:len(p)/2]
	}
	if grow := int(off) + len(p) - len(f.node.data); grow > 0 {
		f.node.data = append(f.node.data, make([]byte, grow)...)
	}
	copy(f.node.data[off:], p)
	f.disk.fs.done()
	return len(p), err
}

func (f *fakeFile) Truncate(size int64) error {
	if err := f.disk.fs.step("truncate", path.Join(f.disk.path, f.name)); err != nil {
		return err
	}
	f.node.data = append(f.node.data, make([]byte, max(0, int(size)-len(f.node.data)))...)[:size]
	f.disk.fs.done()
	return nil
}

func (f *fakeFile) Sync() error {
	if err := f.disk.fs.step("fsync", path.Join(f.disk.path, f.name)); err != nil {
		return err
	}
	f.node.flushed = bytes.Clone(f.node.data)
	f.disk.fs.done()
	return nil
}

func (f *fakeFile) Close() error {
	if f.node.locked == f {
		f.node.locked = nil
	}
	return nil
}
