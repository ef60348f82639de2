package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/internal/proc"
)

// LocalExec returns the Exec that bash uses by default, which runs commands on this machine, with
// the sandbox and the limits of the options. It is for programs that run the commands of an agent
// on another machine, and for tests.
func LocalExec(opts ...Option) (Exec, error) {
	c, err := optioned(opts)
	if err != nil {
		return nil, err
	}
	return c.exec, nil
}

// LocalStart returns the function that starts a program which stays, such as a language server, in place of
// [exec.Cmd.Start]: in the sandbox of the options, as confined as a command of bash. With [WithProxy], the program has no
// network. Without a sandbox, it has the rights of this process. ctx is for the start alone. An [ErrSandbox] means that the
// program could not be confined as required. The function is safe for concurrent use. It is nil with [WithExec], since the
// commands then run elsewhere.
func LocalStart(opts ...Option) (func(ctx context.Context, cmd *exec.Cmd) error, error) {
	c, err := optioned(opts)
	if err != nil || c.local == nil {
		return nil, err
	}
	return c.local.start, nil
}

func (l *localExec) start(ctx context.Context, cmd *exec.Cmd) error {
	if !l.confined {
		return cmd.Start()
	}
	var call SandboxCall
	if l.proxy != nil { // nobody could be asked about a host
		call.Proxy = func(connections net.Listener) { connections.Close() }
	}
	_, err := l.confiner.start(ctx, cmd, call)
	return err
}

// localExec runs commands on this machine.
type localExec struct {
	census proc.Census
	// confiner is for all commands if there is a sandbox, else for those that only read.
	confiner *confiner
	confined bool
	temps    temps
	proxy    *egress.Proxy // of all commands but those that only read; nil for none
	memory   int64         // see [WithMemoryLimit]
}

// Run implements [Exec]. The script reaches the shell as an argument or through a pipe, so that
// nothing is written to a disk.
func (l *localExec) Run(ctx context.Context, c *ExecCommand) (*ExecResult, error) {
	shell, err := findShell()
	if err != nil {
		return nil, err
	}
	dir, err := inside(c.Root, c.Dir)
	if err != nil {
		return nil, err
	}
	s, err := newScript(shell, c.Script)
	if err != nil {
		return nil, fmt.Errorf("pass script to the shell: %w", err)
	}
	defer s.close()
	cmd := &proc.Command{
		Argv: s.argv, Dir: dir, Env: c.Env, Files: s.files, Output: c.Output,
		Memory: l.memory, Census: &l.census,
	}
	var report *SandboxReport
	var network *egress.Session
	run := c.run
	if c.ReadOnly {
		temp, err := l.temps.take()
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		defer func() { l.temps.give(temp, run) }()
		cmd.Start = l.confiner.starter(ctx, SandboxCall{ReadOnly: true, Temp: temp}, &report)
	} else if l.confined {
		call := SandboxCall{Network: c.Network}
		if l.proxy != nil {
			if call.Roots, err = l.proxy.Roots(); err != nil {
				return nil, err
			}
			network = l.proxy.Session(ctx, c.ask)
			defer network.Close()
			call.Network, call.Proxy = false, network.Serve
		}
		cmd.Start = l.confiner.starter(ctx, call, &report)
	}
	res, err := proc.Run(ctx, cmd)
	if res == nil {
		return nil, err
	}
	if res.Survivors > 0 || res.Held {
		run = "" // a survivor must not share a directory with a later command
	}
	out := &ExecResult{Code: res.Code, Signal: res.Signal, Dir: s.dir(), Survivors: res.Survivors,
		Held: res.Held}
	if report != nil {
		out.ReadOnly = c.ReadOnly && report.ReadOnly
	}
	if report != nil && !out.ReadOnly && res.Code != 0 {
		out.Notes = report.hints(c.ReadOnly)
	}
	if network != nil {
		for _, d := range network.Denied() {
			out.Notes = append(out.Notes, "network: "+d.Error())
		}
	}
	return out, err
}

// Environ implements [RemoteExec] for a program that runs commands for another machine.
func (l *localExec) Environ() []string { return inherited(os.Environ()) }

// findShell returns bash or sh.
func findShell() (string, error) {
	if runtime.GOOS == "windows" {
		return "", problemf("cannot_run", "%v; use the other tools", proc.ErrUnsupported)
	}
	for _, name := range []string{"bash", "sh", "/bin/bash", "/bin/sh"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", problemf("cannot_run", "there is no shell on this machine; use the other tools")
}

// inside returns the path of a directory with its links resolved, if it lies in root.
func inside(root, dir string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fmt.Errorf("%w: %v", ErrExecDir, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("%w: %v", ErrExecDir, err)
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return "", ErrExecDir
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", ErrExecDir
	}
	return dir, nil
}

// The prelude for the shell is one line, so that line numbers in error messages are those
// of the script. The trap reports the directory at the end, also after exit. If a script
// sets its own trap, the directory is reported after the last command instead. None of
// this shows up under set -x.
const (
	tellDir  = `{ set +x; pwd -P; printf "\0"; } >/dev/fd/50 2>/dev/null`
	prologue = proc.Gate + `trap '` + tellDir + `' EXIT; `
	epilogue = `; { set -- "$?"; set +x; } 2>/dev/null; ` + tellDir + `; exit "$1"`

	shortScript = prologue + `eval "set --; $1"` + epilogue
	longScript  = prologue + `REPLY=$(cat <&3) || exit; exec 3<&-; eval "unset REPLY; set --; $REPLY"` + epilogue

	maxArgument = 100 << 10 // bytes; the limit of Linux is 128 KiB (execve(2), MAX_ARG_STRLEN)
)

// handover passes a script to a shell.
type handover struct {
	argv    []string
	files   map[int]*os.File
	open    []*os.File
	told    *os.File // the shell writes its directory here
	writing sync.WaitGroup
}

// newScript passes a script to a shell as an argument or, if it is too long for one,
// through a pipe. Either way standard input stays free and nothing is written to a disk.
func newScript(shell, text string) (*handover, error) {
	s := &handover{argv: []string{shell, "-c", shortScript, "bash", text}}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.told, s.files, s.open = r, map[int]*os.File{50: w}, []*os.File{w}
	if len(text) <= maxArgument {
		return s, nil
	}
	in, out, err := os.Pipe()
	if err != nil {
		s.close()
		return nil, err
	}
	s.argv = []string{shell, "-c", longScript, "bash"}
	s.files[3], s.open = in, append(s.open, in)
	s.writing.Go(func() { // returns when the shell has read everything, or when close closes in
		defer out.Close()
		_, _ = io.WriteString(out, text)
	})
	return s, nil
}

// dir returns the last directory that the shell reported, once it has ended.
func (s *handover) dir() string {
	s.closeOpen()
	var b bytes.Buffer
	proc.Rest(s.told, &b)
	return lastDir(b.Bytes())
}

// lastDir returns the last directory that the shell reported, or "". Each ends with a
// line break and NUL, since the script can write to the same pipe.
func lastDir(told []byte) string {
	told = told[:bytes.LastIndexByte(told, 0)+1]
	told = bytes.TrimSuffix(told, []byte("\n\x00"))
	dir := string(told[bytes.LastIndexByte(told, 0)+1:])
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// closeOpen closes the ends of the pipes that the shell has inherited.
func (s *handover) closeOpen() {
	for _, f := range s.open {
		f.Close()
	}
	s.open = nil
}

// close ends the handover, also if the shell did not read all of it.
func (s *handover) close() {
	s.closeOpen()
	s.told.Close()
	s.writing.Wait()
}
