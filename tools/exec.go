package tools

import (
	"context"
	"errors"
	"io"

	"github.com/aycoder/aycoder"
)

// Exec runs commands: on this machine, or wherever a host sends them, such as a container
// or over ssh. It must be safe for concurrent use.
//
// Run runs a script with a shell. It returns when the script has ended and all its
// processes that can be killed are gone. If ctx is done first, Run kills the command
// within 100 ms and returns the partial result together with the cause of the context. A
// command that cannot be started is an error without a result; an exit code or a signal
// is not an error. An Exec limits memory itself: see [WithMemoryLimit].
type Exec interface {
	Run(ctx context.Context, c *ExecCommand) (*ExecResult, error)
}

// ExecCommand is a command for an [Exec].
type ExecCommand struct {
	// Script is the text for the shell. It may be 1 MiB long, which is too long for an
	// argument.
	Script string
	// Dir is the absolute path of the directory in which to run, and Root that of the
	// workspace. If Dir is outside of Root, also by way of a symbolic link, Run must
	// return an error for which errors.Is(err, ErrExecDir) holds.
	Root, Dir string
	// Network says that the command needs the network, which a [Sandbox] otherwise
	// denies.
	Network bool
	// ReadOnly says that the command was not approved: it runs because it is predicted to
	// only read, see [aycoder.Invocation]. An Exec that can confine it to reading does
	// so, see [SandboxCall], and says so in the result. With any other Exec the
	// prediction is the only protection.
	ReadOnly bool
	// Env is the whole environment, from this machine and from [WithEnv].
	Env []string
	// Output receives standard output and standard error in the order in which they were
	// written. Write does not block. It must not be called concurrently, nor after Run
	// has returned.
	Output io.Writer

	run string // see [temps]
}

// ExecResult describes how a command ended.
type ExecResult struct {
	// Code is the exit code, or -1 if a signal ended the command; Signal is its name.
	Code   int
	Signal string
	// Dir is the absolute path of the last directory of the shell, or "" if it is
	// unknown, as after exec.
	Dir string
	// Survivors is the number of processes that could not be killed and still run. Held
	// says that an unknown process kept the output open.
	Survivors int
	Held      bool
	// ReadOnly says that the command was confined to reading, which may be why it failed.
	ReadOnly bool
	// Notes are lines for the model, such as the restrictions of a sandbox.
	Notes []string
}

// ErrExecDir means that the directory for a command no longer exists, or is not in the
// workspace.
var ErrExecDir = errors.New("the directory is gone, or not in the workspace")

// WithExec makes e run the commands. Since e confines them itself, [WithSandbox],
// [WithSandboxRequired] and [WithMemoryLimit] are errors beside it. Default: bash, or sh, on
// this machine.
func WithExec(e Exec) Option {
	return func(c *config) error {
		if e == nil {
			return &aycoder.ConfigError{Option: "WithExec", Err: errors.New("is nil")}
		}
		c.exec = e
		return nil
	}
}
