package aycoder

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

const (
	// maxShownBytes is how many bytes of contents [ShownFiles] keeps.
	maxShownBytes = 64 << 20
	// maxShownVersions is how many contents of one file it keeps, and maxShownFiles of
	// how many files it keeps at least the hash.
	maxShownVersions = 4
	maxShownFiles    = 100_000
)

// ShownFiles remembers what a model has been shown of files, by their paths: the
// content as a whole, also if it saw a part of it. It is the base of a three-way merge
// when somebody changed a file since. Contents are kept up to 64 MiB, those that were
// not used for longest go first; the hash of the last one stays for the last 100,000
// files. The zero value is ready to use, and its methods are safe for concurrent use.
type ShownFiles struct {
	mu    sync.Mutex
	files map[string]*shownFile
	clock int64
	bytes int
}

type shownFile struct {
	hash     string
	contents []string // newest first
	used     int64
}

// Add says that the model has been shown a file, or a part of it, and what was in it.
func (s *ShownFiles) Add(path, content string) {
	sum := sha256.Sum256([]byte(content))
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f == nil {
		if s.files == nil {
			s.files = map[string]*shownFile{}
		}
		if len(s.files) >= maxShownFiles {
			s.forget(s.oldest(func(*shownFile) bool { return true }))
		}
		f = &shownFile{}
		s.files[path] = f
	}
	s.clock++
	f.used, f.hash = s.clock, hex.EncodeToString(sum[:])
	f.put(content, &s.bytes)
	for s.bytes > maxShownBytes {
		s.drop(s.oldest(func(f *shownFile) bool { return len(f.contents) > 0 }))
	}
}

// put makes a content the newest.
func (f *shownFile) put(content string, bytes *int) {
	kept := []string{content}
	*bytes += len(content)
	for _, c := range f.contents {
		if c == content || len(kept) == maxShownVersions {
			*bytes -= len(c)
			continue
		}
		kept = append(kept, c)
	}
	f.contents = kept
}

func (s *ShownFiles) oldest(which func(*shownFile) bool) (path string) {
	var best *shownFile
	for p, f := range s.files {
		if which(f) && (best == nil || f.used < best.used) {
			path, best = p, f
		}
	}
	return path
}

// drop gives up the contents of a file, forget all that is known of it.
func (s *ShownFiles) drop(path string) {
	f := s.files[path]
	for _, c := range f.contents {
		s.bytes -= len(c)
	}
	f.contents = nil
}

func (s *ShownFiles) forget(path string) {
	s.drop(path)
	delete(s.files, path)
}

// Contents returns what the model has been shown of a file, the newest first, at most
// four; none if it was shown nothing or the contents were given up.
func (s *ShownFiles) Contents(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f == nil {
		return nil
	}
	s.clock++
	f.used = s.clock
	return f.contents
}

// Hash returns the SHA-256 of what the model was last shown of a file, in hexadecimal
// digits, or "" if it was shown nothing.
func (s *ShownFiles) Hash(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[path]; f != nil {
		return f.hash
	}
	return ""
}
