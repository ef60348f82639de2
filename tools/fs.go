package tools

import (
	"context"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/search"
	"github.com/aycoder/aycoder/workspace"
)

// FS is the file system on which the tools work: a [workspace.Workspace], a connection of package
// remote, or an implementation of the host. TestFS of package agenttest tests this contract; a
// difference that it would find often shows in the tools only as a wrong answer.
//
// A name is relative to the directory, or absolute and below it. Both lead to the same file. The
// error for a name that leads out of the directory, as such or by a symbolic link, is of
// [workspace.KindOutsideWorkspace], and for an empty name or one with a NUL byte of
// [workspace.KindInvalidPath]. A name may have any other bytes, but what is in a directory at the top of
// the form "name:" is in a further directory (see [RootsFS]), or of [workspace.KindNoRoot]. Symbolic links within the directory
// are followed.
//
// An error about a file is of type [*workspace.Error]. The tools act on its Kind, and report it to
// the model: a file or directory that does not exist is [workspace.KindNotFound], a directory in the
// place of a file [workspace.KindIsDirectory], a file in the place of a directory
// [workspace.KindNotDirectory], a pipe, a socket or a device [workspace.KindNotRegular]. If files of
// secrets are refused, their kind is [workspace.KindSensitivePath]. No method waits for a pipe or a
// device.
//
// The results of a method belong to the caller. After a change by Apply, by a command or by another
// program, the next call sees it. If the ctx of a method ends, the method returns context.Cause(ctx)
// soon. The methods must be safe for concurrent use. A slow FS also implements [RemoteFS].
type FS interface {
	// Dir returns the absolute path of the directory that holds the files, in the form of this
	// machine. Commands run in it. It is always the same.
	Dir() string
	// Rel returns the clean, slash-separated path of name, relative to the directory, which is ".".
	// It does not access the file, which need not exist, and is fast.
	Rel(name string) (string, error)
	// Open opens a regular file for reading. Stat of the file returns the size and the permissions
	// that the file had when it was opened, and the base of its name. Read returns exactly the bytes
	// of the file, then io.EOF. If the file is replaced, an open one still has the old content. It
	// can be closed at any time.
	Open(name string) (fs.File, error)
	// ReadDir returns the entries of a directory, sorted by name, without "." and "..". An entry has
	// a name without slash, and the type of what has this name: that of a symbolic link is
	// [fs.ModeSymlink], wherever it leads. An empty directory has no entries and no error. Hidden
	// files are listed like others, but the temporary files of Apply are not. If the directory is too
	// large to be listed, ReadDir returns some entries together with an error of kind
	// [workspace.KindTooLarge].
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Apply carries out a plan, either completely or not at all. It compares each file with the Base
	// of its edit at the moment of the change, and loses no change that another program makes: it
	// merges both, or returns an [*edit.ConflictError] and changes no file. The result has an element
	// for each file of the plan, in the same order, and says what the files contain now. Missing
	// directories of a created file are created. A changed file keeps its permissions.
	//
	// [workspace.SettingsOf] returns the values of the options. The tools pass
	// [workspace.WithApproved], or no option. If the option has another digest than the plan, Apply
	// refuses the plan. Without the option, it refuses to change files that run code or instruct
	// agents, with [workspace.KindProtectedPath]. Apply never changes what version control keeps for
	// itself.
	//
	// If ctx ends first, no file is changed. If Apply cannot know whether files were changed, the
	// error is of [workspace.KindInterrupted]; nobody repeats the call then.
	Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error)
	// Seen returns the record of the file contents that the model has been shown, always the same
	// one. If several agents share the files, the tools use what each of them was shown: see
	// [workspace.WithReader].
	Seen() *workspace.SeenFiles
}

var _ FS = (*workspace.Workspace)(nil)

// RemoteFS is implemented by an [FS] each of whose calls takes as long as a message to another
// machine. The tools then ask for several files at once.
type RemoteFS interface {
	FS
	// Within returns the same files for one call of a tool: methods that have no ctx, and those of
	// the files that they open, end when ctx is done.
	Within(ctx context.Context) FS
	// Ahead is Within for a walk through name and the directories below, except those that git
	// ignores. The listings and the files of ignore patterns that the walk needs may be those of the
	// moment of the call. Ignored are the patterns of [WithIgnored].
	Ahead(ctx context.Context, name string, ignored []byte) FS
	// OpenFiles opens files as Open does, and yields one after the other in the order of the names.
	// The caller closes them.
	OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error]
	// Err returns why no file can be reached any more, or nil. After an error, a walk has not seen all
	// files, and the tools report the error instead of what the walk has found.
	Err() error
}

// RootsFS is implemented by an [FS] with further directories, such as a [workspace.Workspace] with
// [workspace.WithRoot]. Commands may run in each of them and, in a sandbox, change each of them.
type RootsFS interface {
	FS
	// Roots returns the directories, always the same ones. The first is that of Dir.
	Roots() []workspace.Root
}

// rootsOf returns the directories of the files by name.
func rootsOf(ws FS) map[string]string {
	all := map[string]string{"": ws.Dir()}
	if r, ok := ws.(RootsFS); ok {
		for _, root := range r.Roots() {
			all[root.Name] = root.Dir
		}
	}
	return all
}

// locate returns the absolute paths of a path that Rel has returned, and of its root.
func locate(ws FS, rel string) (root, full string) {
	name, rest := rootpath.Cut(rel)
	root = rootsOf(ws)[name]
	return root, filepath.Join(root, filepath.FromSlash(rest))
}

// within returns the files for one call of a tool.
func within(ctx context.Context, ws FS) FS {
	if r, ok := ws.(RemoteFS); ok {
		return r.Within(ctx)
	}
	return ws
}

// reached returns an error if the files could not be reached during a walk. A walk counts what it cannot
// read, and would otherwise tell the model that nothing was found.
func reached(ws FS, op, name string) error {
	if r, ok := ws.(RemoteFS); ok && r.Err() != nil {
		return &workspace.Error{Op: op, Path: name, Kind: workspace.KindIO, Err: r.Err()}
	}
	return nil
}

// walking returns the files for a walk.
func walking(ctx context.Context, ws FS, name string, ignored []byte) search.Source {
	if r, ok := ws.(RemoteFS); ok {
		return r.Ahead(ctx, name, ignored)
	}
	return ws
}
