package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const probeVar = "SANDBOX_TEST_PROBE"

// TestMain is also the command that tries effects.
func TestMain(m *testing.M) {
	if os.Getenv(probeVar) != "" {
		os.Exit(probe(os.Args[1], os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// place is where a probe does what it tries: a workspace and what is outside of it.
type place struct {
	ws, out string
	host    int    // a process outside
	tcp     string // addresses that the host listens to
	udp     string
	unix    string
	hidden  string
}

func (p *place) args() []string {
	return []string{p.ws, p.out, strconv.Itoa(p.host), p.tcp, p.udp, p.unix, p.hidden}
}

// probe tries effects, and prints of each whether it happened.
func probe(ws, out string, rest []string) int {
	p := &place{ws: ws, out: out, tcp: rest[1], udp: rest[2], unix: rest[3], hidden: rest[4]}
	p.host, _ = strconv.Atoi(rest[0])
	for _, e := range effects {
		err := e.try(p)
		fmt.Printf("%s\t%t\t%v\n", e.name, err == nil, err)
	}
	return 0
}

// An effect is something that a command tries.
type effect struct {
	name string
	try  func(p *place) error
	// plain, landlock and bwrap say whether it happens, to a process of the same user.
	plain, landlock, bwrap bool
}

func in(folder, name string) string { return filepath.Join(folder, name) }

func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("x")
	return err
}

func readFile(path string) error {
	_, err := os.ReadFile(path)
	return err
}

// sees reads a file and looks for what must be in it.
func sees(path, what string) error {
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), what) {
		err = errors.New("it is not there")
	}
	return err
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if network != "udp" {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err = c.Write([]byte("ping")); err == nil {
		_, err = c.Read(make([]byte, 4))
	}
	return err
}

func raw(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	n, _, e := unix.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
	if e != 0 {
		return e
	}
	if nr == unix.SYS_SOCKET || nr == unix.SYS_USERFAULTFD || nr == unix.SYS_PERF_EVENT_OPEN {
		unix.Close(int(n))
	}
	return nil
}

func socket(family, kind, proto uintptr) error { return raw(unix.SYS_SOCKET, family, kind, proto) }

// hostLimit sets a limit of the host to what it is.
func hostLimit(p *place) error {
	var l unix.Rlimit
	if err := unix.Prlimit(p.host, unix.RLIMIT_CORE, nil, &l); err != nil {
		return err
	}
	return unix.Prlimit(p.host, unix.RLIMIT_CORE, &l, nil)
}

func pair(*place) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
	return err
}

// listen binds a socket in the workspace and connects to it.
func listen(p *place) error {
	name := in(p.ws, "own.sock")
	_ = os.Remove(name)
	l, err := net.Listen("unix", name)
	if err != nil {
		return err
	}
	defer l.Close()
	return dial("unix", name)
}

func status(key, value string) func(*place) error {
	return func(*place) error { return sees("/proc/self/status", key+":\t"+value+"\n") }
}

func command(name string, args ...string) func(*place) error {
	return func(p *place) error {
		cmd := exec.Command(name, args...)
		cmd.Dir = p.ws
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.ReplaceAll(string(out), "\n", "; "))
		}
		return nil
	}
}

// effects are tried in order; those at the end undo nothing.
var effects = []effect{
	{"workspace: read", func(p *place) error { return readFile(in(p.ws, "file")) }, true, true, true},
	{"workspace: write", func(p *place) error { return write(in(p.ws, "file")) }, true, true, true},
	{"workspace: truncate", func(p *place) error { return os.Truncate(in(p.ws, "file"), 0) }, true, true, true},
	{"workspace: new folder", func(p *place) error { return os.MkdirAll(in(p.ws, "new/a/b"), 0o755) }, true, true, true},
	{"workspace: new file", func(p *place) error { return os.WriteFile(in(p.ws, "new/f"), nil, 0o644) }, true, true, true},
	{"workspace: move between folders", func(p *place) error { return os.Rename(in(p.ws, "new/f"), in(p.ws, "new/a/f")) }, true, true, true},
	{"workspace: hard link", func(p *place) error { return os.Link(in(p.ws, "new/a/f"), in(p.ws, "new/l")) }, true, true, true},
	{"workspace: symbolic link", func(p *place) error { return os.Symlink("x", in(p.ws, "new/s")) }, true, true, true},
	{"workspace: FIFO", func(p *place) error { return unix.Mkfifo(in(p.ws, "new/p"), 0o600) }, true, true, true},
	{"workspace: chmod", func(p *place) error { return os.Chmod(in(p.ws, "file"), 0o755) }, true, true, true},
	{"workspace: remove", func(p *place) error { return os.RemoveAll(in(p.ws, "new")) }, true, true, true},
	{"temporary file", func(*place) error {
		f, err := os.CreateTemp("", "probe-")
		if err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
		return err
	}, true, true, true},
	{"/dev/null", func(*place) error { return write("/dev/null") }, true, true, true},
	{"system: read", func(*place) error { return readFile("/etc/passwd") }, true, true, true},
	{"system: hidden", func(p *place) error { return readFile(p.hidden) }, true, false, false},
	{"system: list", func(*place) error { _, err := os.ReadDir("/etc"); return err }, true, true, true},

	{"outside: read", func(p *place) error { return readFile(in(p.out, "file")) }, true, false, false},
	{"outside: list", func(p *place) error { _, err := os.ReadDir(p.out); return err }, true, false, false},
	{"outside: write", func(p *place) error { return write(in(p.out, "file")) }, true, false, false},
	{"outside: truncate", func(p *place) error { return os.Truncate(in(p.out, "file"), 0) }, true, false, false},
	{"outside: new file", func(p *place) error { return os.WriteFile(in(p.out, "new"), nil, 0o600) }, true, false, false},
	{"outside: new folder", func(p *place) error { return os.Mkdir(in(p.out, "dir"), 0o700) }, true, false, false},
	{"outside: remove", func(p *place) error { return os.Remove(in(p.out, "gone")) }, true, false, false},
	{"outside: rename", func(p *place) error { return os.Rename(in(p.out, "a"), in(p.out, "b")) }, true, false, false},
	{"outside: move in", func(p *place) error { return os.Rename(in(p.out, "c"), in(p.ws, "c")) }, true, false, false},
	{"outside: move out", func(p *place) error { return os.Rename(in(p.ws, "out"), in(p.out, "d")) }, true, false, false},
	{"outside: hard link in", func(p *place) error { return os.Link(in(p.out, "file"), in(p.ws, "hard")) }, true, false, false},
	{"outside: hard link out", func(p *place) error { return os.Link(in(p.ws, "file"), in(p.out, "hard")) }, true, false, false},
	{"outside: read by link", func(p *place) error { return readFile(in(p.ws, "link/file")) }, true, false, false},
	{"outside: write by link", func(p *place) error { return write(in(p.ws, "link/file")) }, true, false, false},
	{"outside: read by /proc/self/root", func(p *place) error { return readFile("/proc/self/root" + in(p.out, "file")) }, true, false, false},
	{"outside: write by /proc/self/root", func(p *place) error { return write("/proc/self/root" + in(p.out, "file")) }, true, false, false},
	{"outside: read by the host's root", func(p *place) error { return readFile(fmt.Sprintf("/proc/%d/root%s/file", p.host, p.out)) }, true, false, false},
	{"outside: run", func(p *place) error { return command(in(p.out, "run"))(p) }, true, false, false},
	{"outside: chmod", func(p *place) error { return os.Chmod(in(p.out, "file"), 0o644) }, true, true, false},
	{"outside: times", func(p *place) error { return os.Chtimes(in(p.out, "file"), time.Time{}, time.Unix(1e9, 0)) }, true, true, false},
	{"outside: set user id", func(p *place) error { return unix.Chmod(in(p.out, "file"), 0o4755) }, true, false, false},
	{"system: write", func(*place) error {
		err := os.WriteFile("/usr/aycoder-probe", nil, 0o600)
		_ = os.Remove("/usr/aycoder-probe")
		return err
	}, os.Getuid() == 0, false, false},

	{"TCP: connect", func(p *place) error { return dial("tcp", p.tcp) }, true, false, false},
	{"TCP: listen", func(*place) error { l, err := net.Listen("tcp", "127.0.0.1:0"); closeIt(l); return err }, true, false, true},
	{"UDP", func(p *place) error { return dial("udp", p.udp) }, true, false, false},
	{"events of the kernel", func(*place) error {
		return socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_KOBJECT_UEVENT)
	}, true, false, false},
	{"MPTCP", func(*place) error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) }, true, false, true},
	{"list of interfaces", func(*place) error { _, err := net.Interfaces(); return err }, true, true, true},
	{"socket pair", pair, true, true, true},
	{"own UNIX socket", listen, true, false, true},
	{"UNIX socket outside", func(p *place) error { return dial("unix", p.unix) }, true, false, false},
	{"abstract UNIX socket outside", func(p *place) error { return dial("unix", "@"+p.unix) }, true, false, false},

	{"signal the host", func(p *place) error { return unix.Kill(p.host, 0) }, true, false, false},
	{"signal a child", command("sh", "-c", "sleep 60 & kill $!"), true, true, true},
	{"environment of the host", func(p *place) error { return sees(fmt.Sprintf("/proc/%d/environ", p.host), "PATH=") }, true, false, false},
	{"memory of the host", func(p *place) error {
		f, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.host))
		closeIt(f)
		return err
	}, true, false, false},
	{"limits of the host", hostLimit, true, false, false},
	{"own limits", func(*place) error {
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0})
	}, true, true, true},
	{"trace", func(*place) error { return not(unix.EPERM, raw(unix.SYS_PTRACE, unix.PTRACE_CONT, 1<<22)) }, true, false, false},
	{"user namespace", command("unshare", "-U", "true"), true, false, false},
	{"clone3", func(*place) error { return not(unix.ENOSYS, raw(unix.SYS_CLONE3, 0, 0)) }, true, false, false},
	{"io_uring", func(*place) error { return not(unix.ENOSYS, raw(unix.SYS_IO_URING_SETUP, 1, 0)) }, true, false, false},
	{"mount", func(*place) error { return not(unix.EPERM, raw(unix.SYS_MOUNT, 0, 0, 0)) }, true, false, false},
	{"keys", func(*place) error { return raw(unix.SYS_KEYCTL, 0, ^uintptr(2), 0) }, true, false, false},
	{"shared memory", func(*place) error { return raw(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o600) }, true, false, false},
	{"read another process", func(p *place) error {
		var b [8]byte
		v := unix.Iovec{Base: &b[0], Len: 8}
		return not(unix.EPERM, raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), uintptr(unsafe.Pointer(&v)), 1))
	}, true, false, false},
	{"type into a terminal", func(*place) error {
		return not(unix.EPERM, raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0))
	}, true, false, false},
	{"type into a terminal, high bits", func(*place) error {
		return not(unix.EPERM, raw(unix.SYS_IOCTL, 0, uintptr(high|unix.TIOCSTI), 0))
	}, true, false, false},
	{"no new privileges", status("NoNewPrivs", "1"), false, true, true},
	{"filter", status("Seccomp", "2"), false, true, true},
	{"no capabilities", status("CapPrm", "0000000000000000"), os.Getuid() != 0, true, true},
	{"no effective capabilities", status("CapEff", "0000000000000000"), os.Getuid() != 0, true, true},
}

// high is set in a half of an argument that the kernel does not look at.
var high uint64 = 1 << 32

// not turns one error into a refusal and others into none: the call got through.
func not(refused, err error) error {
	if errors.Is(err, refused) {
		return err
	}
	return nil
}

func closeIt(c io.Closer) {
	if f, ok := c.(*os.File); ok && f == nil || c == nil {
		return
	}
	c.Close()
}

// newPlace makes a workspace and its outside, with somebody who listens there. owner
// is who everything belongs to, if the test runs as root.
func newPlace(t testing.TB, owner int) *place {
	t.Helper()
	base, err := os.MkdirTemp("", "sandbox-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, removeAll(base)) })
	p := &place{ws: in(base, "ws"), out: in(base, "out"), host: os.Getpid(), hidden: in(base, "sys/secret")}
	for _, dir := range []string{p.ws, p.out, in(base, "sys")} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	for _, name := range []string{"ws/file", "ws/out", "out/file", "out/gone", "out/a", "out/c", "sys/secret", "sys/open"} {
		require.NoError(t, os.WriteFile(in(base, name), []byte("text"), 0o644))
	}
	require.NoError(t, os.Symlink(p.out, in(p.ws, "link")))
	require.NoError(t, os.WriteFile(in(p.out, "run"), []byte("#!/bin/sh\n"), 0o755))
	p.serve(t)
	if os.Getuid() == 0 {
		require.NoError(t, exec.Command("chown", "-R", "-h", strconv.Itoa(owner), base).Run())
	}
	require.NoError(t, os.Chmod(base, 0o755))
	return p
}

// serve listens for what must not reach the outside.
func (p *place) serve(t testing.TB) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	p.tcp, p.udp, p.unix = tcp.Addr().String(), udp.LocalAddr().String(), in(p.out, "s")
	path, err := net.Listen("unix", p.unix)
	require.NoError(t, err)
	abstract, err := net.Listen("unix", "@"+p.unix)
	require.NoError(t, err)
	go func() {
		buf := make([]byte, 16)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() {
		for _, c := range []io.Closer{tcp, udp, path, abstract} {
			c.Close()
		}
	})
}

// policy lets commands work in the workspace of a place, and run the probe.
func (p *place) policy(t testing.TB) Policy {
	exe, err := os.Executable()
	require.NoError(t, err)
	sys := filepath.Dir(p.hidden)
	return Policy{
		Read:  append(slices.Clone(systemFolders), filepath.Dir(exe), sys),
		Write: []string{p.ws}, Hide: []string{p.hidden},
	}
}

// probeCommand is the command that tries the effects.
func (p *place) probeCommand(exe string) *exec.Cmd {
	cmd := exec.Command(exe, p.args()...)
	cmd.Dir = p.ws
	cmd.Env = []string{probeVar + "=1", "PATH=/usr/local/bin:/usr/bin:/bin"}
	return cmd
}

// results reads what a probe printed.
func results(t testing.TB, out string) map[string]string {
	got := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		require.Len(t, f, 3, out)
		got[f[0]] = f[1] + " " + f[2]
	}
	return got
}

func runAs(uid uint32) *syscall.SysProcAttr {
	if uid == 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// copyOf copies this program to where every user can run it.
func copyOf(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(exe)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "sandbox-exe-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	name := in(dir, "probe")
	require.NoError(t, os.WriteFile(name, data, 0o755))
	return name
}
