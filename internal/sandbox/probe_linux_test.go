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
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const probeVar = "SANDBOX_TEST_PROBE"

// TestMain is also the command that tries effects.
func TestMain(m *testing.M) {
	switch os.Getenv(probeVar) {
	case "":
	case "reading":
		os.Exit(probe(append(effects, readingEffects...), os.Args[1], os.Args[2], os.Args[3:]))
	case "connects":
		if err := connects(); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	case "nest":
		os.Exit(nest(os.Args[1], os.Args[2]))
	default:
		os.Exit(probe(effects, os.Args[1], os.Args[2], os.Args[3:]))
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
func probe(effects []effect, ws, out string, rest []string) int {
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
	want
	try func(p *place) error
}

// want says whether an effect happens, as it is and confined, to a process of the same
// user.
type want struct{ plain, landlock, bwrap bool }

var (
	always       = want{true, true, true}
	onlyPlain    = want{plain: true}
	onlyConfined = want{landlock: true, bwrap: true}
	notLandlock  = want{plain: true, bwrap: true}
	notBwrap     = want{plain: true, landlock: true}
)

func in(directory, name string) string { return filepath.Join(directory, name) }

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

// datagram sends from one of a pair of sockets to another one.
func datagram(to string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: to})
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
	{"workspace: read", always, func(p *place) error { return readFile(in(p.ws, "file")) }},
	{"workspace: write", always, func(p *place) error { return write(in(p.ws, "file")) }},
	{"workspace: truncate", always, func(p *place) error { return os.Truncate(in(p.ws, "file"), 0) }},
	{"workspace: new directory", always, func(p *place) error { return os.MkdirAll(in(p.ws, "new/a/b"), 0o755) }},
	{"workspace: new file", always, func(p *place) error { return os.WriteFile(in(p.ws, "new/f"), nil, 0o644) }},
	{"workspace: move between directories", always, func(p *place) error {
		return os.Rename(in(p.ws, "new/f"), in(p.ws, "new/a/f"))
	}},
	{"workspace: hard link", always, func(p *place) error { return os.Link(in(p.ws, "new/a/f"), in(p.ws, "new/l")) }},
	{"workspace: symbolic link", always, func(p *place) error { return os.Symlink("x", in(p.ws, "new/s")) }},
	{"workspace: FIFO", always, func(p *place) error { return unix.Mkfifo(in(p.ws, "new/p"), 0o600) }},
	{"workspace: chmod", always, func(p *place) error { return os.Chmod(in(p.ws, "file"), 0o755) }},
	{"workspace: remove", always, func(p *place) error { return os.RemoveAll(in(p.ws, "new")) }},
	{"temporary file", always, func(*place) error {
		f, err := os.CreateTemp("", "probe-")
		if err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
		return err
	}},
	{"/dev/null", always, func(*place) error { return write("/dev/null") }},
	{"system: read", always, func(*place) error { return readFile("/etc/passwd") }},
	{"system: hidden", onlyPlain, func(p *place) error { return readFile(p.hidden) }},
	{"system: list", always, func(*place) error { _, err := os.ReadDir("/etc"); return err }},

	{"outside: read", onlyPlain, func(p *place) error { return readFile(in(p.out, "file")) }},
	{"outside: list", onlyPlain, func(p *place) error { _, err := os.ReadDir(p.out); return err }},
	{"outside: write", onlyPlain, func(p *place) error { return write(in(p.out, "file")) }},
	{"outside: truncate", onlyPlain, func(p *place) error { return os.Truncate(in(p.out, "file"), 0) }},
	{"outside: new file", onlyPlain, func(p *place) error { return os.WriteFile(in(p.out, "new"), nil, 0o600) }},
	{"outside: new directory", onlyPlain, func(p *place) error { return os.Mkdir(in(p.out, "dir"), 0o700) }},
	{"outside: remove", onlyPlain, func(p *place) error { return os.Remove(in(p.out, "gone")) }},
	{"outside: rename", onlyPlain, func(p *place) error { return os.Rename(in(p.out, "a"), in(p.out, "b")) }},
	{"outside: move in", onlyPlain, func(p *place) error { return os.Rename(in(p.out, "c"), in(p.ws, "c")) }},
	{"outside: move out", onlyPlain, func(p *place) error { return os.Rename(in(p.ws, "out"), in(p.out, "d")) }},
	{"outside: hard link in", onlyPlain, func(p *place) error {
		return os.Link(in(p.out, "file"), in(p.ws, "hard"))
	}},
	{"outside: hard link out", onlyPlain, func(p *place) error {
		return os.Link(in(p.ws, "file"), in(p.out, "hard"))
	}},
	{"outside: read by link", onlyPlain, func(p *place) error { return readFile(in(p.ws, "link/file")) }},
	{"outside: write by link", onlyPlain, func(p *place) error { return write(in(p.ws, "link/file")) }},
	{"outside: read by /proc/self/root", onlyPlain, func(p *place) error {
		return readFile("/proc/self/root" + in(p.out, "file"))
	}},
	{"outside: write by /proc/self/root", onlyPlain, func(p *place) error {
		return write("/proc/self/root" + in(p.out, "file"))
	}},
	{"outside: read by the host's root", onlyPlain, func(p *place) error {
		return readFile(fmt.Sprintf("/proc/%d/root%s/file", p.host, p.out))
	}},
	{"outside: run", onlyPlain, func(p *place) error { return command(in(p.out, "run"))(p) }},
	{"outside: chmod", notBwrap, func(p *place) error { return os.Chmod(in(p.out, "file"), 0o644) }},
	{"outside: times", notBwrap, func(p *place) error {
		return os.Chtimes(in(p.out, "file"), time.Time{}, time.Unix(1e9, 0))
	}},
	{"outside: set user id", onlyPlain, func(p *place) error { return unix.Chmod(in(p.out, "file"), 0o4755) }},
	{"system: write", want{os.Getuid() == 0, false, false}, func(*place) error {
		err := os.WriteFile("/usr/aycoder-probe", nil, 0o600)
		_ = os.Remove("/usr/aycoder-probe")
		return err
	}},

	{"settings of the kernel", want{plain: os.Getuid() == 0}, func(*place) error {
		f, err := os.OpenFile("/proc/sys/kernel/core_pattern", os.O_WRONLY, 0)
		closeIt(f)
		return err
	}},

	{"TCP: connect", onlyPlain, func(p *place) error { return dial("tcp", p.tcp) }},
	{"TCP: listen", notLandlock, func(*place) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		closeIt(l)
		return err
	}},
	{"UDP", onlyPlain, func(p *place) error { return dial("udp", p.udp) }},
	{"events of the kernel", onlyPlain, func(*place) error {
		return socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_KOBJECT_UEVENT)
	}},
	{"MPTCP", notLandlock, func(*place) error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) }},
	{"list of interfaces", always, func(*place) error { _, err := net.Interfaces(); return err }},
	{"socket pair", always, pair},
	{"own UNIX socket", notLandlock, listen},
	{"UNIX datagram by a pair", onlyPlain, func(p *place) error { return datagram(p.unix + "d") }},
	{"abstract UNIX datagram by a pair", onlyPlain, func(p *place) error { return datagram("@" + p.unix + "d") }},
	{"UNIX socket outside", onlyPlain, func(p *place) error { return dial("unix", p.unix) }},
	{"UNIX socket in a directory that is read", notLandlock, func(p *place) error { return dial("unix", p.hidden+".sock") }},
	{"abstract UNIX socket outside", onlyPlain, func(p *place) error { return dial("unix", "@"+p.unix) }},

	{"signal the host", onlyPlain, func(p *place) error { return unix.Kill(p.host, 0) }},
	{"signal a child", always, command("sh", "-c", "sleep 60 & kill $!")},
	{"environment of the host", onlyPlain, func(p *place) error {
		return sees(fmt.Sprintf("/proc/%d/environ", p.host), "PATH=")
	}},
	{"memory of the host", onlyPlain, func(p *place) error {
		f, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.host))
		closeIt(f)
		return err
	}},
	{"limits of the host", onlyPlain, hostLimit},
	{"own limits", always, func(*place) error {
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0})
	}},
	{"limit that tells the command", onlyPlain, func(*place) error {
		return unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40})
	}},
	{"trace", onlyPlain, func(*place) error {
		return not(unix.EPERM, raw(unix.SYS_PTRACE, unix.PTRACE_CONT, 1<<22))
	}},
	{"user namespace", onlyPlain, command("unshare", "-U", "true")},
	{"clone3", onlyPlain, func(*place) error { return not(unix.ENOSYS, raw(unix.SYS_CLONE3, 0, 0)) }},
	{"io_uring", onlyPlain, func(*place) error { return not(unix.ENOSYS, raw(unix.SYS_IO_URING_SETUP, 1, 0)) }},
	{"mount", onlyPlain, func(*place) error { return not(unix.EPERM, raw(unix.SYS_MOUNT, 0, 0, 0)) }},
	{"keys", onlyPlain, func(*place) error { return raw(unix.SYS_KEYCTL, 0, ^uintptr(2), 0) }},
	{"shared memory", onlyPlain, func(*place) error { return raw(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o600) }},
	{"read another process", onlyPlain, func(p *place) error {
		var b [8]byte
		v := unix.Iovec{Base: &b[0], Len: 8}
		return not(unix.EPERM, raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), uintptr(unsafe.Pointer(&v)), 1))
	}},
	{"type into a terminal", onlyPlain, func(*place) error {
		return not(unix.EPERM, raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0))
	}},
	{"type into a terminal, high bits", onlyPlain, func(*place) error {
		return not(unix.EPERM, raw(unix.SYS_IOCTL, 0, uintptr(high|unix.TIOCSTI), 0))
	}},
	{"no new privileges", onlyConfined, status("NoNewPrivs", "1")},
	{"filter", onlyConfined, status("Seccomp", "2")},
	{"no capabilities", want{os.Getuid() != 0, true, true}, status("CapPrm", "0000000000000000")},
	{"no effective capabilities", want{os.Getuid() != 0, true, true}, status("CapEff", "0000000000000000")},
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
	t.Cleanup(func() { require.NoError(t, RemoveAll(base)) })
	p := &place{ws: in(base, "ws"), out: in(base, "out"), host: os.Getpid(), hidden: in(base, "sys/secret")}
	for _, dir := range []string{p.ws, p.out, in(base, "sys")} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	files := []string{"ws/file", "ws/out", "out/file", "out/gone", "out/a", "out/c", "sys/secret", "sys/open"}
	for _, name := range files {
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
	read, err := net.Listen("unix", p.hidden+".sock")
	require.NoError(t, err)
	abstract, err := net.Listen("unix", "@"+p.unix)
	require.NoError(t, err)
	for _, name := range []string{p.unix + "d", "@" + p.unix + "d"} {
		c, err := net.ListenPacket("unixgram", name)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
	}
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
		for _, c := range []io.Closer{tcp, udp, path, read, abstract} {
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
		Read:  append(slices.Clone(systemDirectories), filepath.Dir(exe), sys),
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
