//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// filtered says that system calls can be filtered on this kind of machine.
const filtered = true

const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16

	// namespaces open more of the kernel to a process than it has any use for.
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

// refused are calls that nothing a coding agent runs has to make. Some reach into other
// processes or memory that is shared with them, some have been the way into the kernel
// time and again.
var refused = []uint32{
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP,
	unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV,
	unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_SYSLOG,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOUNT_SETATTR, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_SETNS,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
}

// absent are calls that programs do without where the kernel is older: io_uring opens
// sockets past a filter, and the flags of clone3 are in memory that no filter sees.
var absent = []uint32{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_CLONE3,
}

// A modeCall sets a file's mode to an argument. None may make a program that runs as
// its owner for everybody, which the file's owner can do also outside of the folders.
type modeCall struct {
	nr  uint32
	arg int
}

// families are what socket may be asked for.
func (s sockets) families() []uint32 {
	var out []uint32
	if s.network {
		out = append(out, unix.AF_INET, unix.AF_INET6)
	}
	if s.unix {
		out = append(out, unix.AF_UNIX)
	}
	return out
}

// A rule is what is run for the calls from first to last. All its ways end there.
type rule struct {
	first, last uint32
	body        []unix.SockFilter
}

// code runs the body for a number that is the rule's, and goes on behind it with others.
func (r rule) code() filter {
	n := uint8(len(r.body))
	if r.first == r.last {
		return append(filter{jump(unix.BPF_JEQ, r.first, 0, n)}, r.body...)
	}
	return append(filter{jump(unix.BPF_JGE, r.first, 0, n+1), jump(unix.BPF_JGT, r.last, n, 0)}, r.body...)
}

// newFilter makes the filter for commands. debug lets them trace each other.
func newFilter(s sockets, debug bool) filter {
	f := filter{
		load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), ret(kill),
		load(offNumber),
	}
	return slices.Concat(f, foreignNumbers, search(rules(s, debug)))
}

// rules are sorted by the numbers of the calls.
func rules(s sockets, debug bool) []rule {
	var out []rule
	add := func(nr uint32, body ...unix.SockFilter) { out = append(out, rule{nr, nr, body}) }
	for _, nr := range refused {
		add(nr, ret(errno(unix.EPERM)))
	}
	for _, nr := range absent {
		add(nr, ret(errno(unix.ENOSYS)))
	}
	if !debug {
		add(unix.SYS_PTRACE, ret(errno(unix.EPERM)))
	}
	add(unix.SYS_CLONE, noneOf(0, namespaces)...)
	add(unix.SYS_UNSHARE, noneOf(0, namespaces|unix.CLONE_NEWTIME)...)
	for _, m := range modes {
		add(m.nr, noneOf(m.arg, unix.S_ISUID)...)
	}
	// These ioctls type into a terminal what a shell outside would run.
	add(unix.SYS_IOCTL, load(arg(1)), jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
		jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1), ret(errno(unix.EPERM)), ret(allow))
	add(unix.SYS_SOCKET, socketRule(s.families())...)
	add(unix.SYS_SOCKETPAIR, load(arg(0)), jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 1), ret(allow),
		ret(errno(unix.EACCES)))
	add(unix.SYS_PRLIMIT64, limitRule...)
	slices.SortFunc(out, func(a, b rule) int { return cmp.Compare(a.first, b.first) })
	return merge(out)
}

// merge makes one rule of those that follow each other and say the same.
func merge(rules []rule) []rule {
	out := rules[:1]
	for _, r := range rules[1:] {
		if last := &out[len(out)-1]; last.last+1 == r.first && slices.Equal(last.body, r.body) {
			last.last = r.last
			continue
		}
		out = append(out, r)
	}
	return out
}

// search finds the rule for a number, and allows a call that has none. The kernel
// translates a new filter and runs it once for every number there is, so it is short,
// and halves what is left at each step.
func search(rules []rule) filter {
	if len(rules) <= 2 {
		var f filter
		for _, r := range rules {
			f = append(f, r.code()...)
		}
		return append(f, ret(allow))
	}
	half := len(rules) / 2
	low, high := search(rules[:half]), search(rules[half:])
	if len(low) <= math.MaxUint8 {
		return slices.Concat(filter{jump(unix.BPF_JGE, rules[half].first, uint8(len(low)), 0)}, low, high)
	}
	return slices.Concat(filter{
		jump(unix.BPF_JGE, rules[half].first, 0, 1),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(low))},
	}, low, high)
}

// socketRule allows families, and netlink sockets for addresses and routes, which
// programs ask for a list of the network's interfaces.
func socketRule(families []uint32) []unix.SockFilter {
	out := []unix.SockFilter{load(arg(0))}
	for _, family := range families {
		out = append(out, jump(unix.BPF_JEQ, family, 0, 1), ret(allow))
	}
	return append(out,
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3), load(arg(2)), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 0, 1),
		ret(allow), ret(errno(unix.EACCES)))
}

// limitRule lets a process set its own limits, and look at those of others.
var limitRule = []unix.SockFilter{
	load(offArgs), jump(unix.BPF_JEQ, 0, 0, 1), ret(allow),
	load(offArgs + 2*8), jump(unix.BPF_JEQ, 0, 0, 2), load(offArgs + 2*8 + 4),
	jump(unix.BPF_JEQ, 0, 1, 0), ret(errno(unix.EPERM)), ret(allow),
}

// noneOf allows a call if none of some bits are set in an argument.
func noneOf(n int, bits uint32) []unix.SockFilter {
	return []unix.SockFilter{load(arg(n)), jump(unix.BPF_JSET, bits, 0, 1), ret(errno(unix.EPERM)), ret(allow)}
}

// arg is where the lower half of an argument is: both kinds of machine put it first.
// The kernel takes no more of the arguments that are looked at here.
func arg(n int) uint32 { return offArgs + 8*uint32(n) }

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
