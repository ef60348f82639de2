package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Dir implements [tools.FS]. It returns the path on the other machine.
func (c *Client) Dir() string { return c.hello.dir }

// Rel implements [tools.FS]. It does not ask the other machine.
func (c *Client) Rel(name string) (string, error) {
	return workspace.RelIn(name, c.hello.dir, c.hello.real)
}

// Seen implements [tools.FS]. The record is on this machine.
func (c *Client) Seen() *workspace.SeenFiles { return &c.seen }

// Open implements [tools.FS]. A file of up to 1 MiB arrives with the answer; of a larger one, the
// rest is fetched as it is read.
func (c *Client) Open(name string) (fs.File, error) { return c.openFile(context.Background(), name) }

// Writable returns an error if no plan can write to a file of this name, if the other machine knows
// that beforehand: see [workspace.Workspace.Writable].
func (c *Client) Writable(name string) error { return c.writable(context.Background(), name) }

func (c *Client) writable(ctx context.Context, name string) error {
	return c.ask(ctx, subject{"write", name}, request{op: opWritable, name: name}, func(*coder) error { return nil })
}

// possible refuses names that no file can have. Otherwise a server could lead a walk ever deeper.
func (c *Client) possible(about subject) error {
	_, err := c.Rel(about.path)
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		e.Op = about.op
	}
	return err
}

func (c *Client) openFile(ctx context.Context, name string) (fs.File, error) {
	f := &file{name: path.Base(name)}
	more := false
	about := subject{"read", name}
	if err := c.possible(about); err != nil {
		return nil, err
	}
	k, err := c.begin(ctx, about, request{op: opOpen, name: name})
	if err != nil {
		return nil, err
	}
	err = c.answered(ctx, k, func(d *coder) error {
		if f.code(d); len(d.b) > 0 {
			d.flag(&more)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if more {
		f.more = func(n uint64) (data []byte, err error) {
			err = c.ask(ctx, about, request{op: opRead, file: k.id, size: n}, func(d *coder) error {
				if data = d.data(); uint64(len(data)) > n {
					data = nil
					d.fail()
				}
				return nil
			})
			return data, err
		}
		f.close = func() { c.out.put(&message{id: k.id, kind: frameCancel}) } // does not wait
	}
	return f, nil
}

// file is an open file with its content, or the beginning of it. It implements [fs.File] and
// [fs.FileInfo].
type file struct {
	fileMeta
	name string

	mu     sync.Mutex
	data   []byte // what is not read yet
	closed bool
	more   func(n uint64) ([]byte, error) // reads up to n bytes behind data, or is nil if there are none
	close  func()                         // or nil
}

// code decodes a file.
func (f *file) code(d *coder) {
	f.fileMeta.code(d)
	f.data = d.data()
}

// Stat implements [fs.File].
func (f *file) Stat() (fs.FileInfo, error) { return f, nil }

// Read implements [fs.File].
func (f *file) Read(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, fs.ErrClosed
	case len(p) == 0:
		return 0, nil
	case len(f.data) == 0 && f.more != nil:
		if f.data, err = f.more(uint64(min(max(len(p), maxChunk/4), maxChunk))); len(f.data) == 0 && err == nil {
			f.more = nil
		}
	}
	if n = copy(p, f.data); n == 0 && err == nil {
		err = io.EOF
	}
	f.data = f.data[n:]
	return n, err
}

// Close implements [fs.File].
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed && f.close != nil {
		f.close()
	}
	f.closed, f.data = true, nil
	return nil
}

func (f *file) Name() string       { return f.name }
func (f *file) Size() int64        { return f.size }
func (f *file) Mode() fs.FileMode  { return f.mode }
func (f *file) ModTime() time.Time { return time.Unix(0, f.modified) }
func (f *file) IsDir() bool        { return false }
func (f *file) Sys() any           { return nil }

// ReadDir implements [tools.FS].
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	var found []entry
	about := subject{"list", name}
	if err := c.possible(about); err != nil {
		return nil, err
	}
	err := c.ask(ctx, about, request{op: opReadDir, name: name}, func(d *coder) error {
		entries(d, &found, maxEntries)
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return dirEntries(found), err
}

func dirEntries(all []entry) []fs.DirEntry {
	var out []fs.DirEntry
	for _, e := range all {
		out = append(out, e)
	}
	return out
}

const (
	perBatch = 64 // files that are asked for in a message
	ahead    = 4  // messages that are under way
)

// OpenFiles implements [tools.RemoteFS].
func (c *Client) OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error] {
	return func(yield func(fs.File, error) bool) {
		var under []*batch
		defer func() { // nobody wants them any more
			for _, b := range under {
				if b.call != nil {
					c.cancel(b.call)
				}
			}
		}()
		rest := slices.Collect(slices.Chunk(names, perBatch))
		for len(rest) > 0 || len(under) > 0 {
			for len(rest) > 0 && len(under) < ahead {
				under, rest = append(under, c.batch(ctx, rest[0])), rest[1:]
			}
			b := under[0]
			under = under[1:]
			if !b.each(ctx, c, yield) {
				return
			}
		}
	}
}

// batch is a request for several files.
type batch struct {
	names []string
	call  *call
	err   error
}

func (c *Client) batch(ctx context.Context, names []string) *batch {
	b := &batch{names: names}
	b.call, b.err = c.begin(ctx, subject{"read", names[0]}, request{op: opOpenFiles, names: names})
	return b
}

// each yields the files of the answer. Those that it leaves out, since they are large or there was no
// room, are opened one by one.
func (b *batch) each(ctx context.Context, c *Client, yield func(fs.File, error) bool) bool {
	got := make([]opened, len(b.names))
	err := b.err
	if err == nil {
		err = c.answered(ctx, b.call, func(d *coder) error {
			for i := 0; len(d.b) > 0 && i < len(got); i++ {
				got[i] = openedOf(d, b.names[i])
			}
			return nil
		})
	}
	for i, name := range b.names {
		f, failed := fs.File(got[i].file), cmp.Or(err, got[i].err)
		if e, ok := errors.AsType[*workspace.Error](err); ok {
			failed = &workspace.Error{Op: e.Op, Path: name, Kind: e.Kind, Err: e.Err}
		}
		switch {
		case failed != nil:
			f = nil
		case got[i].file == nil:
			f, failed = c.openFile(ctx, name)
		}
		if !yield(f, failed) {
			return false
		}
	}
	return true
}

// opened is a file of an answer, or why it was not opened. If it has neither, it is to be opened alone.
type opened struct {
	file *file
	err  error
}

func openedOf(d *coder, name string) opened {
	var large bool
	if d.flag(&large); large {
		return opened{}
	}
	var fail failure
	if fail.code(d); fail.class != noFailure {
		return opened{err: subject{"read", name}.wrap(fail.error(), false)}
	}
	f := &file{name: path.Base(name)}
	f.code(d)
	return opened{file: f}
}

// Within implements [tools.RemoteFS].
func (c *Client) Within(ctx context.Context) tools.FS { return &view{Client: c, ctx: ctx} }

// Ahead implements [tools.RemoteFS].
func (c *Client) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	v := &view{Client: c, ctx: ctx}
	var t tree
	if c.ask(ctx, subject{"list", name}, request{op: opTree, name: name, ignored: ignored}, func(d *coder) error {
		t.code(d)
		return nil
	}) != nil {
		return v // the walk asks for each directory
	}
	v.dirs, v.ignores = map[string][]entry{}, map[string]*treeFile{}
	for _, d := range t.dirs {
		v.dirs[d.path] = d.entries
	}
	for i := range t.ignores {
		v.ignores[t.ignores[i].path] = &t.ignores[i]
	}
	return v
}

// view is the files for one call of a tool, with what a walk asks for.
type view struct {
	*Client
	ctx     context.Context
	dirs    map[string][]entry
	ignores map[string]*treeFile
	listed  atomic.Int64 // entries
}

// maxWalk bounds the entries that one call of a tool may see. A server could make up any number.
const maxWalk = 500_000

var _ tools.RemoteFS = (*view)(nil)

// Open implements [tools.FS].
func (v *view) Open(name string) (fs.File, error) {
	f := v.ignores[name]
	switch {
	case f == nil:
		return v.openFile(v.ctx, name)
	case f.absent:
		return nil, &workspace.Error{Op: "read", Path: name, Kind: workspace.KindNotFound, Err: fs.ErrNotExist}
	}
	return &file{fileMeta: fileMeta{size: int64(len(f.content))}, name: path.Base(name), data: f.content}, nil
}

func (v *view) Writable(name string) error { return v.writable(v.ctx, name) }

// ReadDir implements [tools.FS].
func (v *view) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if v.listed.Load() > maxWalk {
		return nil, &workspace.Error{Op: "list", Path: name, Kind: workspace.KindTooLarge, Err: errTooManyListed}
	}
	var all []fs.DirEntry
	var err error
	if known, ok := v.dirs[name]; ok && ctx.Err() == nil {
		all = dirEntries(known)
	} else {
		all, err = v.Client.ReadDir(ctx, name)
	}
	v.listed.Add(int64(len(all)))
	return all, err
}

var errTooManyListed = errors.New("this call has listed very many files already; look at a directory below")

// Apply implements [tools.FS]. The plan and the files are compared and merged on the other machine.
// Options of [workspace.WithMerge] cannot be sent, and are an error.
func (c *Client) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	about := subject{op: "apply", path: "."}
	set, err := workspace.SettingsOf(opts...)
	if err != nil {
		return nil, err
	}
	if len(set.Merge) > 1 {
		return nil, about.wrap(&foreign{"WithMerge does not work for a workspace on another machine", errors.ErrUnsupported}, false)
	}
	files := plan.Files()
	if len(files) > 0 {
		about.path = files[0].Path
	}
	var res *edit.Result
	err = c.ask(ctx, about, request{op: opApply, settings: set, files: files}, func(d *coder) error {
		var r edit.Result
		changes(d, &r.Files)
		err := checkChanges(files, r.Files, true, c.Rel)
		if err == nil && d.end() == nil {
			res = &r
		}
		return err
	})
	return res, err
}
