// Package sandbox starts commands that can do less than the program that starts them:
// see and change only some directories, not use the network, not signal other programs.
// The program itself stays as it is.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"
)

// Policy is what commands may do. Paths are absolute; those that do not exist when a
// command starts are left out.
type Policy struct {
	// Read are files and directories that commands may look at and run, Write those that
	// they may change too, Fetch those that commands with the network may change and
	// others look at.
	Read, Write, Fetch []string
	// Hide is what stays out of reach although Read names a directory around it, Protect
	// what may be looked at but not changed although Write names a directory around it.
	Hide, Protect []string
	// Private are variables that name a directory in the commands' own temporary directory.
	Private []string
	// Network lets all commands use the network, Sockets lets them use UNIX sockets,
	// Debug lets them trace each other.
	Network, Sockets, Debug bool

	everything bool              // they may look at all that the host may
	links      map[string]string // names of the roots that are links, and what they lead to
	around     []string          // directories in Write around what Protect names
}

// Call is what one command may do or needs beyond the policy.
type Call struct {
	// Network lets this command use the network.
	Network bool
	// Require refuses to start it if anything of the policy cannot be enforced.
	Require bool
	// ReadOnly lets this command look at what the policy lets it look at or change, and
	// change nothing but /dev/null and Temp: no file, no mode, owner, time or attribute of
	// one, and nothing of another process. It has no network and no sockets.
	ReadOnly bool
	// Temp is the directory for the temporary files of a command that only reads. The
	// caller makes and removes it. Default: it has none.
	Temp string
	// Proxy gives the command a network of one address, which its variables name as a proxy. It
	// is called once the command has started, with a listener for the connections, and must
	// return at once. The listener has to be accepted from until that fails, and to be closed.
	// There is no other network, whatever the policy says. A mechanism that cannot do this does
	// not start the command.
	Proxy func(net.Listener)
	// Roots are certificates, in PEM, that the command's variables name as those to trust.
	// Default: none, so that programs trust those of the system.
	Roots []byte
}

// Report says what is enforced.
type Report struct {
	Mechanism string
	ABI       int

	Filesystem, Network, Signals, Syscalls, Capabilities, NoNewPrivs, ReadOnly, Proxied bool

	Missing, Limits []string

	// namespaces says that processes, mounts and the network are the sandbox's own.
	namespaces bool
}

// An Error says which step of confining a command went wrong.
type Error struct {
	Mechanism, Step string
	Err             error
}

// Error returns the mechanism, the step and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("sandbox by %s: %s: %v", e.Mechanism, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// StepLook is the step in which a mechanism is found to be missing on this machine.
const StepLook = "look for it"

var (
	// ErrIncomplete says that a command which required everything was not started.
	ErrIncomplete = errors.New("not everything can be enforced here")
	// ErrLeaks says that a trial command could do what it must not.
	ErrLeaks = errors.New("a trial command got out")
	// ErrClosed says that the sandbox was closed.
	ErrClosed = errors.New("the sandbox is closed")
)

// A mechanism enforces policies.
type mechanism interface {
	name() string
	// report says what would be enforced for a view, or why nothing can be. It may keep
	// in the view what starts need.
	report(v *view) (*Report, error)
	// start starts a command, which must not run unless all that report said is enforced.
	start(cmd *exec.Cmd, v *view) error
	// close gives back what was kept for starts.
	close()
}

// Box starts commands under one policy. It is safe for concurrent use.
type Box struct {
	mech   mechanism
	policy Policy

	busy *semaphore.Weighted // held by the one who looks at or changes what follows
	temp string
	// tried are the views that a trial command has confirmed: without the network, with
	// it, for commands that only read, and with a proxy. They do not change any more.
	tried  [4]*view
	closed bool
}

func newBox(m mechanism, p Policy) *Box {
	return &Box{mech: m, policy: p.resolved(), busy: semaphore.NewWeighted(1)}
}

// Start starts a command as [exec.Cmd.Start] does, but confined, and says what is
// enforced. It sets TMPDIR to a directory of the box, and may change Path, Args and
// ExtraFiles. Before the first one, a trial command shows that the sandbox holds. The
// end of ctx stops the preparations, never the command. Errors about the sandbox are of
// type [*Error]; then the command was not started.
func (b *Box) Start(ctx context.Context, cmd *exec.Cmd, call Call) (*Report, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	v, err := b.prepare(ctx, call)
	if err != nil {
		return nil, err
	}
	switch {
	case call.ReadOnly:
		v = v.withTemp(call.Temp)
	case call.Proxy != nil:
		if v, err = v.withProxy(call); err != nil {
			return nil, b.fail("write certificates", err)
		}
	}
	if lacks := v.report.Missing; call.Require && len(lacks) > 0 {
		return nil, b.fail("require", fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(lacks, "; ")))
	}
	if err := b.start(cmd, v); err != nil {
		return nil, err
	}
	return v.report.clone(), nil
}

// Close removes the temporary files of the commands, which must have ended. After it
// no command starts.
func (b *Box) Close() error {
	_ = b.busy.Acquire(context.Background(), 1)
	defer b.busy.Release(1)
	b.closed = true
	b.mech.close()
	if b.temp == "" {
		return nil
	}
	err := RemoveAll(filepath.Dir(b.temp))
	if err != nil {
		return fmt.Errorf("remove the sandbox's temporary directory: %w", err)
	}
	b.temp = ""
	return nil
}

func (b *Box) fail(step string, err error) error { return &Error{b.mech.name(), step, err} }

// prepare returns what a command gets, which a trial command has confirmed.
func (b *Box) prepare(ctx context.Context, call Call) (*view, error) {
	if b.busy.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer b.busy.Release(1)
	if b.closed {
		return nil, b.fail("start", ErrClosed)
	}
	if err := b.makeTemp(); err != nil {
		return nil, b.fail("make a temporary directory", err)
	}
	v, kind := &view{Policy: b.policy, temp: b.temp}, 0
	switch {
	case call.ReadOnly:
		v, kind = &view{Policy: b.policy.onlyReading(b.temp), readOnly: true}, 2
	case call.Proxy != nil:
		v.Network, v.Sockets, v.proxied, kind = false, false, true, 3
	case call.Network || b.policy.Network:
		v.Network, kind = true, 1
	}
	if v := b.tried[kind]; v != nil {
		return v, nil
	}
	var err error
	if v.report, err = b.mech.report(v); err != nil {
		return nil, b.fail(StepLook, err)
	}
	if err := b.try(ctx, v); err != nil {
		return nil, err
	}
	b.tried[kind] = v
	return v, nil
}

// makeTemp makes the directory for temporary files, unless it is there. It is in another
// one, which is out of reach for commands: there is room for the bait of a trial, and no
// command can put a link in its place for the next one. A box for commands that only read
// has none, as each of those has its own.
func (b *Box) makeTemp() error {
	if b.policy.everything {
		return nil
	}
	if b.temp != "" {
		return os.MkdirAll(b.temp, 0o700)
	}
	err := errNoPlace
	for _, place := range (&view{Policy: b.policy, proxied: true}).places("") {
		var dir string
		if dir, err = os.MkdirTemp(place, "aycoder-sandbox-"); err == nil {
			b.temp = filepath.Join(dir, "tmp")
			return errors.Join(os.Chmod(dir, 0o711), os.Mkdir(b.temp, 0o700))
		}
	}
	return err
}

// start starts a command with the variables of the view.
func (b *Box) start(cmd *exec.Cmd, v *view) error {
	cmd.Env = append(slices.Clip(cmd.Environ()), v.env()...)
	return b.mech.start(cmd, v)
}

func (r *Report) lacks(missing bool, what string) {
	if missing {
		r.Missing = append(r.Missing, what)
	}
}

func (r *Report) clone() *Report {
	c := *r
	c.Missing, c.Limits = slices.Clone(r.Missing), slices.Clone(r.Limits)
	return &c
}

// RemoveAll removes a directory, also where a command took the right to from itself.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	root, rootErr := os.OpenRoot(dir)
	if rootErr != nil {
		return err
	}
	defer root.Close()
	unlock(root, ".", 0)
	return os.RemoveAll(dir)
}

// maxUnlock is how deep directories are looked for that cannot be removed.
const maxUnlock = 256

// unlock gives back the right to remove what is in a directory.
func unlock(root *os.Root, name string, depth int) {
	_ = root.Chmod(name, 0o700)
	f, err := root.Open(name)
	if err != nil || depth > maxUnlock {
		return
	}
	entries, _ := f.ReadDir(-1)
	f.Close()
	for _, e := range entries {
		if e.IsDir() {
			unlock(root, filepath.Join(name, e.Name()), depth+1)
		}
	}
}
