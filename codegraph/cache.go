package codegraph

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
	cacheMagic = "aycoder facts 2\n"
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
		e := encoder{names: map[string]uint64{}}
		e.facts(f.facts)
		if len(out)+len(e.out) > maxCache {
			break
		}
		out = append(out, f.hash[:]...)
		out = binary.AppendUvarint(out, uint64(len(e.out)))
		out = append(out, e.out...)
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
		d := decoder{in: rest[n : n+int(size)]}
		k.lang = source.Language(d.name())
		found[k] = rest[n : n+int(size)]
		rest = rest[n+int(size):]
	}
	return found
}

// An encoder writes facts: numbers as varints, and each name once.
type encoder struct {
	out   []byte
	names map[string]uint64 // the number of a name, from 1
}

func (e *encoder) number(n uint64)      { e.out = binary.AppendUvarint(e.out, n) }
func (e *encoder) span(s source.Span)   { e.number(uint64(s.Start)); e.number(uint64(s.End - s.Start)) }
func (e *encoder) truth(values ...bool) { e.number(bits(values)) }

func bits(values []bool) (n uint64) {
	for i, v := range values {
		if v {
			n |= 1 << i
		}
	}
	return n
}

func (e *encoder) name(s string) {
	n, ok := e.names[s]
	e.number(n)
	if !ok {
		e.names[s] = uint64(len(e.names)) + 1
		e.number(uint64(len(s)))
		e.out = append(e.out, s...)
	}
}

func (e *encoder) facts(f *source.Facts) {
	e.name(string(f.Language))
	e.name(f.Package)
	e.truth(f.Generated, f.Script)
	e.number(uint64(len(f.Imports)))
	for _, i := range f.Imports {
		e.name(i.Path)
		e.number(uint64(i.Kind))
		e.name(i.Within)
		e.span(i.At)
		e.number(uint64(len(i.Names)))
		for _, n := range i.Names {
			e.name(n.Name)
			e.name(n.As)
		}
	}
	e.number(uint64(len(f.Decls)))
	for _, d := range f.Decls {
		e.name(d.Name)
		e.number(uint64(d.Kind))
		e.truth(d.Exported)
		e.number(uint64(d.Parent + 1))
		e.name(d.Of)
		e.name(d.Type)
		e.span(d.At)
		e.span(d.Body)
		e.number(uint64(d.NameAt))
	}
	e.number(uint64(len(f.Exports)))
	for _, x := range f.Exports {
		e.name(x.Name)
		e.name(x.Local)
		e.number(uint64(x.Import + 1))
	}
	e.number(uint64(len(f.Uses)))
	for _, u := range f.Uses {
		e.name(u.Of)
		e.name(u.Name)
		e.number(uint64(u.Count))
	}
}

// A decoder reads what an encoder wrote. After an error it reads zeros.
type decoder struct {
	in     []byte
	names  []string
	failed bool
}

func (d *decoder) fail() {
	d.in, d.failed = nil, true
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.in)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.in = d.in[size:]
	return n
}

// count returns a number of elements, each of which has at least one byte.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.in)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) name() string {
	if n := d.number(); n > uint64(len(d.names)) {
		d.fail()
		return ""
	} else if n > 0 {
		return d.names[n-1]
	}
	size := d.count()
	s := string(d.in[:size])
	d.in = d.in[size:]
	d.names = append(d.names, s)
	return s
}

func (d *decoder) small() int32 { return int32(min(d.number(), 1<<31-1)) }

func (d *decoder) span() source.Span {
	start := d.small()
	return source.Span{Start: start, End: start + d.small()}
}

func list[T any](d *decoder, read func() T) []T {
	n := d.count()
	if n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, read())
	}
	return slices.Clip(out)
}

// facts returns the facts, or nil if they are not whole.
func (d *decoder) facts() *source.Facts {
	f := &source.Facts{Language: source.Language(d.name()), Package: d.name()}
	flags := d.number()
	f.Generated, f.Script = flags&1 != 0, flags&2 != 0
	f.Imports = list(d, func() source.Import {
		return source.Import{
			Path: d.name(), Kind: source.ImportKind(d.number()), Within: d.name(), At: d.span(),
			Names: list(d, func() source.Name { return source.Name{Name: d.name(), As: d.name()} }),
		}
	})
	f.Decls = list(d, func() source.Decl {
		return source.Decl{
			Name: d.name(), Kind: source.DeclKind(d.number()), Exported: d.number() != 0, Parent: d.small() - 1,
			Of: d.name(), Type: d.name(), At: d.span(), Body: d.span(), NameAt: d.small(),
		}
	})
	f.Exports = list(d, func() source.Export {
		return source.Export{Name: d.name(), Local: d.name(), Import: d.small() - 1}
	})
	f.Uses = list(d, func() source.Use { return source.Use{Of: d.name(), Name: d.name(), Count: d.small()} })
	if d.failed || len(d.in) > 0 {
		return nil
	}
	return f
}
