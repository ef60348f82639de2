package workspace

import (
	linked "container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/view"
)

const (
	// maxSeenBytes bounds the contents that [SeenFiles] keeps, in bytes.
	maxSeenBytes = 64 << 20
	// maxSeenVersions bounds the contents that are kept of one file, and maxSeenFiles the files
	// of which at least the hash is kept.
	maxSeenVersions = 4
	maxSeenFiles    = 100_000
	// maxPages bounds the calls that together show a file.
	maxPages = 256
)

// SeenFiles remembers, by path, the contents of the files that a model has been shown. If a file
// has changed since, the content that the model was shown becomes the base of a three-way merge.
// SeenFiles always stores the content of the whole file, even if the model saw only a part of it.
// It keeps up to 64 MiB of contents, and drops the contents of the least recently used files
// first. For the last 100,000 files, it also keeps the hash of the latest content. The zero value
// is ready to use, and the methods are safe for concurrent use.
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

	// turn is that of the last call that showed a content, or "". Of each content, late says that it
	// was not known before that turn. The hash was before then.
	turn    string
	late    []bool
	before  string
	whole   string // the hash of the last content in the turn that counts as read
	unclear bool   // two of these differ

	pages []page // of the content with the hash paged
	paged string

	// Of each content, and of both hashes, views say which calls have shown it.
	views                []views
	hashViews, wasViewed views
}

// page are the lines from first to last, and the call that has shown them.
type page struct {
	first, last int
	call        string
}

// Add records that the model has read a file.
func (s *SeenFiles) Add(path, content string) { SeenBy{SeenFiles: s}.Add(path, content) }

// AddPart records that the model has seen some lines of a file, for example in the output of a
// search or a command. The content is that of the whole file, and can be the base of a merge. But
// the file does not count as read: AddPart does not change the result of Hash.
func (s *SeenFiles) AddPart(path, content string) { SeenBy{SeenFiles: s}.AddPart(path, content) }

// add notes a content as the newest of its file. Where the bounds are reached, the contents
// that were not used for the longest time go first, and their hashes stay.
func (s SeenBy) add(path, content, hash string) {
	turn := s.turn
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
	if turn == "" || turn != f.turn {
		f.turn, f.before, f.wasViewed, f.whole, f.unclear = turn, f.hash, f.hashViews, "", false
		clear(f.late)
	}
	if hash != "" {
		// If two calls of a message read different contents, nobody knows on which one the model will
		// build. It has to read the file again before it writes it anew.
		f.unclear = f.unclear || f.whole != "" && f.whole != hash
		now := s.viewsOf(f.hashViews)
		if f.hash == hash {
			now = now.or(f.hashViews)
		}
		f.hashViews = now
		if f.hash, f.whole = hash, hash; f.unclear {
			f.hash = ""
		}
	}
	now := s.viewsOf(nil)
	if i := slices.Index(f.contents, s.base); s.derived && i >= 0 {
		now = s.viewsOf(f.views[i])
	}
	f.put(content, turn != "", now, &s.bytes)
	if f.held == nil {
		f.held = s.held.PushFront(f)
	}
	s.use(f)
	for s.bytes > maxSeenBytes {
		s.drop(s.held.Back().Value.(*seenFile))
	}
}

// addPage notes a page of a content. If the model has been shown all lines by now, addPage returns the calls that have
// done so.
func (f *seenFile) addPage(hash string, p page, total int) (calls []string, all bool) {
	if f.paged != hash {
		f.paged, f.pages = hash, nil
	}
	// Lines that are shown again do not need the older call, which a request may have no more.
	var rest []page
	for _, old := range f.pages {
		if old.first < p.first {
			rest = append(rest, page{old.first, min(old.last, p.first-1), old.call})
		}
		if old.last > p.last {
			rest = append(rest, page{max(old.first, p.last+1), old.last, old.call})
		}
	}
	f.pages = append(rest[max(0, len(rest)-maxPages+1):], p)
	ordered := slices.SortedFunc(slices.Values(f.pages), func(a, b page) int { return a.first - b.first })
	read := 0 // lines from the first
	for _, p := range ordered {
		if p.first > read+1 {
			return nil, false
		}
		read = max(read, p.last)
		if p.call != "" {
			calls = append(calls, p.call)
		}
	}
	return calls, read >= total
}

// put makes a content the newest one of its file.
func (f *seenFile) put(content string, late bool, now views, bytes *int) {
	kept, lates, all := []string{content}, []bool{late}, []views{now}
	*bytes += len(content)
	for i, c := range f.contents {
		if c == content || len(kept) == maxSeenVersions {
			*bytes -= len(c)
			if c == content {
				lates[0], all[0] = lates[0] && f.late[i], now.or(f.views[i])
			}
			continue
		}
		kept, lates, all = append(kept, c), append(lates, f.late[i]), append(all, f.views[i])
	}
	f.contents, f.late, f.views = kept, lates, all
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
	f.contents, f.late, f.views = nil, nil, nil
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

// Contents returns the versions of a file that the model has been shown, newest first, but at
// most four. It returns nil if the model has not been shown the file, or if the versions were
// dropped.
func (s *SeenFiles) Contents(path string) []string { return SeenBy{SeenFiles: s}.Contents(path) }

// Hash returns the SHA-256, in hexadecimal, of the content in the latest call of Add for a file.
// It returns "" if there was no such call, or if the hash was dropped.
func (s *SeenFiles) Hash(path string) string { return SeenBy{SeenFiles: s}.Hash(path) }

// SeenBy is a [SeenFiles] as the calls of one message of the model use it. A file that one of them
// reads was not shown to the model when it wrote the message, so it does not count for the others.
type SeenBy struct {
	*SeenFiles
	turn string              // "" if everything counts
	call *aycoder.Invocation // nil if everything is in view

	base    string // of what is added
	derived bool   // there is a base

	calls []string // that have shown what is added, if it was not one alone

	restored views // of what is added, if it comes from another process
}

type callKey struct{}

// WithCall returns a context for a call of a tool, which tells [SeenFiles.For] the message of the call.
func WithCall(ctx context.Context, inv *aycoder.Invocation) context.Context {
	if inv.Run == "" { // not in a run
		return ctx
	}
	return context.WithValue(ctx, callKey{}, inv)
}

// turnOf returns what the calls of one message have in common.
func turnOf(inv *aycoder.Invocation) string {
	turn, _, _ := strings.Cut(inv.Key, "/")
	turn, _, _ = strings.Cut(turn, ".") // another attempt at the same message
	return inv.Run + "/" + turn
}

// views are the ways in which a model was shown a content: each is a list of calls which together have
// shown it, such as a reading and the edits since. The newest comes first. Without any, the host has
// shown it.
type views [][]string

const (
	maxViews = 3
	maxCalls = 16 // of a view; longer ones are dropped
)

// unknownViews returns the views of a content of which nobody knows them. It is in view if the request
// has everything.
func unknownViews() views { return views{{""}} }

// hiddenViews returns the views of a content that is in no request any more. No call has this id.
func hiddenViews() views { return views{{"\x00"}} }

// or returns the views of a content that was shown in both ways.
func (v views) or(older views) views {
	if len(v) == 0 || len(older) == 0 {
		return nil
	}
	all := slices.Concat(v, older)
	return all[:min(len(all), maxViews)]
}

// in reports whether the request to which a call belongs still has one of the views.
func (v views) in(call *aycoder.Invocation) bool {
	return len(v) == 0 || call == nil ||
		slices.ContainsFunc(v, func(calls []string) bool {
			return !slices.ContainsFunc(calls, func(id string) bool { return !call.Shows(id) })
		})
}

// viewsOf returns the views of what the call shows. If it shows only how a base was changed, those of the
// base belong to it.
func (s SeenBy) viewsOf(base views) views {
	switch {
	case s.restored != nil:
		return s.restored
	case s.call == nil:
		return nil
	case s.calls != nil:
		return views{s.calls}
	case !s.derived || len(base) == 0:
		return views{{s.call.ID}}
	}
	var out views
	for _, calls := range base {
		if len(calls) < maxCalls {
			out = append(out, append(slices.Clip(calls), s.call.ID))
		}
	}
	if out == nil { // nothing shows it at once
		return unknownViews()
	}
	return out
}

// After returns s for contents that the call has made from a base. The model has them before it only as
// long as it has the base.
func (s SeenBy) After(base string) SeenBy {
	s.base, s.derived = base, true
	return s
}

// Add is [SeenFiles.Add] for a call.
func (s SeenBy) Add(path, content string) { s.add(path, content, hashOf(content)) }

func hashOf(content string) string {
	sum := sha256.Sum256(view.Bytes(content))
	return hex.EncodeToString(sum[:])
}

// AddLines records that the model has read the lines from first to last of a file, the first line being 1. The content is
// that of the whole file, which has that many lines in total. When all lines of one content have been read, in whichever
// order, the file counts as read, as with Add. Until then it is as with AddPart.
func (s SeenBy) AddLines(path, content string, first, last, total int) {
	s.AddPart(path, content)
	p := page{first: first, last: last}
	if s.call != nil {
		p.call = s.call.ID
	}
	hash, all := hashOf(content), false
	s.mu.Lock()
	if f := s.files[path]; f != nil {
		s.calls, all = f.addPage(hash, p, total)
	}
	s.mu.Unlock()
	if all {
		s.add(path, content, hash)
	}
}

// AddPart is [SeenFiles.AddPart] for a call.
func (s SeenBy) AddPart(path, content string) { s.add(path, content, "") }

// InView reports whether the model had a version of a file, one of Contents, before it when it wrote its
// message: the request still had the calls that have shown the version (see
// [aycoder.Invocation.Shows]). A version that is not in view can still be the base of a merge, but an
// inexact edit of it is a guess. A version that the host has added is always in view.
func (s SeenBy) InView(path, content string) bool {
	s.mu.Lock()
	var shown views
	f := s.files[path]
	i := -1
	if f != nil {
		i = slices.Index(f.contents, content)
	}
	if i >= 0 {
		shown = f.views[i]
	}
	s.mu.Unlock()
	return i >= 0 && shown.in(s.call)
}

// HashInView is InView for the content that Hash names.
func (s SeenBy) HashInView(path string) bool {
	s.mu.Lock()
	var shown views
	f := s.files[path]
	if f != nil {
		if shown = f.hashViews; s.turn != "" && f.turn == s.turn {
			shown = f.wasViewed
		}
	}
	s.mu.Unlock()
	return f != nil && shown.in(s.call)
}

// Contents is [SeenFiles.Contents] when the model wrote its message.
func (s SeenBy) Contents(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	if f == nil {
		return nil
	}
	s.use(f)
	if s.turn == "" || f.turn != s.turn {
		return f.contents
	}
	var out []string
	for i, c := range f.contents {
		if !f.late[i] {
			out = append(out, c)
		}
	}
	return out
}

// Hash is [SeenFiles.Hash] when the model wrote its message.
func (s SeenBy) Hash(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	switch {
	case f == nil:
		return ""
	case s.turn != "" && f.turn == s.turn:
		return f.before
	}
	return f.hash
}

// Reader is one of several agents that share a workspace. Each of them was shown other versions of
// the files, so each needs a separate [SeenFiles]: if an agent writes a file anew, lines that only
// another agent was shown would otherwise count as deleted. The zero value is an agent that was
// shown nothing. A Reader must not be copied. It is safe for concurrent use.
type Reader struct {
	mu   sync.Mutex
	seen map[*SeenFiles]*SeenFiles // by those of the workspaces
}

type readerKey struct{}

// WithReader returns a context for the calls of the tools of an agent. For these calls, r replaces
// what [Workspace.Seen] returns. If r is nil, nothing is replaced.
func WithReader(ctx context.Context, r *Reader) context.Context {
	return context.WithValue(ctx, readerKey{}, r)
}

// For returns the files that the agent of the context was shown, instead of those of s (see
// [WithReader]), as the call of the context uses them (see [WithCall]).
func (s *SeenFiles) For(ctx context.Context) SeenBy {
	call, _ := ctx.Value(callKey{}).(*aycoder.Invocation)
	turn := ""
	if call != nil {
		turn = turnOf(call)
	}
	r, _ := ctx.Value(readerKey{}).(*Reader)
	if r == nil {
		return SeenBy{SeenFiles: s, turn: turn, call: call}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.seen[s]
	if own == nil {
		if r.seen == nil {
			r.seen = map[*SeenFiles]*SeenFiles{}
		}
		own = new(SeenFiles)
		r.seen[s] = own
	}
	return SeenBy{SeenFiles: own, turn: turn, call: call}
}

// SeenFile is what [SeenFiles] remembers of one file.
type SeenFile struct {
	Path string
	// Hash is what [SeenFiles.Hash] returns, and Contents is what [SeenFiles.Contents] returns.
	Hash     string
	Contents []string
	// Hidden says that the model does not have the contents before it any more, so that they only count
	// as bases of merges. [SeenFiles.All] does not set it.
	Hidden bool
}

// All returns everything that is remembered. The least recently used file comes first.
func (s *SeenFiles) All() []SeenFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]SeenFile, 0, len(s.files))
	for e := s.all.Back(); e != nil; e = e.Prev() {
		f := e.Value.(*seenFile)
		all = append(all, SeenFile{Path: f.path, Hash: f.hash, Contents: f.contents})
	}
	return all
}

// Reset forgets all files.
func (s *SeenFiles) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.all.Len() > 0 {
		s.forget(s.all.Back().Value.(*seenFile))
	}
}

// Restore records a file as [SeenFiles.All] of another process returned it. To restore all files,
// call Restore in the same order. Of a file that is remembered already, the new contents count as
// the most recent ones. A file without contents is left out. Nobody knows which calls have shown the
// contents, so they count as in view if requests leave out nothing, and if they are not Hidden.
func (s *SeenFiles) Restore(f SeenFile) {
	by := SeenBy{SeenFiles: s, restored: unknownViews()}
	if f.Hidden {
		by.restored = hiddenViews()
	}
	for i, c := range slices.Backward(f.Contents) {
		hash := ""
		if i == 0 {
			hash = f.Hash
		}
		by.add(f.Path, c, hash)
	}
}
