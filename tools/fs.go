package tools

import (
	"context"
	"io/fs"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// FS is the files that the tools work on: an [workspace.Workspace], or what a host puts
// in its place to send them into a container or to another machine. It keeps names
// within its folder, refuses what must not be read or written, and never waits for a
// pipe or a device. Errors are [*workspace.Error], whose Kind the model is told.
// The methods are safe for concurrent use.
type FS interface {
	// Dir is the absolute path of the folder, where commands run.
	Dir() string
	// Rel is the clean, slash-separated path in the folder that a name stands for.
	Rel(name string) (string, error)
	// Open opens a regular file for reading.
	Open(name string) (fs.File, error)
	// ReadDir returns the entries of a folder, sorted by name.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Apply carries out a plan, all of it or nothing, and loses nothing that was
	// written to the files meanwhile. The tools pass [workspace.WithApproved], or no option.
	Apply(ctx context.Context, plan aycoder.EditPlan, opts ...workspace.ApplyOption) (*aycoder.ApplyResult, error)
	// Seen is what the model has been shown of the files.
	Seen() *workspace.SeenFiles
}

var _ FS = (*workspace.Workspace)(nil)
