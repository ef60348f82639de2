//go:build linux && (amd64 || arm64)

package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A command that only reads is kept from changing the content and the names of files by
// the mechanism that knows paths. This filter keeps it from everything else that leaves
// an effect, so that no path is needed to decide: Landlock has no right for modes,
// owners, times and attributes, and an effect on another process is not a file. Calls that do
// not exist yet as this is written get the answer of a kernel that lacks them.

// newestCall is the last call that was looked at for this table: rseq_slice_yield, of
// Linux 7.0.
const newestCall = 471

// attributes are calls that change what is known about a file, beside those that change
// its mode, and those that only some machines have. See inode(7) and xattr(7).
var attributes = []uint32{
	unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_FILE_SETATTR,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
}

// messages are calls on message queues: to receive takes the message from others, and
// needs no more than the right to read.
var messages = []uint32{
	unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
}

// controls are the ioctls that ask, and set nothing but what a descriptor is like. All
// others are refused: file systems have some that change a file which is open for
// reading only, or that make a snapshot of a tree, and each device has its own.
var controls = []uint32{
	unix.TCGETS, 0x802c542a /* TCGETS2 */, unix.TIOCGWINSZ, unix.TIOCGPGRP, unix.TIOCGSID, unix.TIOCOUTQ,
	0x541b /* FIONREAD */, 0x5421 /* FIONBIO */, 0x5450 /* FIONCLEX */, 0x5451 /* FIOCLEX */, 0x5452, /* FIOASYNC */
	0x5460 /* FIOQSIZE */, 0x2 /* FIGETBSZ */, unix.FS_IOC_GETFLAGS, 0x801c581f, /* FS_IOC_FSGETXATTR */
	0xc020660b /* FS_IOC_FIEMAP */, unix.BLKGETSIZE64, unix.BLKSSZGET,
}

// onlyReading makes the answers those for commands that only read.
func (t table) onlyReading() {
	for _, m := range modes {
		t.refuse(unix.EPERM, m.nr)
	}
	t.refuse(unix.EPERM, attributes...)
	t.refuse(unix.EPERM, oldAttributes...)
	t.refuse(unix.EPERM, messages...)
	t.add(oneOf(1, controls), unix.SYS_IOCTL)
	t.add(fcntlRule, unix.SYS_FCNTL)
	// A lock for writing keeps others out. One for reading is part of reading.
	t.add(noneOf(1, unix.LOCK_EX, unix.EPERM), unix.SYS_FLOCK)
	// There are no sockets but pairs, and these send to nobody else.
	t.refuse(unix.EACCES, unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT,
		unix.SYS_ACCEPT4)
	t.add(slices.Concat(zero(offArgs+4*8, unix.EACCES), zero(offArgs+4*8+4, unix.EACCES), allowed), unix.SYS_SENDTO)
	// Priorities and processors of other processes: 0 is the caller, and the first argument
	// of setpriority PRIO_PROCESS, of ioprio_set IOPRIO_WHO_PROCESS.
	itself := func(n int) []unix.SockFilter { return zero(arg(n), unix.EPERM) }
	t.add(slices.Concat(itself(0), itself(1), allowed), unix.SYS_SETPRIORITY)
	t.add(slices.Concat(equal(arg(0), 1, unix.EPERM), itself(1), allowed), unix.SYS_IOPRIO_SET)
	t.add(slices.Concat(itself(0), allowed), unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR)
}

var allowed = []unix.SockFilter{ret(allow)}

// fcntlRule refuses leases, which hold up whoever opens the file to write, hints about
// how a file is used, and operations that are newer than this table.
var fcntlRule = []unix.SockFilter{
	load(arg(1)), jump(unix.BPF_JGT, unix.F_OFD_SETLKW, 0, 3),
	jump(unix.BPF_JEQ, unix.F_SETLEASE, 1, 0), jump(unix.BPF_JGE, unix.F_SET_RW_HINT, 0, 1),
	ret(errno(unix.EPERM)), ret(allow),
}

// equal refuses a call unless a word of what the kernel shows has a value, unequal if it
// has.
func equal(off, value uint32, e unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{load(off), jump(unix.BPF_JEQ, value, 1, 0), ret(errno(e))}
}

// unequal refuses a call whose argument is the value.
func unequal(off, value uint32, e unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{load(off), jump(unix.BPF_JEQ, value, 0, 1), ret(errno(e))}
}

func zero(off uint32, e unix.Errno) []unix.SockFilter { return equal(off, 0, e) }

// oneOf refuses a call unless an argument has one of some values.
func oneOf(n int, values []uint32) []unix.SockFilter {
	out := []unix.SockFilter{load(arg(n))}
	for i, v := range values {
		out = append(out, jump(unix.BPF_JEQ, v, uint8(len(values)-i), 0))
	}
	return append(out, ret(errno(unix.EPERM)), ret(allow))
}
