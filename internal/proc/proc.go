// Package proc runs commands so that nothing of them is left when they end.
package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// drainFor is how long output is waited for after everything was killed. Only a
	// process that got away can hold the pipe open longer.
	drainFor = 200 * time.Millisecond
	// termFor is how long a command that is cancelled may take to clean up, as git does
	// with its lock files, between SIGTERM and SIGKILL.
	termFor = 50 * time.Millisecond
	// soon replaces drainFor after a cancel: all of it has to be over in 100 ms.
	soon = 20 * time.Millisecond
	// freeFor replaces it after too much memory. The kernel frees that before it closes
	// the files of a process that was killed: 8 GiB in half a second.
	freeFor = 2 * time.Second
)

// ErrUnsupported says that commands cannot be run on this system.
var ErrUnsupported = errors.New("running commands is not supported on this system")

// Command is what to run.
type Command struct {
	// Argv is the program, found in PATH or by its path, and its arguments.
	Argv []string
	// Dir is the working directory, Env the whole environment.
	Dir string
	Env []string
	// Files are open in the command under these numbers, from 3 to 50.
	Files map[int]*os.File
	// Output gets standard output and error in the order in which they were written, in
	// pieces of at most 32 KiB, and never after Run has returned. It must not block.
	Output io.Writer
	// Memory is how many bytes of memory the command may take with all that it started,
	// on Linux, see [Run]; a negative value means no limit. Default: a quarter of what the
	// machine or its control group has, but 2 GiB where that is at most three quarters.
	Memory int64
	// Census counts the commands that share it. Default: a separate one for each command.
	Census *Census
	// Start starts the command. Default: its method Start.
	Start func(*exec.Cmd) error
}

// lifelineFD is open in every command: see [Run].
const lifelineFD = 51

// Gate is what a script begins with that starts processes at once: it waits until they
// can be told from others. It is one line without end, silent where there is no gate.
const Gate = `{ read -r REPLY </dev/fd/51; unset REPLY; } 2>/dev/null; `

// Result is how a command ended.
type Result struct {
	// Code is the exit code, -1 if a signal ended the command; Signal is its name.
	Code   int
	Signal string
	// Survivors counts the processes of the command that could not be killed, as those
	// of another user. Held says that a process which was not found to be the command's
	// still held its output after the end.
	Survivors int
	Held      bool
}

// extra makes the list of open files for package exec, where the first is number 3. Package exec closes those up to last
// that are nil.
func (c *Command) extra(lifeline *os.File, last int) []*os.File {
	files := make([]*os.File, max(lifelineFD, last)-2)
	for n, f := range c.Files {
		files[n-3] = f
	}
	files[lifelineFD-3] = lifeline
	return files
}

// drain passes output on until its end.
func drain(r io.Reader, w io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}
