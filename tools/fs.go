package tools

import (
	"context"
	"io/fs"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// FS is the file system of the tools: a [workspace.Workspace], or an implementation of
// the host that works in a container or on another machine. It keeps names within its
// directory, refuses files that must not be read or written, and never waits for a pipe
// or a device. Errors are [*workspace.Error], whose Kind the model is told. The methods
// are safe for concurrent use.
type FS interface {
	// Dir is the absolute path of the directory, in which commands run.
	Dir() string
	// Rel returns the clean, slash-separated path of a name, relative to the directory.
	Rel(name string) (string, error)
	// Open opens a regular file for reading.
	Open(name string) (fs.File, error)
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Apply carries out a plan, all of it or nothing, without losing concurrent changes
	// to the files. The tools pass [workspace.WithApproved], or no option.
	Apply(ctx context.Context, plan aycoder.EditPlan, opts ...workspace.ApplyOption) (*aycoder.ApplyResult, error)
	// Seen returns the record of the texts that the model has been shown.
	Seen() *workspace.SeenFiles
}

var _ FS = (*workspace.Workspace)(nil)
