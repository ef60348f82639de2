package remote

import (
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
func (c *Client) Dir() string { return c.hello.Dir }

// Rel implements [tools.FS]. It does not ask the other machine.
func (c *Client) Rel(name string) (string, error) {
	return workspace.RelIn(name, c.hello.Dir, c.hello.Real)
}

// Seen implements [tools.FS]. The record is on this machine.
func (c *Client) Seen() *workspace.SeenFiles { return &c.seen }

// Open implements [tools.FS]. A file of up to 1 MiB arrives with the answer; of a larger one, the
// rest is fetched as it is read.
func (c *Client) Open(name string) (fs.File, error) { return c.within(context.Background()).Open(name) }

// Writable returns an error if no plan can write to a file of this name, if the other machine knows
// that beforehand: see [workspace.Workspace.Writable].
func (c *Client) Writable(name string) error { return c.within(context.Background()).Writable(name) }

// ReadDir implements [tools.FS].
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return c.within(ctx).ReadDir(ctx, name)
}

// Within implements [tools.RemoteFS].
func (c *Client) Within(ctx context.Context) tools.FS { return c.within(ctx) }

func (c *Client) within(ctx context.Context) *view { return &view{Client: c, ctx: ctx} }

// Ahead implements [tools.RemoteFS].
func (c *Client) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	v := c.within(ctx)
	var t tree
	if c.ask(ctx, subject{"list", name}, request{op: opTree, Name: name, Ignored: ignored}, &t) != nil {
		return v // the walk asks for each directory
	}
	v.dirs, v.ignores = map[string]listing{}, map[string]*treeFile{}
	for _, d := range t.Dirs {
		v.dirs[d.Path] = d.Entries
	}
	for i := range t.Ignores {
		v.ignores[t.Ignores[i].Path] = &t.Ignores[i]
	}
	return v
}

// view is the files for one call of a tool, with what a walk asks for.
type view struct {
	*Client
	ctx     context.Context
	dirs    map[string]listing
	ignores map[string]*treeFile
	listed  atomic.Int64 // entries
}

// maxWalk bounds the entries that one call of a tool may see. A server could make up any number.
const maxWalk = 500_000

var _ tools.RemoteFS = (*view)(nil)

// possible refuses names that no file can have. Otherwise a server could lead a walk ever deeper.
func (c *Client) possible(about subject) error {
	_, err := c.Rel(about.path)
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		e.Op = about.op
	}
	return err
}

// Writable is that of the Client.
func (v *view) Writable(name string) error {
	return v.ask(v.ctx, subject{"write", name}, request{op: opWritable, Name: name})
}

// Open implements [tools.FS].
func (v *view) Open(name string) (fs.File, error) {
	about := subject{"read", name}
	if err := v.possible(about); err != nil {
		return nil, err
	}
	if f := v.ignores[name]; f != nil && f.Absent {
		return nil, &workspace.Error{Op: about.op, Path: name, Kind: workspace.KindNotFound, Err: fs.ErrNotExist}
	} else if f != nil {
		return &file{content: content{Size: int64(len(f.Data)), Data: f.Data}, name: path.Base(name)}, nil
	}
	k := v.openCall(v.ctx, []string{name})
	all, err := v.opened(v.ctx, k)
	if err != nil {
		return nil, err
	}
	f, err := all[0].file(name)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return nil, v.reject(k, noResult())
	case f.More:
		f.more = func(n int64) (data []byte, err error) {
			r := request{op: opRead, File: k.id, Size: n}
			if err = v.ask(v.ctx, about, r, &data); int64(len(data)) > n {
				return nil, v.reject(k, noResult())
			}
			return data, err
		}
		f.close = func() { v.out.put(&message{id: k.id, kind: frameCancel}) } // does not wait
	}
	return f, nil
}

// file is an open file with its content, or the beginning of it. It implements [fs.File] and
// [fs.FileInfo].
type file struct {
	content
	name string

	mu     sync.Mutex // guards Data, which is what is not read yet, and the rest
	closed bool
	more   func(n int64) ([]byte, error) // reads up to n bytes behind Data, or is nil if there are none
	close  func()                        // or nil
}

// file returns the file, why there is none, or nil if the server has left it out.
func (o *opened) file(name string) (*file, error) {
	if o.Failure != nil {
		return nil, subject{"read", name}.wrap(o.Failure.error(nil), false)
	}
	if o.File == nil {
		return nil, nil
	}
	return &file{content: *o.File, name: path.Base(name)}, nil
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
	case len(f.Data) == 0 && f.more != nil:
		if f.Data, err = f.more(int64(min(max(len(p), maxChunk/4), maxChunk))); len(f.Data) == 0 && err == nil {
			f.more = nil
		}
	}
	if n = copy(p, f.Data); n == 0 && err == nil {
		err = io.EOF
	}
	f.Data = f.Data[n:]
	return n, err
}

// Close implements [fs.File].
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed && f.close != nil {
		f.close()
	}
	f.closed, f.Data = true, nil
	return nil
}

func (f *file) Name() string       { return f.name }
func (f *file) Size() int64        { return f.content.Size }
func (f *file) Mode() fs.FileMode  { return f.content.Mode }
func (f *file) ModTime() time.Time { return time.Unix(0, f.Modified) }
func (f *file) IsDir() bool        { return false }
func (f *file) Sys() any           { return nil }

// ReadDir implements [tools.FS].
func (v *view) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	about := subject{"list", name}
	if err := v.possible(about); err != nil {
		return nil, err
	}
	if v.listed.Load() > maxWalk {
		return nil, &workspace.Error{Op: about.op, Path: name, Kind: workspace.KindTooLarge, Err: errTooManyListed}
	}
	found, known := v.dirs[name]
	var err error
	if !known {
		err = v.ask(ctx, about, request{op: opReadDir, Name: name}, &found)
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	v.listed.Add(int64(len(found)))
	var all []fs.DirEntry
	for _, e := range found {
		all = append(all, e)
	}
	return all, err
}

var errTooManyListed = errors.New("this call has listed very many files already; look at a directory below")

const (
	perBatch = 64 // files that are asked for in a message
	ahead    = 4  // messages that are under way
)

// OpenFiles implements [tools.RemoteFS].
func (c *Client) OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error] {
	return func(yield func(fs.File, error) bool) {
		var under []*call
		defer func() { // nobody wants them any more
			for _, k := range under {
				if k.sent != nil {
					c.cancel(k)
				}
			}
		}()
		rest := slices.Collect(slices.Chunk(names, perBatch))
		for len(rest) > 0 || len(under) > 0 {
			for len(rest) > 0 && len(under) < ahead {
				under, rest = append(under, c.openCall(ctx, rest[0])), rest[1:]
			}
			k := under[0]
			under = under[1:]
			if !c.each(ctx, k, yield) {
				return
			}
		}
	}
}

// openCall asks for files.
func (c *Client) openCall(ctx context.Context, names []string) *call {
	return c.begin(ctx, subject{"read", names[0]}, request{op: opOpen, Names: names})
}

// opened waits for the files that a call asks for.
func (c *Client) opened(ctx context.Context, k *call) (all []opened, err error) {
	if err = c.answered(ctx, k, &all); err == nil && len(all) != len(k.Names) {
		err = c.reject(k, noResult())
	}
	return all, err
}

// each yields the files that a call asks for. Those that the answer leaves out, since they are large or there was no
// room, are opened one by one.
func (c *Client) each(ctx context.Context, k *call, yield func(fs.File, error) bool) bool {
	all, err := c.opened(ctx, k)
	for i, name := range k.Names {
		var f fs.File
		failed := err
		if e, ok := errors.AsType[*workspace.Error](err); ok {
			failed = &workspace.Error{Op: e.Op, Path: name, Kind: e.Kind, Err: e.Err}
		}
		if err == nil {
			var got *file
			if got, failed = all[i].file(name); got != nil {
				f = got
			} else if failed == nil {
				f, failed = c.within(ctx).Open(name)
			}
		}
		if !yield(f, failed) {
			return false
		}
	}
	return true
}

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
	r := request{op: opApply, Files: files, Approved: set.Approved, WrittenConflicts: set.WrittenConflicts,
		WriterWait: set.WriterWait, merge: set.Merge}
	k := c.begin(ctx, about, r)
	var res *applied
	err = c.answered(ctx, k, &res)
	if res == nil {
		return nil, err
	}
	if wrong := checkChanges(files, res.Files, true, c.Rel); wrong != nil {
		return nil, c.reject(k, wrong)
	}
	return &edit.Result{Files: k.results(res.Files)}, err
}
