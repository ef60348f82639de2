package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/egress"
)

// Exec runs the commands of bash, on this machine ([LocalExec]) or elsewhere, such as in a container
// or over ssh (package remote). An implementation must be safe for concurrent use. TestExec of
// package agenttest tests this contract.
//
// Run passes a script to a shell, exactly once, with no input: a command that reads its standard
// input sees its end. When the script has ended, Run kills the processes that the script has left,
// and returns. If ctx is done first, Run kills the command with all its processes within 100 ms, and
// returns the partial result and, as the error, context.Cause(ctx). If ctx was done before, nothing
// is run. If the command cannot be started, Run returns an error and no result. An exit code other
// than 0, or a signal that ends the command, is not an error. [WithMemoryLimit] does not apply to a
// custom Exec: limit memory in the implementation.
//
// If Run cannot know how the command ended, or whether it has begun, the error is of type
// [*workspace.Error] and of [workspace.KindInterrupted]. Run never repeats a command.
type Exec interface {
	Run(ctx context.Context, c *ExecCommand) (*ExecResult, error)
}

// ExecCommand is a command that an [Exec] runs.
type ExecCommand struct {
	// Script is the text for the shell. It may be up to 1 MiB long, which is too long for a
	// command-line argument.
	Script string
	// Root is the absolute path of the workspace, or of the directory of a [RootsFS] that Dir is in. Dir is the absolute path of the directory in
	// which the command runs. If Dir is outside of Root, including by way of a symbolic link, Run
	// must return an error for which errors.Is(err, ErrExecDir) is true.
	Root, Dir string
	// Network says that the command needs the network. If false, a sandbox may deny the network.
	Network bool
	// ReadOnly says that the command runs without approval, because the [aycoder.Approver]
	// considers it read-only (see the field ReadOnly of [aycoder.Invocation]). If possible, Run
	// must confine the command to reading, as [SandboxCall] describes, and set ReadOnly in the
	// result. Without the confinement, a command that the Approver misjudges can write.
	ReadOnly bool
	// Env is the complete environment of the command, from this machine or from Environ of a
	// [RemoteExec], and from [WithEnv].
	Env []string
	// Output receives the standard output and standard error of the command, in the order in
	// which they were written, while the command runs: every byte, unless the command writes so much
	// more than can be passed on that the implementation has to leave out a part. It then puts a line
	// in the place of that part which says so. The Write method does not block. Run must not call
	// Write concurrently, and must not call it after Run has returned.
	Output io.Writer
	// Approved is the [ExecCommand.Digest] of the command as bash was about to run it, or "" if nobody says that. An Exec
	// on another machine compares it there, right before it runs the command, and returns [ErrNotApproved] if the
	// command is another one.
	Approved string

	run string         // see [temps]
	ask egress.AskFunc // asks the user about a host
}

// Digest returns the SHA-256 of what a command does, in hexadecimal form: of Script, Dir, Network and ReadOnly.
func (c *ExecCommand) Digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %t %t", c.Script, c.Dir, c.Network, c.ReadOnly))
	return hex.EncodeToString(sum[:])
}

// ExecResult describes how a command of an [Exec] ended.
type ExecResult struct {
	// Code is the exit code. If a signal ended the command, Code is -1 and Signal is the name of
	// the signal.
	Code   int
	Signal string
	// Dir is the absolute path of the directory that the shell was in when it ended. It is "" if
	// that directory is unknown, for example after the shell builtin exec.
	Dir string
	// Survivors is the number of processes that still run because Run could not kill them. Held
	// is true if another process, which Run could not find, still has the output open.
	Survivors int
	Held      bool
	// ReadOnly says that the command was confined to reading, completely, as [SandboxCall] describes. That may be the
	// reason why the command failed.
	ReadOnly bool
	// Notes are lines to show to the model, for example about the restrictions of a sandbox.
	Notes []string
}

// ErrExecDir means that the directory in which a command is to run no longer exists or is not in
// the workspace.
var ErrExecDir = errors.New("the directory is gone, or not in the workspace")

// ErrNotApproved means that a command that arrived at another machine is not the one of its field Approved. It was not run.
var ErrNotApproved = errors.New("the command is not the one that was approved; it was not run")

// RemoteExec is implemented by an [Exec] that runs commands on another machine.
type RemoteExec interface {
	Exec
	// Environ returns the variables of the other machine, in the form "NAME=value". Commands inherit
	// those that programs need to run from there, and not from this process.
	Environ() []string
}

// WithExecMiddleware wraps the [Exec] that runs the commands of bash: the default one with its
// sandbox and limits, or that of [WithExec]. Of several options, the last is the outermost. It is
// for packages that observe commands, such as session. Default: none.
func WithExecMiddleware(wrap func(Exec) Exec) Option {
	return func(c *config) error {
		if wrap == nil {
			return &aycoder.ConfigError{Option: "WithExecMiddleware", Err: errors.New("is nil")}
		}
		c.wrapExec = append(c.wrapExec, wrap)
		return nil
	}
}

// WithExec makes bash run its commands by e. Since e is then responsible for confining commands
// and for limiting their memory, [WithSandbox], [WithSandboxRequired] and [WithMemoryLimit]
// cannot be combined with WithExec. Default: bash, or sh if there is no bash, on this machine.
func WithExec(e Exec) Option {
	return func(c *config) error {
		if e == nil {
			return &aycoder.ConfigError{Option: "WithExec", Err: errors.New("is nil")}
		}
		c.exec = e
		return nil
	}
}
