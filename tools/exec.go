package tools

import (
	"context"
	"errors"
	"io"
)

// Exec runs commands: on this machine, or where a host sends them, into a container or
// over ssh. It is safe for concurrent use.
//
// Run runs a script with a shell and returns when that has ended, with nothing of it
// left that could be ended too. If ctx ends first, Run ends the command within 100 ms
// and returns what is known beside the context's cause. A command that cannot be
// started is an error without a result; one that ends with a code or a signal is none.
// How much memory a command takes is for the Exec to bound: see [WithMemoryLimit].
type Exec interface {
	Run(ctx context.Context, c *ExecCommand) (*ExecResult, error)
}

// ExecCommand is what an [Exec] runs.
type ExecCommand struct {
	// Script is what the shell gets. It may be 1 MiB long, which is too much for an
	// argument.
	Script string
	// Dir is the absolute path of the folder to run in. It lies in Root, the folder of
	// the workspace, and if it does not, also by way of a symbolic link, the error is
	// one for which errors.Is(err, ErrExecDir) holds.
	Root, Dir string
	// Network says that the command needs the network, which a [Sandbox] keeps from
	// others.
	Network bool
	// ReadOnly says that nobody approved the command: it runs because it only reads, see
	// [aycoder.Invocation]. An Exec that can hold it to that does, see SandboxCall.ReadOnly,
	// and says so in the result; with one that cannot, the prediction is all there is.
	ReadOnly bool
	// Env is the whole environment, made of this machine's and of [WithEnv].
	Env []string
	// Output gets standard output and error in the order in which they were written. It
	// does not block, is not written to by two at a time, nor after Run has returned.
	Output io.Writer

	run string // see [temps]
}

// ExecResult is how a command ended.
type ExecResult struct {
	// Code is the exit code, -1 if a signal ended the command; Signal is its name.
	Code   int
	Signal string
	// Dir is the absolute path of the folder in which the shell was at the end, or ""
	// if that is not known, as after exec.
	Dir string
	// Survivors counts processes that still run and could not be ended. Held says that
	// one that is not known kept the output open.
	Survivors int
	Held      bool
	// ReadOnly says that the command was held to reading, so that its failure may be due to
	// that.
	ReadOnly bool
	// Notes are lines for the model, such as what a sandbox has forbidden.
	Notes []string
}

// ErrExecDir says that the folder in which a command was to run is gone, or is not in
// the workspace.
var ErrExecDir = errors.New("the folder is gone, or not in the workspace")

// WithExec has commands run by e, which confines them itself: with [WithSandbox],
// [RequireSandbox] or [WithMemoryLimit] beside it no tool is made. Default: with bash, or
// sh, on this machine.
func WithExec(e Exec) Option {
	return func(c *config) error {
		if e == nil {
			return errors.New("WithExec: is nil")
		}
		c.exec = e
		return nil
	}
}
