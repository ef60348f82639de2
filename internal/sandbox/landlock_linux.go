package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Landlock returns a box whose commands are confined by Landlock, a filter for system
// calls, and the loss of all capabilities. See landlock(7) and seccomp(2). Nothing but
// Linux 5.13 is needed: no privileges and no helper program.
func Landlock(p Policy) *Box {
	return newBox(&landlock{kept: map[domain]chan func(){}, end: make(chan struct{})}, p)
}

// Reader returns a box for commands that only read, each started with [Call.ReadOnly].
// They may look at all that the host may, but for devices: to open one can be an effect,
// as that of a watchdog or a tape is, and to read from a terminal takes what the user
// types there. The box needs no Close: it keeps no files, and a thread for a second at
// most.
func Reader() *Box { return Landlock(Policy{everything: true}) }

// A thread that is confined stays so for good (landlock(7)), so each start takes a thread
// that is not used for anything else afterwards. Such a thread is kept for a while, because
// making its rules takes longer than starting a command.
type landlock struct {
	threads sync.WaitGroup
	end     chan struct{} // closed when no thread is to be kept

	mu   sync.Mutex
	kept map[domain]chan func() // what confined threads are to do
}

// A domain is what a thread was confined to: a view, by its report, and the directory for
// temporary files. Commands that only read have the same one only if they come one after
// the other, and so they cannot signal each other or write in each other's directory.
type domain struct {
	report *Report
	temp   string
}

func (v *view) domain() domain { return domain{v.report, v.temp} }

func (*landlock) name() string { return "landlock" }

// keepThread is how long a confined thread starts more commands. To confine one takes
// half as long as to start a command, so many commands one after the other start as fast
// as they are. A new file in a directory around something hidden, or at a path that was
// missing, is out of reach for that long.
const keepThread = time.Second

// keep makes this thread, which was confined for a view, start more commands, unless
// there is one for that.
func (l *landlock) keep(v *view) {
	jobs := make(chan func())
	l.mu.Lock()
	_, other := l.kept[v.domain()]
	if !other {
		l.kept[v.domain()] = jobs
	}
	l.mu.Unlock()
	if other {
		return
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.kept, v.domain())
	}()
	timeout := time.NewTimer(keepThread)
	defer timeout.Stop()
	for {
		select {
		case job := <-jobs:
			job()
		case <-timeout.C:
			return
		case <-l.end:
			return
		}
	}
}

// byKept gives a job to a thread that is kept for a view, if it is free.
func (l *landlock) byKept(v *view, job func()) bool {
	l.mu.Lock()
	jobs := l.kept[v.domain()]
	l.mu.Unlock()
	done := make(chan struct{})
	select {
	case jobs <- func() { defer close(done); job() }:
		<-done
		return true
	default:
		return false
	}
}

// open counts one more thread, unless there are to be none.
func (l *landlock) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed() {
		return false
	}
	l.threads.Add(1)
	return true
}

func (l *landlock) closed() bool {
	select {
	case <-l.end:
		return true
	default:
		return false
	}
}

// close waits for the threads to end.
func (l *landlock) close() {
	l.mu.Lock()
	if !l.closed() {
		close(l.end)
	}
	l.mu.Unlock()
	l.threads.Wait()
}

// report says what the kernel's version of Landlock and the filter of system calls enforce
// together. Missing has the gaps that a newer kernel would close, and Limits those that
// belong to the mechanism.
func (l *landlock) report(v *view) (*Report, error) {
	version, err := abi()
	if err != nil {
		return nil, err
	}
	// Package os looks at the first start of a program what the kernel can do with
	// processes, by calls that a confined thread may not make, and would go without for
	// the rest of the host's life. So that happens here.
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
	r := &Report{
		Mechanism: "landlock", ABI: version, NoNewPrivs: true, Capabilities: true,
		Filesystem: version >= 3, Signals: version >= 6, Syscalls: filtered,
		Network: !v.Network && filtered, ReadOnly: v.readOnly && version >= 3 && filtered,
	}
	r.lacks(version < 3, "files outside can be emptied: that needs Linux 6.2")
	r.lacks(version < 6, "programs outside can be signalled: that needs Linux 6.12")
	r.lacks(!filtered, "system calls are not filtered on this kind of machine")
	r.lacks(!filtered && !v.Network, "the network can be used")
	if v.proxied {
		if err := bridges(); err != nil {
			return nil, err
		}
		r.Proxied = true
	}
	if v.readOnly {
		r.lacks(!filtered, "mode, owner, times and attributes of files can be changed")
		l.reads(v, r)
		return r, nil
	}
	r.lacks(version < 5, "device files can be controlled: that needs Linux 6.10")
	// Where the kernel does not confine UNIX sockets by their paths, they lead to what
	// runs commands for the user: a session bus, a container engine, an agent with keys.
	open := sockets{network: v.Network, unix: v.Sockets || version >= 9}
	if v.proxied {
		open = sockets{bridged: true} // a UNIX socket may lead to another proxy
	}
	v.filter = newFilter(open, v.Debug).bytes()
	r.lacks((v.Sockets || !filtered) && version < 9,
		"sockets of programs outside can be connected to: that needs Linux 7.1")
	r.Limits = []string{
		"mode, group, times, flags and extended attributes of files outside that belong to the command's user can be changed",
		"command lines of other programs can be read in /proc",
		"priority and processors of the user's other programs can be changed",
		"without the network there is none within the machine either",
	}
	return r, nil
}

// reads completes a report on commands that only read.
func (l *landlock) reads(v *view, r *Report) {
	v.filter = newReadingFilter().bytes()
	r.Limits = []string{
		"what is read can be a pipe, from which a read takes something",
		"files can be locked for reading while the command runs",
		"the size of the command's temporary files is not bounded",
	}
	if v.everything && hasReadAll() {
		r.Capabilities = false
		r.Limits = append(r.Limits, "of the host's capabilities CAP_DAC_READ_SEARCH is kept, so that what the host can read can be read")
	}
}

// probe tries on a confined thread what commands, which are started by such threads, must
// not do.
func (l *landlock) probe(v *view, file string) (leaks []string, err error) {
	rules, err := newRuleset(v)
	if err != nil {
		return nil, l.fail("make rules", err)
	}
	defer rules.close()
	var other net.Listener // that a command must not reach
	if v.proxied {
		if other, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			return nil, l.fail("run a trial", err)
		}
		defer other.Close()
	}
	done := make(chan struct{})
	onFreshThread(func() {
		defer close(done)
		var b *bridge
		if b, err = l.confine(0, rules, v); err != nil {
			return
		}
		if leaks = tries(v.report, file); b != nil {
			leaks = append(leaks, triesBridge(b, other.Addr().(*net.TCPAddr).AddrPort())...)
		}
	})
	<-done
	return leaks, err
}

// tries lists what this thread can do although a report says that it cannot.
func tries(r *Report, file string) (leaks []string) {
	add := func(claimed bool, err error, what string) {
		if claimed && err != unix.EPERM && err != unix.EACCES {
			leaks = append(leaks, fmt.Sprintf("it can %s (%v)", what, err))
		}
	}
	open := func(do func() (int, error)) error {
		fd, err := do()
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	add(r.Filesystem, open(func() (int, error) { return unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0) }), "write")
	add(r.Filesystem, unix.Truncate(file, 0), "truncate")
	add(r.Filesystem, unix.Mkdir(file+".d", 0o700), "make a directory")
	add(r.Network && !r.Proxied, open(func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) }), "use the network")
	add(r.Network && filtered, open(func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0) }), "send datagrams")
	add(r.Proxied, open(func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0) }), "use UNIX sockets")
	add(r.ReadOnly, open(func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0) }), "use a socket")
	add(r.ReadOnly, unix.Fchmodat(unix.AT_FDCWD, file, 0o600, 0), "change a mode")
	add(r.ReadOnly, unix.Lchown(file, os.Getuid(), os.Getgid()), "change an owner")
	add(r.ReadOnly, unix.UtimesNanoAt(unix.AT_FDCWD, file, now, 0), "change a time")
	add(r.ReadOnly, unix.Lsetxattr(file, "user.trial", []byte("x"), 0), "change an attribute")
	return leaks
}

// start starts a command from a confined thread, whose confinement the command inherits. A
// command whose start changes its user needs a thread with other capabilities, which is not
// kept.
func (l *landlock) start(cmd *exec.Cmd, v *view) error {
	needs, err := checkAttr(cmd)
	if err != nil {
		return l.fail("check the command", err)
	}
	if c := attr(cmd).Credential; c != nil && v.temp != "" {
		if err := os.Lchown(v.temp, int(c.Uid), int(c.Gid)); err != nil {
			return l.fail("give the user a temporary directory", err)
		}
	}
	again := needs == 0 && len(v.Protect) == 0 && !v.proxied
	if again && l.byKept(v, func() { err = cmd.Start() }) {
		return err
	}
	rules, err := newRuleset(v)
	if err != nil {
		return l.fail("make rules", err)
	}
	defer rules.close()
	if !l.open() {
		return l.fail("start", ErrClosed)
	}
	done := make(chan struct{})
	onFreshThread(func() {
		defer l.threads.Done()
		b, confined := l.confine(needs, rules, v)
		if err = confined; err == nil {
			err = b.serve(cmd.Start(), v)
		}
		close(done)
		if again && confined == nil {
			l.keep(v)
		}
	})
	<-done
	return err
}

func (l *landlock) fail(step string, err error) error { return &Error{l.name(), step, err} }

// confine takes from this thread, for good, what commands must not have. If their connections
// go to a proxy, it returns the bridge to there, and else nil.
func (l *landlock) confine(keep capabilities, rules *ruleset, v *view) (*bridge, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, l.fail("give up new privileges", err)
	}
	var pass capabilities
	if v.everything && hasReadAll() {
		pass = readAll
	}
	if err := keep.dropOthers(pass); err != nil {
		return nil, l.fail("drop capabilities", err)
	}
	if err := rules.restrict(); err != nil {
		return nil, l.fail("restrict the thread", err)
	}
	b, err := install(v.filter, v.proxied)
	if err != nil {
		return nil, l.fail("filter system calls", err)
	}
	return b, nil
}

// attr are the attributes that a command starts with.
func attr(cmd *exec.Cmd) *syscall.SysProcAttr {
	return cmp.Or(cmd.SysProcAttr, &syscall.SysProcAttr{})
}

// checkAttr refuses what a confined thread cannot do or would undo, and returns the
// capabilities that the start needs. They are gone when the command runs: the kernel
// takes them from a process that stops being root.
func checkAttr(cmd *exec.Cmd) (capabilities, error) {
	a := attr(cmd)
	switch {
	case a.Pdeathsig != 0:
		return 0, errors.New("it would be killed at once by Pdeathsig, as the thread that starts it ends")
	case a.Cloneflags != 0 || a.Unshareflags != 0 || a.UidMappings != nil || a.GidMappings != nil:
		return 0, errors.New("a confined thread cannot make namespaces")
	case len(a.AmbientCaps) > 0:
		return 0, errors.New("it would get back capabilities by AmbientCaps")
	case a.Chroot != "" || a.Ptrace || a.UseCgroupFD:
		return 0, errors.New("a confined thread can do nothing with Chroot, Ptrace and UseCgroupFD")
	case a.Credential == nil:
		return 0, nil
	case a.Credential.Uid == 0:
		return 0, errors.New("it would keep capabilities as user 0 of Credential")
	}
	return 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID, nil
}
