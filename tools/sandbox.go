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

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/sandbox"
)

// Sandbox starts commands with fewer rights than the host has. This package provides
// [Landlock], [Bubblewrap] and [Seatbelt]; [FirstSandbox] takes the first that works. A
// host may implement its own.
//
// Start takes the place of [exec.Cmd.Start] and returns what is enforced for this
// command. It starts the command itself, because a sandbox may need a separate thread for
// that, and because what is enforced is not known earlier. If call asks for more than the
// sandbox can do, or if anything goes wrong, no command was started. Start may change the
// command's path, arguments, environment and extra files, but must leave its process
// group and session alone. It must be safe for concurrent use. The end of ctx stops the
// preparations, not the command.
type Sandbox interface {
	Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error)
}

// SandboxCall describes the rights and needs of one command, beyond the settings of the
// sandbox.
type SandboxCall struct {
	// Network lets the command use the network. Default: the setting of the sandbox.
	Network bool
	// Require refuses to start the command unless everything that the sandbox promises
	// can be enforced. Default: the sandbox enforces what it can, and the report lists
	// the rest.
	Require bool
	// ReadOnly says that the command was not approved: it runs because it only reads, see
	// [aycoder.Invocation], and the sandbox confines it to that. The command can read all
	// that other commands of the sandbox can read or change. It can change only /dev/null
	// and Temp: no other file, and no mode, owner, time or attribute of one. It has no
	// network, no access to the sockets of other programs, and none to other processes.
	//
	// A sandbox that confines a command to reading says so in its report. A sandbox that
	// does not is not used for such commands where this machine has a way to confine
	// them, see [NoSandbox]: they are not run, and the result says why.
	ReadOnly bool
	// Temp is a directory for the temporary files of this command alone, if it only
	// reads; TMPDIR must name it. The caller creates and removes it.
	Temp string
}

// SandboxReport describes what is enforced for a command.
type SandboxReport struct {
	// Mechanism is "landlock", "bwrap", "seatbelt", "none", or the name of a sandbox of
	// the host; ABI is the version of the Landlock interface, 0 for the others.
	Mechanism string `json:"mechanism"`
	ABI       int    `json:"abi,omitempty"`
	// Filesystem says that the command can read and change only permitted files, Network
	// that it has no network, Signals that it cannot signal programs outside, Syscalls
	// that its system calls are filtered, Capabilities that it has none, and NoNewPrivs
	// that it cannot gain privileges, for example by sudo. Limits lists the remaining
	// effects on files.
	Filesystem   bool `json:"filesystem"`
	Network      bool `json:"network"`
	Signals      bool `json:"signals"`
	Syscalls     bool `json:"syscalls"`
	Capabilities bool `json:"capabilities"`
	NoNewPrivs   bool `json:"no_new_privs"`
	// ReadOnly says that this command was confined to reading, as SandboxCall.ReadOnly
	// asks.
	ReadOnly bool `json:"read_only"`
	// Missing lists, in words, the protections that were asked for and are not enforced
	// on this machine; Limits lists those that the mechanism cannot provide anywhere.
	Missing []string `json:"missing,omitempty"`
	Limits  []string `json:"limits,omitempty"`
}

// String describes in one line what is enforced and what is not.
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

// ErrSandbox matches all errors of a sandbox: a command was not started because it could
// not be confined as required.
var ErrSandbox = errors.New("the command was not started")

// SandboxError names the step of confining a command that went wrong. Get it with
// errors.AsType[*SandboxError](err). It unwraps to [ErrSandbox] and to the cause, which
// is [errors.ErrUnsupported] where the system does not have the mechanism.
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

// LocalSandbox is a sandbox that uses a mechanism of this machine. It is safe for
// concurrent use.
//
// Before the first command, and before the first with the network, a trial command tries
// to read and change a file outside and to signal the host. If it succeeds, no command is
// started. Commands share a directory for temporary files, which TMPDIR names. It is kept
// until Close, so that a command finds the files of the previous one.
type LocalSandbox struct{ box *sandbox.Box }

// Start starts a command in the sandbox.
func (s *LocalSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	return startIn(ctx, s.box, cmd, call)
}

// startIn starts a command in a box. The types of the internal package stay out of the API.
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

// Close removes the temporary files of the commands, which should have ended. Afterwards
// no command can be started.
func (s *LocalSandbox) Close() error { return s.box.Close() }

// Landlock returns a sandbox for Linux 5.13 and newer; since 6.12 everything is enforced.
// It needs neither privileges nor a helper program: a thread of the host gives up the
// rights that the command must not have, and starts it. The thread starts further
// commands for up to a second, or until Close, and then ends. The host itself keeps its
// rights.
//
// Commands can read and run files in the system directories, in the workspace, and in
// those directories of the home directory where languages and packages are installed, but
// no others there. They can change the workspace, including its repository, their own
// directory for temporary files, and build caches. They have no network, not even within
// the machine, and no UNIX sockets except pairs. They have no capabilities, cannot trace
// other processes, and can signal only their own. Options change these defaults.
//
// Some protections are not possible this way; SandboxReport.Limits lists them.
// [Bubblewrap] provides more of them, and takes four times as long to start.
//
// If the host runs as root, so do the commands, but without its privileges: they access
// the files of other users as any user would.
func Landlock(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Landlock, ws, opts)
}

// Bubblewrap returns a sandbox that uses the program bwrap, which must be installed and
// allowed to create namespaces. Commands see only their own files and processes. They
// have a private network without a way out, a private /tmp and shared memory, and UNIX
// sockets. In other respects they have the rights that [Landlock] gives them.
func Bubblewrap(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Bubblewrap, ws, opts)
}

// Seatbelt returns a sandbox for macOS that uses sandbox-exec. It was written from the
// documentation and has never been tested, and its reports say so.
func Seatbelt(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Seatbelt, ws, opts)
}

// newSandbox adds what the host allows to the defaults.
func newSandbox(box func(sandbox.Policy) *sandbox.Box, ws FS, opts []SandboxOption) (*LocalSandbox, error) {
	if ws == nil {
		return nil, errors.New("new sandbox: workspace is nil")
	}
	c := sandboxConfig{dir: ws.Dir(), shared: true}
	if err := option.Apply(&c, opts); err != nil {
		return nil, fmt.Errorf("new sandbox: %w", err)
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

// WithSandboxRead lets commands read and run additional files and directories, which must
// exist. Paths add up. Default: see [Landlock].
func WithSandboxRead(paths ...string) SandboxOption {
	return func(c *sandboxConfig) error { return addPaths(&c.read, "WithSandboxRead", paths) }
}

// WithSandboxWrite lets commands change additional files and directories, which must exist.
// Paths add up. Some programs need /dev/shm, such as Python's multiprocessing, and some
// /tmp; both are shared with other programs. Default: see [Landlock].
func WithSandboxWrite(paths ...string) SandboxOption {
	return func(c *sandboxConfig) error { return addPaths(&c.write, "WithSandboxWrite", paths) }
}

// addPaths adds paths that exist: one that is misspelt would otherwise grant nothing,
// silently.
func addPaths(to *[]string, option string, paths []string) error {
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return &aycoder.ConfigError{Option: option, Err: err}
		}
		*to = append(*to, abs)
	}
	return nil
}

// WithSandboxProtect prevents commands from changing files and directories of the workspace,
// named by paths relative to it, such as ".git" or ".git/hooks". Names add up. Landlock
// can only grant rights in a directory, never remove them. With it, commands cannot
// create, rename or remove entries in the directories around a protected one either:
// ".git" prevents that in the top directory of the workspace, and ".git/hooks" prevents a
// commit. Default: no name is protected, so that a command can commit.
func WithSandboxProtect(names ...string) SandboxOption {
	return func(c *sandboxConfig) error {
		for _, name := range names {
			if !filepath.IsLocal(name) {
				return &aycoder.ConfigError{Option: "WithSandboxProtect",
					Err: fmt.Errorf("not a path in the workspace: %q", name)}
			}
			c.protect = append(c.protect, filepath.Join(c.dir, name))
		}
		return nil
	}
}

// WithSandboxNetwork lets all commands use the network. Default: false; see
// SandboxCall.Network for a single command.
func WithSandboxNetwork(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.network = on
		return nil
	}
}

// WithSandboxSockets lets commands of [Landlock] use UNIX sockets even where the kernel
// cannot deny them those of other programs, that is before Linux 7.1. A session bus or a
// container engine runs commands for every client that connects to it. Default: false.
func WithSandboxSockets(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.sockets = on
		return nil
	}
}

// WithSandboxDebuggers lets commands trace each other, as debuggers and leak checkers do.
// Default: false.
func WithSandboxDebuggers(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.debug = on
		return nil
	}
}

// WithSandboxSharedCaches lets commands change the user's build caches and, if they have the
// network, the caches of packages. With false they start with empty private ones, which
// is slow; with true, a command could plant something there for a later build by the
// user. Default: true.
func WithSandboxSharedCaches(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.shared = on
		return nil
	}
}

// NoSandbox starts commands without a sandbox, as bash does without [WithSandbox]. Its
// reports say that nothing is enforced, and it refuses calls that require more.
//
// It still confines commands that only read: with SandboxCall.ReadOnly they can read all
// that the host can, and change nothing. That takes Landlock on Linux 6.2 and newer, or
// sandbox-exec on macOS, whose profile has never been tested. Elsewhere they start
// unconfined, and the prediction that they only read is the only protection. The report
// says which is the case, and [CheckSandbox] gets it in advance:
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

// isAbsent reports whether this machine lacks a mechanism, as opposed to one that failed.
// The profile for macOS is untested and may fail where the mechanism exists.
func isAbsent(e *SandboxError) bool { return e.Step == sandbox.StepLook || runtime.GOOS == "darwin" }

// FirstSandbox returns a sandbox that tries others in order, until one does not fail with
// an [ErrSandbox]. If all fail, the error has the reason of each.
func FirstSandbox(list ...Sandbox) Sandbox { return firstSandbox(list) }

type firstSandbox []Sandbox

// Start starts the command in the first sandbox that can confine it.
func (f firstSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	errs := []error{ErrSandbox}
	before := *cmd // without the changes of a sandbox that then refused
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

// Close closes those sandboxes that have a Close method.
func (f firstSandbox) Close() error {
	var errs []error
	for _, s := range f {
		if c, ok := s.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// CheckSandbox returns what a sandbox enforces for a call, by starting a command in it
// that does nothing. A host can show the report to its user, or refuse to go on.
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

// confinesReading reports whether a command that only reads was confined at least in
// part: the mechanism may be untested, and a kernel may lack a feature.
func (r *SandboxReport) confinesReading() bool {
	return r.ReadOnly || r.Mechanism == "landlock" || r.Mechanism == "seatbelt"
}

// hints are for a model whose command failed.
func (r *SandboxReport) hints() (lines []string) {
	if r.Filesystem {
		lines = append(lines, "sandbox: commands change files in the workspace, in temporary directories and in caches only")
	}
	if r.Network {
		lines = append(lines, "sandbox: this command had no network; if it needs it, call again with network true")
	}
	return lines
}

// WithSandbox makes bash start commands in a sandbox. A command that cannot be confined
// is not run. Default: [NoSandbox].
func WithSandbox(s Sandbox) Option {
	return func(c *config) error {
		if s == nil {
			return &aycoder.ConfigError{Option: "WithSandbox", Err: errors.New("sandbox is nil")}
		}
		c.sandbox = s
		return nil
	}
}

// WithSandboxRequired makes bash refuse commands unless the sandbox enforces everything
// that it promises: SandboxReport.Missing must be empty. Without [WithSandbox] no command
// runs. Default: false, so that the sandbox enforces what it can.
func WithSandboxRequired(on bool) Option {
	return func(c *config) error {
		c.requireSandbox = on
		return nil
	}
}
