package local

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/regular"
)

// Limits of what a GGUF file may hold before its weights. A vocabulary of 256,000 tokens and its merges take about 10 MB.
const (
	maxHeader  = 256 << 20
	maxKeys    = 1 << 16
	maxTensors = 1 << 17
	maxName    = 1 << 16
	maxLayers  = 512 // llama.cpp refuses more
	maxSplits  = 999
	maxSize    = 1 << 50 // weights, and their bytes
	maxNumbers = 1 << 14 // numbers of an array that are kept: there is one for each layer
	maxKept    = 1 << 20 // numbers of all arrays
)

// A Model is what the GGUF file of a model, or all files of a split one, say about it. It is made by [Open] and [Read], and is
// immutable.
type Model struct {
	// Name is the name in the metadata, such as "Qwen2.5 Coder 7B Instruct", or "".
	Name string
	// Architecture is llama.cpp's name of the architecture, such as "qwen2".
	Architecture string
	// Layers is the number of repeating layers. llama.cpp counts one more, for the output.
	Layers int
	// Context is the longest context that the model was trained for, in tokens, or 0 if the file does not say.
	Context int64
	// Parameters is the number of weights.
	Parameters int64
	// Size is the memory that the weights take, in bytes. The file is larger by its metadata.
	Size int64
	// Type is the type of most weights, such as "Q4_K".
	Type string

	meta    map[string]any // numbers as float64 or []float64, strings, and booleans as numbers
	tensors []tensor
	splits  int // the number of files
}

type tensor struct {
	name  string
	dims  []uint64
	kind  uint32
	bytes int64
	layer int // or -1
}

// A kind is a type of weights: a block has so many weights, and takes so many bytes.
type kind struct {
	name         string
	block, bytes uint64
}

// kinds are the types of ggml.h, by number.
var kinds = map[uint32]kind{
	0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20}, 6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24},
	8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36}, 10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176}, 14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110}, 22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2}, 26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56}, 30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
}

// A FormatError says that a file is not a GGUF file that can be read.
type FormatError struct {
	// File is the name of the file.
	File string
	Err  error
}

// Error implements error.
func (e *FormatError) Error() string { return "read GGUF file " + e.File + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// splitName is the name of a file of a split model: "model-00001-of-00003.gguf".
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// splitFiles returns the names of all files of a split model, if name is that of one of them, or else name.
func splitFiles(name string) []string {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return []string{name}
	}
	n, _ := strconv.Atoi(m[3])
	if i, _ := strconv.Atoi(m[2]); n < 1 || n > maxSplits || i < 1 || i > n {
		return []string{name}
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, n))
	}
	return names
}

// Open reads the metadata of a GGUF file, but not its weights. If the file is one of a split model, all of them are read. If a
// file is not a valid GGUF file, the error is a [*FormatError].
func Open(path string) (*Model, error) {
	dir, name := filepath.Split(path)
	j := joiner{left: maxHeader}
	for _, name := range splitFiles(name) {
		if err := j.open(dir + name); err != nil {
			return nil, err
		}
	}
	return j.model(path)
}

// Read reads the metadata of one GGUF file, and stops before the weights. The name is for errors. A file of a split model has
// only a part of the weights. If the data is not valid, the error is a [*FormatError]; if reading fails, it wraps that error, too.
func Read(name string, r io.Reader) (*Model, error) {
	j := joiner{left: maxHeader}
	if err := j.read(name, r); err != nil {
		return nil, err
	}
	if err := j.m.finish(); err != nil {
		return nil, &FormatError{name, err}
	}
	return j.m, nil
}

// A joiner makes one model of the files of a split one. The limits hold for all files together.
type joiner struct {
	m    *Model
	left int64 // bytes that may still be read
}

func (j *joiner) open(path string) error {
	f, err := regular.Open(path) // a pipe would be waited for without end
	if err != nil {
		return fmt.Errorf("open GGUF file: %w", err)
	}
	defer f.Close()
	return j.read(path, f)
}

func (j *joiner) read(name string, r io.Reader) error {
	d := &decoder{r: bufio.NewReaderSize(r, 64<<10), left: j.left}
	m := &Model{meta: map[string]any{}, splits: 1}
	d.header(m)
	j.left = d.left
	if j.m == nil {
		j.m = m
	} else if j.m.tensors, j.m.splits = append(j.m.tensors, m.tensors...), j.m.splits+1; len(j.m.tensors) > maxTensors {
		d.fail("the files have more than %d tensors", maxTensors)
	}
	if d.err != nil {
		return &FormatError{name, d.err}
	}
	return nil
}

// model returns the model after all files were read.
func (j *joiner) model(name string) (*Model, error) {
	if n, ok := j.m.number("split.count"); ok && int(n) > 1 && int(n) != j.m.splits {
		return nil, &FormatError{name, fmt.Errorf("it is one of %d files of a model, and its name does not say so", int(n))}
	}
	if err := j.m.finish(); err != nil {
		return nil, &FormatError{name, err}
	}
	return j.m, nil
}

// finish derives the fields from the metadata and the tensors.
func (m *Model) finish() error {
	m.Name, _ = m.meta["general.name"].(string)
	m.Architecture, _ = m.meta["general.architecture"].(string)
	m.Layers = int(min(m.of("block_count", 0), maxLayers+1))
	if n, ok := m.number(m.Architecture + ".context_length"); ok && n > 0 {
		m.Context = int64(min(n, maxTokens))
	}
	m.Parameters, m.Size, m.Type = 0, 0, ""
	if m.Layers > maxLayers {
		return fmt.Errorf("it has more than %d layers", maxLayers)
	}
	sizes, main := map[uint32]int64{}, uint32(0)
	for _, t := range m.tensors {
		n := int64(1)
		for _, d := range t.dims {
			n *= int64(d) // cannot overflow: the decoder has checked it
		}
		m.Size, m.Parameters = m.Size+t.bytes, m.Parameters+n
		if m.Size > maxSize || m.Parameters > maxSize || m.Size < 0 || m.Parameters < 0 {
			return errors.New("the weights are too large")
		}
		if sizes[t.kind] += t.bytes; m.Type == "" || sizes[t.kind] > sizes[main] {
			main, m.Type = t.kind, kinds[t.kind].name
		}
		if t.layer >= m.Layers {
			return fmt.Errorf("tensor %q is of no layer: there are %d", t.name, m.Layers)
		}
	}
	return nil
}

// number returns a number of the metadata.
func (m *Model) number(key string) (float64, bool) {
	switch v := m.meta[key].(type) {
	case float64:
		return v, true
	case []float64:
		if len(v) > 0 {
			return v[0], true
		}
	}
	return 0, false
}

// of returns a whole number that is about the architecture, such as "embedding_length".
func (m *Model) of(key string, otherwise int64) int64 {
	if v, ok := m.number(m.Architecture + "." + key); ok {
		return whole(v)
	}
	return otherwise
}

// each returns such a number for a layer: the file has one for each layer, or one for all.
func (m *Model) each(key string, layer int, otherwise int64) int64 {
	if v, ok := m.meta[m.Architecture+"."+key].([]float64); ok {
		if layer < len(v) {
			return whole(v[layer])
		}
		return otherwise
	}
	return m.of(key, otherwise)
}

// most returns the largest of the numbers of all layers.
func (m *Model) most(key string) (n int64) {
	for i := range m.Layers {
		n = max(n, m.each(key, i, 0))
	}
	return n
}

// maxNumber limits the numbers of a file, so that products of a few of them do not overflow. It is far above those of real models.
const maxNumber = 1 << 17

func whole(v float64) int64 {
	if !(v > 0) {
		return 0
	}
	return int64(min(v, maxNumber))
}

// A decoder reads the beginning of a GGUF file:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. It stops at the first error.
type decoder struct {
	r     *bufio.Reader
	order binary.ByteOrder
	left  int64 // bytes that may still be read
	kept  int   // numbers of arrays
	err   error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

// take returns the next n bytes, or zeros after an error. n is small.
func (d *decoder) take(n int) []byte {
	b := make([]byte, n)
	if d.left -= int64(n); d.left < 0 {
		d.fail("its metadata takes more than %d bytes", maxHeader)
	}
	if d.err == nil {
		if _, err := io.ReadFull(d.r, b); err != nil {
			d.err = fmt.Errorf("its metadata is incomplete: %w", err)
			clear(b)
		}
	}
	return b
}

func (d *decoder) skip(n uint64) {
	if n > uint64(max(d.left, 0)) {
		d.fail("its metadata takes more than %d bytes", maxHeader)
	}
	d.left -= int64(min(n, maxHeader))
	if d.err == nil {
		if _, err := d.r.Discard(int(n)); err != nil {
			d.err = fmt.Errorf("its metadata is incomplete: %w", err)
		}
	}
}

func (d *decoder) u32() uint32 { return d.order.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return d.order.Uint64(d.take(8)) }

// text reads a string that is kept.
func (d *decoder) text() string {
	n := d.u64()
	if n > maxName {
		d.skip(n)
		return ""
	}
	if d.err != nil {
		return ""
	}
	return string(d.take(int(n)))
}

// header reads the whole beginning: the magic number, the version, the metadata, and what tensors there are.
func (d *decoder) header(m *Model) {
	d.order = binary.LittleEndian
	if magic := d.take(4); d.err == nil && string(magic) != "GGUF" {
		d.fail("it does not begin with GGUF")
	}
	version := d.take(4)
	if binary.LittleEndian.Uint32(version) > math.MaxUint16 {
		d.order = binary.BigEndian
	}
	if v := d.order.Uint32(version); d.err == nil && v != 2 && v != 3 {
		d.fail("version %d is not supported", v)
	}
	tensors, keys := d.u64(), d.u64()
	if d.err == nil && (tensors > maxTensors || keys > maxKeys) {
		d.fail("it has %d tensors and %d keys", tensors, keys)
	}
	for range keys {
		if d.err != nil {
			return
		}
		key := d.text()
		if v := d.value(d.u32(), 0); v != nil && key != "" {
			m.meta[key] = v
		}
	}
	for range tensors {
		if d.err != nil {
			return
		}
		m.tensors = append(m.tensors, d.tensor())
	}
}

// Types of values. The sizes of the numbers are those of widths.
const (
	typeString = 8
	typeArray  = 9
)

var widths = [...]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

// value reads a value. It returns nil for those that are not kept: strings in arrays, and long arrays.
func (d *decoder) value(typ uint32, depth int) any {
	switch {
	case typ == typeString:
		return d.text()
	case typ == typeArray && depth < 4:
		return d.array(depth)
	case typ < uint32(len(widths)) && widths[typ] > 0:
		return d.decode(typ, d.take(widths[typ]))
	}
	d.fail("it has a value of the unknown type %d", typ)
	return nil
}

func (d *decoder) array(depth int) any {
	typ, n := d.u32(), d.u64()
	if d.err != nil {
		return nil
	}
	var numbers []float64
	if typ < uint32(len(widths)) && widths[typ] > 0 {
		if n > maxNumbers {
			if n > maxHeader {
				n = maxHeader // too large in any case
			}
			d.skip(n * uint64(widths[typ]))
			return nil
		}
		if d.kept += int(n); d.kept > maxKept { // they take up to eight times as much here as in the file
			d.fail("its arrays have more than %d numbers", maxKept)
			return nil
		}
		for range n {
			numbers = append(numbers, d.decode(typ, d.take(widths[typ])))
			if d.err != nil {
				return nil
			}
		}
		return numbers
	}
	for range n {
		if d.err != nil {
			return nil
		}
		switch typ {
		case typeString:
			d.skip(d.u64())
		default:
			d.value(typ, depth+1)
		}
	}
	return nil
}

// decode returns a number.
func (d *decoder) decode(typ uint32, b []byte) float64 {
	switch typ {
	case 0, 7:
		return float64(b[0])
	case 1:
		return float64(int8(b[0]))
	case 2:
		return float64(d.order.Uint16(b))
	case 3:
		return float64(int16(d.order.Uint16(b)))
	case 4:
		return float64(d.order.Uint32(b))
	case 5:
		return float64(int32(d.order.Uint32(b)))
	case 6:
		return float64(math.Float32frombits(d.order.Uint32(b)))
	case 10:
		return float64(d.order.Uint64(b))
	case 11:
		return float64(int64(d.order.Uint64(b)))
	}
	return math.Float64frombits(d.order.Uint64(b))
}

// tensor reads what a tensor is: its name, its dimensions, its type and its place.
func (d *decoder) tensor() tensor {
	t := tensor{name: d.text(), layer: -1}
	dims := d.u32()
	if dims > 8 {
		d.fail("tensor %q has %d dimensions", t.name, dims)
		return t
	}
	n := uint64(1)
	for range dims {
		size := d.u64()
		t.dims = append(t.dims, size)
		if size != 0 && n > math.MaxInt64/16/size {
			d.fail("tensor %q is too large", t.name)
			return t
		}
		n *= size
	}
	t.kind = d.u32()
	d.u64() // the offset
	k, ok := kinds[t.kind]
	if !ok {
		d.fail("tensor %q has the unknown type %d", t.name, t.kind)
		return t
	}
	t.bytes = int64((n + k.block - 1) / k.block * k.bytes)
	if rest, ok := strings.CutPrefix(t.name, "blk."); ok {
		number, _, _ := strings.Cut(rest, ".")
		layer, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			d.fail("tensor %q has no layer", t.name)
		}
		t.layer = int(layer)
	}
	return t
}
