//go:build unix

package regular

import "syscall"

// nonblock keeps open from waiting for the writer of a named pipe.
const nonblock = syscall.O_NONBLOCK
