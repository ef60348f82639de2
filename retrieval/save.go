package retrieval

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/aycoder/aycoder/internal/packed"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// The file of an index is: magic; the length of the head in eight bytes; the head, as package packed writes it; the
// vectors of the points, one behind the other; the SHA-256 of all before. Numbers are little-endian. The sketches
// follow from the vectors.
const magic = "aycoder vectors 3\n"

// A fileHead is what a file says of its vectors.
type fileHead struct {
	Model     string
	Dimension int32
	Points    [][]Item // the items of each point
}

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

func (ix *Index) write(f io.Writer) error {
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<16)
	points, items := ix.contents()
	head := packed.Encode(fileHead{ix.model, int32(ix.dim), items})
	w.WriteString(magic)
	w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(head))))
	w.Write(head)
	var vec []byte
	for _, p := range points {
		vec = appendVector(vec[:0], p.vec)
		w.Write(vec)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := f.Write(sum.Sum(nil))
	return err
}

// appendVector appends the bytes of a vector.
func appendVector(data []byte, vec []float32) []byte {
	for _, x := range vec {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return data
}

// vectorOf returns the vector that bytes are.
func vectorOf(data []byte) []float32 {
	vec := make([]float32, len(data)/4)
	for i := range vec {
		vec[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return vec
}

// contents returns all points, and the items of each. No item is there twice, as it would be if it moved to
// another point while they are read.
func (ix *Index) contents() (points []*point, items [][]Item) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, p := range ix.points {
		var of []Item
		for _, i := range *p.items.Load() {
			of = append(of, *i)
		}
		items = append(items, of)
	}
	return ix.points, items
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

// read fills an empty index. It reads the file twice, so that nothing is believed before its checksum is known.
func (ix *Index) read(f io.ReadSeeker, size int64) error {
	lead := make([]byte, len(magic)+8)
	if _, err := io.ReadFull(f, lead); err != nil || string(lead[:len(magic)]) != magic {
		return errForeign
	}
	size -= sha256.Size + int64(len(lead))
	length := binary.LittleEndian.Uint64(lead[len(magic):])
	if size < 0 || length > uint64(size) {
		return errShort
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	sum.Write(lead)
	if _, err := io.CopyN(sum, f, size); err != nil {
		return err
	}
	if _, err := io.ReadFull(f, want); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return errChecksum
	}
	if _, err := f.Seek(int64(len(lead)), io.SeekStart); err != nil {
		return err
	}
	return ix.readPoints(bufio.NewReaderSize(f, 1<<16), length, size-int64(length))
}

// readPoints reads a head and the vectors behind it, which have these lengths.
func (ix *Index) readPoints(in io.Reader, length uint64, rest int64) error {
	data, vec := make([]byte, length), make([]byte, 4*ix.dim)
	if _, err := io.ReadFull(in, data); err != nil {
		return err
	}
	var head fileHead
	if !packed.Decode(data, &head) {
		return errContent
	}
	if head.Model != ix.model || int(head.Dimension) != ix.dim {
		return &MismatchError{Model: ix.model, Dimension: ix.dim, GotModel: head.Model, GotDimension: int(head.Dimension)}
	}
	if rest != int64(len(head.Points))*int64(len(vec)) {
		return errContent
	}
	for _, items := range head.Points {
		if _, err := io.ReadFull(in, vec); err != nil {
			return err
		}
		if !ix.readPoint(vectorOf(vec), items) {
			return errContent
		}
	}
	return ix.tend(context.Background())
}

// readPoint adds a point, and reports whether it is one that an index can have.
func (ix *Index) readPoint(vec []float32, items []Item) bool {
	norm := 0.0
	for _, x := range vec {
		norm += float64(x) * float64(x)
	}
	if !(math.Abs(norm-1) < 1e-3) { // or it is not a number
		return false
	}
	p := newPoint(vec)
	ix.points = append(ix.points, p)
	ix.byVector[p.hash] = p
	if len(items) == 0 {
		ix.dead++
	}
	var of []*Item
	for _, i := range items {
		if ix.byID[i.ID] != nil {
			return false
		}
		ix.byID[i.ID] = p
		of = append(of, &i)
	}
	p.items.Store(&of)
	return true
}
