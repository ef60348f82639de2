//go:build unix

package proc

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Run runs a command with no input, in a session and process group of its own, and
// returns when it has ended. When it ends, whatever the reason, everything in the
// session is killed: what it left in the background too. A process that starts a
// session of its own gets away; what it prints later is lost. Where there is no
// Linux /proc, so does one that moved to another process group, as what timeout(1)
// starts and the jobs of an interactive shell.
//
// If ctx ends first, all that is killed at once, and the error is the context's
// cause beside the result so far. A command that cannot be started is an error
// without a result; one that ends with a code or a signal is none. If another part
// of the program takes the exit status, the code is -1 and there is an error too.
func Run(ctx context.Context, c *Command) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = c.Dir, c.Env, c.Files
	// One pipe for both keeps the order. Files, not writers, so that Wait does not
	// wait for whoever holds the pipe.
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	return supervise(ctx, c, cmd, r)
}

// supervise reads output until the command has ended.
func supervise(ctx context.Context, c *Command, cmd *exec.Cmd, r *os.File) (*Result, error) {
	res := &Result{Output: NewOutput(cmp.Or(c.Limit, 100_000))}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(r, c, res.Output)
	}()
	exited := make(chan struct{})
	var ours bool
	go func() {
		defer close(exited)
		ours = waitExit(cmd)
	}()
	err := wait(ctx, exited, c.Timeout)
	if err != nil {
		killGroup(cmd.Process.Pid)
		<-exited
	}
	// Where that can be had, before the process is reaped: until then its id, which is
	// the group's and the session's, cannot become that of another.
	if ours {
		killGroup(cmd.Process.Pid)
		killSession(cmd.Process.Pid)
	}
	waitErr := reap(cmd)
	res.Held = !finish(r, drained)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		res.TimedOut, err = true, nil
	}
	if _, ok := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && !ok {
		err = errors.Join(err, waitErr)
	}
	res.ended(cmd.ProcessState)
	return res, err
}

// ended takes over how the command ended, which is not known if st is nil.
func (res *Result) ended(st *os.ProcessState) {
	res.Code = -1
	if st == nil {
		return
	}
	res.Code = st.ExitCode()
	if w, ok := st.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		res.Signal = w.Signal().String()
	}
}

// finish waits for the rest of the output, and reports whether its end was reached.
func finish(r *os.File, drained <-chan struct{}) bool {
	_ = r.SetReadDeadline(time.Now().Add(drainFor))
	<-drained
	// At the end of the output one more read says so again.
	_ = r.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := r.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// killGroup kills a process and all in its group. A child that is being forked at
// this moment is in the group already; it gets the signal when it starts.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
