package middleware

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder/internal/lru"
)

// MemoryStore is a [CacheStore] in memory. When it is full, it drops the least recently used
// entries.
type MemoryStore struct{ cache *lru.Cache }

// NewMemoryStore returns an empty store that uses at most about maxBytes of memory. An entry that
// is larger than maxBytes is not stored.
func NewMemoryStore(maxBytes int64) *MemoryStore { return &MemoryStore{lru.New(maxBytes)} }

// Load implements [CacheStore].
func (s *MemoryStore) Load(_ context.Context, key string) ([]byte, bool, error) {
	data, ok := s.cache.Get(key)
	return data, ok, nil
}

// Store implements [CacheStore].
func (s *MemoryStore) Store(_ context.Context, key string, data []byte) error {
	s.cache.Put(key, data)
	return nil
}

// DirStore is a [CacheStore] in a directory, with one file for each answer. Several processes may
// share the directory. When the store is full, it removes the least recently used files. Only the
// owner can read the files, since requests and answers may be private.
type DirStore struct {
	root *os.Root
	max  int64

	mu    sync.Mutex
	size  int64 // about; other processes write, too
	since int64 // of it was written since it was counted
}

const (
	// blockBytes is what a file takes up at least.
	blockBytes = 4 << 10
	// staleAfter is the age at which an incomplete file is removed: the process that wrote it has
	// ended.
	staleAfter = time.Hour
	tempPrefix = ".tmp-"
	// recount is the share of a store after which a process counts the files of other processes.
	recount = 8
)

// OpenDirStore opens the store in the directory dir, and creates dir if necessary. The files of
// all processes that share the directory take at most about maxBytes of disk space together. For
// a while they may take more: up to an eighth of maxBytes for each process. All processes should
// pass the same maxBytes. Call Close after use.
func OpenDirStore(dir string, maxBytes int64) (*DirStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	s := &DirStore{root: root, max: maxBytes}
	if err := s.trim(); err != nil {
		return nil, errors.Join(fmt.Errorf("open cache: %w", err), root.Close())
	}
	return s, nil
}

// Close closes the directory. The files remain.
func (s *DirStore) Close() error { return s.root.Close() }

// Load implements [CacheStore].
func (s *DirStore) Load(ctx context.Context, key string) ([]byte, bool, error) {
	if err := cmp.Or(ctx.Err(), checkKey(key)); err != nil {
		return nil, false, fmt.Errorf("load: %w", err)
	}
	data, err := s.read(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("load: %w", err)
	}
	now := time.Now()
	_ = s.root.Chtimes(key, now, now) // it is used; another process may have removed it
	return data, true, nil
}

func (s *DirStore) read(key string) ([]byte, error) {
	info, err := s.root.Lstat(key)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > s.max { // opening a named pipe would wait
		return nil, fmt.Errorf("%s is not a file of this store", key)
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, s.max))
	return data, errors.Join(err, f.Close())
}

// Store implements [CacheStore]. If the process crashes, either the complete file is there or
// none.
func (s *DirStore) Store(ctx context.Context, key string, data []byte) error {
	if err := cmp.Or(ctx.Err(), checkKey(key)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if fileBytes(int64(len(data))) > s.max {
		return nil
	}
	temp := tempPrefix + rand.Text()
	if err := s.replace(temp, key, data); err != nil {
		_ = s.root.Remove(temp) // the file may not exist
		return fmt.Errorf("store: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += fileBytes(int64(len(data)))
	s.since += fileBytes(int64(len(data)))
	if s.size <= s.max && s.since <= s.max/recount {
		return nil
	}
	if err := s.trim(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// replace writes the file under a temporary name, and then renames it. The file is not synced: if
// the machine crashes, the checksum reveals a damaged file.
func (s *DirStore) replace(temp, key string, data []byte) error {
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.root.Rename(temp, key)
}

// trim counts the files. If they take too much space, it removes the least recently used ones
// until a tenth is free. The caller must hold the mutex.
func (s *DirStore) trim() error {
	files, err := s.files()
	if err != nil {
		return err
	}
	s.size, s.since = 0, 0
	for _, f := range files {
		s.size += fileBytes(f.Size())
	}
	if s.size <= s.max {
		return nil
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if s.size <= s.max-s.max/10 {
			break
		}
		if err := s.root.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.size -= fileBytes(f.Size())
	}
	return nil
}

// files returns the files of the store, and removes the incomplete files that a crash has left.
func (s *DirStore) files() ([]fs.FileInfo, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // removed meanwhile, or not a file of this store
		}
		switch {
		case checkKey(e.Name()) == nil:
			files = append(files, info)
		case strings.HasPrefix(e.Name(), tempPrefix) && time.Since(info.ModTime()) > staleAfter:
			_ = s.root.Remove(e.Name()) // or another process does
		}
	}
	return files, nil
}

// fileBytes returns the disk space of a file of n bytes.
func fileBytes(n int64) int64 { return (n/blockBytes + 1) * blockBytes }

var errKey = errors.New("key is not 64 hexadecimal digits")

// checkKey returns an error if a key cannot be used as the name of a file.
func checkKey(key string) error {
	hexDigit := func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' }
	if len(key) != 64 || strings.ContainsFunc(key, func(r rune) bool { return !hexDigit(r) }) {
		return errKey
	}
	return nil
}
