package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/sandbox"
)

// Sandbox starts commands with fewer rights than the host process has. This package provides
// [Landlock], [Bubblewrap] and [Seatbelt]; [FirstSandbox] selects the first one that works. A
// host may provide another implementation.
//
// Start replaces [exec.Cmd.Start]: it starts cmd and reports which protections are enforced for
// this command. A sandbox may need a separate thread to start a command, and knows the enforced
// protections only after the start. If call requires more than the sandbox can enforce, or if
// anything fails, Start returns an error and does not start the command. Start may change the
// path, arguments, environment and extra files of cmd, but must not change its process group and
// session. Start must be safe for concurrent use. If ctx ends, Start stops its preparations, but
// a command that has started continues.
type Sandbox interface {
	Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error)
}

// SandboxCall describes the rights and needs of one command, in addition to the settings of the
// sandbox.
type SandboxCall struct {
	// Network lets the command use the network. If false, the setting of the sandbox applies.
	Network bool
	// Require makes Start refuse the command if the field Missing of the [SandboxReport] would
	// not be empty. If false, the sandbox enforces as much as it can, and Missing lists the rest.
	Require bool
	// ReadOnly says that the command runs without approval, because the [aycoder.Approver]
	// considers it read-only (see the field ReadOnly of [aycoder.Invocation]). The sandbox must
	// confine the command to reading. The command may read everything that other commands of the
	// sandbox may read or change. It may change only /dev/null and the directory Temp: no other
	// file, and no mode, owner, time or attribute of a file. It has no access to the network, to
	// the sockets of other programs, or to other processes.
	//
	// The report says whether the sandbox has confined the command to reading. The tool bash
	// refuses the command if a host's implementation of [Sandbox] does not confine commands to
	// reading, although [NoSandbox] could do so on this machine. The error gives the reason.
	ReadOnly bool
	// Temp is the directory for temporary files of this command, if ReadOnly is set. The
	// command's variable TMPDIR must name it. The caller creates and removes the directory.
	Temp string
	// Proxy, if it is not nil, gives the command a network of one address, which the variables
	// HTTP_PROXY, HTTPS_PROXY and ALL_PROXY of the command name. The sandbox calls Proxy once the
	// command has started, with a listener for the connections of the command. Proxy returns at
	// once, and somebody has to call Accept until that fails, and then Close. Accept fails at the
	// latest when the last process of the command has ended. The command must reach nothing else:
	// Network and the settings of the sandbox do not apply, and there are no UNIX sockets but
	// pairs. A sandbox that cannot do that must not start the command.
	Proxy func(net.Listener)
	// Roots are certificates, in PEM, which the sandbox writes to a file that the command can
	// only read, and that variables such as SSL_CERT_FILE name. Default: the command trusts those
	// of the system.
	Roots []byte
}

// SandboxReport describes the protections that are enforced for a command.
type SandboxReport struct {
	// Mechanism is "landlock", "bwrap", "seatbelt", "none", or the name of a sandbox that the
	// host provides. ABI is the version of the Landlock interface, and 0 for other mechanisms.
	Mechanism string `json:"mechanism"`
	ABI       int    `json:"abi,omitempty"`
	// Each of the fields from Filesystem to NoNewPrivs says that a protection is enforced.
	// Filesystem: the command can read and change only permitted files. Network: it has no
	// network. Signals: it cannot signal programs outside of the sandbox. Syscalls: its system
	// calls are filtered. Capabilities: it has no capabilities. NoNewPrivs: it cannot gain
	// privileges, for example by sudo. The field Limits lists remaining gaps.
	Filesystem   bool `json:"filesystem"`
	Network      bool `json:"network"`
	Signals      bool `json:"signals"`
	Syscalls     bool `json:"syscalls"`
	Capabilities bool `json:"capabilities"`
	NoNewPrivs   bool `json:"no_new_privs"`
	// ReadOnly says that this command was confined to reading, as the field ReadOnly of
	// [SandboxCall] requests.
	ReadOnly bool `json:"read_only"`
	// Proxied says that the network of this command consists of a proxy, as the field Proxy of
	// [SandboxCall] requests. Network is then true as well.
	Proxied bool `json:"proxied,omitempty"`
	// Missing lists, in words, the requested protections that are not enforced, for example
	// because the kernel is too old. Limits lists gaps and side effects that the mechanism has on
	// every machine.
	Missing []string `json:"missing,omitempty"`
	Limits  []string `json:"limits,omitempty"`
}

// String describes in one line which protections are enforced and which are not.
func (r *SandboxReport) String() string {
	var does []string
	for _, p := range []struct {
		is   bool
		name string
	}{
		{r.Filesystem, "files"}, {r.Network, "no network"}, {r.Signals, "signals"}, {r.Syscalls, "system calls"},
		{r.Capabilities, "capabilities"}, {r.NoNewPrivs, "no new privileges"}, {r.ReadOnly, "only reading"},
		{r.Proxied, "proxy"},
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

// ErrSandbox matches every error of a sandbox: errors.Is(err, ErrSandbox) is true. Such an error
// means that the command was not started, because it could not be confined as required.
var ErrSandbox = errors.New("the command was not started")

// SandboxError describes a command that could not be confined. Step names the step that failed.
// Get the error with errors.AsType[*SandboxError](err). It unwraps to [ErrSandbox] and to the
// cause, which is [errors.ErrUnsupported] if the system does not have the mechanism.
type SandboxError struct {
	Mechanism, Step string
	Err             error
}

// Error returns the mechanism, the step and the cause.
func (e *SandboxError) Error() string {
	return fmt.Sprintf("sandbox by %s: %s: %v", e.Mechanism, e.Step, e.Err)
}

// Unwrap returns [ErrSandbox] and Err.
func (e *SandboxError) Unwrap() []error { return []error{ErrSandbox, e.Err} }

// LocalSandbox is a [Sandbox] that uses a mechanism of this machine. It is safe for concurrent
// use.
//
// LocalSandbox tests the mechanism before the first command of each of four kinds: with the
// network, without the network, with a proxy, and confined to reading. The test starts a command that tries to
// read and change a file outside of the sandbox, and to signal the host. If the command can do
// something that the mechanism claims to prevent, LocalSandbox refuses commands of this kind.
//
// Commands share a directory for temporary files, which the variable TMPDIR names. LocalSandbox
// keeps the directory until Close, so that a command finds the files of earlier commands.
type LocalSandbox struct{ box *sandbox.Box }

// Start implements [Sandbox].
func (s *LocalSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	return startIn(ctx, s.box, cmd, call)
}

// startIn starts a command in a box. The types of the internal package stay out of the API.
func startIn(
	ctx context.Context, box *sandbox.Box, cmd *exec.Cmd, call SandboxCall,
) (*SandboxReport, error) {
	r, err := box.Start(ctx, cmd, sandbox.Call(call))
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return nil, &SandboxError{e.Mechanism, e.Step, e.Err}
	}
	if err != nil {
		return nil, err
	}
	return &SandboxReport{
		r.Mechanism, r.ABI, r.Filesystem, r.Network, r.Signals, r.Syscalls, r.Capabilities, r.NoNewPrivs,
		r.ReadOnly, r.Proxied, r.Missing, r.Limits,
	}, nil
}

// Close removes the temporary files of the commands. Call it when the commands have ended.
// Afterwards no command can be started.
func (s *LocalSandbox) Close() error { return s.box.Close() }

// Landlock returns a sandbox for commands of this machine that uses the Landlock interface of Linux. It needs Linux 5.13 or
// newer, and enforces all its protections on Linux 6.12 and newer. The sandbox needs neither
// privileges nor a helper program: a thread of the host gives up the rights that a command must
// not have, and then starts the command. The thread starts further commands for up to a second,
// or until Close, and then ends. The host itself keeps its rights.
//
// Commands can read and run files in the system directories and in the workspace. In the home
// directory they can read and run only the files in the directories where languages and packages
// are installed. They can change the workspace, including its repository, their directory for
// temporary files, and build caches. They have no network, not even within the machine. They have
// no capabilities, cannot trace other processes, and can signal only their own processes. On
// Linux 7.1 and newer they can use UNIX sockets, except those of programs outside of the sandbox.
// Older versions of Linux cannot make this exception, so commands there can use only socket
// pairs. Options change these defaults.
//
// Landlock cannot provide some protections: the field Limits of [SandboxReport] lists them.
// [Bubblewrap] provides more protections, but takes four times as long to start a command.
//
// If the host runs as root, the commands run as root too, but without the privileges of root:
// they access the files of other users as any user would.
func Landlock(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Landlock, ws, opts)
}

// Bubblewrap returns a sandbox that uses the program bwrap, which must be installed and must be
// allowed to create namespaces. Commands see only their own files and processes. They have a
// private /tmp and private shared memory. By default they have a private network, which has no
// connection to this machine or to others, and they may use UNIX sockets. If [WithSandboxNetwork]
// gives them the network of this machine, they may use UNIX sockets only with
// [WithSandboxSockets]. In all other respects, they have the rights that [Landlock] describes.
func Bubblewrap(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Bubblewrap, ws, opts)
}

// Seatbelt returns a sandbox for macOS that uses the program sandbox-exec. It was written from
// the documentation and has never been tested; its reports say so.
func Seatbelt(ws FS, opts ...SandboxOption) (*LocalSandbox, error) {
	return newSandbox(sandbox.Seatbelt, ws, opts)
}

// newSandbox adds what the host allows to the defaults.
func newSandbox(
	box func(sandbox.Policy) *sandbox.Box, ws FS, opts []SandboxOption,
) (*LocalSandbox, error) {
	if ws == nil {
		return nil, errors.New("new sandbox: workspace is nil")
	}
	c := sandboxConfig{roots: rootsOf(ws), shared: true}
	if err := option.Apply(&c, opts); err != nil {
		return nil, fmt.Errorf("new sandbox: %w", err)
	}
	p := sandbox.Defaults(ws.Dir(), sandbox.ThisHost(), c.shared)
	for _, name := range slices.Sorted(maps.Keys(c.roots)) {
		p.Write = append(p.Write, c.roots[name])
	}
	p.Read, p.Write = append(p.Read, c.read...), append(p.Write, c.write...)
	p.Protect, p.Network, p.Sockets, p.Debug = c.protect, c.network, c.sockets, c.debug
	return &LocalSandbox{box(p)}, nil
}

// SandboxOption configures a [LocalSandbox].
type SandboxOption func(*sandboxConfig) error

type sandboxConfig struct {
	roots                           map[string]string
	read, write, protect            []string
	network, sockets, debug, shared bool
}

// WithSandboxRead lets commands read and run additional files and directories, which must exist.
// Paths of several options add up. Default: the paths that [Landlock] describes.
func WithSandboxRead(paths ...string) SandboxOption {
	return func(c *sandboxConfig) error { return addPaths(&c.read, "WithSandboxRead", paths) }
}

// WithSandboxWrite lets commands change additional files and directories, which must exist. Some
// programs need /dev/shm (for example Python's multiprocessing) or /tmp, but commands then share
// these directories with programs outside of the sandbox. Paths of several options add up.
// Default: the paths that [Landlock] describes.
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

// WithSandboxProtect prevents commands from changing files and directories of the workspace. They
// are named by paths relative to the workspace, such as ".git" or ".git/hooks". Names of several
// options add up. Default: no names, so that a command can commit.
//
// With [Landlock], the option also protects the entries of each directory that contains a
// protected name: commands cannot create, rename or remove these entries. The reason is that
// Landlock can grant rights in a whole directory, but cannot except a single entry. For example,
// ".git" also protects the entries of the top directory of the workspace. The name ".git/hooks"
// protects the entries of the top directory and the entries of .git, which prevents commits.
func WithSandboxProtect(names ...string) SandboxOption {
	return func(c *sandboxConfig) error {
		for _, name := range names {
			root, rest := rootpath.Cut(filepath.ToSlash(name))
			dir, ok := c.roots[root]
			if !ok || !filepath.IsLocal(filepath.FromSlash(rest)) {
				return &aycoder.ConfigError{Option: "WithSandboxProtect",
					Err: fmt.Errorf("not a path in the workspace: %q", name)}
			}
			c.protect = append(c.protect, filepath.Join(dir, filepath.FromSlash(rest)))
		}
		return nil
	}
}

// WithSandboxNetwork sets whether all commands may use the network. For a single command, set the
// field Network of [SandboxCall] instead. Default: false.
func WithSandboxNetwork(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.network = on
		return nil
	}
}

// WithSandboxSockets sets whether commands may use UNIX sockets even if the sandbox cannot keep
// the commands away from the sockets of other programs. [Landlock] cannot do that before Linux
// 7.1, and [Bubblewrap] cannot do it if the command has the network of this machine. In these two
// cases, true permits all UNIX sockets, and false permits only socket pairs. Through the socket
// of a session bus or a container engine, a command could start other commands outside of the
// sandbox. Default: false.
func WithSandboxSockets(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.sockets = on
		return nil
	}
}

// WithSandboxDebuggers sets whether commands may trace each other, as debuggers and leak checkers
// do. Default: false.
func WithSandboxDebuggers(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.debug = on
		return nil
	}
}

// WithSandboxSharedCaches sets whether commands may change the user's build caches and, if they
// have the network, the caches of packages. If true, a command could change a cache in a way that
// affects a later build by the user. If false, commands start with empty private caches, which is
// slow. Default: true.
func WithSandboxSharedCaches(on bool) SandboxOption {
	return func(c *sandboxConfig) error {
		c.shared = on
		return nil
	}
}

// NoSandbox returns a [Sandbox] that confines only commands with SandboxCall.ReadOnly. It starts
// all other commands without protection, and their reports say that nothing is enforced. It
// refuses calls with SandboxCall.Require. The tool bash uses NoSandbox if there is no
// [WithSandbox].
//
// A command with SandboxCall.ReadOnly runs without approval, because the [aycoder.Approver]
// considers it read-only. It can read everything that the host can read, and can change only its
// temporary files. This confinement needs Landlock on Linux 6.2 and newer, or sandbox-exec on
// macOS. The profile for macOS has never been tested. On other systems the confinement is
// incomplete or missing, so the command can write if the Approver misjudges it. To find out in
// advance whether such commands are confined, call [CheckSandbox]:
//
//	report, err := tools.CheckSandbox(ctx, tools.NoSandbox(), tools.SandboxCall{ReadOnly: true})
//	…
//	if !report.ReadOnly {
//		log.Print(report)
//	}
func NoSandbox() Sandbox { return &noSandbox{sandbox.Reader()} }

// noSandbox has only a sandbox for commands that only read.
type noSandbox struct{ reader *sandbox.Box }

// Start implements [Sandbox].
func (s *noSandbox) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	r := &SandboxReport{Mechanism: "none",
		Missing: []string{"commands can do all that the host can"}}
	if call.Require || call.Proxy != nil {
		return nil, &SandboxError{r.Mechanism, "require", sandbox.ErrIncomplete}
	}
	if call.ReadOnly {
		held, err := startIn(ctx, s.reader, cmd, call)
		if e, ok := errors.AsType[*SandboxError](err); !ok || !isAbsent(e) {
			return held, err
		}
		r.Missing = append(r.Missing,
			fmt.Sprintf("commands that only read are not held to that: %v", err))
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

// isAbsent reports whether this machine lacks a mechanism, as opposed to one that failed.
// The profile for macOS is untested and may fail where the mechanism exists.
func isAbsent(e *SandboxError) bool { return e.Step == sandbox.StepLook || runtime.GOOS == "darwin" }

// FirstSandbox returns a sandbox that tries the sandboxes of the list in order. It starts a
// command in the first sandbox that does not return an [ErrSandbox]. If all of them do, the error
// contains the reason of each.
func FirstSandbox(list ...Sandbox) Sandbox { return firstSandbox(list) }

type firstSandbox []Sandbox

// Start implements [Sandbox].
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

// Close closes each sandbox of the list that has a Close method.
func (f firstSandbox) Close() error {
	var errs []error
	for _, s := range f {
		if c, ok := s.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// CheckSandbox returns the protections that a sandbox enforces for a call. To find out, it lets
// the sandbox start a command that does nothing. A host can show the report to its user, or exit
// if a protection is missing.
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

// hints are for a model whose command failed. One that was to read only may be confined in part: the mechanism may be
// untested, and a kernel may lack a feature.
func (r *SandboxReport) hints(readOnly bool) (lines []string) {
	if readOnly {
		if r.Mechanism == "none" {
			return nil
		}
		return []string{"sandbox: this command ran without approval because it only reads, and may have been refused more; " +
			"if it needs more, call again with request_approval true, and the user is asked"}
	}
	if r.Filesystem {
		lines = append(lines, "sandbox: commands change files in the workspace, in temporary directories and in caches only")
	}
	switch {
	case r.Proxied:
		lines = append(lines, "sandbox: this command reaches the network only by the HTTP proxy that the variables HTTP_PROXY and HTTPS_PROXY name")
	case r.Network:
		lines = append(lines,
			"sandbox: this command had no network; if it needs it, call again with network true")
	}
	return lines
}

// WithSandbox makes bash start its commands in a sandbox. If a command cannot be confined, it is
// not run. Default: [NoSandbox].
func WithSandbox(s Sandbox) Option {
	return func(c *config) error {
		if s == nil {
			return &aycoder.ConfigError{Option: "WithSandbox", Err: errors.New("sandbox is nil")}
		}
		c.sandbox = s
		return nil
	}
}

// WithSandboxRequired sets whether the sandbox must enforce all requested protections. If true,
// bash refuses a command if a protection would not be enforced, that is, if the field Missing of
// [SandboxReport] would not be empty. Thus bash refuses every command if the option is true and
// there is no [WithSandbox]. If false, the sandbox enforces as much as it can. Default: false.
func WithSandboxRequired(on bool) Option {
	return func(c *config) error {
		c.requireSandbox = on
		return nil
	}
}
