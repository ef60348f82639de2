package lsp

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxErrors     = 10_000 // that are kept of a server
	maxFileErrors = 200    // of one file
	maxErrorText  = 300    // bytes
	maxCode       = 80     // bytes of the code of an error
	maxPulled     = 8      // files that are asked about beside those that were edited
	maxRetries    = 3      // of a question that the server gives up
)

// A server that has said what it thinks of an edited file may go on with others that depend on it. It is done
// when it has been quiet for a while. A server that does not say which version it means gets more time, since
// it may still have spoken of the last one.
const (
	quietFor         = 150 * time.Millisecond
	quietUnversioned = 400 * time.Millisecond
)

// A problem is an error that a server has reported.
type problem struct {
	line int    // one-based
	text string // in one line, with its code
}

// store keeps the errors that a server has reported. It bounds what the server sends.
type store struct {
	mu      sync.Mutex
	files   map[string]*reported
	total   int
	changed chan struct{} // closed and replaced when something is published
}

// reported is what a server has said of a file.
type reported struct {
	expected bool // the file is open
	version  int  // 0 if the server does not say
	count    int  // of publications
	errors   []problem
}

func newStore() store { return store{files: map[string]*reported{}, changed: make(chan struct{})} }

// watch returns a channel that is closed at the next publication.
func (s *store) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// signal wakes those who watch.
func (s *store) signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// expect makes sure that a file has a place, and returns how often errors were published for it.
func (s *store) expect(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.files[name]
	if r == nil {
		r = &reported{}
		s.files[name] = r
	}
	r.expected = true
	return r.count
}

// forget says that a file is not open any more.
func (s *store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.files[name]; r != nil {
		r.expected = false
	}
}

// set replaces the errors of a file, unless there is no room.
func (s *store) set(name string, version int, errors []problem) {
	s.mu.Lock()
	r := s.files[name]
	if r == nil {
		r = &reported{}
	}
	room := maxErrors - s.total + len(r.errors)
	errors = errors[:min(len(errors), room)]
	s.total += len(errors) - len(r.errors)
	r.errors, r.version = errors, version
	r.count++
	if len(errors) > 0 || r.expected {
		s.files[name] = r
	} else {
		delete(s.files, name)
	}
	s.mu.Unlock()
	s.signal()
}

// errors returns a copy of all errors.
func (s *store) errors() map[string][]problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]problem, len(s.files))
	for name, r := range s.files {
		all[name] = r.errors // replaced as a whole, never changed
	}
	return all
}

// answers reports whether the server has spoken of a version of a file, and whether it says which one.
func (s *store) answers(name string, d *document) (yes, versioned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.files[name]
	if r == nil {
		return false, false
	}
	if r.version > 0 {
		return r.version >= d.version, true
	}
	return r.count > d.count, false
}

// publish takes over the errors of a file.
func (x *session) publish(p *publishParams) {
	name, ok := x.client.relative(pathOf(p.URI, windows()))
	if !ok {
		return
	}
	version := 0
	if p.Version != nil {
		version = *p.Version
	}
	x.store.set(name, version, problemsOf(p.Diagnostics))
}

func problemsOf(all []wireDiagnostic) []problem {
	var out []problem
	for _, d := range all {
		if d.Severity > severityError || len(out) == maxFileErrors {
			continue // without a severity, it is up to the client: an error
		}
		var code string
		if json.Unmarshal(d.Code, &code) != nil {
			code = string(d.Code)
		}
		out = append(out, problem{d.Range.Start.Line + 1, coded(d.Message, code)})
	}
	return out
}

// coded returns a message in one line, with its code.
func coded(message, code string) string {
	text := lineOf(message, maxErrorText)
	if code = lineOf(code, maxCode); code != "" {
		text = runes.Shorten(text, maxErrorText-len(" ()…")-len(code)) + " (" + code + ")"
	}
	return text
}

// lineOf makes one line of a text of a server, of at most n bytes and "…". It replaces marks that turn the direction
// of a text and the like, which would mislead a reader.
func lineOf(text string, n int) string {
	text = strings.Join(strings.Fields(runes.Cut(text, 8*n)), " ")
	text = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
	return strings.Clone(runes.Shorten(text, n)) // and not the whole message with it
}

// settle waits until the server has said what is wrong with these open files in their current texts, and with
// others as far as it tells soon. It reports whether it has.
func (x *session) settle(ctx context.Context, names []string) bool {
	if ctx.Err() != nil {
		return false
	}
	quiet := quietFor
	for {
		published := x.store.watch()
		if x.pull.Load() {
			return x.ask(ctx, names)
		}
		missing := false
		for _, name := range names {
			yes, versioned := x.store.answers(name, x.docs.open[name])
			if missing = missing || !yes; yes && !versioned {
				quiet = quietUnversioned
			}
		}
		if !missing {
			break
		}
		select {
		case <-published:
		case <-x.conn.done:
			return false
		case <-ctx.Done():
			return false
		}
	}
	if !x.docs.dirty {
		return true
	}
	return x.silence(ctx, quiet)
}

// silence waits until nothing was published for a while. If ctx ends before, what there is has to do.
func (x *session) silence(ctx context.Context, quiet time.Duration) bool {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-x.store.watch():
			timer.Reset(quiet)
		case <-timer.C:
			x.docs.dirty = false
			return true
		case <-x.conn.done:
			return false
		case <-ctx.Done():
			return true
		}
	}
}

// ask asks for the errors of these files, and of some others that are open.
func (x *session) ask(ctx context.Context, names []string) bool {
	for _, name := range names {
		if !x.docs.open[name].diagnosed && !x.askOne(ctx, name) {
			return false
		}
	}
	asked := 0
	for _, name := range x.recent() {
		if asked == maxPulled {
			break
		}
		if !x.docs.open[name].diagnosed {
			asked++
			x.askOne(ctx, name)
		}
	}
	x.docs.dirty = false
	return true
}

// askOne asks for the errors of one file.
func (x *session) askOne(ctx context.Context, name string) bool {
	params := map[string]any{"textDocument": map[string]any{"uri": x.uri(name)}}
	for range maxRetries { // a server may be busy with a change that makes the answer useless
		var report diagnosticReport
		err := x.conn.call(ctx, "textDocument/diagnostic", params, &report)
		if _, refused := err.(*ResponseError); refused && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return false
		}
		if report.Kind != "unchanged" {
			x.store.set(name, 0, problemsOf(report.Items))
		}
		for uri, r := range report.Related {
			if other, ok := x.client.relative(pathOf(uri, windows())); ok && r.Kind != "unchanged" {
				x.store.set(other, 0, problemsOf(r.Items))
			}
		}
		x.docs.open[name].diagnosed = true
		return true
	}
	return false
}
