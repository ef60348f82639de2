package config

import (
	"context"
	"crypto/sha256"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder/internal/regular"
)

const (
	rest   = 500 * time.Millisecond // how long a file must not have changed
	coarse = 2 * time.Second        // the time in which two changes may have the same time stamp
	tick   = time.Second            // between two looks of Watch
)

// Reloader loads a configuration again after its files have changed. It looks only when it is asked to, so an idle
// agent has no goroutine and no watch of the system. A host asks at the boundary between two turns, where a change
// may take effect. It is safe for concurrent use.
type Reloader struct {
	setup setup
	last  atomic.Pointer[Loaded]

	mu    sync.Mutex
	files map[string]*watched
	kept  map[string][]byte // the last good contents, for files that vanish
	dirty bool              // a file has changed since the last load
	fault error             // of the last load
}

// Change reports that files have changed.
type Change struct {
	// Loaded is the configuration in force now. If the files are invalid, it is the one from before.
	Loaded *Loaded
	// Keys are the keys with another value than before, sorted. A list is one key.
	Keys []string
	// Err is an [*InvalidError] if the files are invalid. It is reported once.
	Err error
}

// NewReloader loads a configuration. The options and errors are those of [Load].
func NewReloader(opts ...Option) (*Reloader, error) {
	s, err := newSetup(opts)
	if err != nil {
		return nil, err
	}
	r := &Reloader{setup: s, files: map[string]*watched{}}
	if s.trust != nil { // before it is used, so that no answer is missed
		f := file{name: s.trust.path}
		r.files[f.name] = &watched{file: f, hash: hashOf(f)}
	}
	l, err := load(s, nil)
	if err != nil {
		return nil, err
	}
	r.accept(l)
	return r, nil
}

// Current returns the configuration in force. It does not look at the files.
func (r *Reloader) Current() *Loaded { return r.last.Load() }

// Fault returns an [*InvalidError] if the files were invalid when they were last loaded, so that they are not in
// force. A [Change] reports it once; with Fault, several runtimes that share a Reloader can each report it.
func (r *Reloader) Fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// Reload reads all files and loads the configuration at once, also if a file has changed just now: call it when the
// user asks for it.
func (r *Reloader) Reload() *Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.files {
		w.stamp, w.hash, w.young = stampOf(w.file.name), hashOf(w.file), true
	}
	if c := r.load(); c != nil {
		return c
	}
	r.dirty = true // a file has changed meanwhile, and a later Check finds it
	return &Change{Loaded: r.Current(), Err: r.fault}
}

// Check looks whether files have changed, and loads the configuration again if they have. It returns nil if they
// have not, or if the last change is less than half a second ago, because a file that is being written is often
// valid too; a later Check finds it. A file that has vanished keeps its last values, and is reported. Invalid files
// change nothing.
//
// Without a change, Check costs one stat for each file. A file whose time is younger than two seconds is read again,
// because it may have changed twice within the precision of the clock of its file system.
func (r *Reloader) Check() *Change { return r.check(false) }

// Watch returns the changes that Check finds, each second and whenever signal has a value, which makes Check read
// all files. It works on the goroutine of the caller, until ctx is done or the loop ends. signal may be nil.
func (r *Reloader) Watch(ctx context.Context, signal <-chan struct{}) iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		for {
			signalled, ok := r.wait(ctx, signal)
			if !ok {
				return
			}
			if c := r.check(signalled); c != nil && !yield(c) {
				return
			}
		}
	}
}

// wait returns false when ctx is done.
func (r *Reloader) wait(ctx context.Context, signal <-chan struct{}) (signalled, ok bool) {
	now := make(chan struct{}, 1)
	stop := r.setup.clock.AfterFunc(tick, func() { now <- struct{}{} })
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-now:
			return false, true
		case _, open := <-signal:
			if open {
				return true, true
			}
			signal = nil // nothing comes from a closed channel
		}
	}
}

func (r *Reloader) check(all bool) *Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, quiet := r.setup.clock.Now(), true
	for _, w := range r.files {
		w.young = w.young || all
		changed, rested := w.look(now, w.file.name == r.trustPath())
		r.dirty = r.dirty || changed
		quiet = quiet && (rested || w.file.root != "") // a project must not keep back what the user changes
	}
	if !r.dirty || !quiet {
		return nil
	}
	return r.load()
}

func (r *Reloader) trustPath() string {
	if r.setup.trust == nil {
		return ""
	}
	return r.setup.trust.path
}

// load loads the configuration, unless a file changes again meanwhile. Of a file of a project, the next look finds that.
func (r *Reloader) load() *Change {
	l, err := load(r.setup, r.kept)
	for name, h := range l.hashes {
		switch w := r.files[name]; {
		case w == nil || !w.stamp.exists || w.hash == h:
		case w.file.root == "":
			return nil
		default:
			w.hash, w.young = h, true
		}
	}
	r.dirty = false
	before := r.Current()
	r.fault = err
	if err != nil {
		return &Change{Loaded: before, Err: err}
	}
	r.accept(l)
	return &Change{Loaded: l, Keys: keysOf(l.Since(before))}
}

// accept puts a configuration into force.
func (r *Reloader) accept(l *Loaded) {
	if before := r.Current(); before != nil {
		l.keep(before)
	}
	r.kept = l.files
	for _, f := range r.setup.dependencies(l) {
		if r.files[f.name] == nil {
			r.files[f.name] = &watched{file: f, hash: l.hashes[f.name]}
		}
	}
	r.last.Store(l)
}

// dependencies returns the files that a configuration depends on.
func (s *setup) dependencies(l *Loaded) []file {
	out := append(s.files(), s.formFiles()...)
	for name := range l.hashes {
		if rel, err := filepath.Rel(s.project, name); s.project != "" && err == nil && filepath.IsLocal(rel) {
			out = append(out, file{name: name, root: s.project, rel: filepath.ToSlash(rel)})
		}
	}
	return out
}

// A watched file is one whose changes count.
type watched struct {
	file  file
	stamp stamp // with which the hash was made
	hash  [sha256.Size]byte
	young bool // a later content may have the same stamp

	seen  stamp             // the last one
	since time.Time         // when it was first seen
	next  [sha256.Size]byte // of another content with the same stamp
}

// A stamp is what the system tells about a file without reading it. It is comparable.
type stamp struct {
	exists       bool
	size         int64
	inode        uint64
	mod, changed int64 // nanoseconds
}

func stampOf(name string) stamp {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	inode, changed := regular.Identity(info)
	return stamp{true, info.Size(), inode, info.ModTime().UnixNano(), changed.UnixNano()}
}

// look reports whether the content has changed, and whether the file rests. A file that does not rest is looked at
// again.
func (w *watched) look(now time.Time, whole bool) (changed, rested bool) {
	s := stampOf(w.file.name)
	if s == w.stamp && !w.young {
		return false, true
	}
	if s != w.seen || w.since.IsZero() {
		w.seen, w.since = s, now
	}
	if s != w.stamp && !whole && !s.rests(w.since, now) {
		return false, false
	}
	hash := hashOf(w.file)
	if stampOf(w.file.name) != s {
		return false, false
	}
	changed = hash != w.hash
	if changed && s == w.stamp && !w.repeats(hash, now) {
		return false, false
	}
	w.stamp, w.hash = s, hash
	w.young = s.exists && now.Sub(time.Unix(0, s.mod)) < coarse
	return changed, true
}

// repeats reports whether a content with an old stamp rests, which its stamp cannot tell.
func (w *watched) repeats(hash [sha256.Size]byte, now time.Time) bool {
	if hash != w.next {
		w.next, w.since = hash, now
	}
	return now.Sub(w.since) >= rest
}

// rests reports whether a file with the stamp, which was first seen at a time, has not changed for a while. The times
// of the file count only if they are past: they may come from another machine.
func (s stamp) rests(since, now time.Time) bool {
	last := time.Unix(0, max(s.mod, s.changed))
	return now.Sub(since) >= rest || s.exists && now.Sub(last) >= rest
}

// hashOf returns the hash of a file, or zeros if it cannot be read.
func hashOf(f file) [sha256.Size]byte {
	data, err := f.read(maxScript)
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(data)
}
