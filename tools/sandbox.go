package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/aycoder/aycoder/internal/sandbox"
)

// Sandbox starts commands so that they can do less than the host. Those of this package
// are [Landlock], [Bubblewrap] and [Seatbelt]; [FirstSandbox] takes the first that works.
// A host may have its own.
//
// There is one method, which starts the command itself: a sandbox may have to do so on a
// thread of its own, and what is enforced is known only then. It takes the place of
// [exec.Cmd.Start] and returns what is enforced for this command. If call asks for more
// than the sandbox can do, or if anything goes wrong, nothing was started. It may change
// the command's path, arguments, environment and extra files, must leave its process
// group and session alone, and is safe for concurrent use. The end of ctx stops what
// happens before the start, not the command.
type Sandbox interface {
	Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error)
}

// SandboxCall is what one command may do or needs, beyond what holds for the sandbox.
type SandboxCall struct {
	// Network lets the command use the network. Default: as the sandbox says.
	Network bool
	// Require refuses to start the command unless all that the sandbox is for can be
	// enforced. Default: what can be is, and the report says what cannot.
	Require bool
	// ReadOnly says that nobody approved the command: it runs because it only reads, see
	// [aycoder.Invocation], and the sandbox holds it to that. The command looks at what
	// the sandbox lets commands look at or change. It changes nothing but /dev/null and
	// Temp: no file, no mode, owner, time or attribute of one. It has no network, no
	// sockets of others, and no way to other processes.
	//
	// A sandbox that holds a command to that says so in its report. One whose reports do
	// not is not used for such commands where this machine has a way to hold them, see
	// [NoSandbox]: they are not run, and the result says why.
	ReadOnly bool
	// Temp is a directory for the temporary files of this command alone, if it only
	// reads: TMPDIR is to name it. Whoever starts the command makes and removes it.
	Temp string
}

// SandboxReport says what is enforced for a command.
type SandboxReport struct {
	// Mechanism is "landlock", "bwrap", "seatbelt", "none", or the name of a host's own;
	// ABI is the version of Landlock's interface, 0 for others.
	Mechanism string `json:"mechanism"`
	ABI       int    `json:"abi,omitempty"`
	// Filesystem says that the command can read and change only what it was allowed to,
	// Network that it has no network, Signals that it cannot signal programs outside,
	// Syscalls that its system calls are filtered, Capabilities that it has none, and
	// NoNewPrivs that it cannot gain privileges, as by sudo. Limits says what a command
	// can do to files all the same.
	Filesystem   bool `json:"filesystem"`
	Network      bool `json:"network"`
	Signals      bool `json:"signals"`
	Syscalls     bool `json:"syscalls"`
	Capabilities bool `json:"capabilities"`
	NoNewPrivs   bool `json:"no_new_privs"`
	// ReadOnly says that this command was held to reading, as SandboxCall.ReadOnly asks.
	ReadOnly bool `json:"read_only"`
	// Missing says in words what was asked for and is not enforced on this machine,
	// Limits what the mechanism is not able to do anywhere.
	Missing []string `json:"missing,omitempty"`
	Limits  []string `json:"limits,omitempty"`
}

// String says in one line what is enforced and what is not.
func (r *SandboxReport) String() string {
	var does []string
	for _, p := range []struct {
		is   bool
		name string
	}{
		{r.Filesystem, "files"}, {r.Network, "no network"}, {r.Signals, "signals"}, {r.Syscalls, "system calls"},
		{r.Capabilities, "capabilities"}, {r.NoNewPrivs, "no new privileges"}, {r.ReadOnly, "only reading"},
	} {
		if p.is {
			does = append(does, p.name)
		}
	}
	text := r.Mechanism
	if r.ABI > 0 {
		text += " " + strconv.Itoa(r.ABI)
	}
	if len(does) > 0 {
		text += ": " + strings.Join(does, ", ")
	}
	if len(r.Missing) > 0 {
		text += "; not enforced: " + strings.Join(r.Missing, "; ")
	}
	return text
}

// ErrSandbox is what all errors of a sandbox are: a command was not started because it
// could not be confined as it has to be.
var ErrSandbox = errors.New("the command was not started")

// SandboxError says which step of confining a command went wrong. Find it by
// errors.AsType[*SandboxError](err). It unwraps to [ErrSandbox] and to the cause, which
// is [errors.ErrUnsupported] where the system has no such mechanism.
type SandboxError struct {
	Mechanism, Step string
	Err             error
}

// Error returns the mechanism, the step and the cause.
func (e *SandboxError) Error() string {
	return fmt.Sprintf("sandbox by %s: %s: %v", e.Mechanism, e.Step, e.Err)
}

// Unwrap returns [ErrSandbox] and the cause.
func (e *SandboxError) Unwrap() []error { return []error{ErrSandbox, e.Err} }

// LocalSandbox is a sandbox by a mechanism of this machine. It is safe for concurrent
// use.
//
// Before the first command, and before the first with the network, a trial command tries
// to read and change a file outside and to signal the host. If it can, no command is
// started. Commands have a folder for temporary files, which TMPDIR names; it is kept
// until Close, so that a command finds what the one before has left.
type LocalSandbox struct{ box *sandbox.Box }

// Start starts a command in the sandbox.
func (s *LocalSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	return startIn(ctx, s.box, cmd, call)
}

func startIn(ctx context.Context, box *sandbox.Box, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	r, err := box.Start(ctx, cmd, sandbox.Call(call))
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return nil, &SandboxError{e.Mechanism, e.Step, e.Err}
	}
	if err != nil {
		return nil, err
	}
	return &SandboxReport{
		r.Mechanism, r.ABI, r.Filesystem, r.Network, r.Signals, r.Syscalls, r.Capabilities, r.NoNewPrivs,
		r.ReadOnly, r.Missing, r.Limits,
	}, nil
}

// Close removes the temporary files of the commands, which should have ended. After it
// no command starts.
func (s *LocalSandbox) Close() error { return s.box.Close() }

// Landlock returns a sandbox for Linux 5.13 and newer; since 6.12 it enforces all that is
// asked for. It needs no privileges and no helper program: a thread of the host gives up
// what the command must not have, starts it, and ends within a second, or with Close: that
// long it starts more commands. The host itself is not changed.
//
// Commands can read and run what is in the folders of the system, in the workspace, and
// where languages and packages are installed in the home folder, but nothing else there.
// They can change the workspace, the repository in it too, their own folder for temporary
// files, and the caches of builds. They have no network, also none within the machine,
// no UNIX sockets but pairs, no capabilities, cannot trace other processes, and see only
// their own in signals. Options change this.
//
// Not all can be had this way; SandboxReport.Limits says what. [Bubblewrap] does more, in
// four times the time.
//
// If the host runs as root, so do the commands, but without the privileges: files of
// other users are to them what they are to any user.
func Landlock(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Landlock, ws, opts)
}

// Bubblewrap returns a sandbox by the program bwrap, which has to be installed and
// allowed to make namespaces. Commands see only their own files and processes, and have a
// network of their own without a way out, a /tmp and shared memory that nobody else sees,
// and UNIX sockets. Otherwise they can do what those of [Landlock] can.
func Bubblewrap(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Bubblewrap, ws, opts)
}

// Seatbelt returns a sandbox by sandbox-exec, for macOS. It has been written after the
// documentation and was never tried, and its reports say so.
func Seatbelt(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Seatbelt, ws, opts)
}

func newSandbox(box func(sandbox.Policy) *sandbox.Box, ws FS, opts []SandboxOption) (*LocalSandbox, error) {
	if ws == nil {
		return nil, errors.New("new sandbox: workspace is nil")
	}
	c := sandboxConfig{dir: ws.Dir(), shared: true}
	for _, opt := range opts {
		if err := opt(&c); err != nil {
			return nil, fmt.Errorf("new sandbox: %w", err)
		}
	}
	p := sandbox.Defaults(c.dir, sandbox.ThisHost(), c.shared)
	p.Read, p.Write = append(p.Read, c.read...), append(p.Write, c.write...)
	p.Protect, p.Network, p.Sockets, p.Debug = c.protect, c.network, c.sockets, c.debug
	return &LocalSandbox{box(p)}, nil
}

// SandboxOption sets a property of a sandbox.
type SandboxOption func(*sandboxConfig) error

type sandboxConfig struct {
	dir                             string
	read, write, protect            []string
	network, sockets, debug, shared bool
}

// SandboxRead lets commands read and run what is in more files and folders, which must
// exist. Paths add up. Default: see [Landlock].
func SandboxRead(paths ...string) SandboxOption {
	return func(c *sandboxConfig) error { return addPaths(&c.read, "SandboxRead", paths) }
}

// SandboxWrite lets commands change more files and folders, which must exist. Paths add
// up. /dev/shm is one that some programs want, such as Python's multiprocessing, and /tmp
// another; both are shared with other programs. Default: see [Landlock].
func SandboxWrite(paths ...string) SandboxOption {
	return func(c *sandboxConfig) error { return addPaths(&c.write, "SandboxWrite", paths) }
}

func addPaths(to *[]string, option string, paths []string) error {
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
		*to = append(*to, abs)
	}
	return nil
}

// SandboxProtect keeps commands from changing files and folders of the workspace, named
// by paths in it, such as ".git" or ".git/hooks". Names add up. Landlock can only add
// rights in a folder, never take some away: with it, commands cannot make, rename or
// remove entries in the folders around a protected one either, so ".git" keeps them from
// that in the workspace's own folder, and ".git/hooks" keeps git from a commit.
// Default: nothing is protected, so that a command can commit.
func SandboxProtect(names ...string) SandboxOption {
	return func(c *sandboxConfig) error {
		for _, name := range names {
			if !filepath.IsLocal(name) {
				return fmt.Errorf("SandboxProtect: not a path in the workspace: %q", name)
			}
			c.protect = append(c.protect, filepath.Join(c.dir, name))
		}
		return nil
	}
}

// SandboxNetwork lets all commands use the network. Default: false; see
// SandboxCall.Network for one command.
func SandboxNetwork(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.network = on
		return nil
	}
}

// SandboxSockets lets commands of [Landlock] use UNIX sockets also where the kernel
// cannot keep them from those of other programs, which is before Linux 7.1: a session bus
// or a container engine runs commands for whoever connects to it. Default: false.
func SandboxSockets(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.sockets = on
		return nil
	}
}

// SandboxDebuggers lets commands trace each other, which debuggers do, and programs that
// look for leaks in themselves. Default: false.
func SandboxDebuggers(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.debug = on
		return nil
	}
}

// SandboxSharedCaches lets commands change the user's caches of builds, and those that
// have the network the caches of packages. Without that they start with empty ones of
// their own, which is slow; with it, a command could leave something there that a later
// build of the user takes over. Default: true.
func SandboxSharedCaches(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.shared = on
		return nil
	}
}

// NoSandbox starts commands as they are, and so does bash without [WithSandbox]. Its
// reports say that nothing is enforced, and it refuses calls that require more.
//
// Commands that only read are held to that by it too: with SandboxCall.ReadOnly they can
// still look at all that the host can, and change nothing. That takes Landlock, on Linux
// 6.2 and newer, or sandbox-exec, on macOS, with a profile that nobody has tried yet.
// Elsewhere they start as they are: that they were taken to only read is all there is.
// The report says which it is, and [CheckSandbox] asks for it up front:
//
//	report, err := tools.CheckSandbox(ctx, tools.NoSandbox(), tools.SandboxCall{ReadOnly: true})
//	…
//	if !report.ReadOnly {
//		log.Print(report)
//	}
func NoSandbox() Sandbox { return &noSandbox{sandbox.Reader()} }

type noSandbox struct{ reader *sandbox.Box }

// Start starts the command.
func (s *noSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	r := &SandboxReport{Mechanism: "none", Missing: []string{"commands can do all that the host can"}}
	if call.Require {
		return nil, &SandboxError{r.Mechanism, "require", sandbox.ErrIncomplete}
	}
	if call.ReadOnly {
		held, err := startIn(ctx, s.reader, cmd, call)
		if e, ok := errors.AsType[*SandboxError](err); !ok || !isAbsent(e) {
			return held, err
		}
		r.Missing = append(r.Missing, fmt.Sprintf("commands that only read are not held to that: %v", err))
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

// isAbsent reports whether a sandbox was not found on this machine, and did not just
// fail. One that nobody has tried may fail where it is found.
func isAbsent(e *SandboxError) bool { return e.Step == sandbox.StepLook || runtime.GOOS == "darwin" }

// FirstSandbox returns a sandbox that asks others in turn, until one does not refuse with
// an [ErrSandbox]. If all refuse, the error has the reason of each.
func FirstSandbox(list ...Sandbox) Sandbox { return firstSandbox(list) }

type firstSandbox []Sandbox

// Start starts the command in the first sandbox that can.
func (f firstSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	errs := []error{ErrSandbox}
	before := *cmd // without what a sandbox did to it that then refused
	for _, s := range f {
		r, err := s.Start(ctx, cmd, call)
		if err == nil || !errors.Is(err, ErrSandbox) {
			return r, err
		}
		errs = append(errs, err)
		cmd.Path, cmd.Args, cmd.Env, cmd.ExtraFiles = before.Path, before.Args, before.Env, before.ExtraFiles
	}
	return nil, errors.Join(errs...)
}

// Close closes those of the sandboxes that can be closed.
func (f firstSandbox) Close() error {
	var errs []error
	for _, s := range f {
		if c, ok := s.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// CheckSandbox says what a sandbox enforces for a call, by starting a command in it that
// does nothing. A host can show that to its user, or refuse to go on.
func CheckSandbox(ctx context.Context, s Sandbox, call SandboxCall) (*SandboxReport, error) {
	shell, err := findShell()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, shell, "-c", ":")
	r, err := s.Start(ctx, cmd, call)
	if err != nil {
		return nil, err
	}
	return r, cmd.Wait()
}

// confinesReading reports whether a command that only reads was held to that, or to some
// of it: by a mechanism that nobody has tried, or by a kernel that lacks a part.
func (r *SandboxReport) confinesReading() bool {
	return r.ReadOnly || r.Mechanism == "landlock" || r.Mechanism == "seatbelt"
}

// hints are for a model whose command did not succeed.
func (r *SandboxReport) hints() (lines []string) {
	if r.Filesystem {
		lines = append(lines, "sandbox: commands change files in the workspace, in temporary folders and in caches only")
	}
	if r.Network {
		lines = append(lines, "sandbox: this command had no network; if it needs it, call again with network true")
	}
	return lines
}

// WithSandbox makes bash start commands in a sandbox. A command that cannot be confined
// is not run. Default: commands run as they are.
func WithSandbox(s Sandbox) Option {
	return func(c *config) error {
		if s == nil {
			return errors.New("WithSandbox: sandbox is nil")
		}
		c.sandbox = s
		return nil
	}
}

// RequireSandbox makes bash run nothing unless everything that the sandbox is for can be
// enforced: SandboxReport.Missing must be empty. Without WithSandbox no command runs.
// Default: what can be enforced is.
func RequireSandbox() Option {
	return func(c *config) error {
		c.requireSandbox = true
		return nil
	}
}

// A confiner starts the commands of bash in a sandbox.
type confiner struct {
	sandbox Sandbox
	require bool

	mu    sync.Mutex
	holds bool // sandbox is known to hold commands to reading, as far as this machine can
}

// starter returns what starts a command in the place of [exec.Cmd.Start]. A report is
// stored when the command was started.
func (c *confiner) starter(ctx context.Context, call SandboxCall, report **SandboxReport) func(*exec.Cmd) error {
	call.Require = call.Require || c.require
	return func(cmd *exec.Cmd) error {
		if call.ReadOnly {
			if err := c.checkReading(ctx); err != nil {
				return err
			}
		}
		r, err := c.sandbox.Start(ctx, cmd, call)
		if err != nil {
			return noSandboxProblem(err, call.ReadOnly)
		}
		*report = r
		return nil
	}
}

// checkReading refuses a sandbox of the host's own that does not hold commands to reading,
// where this machine can: what nobody approved is not run on a prediction alone.
func (c *confiner) checkReading(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.sandbox.(type) {
	case *LocalSandbox, *noSandbox:
		return nil // they say in each report what is so
	}
	if c.holds {
		return nil
	}
	call := SandboxCall{ReadOnly: true}
	r, err := CheckSandbox(ctx, c.sandbox, call)
	if err == nil && !r.ReadOnly {
		if here, errHere := CheckSandbox(ctx, NoSandbox(), call); errHere != nil || here.ReadOnly {
			err = fmt.Errorf("%w: the host's sandbox does not hold commands to reading", ErrSandbox)
		}
	}
	c.holds = err == nil
	return noSandboxProblem(err, true)
}

// noSandboxProblem tells the model of a command that could not be confined.
func noSandboxProblem(err error, readOnly bool) error {
	switch {
	case !errors.Is(err, ErrSandbox):
		return err
	case readOnly:
		return problemf("no_sandbox", "%v; the command was to run unasked, as it only reads, and could not be held to "+
			"that: use the other tools, or call again with request_approval true, and the user is asked", err)
	}
	return problemf("no_sandbox", "%v; this does not change by trying again: "+
		"use the other tools, and tell the user that commands cannot be run", err)
}
