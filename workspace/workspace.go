// Package workspace reads and changes the files of one directory, or of several that the host names
// ([WithRoot]), and prevents access to all other files. [Workspace] opens files, and refuses names and symbolic links that lead out of the
// directory. [Workspace.Apply] carries out an [edit.Plan]. It merges each change with the
// changes that others have saved meanwhile (a three-way merge), so that no line of theirs is
// lost; Apply says where this is weaker. [SeenFiles] remembers the contents that a model has been
// shown, which are the bases of those merges.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/beneath"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/runes"
	"golang.org/x/sync/semaphore"
)

const (
	maxPath  = 4096 // bytes of a name
	maxDepth = 512  // elements of a name, and twice that with those of links: each needs a lookup
	maxLinks = 40   // symbolic links on the way to a file, as in Linux

	maxEntries = 200_000  // of a directory
	maxFile    = 64 << 20 // bytes of a file that is merged, as in a whole plan
)

// Workspace gives access to the files of one directory. No name leads out of the directory:
// [os.Root] resolves names element by element, and refuses a symbolic link that points outside,
// even if another program creates the link during the resolution.
//
// Three lists of names restrict access further:
//
//   - Files that usually hold keys or passwords are not opened.
//   - Directories of version control (such as .git, and bare repositories) are not written.
//   - Files that run code implicitly or instruct agents (CI configuration, hooks, start files of
//     shells and editors, AGENTS.md and others) are written only by [Workspace.Apply] with
//     [WithApproved].
//
// These lists prevent accidents, but they do not stop an attack: a hard link or a shell command
// can get around them.
//
// Names are relative to the directory, or absolute and below it. Methods are safe for concurrent
// use. Errors about a file are of type [*Error]. If ctx ends, a method returns the cause of the
// cancellation. Apply may also return an [*edit.ConflictError].
type Workspace struct {
	first   *root
	more    []*root // see WithRoot
	allowed map[string]*glob.Pattern

	shown   SeenFiles
	records recordStore

	turn *semaphore.Weighted // is taken during a write: one at a time
}

// Option configures a [Workspace].
type Option func(*Workspace) error

// WithAllowed permits access to files whose names are refused by default, such as ".env.test" or
// ".github/**". A pattern matches slash-separated paths in the workspace: * matches within one
// directory, and ** matches across directories. A pattern is about a further directory ([WithRoot]) only
// if it names it, such as "lib:/.env.test", or begins with "**/". No pattern permits writing to .git. Patterns of
// several options add up. Default: no patterns.
//
// The option does not replace an approval. Before an agent writes a file that runs code,
// [aycoder.Loop] still asks the user. The only exception is a call that was allowed by a rule
// which names the file: see the field Named of [aycoder.Grounds].
func WithAllowed(patterns ...string) Option {
	return func(w *Workspace) error {
		for _, p := range patterns {
			c, err := glob.Compile(p)
			if err != nil {
				return &aycoder.ConfigError{Option: "WithAllowed",
					Err: fmt.Errorf("%q: %w", p, err)}
			}
			w.allowed[p] = c
		}
		return nil
	}
}

// Open returns the workspace of an existing directory. An empty name is an error. Call Close after use.
//
// Open also cleans up after crashes. If a crash interrupted a plan before its first change or
// after its last one, Open removes the temporary files of that plan. A plan that was half done
// stays as it is until the caller finishes it or takes it back: see [Workspace.Interrupted].
func Open(dir string, opts ...Option) (*Workspace, error) {
	w := &Workspace{turn: semaphore.NewWeighted(1), allowed: map[string]*glob.Pattern{}}
	err := option.Apply(w, opts)
	if err == nil {
		w.first, err = newRoot("", dir)
	}
	if err == nil {
		err = w.separate()
	}
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	w.nameRecords()
	w.tidy()
	return w, nil
}

// Close releases the directories of the workspace. Files that callers have opened stay open.
func (w *Workspace) Close() error {
	var errs []error
	if w.records.root != nil && !w.records.beside {
		errs = append(errs, w.records.root.Close())
	}
	for _, r := range w.all() {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	return errors.Join(errs...)
}

// Dir returns the absolute path of the directory of the workspace, which is the first of its roots.
func (w *Workspace) Dir() string { return w.first.Dir }

// Seen returns the record of the file contents that the model has been shown. The tools that show
// or change files update the record.
func (w *Workspace) Seen() *SeenFiles { return &w.shown }

// Rel returns the clean, slash-separated path of name, relative to the workspace. The directory
// of the workspace itself is ".", and files of further roots begin with the name of theirs: see
// [WithRoot]. An empty name is an error, so that a missing argument does not
// select the whole workspace by accident; a tool that lists or searches passes cmp.Or(name, ".").
// Rel does not access the file. Opening the file can still fail, for example because the file
// does not exist or because a symbolic link leads out of the workspace.
func (w *Workspace) Rel(name string) (string, error) {
	rel, _, err := relIn("resolve", name, w.all()...)
	return rel, err
}

// rel is Rel for a method that accesses the file.
func (w *Workspace) rel(op, name string) (string, error) {
	rel, r, err := relIn(op, name, w.all()...)
	if err == nil {
		err = r.check(op, name)
	}
	return rel, err
}

// RelIn is [Workspace.Rel] for a workspace that is not on this machine: an implementation of the
// interface FS of package tools needs it to resolve names without asking. The directories are
// absolute paths of the workspace, with and without symbolic links. RelIn does not access them.
func RelIn(name string, dirs ...string) (string, error) {
	var same []*root
	for _, dir := range dirs {
		same = append(same, &root{Root: Root{Dir: dir}, real: dir})
	}
	rel, _, err := relIn("resolve", name, same...)
	return rel, err
}

// relIn returns the clean path of a name in the workspace, and its root. The names come from a
// model, so each kind of mistake has an error that says what to write instead.
func relIn(op, name string, roots ...*root) (string, *root, error) {
	fail := func(kind ErrorKind, why string) (string, *root, error) {
		return "", nil, &Error{Op: op, Path: name, Kind: kind, Err: errors.New(why)}
	}
	switch {
	case name == "":
		return fail(KindInvalidPath, `path is empty; the directory of the workspace is "."`)
	case len(name) > maxPath:
		return fail(KindInvalidPath, fmt.Sprintf("path is longer than %d bytes", maxPath))
	case strings.ContainsRune(name, 0):
		return fail(KindInvalidPath, "path has a NUL byte in it")
	}
	rel := filepath.ToSlash(name)
	if filepath.IsAbs(name) {
		rel = below(name, roots)
	}
	rel = rootpath.Clean(rel)
	if first, late := strings.CutPrefix(rel, "./"); late {
		if filepath.IsAbs(name) {
			return fail(KindInvalidPath, "cannot be reached, since "+runes.Path(first)+" is a path in a further directory")
		}
		return fail(KindInvalidPath, "the name of a further directory stands first; write "+runes.Path(first))
	}
	of, sub := rootpath.Cut(rel)
	if !filepath.IsLocal(filepath.FromSlash(sub)) {
		return fail(KindOutsideWorkspace,
			"is outside the workspace; use a path relative to its directory")
	}
	if strings.Count(rel, "/") >= maxDepth {
		return fail(KindInvalidPath, fmt.Sprintf("path has more than %d elements", maxDepth))
	}
	for _, r := range roots {
		if r.Name == of {
			return rel, r, nil
		}
	}
	if sub == "." { // no plan or snapshot has the path of a root alone, so it may be that of a file
		return rel, roots[0], nil
	}
	return fail(KindNoRoot, fmt.Sprintf("the workspace has no further directory of the name %s", of))
}

// below makes an absolute name relative to the root that it is in.
func below(name string, roots []*root) string {
	for _, r := range roots {
		for _, base := range []string{r.Dir, r.real} {
			rel, err := filepath.Rel(base, name)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			rel = filepath.ToSlash(rel)
			of, sub := rootpath.Cut(rel)
			if r.Name == "" && of != "" && (sub != "." || slices.ContainsFunc(roots, func(o *root) bool { return o.Name == of })) {
				return "./" + rel // it looks like a file of another root, and is not
			}
			return r.path(rel)
		}
	}
	return ".."
}

// mayRead refuses secrets and the temporary files of Apply.
func (w *Workspace) mayRead(name, rel string) error {
	_, sub := w.in(rel)
	if ignore.Temp(sub) {
		return &Error{"read", name, KindNotFound, fs.ErrNotExist}
	}
	if !ignore.Secret(sub) || w.allows(rel) {
		return nil
	}
	return &Error{"read", name, KindSensitivePath,
		errors.New("files of this name hold secrets; ask the user for what is needed of it")}
}

// mayWrite refuses secrets, directories of version control and, unless the change was approved,
// files that run code.
func (w *Workspace) mayWrite(name, rel string, approved bool) error {
	_, sub := w.in(rel)
	var kind ErrorKind
	var why string
	switch {
	case sub == ".":
		kind, why = KindProtectedPath, "is the directory of the workspace itself"
	case ignore.Temp(sub):
		kind, why = KindProtectedPath, "files of this name are temporary ones of changes that are under way"
	case ignore.Store(sub):
		kind, why = KindProtectedPath, "is what version control keeps for itself, and is changed with its commands only"
	case w.allows(rel):
	case ignore.Secret(sub):
		kind, why = KindSensitivePath, "files of this name hold secrets; ask the user to change it"
	case !approved && ignore.Runs(sub) != "":
		kind, why = KindProtectedPath, ignore.Runs(sub)+"; it is changed only with an approval of just this"
	}
	if kind == "" {
		return nil
	}
	return &Error{"write", name, kind, errors.New(why)}
}

// mayWriteResolved applies the rules of mayWrite to the path that rel resolves to. An approval
// covers only the name that was shown, not the target of a link.
func (w *Workspace) mayWriteResolved(name, rel, final string, approved bool) error {
	if err := w.mayWrite(name, final, approved || final != rel); err != nil {
		return err
	}
	r, dir := w.in(final)
	if final != rel && !w.allows(final) {
		if why := ignore.Runs(dir); why != "" {
			return &Error{"write", name, KindProtectedPath,
				fmt.Errorf("is a link to %s, which is changed under its own name only: %s", runes.Path(final), why)}
		}
	}
	for dir != "." {
		if dir = path.Dir(dir); r.bare(dir) {
			return &Error{"write", name, KindProtectedPath,
				errors.New("is in a bare repository, which is changed with git commands only")}
		}
	}
	return nil
}

// bare reports whether git takes a directory for a repository, as is_git_directory in git's
// setup.c does.
func (r *root) bare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !r.there(path.Join(dir, name)) {
			return false
		}
	}
	return true
}

// there reports whether a path exists, with one system call where the kernel allows it.
func (r *root) there(sub string) bool {
	f, err := beneath.Open(r.self, sub, os.O_RDONLY|openFlags)
	switch {
	case err == nil:
		f.Close()
		return true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false
	}
	_, err = r.root.Lstat(filepath.FromSlash(sub))
	return err == nil
}

// allows reports whether the host lets a protected name be written.
func (w *Workspace) allows(rel string) bool {
	for text, p := range w.allowed {
		if rootpath.Meant(text, rel) && p.Match(rel) {
			return true
		}
	}
	return false
}

// resolve returns a clean path with its symbolic links resolved. Elements that do not exist
// stay as they are.
func (w *Workspace) resolve(op, name, rel string) (string, error) {
	r, sub := w.in(rel)
	if beneath.Exact(r.self, sub) {
		return rel, nil
	}
	final, err := r.resolve(op, name, sub)
	if err != nil {
		return "", err
	}
	return r.path(final), nil
}

// resolve is the same for a name in the root.
func (r *root) resolve(op, name, sub string) (string, error) {
	outside := &Error{op, name, KindOutsideWorkspace,
		errors.New("a symbolic link leads out of the workspace")}
	todo := strings.Split(sub, "/")
	done, links := ".", 0
	for steps := 0; len(todo) > 0; steps++ {
		if steps > 2*maxDepth {
			return "", wrapError(op, name, syscall.ELOOP)
		}
		elem := todo[0]
		todo = todo[1:]
		next := path.Join(done, elem)
		if next == ".." {
			return "", outside
		}
		info, err := r.root.Lstat(filepath.FromSlash(next))
		if errors.Is(err, fs.ErrNotExist) {
			done = next
			continue
		}
		if err != nil {
			return "", wrapError(op, name, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		to, err := r.root.Readlink(filepath.FromSlash(next))
		if errors.Is(err, syscall.EINVAL) { // it is not a link any more
			return "", &Error{op, name, KindStale, errMoved}
		}
		if err != nil {
			return "", wrapError(op, name, err)
		}
		if filepath.IsAbs(to) {
			return "", outside
		}
		if links++; links > maxLinks {
			return "", wrapError(op, name, syscall.ELOOP)
		}
		todo = append(strings.Split(filepath.ToSlash(to), "/"), todo...)
	}
	return done, nil
}

// target is a file that is about to be written: its open directory, so that a rename on the way
// cannot redirect the write, and its name in it. Lock is a second handle of the directory;
// other processes do not write there while it is open.
type target struct {
	dir         *os.Root
	lock        *os.File
	name, asked string
	info        fs.FileInfo // of the directory, or nil
}

func (t *target) close() {
	t.lock.Close()
	t.dir.Close()
}

// openTarget opens and locks the directory of a resolved path.
func (w *Workspace) openTarget(ctx context.Context, name, final string) (*target, error) {
	t, err := w.openParent(name, final)
	if err != nil {
		return nil, err
	}
	if err := w.lockTarget(ctx, t, final); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// lockTarget locks an open directory, which must be that of the path afterwards.
func (w *Workspace) lockTarget(ctx context.Context, t *target, final string) error {
	if !lockDirectory(ctx, t.lock) {
		return cmp.Or(context.Cause(ctx),
			t.stale("another process keeps its directory locked; try again"))
	}
	return w.checkParent(t, final) // waiting for the lock may have taken long
}

// openParent opens the directory of a resolved path.
func (w *Workspace) openParent(name, final string) (*target, error) {
	r, sub := w.in(final)
	dir, err := r.root.OpenRoot(filepath.FromSlash(path.Dir(sub)))
	if errors.Is(err, syscall.ELOOP) { // the link is new
		err = &Error{"write", name, KindStale, errMoved}
	}
	if err != nil {
		return nil, wrapError("write", name, err)
	}
	self, err := dir.OpenFile(".", openFlags|directoryFlags, 0)
	if err != nil {
		dir.Close()
		return nil, wrapError("write", name, err)
	}
	return &target{dir: dir, lock: self, name: path.Base(final), asked: name}, nil
}

var errMoved = errors.New("a directory on the path was moved meanwhile; try again")

// checkParent makes sure that the open directory is still the one at the path, and that no link
// has taken its place.
func (w *Workspace) checkParent(t *target, final string) error {
	r, sub := w.in(final)
	if now, ok := r.finalName(t.lock); ok && now != path.Dir(sub) {
		return &Error{"write", t.asked, KindStale, errMoved}
	}
	return nil
}

// makeDirectories creates the missing directories on a resolved path one by one, each in the
// open directory above it. [os.Root.MkdirAll] would stay in the workspace too, but could follow
// a link that another program puts in the way.
func (w *Workspace) makeDirectories(name, directory string) error {
	r, sub := w.in(directory)
	if sub == "." {
		return nil
	}
	if info, err := r.root.Stat(filepath.FromSlash(sub)); err == nil && info.IsDir() {
		return nil
	}
	if err := w.makeDirectories(name, path.Dir(directory)); err != nil {
		return err
	}
	t, err := w.openParent(name, directory)
	if err != nil {
		return err
	}
	defer t.close()
	if err := w.checkParent(t, directory); err != nil {
		return err
	}
	if err := t.dir.Mkdir(t.name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return wrapError("write", name, err)
	}
	return nil
}

// stale is the error for a place that changed between two steps. Trying again finds what is
// there now.
func (t *target) stale(why string) error {
	return &Error{"write", t.asked, KindStale, errors.New(why)}
}

// is reports whether the name refers to the open file.
func (t *target) is(name string, f *os.File) bool {
	a, errA := t.dir.Lstat(name)
	b, errB := f.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// Temporary files and records of plans have this prefix and suffix, with the result of
// rand.Text and possibly numbers in between. [ignore.Temp] recognises them.
const tempPrefix, tempEnd = ".aycoder-", ".tmp"

// newFile holds the attributes of a new file.
type newFile struct {
	of    *os.File    // copy the mode, owner and attributes of this file
	mode  fs.FileMode // otherwise these permissions, or the default if 0
	exact bool        // the file gets the permissions of mode in any case
	later bool        // the caller flushes the file
}

// fill creates a file with a text, and flushes it unless like.later is set. It returns the file open for reading and
// writing. After an error, no file is left.
func (t *target) fill(name, text string, like newFile) (*os.File, error) {
	mode := fs.FileMode(0o666)
	if like.of != nil || like.mode != 0 || like.exact {
		mode = 0o600
	}
	f, err := t.dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, mode)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text)
	switch {
	case err != nil:
	case like.of != nil:
		if err = keepAttributes(f, like.of); err == nil && like.exact {
			err = setPermissions(f, like.mode)
		}
	case like.mode != 0 || like.exact:
		err = f.Chmod(like.mode)
	}
	if err == nil && !like.later {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), t.dir.Remove(name))
	}
	return f, nil
}
