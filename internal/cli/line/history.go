package line

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The limits of a history. Two files are kept, of which the older one is dropped as a
// whole: no entry is ever copied, so that none is lost between two processes.
const (
	maxEntries   = 5000
	maxEntry     = 64 << 10
	maxFile      = 2 << 20
	lockTooOld   = time.Minute
	olderSuffix  = ".1"
	lockedSuffix = ".lock"
)

// A History is what was entered, in a file of JSON lines that several processes may use.
// The file can be read by its owner only.
type History struct {
	name, dir string
	entries   []entry // the oldest first
	maxFile   int64
}

type entry struct {
	Time time.Time `json:"time"`
	Dir  string    `json:"dir,omitempty"`
	Text string    `json:"text"`
}

// LoadHistory reads a file, if there is one. Entries of the directory dir come first. Lines
// that are not entries are skipped. An empty name is a history in memory.
func LoadHistory(name, dir string) (*History, error) {
	h := &History{name: name, dir: dir, maxFile: maxFile}
	if name == "" {
		return h, nil
	}
	for _, file := range []string{name + olderSuffix, name} {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return h, fmt.Errorf("read the history: %w", err)
		}
		h.parse(data)
	}
	return h, nil
}

func (h *History) parse(data []byte) {
	for line := range bytes.Lines(data) {
		var e entry
		if json.Unmarshal(line, &e) == nil && e.Text != "" {
			h.keep(e)
		}
	}
}

func (h *History) keep(e entry) {
	h.entries = append(h.entries, e)
	h.entries = h.entries[max(len(h.entries)-maxEntries, 0):]
}

// Entries returns the texts, the newest first: those of the directory, then the others.
// Each text comes once.
func (h *History) Entries() []string {
	var out []string
	seen := map[string]bool{}
	for _, here := range []bool{true, false} {
		for _, e := range slices.Backward(h.entries) {
			if (e.Dir == h.dir) == here && !seen[e.Text] {
				seen[e.Text] = true
				out = append(out, e.Text)
			}
		}
	}
	return out
}

// Add appends a text, in memory and to the file. A text that is empty, or the same as the
// one before, is left out; a text of more than 64 KiB is kept in memory only.
func (h *History) Add(text string) error {
	if n := len(h.entries); text == "" || n > 0 && h.entries[n-1].Text == text && h.entries[n-1].Dir == h.dir {
		return nil
	}
	e := entry{time.Now().UTC().Truncate(time.Second), h.dir, text}
	h.keep(e)
	if h.name == "" || len(text) > maxEntry {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = h.write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// write appends a line. One write to a file that is opened for appending is not mixed with
// those of other processes.
func (h *History) write(line []byte) error {
	if err := os.MkdirAll(filepath.Dir(h.name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 && !endsLine(f, size) {
		line = append([]byte("\n"), line...) // behind an entry that was cut
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	if info.Size() > h.maxFile {
		h.rotate()
	}
	return f.Close()
}

func endsLine(f *os.File, size int64) bool {
	last := make([]byte, 1)
	_, err := f.ReadAt(last, size-1)
	return err != nil || last[0] == '\n'
}

// rotate makes the file the older one, unless another process is doing that. The next
// entry finds it if this one does not.
func (h *History) rotate() {
	lock := h.name + lockedSuffix
	if info, err := os.Stat(lock); err == nil && time.Since(info.ModTime()) > lockTooOld {
		_ = os.Remove(lock)
	}
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	defer os.Remove(lock)
	defer f.Close()
	if info, err := os.Stat(h.name); err == nil && info.Size() > h.maxFile {
		_ = os.Rename(h.name, h.name+olderSuffix)
	}
}
