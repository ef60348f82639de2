package codegraph

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/packed"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// A cache is one file with the facts of the files of a workspace, by the hashes of their contents. It begins with
// cacheMagic and the hash of all that follows, so a file that is damaged, cut or of another version is as good
// as none. The facts are not looked up by name and time: a file is read and hashed before its facts are used.

const (
	// cacheMagic names the version. It changes with what the scanners of package source find.
	cacheMagic = "aycoder facts 4\n"
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
		facts := packed.Encode(*f.facts)
		if len(out)+len(facts) > maxCache {
			break
		}
		key := keyOf(f.hash, f.facts.Language)
		out = append(out, key[:]...)
		out = binary.AppendUvarint(out, uint64(len(facts)))
		out = append(out, facts...)
	}
	sum := sha256.Sum256(out[len(cacheMagic)+sha256.Size:])
	copy(out[len(cacheMagic):], sum[:])
	return out
}

// A factsKey names facts in a cache.
type factsKey [sha256.Size]byte

// keyOf returns the key of the facts of a content: the same bytes may be read as two languages.
func keyOf(content [sha256.Size]byte, lang source.Language) factsKey {
	return sha256.Sum256(append(content[:], lang...))
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
		rest = rest[copy(k[:], rest):]
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil
		}
		found[k] = rest[n : n+int(size)]
		rest = rest[n+int(size):]
	}
	return found
}
