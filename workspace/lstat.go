package workspace

import (
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/beneath"
	"github.com/aycoder/aycoder/internal/ignore"
)

// mayRestore returns an error if a file of this name must not be written.
func (w *Workspace) mayRestore(name string, approved bool) error {
	rel, err := w.rel("write", name)
	if err != nil {
		return err
	}
	return w.mayWriteResolved(name, rel, rel, approved)
}

// exactPath returns the path of a file that is restored. No directory on it may be a link.
func (w *Workspace) exactPath(e edit.File) (string, error) {
	parent := path.Dir(e.Path)
	info, errStat := w.Lstat(parent)
	if errStat == nil && info.IsDir() {
		return e.Path, nil // and no link leads to it
	}
	err := w.noLinks("write", e.Path, parent)
	if err == nil && errStat == nil {
		err = &Error{"write", e.Path, KindNotDirectory, syscall.ENOTDIR}
	}
	if err != nil && e.Kind == edit.Delete {
		err = fs.ErrNotExist // there can be no such file
	}
	return e.Path, err
}

// noLinks returns an error if a directory is reached through a symbolic link or a file.
func (w *Workspace) noLinks(op, name, directory string) error {
	if r, sub := w.in(directory); sub == "." || beneath.Exact(r.self, sub) {
		return nil
	}
	final, err := w.resolve(op, name, directory)
	if err == nil && final != directory {
		err = &Error{op, name, KindNotDirectory, errors.New("a directory on its path is a symbolic link")}
	}
	return err
}

// stateOf returns the state of a name itself. A symbolic link is not followed, and below one there
// is nothing.
func (w *Workspace) stateOf(name string) (fileState, error) {
	info, err := w.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileState{absent: true}, nil
	case err != nil:
		return fileState{}, err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := w.ReadLink(name)
		return linkTo(to), err
	case !info.Mode().IsRegular():
		return fileState{mode: info.Mode()}, nil
	}
	text, err := w.readAnything(name)
	return fileState{text: text, mode: info.Mode()}, err
}

// Lstat describes the file, directory or symbolic link that has this name. Unlike Open, it does
// not follow symbolic links, not even in place of a directory on the path: there is nothing of
// such a name, and the error is of [KindNotFound]. Files that must not be read have a description
// too.
func (w *Workspace) Lstat(name string) (fs.FileInfo, error) {
	rel, err := w.rel("look at", name)
	if err != nil {
		return nil, err
	}
	if r, sub := w.in(rel); sub != "." && !ignore.Temp(rel) {
		if info, err := beneath.Lstat(r.self, sub); err == nil {
			return info, nil
		}
	}
	if rel, err = w.exists(name); err != nil {
		return nil, err
	}
	root, at := w.file(rel)
	info, err := root.Lstat(at)
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, wrapError("look at", name, err)
	}
	return info, nil
}

// ReadLink returns the target of the symbolic link that has this name, under the rules of Lstat.
// The target may lead out of the workspace.
func (w *Workspace) ReadLink(name string) (string, error) {
	rel, err := w.exists(name)
	if err != nil {
		return "", err
	}
	root, at := w.file(rel)
	to, err := root.Readlink(at)
	if err != nil {
		return "", wrapError("look at", name, err)
	}
	return to, nil
}

// exists returns the clean path of a name that no link leads to.
func (w *Workspace) exists(name string) (string, error) {
	rel, err := w.rel("look at", name)
	if err == nil && (ignore.Temp(rel) || w.noLinks("look at", name, path.Dir(rel)) != nil) {
		err = wrapError("look at", name, fs.ErrNotExist)
	}
	return rel, err
}

// Resolve returns the path that a name leads to, relative to the workspace, with all symbolic
// links resolved. The file need not exist. If a link leads out of the workspace, the error is of
// [KindOutsideWorkspace].
func (w *Workspace) Resolve(name string) (string, error) {
	rel, err := w.rel("resolve", name)
	if err != nil {
		return "", err
	}
	return w.resolve("resolve", name, rel)
}
