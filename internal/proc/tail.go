package proc

import (
	"strings"
	"sync"
)

// A Tail keeps the last Max bytes of what is written to it. It is safe for concurrent use.
type Tail struct {
	Max int

	mu   sync.Mutex
	kept []byte
}

// Write implements [io.Writer]. It returns no error.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if more := len(t.kept) - t.Max; more > 0 {
		t.kept = append(t.kept[:0:0], t.kept[more:]...)
	}
	return len(b), nil
}

// Text returns what is kept, as [Clean] makes it, without white space around it.
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, _ := Clean(t.kept)
	return strings.TrimSpace(text)
}
