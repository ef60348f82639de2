package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
)

// A confiner starts the commands of bash in a sandbox.
type confiner struct {
	sandbox Sandbox
	require bool

	mu    sync.Mutex
	holds bool // the sandbox is known to confine commands to reading, as far as this machine can
	hands bool // the sandbox is known to hand connections to a proxy
}

// starter returns the function that replaces [exec.Cmd.Start]. It stores a report when
// the command was started.
func (c *confiner) starter(
	ctx context.Context, call SandboxCall, report **SandboxReport,
) func(*exec.Cmd) error {
	return func(cmd *exec.Cmd) (err error) {
		*report, err = c.start(ctx, cmd, call)
		return noSandboxProblem(err, call.ReadOnly)
	}
}

// start starts a command in the sandbox.
func (c *confiner) start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (r *SandboxReport, err error) {
	call.Require = call.Require || c.require
	switch {
	case call.ReadOnly:
		err = c.checkReading(ctx)
	case call.Proxy != nil:
		err = c.checkProxy(ctx)
	}
	if err != nil {
		return nil, err
	}
	return c.sandbox.Start(ctx, cmd, call)
}

// checkReading refuses a sandbox of the host that does not confine commands to reading,
// on a machine that can: an unapproved command must not depend on a prediction alone.
func (c *confiner) checkReading(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.sandbox.(type) {
	case *LocalSandbox, *noSandbox:
		return nil // the sandboxes of this package report the facts each time
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
	return err
}

// checkProxy refuses a sandbox of the host that does not hand connections to a proxy, and
// perhaps leaves the network open.
func (c *confiner) checkProxy(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.sandbox.(*LocalSandbox); ok || c.hands {
		return nil // the sandboxes of this package refuse what they cannot do
	}
	r, err := CheckSandbox(ctx, c.sandbox, SandboxCall{Proxy: func(l net.Listener) { l.Close() }})
	if err == nil && !r.Proxied {
		err = fmt.Errorf("%w: the host's sandbox does not hand connections to a proxy", ErrSandbox)
	}
	c.hands = err == nil
	return err
}

// noSandboxProblem tells the model about a command that could not be confined.
func noSandboxProblem(err error, readOnly bool) error {
	switch {
	case !errors.Is(err, ErrSandbox):
		return err // or nil
	case readOnly:
		return problemf("no_sandbox", "%v; the command was to run unasked, as it only reads, and could not be held to "+
			"that: use the other tools, or call again with request_approval true, and the user is asked", err)
	}
	return problemf("no_sandbox", "%v; this does not change by trying again: "+
		"use the other tools, and tell the user that commands cannot be run", err)
}
