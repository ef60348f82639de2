package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

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

// The access rights that a rule can grant for a path, by purpose.
const (
	rightsLook = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR
	// No device files: they lead to what is not in the directory.
	rightsChange = rightsLook | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	rightsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// rightsFile are those that a file, as opposed to a directory, can have.
	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX | rightsDevice
)

// devices are what programs take for granted. All may be written to but by commands that
// only read: those have the first.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// maxABI is the newest version of Landlock's interface whose rights are known here.
const maxABI = 10

// A ruleset has what Landlock denies unless a rule grants it.
type ruleset struct {
	fd  int
	all uint64 // the rights in files that are denied
}

// abi asks the kernel for the version of Landlock's interface.
func abi() (int, error) {
	n, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, fmt.Errorf("ask for the version: %w", e)
	}
	return min(int(n), maxABI), nil
}

// handled are the rights that a version can deny. See landlock(7), "VERSIONS".
func handled(version int, network bool) *unix.LandlockRulesetAttr {
	a := &unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER - 1}
	since := func(v int, field *uint64, bits uint64) {
		if version >= v {
			*field |= bits
		}
	}
	since(2, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_REFER)
	since(3, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_TRUNCATE)
	since(5, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	since(6, &a.Scoped, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL)
	since(9, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX)
	if !network {
		since(4, &a.Handled_access_net, unix.LANDLOCK_ACCESS_NET_BIND_TCP|unix.LANDLOCK_ACCESS_NET_CONNECT_TCP)
		since(10, &a.Handled_access_net, unix.LANDLOCK_ACCESS_NET_BIND_UDP|unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP)
	}
	return a
}

// newRuleset makes the rules for a view. The caller closes it.
func newRuleset(v *view) (*ruleset, error) {
	version, err := abi()
	if err != nil {
		return nil, err
	}
	attr := handled(version, v.Network)
	if v.everything {
		attr.Handled_access_fs &^= rightsLook &^ unix.LANDLOCK_ACCESS_FS_READ_FILE
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	if e != 0 {
		return nil, fmt.Errorf("create rules: %w", e)
	}
	r := &ruleset{int(fd), attr.Handled_access_fs}
	if err := r.fill(v); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ruleset) close() { _ = unix.Close(r.fd) }

// fill grants what a view allows.
func (r *ruleset) fill(v *view) error {
	for i, path := range devices {
		rights := uint64(rightsDevice)
		if v.readOnly && i > 0 {
			rights &^= rightsChange &^ rightsLook
		}
		if err := r.grant(path, rights, 0, nil); err != nil {
			return err
		}
	}
	if v.everything {
		err := r.grant("/", unix.LANDLOCK_ACCESS_FS_READ_FILE, 0, []string{"/dev"})
		if err = cmp.Or(err, r.grant("/dev/shm", unix.LANDLOCK_ACCESS_FS_READ_FILE, 0, nil)); err != nil {
			return err
		}
	}
	for _, path := range v.reads() {
		if err := r.grant(path, rightsLook, unix.LANDLOCK_ACCESS_FS_READ_DIR, v.Hide); err != nil {
			return err
		}
	}
	for _, path := range v.writes() {
		if err := r.grant(path, rightsChange, rightsLook, v.Protect); err != nil {
			return err
		}
	}
	return nil
}

// grant gives rights in a path and in what is in it, but only the lesser ones in some
// paths. As rules can only add rights, directories around those get the lesser ones, and
// what is in them each the full ones: what is new in such a directory gets none.
func (r *ruleset) grant(path string, rights, lesser uint64, except []string) error {
	return r.grantAt(unix.AT_FDCWD, path, path, rights, lesser, except)
}

func (r *ruleset) grantAt(dir int, name, path string, rights, lesser uint64, except []string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // It is gone, or not even the host gets there.
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK {
		return nil // The target of the link has separate rules.
	}
	if covers(except, path) {
		return r.add(fd, kind, path, lesser)
	}
	if kind != unix.S_IFDIR || !slices.ContainsFunc(except, func(e string) bool { return within(e, path) }) {
		return r.add(fd, kind, path, rights)
	}
	if err := r.add(fd, kind, path, lesser); err != nil {
		return err
	}
	return r.grantEach(fd, path, rights, lesser, except)
}

// grantEach gives rights in each of the entries of a directory.
func (r *ruleset) grantEach(dir int, path string, rights, lesser uint64, except []string) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for _, name := range names {
		if err := r.grantAt(dir, name, filepath.Join(path, name), rights, lesser, except); err != nil {
			return err
		}
	}
	return nil
}

// add adds the rule for an open path, with those rights that the kernel knows and that
// this kind of file can have.
func (r *ruleset) add(fd int, kind uint32, path string, rights uint64) error {
	rights &= r.all
	if kind != unix.S_IFDIR {
		rights &= rightsFile
	}
	if rights == 0 {
		return nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("add a rule for %s: %w", path, e)
	}
	return nil
}

// restrict makes the rules those of this thread and of what it starts.
func (r *ruleset) restrict() error {
	_, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

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
	if v.readOnly {
		r.lacks(!filtered, "mode, owner, times and attributes of files can be changed")
		l.reads(v, r)
		return r, nil
	}
	r.lacks(version < 5, "device files can be controlled: that needs Linux 6.10")
	// Where the kernel does not confine UNIX sockets by their paths, they lead to what
	// runs commands for the user: a session bus, a container engine, an agent with keys.
	v.filter = newFilter(sockets{network: v.Network, unix: v.Sockets || version >= 9}, v.Debug).bytes()
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
	done := make(chan struct{})
	onFreshThread(func() {
		defer close(done)
		if err = l.confine(0, rules, v); err == nil {
			leaks = tries(v.report, file)
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
	add(r.Network, open(func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) }), "use the network")
	add(r.ReadOnly, open(func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0) }), "use a socket")
	add(r.ReadOnly, unix.Fchmodat(unix.AT_FDCWD, file, 0o600, 0), "change a mode")
	add(r.ReadOnly, unix.Lchown(file, os.Getuid(), os.Getgid()), "change an owner")
	add(r.ReadOnly, unix.UtimesNanoAt(unix.AT_FDCWD, file, now, 0), "change a time")
	add(r.ReadOnly, unix.Lsetxattr(file, "user.trial", []byte("x"), 0), "change an attribute")
	return leaks
}

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
	again := needs == 0 && len(v.Protect) == 0
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
		confined := l.confine(needs, rules, v)
		if err = confined; err == nil {
			err = cmd.Start()
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

// confine takes from this thread, for good, what commands must not have.
func (l *landlock) confine(keep capabilities, rules *ruleset, v *view) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return l.fail("give up new privileges", err)
	}
	var pass capabilities
	if v.everything && hasReadAll() {
		pass = readAll
	}
	if err := keep.dropOthers(pass); err != nil {
		return l.fail("drop capabilities", err)
	}
	if err := rules.restrict(); err != nil {
		return l.fail("restrict the thread", err)
	}
	if err := installFilter(v.filter); err != nil {
		return l.fail("filter system calls", err)
	}
	return nil
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
