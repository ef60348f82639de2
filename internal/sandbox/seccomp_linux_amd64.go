package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// foreignNumbers ends programs that use the numbers of the x32 ABI, which have this bit
// and would pass the filter otherwise.
var foreignNumbers = []unix.SockFilter{jump(unix.BPF_JSET, 0x40000000, 0, 1), ret(kill)}

var modes = []modeCall{
	{unix.SYS_CHMOD, 1}, {unix.SYS_FCHMOD, 1}, {unix.SYS_FCHMODAT, 2}, {unix.SYS_FCHMODAT2, 2},
}

// oldAttributes are the calls that later ones have replaced, and that not every machine
// has.
var oldAttributes = []uint32{
	unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}
