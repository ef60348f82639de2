package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/proc"
)

const (
	defaultTimeout = 120 // seconds
	maxTimeout     = 600
	maxCommand     = 1 << 20    // bytes
	maxArgument    = 100 * 1024 // bytes that are given to the shell as an argument
	maxOutput      = 100_000    // bytes
)

const bashDescription = `Run a command with bash, or sh where there is no bash, in the folder of
the workspace. Each call starts anew: cd and variables do not stay. There is no input and no
terminal. Standard output and error come together, at most 100 kB: the beginning and the end. A
command that exits with a code other than 0 is not an error of the tool; the code is in the last
line. After the timeout (120 seconds, at most 600), and when the command ends, everything that
it started is killed, also in the background.`

type bashArgs struct {
	Command     string `json:"command" jsonschema_description:"The command, or a script of several lines."`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"minimum=0" jsonschema_description:"Seconds after which the command is killed, at most 600. Default: 120."`
	Description string `json:"description,omitempty" jsonschema_description:"What the command does, in a few words, for the user."`
}

// Bash returns bash, which runs shell commands in the folder of the workspace, with
// an environment from which secrets were left out. What a command prints is
// reported as progress. Cancelling kills the command and all that it started,
// except what moved into a session of its own, and on systems other than Linux also
// what moved into a process group of its own.
//
// On Windows every call is an error result: without process groups the tool could
// not keep its promise to leave nothing behind.
func Bash(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	b := &basher{dir: ws.Dir(), env: c.env}
	return aycoder.NewTool("bash", bashDescription, guard(b.run),
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithHints(true, true),
		aycoder.WithSubject(aycoder.SubjectCommand, "command"))
}

type basher struct {
	dir string
	env []string
}

func (b *basher) run(ctx context.Context, inv *invocation, in bashArgs) (*result, error) {
	switch {
	case strings.TrimSpace(in.Command) == "":
		return nil, problemf("invalid_arguments", "command is empty")
	case len(in.Command) > maxCommand:
		return nil, problemf("command_too_long", "the command has %d bytes, at most %d are run; "+
			"write a script with edit_file and run that", len(in.Command), maxCommand)
	case in.Timeout < 0:
		return nil, problemf("invalid_arguments", "timeout must not be negative")
	}
	shell, err := findShell()
	if err != nil {
		return nil, err
	}
	cmd := &proc.Command{Dir: b.dir, Env: environ(os.Environ(), b.env), Limit: maxOutput}
	cmd.Line = func(line string, total int64) {
		inv.Progress(aycoder.Progress{Current: total, Message: line})
	}
	seconds := min(in.Timeout, maxTimeout)
	if seconds == 0 {
		seconds = defaultTimeout
	}
	cmd.Timeout = time.Duration(seconds) * time.Second
	done, err := script(cmd, shell, in.Command)
	if err != nil {
		return nil, err
	}
	defer done()
	start := time.Now()
	res, err := proc.Run(ctx, cmd)
	if res == nil {
		if errors.Is(err, proc.ErrUnsupported) || ctx.Err() == nil {
			return nil, problemf("cannot_run", "%v", err)
		}
		return nil, err
	}
	if err != nil && ctx.Err() == nil {
		return nil, problemf("io", "how the command ended is not known: %v", err)
	}
	return outcome(ctx, res, time.Since(start)), nil
}

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

// script gives a command to the shell: as an argument, or if it is too long for one
// (Linux takes 128 KiB) as a file without a name, so that input stays free.
func script(cmd *proc.Command, shell, text string) (done func(), err error) {
	if len(text) <= maxArgument {
		cmd.Argv = []string{shell, "-c", text}
		return func() {}, nil
	}
	f, err := os.CreateTemp("", "aycoder-*.sh") // only this user may read it
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, fmt.Errorf("write script: %w", err)
	}
	cmd.Files = []*os.File{f}
	cmd.Argv = []string{shell, "/dev/fd/3"}
	return func() { f.Close() }, nil
}

// outcome tells how a command ended.
func outcome(ctx context.Context, res *proc.Result, took time.Duration) *result {
	text, odd := res.Output.Text()
	if text == "" {
		text = "[no output]\n"
	}
	var b strings.Builder
	b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	if odd {
		b.WriteString("[bytes that are no text are shown as ?]\n")
	}
	if res.Held {
		b.WriteString("[a process that left the command's session still runs; its output is lost]\n")
	}
	summary := fmt.Sprintf("exit %d", res.Code)
	switch {
	case ctx.Err() != nil:
		summary = "cancelled"
	case res.TimedOut:
		summary = fmt.Sprintf("timed out after %s", took.Round(time.Second/10))
	case res.Signal != "":
		summary = "killed by signal: " + res.Signal
	}
	fmt.Fprintf(&b, "[%s]\n", summary)
	r := textResult(b.String(), summary)
	r.IsError = ctx.Err() != nil || res.TimedOut
	return r
}
