package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// foreignNumbers is empty: there is one set of numbers.
var foreignNumbers = []unix.SockFilter{}

var modes = []modeCall{{unix.SYS_FCHMOD, 1}, {unix.SYS_FCHMODAT, 2}, {unix.SYS_FCHMODAT2, 2}}

// oldAttributes are the calls that later ones have replaced, and that not every machine
// has.
var oldAttributes = []uint32{}
