package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A buffers is the client's side of the files: what its editor shows, saved or not. Names are absolute.
type buffers interface {
	read(ctx context.Context, name string) (string, error)
	write(ctx context.Context, name, text string) error
}

// editor are files of which a user may have unsaved versions in an editor.
//
// A file then has up to two texts, the one on disk and the buffer, and the protocol does not say which is newer. It
// follows from the last text that both had: the one that still has it is the older one, and if neither has it, both
// have changed and are merged. If no such text is known, a file that has not been written since the session began is
// the older one. Otherwise nobody knows, and a change of the file is a conflict until the user saves or reloads it.
//
// A plan is carried out on disk, with all that the files inside guarantee: the text of the buffer is saved before, so
// that it takes part in the merge as what the user has saved, and the buffer gets the result afterwards.
type editor struct {
	tools.FS
	buffers buffers
	root    string // the directory as the client names it
	writes  bool   // whether the client writes, too
	since   time.Time

	applying chan struct{} // held by a plan
	common   *common
}

// A common has the last text that disk and buffer both had, by absolute path. All sessions of a client have the same one, as
// it has one editor.
type common struct {
	mu    sync.Mutex
	texts map[string]string
	size  int
}

const (
	maxBuffer = 2 << 20  // bytes of a file that the editor is asked for: a message has at most 10 MiB
	maxCommon = 64 << 20 // bytes of a common
)

// tick is how much a time of a file may lag behind the clock.
const tick = 20 * time.Millisecond

func newEditor(inner tools.FS, b buffers, root string, writes bool) *editor {
	return &editor{FS: inner, buffers: b, root: root, writes: writes, since: time.Now().Add(-tick),
		applying: make(chan struct{}, 1), common: &common{}}
}

// Within implements [tools.RemoteFS]. Only the files of a call are looked for in the editor: what a host or a walk
// reads is the disk's, since each question opens a file in some editors.
func (e *editor) Within(ctx context.Context) tools.FS { return &opened{editor: e, ctx: ctx} }

// Ahead implements [tools.RemoteFS]. A walk reads the disk, and the buffers of files that the editor was asked for before.
func (e *editor) Ahead(ctx context.Context, _ string, _ []byte) tools.FS {
	return &walked{FS: e.FS, editor: e, ctx: ctx}
}

// OpenFiles implements [tools.RemoteFS].
func (e *editor) OpenFiles(_ context.Context, names []string) iter.Seq2[fs.File, error] {
	return openFiles(e.FS.Open, names)
}

// Err implements [tools.RemoteFS].
func (e *editor) Err() error { return nil }

func openFiles(open func(string) (fs.File, error), names []string) iter.Seq2[fs.File, error] {
	return func(yield func(fs.File, error) bool) {
		for _, name := range names {
			if f, err := open(name); !yield(f, err) {
				return
			}
		}
	}
}

// opened are the files for one call of a tool.
type opened struct {
	*editor
	ctx context.Context
}

func (o *opened) Open(name string) (fs.File, error) {
	if o.ctx.Err() != nil {
		return nil, context.Cause(o.ctx)
	}
	f, err := o.open(o.ctx, name)
	if err != nil {
		return nil, err
	}
	return &boundFile{f, o.ctx}, nil
}

// boundFile is a file that can be read until the end of a call.
type boundFile struct {
	fs.File
	ctx context.Context
}

func (f *boundFile) Read(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	return f.File.Read(p)
}

func (o *opened) OpenFiles(_ context.Context, names []string) iter.Seq2[fs.File, error] {
	return openFiles(o.Open, names)
}

// walked are the files for one walk.
type walked struct {
	tools.FS
	editor *editor
	ctx    context.Context
}

func (w *walked) Open(name string) (fs.File, error) {
	if rel, err := w.Rel(name); err == nil {
		if _, ok := w.editor.last(rel); ok {
			return w.editor.open(w.ctx, name)
		}
	}
	return w.FS.Open(name)
}

func (e *editor) open(ctx context.Context, name string) (fs.File, error) {
	v, info, err := e.look(ctx, name)
	if err != nil {
		return nil, err
	}
	if v == nil || v.text == v.disk {
		return e.FS.Open(name)
	}
	return &bufferFile{Reader: strings.NewReader(v.text), info: bufferInfo{info, int64(len(v.text))}}, nil
}

// versions are the texts of a file. An editor that has none is one that has the text of the disk.
type versions struct {
	exists       bool // on disk
	told         bool // the editor has said which text it has
	disk, buffer string
	text         string // the one that counts
	doubt        error  // why nobody knows which text counts, so that the file cannot be changed
}

// look compares a file with the editor's. It returns nil if the editor is not asked for such a file.
func (e *editor) look(ctx context.Context, name string) (*versions, fs.FileInfo, error) {
	f, err := e.FS.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxBuffer {
		return nil, info, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBuffer+1))
	if err != nil || len(data) > maxBuffer || !utf8.Valid(data) || slices.Contains(data, 0) {
		return nil, info, err
	}
	rel, err := e.Rel(name)
	if err != nil {
		return nil, nil, err
	}
	disk := string(data)
	buffer, told, err := e.buffer(ctx, rel, disk)
	if err != nil {
		return nil, nil, err
	}
	v := e.compare(rel, disk, buffer, changed(info).Before(e.since))
	v.told = told
	return v, info, nil
}

// buffer returns the text that the editor has, in the form of the file, and whether it has told one. If the editor has none,
// or does not say, that is the text of the file: what the editor then does with a file that changes on disk is between it and
// its user.
func (e *editor) buffer(ctx context.Context, rel, disk string) (text string, told bool, err error) {
	text, err = e.buffers.read(ctx, e.path(rel))
	switch {
	case ctx.Err() != nil:
		return "", false, &workspace.Error{Op: "read", Path: rel, Kind: workspace.KindIO, Err: context.Cause(ctx)}
	case errors.Is(err, errNoAnswer): // it may have one
		return "", false, &workspace.Error{Op: "read", Path: rel, Kind: workspace.KindIO, Err: err}
	case err != nil || !utf8.ValidString(text) || len(text) > 2*maxBuffer:
		return disk, false, nil
	}
	return inForm(text, disk), true, nil
}

// inForm returns a text of an editor with what many editors keep apart from it: the mark at the beginning, the kind of
// the line ends, and the last one.
func inForm(text, disk string) string {
	const mark = "\ufeff"
	if strings.HasPrefix(disk, mark) && !strings.HasPrefix(text, mark) {
		text = mark + text
	}
	if n := strings.Count(disk, "\n"); n > 0 && n == strings.Count(disk, "\r\n") && !strings.Contains(text, "\r") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	for _, end := range []string{"\r\n", "\n"} {
		if strings.HasSuffix(disk, end) {
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += end
			}
			break
		}
	}
	return text
}

// compare finds the text that counts. old says that the file was not written in this session.
func (e *editor) compare(rel, disk, buffer string, old bool) *versions {
	v := &versions{exists: true, disk: disk, buffer: buffer, text: disk}
	if disk == buffer {
		e.remember(rel, disk)
		return v
	}
	base, known := e.last(rel)
	if !known && old {
		base, known = disk, true
		e.remember(rel, disk)
	}
	v.text = buffer
	if !known {
		v.doubt = errors.New("the editor has another text of it than the disk, and either may be the newer one; " +
			"the user has to save it, or to load it again")
	} else if m := merge.Merge([]byte(base), []byte(buffer), []byte(disk)); m.Clean() {
		v.text = string(m.Bytes()) // that of the disk or of the editor, if the other one still has the last common one
	} else {
		v.doubt = errors.New("it has changed on disk and in the editor, in the same lines; " +
			"the user has to save it, or to load it again")
	}
	return v
}

func (e *editor) last(rel string) (string, bool) { return e.common.last(e.path(rel)) }

func (c *common) last(name string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.texts[name]
	return text, ok
}

// remember notes a text that disk and buffer both have.
func (e *editor) remember(rel, text string) { e.common.remember(e.path(rel), text) }

func (c *common) remember(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.texts[name]; ok {
		c.size -= len(old) + len(name)
	}
	if c.size += len(text) + len(name); c.size > maxCommon || c.texts == nil {
		c.texts = map[string]string{}
		c.size = len(text) + len(name)
	}
	c.texts[name] = text
}

func (e *editor) path(rel string) string { return absolute(e.FS, e.root, rel) }

// Roots implements [tools.RootsFS].
func (e *editor) Roots() []workspace.Root {
	if r, ok := e.FS.(tools.RootsFS); ok {
		return r.Roots()
	}
	return []workspace.Root{{Dir: e.Dir()}}
}

// absolute returns the absolute path of a path in the workspace whose first directory the client names as dir.
func absolute(files tools.FS, dir, rel string) string {
	if name, rest := rootpath.Cut(rel); name != "" {
		if r, ok := files.(tools.RootsFS); ok {
			for _, root := range r.Roots() {
				if root.Name == name {
					return filepath.Join(root.Dir, filepath.FromSlash(rest))
				}
			}
		}
	}
	return filepath.Join(dir, filepath.FromSlash(rel))
}

// Apply implements [tools.FS].
func (e *editor) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	select {
	case e.applying <- struct{}{}:
		defer func() { <-e.applying }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	files := plan.Files()
	found, res, err := e.prepare(ctx, files)
	if err != nil {
		return res, err
	}
	res, err = e.FS.Apply(ctx, plan, opts...)
	if res == nil || !e.writes {
		return res, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), passFor) // also after its end, since the files have changed
	defer cancel()
	for i := range res.Files {
		if f := &res.Files[i]; f.Written && f.Exists && i < len(found) {
			e.pass(ctx, f, found[i])
		}
	}
	return res, err
}

// passFor is how long an editor may take to show what has changed. Otherwise it has an older text than the disk.
const passFor = 2 * time.Second

// maxTries is how often the files of a plan are looked at again because the user is typing in one of them.
const maxTries = 8

// prepare finds the texts of the files of a plan, and saves those that are not. The result is one of a conflict.
func (e *editor) prepare(ctx context.Context, files []edit.File) ([]*versions, *edit.Result, error) {
	found := make([]*versions, len(files))
	for try := range maxTries {
		for i, f := range files {
			var err error
			if found[i], err = e.find(ctx, f); err != nil {
				return nil, nil, err
			}
		}
		if res, err := e.inTheWay(files, found, try == maxTries-1); err != nil {
			return nil, res, err
		}
		saved := true
		for i, f := range files {
			if v := found[i]; v != nil && v.text != v.disk && saved {
				var err error
				if saved, err = e.save(ctx, f, v); err != nil {
					return nil, nil, err
				}
			}
		}
		if saved {
			break
		}
	}
	return found, nil, nil
}

// find returns the texts of a file of a plan, or nil if only the disk counts.
func (e *editor) find(ctx context.Context, f edit.File) (*versions, error) {
	rel, err := e.Rel(f.Path)
	if err != nil {
		return nil, nil // Apply refuses it
	}
	v, _, err := e.look(ctx, f.Path)
	if err == nil || ctx.Err() != nil || errors.Is(err, errNoAnswer) {
		return v, err
	}
	if f.Kind != edit.Create || len(f.Proposed) > maxBuffer {
		return nil, nil // as above
	}
	// The user may be writing a file of this name, or the editor may still show one that was deleted.
	text, _, err := e.buffer(ctx, rel, "")
	if err != nil {
		return nil, err
	}
	if v = (&versions{told: true, buffer: text}); text != "" {
		if last, _ := e.last(rel); text != last {
			v.text = text
		}
	}
	return v, nil
}

// inTheWay returns the conflict that keeps a plan from being carried out, or nil.
func (e *editor) inTheWay(files []edit.File, found []*versions, last bool) (*edit.Result, error) {
	res, conflict := &edit.Result{}, &edit.ConflictError{}
	for i, f := range files {
		r := edit.FileResult{Path: f.Path, Kind: f.Kind, Outcome: edit.OutcomeSkipped}
		if v := found[i]; v != nil {
			r.Content, r.Exists = v.disk, v.exists
			if r.Reason = e.reason(f, v); r.Reason == "" && last && v.text != v.disk {
				r.Reason = "the user is typing in it"
			}
			if r.Reason != "" {
				m := merge.Merge([]byte(f.Base), []byte(v.text), []byte(f.Proposed))
				r.Outcome, r.Base, r.Ours, r.Theirs, r.Merge = edit.OutcomeConflicted, f.Base, v.text, f.Proposed, &m
				conflict.Files = append(conflict.Files, r)
			}
		}
		res.Files = append(res.Files, r)
	}
	if conflict.Files == nil {
		return nil, nil
	}
	return res, conflict
}

// reason says why a file of a plan cannot be changed, or returns "". The files inside judge the texts that are on disk.
func (e *editor) reason(f edit.File, v *versions) string {
	switch {
	case v.doubt != nil:
		return v.doubt.Error()
	case v.text == v.disk:
		return ""
	case !e.writes:
		return "the user has changes of it in the editor, and has to save them first"
	case f.Kind == edit.Create:
		return "the user has a file of this name in the editor that is not saved"
	case f.Kind == edit.Delete && v.text != f.Base:
		return "the user has changed it in the editor"
	case f.Kind == edit.Change:
		if m := merge.Merge([]byte(f.Base), []byte(v.text), []byte(f.Proposed)); !m.Clean() {
			return "the user has changed the same lines in the editor"
		}
	}
	return ""
}

// save saves the text that counts, as the user's. An editor that takes a text without saving it leaves that to us. It returns
// false if the texts are no longer those that were found, so that nothing is written over what was typed since.
func (e *editor) save(ctx context.Context, f edit.File, v *versions) (bool, error) {
	wrong := func(err error) error {
		return &workspace.Error{Op: "save", Path: f.Path, Kind: workspace.KindIO, Err: err}
	}
	rel, err := e.Rel(f.Path)
	if err != nil {
		return false, err
	}
	if now, err := e.find(ctx, f); err != nil || now == nil || *now != *v {
		return false, err
	}
	if err := e.buffers.write(ctx, e.path(rel), v.text); err != nil {
		return false, wrong(fmt.Errorf("the editor does not save it: %w", err))
	}
	v.buffer = v.text
	now, err := e.content(f.Path)
	if err != nil {
		return false, err
	}
	if now == v.disk {
		saved, err := edit.NewPlan(edit.File{Path: rel, Kind: edit.Change, Base: v.disk, Proposed: v.text})
		if err != nil {
			return false, wrong(err)
		}
		res, err := e.FS.Apply(ctx, saved, workspace.WithApproved(saved.Digest()))
		if err != nil {
			return false, err
		}
		now = res.Files[0].Content
	}
	if now != v.text { // another program has written it meanwhile, or the editor in another form
		return false, nil
	}
	e.remember(rel, v.text)
	return true, nil
}

func (e *editor) content(name string) (string, error) {
	f, err := e.FS.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBuffer+1))
	return string(data), err
}

// pass gives the editor what a plan has made of a file, together with what the user has typed meanwhile. If that does
// not merge, or the editor refuses it or does not say what it has, the disk has the one text and the editor the other, as its
// user is told by it.
func (e *editor) pass(ctx context.Context, f *edit.FileResult, v *versions) {
	rel, err := e.Rel(f.Path)
	if err != nil || v == nil || !v.told || len(f.Content) > maxBuffer || !utf8.ValidString(f.Content) {
		return
	}
	now, told, err := e.buffer(ctx, rel, f.Content)
	if err != nil || !told {
		return
	}
	text := f.Content
	if now != v.buffer && now != f.Content {
		m := merge.Merge([]byte(v.buffer), []byte(now), []byte(f.Content))
		if !m.Clean() {
			f.Reason = strings.TrimPrefix(f.Reason+"; the user is changing the same lines in the editor, which has them unsaved", "; ")
			return
		}
		text = string(m.Bytes())
	}
	if e.buffers.write(ctx, e.path(rel), text) != nil {
		return
	}
	// An editor that has taken it has it, or what the user has typed since.
	if after, told, err := e.buffer(ctx, rel, f.Content); err == nil && told && (after != now || now == f.Content) {
		e.remember(rel, f.Content)
	}
}

// bufferFile is a file with the text of the editor.
type bufferFile struct {
	*strings.Reader
	info bufferInfo

	mu     sync.Mutex
	closed bool
}

func (f *bufferFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *bufferFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	return f.Reader.Read(p)
}

func (f *bufferFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

type bufferInfo struct {
	fs.FileInfo
	size int64
}

func (i bufferInfo) Size() int64 { return i.size }
