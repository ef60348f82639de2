package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/internal/timed"
)

// reads are the effects of commands that only read, of those in the table.
var reads = []string{
	"workspace: read", "temporary file", "/dev/null", "system: read", "system: hidden", "system: list", "outside: read",
	"outside: list", "outside: read by link", "outside: read by /proc/self/root", "outside: run", "socket pair",
	"signal a child", "own limits", "no new privileges", "filter",
}

// inBox are those of them that the policy of a workspace does not allow.
var inBox = []string{
	"system: hidden", "outside: read", "outside: list", "outside: read by link", "outside: read by /proc/self/root", "outside: run",
}

func refusedIf(err error) error { return not(unix.EPERM, err) }

func onFile(p *place, do func(fd int) error) error {
	f, err := os.Open(in(p.ws, "file"))
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
}

func number(nr uintptr, args ...uintptr) func(*place) error {
	return func(*place) error { return refusedIf(raw(nr, args...)) }
}

// readingEffects are tried by commands that only read, beside those of the table. All of
// them happen to a command that is not confined.
var readingEffects = []effect{
	{"reading: chmod", onlyPlain, func(p *place) error { return os.Chmod(in(p.ws, "file"), 0o600) }},
	{"reading: chmod of a descriptor", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return unix.Fchmod(fd, 0o644) })
	}},
	{"reading: chmod by /proc", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o600) })
	}},
	{"reading: fchmodat2", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return unix.Fchmodat(fd, "", 0o644, unix.AT_EMPTY_PATH) })
	}},
	{"reading: chown", onlyPlain, func(p *place) error { return os.Lchown(in(p.ws, "file"), os.Getuid(), os.Getgid()) }},
	{"reading: fchown", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) })
	}},
	{"reading: times", onlyPlain, func(p *place) error { return unix.UtimesNanoAt(unix.AT_FDCWD, in(p.ws, "file"), nil, 0) }},
	{"reading: set attribute", onlyPlain, func(p *place) error {
		return unix.Setxattr(in(p.ws, "file"), "user.x", []byte("1"), 0)
	}},
	{"reading: set attribute of a descriptor", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("2"), 0) })
	}},
	{"reading: remove attribute", onlyPlain, func(p *place) error { return unix.Removexattr(in(p.ws, "file"), "user.x") }},
	{"reading: setxattrat", onlyPlain, number(unix.SYS_SETXATTRAT, 0, 0, 0, 0, 0, 0)},
	{"reading: removexattrat", onlyPlain, number(unix.SYS_REMOVEXATTRAT, 0, 0, 0, 0)},
	{"reading: file_setattr", onlyPlain, number(unix.SYS_FILE_SETATTR, 0, 0, 0, 0, 0)},
	{"reading: flags", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error {
			flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			return refusedIf(unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags)))
		})
	}},
	{"reading: verity", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return refusedIf(raw(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_ENABLE_VERITY, 0)) })
	}},
	{"reading: lease", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		})
	}},
	{"reading: lock for writing", onlyPlain, func(p *place) error {
		return onFile(p, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	}},
	{"reading: priority of the host", onlyPlain, func(p *place) error {
		is, err := unix.Getpriority(unix.PRIO_PROCESS, p.host) // 20 less than it is
		if err != nil {
			return err
		}
		return unix.Setpriority(unix.PRIO_PROCESS, p.host, 20-is)
	}},
	{"reading: processors of the host", onlyPlain, func(p *place) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(p.host, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(p.host, &set)
	}},
	{"reading: ioprio of the host", onlyPlain, func(p *place) error {
		return raw(unix.SYS_IOPRIO_SET, 1, uintptr(p.host), 0)
	}},
	{"reading: message queue", onlyPlain, func(*place) error {
		return not(unix.EPERM, raw(unix.SYS_MQ_TIMEDRECEIVE, ^uintptr(0), 0, 0, 0, 0))
	}},
	{"reading: netlink", onlyPlain, func(*place) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, 0) }},
	{"reading: abstract socket of a pair", onlyPlain, func(*place) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Bind(fds[0], &unix.SockaddrUnix{Name: "@aycoder-probe"})
	}},
}

// tryReading runs the probe as a command that only reads.
func tryReading(t *testing.T, open func(p *place, exe string) *Box, want func(e effect) bool) {
	t.Helper()
	p := newPlace(t, os.Getuid())
	exe := copyOf(t)
	cmd := p.probeCommand(exe)
	cmd.Env[0] = probeVar + "=reading"
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	before := describe(t, p)
	if open == nil {
		require.NoError(t, cmd.Start())
	} else {
		b := open(p, exe)
		defer func() { require.NoError(t, b.Close()) }()
		r, err := b.Start(t.Context(), cmd, Call{ReadOnly: true, Temp: t.TempDir()})
		require.NoError(t, err)
		assert.True(t, r.ReadOnly && r.Network && r.Signals && r.Syscalls && r.NoNewPrivs)
		assert.Empty(t, r.Missing)
	}
	require.NoError(t, cmd.Wait(), out.String())
	got := results(t, out.String())
	all := slices.Concat(effects, readingEffects)
	for _, e := range all {
		if e.name == "workspace: remove" {
			continue // of what the probe could not make, which may be no error
		}
		result := got[e.name]
		assert.Equal(t, want(e), strings.HasPrefix(result, "true"), "%s: %s", e.name, result)
	}
	assert.Equal(t, open == nil, before != describe(t, p))
	t.Logf("%d effects", len(all))
}

// describe tells when something of the files of a place last changed, by its time of
// change, which nobody can set.
func describe(t *testing.T, p *place) string {
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(filepath.Dir(p.ws), func(name string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		require.NoError(t, errors.Join(err, unix.Lstat(name, &st)))
		fmt.Fprintf(&b, "%s %o %d %v\n", name, st.Mode, st.Nlink, st.Ctim)
		return nil
	}))
	return b.String()
}

func TestEffectsReadingPlain(t *testing.T) {
	tryReading(t, nil, func(e effect) bool { return e.plain })
}

func TestEffectsReading(t *testing.T) {
	timed.Serial(t)
	needLandlock(t)
	tryReading(t, func(*place, string) *Box { return Reader() }, func(e effect) bool {
		ofUsers := strings.HasPrefix(e.name, "no ") && strings.HasSuffix(e.name, "capabilities") && os.Getuid() != 0
		return slices.Contains(reads, e.name) || ofUsers
	})
}

// In a box of the host's, commands that only read see what the others may look at or
// change there, and are held to the same.
func TestEffectsReadingInABox(t *testing.T) {
	timed.Serial(t)
	needLandlock(t)
	boxes := map[string]func(Policy) *Box{"landlock": Landlock}
	if _, err := exec.LookPath("bwrap"); err == nil {
		boxes["bwrap"] = Bubblewrap
	}
	for name, box := range boxes {
		t.Run(name, func(t *testing.T) {
			tryReading(t, func(p *place, exe string) *Box {
				policy := p.policy(t)
				policy.Read = append(policy.Read, exe)
				policy.Network, policy.Sockets, policy.Debug = true, true, true
				return box(policy)
			}, func(e effect) bool {
				capabilities := strings.HasPrefix(e.name, "no ") && strings.HasSuffix(e.name, "capabilities")
				return slices.Contains(reads, e.name) && !slices.Contains(inBox, e.name) || capabilities
			})
		})
	}
}

// Devices are not opened, but those that programs take for granted.
func TestReadingDevices(t *testing.T) {
	needLandlock(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal := "/dev/pts/" + strconv.Itoa(n)
	script := `for f; do true <$f && echo $f; done 2>/dev/null; ls /dev/null`
	devices := []string{terminal, "/dev/ptmx", "/dev/null", "/dev/zero", "/dev/urandom", "/etc/passwd", "/proc/self/status", "/dev/fd/0"}
	for _, reads := range []bool{false, true} {
		cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, devices...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		var out bytes.Buffer
		cmd.Stdout = &out
		want := append(slices.Clone(devices), "/dev/null")
		if reads {
			_, err = Reader().Start(t.Context(), cmd, Call{ReadOnly: true})
			want = want[2:]
		} else {
			err = cmd.Start()
		}
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		assert.Equal(t, want, strings.Fields(out.String()))
	}
}

// The right of user 0 to read what others have is kept, and no other.
func TestReadingAsRoot(t *testing.T) {
	needLandlock(t)
	if os.Getuid() != 0 {
		t.Skip("only root reads what others have")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(in(dir, "f"), []byte("text"), 0o600))
	for _, name := range []string{in(dir, "f"), dir} {
		require.NoError(t, os.Chown(name, 65534, 65534))
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	b := Reader()
	cmd := shell(`cat "$0/f" && grep CapEff /proc/self/status`)
	cmd.Args = append(cmd.Args, dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	r, err := b.Start(t.Context(), cmd, Call{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "textCapEff:\t0000000000000004\n", out.String())
	assert.False(t, r.Capabilities)
}

// Commands at the same time can neither signal each other nor write where the other has
// its temporary files.
func TestReadingSideBySide(t *testing.T) {
	needLandlock(t)
	b := Reader()
	one, two := t.TempDir(), t.TempDir()
	var out bytes.Buffer
	first := exec.Command("sleep", "60")
	_, err := b.Start(t.Context(), first, Call{ReadOnly: true, Temp: one})
	require.NoError(t, err)
	second := shell(`kill $0 || echo not signalled; true >"$1/x" || echo not written; true >"$TMPDIR/x" && echo written`)
	second.Args = append(second.Args, strconv.Itoa(first.Process.Pid), one)
	second.Stdout = &out
	_, err = b.Start(t.Context(), second, Call{ReadOnly: true, Temp: two})
	require.NoError(t, err)
	require.NoError(t, second.Wait())
	assert.Equal(t, "not signalled\nnot written\nwritten\n", out.String())
	require.NoError(t, first.Process.Kill())
	require.ErrorContains(t, first.Wait(), "signal: killed")
	assert.NoFileExists(t, in(one, "x"))
	assert.FileExists(t, in(two, "x"))
}
