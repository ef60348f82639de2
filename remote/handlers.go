package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/search"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// answer carries out a request.
func (s *server) answer(ctx context.Context, id uint32, r *request) []byte {
	switch r.op {
	case opOpen:
		return s.openFile(ctx, id, r.name)
	case opRead:
		return s.readFile(r)
	case opOpenFiles:
		return s.openFiles(ctx, id, r.names)
	case opReadDir:
		return s.readDir(ctx, r.name)
	case opTree:
		return s.readTree(ctx, r)
	case opApply:
		return s.apply(ctx, r)
	case opRun:
		return s.run(ctx, id, &r.command)
	case opAbout:
		return s.about(ctx)
	}
	return s.writable(r.name)
}

// reply begins an answer with an error.
func reply(err error) *coder {
	c := &coder{}
	f := failureOf(err)
	f.code(c)
	return c
}

// openFile opens a file and reads its beginning. If there may be more of it, the file stays open under
// the number of the call, until that is cancelled.
func (s *server) openFile(ctx context.Context, id uint32, name string) []byte {
	out := new(coder)
	if f := s.begin(out, name, maxChunk); f != nil {
		if err := s.keep(ctx, id, f, name); err != nil {
			return reply(err).b
		}
		out.flag(new(true))
	}
	return out.b
}

// begin opens a file, and adds to the answer what it is and up to most bytes of it. If there may be
// more, begin returns the file.
func (s *server) begin(out *coder, name string, most int64) fs.File {
	at := len(out.b)
	f, err := s.fs.Open(name)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil {
			out.b = append(out.b, noFailure)
			m := fileMeta{info.Size(), info.ModTime().UnixNano(), info.Mode()}
			m.code(out)
			var whole bool
			most = min(m.size, most) + 1
			if whole, err = out.readData(f, min(max(m.size, 1), most), most); err == nil && !whole {
				return f
			}
			if err != nil {
				err = &workspace.Error{Op: "read", Path: name, Kind: workspace.KindIO, Err: err}
			}
		}
		f.Close()
	}
	if err != nil {
		out.b = append(out.b[:at], reply(err).b...)
	}
	return nil
}

var errTooManyOpen = errors.New("too many files are open over this connection; close some")

// keep keeps a file open for the client, unless it does not want it any more.
func (s *server) keep(ctx context.Context, id uint32, f fs.File, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxOpen || ctx.Err() != nil {
		f.Close()
		return &workspace.Error{Op: "read", Path: name, Kind: workspace.KindIO, Err: errTooManyOpen}
	}
	s.open[id] = f
	return nil
}

// readFile reads on in an open file.
func (s *server) readFile(r *request) []byte {
	s.mu.Lock()
	f := s.open[r.file]
	s.mu.Unlock()
	if f == nil {
		return reply(fs.ErrClosed).b
	}
	out := reply(nil)
	if _, err := out.readData(f, int64(r.size), int64(r.size)); err != nil {
		return reply(err).b
	}
	return out.b
}

// openFiles opens files as long as there is room for what is in them. A larger one is opened alone.
// The client gets the first while the next are read.
func (s *server) openFiles(ctx context.Context, id uint32, names []string) []byte {
	out := reply(nil)
	sent := 0
	for _, name := range names {
		if ctx.Err() != nil || sent+len(out.b) > maxBatch {
			break
		}
		at := len(out.b)
		out.b = append(out.b, 0)
		if f := s.begin(out, name, maxBatch/4); f != nil { // there is more of it
			f.Close()
			out.b = append(out.b[:at], 1)
		}
		if len(out.b) >= maxFrame/2 {
			sent += len(out.b)
			for part := range slices.Chunk(out.b, maxFrame) {
				s.out.put(&message{id: id, kind: framePart, data: part})
			}
			out.b = make([]byte, 0, maxFrame)
		}
	}
	return out.b
}

func (s *server) readDir(ctx context.Context, name string) []byte {
	all, err := s.fs.ReadDir(ctx, name)
	out := reply(err) // a part of the entries may come with an error
	found := entriesOf(all[:min(len(all), maxEntries)])
	entries(out, &found, maxEntries)
	return out.b
}

func entriesOf(all []fs.DirEntry) []entry {
	out := make([]entry, 0, len(all))
	for _, e := range all {
		out = append(out, entry{e.Name(), e.Type() & fs.ModeType})
	}
	return out
}

const (
	maxTreeEntries = 50_000
	maxTreeBytes   = 2 << 20 // of ignore files
)

// treeReader is the source of a walk that remembers what the walk has read.
type treeReader struct {
	tools.FS
	tree
	left, room int
}

func (r *treeReader) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	all, err := r.FS.ReadDir(ctx, name)
	if r.left -= len(all) + 1; err == nil && r.left >= 0 {
		r.dirs = append(r.dirs, treeDir{name, entriesOf(all)})
	}
	return all, err
}

func (r *treeReader) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindNotFound {
		r.ignores = append(r.ignores, treeFile{path: name, absent: true})
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxChunk))
	if r.room -= len(data); err == nil && r.room >= 0 {
		r.ignores = append(r.ignores, treeFile{path: name, content: data})
	}
	return &file{data: data}, err
}

// readTree reads what a walk through a directory will ask for, from the top.
func (s *server) readTree(ctx context.Context, asked *request) []byte {
	r := &treeReader{FS: s.fs, left: maxTreeEntries, room: maxTreeBytes}
	todo := []search.Directory{search.Start(r, asked.name, asked.ignored)}
	for ; len(todo) > 0 && r.left > 0 && r.room > 0 && ctx.Err() == nil; todo = todo[1:] {
		if found, err := search.Children(ctx, r, todo[0], true); err == nil {
			todo = append(todo, found.Down...)
		}
	}
	out := reply(nil)
	r.tree.code(out)
	return out.b
}

func (s *server) writable(name string) []byte {
	var err error
	if w, ok := s.fs.(interface{ Writable(name string) error }); ok {
		err = w.Writable(name)
	}
	return reply(err).b
}

// apply carries out a plan. The comparison with the files, the merge and the exchange all happen
// here, and so does the comparison with the digest that was approved.
func (s *server) apply(ctx context.Context, r *request) []byte {
	plan, err := edit.NewPlan(r.files...)
	var res *edit.Result
	if err == nil {
		opts := []workspace.ApplyOption{workspace.WithWrittenConflicts(r.settings.WrittenConflicts),
			workspace.WithWriterWait(r.settings.WriterWait)}
		if r.settings.Approved != "" {
			opts = append(opts, workspace.WithApproved(r.settings.Approved))
		}
		res, err = s.fs.Apply(ctx, plan, opts...)
	}
	out := &coder{texts: r.texts()}
	f := failureOf(err)
	f.code(out)
	if res != nil {
		changes(out, &res.Files)
	}
	return out.b
}

var errNoCommands = errors.New("this machine does not run commands")

// run runs a command, unless another one was approved. Its root is the directory that is served, whatever the
// client says.
func (s *server) run(ctx context.Context, id uint32, cmd *tools.ExecCommand) []byte {
	if cmd.Approved != "" && cmd.Approved != cmd.Digest() {
		return reply(tools.ErrNotApproved).b
	}
	cmd.Root = s.fs.Dir()
	if !filepath.IsAbs(cmd.Dir) {
		cmd.Dir = filepath.Join(cmd.Root, cmd.Dir)
	}
	var res *tools.ExecResult
	err := errNoCommands
	if s.exec != nil {
		box := newOutbox(ctx, s, id)
		cmd.Output = box
		res, err = s.exec.Run(ctx, cmd)
		box.end()
	}
	out := reply(err)
	if res != nil {
		res.Notes = res.Notes[:min(len(res.Notes), maxNotes)]
		for i, n := range res.Notes {
			res.Notes[i] = cut(n, maxText)
		}
		ending(out, res)
	}
	return out.b
}

// about answers with what the program says about itself.
func (s *server) about(ctx context.Context) []byte {
	var text []byte
	var err error
	if s.describe != nil {
		text, err = s.describe(ctx)
	}
	out := reply(err)
	out.bytes(&text)
	return out.b
}
