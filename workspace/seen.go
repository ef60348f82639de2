package workspace

import (
	linked "container/list"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/aycoder/aycoder/internal/view"
)

const (
	// maxSeenBytes is how many bytes of contents [SeenFiles] keeps.
	maxSeenBytes = 64 << 20
	// maxSeenVersions is how many contents of one file it keeps, and maxSeenFiles of
	// how many files it keeps at least the hash.
	maxSeenVersions = 4
	maxSeenFiles    = 100_000
)

// SeenFiles remembers what a model has been shown of files, by their paths: the
// content as a whole, also if it saw a part of it. It is the base of a three-way merge
// when somebody changed a file since. Contents are kept up to 64 MiB, those that were
// not used for longest go first; the hash of the last one stays for the last 100,000
// files. The zero value is ready to use, and its methods are safe for concurrent use.
type SeenFiles struct {
	mu    sync.Mutex
	files map[string]*seenFile
	bytes int

	// The one that was used last is at the front of all, and of those with contents.
	all, held linked.List
}

type seenFile struct {
	path      string
	hash      string
	contents  []string // newest first
	all, held *linked.Element
}

// Add says that the model has been shown a file, or read a part of it, and what was in
// it.
func (s *SeenFiles) Add(path, content string) {
	sum := sha256.Sum256(view.Bytes(content))
	s.add(path, content, hex.EncodeToString(sum[:]))
}

// AddPart says that the model has been shown some lines of a file, as a search or a
// command prints them, and what was in the file. That is the base of a merge, too, but
// the file has not been read: what Hash returns stays as it was.
func (s *SeenFiles) AddPart(path, content string) { s.add(path, content, "") }

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

// put makes a content the newest.
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

// use makes a file the one that was used last.
func (s *SeenFiles) use(f *seenFile) {
	s.all.MoveToFront(f.all)
	if f.held != nil {
		s.held.MoveToFront(f.held)
	}
}

// drop gives up the contents of a file, forget all that is known of it.
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

func (s *SeenFiles) forget(f *seenFile) {
	s.drop(f)
	s.all.Remove(f.all)
	delete(s.files, f.path)
}

// Contents returns what the model has been shown of a file, the newest first, at most
// four; none if it was shown nothing or the contents were given up.
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

// Hash returns the SHA-256 of what the model was last shown of a file by Add, in
// hexadecimal digits, or "" if there was no such call.
func (s *SeenFiles) Hash(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[path]; f != nil {
		return f.hash
	}
	return ""
}
