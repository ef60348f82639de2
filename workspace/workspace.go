// Package workspace reads and changes the files of one directory, and keeps everything
// else out of reach. [Workspace] opens files that no name and no symbolic link leads out
// of the directory; [Workspace.Apply] carries out an [aycoder.EditPlan] by a three-way
// merge with what others have saved meanwhile, so that no line of theirs is lost;
// [SeenFiles] remembers what a model has read, which is the base of those merges.
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
	"strings"
	"syscall"

	"golang.org/x/sync/semaphore"

	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/beneath"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxPath  = 4096 // bytes of an asked name
	maxDepth = 512  // elements of one, and twice as many with those of links: each is looked up anew
	maxLinks = 40   // symbolic links on the way to a file, as Linux has it

	maxEntries = 200_000  // of a folder
	maxFile    = 64 << 20 // bytes of a file that is merged, as in all of a plan
)

// Workspace is the files of one folder. No name leads out of it: names are resolved
// by [os.Root], one element after the other, so that a symbolic link that points
// outside is refused even if it is put there while a name is being resolved. Files
// that hold keys and passwords by their look are not opened, and what version control
// keeps for itself (.git and its like, bare repositories) is not written. Files that run
// code though nobody runs them by name, or tell agents what they may do (CI
// configuration, hooks, start files of shells and editors, AGENTS.md and others), are
// written only by [Workspace.Apply] with [WithApproved]. These lists are a fence, not a
// wall: a hard link or a shell gets around them.
//
// Names are relative to the folder, or absolute and below it. Its methods are safe
// for concurrent use and return a [*Error].
type Workspace struct {
	root    *os.Root
	self    *os.File // the folder
	dir     string   // as asked, absolute
	real    string   // without symbolic links
	allowed []*glob.Pattern

	shown   SeenFiles
	records recordStore

	turn *semaphore.Weighted // is taken during a write: one at a time
}

// Option sets a property of a [Workspace].
type Option func(*Workspace) error

// WithAllowed lets files be opened and written that are refused by their name, such
// as ".env.test" or ".github/**". The patterns are for slash-separated paths in the
// workspace: * stays within a directory, ** does not. Nothing lets .git be
// written. It does not answer the question that an agent's call raises, see
// [Grounds].Named. Default: none; patterns add up.
func WithAllowed(patterns ...string) Option {
	return func(w *Workspace) error {
		for _, p := range patterns {
			c, err := glob.Compile(p)
			if err != nil {
				return fmt.Errorf("WithAllowed: %q: %w", p, err)
			}
			w.allowed = append(w.allowed, c)
		}
		return nil
	}
}

// Error says that a file of a [Workspace] could not be read or written.
type Error struct {
	// Op is what was being done, such as "read"; Path the name that was asked for.
	Op, Path string
	// Kind is stable, for programs: "outside_workspace", "sensitive_path",
	// "protected_path", "invalid_path", "not_found", "not_regular", "is_directory",
	// "not_directory", "permission", "stale", "too_large", "no_space" or "io".
	Kind string
	// Err is the cause.
	Err error
}

// Error implements error. The text is short whatever the name.
func (e *Error) Error() string {
	return e.Op + " " + runes.Path(e.Path) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Open returns the workspace of an existing folder. Close it after use.
//
// It removes the temporary files of plans that a crash interrupted before anything, or
// after everything, was done. [Workspace.Interrupted] returns those that were half done;
// nothing else is changed before somebody asks for it.
func Open(dir string, opts ...Option) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	w := &Workspace{dir: abs, turn: semaphore.NewWeighted(1)}
	for _, opt := range opts {
		err = cmp.Or(err, opt(w))
	}
	if err == nil {
		w.real, err = filepath.EvalSymlinks(abs)
	}
	if err == nil {
		w.root, err = os.OpenRoot(w.real)
	}
	if err == nil {
		w.self, err = w.root.Open(".")
	}
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("open workspace: %w", cause(err))
	}
	w.nameRecords()
	w.tidy()
	return w, nil
}

// Close gives up the folder. Files that are open stay so.
func (w *Workspace) Close() error {
	var errs []error
	if w.records.root != nil && w.records.root != w.root {
		errs = append(errs, w.records.root.Close())
	}
	if w.root != nil {
		errs = append(errs, w.root.Close())
	}
	if w.self != nil {
		errs = append(errs, w.self.Close())
	}
	return errors.Join(errs...)
}

// Dir returns the absolute path of the folder.
func (w *Workspace) Dir() string { return w.dir }

// Seen returns what the model has been shown of the files. The tools tell it.
func (w *Workspace) Seen() *SeenFiles { return &w.shown }

// Rel returns the clean, slash-separated path in the workspace that name stands for;
// "." is the folder itself. It looks at the name only: that there is no such file,
// or that a link leads out, is found when the file is opened.
func (w *Workspace) Rel(name string) (string, error) { return w.rel("resolve", name) }

func (w *Workspace) rel(op, name string) (string, error) {
	fail := func(kind, why string) (string, error) {
		return "", &Error{Op: op, Path: name, Kind: kind, Err: errors.New(why)}
	}
	switch {
	case name == "":
		return fail("invalid_path", "path is empty")
	case len(name) > maxPath:
		return fail("invalid_path", fmt.Sprintf("path is longer than %d bytes", maxPath))
	case strings.ContainsRune(name, 0):
		return fail("invalid_path", "path has a NUL byte in it")
	}
	rel := name
	if filepath.IsAbs(name) {
		rel = w.below(name)
	}
	rel = path.Clean(filepath.ToSlash(rel))
	if !filepath.IsLocal(filepath.FromSlash(rel)) {
		return fail("outside_workspace", "is outside the workspace; use a path relative to its folder")
	}
	if strings.Count(rel, "/") >= maxDepth {
		return fail("invalid_path", fmt.Sprintf("path has more than %d elements", maxDepth))
	}
	return rel, nil
}

// below makes an absolute name relative to the folder.
func (w *Workspace) below(name string) string {
	for _, base := range []string{w.dir, w.real} {
		if rel, err := filepath.Rel(base, name); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return ".."
}

// mayRead refuses secrets. Temporary files are nobody's.
func (w *Workspace) mayRead(name, rel string) error {
	if ignore.Temp(rel) {
		return &Error{"read", name, "not_found", fs.ErrNotExist}
	}
	if !ignore.Secret(rel) || w.allows(rel) {
		return nil
	}
	return &Error{"read", name, "sensitive_path",
		errors.New("files of this name hold secrets; ask the user for what is needed of it")}
}

const protected = "protected_path"

// mayWrite refuses secrets, what version control keeps, and unless the change was
// approved, what runs code.
func (w *Workspace) mayWrite(name, rel string, approved bool) error {
	kind, why := "", ""
	switch {
	case rel == ".":
		kind, why = protected, "is the directory of the workspace itself"
	case ignore.Temp(rel):
		kind, why = protected, "files of this name are temporary ones of changes that are under way"
	case ignore.Store(rel):
		kind, why = protected, "is what version control keeps for itself, and is changed with its commands only"
	case w.allows(rel):
	case ignore.Secret(rel):
		kind, why = "sensitive_path", "files of this name hold secrets; ask the user to change it"
	case !approved && ignore.Runs(rel) != "":
		kind, why = protected, ignore.Runs(rel)+"; it is changed only with an approval of just this"
	}
	if kind == "" {
		return nil
	}
	return &Error{"write", name, kind, errors.New(why)}
}

// mayWriteResolved is mayWrite for the path that the links on the way to rel lead to. An
// approval was for the name that was shown, not for what a link makes of it.
func (w *Workspace) mayWriteResolved(name, rel, final string, approved bool) error {
	if err := w.mayWrite(name, final, approved || final != rel); err != nil {
		return err
	}
	if why := ignore.Runs(final); why != "" && final != rel && !w.allows(final) {
		return &Error{"write", name, protected,
			fmt.Errorf("is a link to %s, which is changed under its own name only: %s", runes.Path(final), why)}
	}
	for dir := final; dir != "."; {
		if dir = path.Dir(dir); w.bare(dir) {
			return &Error{"write", name, protected,
				errors.New("is in a bare repository, which is changed with git commands only")}
		}
	}
	return nil
}

// bare reports whether git takes a folder for a repository: the test of
// is_git_directory in its setup.c.
func (w *Workspace) bare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !w.there(path.Join(dir, name)) {
			return false
		}
	}
	return true
}

// there reports whether there is something at a path, in one step where the kernel can.
func (w *Workspace) there(rel string) bool {
	f, err := beneath.Open(w.self, rel, os.O_RDONLY|openFlags)
	switch {
	case err == nil:
		f.Close()
		return true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false
	}
	_, err = w.root.Lstat(filepath.FromSlash(rel))
	return err == nil
}

func (w *Workspace) allows(rel string) bool {
	for _, p := range w.allowed {
		if p.Match(rel) {
			return true
		}
	}
	return false
}

// resolve follows the symbolic links in a clean path, and returns a path without.
// What does not exist has none.
func (w *Workspace) resolve(op, name, rel string) (string, error) {
	if beneath.Exact(w.self, rel) {
		return rel, nil
	}
	outside := &Error{op, name, "outside_workspace",
		errors.New("a symbolic link leads out of the workspace")}
	todo := strings.Split(rel, "/")
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
		info, err := w.root.Lstat(filepath.FromSlash(next))
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
		to, err := w.root.Readlink(filepath.FromSlash(next))
		if errors.Is(err, syscall.EINVAL) { // it is no link any more
			return "", &Error{op, name, "stale", errMoved}
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

// target is a file that is about to be written: its folder, held open so that
// everything happens in the same one, and its name there. Lock is the folder too, and
// while it is open others do not write there.
type target struct {
	dir         *os.Root
	lock        *os.File
	name, asked string
}

func (t *target) close() {
	t.lock.Close()
	t.dir.Close()
}

// openTarget opens the folder of a resolved path and locks it.
func (w *Workspace) openTarget(ctx context.Context, name, final string) (*target, error) {
	t, err := w.openParent(name, final)
	if err == nil && !lockFolder(ctx, t.lock) {
		err = cmp.Or(context.Cause(ctx), t.stale("another process keeps its folder locked; try again"))
	}
	if err == nil {
		err = w.checkParent(t, final) // it may have taken long
	}
	if err != nil && t != nil {
		t.close()
		t = nil
	}
	return t, err
}

// openParent opens the folder of a resolved path.
func (w *Workspace) openParent(name, final string) (*target, error) {
	dir, err := w.root.OpenRoot(filepath.FromSlash(path.Dir(final)))
	if errors.Is(err, syscall.ELOOP) { // there was no link a moment ago
		err = &Error{"write", name, "stale", errMoved}
	}
	if err != nil {
		return nil, wrapError("write", name, err)
	}
	self, err := dir.Open(".")
	if err != nil {
		dir.Close()
		return nil, wrapError("write", name, err)
	}
	return &target{dir, self, path.Base(final), name}, nil
}

var errMoved = errors.New("a folder on the path was moved meanwhile; try again")

// checkParent makes sure that it is that folder still, not one that a link put in its
// place leads to.
func (w *Workspace) checkParent(t *target, final string) error {
	if now, ok := w.finalName(t.lock); ok && now != path.Dir(final) {
		return &Error{"write", t.asked, "stale", errMoved}
	}
	return nil
}

// makeFolders makes those on a resolved path that are missing, each in the one above
// it: what [os.Root] makes is in the workspace, but in another folder if somebody puts
// a link in the place of one meanwhile.
func (w *Workspace) makeFolders(name, folder string) error {
	if folder == "." {
		return nil
	}
	if info, err := w.root.Stat(filepath.FromSlash(folder)); err == nil && info.IsDir() {
		return nil
	}
	if err := w.makeFolders(name, path.Dir(folder)); err != nil {
		return err
	}
	t, err := w.openParent(name, folder)
	if err != nil {
		return err
	}
	defer t.close()
	if err := w.checkParent(t, folder); err != nil {
		return err
	}
	if err := t.dir.Mkdir(t.name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return wrapError("write", name, err)
	}
	return nil
}

func (t *target) stale(why string) error {
	return &Error{"write", t.asked, "stale", errors.New(why)}
}

// is reports whether a name stands for an open file.
func (t *target) is(name string, f *os.File) bool {
	a, errA := t.dir.Lstat(name)
	b, errB := f.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// Temporary files and records of plans have names that begin and end like this, and
// between them what rand.Text returns, and perhaps numbers. [ignore.Temp] knows them.
const tempPrefix, tempEnd = ".aycoder-", ".tmp"

// newFile says what a new file is like.
type newFile struct {
	of   *os.File    // has the mode, owner and attributes of this one
	mode fs.FileMode // or else these permissions, or if they are 0 the usual ones
}

// fill creates a file with a text in it, on the disk, or leaves none.
func (t *target) fill(name, text string, like newFile) error {
	mode := fs.FileMode(0o666)
	if like.of != nil || like.mode != 0 {
		mode = 0o600
	}
	f, err := t.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	switch {
	case err != nil:
	case like.of != nil:
		err = keepAttributes(f, like.of)
	case like.mode != 0:
		err = f.Chmod(like.mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, t.dir.Remove(name))
	}
	return nil
}

// keepAttributes gives a new file what another has beside its content: the mode, and
// where the system and the process's rights allow it, the owner and extended
// attributes, access lists among them.
func keepAttributes(f, of *os.File) error {
	info, err := of.Stat()
	if err == nil {
		// Before the mode, which is a part of an access list.
		err = atomicswap.CopyAttributes(f, of)
	}
	if err == nil {
		err = keepMode(f, info)
	}
	return err
}

// wrapError gives an error a kind. One that has a kind keeps it.
func wrapError(op, name string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	kind := "io"
	switch {
	case strings.Contains(err.Error(), "path escapes from parent"):
		// What os.Root says; the package does not export the error.
		err = errors.New("a symbolic link leads out of the workspace")
		kind = "outside_workspace"
	case errors.Is(err, fs.ErrNotExist):
		kind = "not_found"
	case errors.Is(err, fs.ErrPermission):
		kind = "permission"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = "no_space"
	case errors.Is(err, syscall.ENOTDIR):
		kind = "not_directory"
	case errors.Is(err, syscall.EISDIR):
		kind = "is_directory"
	case errors.Is(err, syscall.ENXIO): // a socket, or a device that is not there
		err, kind = errors.New("is not a regular file"), "not_regular"
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		kind = "invalid_path"
	}
	return &Error{Op: op, Path: name, Kind: kind, Err: cause(err)}
}

// cause strips the names from an error of package os: they may be long, and name
// temporary files.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
