package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	defaultTimeout = 120 // seconds
	maxTimeout     = 600
	maxCommand     = 1 << 20 // bytes
	maxOutput      = 30_000  // bytes, about 8,000 tokens
)

const bashDescription = `Run a command with bash, or with sh where bash is missing. The first
command runs in the directory of the workspace, each later one in the directory where the one before
it ended; variables are not kept. There is no input and no terminal. Standard output and error are
returned together, at most 30 kB: the beginning and the end. A nonzero exit code is not an error of
the tool; the code is in the last line. After the timeout (120 seconds, at most 600), and when the
command ends, all processes that it started are killed, including those in the background. For a
server or a watcher set background: the command then continues after the call, without a timeout
unless one is given, until job_stop or the end of the run; job_output returns its output.`

// bashInGroup replaces the end of the description if the commands live as long as a group of the host.
const bashInGroup = `until job_stop or the end of the session; a message tells when it has ended, and
job_output returns its output.`

type bashArgs struct {
	Command     string `json:"command" jsonschema_description:"The command, or a script of several lines."`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"minimum=0" jsonschema_description:"Seconds after which the command is killed, at most 600. Default: 120."`
	WorkingDir  string `json:"working_dir,omitempty" jsonschema_description:"Directory to run this one command in, relative to the workspace. Default: where the last command ended."`
	Network     bool   `json:"network,omitempty" jsonschema_description:"The command needs the network, for a download or an install: in a sandbox there is none otherwise."`
	Background  bool   `json:"background,omitempty" jsonschema_description:"Return at once with an id for job_output and job_stop, and let the command run."`
	Request     bool   `json:"request_approval,omitempty" jsonschema_description:"Have the user asked to let this command do more than read. Only if a result said that the command was held to reading, and it needs more."`
	Description string `json:"description,omitempty" jsonschema_description:"What the command does, in a few words, for the user."`
}

// check refuses arguments that the schema cannot.
func (in *bashArgs) check() error {
	switch {
	case strings.TrimSpace(in.Command) == "":
		return problemf("invalid_arguments", "command is empty")
	case len(in.Command) > maxCommand:
		return problemf("command_too_long", "the command has %d bytes, at most %d are run; "+
			"write a script with edit_file and run that", len(in.Command), maxCommand)
	case in.Timeout < 0:
		return problemf("invalid_arguments", "timeout must not be negative")
	}
	return nil
}

// Bash returns the tool bash, which runs shell commands in the workspace. Secrets are removed
// from the environment of the commands. The tool reports the output of a command as progress
// while the command runs. The tool is an [aycoder.Previewer]: the preview shows the directory, so
// that an approval applies to that directory only.
//
// The result of a command is not an error result, whatever its exit status. The model reads the
// status, and the Summary of the result contains it, for example "exit 1".
//
// When a command ends, is cancelled or times out, the tool kills all processes that the command
// started. On Linux it finds all descendants, even detached ones, except a process that changed
// its resource limits or its user. On other systems it finds the members of the process group.
// The result reports processes that could not be killed. Background commands end with the run, or
// with the group of [WithBackground]. On Linux they also end if the host process is killed.
//
// On Linux the tool kills a command that takes too much memory: see [WithMemoryLimit].
//
// Some calls run without approval, because the [aycoder.Approver] considers them read-only. The
// tool confines the command of such a call to reading, even without [WithSandbox]. [SandboxCall]
// describes the confinement, and [NoSandbox] lists the systems that support it. If a confined
// command fails, the result describes the confinement to the model. The result also tells the
// model that it can repeat the call with the argument request_approval, to ask the user for more
// rights.
//
// If a confined command fails, the audit log gets an event "held_to_reading" for each output line
// that reports a refusal, such as "Permission denied", but at most for the last three of these
// lines. If commands cannot be confined to reading, or only in part, the log
// gets one event "not_held_to_reading".
//
// The model gets at most 30 kB of the output of a call. The tool keeps no more of it, unless the host
// keeps the rest (see [aycoder.WithWholeOutputs]), and at most 512 kB of the output of a background
// command. At most 16 background commands run at a time, unless the group has another limit.
//
// On Windows every call is an error result: without process groups, the tool could not ensure
// that no processes remain.
func Bash(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	if c.proxy != nil && !c.confined {
		return nil, errors.New("new tool: WithProxy needs WithSandbox for bash: without one, commands reach everything")
	}
	b := &basher{ws: ws, env: c.env, environ: c.environ, exec: c.exec, shell: c.shell, jobs: c.jobs}
	description := bashDescription
	if c.jobs != c.shell.group() {
		before, _, _ := strings.Cut(description, "until job_stop")
		description = before + bashInGroup
	}
	t, err := aycoder.NewTool("bash", description, guard(b.run),
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithHints(true, true),
		aycoder.WithSubject(aycoder.SubjectCommand, "command"))
	if err != nil {
		return nil, err
	}
	return &bashTool{t, b}, nil
}

// basher runs the commands of one tool. The working directory is in the Shell.
type basher struct {
	ws      FS
	env     []string
	environ func() []string
	exec    Exec
	shell   *Shell
	jobs    *background.Group

	unheld sync.Once // logs once that commands are not confined to reading
}

// bashTool adds a preview to the tool. The preview shows the directory, because the same command
// can do harm in another directory.
type bashTool struct {
	aycoder.Tool
	b *basher
}

// Preview implements [aycoder.Previewer]. It returns the directory and the command.
func (t *bashTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	var in bashArgs
	if err := json.Unmarshal(inv.Args, &in); err != nil {
		return "", err
	}
	dir, err := t.b.where(inv, &in)
	if err != nil {
		return "", err
	}
	place, gap := "in "+showPath(dir), " "
	if in.Background {
		place += ", in the background"
	}
	if in.Network {
		place += ", with the network"
	}
	if in.Request {
		place += ", not held to reading"
	}
	if strings.Contains(in.Command, "\n") {
		gap = "\n"
	}
	return place + ":" + gap + in.Command, nil
}

// where returns the directory of a call, relative to that of the workspace.
func (b *basher) where(inv *invocation, in *bashArgs) (string, error) {
	if in.WorkingDir == "" {
		return b.shell.dir(inv), nil
	}
	return b.ws.Rel(in.WorkingDir)
}

// run runs a command, and waits for it unless it is to go on in the background.
func (b *basher) run(ctx context.Context, inv *invocation, in bashArgs) (*result, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	dir, err := b.where(inv, &in)
	if err != nil {
		return nil, err
	}
	if in.WorkingDir != "" {
		if _, err := b.ws.ReadDir(ctx, dir); err != nil {
			return nil, err
		}
	}
	root, full := locate(b.ws, dir)
	if root == "" { // a shell may stand in a directory that the workspace had earlier
		return nil, b.refused(ctx, inv, nil, ErrExecDir, &in)
	}
	c := &ExecCommand{
		Script: in.Command, Root: root, Dir: full,
		Env: environ(b.environ(), os.Environ(), b.env), Network: in.Network && !inv.ReadOnly, ReadOnly: inv.ReadOnly, run: inv.Run,
		ask: askNetwork(inv, in.Command),
	}
	if inv.ReadOnly { // git would ask the server of a partial clone for what is missing
		c.Env = append(c.Env, "GIT_NO_LAZY_FETCH=1")
	}
	c.Approved = c.Digest() // before a middleware could change what the call says
	if l, ok := b.exec.(*localExec); ok && inv.ReadOnly {
		l.temps.begin(inv)
	}
	if in.Background {
		return b.background(ctx, inv, c, &in)
	}
	return b.looking(ctx, dir, in.Command, func() (*result, error) { return b.foreground(ctx, inv, c, &in) })
}

var errTimeout = errors.New("timeout")

// foreground runs a command and waits for its end.
func (b *basher) foreground(
	ctx context.Context, inv *invocation, c *ExecCommand, in *bashArgs,
) (*result, error) {
	limit := time.Duration(min(cmp.Or(in.Timeout, defaultTimeout), maxTimeout)) * time.Second
	work, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	out := proc.NewOutput(max(maxOutput, inv.Whole))
	lines := proc.NewLines(func(line string, total int64) {
		inv.Progress(aycoder.Progress{Current: total, Message: line})
	})
	sink := &sink{w: io.MultiWriter(out, lines)}
	c.Output = sink
	start := time.Now()
	res, err := b.exec.Run(work, c)
	sink.close()
	e := ending{res: res, took: time.Since(start), cancelled: err != nil && ctx.Err() != nil}
	if err != nil && !e.cancelled {
		e.memory, _ = errors.AsType[*proc.MemoryError](err)
		e.timedOut = e.memory == nil && errors.Is(context.Cause(work), errTimeout)
	}
	if res != nil && e.stopped() {
		err = nil
	}
	if err != nil || res == nil {
		err = b.refused(ctx, inv, res, err, in)
	}
	if err != nil {
		return nil, err
	}
	e.note = b.follow(&e, c, inv, in)
	b.alert(&e, c, inv, out)
	return e.result(out, path.Clean(b.shell.dir(inv))), nil
}

var errNoResult = errors.New("there is neither a result nor an error")

// refused returns the error for a command that did not run, and says what the model can
// do about it.
func (b *basher) refused(
	ctx context.Context, inv *invocation, res *ExecResult, err error, in *bashArgs,
) error {
	switch {
	case res == nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrExecDir) && in.WorkingDir == "":
		b.shell.setDir(inv, "")
		return problemf("not_found", "the directory in which the last command ended is gone, or not in the workspace "+
			"any more; the next command runs in the directory of the workspace")
	case errors.Is(err, ErrExecDir):
		return problemf("outside_workspace", "working_dir: %v", err)
	case kindOf(err) != "":
		return err
	case res != nil:
		return problemf("io", "how the command ended is not known: %v", err)
	}
	if _, ok := errors.AsType[*problem](err); ok {
		return err
	}
	return problemf("cannot_run", "the command was not started: %v", cmp.Or(err, errNoResult))
}

// follow moves the shell to the directory in which a command has ended, if the command began in
// another one. It returns a note for the result. The shell stays where it is after a stopped
// command, whose last directory is uncertain, and after a command with the argument working_dir,
// which is for that command only.
func (b *basher) follow(e *ending, c *ExecCommand, inv *invocation, in *bashArgs) string {
	if e.stopped() || in.WorkingDir != "" {
		return ""
	}
	if e.res.Dir == "" {
		if !moves().MatchString(in.Command) {
			return ""
		}
		return "[the shell did not tell its directory at the end; the next command runs in " + showPath(b.shell.dir(inv)) + "]\n"
	}
	rel, err := b.ws.Rel(e.res.Dir)
	if err != nil {
		b.shell.setDir(inv, "")
		return "[the command ended outside the workspace; the next one runs in the directory of the workspace]\n"
	}
	if from, err := b.ws.Rel(c.Dir); err == nil && rel != from {
		b.shell.setDir(inv, rel)
	}
	return ""
}

// moves matches commands that change the directory of a shell.
var moves = late.Regexp(`\b(cd|pushd|popd)\b`)

// sink forwards writes until it is closed. It protects the result from an [Exec] that
// writes after Run has returned.
type sink struct {
	mu sync.Mutex
	w  io.Writer // nil when closed
}

// Write forwards output until the [Exec] has returned from Run. After that, Write returns an
// error, so that a program which is still writing ends.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return 0, fs.ErrClosed
	}
	return s.w.Write(p)
}

// close detaches the writer, so that later writes fail and cannot change the result.
func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = nil
}

// ending describes how a command ended.
type ending struct {
	res                 *ExecResult
	took                time.Duration
	cancelled, timedOut bool
	memory              *proc.MemoryError // nil unless the memory limit was exceeded
	note                string
}

// stopped reports whether the command was stopped by the tool.
func (e *ending) stopped() bool { return e.cancelled || e.timedOut || e.memory != nil }

// summary describes the ending in a few words.
func (e *ending) summary() string {
	switch {
	case e.cancelled:
		return "cancelled"
	case e.timedOut:
		return fmt.Sprintf("timed out after %s", e.took.Round(time.Second/10))
	case e.memory != nil:
		return memoryState(e.memory)
	case e.res.Signal != "":
		return "killed by signal: " + printable(e.res.Signal)
	}
	return fmt.Sprintf("exit %d", e.res.Code)
}

// result returns the result for the model. The text of an error begins with advice,
// because the output behind it may be long.
func (e *ending) result(out *proc.Output, dir string) *result {
	var b strings.Builder
	switch {
	case e.cancelled:
		b.WriteString("cancelled: the command was stopped. Its output:\n")
	case e.timedOut:
		fmt.Fprintf(&b, "timeout: the command was killed after %s; give it a longer timeout (at most %d seconds), "+
			"or run it with background. Its output:\n", e.took.Round(time.Second/10), maxTimeout)
	case e.memory != nil:
		b.WriteString(memoryAdvice(e.memory) + ". Its output:\n")
	}
	begin := b.Len()
	writeOutput(&b, out)
	end := b.Len()
	e.writeNotes(&b)
	place := ""
	if dir != "." {
		place = ", in " + showPath(dir)
	}
	fmt.Fprintf(&b, "[%s%s]\n", e.summary(), place)
	r := textResult(b.String(), e.summary())
	showEnds(r, begin, end, maxOutput/2, maxOutput/2)
	if e.heldBack() {
		r.Summary += ", held to reading"
	}
	r.IsError = e.stopped()
	return r
}

// writeOutput writes the output of a command.
func writeOutput(b *strings.Builder, out *proc.Output) {
	if out.Total() == 0 {
		b.WriteString("[no output]\n")
		return
	}
	writeText(b, out)
	if out.Cut() {
		b.WriteString("[to see what was omitted, run it again with | grep or | tail, or with > and a file and read that]\n")
	}
}

// writeText adds the output as text that a model can read.
func writeText(b *strings.Builder, out *proc.Output) {
	text, odd := out.Text()
	b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	if odd {
		b.WriteString("[bytes that are not text are shown as ?]\n")
	}
}

// writeNotes adds what the output does not show: processes that were left, and what the
// sandbox kept the command from.
func (e *ending) writeNotes(b *strings.Builder) {
	switch {
	case e.res.Survivors > 0:
		fmt.Fprintf(b, "[%s could not be ended and still run]\n",
			plural(e.res.Survivors, "process"))
	case e.res.Held:
		b.WriteString("[a process that left the command's session still runs; its output is lost]\n")
	}
	for _, n := range e.res.Notes[:min(len(e.res.Notes), maxNotes)] {
		note, _ := proc.Clean([]byte(runes.Shorten(n, 1000)))
		b.WriteString("[" + note + "]\n")
	}
	e.writeHeld(b)
	b.WriteString(e.note)
}

const maxNotes = 10
