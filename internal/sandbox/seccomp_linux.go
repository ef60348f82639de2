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
	// strangers are those and the children of somebody else: one that a command makes for
	// the host stays there as a zombie, which nobody waits for.
	strangers = namespaces | unix.CLONE_PARENT

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
// its owner for everybody, which the file's owner can do also outside of the directories.
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
func newFilter(s sockets, debug bool) filter { return answers(s, debug).filter() }

// newReadingFilter makes the filter for commands that only read. Calls that are newer
// than its table are unknown to them.
func newReadingFilter() filter {
	t := answers(sockets{}, false)
	t.onlyReading()
	return t.filter(rule{newestCall + 1, math.MaxUint32, []unix.SockFilter{ret(errno(unix.ENOSYS))}})
}

// A table has what is run for each call that is not simply allowed.
type table map[uint32][]unix.SockFilter

func (t table) add(body []unix.SockFilter, calls ...uint32) {
	for _, nr := range calls {
		t[nr] = body
	}
}

// refuse answers calls with an error.
func (t table) refuse(e unix.Errno, calls ...uint32) {
	t.add([]unix.SockFilter{ret(errno(e))}, calls...)
}

// answers are what commands get for their calls.
func answers(s sockets, debug bool) table {
	t := table{}
	t.refuse(unix.EPERM, refused...)
	t.refuse(unix.ENOSYS, absent...)
	if !debug {
		t.refuse(unix.EPERM, unix.SYS_PTRACE)
	}
	t.add(noneOf(0, strangers, unix.EPERM), unix.SYS_CLONE)
	t.add(noneOf(0, namespaces|unix.CLONE_NEWTIME, unix.EPERM), unix.SYS_UNSHARE)
	for _, m := range modes {
		t.add(noneOf(m.arg, unix.S_ISUID, unix.EPERM), m.nr)
	}
	// These ioctls type into a terminal what a shell outside would run.
	t.add([]unix.SockFilter{
		load(arg(1)), jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
		jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1), ret(errno(unix.EPERM)), ret(allow),
	}, unix.SYS_IOCTL)
	t.add(socketRule(s.families()), unix.SYS_SOCKET)
	if s.bridged {
		t.bridge()
	}
	t.add(pairRule(s.unix), unix.SYS_SOCKETPAIR)
	t.add(slices.Concat(unequal(arg(0), tagLimit, unix.EPERM), allowed), unix.SYS_SETRLIMIT)
	t.add(slices.Concat(asksLimit, zero(arg(0), unix.EPERM), unequal(arg(1), tagLimit, unix.EPERM), allowed), unix.SYS_PRLIMIT64)
	return t
}

// bridge leaves to commands sockets for streams over TCP, and hands to this process where they
// lead. To send with MSG_FASTOPEN connects too, and to listen binds a socket that has no address.
func (t table) bridge() {
	const kindMask = 0xf // SOCK_TYPE_MASK of linux/net.h
	t.add(append([]unix.SockFilter{
		load(arg(0)), jump(unix.BPF_JEQ, unix.AF_INET, 1, 0), jump(unix.BPF_JEQ, unix.AF_INET6, 0, 8),
		load(arg(1)), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: kindMask}, jump(unix.BPF_JEQ, unix.SOCK_STREAM, 0, 3),
		load(arg(2)), jump(unix.BPF_JEQ, 0, 2, 0), jump(unix.BPF_JEQ, unix.IPPROTO_TCP, 1, 0),
		ret(errno(unix.EACCES)), ret(allow),
	}, socketRule(nil)...), unix.SYS_SOCKET)
	t.refuse(unix.EACCES, unix.SYS_LISTEN)
	t.connects()
}

// connects hands all ways to connect to this process.
func (t table) connects() {
	t.add([]unix.SockFilter{ret(unix.SECCOMP_RET_USER_NOTIF)}, unix.SYS_CONNECT)
	t.add(noneOf(3, unix.MSG_FASTOPEN, unix.EOPNOTSUPP), unix.SYS_SENDTO, unix.SYS_SENDMMSG)
	t.add(noneOf(2, unix.MSG_FASTOPEN, unix.EOPNOTSUPP), unix.SYS_SENDMSG)
}

// newBridgeFilter makes a filter that only hands connects to this process.
func newBridgeFilter() filter {
	t := table{}
	t.connects()
	return t.filter()
}

// filter is the program that finds what is run for a call; more rules have no calls of
// the table.
func (t table) filter(more ...rule) filter {
	rules := more
	for nr, body := range t {
		rules = append(rules, rule{nr, nr, body})
	}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.first, b.first) })
	f := filter{
		load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), ret(kill),
		load(offNumber),
	}
	return slices.Concat(f, foreignNumbers, search(merge(rules)))
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

// tagLimit is the limit by which package proc knows the processes of a command that left
// its session. A process that cannot change it cannot escape.
const tagLimit = unix.RLIMIT_RTTIME

// asksLimit allows prlimit64 without a new limit, the address of which is its third
// argument.
var asksLimit = []unix.SockFilter{
	load(offArgs + 2*8), jump(unix.BPF_JEQ, 0, 0, 3), load(offArgs + 2*8 + 4), jump(unix.BPF_JEQ, 0, 0, 1),
	ret(allow),
}

// pairRule allows pairs of UNIX sockets. Where no other UNIX socket may be had, these
// are not of datagrams: one of those sends to whatever name it is given.
func pairRule(others bool) []unix.SockFilter {
	out := []unix.SockFilter{load(arg(0)), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), ret(errno(unix.EACCES))}
	if others {
		return append(out, ret(allow))
	}
	return append(out, noneOf(1, unix.SOCK_DGRAM, unix.EACCES)...)
}

// noneOf allows a call if none of some bits are set in an argument.
func noneOf(n int, bits uint32, e unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{load(arg(n)), jump(unix.BPF_JSET, bits, 0, 1), ret(errno(e)), ret(allow)}
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
