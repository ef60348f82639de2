//go:build unix

package proc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Run runs a command with no input, in a new session and process group, and returns when it has
// ended. When it ends, whatever the reason, all that it started is killed, in the background
// too. On Linux that is every process of its session, and those that left it, which are known
// by a limit that they inherit; elsewhere it is the process group, and what moved to another
// gets away, as what timeout(1) starts and the jobs of an interactive shell. A process that
// escapes is reported, and its output is lost.
//
// If ctx ends first, all that gets SIGTERM, SIGKILL 50 ms later, and the error is the
// context's cause beside the result so far. A command that cannot be started is an
// error without a result; one that ends with a code or a signal is none. If another
// part of the program takes the exit status, the code is -1 and there is an error too.
//
// If the command takes more memory than it may, it is ended in the same way, and the
// error is a [*MemoryError]. The count covers the memory of all processes that the kernel
// cannot drop; shared memory counts once. It is looked at after a tenth of a second and then as
// often while the limit is near, so that a fast one gets beyond it.
//
// If this program is killed, the kernel kills the command's process group, on Linux:
// through the lifeline, a pipe that the command has open as number 51.
func Run(ctx context.Context, c *Command) (*Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var p process
	defer p.close()
	if err := p.start(c); err != nil {
		return nil, err
	}
	return p.supervise(ctx, cmp.Or(c.Output, io.Discard))
}

// process is a command that runs.
type process struct {
	cmd    *exec.Cmd
	out    *os.File // what it prints
	life   *lifeline
	kin    *kin
	exited *exitWaiter
	watch  *watch
}

func (p *process) start(c *Command) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	p.out = r
	if p.life, err = newLifeline(); err != nil {
		return err
	}
	p.exited = newExitWaiter()
	p.cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	p.cmd.Dir, p.cmd.Env, p.cmd.ExtraFiles = c.Dir, c.Env, c.extra(p.life.r, lastInherited())
	// One pipe for both keeps the order. Files, not writers, so that Wait does not
	// wait for whoever holds the pipe.
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.exited.prepare(p.cmd.SysProcAttr)
	if c.Start != nil {
		err = c.Start(p.cmd)
	} else {
		err = p.cmd.Start()
	}
	if err != nil {
		return err
	}
	p.kin = mark(p.cmd.Process.Pid, cmp.Or(c.Census, &Census{}))
	p.watch = newWatch(p.kin.look(c.Memory, c.Start != nil))
	p.life.tie(p.cmd.Process.Pid)
	return nil
}

func (p *process) close() {
	if p.out != nil {
		p.out.Close()
	}
	if p.life != nil {
		p.life.close()
	}
	if p.exited != nil {
		p.exited.close()
	}
}

// supervise passes output on until the command has ended.
func (p *process) supervise(ctx context.Context, w io.Writer) (*Result, error) {
	res, drained := &Result{}, make(chan struct{})
	go func() {
		defer close(drained)
		drain(p.out, w)
	}()
	exited, ours := make(chan struct{}), false
	go func() {
		defer close(exited)
		ours = p.exited.wait(p.cmd)
	}()
	err, patience := p.wait(ctx, exited), drainFor
	var cut <-chan struct{}
	if err != nil {
		patience = soon
		if _, ok := errors.AsType[*MemoryError](err); ok {
			patience, cut = freeFor, ctx.Done()
		}
		p.stop(exited)
		<-exited
	}
	// Where that can be had, before the process is reaped: until then its id, which is
	// the group's and the session's, cannot become that of another.
	if ours {
		killGroup(p.cmd.Process.Pid, syscall.SIGKILL)
		res.Survivors = p.kin.kill()
	}
	p.watch.stop()
	waitErr := reap(p.cmd)
	res.Held = !finish(p.out, w, drained, cut, patience)
	if _, ok := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && !ok {
		err = errors.Join(err, waitErr)
	}
	res.ended(p.cmd.ProcessState)
	return res, err
}

// wait returns when the command has exited, or with the context's cause, or when it takes
// too much memory. One that has exited by then was not ended for that.
func (p *process) wait(ctx context.Context, exited <-chan struct{}) (err error) {
	for err == nil {
		select {
		case <-exited:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-p.watch.due:
			p.watch.begin()
		case s := <-p.watch.seen:
			err = p.watch.end(s)
		}
	}
	select {
	case <-exited:
		return nil
	default:
		return err
	}
}

// stop ends the command and what it started: it may clean up, but not for long.
func (p *process) stop(exited <-chan struct{}) {
	killGroup(p.cmd.Process.Pid, syscall.SIGTERM)
	late := time.NewTimer(termFor)
	defer late.Stop()
	select {
	case <-exited:
		for len(p.kin.alive()) > 0 && pause(late.C) {
		}
	case <-late.C:
	}
	killGroup(p.cmd.Process.Pid, syscall.SIGKILL)
}

// pause waits a little, and reports false if it is late.
func pause(late <-chan time.Time) bool {
	select {
	case <-late:
		return false
	case <-time.After(2 * time.Millisecond):
		return true
	}
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

// finish waits for the rest of the output, until cut is closed at most, and reports whether
// its end was reached.
func finish(r *os.File, w io.Writer, drained, cut <-chan struct{}, patience time.Duration) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-drained:
	case <-cut:
	case <-late.C:
	}
	_ = r.SetReadDeadline(time.Now())
	<-drained
	return Rest(r, w)
}

// Rest passes on what is in a pipe by now, without waiting for more, and reports whether
// that was its end. It has to be right also if this program gets no time to run.
func Rest(r *os.File, w io.Writer) (end bool) {
	conn, err := r.SyscallConn()
	if err != nil {
		return false
	}
	_ = r.SetReadDeadline(time.Time{})
	buf := make([]byte, 4<<10)
	for total := 0; total <= maxPipe; {
		n, err := 0, error(nil)
		if conn.Read(func(fd uintptr) bool { n, err = syscall.Read(int(fd), buf); return true }) != nil {
			return false
		}
		switch {
		case err == syscall.EINTR:
		case n <= 0:
			return err == nil
		default:
			_, _ = w.Write(buf[:n])
			total += n
		}
	}
	return false
}

// maxPipe is more than what is in a pipe that nobody fills.
const maxPipe = 1 << 20

// killGroup signals a process and all in its group. A child that is being forked at
// this moment is in the group already; it gets the signal when it starts.
func killGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }
