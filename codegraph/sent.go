package codegraph

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// A sum stands for a message and all messages before it.
type sum [sha256.Size]byte

// An addition is what was added to a message.
type addition struct {
	After  string   `json:"after"` // the sum of the message, in hexadecimal digits
	Text   string   `json:"text"`
	Tokens int64    `json:"tokens"`
	InPlay []string `json:"in_play"` // the files for which it was made
	Shown  []shown  `json:"shown"`
}

// shown is a file in an addition.
type shown struct {
	Path  string `json:"path"`
	Level Level  `json:"level"`
	File  string `json:"file"` // hash of the file
	Text  string `json:"item"` // hash of what is shown of it
}

const (
	sentName   = "sent"
	sentPrefix = "aycoder sent 1\n" // the version
	maxSent    = 8 << 20            // bytes, after which the older half is dropped
	sentBytes  = 512                // that an addition takes beside its text, about
)

// sent has the additions of all conversations. In a directory, they are a line each of a file, after its
// checksum. Whatever is not whole is left out. It is safe for concurrent use.
type sent struct {
	dir  string // or ""
	load sync.Once

	mu    sync.Mutex
	known map[string]*addition
	order []*addition // the oldest first
	size  int
}

// get returns what was added to a message, or nil.
func (s *sent) get(after sum) *addition {
	s.load.Do(s.read)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[hex.EncodeToString(after[:])]
}

// put stores an addition before it is sent.
func (s *sent) put(a *addition) error {
	s.load.Do(s.read)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(a)
	if s.dir == "" {
		return nil
	}
	if err := s.write(a); err != nil {
		return fmt.Errorf("keep what was added to a request: %w", err)
	}
	return nil
}

// add makes an addition known. The mutex is held.
func (s *sent) add(a *addition) {
	s.known[a.After] = a
	s.order = append(s.order, a)
	if s.size += len(a.Text) + sentBytes; s.size <= maxSent {
		return
	}
	for s.size > maxSent/2 {
		old := s.order[0]
		if s.order = s.order[1:]; s.known[old.After] == old {
			delete(s.known, old.After)
		}
		s.size -= len(old.Text) + sentBytes
	}
}

// write adds a line to the file, which is written anew when it is too large. An empty line keeps it apart from
// one that was cut. A link to another file or a named pipe in its place is replaced.
func (s *sent) write(a *addition) (err error) {
	name := filepath.Join(s.dir, sentName)
	if info, err := os.Lstat(name); err == nil && (info.Size() >= 2*maxSent || !info.Mode().IsRegular()) {
		return replace.File(name, ".sent-*", s.all)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte("\n"), a.line()...))
	return errors.Join(err, f.Close())
}

// all writes all additions that are known.
func (s *sent) all(f *os.File) error {
	for _, a := range s.order {
		if _, err := f.Write(a.line()); err != nil {
			return err
		}
	}
	return nil
}

// line returns an addition as it is in the file.
func (a *addition) line() []byte {
	data, _ := json.Marshal(a) // never fails
	return fmt.Appendf(nil, "%x %s\n", checksum(data), data)
}

func checksum(data []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(sentPrefix), data...))
}

// read reads the file.
func (s *sent) read() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = map[string]*addition{}
	if s.dir == "" {
		return
	}
	f, err := regular.Open(filepath.Join(s.dir, sentName))
	if err != nil {
		return
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 4*maxSent)) // what was read counts
	for line := range bytes.Lines(data) {
		if a := additionOf(line); a != nil {
			s.add(a)
		}
	}
}

// additionOf returns the addition in a line, or nil if it is not whole.
func additionOf(line []byte) *addition {
	digits, data, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if sum := checksum(data); hex.EncodeToString(sum[:]) != string(digits) {
		return nil
	}
	a := &addition{}
	if json.Unmarshal(data, a) != nil {
		return nil
	}
	return a
}
