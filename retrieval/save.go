package retrieval

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// The file of an index is: magic; the model, as its length and bytes; the dimension; the number of points; the points;
// the SHA-256 of all before. A point is its items, and its vector in little-endian numbers. Whole numbers are uvarints.
// The sketches follow from the vectors.
const magic = "aycoder vectors 2\n"

// DamageError reports that a file is not a whole index: it is damaged, or another program or version wrote it.
type DamageError struct {
	Path string
	Err  error
}

// Error implements the error interface.
func (e *DamageError) Error() string { return e.Path + " is not an index: " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *DamageError) Unwrap() error { return e.Err }

// Save writes the index to a file, which only its owner can read. It replaces an older file at once: a process that is
// killed, or a loss of power, leaves either the old one or the new one. Searches and changes go on meanwhile;
// of changes during Save, some may be in the file.
func (ix *Index) Save(path string) error {
	removeLeftovers(path)
	if err := replace.File(path, filepath.Base(path)+leftover, func(f *os.File) error { return ix.write(f) }); err != nil {
		return fmt.Errorf("save index: %w", err)
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // some file systems cannot flush a directory
		dir.Close()
	}
	return nil
}

const leftover = ".*.tmp"

// removeLeftovers removes the temporary files of processes that were killed a while ago.
func removeLeftovers(path string) {
	old, _ := filepath.Glob(path + leftover)
	for _, name := range old {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(name)
		}
	}
}

// writer writes numbers and texts, and keeps the first error.
type writer struct {
	*bufio.Writer
	buf []byte
}

func (w *writer) number(n int) {
	w.buf = binary.AppendUvarint(w.buf[:0], uint64(n))
	w.Write(w.buf)
}

func (w *writer) text(s string) {
	w.number(len(s))
	w.WriteString(s)
}

func (ix *Index) write(f io.Writer) error {
	sum := sha256.New()
	w := &writer{Writer: bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<16)}
	points, items := ix.contents()
	w.WriteString(magic)
	w.text(ix.model)
	w.number(ix.dim)
	w.number(len(points))
	for i, p := range points {
		w.point(p, *items[i])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := f.Write(sum.Sum(nil))
	return err
}

// contents returns all points, and the items of each. No item is there twice, as it would be if it moved to
// another point while they are read.
func (ix *Index) contents() (points []*point, items []*[]*Item) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, p := range ix.points {
		items = append(items, p.items.Load())
	}
	return ix.points, items
}

func (w *writer) point(p *point, items []*Item) {
	w.number(len(items))
	for _, i := range items {
		for _, s := range []string{i.ID, i.Path, string(i.Language), i.Kind} {
			w.text(s)
		}
	}
	w.buf = w.buf[:0]
	for _, x := range p.vec {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(x))
	}
	w.Write(w.buf)
}

// Load reads the index in a file that [Index.Save] wrote. If there is no such file, the index is new and
// empty. If the file cannot be used, there is an error besides the new index: a [*DamageError], a
// [*MismatchError] if the vectors are of another model or dimension, or that of the file system.
func Load(path, model string, dimension int) (*Index, error) {
	empty, err := NewIndex(model, dimension)
	if err != nil {
		return nil, err
	}
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("load index: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return empty, fmt.Errorf("load index: %w", err)
	}
	ix, err := NewIndex(model, dimension)
	if err == nil {
		err = ix.read(f, info.Size())
	}
	if _, other := errors.AsType[*MismatchError](err); err != nil && !other {
		err = &DamageError{path, err}
	}
	if err != nil {
		return empty, fmt.Errorf("load index: %w", err)
	}
	return ix, nil
}

var (
	errForeign  = errors.New("it begins otherwise")
	errShort    = errors.New("it ends too early")
	errChecksum = errors.New("its checksum is wrong")
	errContent  = errors.New("its content is not valid")
)

// reader reads what a writer wrote. It trusts no number: nothing is allocated for more than there is to read.
type reader struct {
	in   *bufio.Reader
	rest *io.LimitedReader // not yet in the buffer of in
	err  error
}

func newReader(f io.Reader, size int64, sum hash.Hash) *reader {
	rest := &io.LimitedReader{R: f, N: size}
	return &reader{in: bufio.NewReaderSize(io.TeeReader(rest, sum), 1<<16), rest: rest}
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// number reads a number up to limit.
func (r *reader) number(limit int) int {
	n, err := binary.ReadUvarint(r.in)
	switch {
	case err != nil:
		r.fail(errShort)
	case n > uint64(limit):
		r.fail(errContent)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) bytes(n int) []byte {
	if r.err == nil && int64(n) > r.rest.N+int64(r.in.Buffered()) {
		r.fail(errShort)
	}
	if r.err != nil {
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.in, b); err != nil {
		r.fail(err)
	}
	return b
}

func (r *reader) text() string { return string(r.bytes(r.number(math.MaxInt32))) }

// read fills an empty index.
func (ix *Index) read(f io.Reader, size int64) error {
	sum := sha256.New()
	if size -= sha256.Size; size < int64(len(magic)) {
		return errForeign
	}
	r := newReader(f, size, sum)
	if string(r.bytes(len(magic))) != magic {
		return cmp.Or(r.err, errForeign)
	}
	model, dim := r.text(), r.number(maxDimension)
	if r.err == nil && (model != ix.model || dim != ix.dim) {
		return &MismatchError{Model: ix.model, Dimension: ix.dim, GotModel: model, GotDimension: dim}
	}
	for n := r.number(2 * maxVectors); len(ix.points) < n && r.err == nil; {
		ix.readPoint(r)
	}
	if r.err != nil {
		return r.err
	}
	if r.in.Buffered() > 0 || r.rest.N > 0 {
		return errContent
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(f, want[:]); err != nil {
		return err
	}
	if [sha256.Size]byte(sum.Sum(nil)) != want {
		return errChecksum
	}
	return ix.tend(context.Background())
}

func (ix *Index) readPoint(r *reader) {
	items := make([]*Item, 0, 1)
	for n := r.number(math.MaxInt32); len(items) < n && r.err == nil; {
		items = append(items, &Item{r.text(), r.text(), source.Language(r.text()), r.text()})
	}
	raw := r.bytes(4 * ix.dim)
	if r.err != nil {
		return
	}
	vec, norm := make([]float32, ix.dim), 0.0
	for i := range vec {
		vec[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		norm += float64(vec[i]) * float64(vec[i])
	}
	if !(math.Abs(norm-1) < 1e-3) { // or it is not a number
		r.fail(errContent)
		return
	}
	p := newPoint(vec)
	ix.points = append(ix.points, p)
	ix.byVector[p.hash] = p
	if p.items.Store(&items); len(items) == 0 {
		ix.dead++
	}
	for _, i := range items {
		if ix.byID[i.ID] != nil {
			r.fail(errContent)
		}
		ix.byID[i.ID] = p
	}
}
