package codegraph

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// A cache is one file with the facts of the files of a workspace, by the hashes of their contents. It begins with
// cacheMagic and the hash of all that follows, so a file that is damaged, cut or of another version is as good
// as none. The facts are not looked up by name and time: a file is read and hashed before its facts are used.

const (
	// cacheMagic names the version. It changes with what the scanners of package source find.
	cacheMagic = "aycoder facts 3\n"
	cacheName  = "facts"
	maxCache   = 256 << 20 // bytes
)

// WithCache names a directory in which [Graph.Save] keeps what was read of the files, so that the next program does
// not have to scan them again. Each workspace needs a separate directory. It is created if it does not exist, for this
// user only. A cache that is damaged or of another version is not used. Facts contain names from the source code, but no
// text; what [Middleware] keeps there is text of files. Default: none.
func WithCache(dir string) Option {
	return func(c *config) error {
		if dir == "" {
			return &aycoder.ConfigError{Option: "WithCache", Err: errors.New("directory is empty")}
		}
		c.cache = dir
		return nil
	}
}

// Save writes what was read of the files to the directory of [WithCache], and replaces what was there as a whole.
// Without that option it does nothing. Facts beyond 256 MiB, and those of analyzers of the host, are left out.
func (g *Graph) Save() error {
	if g.cache == "" {
		return nil
	}
	if err := os.MkdirAll(g.cache, 0o700); err != nil {
		return fmt.Errorf("save the code graph: %w", err)
	}
	if err := replace.File(filepath.Join(g.cache, cacheName), ".facts-*", func(f *os.File) error {
		_, err := f.Write(encodeCache(g.Snapshot()))
		return err
	}); err != nil {
		return fmt.Errorf("save the code graph: %w", err)
	}
	return nil
}

// encodeCache returns the content of a cache.
func encodeCache(s *Snapshot) []byte {
	out := append([]byte(cacheMagic), make([]byte, sha256.Size)...)
	for _, f := range s.files {
		if f.facts == nil || f.foreign {
			continue
		}
		facts := encodeFacts(f.facts)
		if len(out)+len(facts) > maxCache {
			break
		}
		out = append(out, f.hash[:]...)
		out = binary.AppendUvarint(out, uint64(len(facts)))
		out = append(out, facts...)
	}
	sum := sha256.Sum256(out[len(cacheMagic)+sha256.Size:])
	copy(out[len(cacheMagic):], sum[:])
	return out
}

// factsKey names facts: the same bytes may be read as two languages.
type factsKey struct {
	hash [sha256.Size]byte
	lang source.Language
}

// loadCache returns the facts in the cache of a directory that are whole, still encoded.
func loadCache(dir string) map[factsKey][]byte {
	data, err := regular.Read(filepath.Join(dir, cacheName), maxCache)
	head := len(cacheMagic) + sha256.Size
	if err != nil || len(data) < head || string(data[:len(cacheMagic)]) != cacheMagic {
		return nil
	}
	rest := data[head:]
	if sum := sha256.Sum256(rest); string(sum[:]) != string(data[len(cacheMagic):head]) {
		return nil
	}
	found := map[factsKey][]byte{}
	for len(rest) > sha256.Size {
		var k factsKey
		rest = rest[copy(k.hash[:], rest):]
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil
		}
		facts := rest[n : n+int(size)]
		d := decoder{in: facts}
		k.lang = source.Language(d.name())
		found[k] = facts
		rest = rest[n+int(size):]
	}
	return found
}

// An encoder writes facts: numbers as varints, lists behind their lengths, structs field by field, and each name once.
type encoder struct {
	out   []byte
	names map[string]int64 // the number of a name, from 1
}

func (e *encoder) number(n int64) { e.out = binary.AppendVarint(e.out, n) }

func (e *encoder) name(s string) {
	n, ok := e.names[s]
	e.number(n)
	if !ok {
		e.names[s] = int64(len(e.names)) + 1
		e.number(int64(len(s)))
		e.out = append(e.out, s...)
	}
}

func (e *encoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			e.value(v.Field(i))
		}
	case reflect.Slice:
		e.number(int64(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i))
		}
	case reflect.String:
		e.name(v.String())
	case reflect.Bool:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		e.number(n)
	case reflect.Uint8:
		e.number(int64(v.Uint()))
	default: // int32
		e.number(v.Int())
	}
}

// A decoder reads what an encoder wrote. After an error it reads zeros.
type decoder struct {
	in     []byte
	names  []string
	failed bool
}

// number returns a number in a range.
func (d *decoder) number(least, most int64) int64 {
	n, size := binary.Varint(d.in)
	if size <= 0 || n < least || n > most {
		d.in, d.failed = nil, true
		return 0
	}
	d.in = d.in[size:]
	return n
}

// count returns a number of elements, each of which has at least one byte.
func (d *decoder) count() int { return int(d.number(0, int64(len(d.in)))) }

func (d *decoder) name() string {
	if n := d.number(0, int64(len(d.names))); n > 0 {
		return d.names[n-1]
	}
	size := d.count()
	s := string(d.in[:size])
	d.in = d.in[size:]
	d.names = append(d.names, s)
	return s
}

func (d *decoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			d.value(v.Field(i))
		}
	case reflect.Slice:
		if n := d.count(); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.String:
		v.SetString(d.name())
	case reflect.Bool:
		v.SetBool(d.number(0, 1) > 0)
	case reflect.Uint8:
		v.SetUint(uint64(d.number(0, math.MaxUint8)))
	default: // int32
		v.SetInt(d.number(math.MinInt32, math.MaxInt32))
	}
}

// encodeFacts returns facts as they are in a cache. They begin with the language.
func encodeFacts(f *source.Facts) []byte {
	e := encoder{names: map[string]int64{}}
	e.value(reflect.ValueOf(f).Elem())
	return e.out
}

// decodeFacts returns encoded facts, or nil if they are not whole.
func decodeFacts(data []byte) *source.Facts {
	f, d := &source.Facts{}, decoder{in: data}
	d.value(reflect.ValueOf(f).Elem())
	if d.failed || len(d.in) > 0 {
		return nil
	}
	return f
}
