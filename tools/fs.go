package tools

import (
	"context"
	"io/fs"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/workspace"
)

// FS is the file system on which the tools work: a [workspace.Workspace], or an implementation of
// the host for a container or another machine. An implementation must keep names within its
// directory, refuse access to files that must not be read or written, and never wait for a pipe
// or a device. Its errors must be of type [*workspace.Error], whose Kind the tools report to the
// model. The methods must be safe for concurrent use.
type FS interface {
	// Dir returns the absolute path of the directory that holds the files. Commands run in it.
	Dir() string
	// Rel returns the clean, slash-separated path of name, relative to the directory.
	Rel(name string) (string, error)
	// Open opens a regular file for reading.
	Open(name string) (fs.File, error)
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Apply carries out a plan, either completely or not at all, without losing changes that
	// other programs make to the files at the same time. The tools pass the option
	// [workspace.WithApproved], or no option.
	Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error)
	// Seen returns the record of the file contents that the model has been shown. If several
	// agents share the files, the tools use what each of them was shown: see [workspace.WithReader].
	Seen() *workspace.SeenFiles
}

var _ FS = (*workspace.Workspace)(nil)
