package codegraph

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/packed"
	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/aycoder/aycoder/internal/runes"
)

// Analyzer reads the facts of the files of a language that this library does not know, or not well enough.
// Its methods are called by several goroutines.
type Analyzer interface {
	// Extensions returns the ends of the names of its files, with the dot: ".vue". They go before those
	// of this library.
	Extensions() []string
	// Scan returns the facts of a file. It must depend on nothing but its arguments. If the Language of the
	// facts is one of package source, its rules resolve the imports. If it returns an error, or facts that
	// cannot be those of src or are not as [source.Facts] describes them, the file is read without it.
	Scan(path string, src []byte) (*source.Facts, error)
}

// Option configures a [Graph].
type Option func(*config) error

type config struct {
	ignored   []byte
	maxFiles  int
	maxSize   int64
	analyzers map[string]Analyzer
	cache     string
	dir       string
}

// WithIgnored sets patterns of files to leave out, in the format of .gitignore: those of the user for all
// repositories, for example (git's core.excludesFile). Default: none.
func WithIgnored(patterns []byte) Option {
	return func(c *config) error {
		c.ignored = slices.Clone(patterns)
		return nil
	}
}

// WithMaxFiles sets how many files a graph has at most. If there are more, [Snapshot.Partial] reports it.
// Default: 200,000.
func WithMaxFiles(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return &aycoder.ConfigError{Option: "WithMaxFiles", Err: fmt.Errorf("%d is not positive", n)}
		}
		c.maxFiles = n
		return nil
	}
}

// WithMaxSize sets the size of the largest file that is read, in bytes. A larger file is known by its name
// only. Default: 1 MiB.
func WithMaxSize(n int64) Option {
	return func(c *config) error {
		if n < 1 {
			return &aycoder.ConfigError{Option: "WithMaxSize", Err: fmt.Errorf("%d is not positive", n)}
		}
		c.maxSize = n
		return nil
	}
}

// WithAnalyzer adds an analyzer. Of two for the same extension, the last one counts.
func WithAnalyzer(a Analyzer) Option {
	return func(c *config) error {
		if a == nil {
			return &aycoder.ConfigError{Option: "WithAnalyzer", Err: errors.New("analyzer is nil")}
		}
		for _, ext := range a.Extensions() {
			c.analyzers[ext] = a
		}
		return nil
	}
}

// WithDir sets the directory of the workspace on this machine, for what git keeps elsewhere: [Graph.GitState], and which ignored files
// are tracked, are then known in a linked worktree and in a submodule, too. Default: none.
func WithDir(dir string) Option {
	return func(c *config) error {
		c.dir = dir
		return nil
	}
}

// Graph keeps what it has read of a workspace, and reads again what has changed. It is safe for concurrent
// use: one goroutine at a time brings it up to date, and any number use its snapshots.
type Graph struct {
	files FS
	config

	buffers  sync.Pool // of *bytes.Buffer, for the files that are read
	latest   atomic.Pointer[Snapshot]
	compared atomic.Pointer[map[string]compared] // by path, of the last look at the repository

	turn  chan struct{} // has an item while a goroutine brings it up to date, which guards these
	now   *Snapshot     // that is being made
	index *resolve.Index
	saved map[factsKey][]byte // the facts of the cache, until the first refresh
}

// New returns a graph of the files of a workspace. It reads nothing before the first [Graph.Refresh]. The files are
// those that git tracks or would add. In a linked worktree, whose index is not in the workspace, those that are
// tracked although a pattern ignores them are missing without [WithDir].
func New(files FS, opts ...Option) (*Graph, error) {
	if files == nil {
		return nil, &aycoder.ConfigError{Option: "New", Err: errors.New("files are nil")}
	}
	g := &Graph{files: files, turn: make(chan struct{}, 1), config: config{maxFiles: 200_000, maxSize: 1 << 20, analyzers: map[string]Analyzer{}}}
	if err := option.Apply(&g.config, opts); err != nil {
		return nil, err
	}
	g.index = resolve.New(newest{g})
	g.latest.Store(&Snapshot{})
	g.compared.Store(&map[string]compared{})
	return g, nil
}

// Snapshot returns the graph as it was after the last [Graph.Refresh]. Before the first one it is empty.
func (g *Graph) Snapshot() *Snapshot { return g.latest.Load() }

// Refresh reads what has changed in the workspace, and returns the graph as it is now. With paths, it looks
// at these files only, which is fast, unless one of them is new. Without paths, it looks at the whole
// workspace. A file that cannot be read is known by its name only. The error is that of ctx, or says that the directory of the
// workspace cannot be listed; then the graph stays as it was.
func (g *Graph) Refresh(ctx context.Context, paths ...string) (*Snapshot, error) {
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return g.Snapshot(), context.Cause(ctx)
	}
	defer func() { <-g.turn }()
	last := g.Snapshot()
	if g.cache != "" && len(last.files) == 0 {
		g.saved = loadCache(g.cache)
		defer func() { g.saved = nil }()
	}
	partial, err := last.partial, error(nil)
	changes, ok := named(ctx, g.files, last, paths)
	if !ok {
		changes, partial, err = g.sweep(ctx, last)
	}
	if err == nil {
		err = g.read(ctx, changes)
	}
	if err != nil || len(changes) == 0 && partial == last.partial {
		return last, err
	}
	g.now = &Snapshot{files: apply(last.files, changes), partial: partial}
	for _, c := range changes { // all of them, before anything is resolved again
		g.index.Changed(c.path, c.before == nil || c.after == nil)
	}
	for _, c := range changes {
		if c.after != nil && c.after.facts != nil {
			g.link(c.path)
		}
	}
	g.index.Stale(g.link)
	g.latest.Store(g.now)
	return g.now, nil
}

// link brings the edges of a file up to date, in the snapshot that is being made.
func (g *Graph) link(path string) {
	i, ok := g.now.at(path)
	if !ok {
		return
	}
	imports, refs := g.index.Imports(path), g.index.Refs(path)
	f := g.now.files[i]
	if !slices.Equal(f.imports, imports) || !f.refs.Equal(refs) {
		linked := *f
		linked.imports, linked.refs = imports, refs
		g.now.files[i] = &linked
	}
}

// A file is one version of a file. It does not change.
type file struct {
	path string
	stamp
	hash    [sha256.Size]byte // of its content, if it was read
	facts   *source.Facts     // nil if it is not source code
	foreign bool              // the facts are those of an analyzer of the host
	checked int64             // when it was looked at, in microseconds
	imports []resolve.Edge
	refs    resolve.Refs
}

// A change is what a look at the workspace has found. Before is nil if the file is new, and after if it is
// gone.
type change struct {
	path          string
	before, after *file
}

// sweep looks at the whole workspace.
func (g *Graph) sweep(ctx context.Context, last *Snapshot) (changes []change, partial bool, err error) {
	found, partial, err := walk(ctx, g.files, g.git(), g.ignored, g.maxFiles)
	if err != nil {
		return nil, false, fmt.Errorf("list the files of the workspace: %w", err)
	}
	rest := last.files
	for _, w := range found {
		for len(rest) > 0 && rest[0].path < w.path {
			changes = append(changes, change{path: rest[0].path, before: rest[0]})
			rest = rest[1:]
		}
		var before *file
		if len(rest) > 0 && rest[0].path == w.path {
			before, rest = rest[0], rest[1:]
		}
		if before == nil || before.outdated(w.stamp) {
			changes = append(changes, change{w.path, before, &file{path: w.path, stamp: w.stamp}})
		}
	}
	for _, f := range rest {
		changes = append(changes, change{path: f.path, before: f})
	}
	return changes, partial, nil
}

// unsettled is how long after its last change a file may change again without getting another time: the
// clock of a file system ticks at least every two seconds (FAT).
const unsettled = int64(2 * time.Second / time.Microsecond)

// unread is the size of a file that could not be read, or not listed. It is tried again.
const unread = -1

// outdated reports whether a file may be another than the one that was read.
func (f *file) outdated(now stamp) bool {
	return f.stamp != now || f.size == unread || f.checked-max(f.time, f.real) < unsettled
}

// named looks at some files only. It is not enough if one of them is new, as it may be ignored, or says what
// is ignored.
func named(ctx context.Context, files FS, last *Snapshot, paths []string) (changes []change, ok bool) {
	lists := lists{files, map[string][]fs.DirEntry{}}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		before := last.file(p)
		if before == nil || path.Base(p) == ".gitignore" {
			return nil, false
		}
		if s, ok := lists.regular(ctx, p); !ok {
			changes = append(changes, change{path: p, before: before})
		} else if before.outdated(s) {
			changes = append(changes, change{p, before, &file{path: p, stamp: s}})
		}
	}
	return changes, len(paths) > 0
}

// read reads the files of changes, in parallel.
func (g *Graph) read(ctx context.Context, changes []change) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	const batch = 32 // to start a goroutine takes as long as to read a small file
	for some := range slices.Chunk(changes, batch) {
		group.Go(func() error {
			for i := range some {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if some[i].after != nil {
					g.load(&some[i])
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// load reads the file of a change, if it may be source code.
func (g *Graph) load(c *change) {
	f := c.after
	f.checked = time.Now().UnixMicro()
	_, analyzed := g.analyzers[path.Ext(f.path)]
	if f.size > g.maxSize || !analyzed && path.Ext(f.path) != "" && source.LanguageOf(f.path, nil) == "" {
		return
	}
	buffer, _ := g.buffers.Get().(*bytes.Buffer)
	if buffer == nil {
		buffer = new(bytes.Buffer)
	}
	defer g.buffers.Put(buffer)
	data := readInto(buffer, g.files, f.path, g.maxSize)
	if data == nil {
		f.size = unread
		return
	}
	f.hash = sha256.Sum256(data)
	if c.before != nil && c.before.hash == f.hash {
		f.facts, f.foreign, f.imports, f.refs = c.before.facts, c.before.foreign, c.before.imports, c.before.refs
		return
	}
	g.scan(f, data)
}

// scan finds the facts of a file.
func (g *Graph) scan(f *file, data []byte) {
	if runes.Binary(data) {
		return
	}
	if a := g.analyzers[path.Ext(f.path)]; a != nil {
		if facts, err := a.Scan(f.path, bytes.Clone(data)); err == nil && (facts == nil || fits(facts, len(data))) {
			f.facts, f.foreign = facts, true
			return
		}
	}
	lang := source.LanguageOf(f.path, data)
	if saved := g.saved[keyOf(f.hash, lang)]; saved != nil {
		if facts := new(source.Facts); packed.Decode(saved, facts) {
			f.facts = facts
			return
		}
	}
	if lang != "" {
		f.facts = source.Scan(lang, data, source.All)
	}
}

// apply returns the files after changes, which are sorted.
func apply(files []*file, changes []change) []*file {
	out := make([]*file, 0, len(files)+len(changes))
	for _, c := range changes {
		i, found := slices.BinarySearchFunc(files, c.path, fileByPath)
		out = append(out, files[:i]...)
		if c.after != nil {
			out = append(out, c.after)
		}
		if found {
			i++
		}
		files = files[i:]
	}
	return append(out, files...)
}

func fileByPath(f *file, path string) int { return strings.Compare(f.path, path) }

// newest is the graph that is being made, as the index looks at it.
type newest struct{ g *Graph }

func (n newest) Facts(path string) *source.Facts {
	if f := n.g.now.file(path); f != nil {
		return f.facts
	}
	return nil
}

func (n newest) IsFile(path string) bool { return n.g.now.file(path) != nil }

func (n newest) Content(path string) []byte {
	i, ok := n.g.now.at(path)
	if !ok {
		return nil
	}
	data := readAll(n.g.files, path, n.g.maxSize)
	if f := *n.g.now.files[i]; data == nil && f.size <= n.g.maxSize {
		f.size = unread
		n.g.now.files[i] = &f
	}
	return data
}

func (n newest) List(dir string) []string { return n.g.now.list(dir) }
