package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// localFS returns the workspace of a directory.
func localFS(t testing.TB, dir string) tools.FS {
	ws, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return ws
}

func TestFSOfThisMachine(t *testing.T) { TestFS(t, localFS) }

// A file system of another machine that is right, as far as a wrapper of this one can be.
func TestFSWithRemote(t *testing.T) {
	TestFS(t, func(t testing.TB, dir string) tools.FS { return &brokenRemote{FS: localFS(t, dir)} })
}

// brokenFS is a file system some of whose methods are replaced.
type brokenFS struct {
	tools.FS
	dir     func() string
	rel     func(name string) (string, error)
	open    func(name string) (fs.File, error)
	readDir func(ctx context.Context, name string) ([]fs.DirEntry, error)
	apply   func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error)
	seen    func() *workspace.SeenFiles
}

func (b *brokenFS) Dir() string {
	if b.dir != nil {
		return b.dir()
	}
	return b.FS.Dir()
}

func (b *brokenFS) Rel(name string) (string, error) {
	if b.rel != nil {
		return b.rel(name)
	}
	return b.FS.Rel(name)
}

func (b *brokenFS) Open(name string) (fs.File, error) {
	if b.open != nil {
		return b.open(name)
	}
	return b.FS.Open(name)
}

func (b *brokenFS) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if b.readDir != nil {
		return b.readDir(ctx, name)
	}
	return b.FS.ReadDir(ctx, name)
}

func (b *brokenFS) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	if b.apply != nil {
		return b.apply(ctx, plan, opts...)
	}
	return b.FS.Apply(ctx, plan, opts...)
}

func (b *brokenFS) Seen() *workspace.SeenFiles {
	if b.seen != nil {
		return b.seen()
	}
	return b.FS.Seen()
}

// full returns the path of a name without any check.
func (b *brokenFS) full(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.FS.Dir(), name)
}

// brokenFile is a file some of whose methods are replaced.
type brokenFile struct {
	fs.File
	read  func(p []byte) (int, error)
	stat  func() (fs.FileInfo, error)
	close func() error
}

func (f *brokenFile) Read(p []byte) (int, error) {
	if f.read != nil {
		return f.read(p)
	}
	return f.File.Read(p)
}

func (f *brokenFile) Stat() (fs.FileInfo, error) {
	if f.stat != nil {
		return f.stat()
	}
	return f.File.Stat()
}

func (f *brokenFile) Close() error {
	if f.close != nil {
		return f.close()
	}
	return f.File.Close()
}

// brokenInfo is an entry or a description with other values.
type brokenInfo struct {
	fs.FileInfo
	name string
	size int64
	mode fs.FileMode
}

func (i brokenInfo) Name() string               { return i.name }
func (i brokenInfo) Size() int64                { return i.size }
func (i brokenInfo) Mode() fs.FileMode          { return i.mode }
func (i brokenInfo) Type() fs.FileMode          { return i.mode.Type() }
func (i brokenInfo) IsDir() bool                { return i.mode.IsDir() }
func (i brokenInfo) Info() (fs.FileInfo, error) { return i, nil }

// brokenRemote is a file system of another machine some of whose methods are replaced.
type brokenRemote struct {
	tools.FS
	ctx       context.Context
	err       error
	within    func(ctx context.Context) tools.FS
	ahead     func(ctx context.Context, name string, ignored []byte) tools.FS
	openFiles func(ctx context.Context, names []string) iter.Seq2[fs.File, error]
}

func (r *brokenRemote) Open(name string) (fs.File, error) {
	if r.ctx == nil {
		return r.FS.Open(name)
	}
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &brokenFile{File: f, read: func(p []byte) (int, error) {
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		return f.Read(p)
	}}, nil
}

func (r *brokenRemote) Err() error { return r.err }

func (r *brokenRemote) Within(ctx context.Context) tools.FS {
	if r.within != nil {
		return r.within(ctx)
	}
	return &brokenRemote{FS: r.FS, ctx: ctx}
}

func (r *brokenRemote) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	if r.ahead != nil {
		return r.ahead(ctx, name, ignored)
	}
	return r.Within(ctx)
}

func (r *brokenRemote) OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error] {
	if r.openFiles != nil {
		return r.openFiles(ctx, names)
	}
	return func(yield func(fs.File, error) bool) {
		for _, name := range names {
			if !yield(r.Open(name)) {
				return
			}
		}
	}
}

// openAs makes a mutant that changes each file that Open returns.
func openAs(change func(f fs.File) fs.File) func(*brokenFS) {
	return func(b *brokenFS) {
		b.open = func(name string) (fs.File, error) {
			f, err := b.FS.Open(name)
			if err != nil {
				return nil, err
			}
			return change(f), nil
		}
	}
}

// listAs makes a mutant that changes each listing.
func listAs(change func(all []fs.DirEntry) []fs.DirEntry) func(*brokenFS) {
	return func(b *brokenFS) {
		b.readDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) {
			all, err := b.FS.ReadDir(ctx, name)
			return change(all), err
		}
	}
}

// failAs makes a mutant that changes the errors of Open and ReadDir.
func failAs(change func(err error) error) func(*brokenFS) {
	return func(b *brokenFS) {
		b.open = func(name string) (fs.File, error) {
			f, err := b.FS.Open(name)
			if err != nil {
				return nil, change(err)
			}
			return f, nil
		}
		b.readDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) {
			all, err := b.FS.ReadDir(ctx, name)
			if err != nil {
				err = change(err)
			}
			return all, err
		}
	}
}

// kindAs makes a mutant that reports one kind as another.
func kindAs(from, to workspace.ErrorKind) func(*brokenFS) {
	return failAs(func(err error) error {
		if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == from {
			c := *e
			c.Kind = to
			return &c
		}
		return err
	})
}

// applyAs makes a mutant that changes the result of each plan that was carried out.
func applyAs(change func(res *edit.Result)) func(*brokenFS) {
	return func(b *brokenFS) {
		b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
			res, err := b.FS.Apply(ctx, plan, opts...)
			if res != nil {
				change(res)
			}
			return res, err
		}
	}
}

// writing makes a mutant that writes the proposed texts with package os.
func writing(write func(b *brokenFS, e edit.File) error) func(*brokenFS) {
	return func(b *brokenFS) {
		b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
			if res, err := b.FS.Apply(ctx, plan, opts...); err == nil {
				return res, nil
			}
			res := &edit.Result{}
			for _, e := range plan.Files() {
				if err := write(b, e); err != nil {
					return res, err
				}
				res.Files = append(res.Files, edit.FileResult{Path: e.Path, Kind: e.Kind, Outcome: edit.OutcomeApplied, Written: true, Exists: true, Content: e.Proposed})
			}
			return res, nil
		}
	}
}

func put(b *brokenFS, e edit.File) error {
	_ = os.MkdirAll(filepath.Dir(b.full(e.Path)), 0o755)
	return os.WriteFile(b.full(e.Path), []byte(e.Proposed), 0o644)
}

// Each of these file systems is slightly wrong, and the check that is named must find it.
func TestSuiteFindsBrokenFS(t *testing.T) {
	timed.Serial(t)
	cut := func(n int) func(f fs.File) fs.File {
		return func(f fs.File) fs.File {
			r := io.LimitReader(f, int64(n))
			return &brokenFile{File: f, read: r.Read}
		}
	}
	info := func(change func(i *brokenInfo)) func(*brokenFS) {
		return openAs(func(f fs.File) fs.File {
			return &brokenFile{File: f, stat: func() (fs.FileInfo, error) {
				i, err := f.Stat()
				if err != nil {
					return nil, err
				}
				b := brokenInfo{i, i.Name(), i.Size(), i.Mode()}
				change(&b)
				return b, nil
			}}
		})
	}
	for _, tt := range []struct {
		name, by string
		breaks   func(b *brokenFS)
	}{
		{"another Dir each time", "Dir", func(b *brokenFS) {
			n := 0
			b.dir = func() string { n++; return fmt.Sprint("/", n) }
		}},
		{"Dir is relative", "Dir", func(b *brokenFS) { b.dir = func() string { return "." } }},
		{"Rel does not clean", "Rel", func(b *brokenFS) {
			b.rel = func(name string) (string, error) { _, err := b.FS.Rel(name); return name, err }
		}},
		{"Rel compares prefixes", "Rel", func(b *brokenFS) {
			b.rel = func(name string) (string, error) {
				if rest, ok := strings.CutPrefix(name, b.FS.Dir()); ok && rest != "" {
					return strings.Trim(filepath.Clean(rest), "/"), nil
				}
				return b.FS.Rel(name)
			}
		}},
		{"Rel takes an empty name", "InvalidNames", func(b *brokenFS) {
			b.rel = func(name string) (string, error) { return b.FS.Rel(filepath.Join(".", name)) }
		}},
		{"Rel needs the file", "RelDoesNotAccess", func(b *brokenFS) {
			b.rel = func(name string) (string, error) {
				if _, err := os.Stat(b.full(name)); err != nil {
					return "", err
				}
				return b.FS.Rel(name)
			}
		}},
		{"no absolute names", "SameFile", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) {
				if filepath.IsAbs(name) {
					name = "../" + name
				}
				return b.FS.Open(name)
			}
		}},
		{"Open leaves by ..", "NamesOutside", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) { return os.Open(b.full(name)) }
		}},
		{"ReadDir leaves by ..", "NamesOutside", func(b *brokenFS) {
			b.readDir = func(_ context.Context, name string) ([]fs.DirEntry, error) { return os.ReadDir(b.full(name)) }
		}},
		{"Open follows links out", "LinksOutside", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) {
				if _, err := b.FS.Rel(name); err != nil {
					return nil, err
				}
				return os.Open(b.full(name))
			}
		}},
		{"ReadDir follows links out", "LinksOutside", func(b *brokenFS) {
			b.readDir = func(_ context.Context, name string) ([]fs.DirEntry, error) {
				if _, err := b.FS.Rel(name); err != nil {
					return nil, err
				}
				return os.ReadDir(b.full(name))
			}
		}},
		{"Apply follows links out", "LinksOutside", writing(put)},
		{"links are refused", "LinksInside", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) {
				if i, err := os.Lstat(b.full(name)); err == nil && i.Mode()&fs.ModeSymlink != 0 {
					return nil, &workspace.Error{Op: "read", Path: name, Kind: workspace.KindOutsideWorkspace, Err: fs.ErrInvalid}
				}
				return b.FS.Open(name)
			}
		}},
		{"names are made valid UTF-8", "AnyBytesInNames", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			for i, e := range all {
				all[i] = brokenInfo{name: strings.ToValidUTF8(e.Name(), "?"), mode: e.Type()}
			}
			return all
		})},
		{"a line for each name", "AnyBytesInNames", listAs(func(all []fs.DirEntry) (out []fs.DirEntry) {
			for _, e := range all {
				for line := range strings.SplitSeq(e.Name(), "\n") {
					out = append(out, brokenInfo{name: line, mode: e.Type()})
				}
			}
			return out
		})},
		{"errors are of package os", "Kinds", failAs(func(err error) error { return errors.New(err.Error()) })},
		{"a file that does not exist is io", "Kinds", kindAs(workspace.KindNotFound, workspace.KindIO)},
		{"a directory does not exist", "Kinds", kindAs(workspace.KindIsDirectory, workspace.KindNotFound)},
		{"a file is no directory", "Kinds", kindAs(workspace.KindNotDirectory, workspace.KindIO)},
		{"a missing directory is empty", "Kinds", func(b *brokenFS) {
			b.readDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) {
				all, err := b.FS.ReadDir(ctx, name)
				if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindNotFound {
					return nil, nil
				}
				return all, err
			}
		}},
		{"a missing file is empty", "Kinds", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) {
				f, err := b.FS.Open(name)
				if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindNotFound {
					return os.Open(os.DevNull)
				}
				return f, err
			}
		}},
		{"sockets are io", "Pipes", kindAs(workspace.KindNotRegular, workspace.KindIO)},
		{"secrets are missing", "Secrets", kindAs(workspace.KindSensitivePath, workspace.KindNotFound)},
		{"at most 64 KiB", "Content", openAs(cut(64 << 10))},
		{"at most 1 MiB", "Content", openAs(cut(1 << 20))},
		{"without CR", "Content", openAs(func(f fs.File) fs.File {
			data, _ := io.ReadAll(f)
			r := bytes.NewReader(bytes.ReplaceAll(data, []byte("\r"), nil))
			return &brokenFile{File: f, read: r.Read}
		})},
		{"zeros at the end", "Content", openAs(func(f fs.File) fs.File {
			r := io.MultiReader(f, strings.NewReader("\x00"))
			return &brokenFile{File: f, read: r.Read}
		})},
		{"an error at the end", "Content", openAs(func(f fs.File) fs.File {
			return &brokenFile{File: f, read: func(p []byte) (int, error) {
				n, err := f.Read(p)
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return n, err
			}}
		})},
		{"size 0", "Stat", info(func(i *brokenInfo) { i.size = 0 })},
		{"the path as name", "Stat", info(func(i *brokenInfo) { i.name = "d/" + i.name })},
		{"a common mode", "Stat", info(func(i *brokenInfo) { i.mode = 0o666 })},
		{"opens again to read on", "ReplacedWhileOpen", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) {
				f, err := b.FS.Open(name)
				if err != nil {
					return nil, err
				}
				at := int64(0)
				return &brokenFile{File: f, read: func(p []byte) (int, error) {
					again, err := os.Open(b.full(name))
					if err != nil {
						return 0, err
					}
					defer again.Close()
					n, err := again.ReadAt(p, at)
					if at += int64(n); n > 0 {
						err = nil
					}
					return n, err
				}}, nil
			}
		}},
		{"reads after Close", "Close", func(b *brokenFS) {
			b.open = func(name string) (fs.File, error) {
				f, err := b.FS.Open(name)
				if err != nil {
					return nil, err
				}
				data, _ := io.ReadAll(io.LimitReader(f, 10))
				r := bytes.NewReader(data)
				return &brokenFile{File: f, read: r.Read}, nil
			}
		}},
		{"leaks files", "Close", func(b *brokenFS) {
			left := 50
			b.open = func(name string) (fs.File, error) {
				if left--; left < 0 {
					return nil, &workspace.Error{Op: "read", Path: name, Kind: workspace.KindIO, Err: errors.New("too many open files")}
				}
				return b.FS.Open(name)
			}
		}},
		{"not sorted", "Sorted", listAs(func(all []fs.DirEntry) []fs.DirEntry { slices.Reverse(all); return all })},
		{"sorted without case", "Sorted", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			slices.SortFunc(all, func(a, b fs.DirEntry) int {
				return strings.Compare(strings.ToLower(a.Name()), strings.ToLower(b.Name()))
			})
			return all
		})},
		{"has . and ..", "EmptyDirectory", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			return append([]fs.DirEntry{brokenInfo{name: ".", mode: fs.ModeDir}, brokenInfo{name: "..", mode: fs.ModeDir}}, all...)
		})},
		{"types are unknown", "Types", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			for i, e := range all {
				all[i] = brokenInfo{name: e.Name(), mode: fs.ModeIrregular}
			}
			return all
		})},
		{"links are files", "Types", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			for i, e := range all {
				if e.Type() == fs.ModeSymlink {
					all[i] = brokenInfo{name: e.Name()}
				}
			}
			return all
		})},
		{"hides hidden files", "HiddenFiles", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return e.Name()[0] == '.' })
		})},
		{"hides ignored files", "HiddenFiles", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return e.Name() == "node_modules" || strings.HasSuffix(e.Name(), ".o") })
		})},
		{"lists temporary files", "HiddenFiles", func(b *brokenFS) {
			b.readDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) {
				if _, err := b.FS.ReadDir(ctx, name); err != nil {
					return nil, err
				}
				return os.ReadDir(b.full(name))
			}
		}},
		{"the first 1,000 entries", "ManyEntries", listAs(func(all []fs.DirEntry) []fs.DirEntry { return all[:min(len(all), 1000)] })},
		{"keeps the listing", "OwnedByCaller", func(b *brokenFS) {
			kept := map[string][]fs.DirEntry{}
			b.readDir = func(ctx context.Context, name string) (all []fs.DirEntry, err error) {
				if kept[name] == nil {
					kept[name], err = b.FS.ReadDir(ctx, name)
				}
				return kept[name], err
			}
		}},
		{"keeps listings for ever", "SeesChanges", func(b *brokenFS) {
			kept := map[string][]fs.DirEntry{}
			b.readDir = func(ctx context.Context, name string) (all []fs.DirEntry, err error) {
				if kept[name] == nil {
					kept[name], err = b.FS.ReadDir(ctx, name)
				}
				return slices.Clone(kept[name]), err
			}
		}},
		{"keeps contents for ever", "SeesChanges", func(b *brokenFS) {
			var mu sync.Mutex
			kept := map[string]string{}
			b.open = func(name string) (fs.File, error) {
				f, err := b.FS.Open(name)
				if err != nil {
					return nil, err
				}
				mu.Lock()
				defer mu.Unlock()
				if _, ok := kept[name]; !ok {
					data, _ := io.ReadAll(f)
					kept[name] = string(data)
				}
				r := strings.NewReader(kept[name])
				return &brokenFile{File: f, read: r.Read}, nil
			}
		}},
		{"reads though cancelled", "Cancelled", func(b *brokenFS) {
			b.readDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) {
				return b.FS.ReadDir(context.WithoutCancel(ctx), name)
			}
		}},
		{"writes though cancelled", "Cancelled", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
				res, err := b.FS.Apply(context.WithoutCancel(ctx), plan, opts...)
				return res, errors.Join(err, context.Cause(ctx))
			}
		}},
		{"the error of the context instead of the cause", "Cancelled", func(b *brokenFS) {
			b.readDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return b.FS.ReadDir(ctx, name)
			}
		}},
		{"confuses concurrent calls", "Concurrent", func(b *brokenFS) {
			waits := make(chan string)
			b.open = func(name string) (fs.File, error) {
				select { // two calls that meet take each other's name
				case waits <- name:
					name = <-waits
				case other := <-waits:
					waits <- name
					name = other
				case <-time.After(2 * time.Second): // nobody else is there
				}
				return b.FS.Open(name)
			}
		}},
		{"no new directories", "ApplyWrites", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
				for _, e := range plan.Files() {
					if _, err := os.Stat(filepath.Dir(b.full(e.Path))); err != nil {
						return nil, err
					}
				}
				return b.FS.Apply(ctx, plan, opts...)
			}
		}},
		{"does not write", "ApplyWrites", func(b *brokenFS) {
			b.apply = func(_ context.Context, plan edit.Plan, _ ...workspace.ApplyOption) (*edit.Result, error) {
				res := &edit.Result{}
				for _, e := range plan.Files() {
					res.Files = append(res.Files, edit.FileResult{Path: e.Path, Kind: e.Kind, Outcome: edit.OutcomeApplied, Written: true, Exists: true, Content: e.Proposed})
				}
				return res, nil
			}
		}},
		{"text with line ends of this system", "ApplyWrites", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
				res, err := b.FS.Apply(ctx, plan, opts...)
				for _, e := range plan.Files() {
					if data, errRead := os.ReadFile(b.full(e.Path)); errRead == nil {
						_ = os.WriteFile(b.full(e.Path), bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), 0o644)
					}
				}
				return res, err
			}
		}},
		{"leaves a temporary file", "ApplyWrites", applyAs(func(res *edit.Result) {})},
		{"results in reverse", "ApplyResult", applyAs(func(res *edit.Result) { slices.Reverse(res.Files) })},
		{"only files that were written", "ApplyResult", applyAs(func(res *edit.Result) {
			res.Files = slices.DeleteFunc(res.Files, func(f edit.FileResult) bool { return !f.Written })
		})},
		{"no content in results", "ApplyResult", applyAs(func(res *edit.Result) {
			for i := range res.Files {
				res.Files[i].Content = ""
			}
		})},
		{"says applied for merged", "ApplyMerges", applyAs(func(res *edit.Result) {
			for i := range res.Files {
				if res.Files[i].Outcome == edit.OutcomeMerged {
					res.Files[i].Outcome = edit.OutcomeApplied
				}
			}
		})},
		{"no merge in results", "ApplyMerges", applyAs(func(res *edit.Result) {
			for i := range res.Files {
				res.Files[i].Merge = nil
			}
		})},
		{"one file after the other", "ApplyWhole", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
				res := &edit.Result{}
				for _, e := range plan.Files() {
					one, err := edit.NewPlan(e)
					if err != nil {
						return nil, err
					}
					r, err := b.FS.Apply(ctx, one, workspace.WithApproved(one.Digest()))
					if err != nil {
						return res, err
					}
					res.Files = append(res.Files, r.Files...)
				}
				return res, nil
			}
		}},
		{"overwrites what the user has changed", "ApplyConflicts", writing(put)},
		{"refuses what would merge", "ApplyMerges", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
				for _, e := range plan.Files() {
					if data, err := os.ReadFile(b.full(e.Path)); err == nil && string(data) != e.Base {
						return nil, &edit.ConflictError{Files: []edit.FileResult{{Path: e.Path, Kind: e.Kind, Outcome: edit.OutcomeConflicted}}}
					}
				}
				return b.FS.Apply(ctx, plan, opts...)
			}
		}},
		{"compares, and writes later", "ApplyBesideSaves", func(b *brokenFS) {
			b.apply = func(_ context.Context, plan edit.Plan, _ ...workspace.ApplyOption) (*edit.Result, error) {
				e := plan.Files()[0]
				data, err := os.ReadFile(b.full(e.Path))
				if err != nil || string(data) != e.Base {
					return nil, &edit.ConflictError{Files: []edit.FileResult{{Path: e.Path, Kind: e.Kind, Outcome: edit.OutcomeConflicted}}}
				}
				return &edit.Result{}, os.WriteFile(b.full(e.Path), []byte("lost\n"), 0o644)
			}
		}},
		{"a new mode", "ApplyMode", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
				res, err := b.FS.Apply(ctx, plan, opts...)
				for _, e := range plan.Files() {
					_ = os.Chmod(b.full(e.Path), 0o644)
				}
				return res, err
			}
		}},
		{"ignores options", "ApplyApproved", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, _ ...workspace.ApplyOption) (*edit.Result, error) {
				return b.FS.Apply(ctx, plan)
			}
		}},
		{"approves everything", "ApplyProtected", func(b *brokenFS) {
			b.apply = func(ctx context.Context, plan edit.Plan, _ ...workspace.ApplyOption) (*edit.Result, error) {
				return b.FS.Apply(ctx, plan, workspace.WithApproved(plan.Digest()))
			}
		}},
		{"writes into repositories", "ApplyProtected", writing(put)},
		{"no undo", "ApplyUndo", applyAs(func(res *edit.Result) {
			for i := range res.Files {
				res.Files[i].Undo = nil
			}
		})},
		{"another record each time", "Seen", func(b *brokenFS) {
			b.seen = func() *workspace.SeenFiles { return new(workspace.SeenFiles) }
		}},
		{"directories are irregular", "Tools", listAs(func(all []fs.DirEntry) []fs.DirEntry {
			for i, e := range all {
				if e.IsDir() {
					all[i] = brokenInfo{name: e.Name(), mode: fs.ModeIrregular}
				}
			}
			return all
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "leaves a temporary file" {
				tt.breaks = func(b *brokenFS) {
					b.apply = func(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
						_ = os.WriteFile(b.full("f.tmp"), nil, 0o644)
						return b.FS.Apply(ctx, plan, opts...)
					}
				}
			}
			finds(t, tt.by, func(t testing.TB, dir string) tools.FS {
				b := &brokenFS{FS: localFS(t, dir)}
				tt.breaks(b)
				return b
			})
		})
	}
}

// finds runs a check, which must find something.
func finds(t *testing.T, check string, newFS func(t testing.TB, dir string) tools.FS) {
	t.Helper()
	for _, c := range fsChecks {
		if c.name == check {
			s := newFSSuite(t, newFS)
			if c.check(s); s.found.empty() {
				t.Errorf("the check %s does not find it", check)
			}
			return
		}
	}
	t.Fatalf("there is no check %s", check)
}

// The additional methods of another machine can be wrong, too.
func TestSuiteFindsBrokenRemoteFS(t *testing.T) {
	timed.Serial(t)
	for _, tt := range []struct {
		name, by string
		breaks   func(r *brokenRemote)
	}{
		{"Within ignores its context", "Within", func(r *brokenRemote) {
			r.within = func(context.Context) tools.FS { return r.FS }
		}},
		{"an error of files that are there", "Err", func(r *brokenRemote) { r.err = io.EOF }},
		{"Ahead shows no directories below", "Ahead", func(r *brokenRemote) {
			r.ahead = func(context.Context, string, []byte) tools.FS {
				return &brokenFS{FS: r.FS, readDir: func(ctx context.Context, name string) ([]fs.DirEntry, error) {
					all, err := r.FS.ReadDir(ctx, name)
					if strings.Contains(name, "/") {
						all = nil
					}
					return all, err
				}}
			}
		}},
		{"Ahead forgets ignore files", "Ahead", func(r *brokenRemote) {
			r.ahead = func(context.Context, string, []byte) tools.FS {
				return &brokenFS{FS: r.FS, open: func(name string) (fs.File, error) { return r.FS.Open(name + "x") }}
			}
		}},
		{"OpenFiles leaves out errors", "OpenFiles", func(r *brokenRemote) {
			r.openFiles = func(_ context.Context, names []string) iter.Seq2[fs.File, error] {
				return func(yield func(fs.File, error) bool) {
					for _, name := range names {
						if f, err := r.FS.Open(name); err == nil && !yield(f, nil) {
							return
						}
					}
				}
			}
		}},
		{"OpenFiles has another order", "OpenFiles", func(r *brokenRemote) {
			r.openFiles = func(_ context.Context, names []string) iter.Seq2[fs.File, error] {
				return func(yield func(fs.File, error) bool) {
					for _, name := range slices.Backward(names) {
						if !yield(r.FS.Open(name)) {
							return
						}
					}
				}
			}
		}},
		{"OpenFiles cuts large files", "OpenFiles", func(r *brokenRemote) {
			r.openFiles = func(_ context.Context, names []string) iter.Seq2[fs.File, error] {
				return func(yield func(fs.File, error) bool) {
					for _, name := range names {
						f, err := r.FS.Open(name)
						if err == nil {
							in := io.LimitReader(f, 1<<20)
							f = &brokenFile{File: f, read: in.Read}
						}
						if !yield(f, err) {
							return
						}
					}
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			finds(t, tt.by, func(t testing.TB, dir string) tools.FS {
				r := &brokenRemote{FS: localFS(t, dir)}
				tt.breaks(r)
				return r
			})
		})
	}
}
