//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A call is what the kernel shows a filter.
type call struct {
	arch, nr uint32
	args     [6]uint64
}

func (c call) word(off uint32) uint32 {
	switch {
	case off == offNumber:
		return c.nr
	case off == offArch:
		return c.arch
	}
	arg := c.args[(off-offArgs)/8]
	return uint32(arg >> (off % 8 * 8))
}

// run runs a filter as the kernel does, and fails where it would not take it.
func (f filter) run(t testing.TB, c call) uint32 {
	t.Helper()
	var a uint32
	for at := 0; at < len(f); at++ {
		i := f[at]
		yes := false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = c.word(i.K)
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(i.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = a == i.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			yes = a >= i.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes = a > i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = a&i.K != 0
		default:
			require.Fail(t, "no such instruction", "%#x", i.Code)
		}
		if yes {
			at += int(i.Jt)
		} else {
			at += int(i.Jf)
		}
	}
	require.Fail(t, "the filter has no end")
	return 0
}

// wanted is what a call must be answered, said in another way than by the filter.
func wanted(s sockets, debug bool, c call) uint32 {
	low := func(n int) uint32 { return uint32(c.args[n]) }
	mode := func(n int) uint32 { return refuseIf(low(n)&unix.S_ISUID != 0, unix.EPERM) }
	switch c.nr {
	case unix.SYS_SOCKET:
		if s.bridged && (low(0) == unix.AF_INET || low(0) == unix.AF_INET6) {
			return refuseIf(low(1)%16 != 1 || low(2) != 0 && low(2) != 6, unix.EACCES)
		}
		ok := low(0) == unix.AF_NETLINK && low(2) == 0 || s.unix && low(0) == unix.AF_UNIX ||
			s.network && (low(0) == unix.AF_INET || low(0) == unix.AF_INET6)
		return refuseIf(!ok, unix.EACCES)
	case unix.SYS_SOCKETPAIR:
		datagrams := low(1)&2 != 0 // 2 is SOCK_DGRAM, 3 is SOCK_RAW, which is that too
		return refuseIf(low(0) != unix.AF_UNIX || !s.unix && datagrams, unix.EACCES)
	case unix.SYS_SETRLIMIT:
		return refuseIf(low(0) == 15, unix.EPERM)
	case unix.SYS_PRLIMIT64:
		return refuseIf(c.args[2] != 0 && (low(0) != 0 || low(1) == 15), unix.EPERM)
	case unix.SYS_IOCTL:
		return refuseIf(low(1) == 0x5412 || low(1) == 0x541c, unix.EPERM)
	case unix.SYS_PTRACE:
		return refuseIf(!debug, unix.EPERM)
	case unix.SYS_CLONE:
		return refuseIf(low(0)&0x7e028000 != 0, unix.EPERM)
	case unix.SYS_UNSHARE:
		return refuseIf(low(0)&0x7e020080 != 0, unix.EPERM)
	case unix.SYS_FCHMOD:
		return mode(1)
	case unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		return mode(2)
	}
	if s.bridged {
		switch c.nr {
		case unix.SYS_CONNECT:
			return unix.SECCOMP_RET_USER_NOTIF
		case unix.SYS_LISTEN:
			return refuseIf(true, unix.EACCES)
		case unix.SYS_SENDMSG:
			return refuseIf(low(2)&0x20000000 != 0, unix.EOPNOTSUPP) // MSG_FASTOPEN
		case unix.SYS_SENDTO, unix.SYS_SENDMMSG:
			return refuseIf(low(3)&0x20000000 != 0, unix.EOPNOTSUPP)
		}
	}
	if slices.Contains(absent, c.nr) {
		return refuseIf(true, unix.ENOSYS)
	}
	return refuseIf(slices.Contains(refused, c.nr), unix.EPERM)
}

func refuseIf(no bool, e unix.Errno) uint32 {
	if no {
		return unix.SECCOMP_RET_ERRNO | uint32(e)
	}
	return unix.SECCOMP_RET_ALLOW
}

// special are values on the edge of what the filter asks for.
var special = []uint64{
	0, 1, 2, 10, 16, 17, unix.S_ISUID, 0o4755, 0o755, unix.TIOCSTI, unix.TIOCLINUX, 1<<32 | unix.TIOCSTI,
	unix.CLONE_NEWUSER, unix.CLONE_NEWNS, unix.CLONE_NEWTIME, unix.CLONE_VM | unix.CLONE_VFORK, 1 << 32, ^uint64(0),
	unix.MSG_FASTOPEN, unix.MSG_FASTOPEN | 1<<32, unix.SOCK_CLOEXEC | 1,
}

func TestFilterAnswers(t *testing.T) {
	n := 0
	for _, s := range []sockets{{}, {network: true}, {unix: true}, {network: true, unix: true}, {bridged: true}} {
		for _, debug := range []bool{false, true} {
			f := newFilter(s, debug)
			require.Less(t, len(f), unix.BPF_MAXINSNS)
			for nr := range uint32(600) {
				for _, v := range special {
					c := call{arch: auditArch, nr: nr, args: [6]uint64{v, v, v, v, v, v}}
					if chmods(nr) {
						continue
					}
					require.Equal(t, wanted(s, debug, c), f.run(t, c), "call %d with %#x", nr, v)
					n++
				}
			}
		}
	}
	t.Logf("%d calls", n)
}

// wantedReading is what a command that only reads must be answered, where that differs
// from what others are.
func wantedReading(c call) uint32 {
	low := func(n int) uint32 { return uint32(c.args[n]) }
	itself := func(n int) bool { return low(n) == 0 }
	switch c.nr {
	case unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
		unix.SYS_FREMOVEXATTR, 463, 466, 469,
		unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR:
		return refuseIf(true, unix.EPERM)
	case unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4:
		return refuseIf(true, unix.EACCES)
	case unix.SYS_SENDTO:
		return refuseIf(c.args[4] != 0, unix.EACCES)
	case unix.SYS_IOCTL:
		asks := []uint32{
			0x5401, 0x802c542a, 0x5413, 0x540f, 0x5429, 0x5411, 0x541b, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460, 2,
			0x80086601, 0x801c581f, 0xc020660b, 0x80081272, 0x1268,
		}
		return refuseIf(!slices.Contains(asks, low(1)), unix.EPERM)
	case unix.SYS_FCNTL:
		return refuseIf(low(1) == 1024 || low(1) >= 1036, unix.EPERM)
	case unix.SYS_FLOCK:
		return refuseIf(low(1)&2 != 0, unix.EPERM)
	case unix.SYS_SETPRIORITY:
		return refuseIf(!itself(0) || !itself(1), unix.EPERM)
	case unix.SYS_IOPRIO_SET:
		return refuseIf(low(0) != 1 || !itself(1), unix.EPERM)
	case unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR:
		return refuseIf(!itself(0), unix.EPERM)
	}
	if c.nr > 471 {
		return refuseIf(true, unix.ENOSYS)
	}
	return wanted(sockets{}, false, c)
}

func TestFilterAnswersReading(t *testing.T) {
	f := newReadingFilter()
	require.Less(t, len(f), unix.BPF_MAXINSNS)
	old := map[uint32]bool{}
	for _, nr := range append(slices.Clone(oldAttributes), modes[0].nr) {
		old[nr] = true
		assert.Equal(t, refuseIf(true, unix.EPERM), f.run(t, call{arch: auditArch, nr: nr}), "call %d", nr)
	}
	n := 0
	values := append(slices.Clone(special), 0x5401, 0x5413, 0x80086601, 0x40086602, 0x1_0000_5401, 1024, 1025, 1035, 1036, 1038, 38, 39, 15, 3, 5)
	for nr := range uint32(600) {
		for _, v := range values {
			for _, w := range values[:8] {
				c := call{arch: auditArch, nr: nr, args: [6]uint64{w, v, w, v, v << 32, v}}
				if old[nr] {
					continue
				}
				require.Equal(t, wantedReading(c), f.run(t, c), "call %d with %#x", nr, c.args)
				n++
			}
		}
	}
	t.Logf("%d calls, %d instructions", n, len(f))
}

// chmods reports whether a number is of chmod, which not every machine has.
func chmods(nr uint32) bool { return modes[0].nr == nr && nr != unix.SYS_FCHMOD }

func TestFilterEndsForeignPrograms(t *testing.T) {
	f := newFilter(sockets{network: true, unix: true}, true)
	for _, arch := range []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM} {
		assert.EqualValues(t, unix.SECCOMP_RET_KILL_PROCESS, f.run(t, call{arch: arch, nr: 1}))
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		assert.EqualValues(t, unix.SECCOMP_RET_KILL_PROCESS, f.run(t, call{arch: auditArch, nr: 0x40000001}))
		assert.EqualValues(t, refuseIf(true, unix.EPERM),
			f.run(t, call{arch: auditArch, nr: modes[0].nr, args: [6]uint64{1: 0o4755}}))
	}
}

// The way to an answer is short for every number.
func TestFilterIsShort(t *testing.T) {
	f := newFilter(sockets{}, false)
	assert.Less(t, len(f), 250)
	assert.Len(t, f.bytes(), 8*len(f))
	t.Logf("%d instructions", len(f))
}

func FuzzFilter(f *testing.F) {
	f.Add(uint32(unix.SYS_SOCKET), uint64(2), uint64(1), uint64(0), true)
	f.Add(uint32(unix.SYS_PRLIMIT64), uint64(1), uint64(1), uint64(1)<<40, false)
	f.Fuzz(func(t *testing.T, nr uint32, a, b, d uint64, on bool) {
		c := call{arch: auditArch, nr: nr, args: [6]uint64{a, b, d}}
		s := sockets{network: on, unix: !on, bridged: on && nr&1 == 0}
		got := newFilter(s, on).run(t, c)
		switch {
		case chmods(nr):
			assert.Equal(t, refuseIf(uint32(b)&unix.S_ISUID != 0, unix.EPERM), got)
		case len(foreignNumbers) > 0 && nr&0x40000000 != 0:
			assert.EqualValues(t, unix.SECCOMP_RET_KILL_PROCESS, got)
		default:
			assert.Equal(t, wanted(s, on, c), got)
		}
	})
}
