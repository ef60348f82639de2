package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
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
		return s.openFiles(ctx, id, r.Names)
	case opRead:
		return s.readFile(r)
	case opReadDir:
		return s.readDir(ctx, r.Name)
	case opTree:
		return s.readTree(ctx, r)
	case opApply:
		return s.apply(ctx, r)
	case opRun:
		return s.run(ctx, id, &r.Command)
	case opAbout:
		return s.about(ctx)
	}
	return s.writable(r.Name)
}

// reply returns an answer with an error, or nil, and with values of which it gets pointers.
func reply(err error, values ...any) []byte {
	f := failureOf(err)
	return new(coder).code(&f).code(values...).b
}

// openFiles opens files as long as there is room for what is in them, and leaves the others out, as those that are
// longer than a chunk. The client gets the first while the next are read. One that was asked for alone is not left
// out.
func (s *server) openFiles(ctx context.Context, id uint32, names []string) []byte {
	out := &coder{b: reply(nil)}
	out.num(uint64(len(names)), math.MaxUint64)
	sent := 0
	for _, name := range names {
		if ctx.Err() != nil || sent+len(out.b) > maxBatch {
			out.code(&opened{})
			continue
		}
		at := len(out.b)
		if err := s.open(ctx, id, out, name, len(names) == 1); err != nil {
			out.b = out.b[:at]
			out.code(&opened{Failure: failureOf(err)})
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

// open opens a file and adds it to an answer, with its beginning. If there may be more of it, the file stays open
// under the number of the call if it is alone there, until that is cancelled, and is left out otherwise.
func (s *server) open(ctx context.Context, id uint32, out *coder, name string, alone bool) error {
	f, err := s.fs.Open(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	at, size, modified, mode := len(out.b), info.Size(), info.ModTime().UnixNano(), info.Mode()
	out.b = append(out.b, 0, 1) // no failure, and a file
	out.code(&size, &modified, &mode)
	most := min(size, maxChunk) + 1
	whole, err := out.readData(f, min(max(size, 1), most), most)
	switch {
	case err != nil:
		f.Close()
		return &workspace.Error{Op: "read", Path: name, Kind: workspace.KindIO, Err: err}
	case whole:
		f.Close()
	case alone:
		err = s.keep(ctx, id, f, name)
	default:
		f.Close()
		out.b = out.b[:at]
		out.code(&opened{})
		return nil
	}
	out.code(new(!whole))
	return err
}

var errTooManyOpen = errors.New("too many files are open over this connection; close some")

// keep keeps a file open for the client, unless it does not want it any more.
func (s *server) keep(ctx context.Context, id uint32, f fs.File, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) >= maxOpen || ctx.Err() != nil {
		f.Close()
		return &workspace.Error{Op: "read", Path: name, Kind: workspace.KindIO, Err: errTooManyOpen}
	}
	s.files[id] = f
	return nil
}

// readFile reads on in an open file.
func (s *server) readFile(r *request) []byte {
	s.mu.Lock()
	f := s.files[r.File]
	s.mu.Unlock()
	if f == nil {
		return reply(fs.ErrClosed)
	}
	out := &coder{b: reply(nil)}
	if _, err := out.readData(f, r.Size, r.Size); err != nil {
		return reply(err)
	}
	return out.b
}

func (s *server) readDir(ctx context.Context, name string) []byte {
	all, err := s.fs.ReadDir(ctx, name)
	found := listingOf(all[:min(len(all), maxEntries)])
	return reply(err, &found) // a part of the entries may come with an error
}

func listingOf(all []fs.DirEntry) listing {
	out := make(listing, len(all))
	for i, e := range all {
		out[i] = entry{e.Name(), e.Type() & fs.ModeType}
	}
	return out
}

const (
	maxTreeEntries = 50_000  // and directories, and ignore files
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
		r.Dirs = append(r.Dirs, treeDir{name, listingOf(all)})
	}
	return all, err
}

func (r *treeReader) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	r.left--
	if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindNotFound && r.left >= 0 {
		r.Ignores = append(r.Ignores, treeFile{Path: name, Absent: true})
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxChunk))
	if r.room -= len(data); err == nil && r.room >= 0 && r.left >= 0 {
		r.Ignores = append(r.Ignores, treeFile{Path: name, Data: data})
	}
	return &file{content: content{Data: data}}, err
}

// readTree reads what a walk through a directory will ask for, from the top.
func (s *server) readTree(ctx context.Context, asked *request) []byte {
	r := &treeReader{FS: s.fs, left: maxTreeEntries, room: maxTreeBytes}
	todo := []search.Directory{search.Start(r, asked.Name, asked.Ignored)}
	for ; len(todo) > 0 && r.left > 0 && r.room > 0 && ctx.Err() == nil; todo = todo[1:] {
		if found, err := search.Children(ctx, r, todo[0], true); err == nil {
			todo = append(todo, found.Down...)
		}
	}
	return reply(nil, &r.tree)
}

func (s *server) writable(name string) []byte {
	var err error
	if w, ok := s.fs.(interface{ Writable(name string) error }); ok {
		err = w.Writable(name)
	}
	return reply(err)
}

// apply carries out a plan. The comparison with the files, the merge and the exchange all happen
// here, and so does the comparison with the digest that was approved.
func (s *server) apply(ctx context.Context, r *request) []byte {
	plan, err := edit.NewPlan(r.Files...)
	var res *edit.Result
	if err == nil {
		opts := []workspace.ApplyOption{workspace.WithWrittenConflicts(r.WrittenConflicts),
			workspace.WithWriterWait(r.WriterWait)}
		if r.Approved != "" {
			opts = append(opts, workspace.WithApproved(r.Approved))
		}
		res, err = s.fs.Apply(ctx, plan, opts...)
	}
	f, done := failureOf(err), (*applied)(nil)
	if res != nil {
		done = &applied{changedOf(res.Files)}
	}
	return new(coder).remember(r.texts()...).code(&f, &done).b
}

var errNoCommands = errors.New("this machine does not run commands")

// run runs a command, unless another one was approved. Its root is the directory that is served, whatever the
// client says.
func (s *server) run(ctx context.Context, id uint32, cmd *tools.ExecCommand) []byte {
	if cmd.Approved != "" && cmd.Approved != cmd.Digest() {
		return reply(tools.ErrNotApproved)
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
	var end *ended
	if res != nil {
		end = &ended{*res}
		end.Notes = end.Notes[:min(len(end.Notes), maxNotes)]
		for i, n := range end.Notes {
			end.Notes[i] = cut(n, maxText)
		}
	}
	return reply(err, &end)
}

// about answers with what the program says about itself.
func (s *server) about(ctx context.Context) []byte {
	var text []byte
	var err error
	if s.describe != nil {
		text, err = s.describe(ctx)
	}
	return reply(err, &text)
}
