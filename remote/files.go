package remote

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"math"
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
	return c.ask(ctx, subject{"write", name}, opWritable, named(name), maxSmall, func(*coder) {})
}

// possible refuses names that no file can have. Otherwise a server could lead a walk ever deeper.
func (c *Client) possible(about subject) error {
	_, err := c.Rel(about.path)
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		e.Op = about.op
	}
	return err
}

// named begins a request with a name. One that is too long for any system is cut: it stays too long.
func named(name string) *coder {
	body := new(coder)
	name = cut(name, maxName)
	str(body, &name, maxName)
	return body
}

func (c *Client) openFile(ctx context.Context, name string) (fs.File, error) {
	f := &memFile{name: path.Base(name)}
	more := false
	about := subject{"read", name}
	if err := c.possible(about); err != nil {
		return nil, err
	}
	k, err := c.begin(ctx, opOpen, named(name).b, maxSmall, nil)
	if err != nil {
		return nil, about.wrap(err, false)
	}
	err = c.answered(ctx, about, k, func(d *coder) {
		f.fileMeta.code(d)
		if f.data = d.data(); len(d.b) > 0 {
			d.flag(&more)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case more:
		return &remoteFile{memFile: f, c: c, ctx: ctx, path: name, id: k.id}, nil
	}
	return f, nil
}

// memFile is an open file whose content is here. It implements [fs.File] and [fs.FileInfo].
type memFile struct {
	fileMeta
	name string

	mu     sync.Mutex
	data   []byte // what is not read yet
	closed bool
}

// Stat implements [fs.File].
func (f *memFile) Stat() (fs.FileInfo, error) { return f, nil }

// Read implements [fs.File].
func (f *memFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	n, err := bytes.NewReader(f.data).Read(p)
	if len(p) == 0 {
		err = nil
	}
	f.data = f.data[n:]
	return n, err
}

// Close implements [fs.File].
func (f *memFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.data = true, nil
	return nil
}

func (f *memFile) Name() string       { return f.name }
func (f *memFile) Size() int64        { return f.size }
func (f *memFile) Mode() fs.FileMode  { return f.mode }
func (f *memFile) ModTime() time.Time { return time.Unix(0, f.modified) }
func (f *memFile) IsDir() bool        { return false }
func (f *memFile) Sys() any           { return nil }

// remoteFile is a file that is open on the other machine. The data that is here is read first.
type remoteFile struct {
	*memFile
	c    *Client
	ctx  context.Context // of the call of a tool
	path string

	id  uint32 // of the call that has opened it
	eof bool
}

// Read implements [fs.File].
func (f *remoteFile) Read(p []byte) (int, error) {
	if err := f.fill(len(p)); err != nil {
		return 0, err
	}
	return f.memFile.Read(p)
}

// fill fetches more data if there is none.
func (f *remoteFile) fill(want int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if want == 0 || len(f.data) > 0 || f.eof || f.closed {
		return nil
	}
	body, n := new(coder), uint64(min(max(want, maxChunk/4), maxChunk))
	integer(body, &f.id, math.MaxUint32)
	body.num(&n, maxChunk)
	err := f.c.ask(f.ctx, subject{"read", f.path}, opRead, body, maxSmall, func(d *coder) {
		if f.data = d.data(); uint64(len(f.data)) > n {
			d.fail()
		}
	})
	f.eof = len(f.data) == 0
	return err
}

// Close implements [fs.File]. It does not wait for the other machine.
func (f *remoteFile) Close() error {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if !closed {
		f.c.out.put(&message{id: f.id, kind: frameCancel})
	}
	return f.memFile.Close()
}

// ReadDir implements [tools.FS].
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	var found []entry
	about := subject{"list", name}
	if err := c.possible(about); err != nil {
		return nil, err
	}
	err := c.ask(ctx, about, opReadDir, named(name), maxListing, func(d *coder) {
		entries(d, &found)
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
	body := new(coder)
	asked := slices.Clone(names)
	list(body, &asked, perBatch, func(name *string) {
		*name = cut(*name, maxName)
		str(body, name, maxName)
	})
	b := &batch{names: names}
	b.call, b.err = c.begin(ctx, opOpenFiles, body.b, maxSmall+maxBatch, nil)
	return b
}

// each yields the files of the answer. Those that it leaves out, since they are large or there was no
// room, are opened one by one.
func (b *batch) each(ctx context.Context, c *Client, yield func(fs.File, error) bool) bool {
	var got []func() (fs.File, error)
	err := b.err
	if err == nil {
		err = c.answered(ctx, subject{"read", b.names[0]}, b.call, func(d *coder) {
			for len(d.b) > 0 && len(got) < len(b.names) {
				got = append(got, openedOf(d, b.names[len(got)]))
			}
		})
	}
	for i, name := range b.names {
		open := func() (fs.File, error) { return c.openFile(ctx, name) }
		if err != nil {
			open = func() (fs.File, error) { return nil, subject{"read", name}.wrap(err, false) }
		} else if i < len(got) && got[i] != nil {
			open = got[i]
		}
		if !yield(open()) {
			return false
		}
	}
	return true
}

// openedOf decodes a file of an answer. It returns nil for one that is to be opened alone.
func openedOf(d *coder, name string) func() (fs.File, error) {
	var large bool
	if d.flag(&large); large {
		return nil
	}
	var fail failure
	if fail.code(d, nil); fail.class != noFailure {
		return func() (fs.File, error) { return nil, subject{"read", name}.wrap(fail.error(), false) }
	}
	f := &memFile{name: path.Base(name)}
	f.fileMeta.code(d)
	f.data = d.data()
	return func() (fs.File, error) { return f, nil }
}

// Within implements [tools.RemoteFS].
func (c *Client) Within(ctx context.Context) tools.FS { return &view{Client: c, ctx: ctx} }

// Ahead implements [tools.RemoteFS].
func (c *Client) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	v := &view{Client: c, ctx: ctx}
	var t tree
	body := named(name)
	body.bytes(&ignored)
	if len(ignored) > maxIgnored || c.ask(ctx, subject{"list", name}, opTree, body, maxListing, t.code) != nil {
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
	return &memFile{fileMeta: fileMeta{size: int64(len(f.content))}, name: path.Base(name), data: f.content}, nil
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
	m := planned{set.Approved, set.WrittenConflicts, set.WriterWait, plan.Files()}
	if len(m.files) > 0 {
		about.path = m.files[0].Path
	}
	body := new(coder)
	m.code(body)
	if len(body.b) > maxPlan {
		return nil, about.wrap(&foreign{"the plan is too large", nil}, false)
	}
	k, err := c.begin(ctx, opApply, body.b, maxResult, nil)
	if err != nil {
		return nil, about.wrap(err, true)
	}
	d, err := c.wait(ctx, k, true)
	if err != nil {
		return nil, about.wrap(err, true)
	}
	return c.applied(ctx, about, d, m, set)
}

// applied decodes and checks the answer to a plan.
func (c *Client) applied(ctx context.Context, about subject, d *coder, m planned, set workspace.ApplySettings) (*edit.Result, error) {
	var f failure
	var res *edit.Result
	d.texts = m.texts()
	f.code(d, set.Merge)
	if len(d.b) > 0 {
		res = new(edit.Result)
		changes(d, &res.Files, set.Merge)
	}
	err := d.end()
	if err == nil && f.class == failedConflict {
		err = checkChanges(m.files, f.files, false, c.Rel)
	}
	if err == nil && res != nil {
		err = checkChanges(m.files, res.Files, true, c.Rel)
	}
	if err == nil && f.class == noFailure && res == nil {
		err = protocolError("neither a result nor an error")
	}
	if err != nil {
		return nil, about.wrap(c.broken(err), true)
	}
	if cause := context.Cause(ctx); cause != nil && f.class == failedCancelled {
		return res, cause
	}
	return res, about.wrap(f.error(), true)
}
