package workspace

import (
	linked "container/list"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/aycoder/aycoder/internal/view"
)

const (
	// maxSeenBytes bounds the contents that [SeenFiles] keeps, in bytes.
	maxSeenBytes = 64 << 20
	// maxSeenVersions bounds the contents that are kept of one file, and maxSeenFiles the files
	// of which at least the hash is kept.
	maxSeenVersions = 4
	maxSeenFiles    = 100_000
)

// SeenFiles remembers, by path, which contents of files a model has been shown: the whole
// content, even if the model saw only a part. Such a content is the base of a three-way merge
// if the file has changed since. Up to 64 MiB of contents are kept, and the least recently used
// ones are dropped first; the hash of the latest content is kept for the last 100,000 files.
// The zero value is ready to use, and its methods are safe for concurrent use.
type SeenFiles struct {
	mu    sync.Mutex
	files map[string]*seenFile
	bytes int

	// Both lists have the most recently used file first. held has only the files with contents.
	all, held linked.List
}

// It is in two lists, by when it was used last: of all files, and of those whose contents
// are kept.
type seenFile struct {
	path      string
	hash      string
	contents  []string // newest first
	all, held *linked.Element
}

// Add records that the model has read a file, or a part of it, with this content.
func (s *SeenFiles) Add(path, content string) {
	sum := sha256.Sum256(view.Bytes(content))
	s.add(path, content, hex.EncodeToString(sum[:]))
}

// AddPart records that the model has seen some lines of a file, as a search or a command prints
// them. The content can be the base of a merge, but the file does not count as read: Hash is
// unchanged.
func (s *SeenFiles) AddPart(path, content string) { s.add(path, content, "") }

// add notes a content as the newest of its file. Where the bounds are reached, the contents
// that were not used for the longest time go first, and their hashes stay.
func (s *SeenFiles) add(path, content, hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f == nil {
		if s.files == nil {
			s.files = map[string]*seenFile{}
		}
		if len(s.files) >= maxSeenFiles {
			s.forget(s.all.Back().Value.(*seenFile))
		}
		f = &seenFile{path: path}
		f.all = s.all.PushFront(f)
		s.files[path] = f
	}
	if hash != "" {
		f.hash = hash
	}
	f.put(content, &s.bytes)
	if f.held == nil {
		f.held = s.held.PushFront(f)
	}
	s.use(f)
	for s.bytes > maxSeenBytes {
		s.drop(s.held.Back().Value.(*seenFile))
	}
}

// put makes a content the newest one of its file.
func (f *seenFile) put(content string, bytes *int) {
	kept := []string{content}
	*bytes += len(content)
	for _, c := range f.contents {
		if c == content || len(kept) == maxSeenVersions {
			*bytes -= len(c)
			continue
		}
		kept = append(kept, c)
	}
	f.contents = kept
}

// use moves a file to the front.
func (s *SeenFiles) use(f *seenFile) {
	s.all.MoveToFront(f.all)
	if f.held != nil {
		s.held.MoveToFront(f.held)
	}
}

// drop drops the contents of a file; forget drops the hash too.
func (s *SeenFiles) drop(f *seenFile) {
	for _, c := range f.contents {
		s.bytes -= len(c)
	}
	f.contents = nil
	if f.held != nil {
		s.held.Remove(f.held)
		f.held = nil
	}
}

// forget drops a file, with its hash.
func (s *SeenFiles) forget(f *seenFile) {
	s.drop(f)
	s.all.Remove(f.all)
	delete(s.files, f.path)
}

// Contents returns the contents of a file that the model has been shown, newest first, at most
// four. It returns none if there are none or they were dropped.
func (s *SeenFiles) Contents(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f == nil {
		return nil
	}
	s.use(f)
	return f.contents
}

// Hash returns the SHA-256, in hexadecimal, of the last content passed to Add for a file, or ""
// if there is none.
func (s *SeenFiles) Hash(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[path]; f != nil {
		return f.hash
	}
	return ""
}
