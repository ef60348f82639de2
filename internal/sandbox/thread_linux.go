package sandbox

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onFreshThread has fn called on a thread that ends with it, so that fn may take rights
// from the thread for good. Processes that fn starts are started by that thread.
//
// A goroutine that ends while it is locked to its thread takes the thread with it, and
// the runtime makes no other threads from a locked one. Only the first thread of a
// program never ends, and stands for the program in /proc: it is kept out.
func onFreshThread(fn func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			fn()
			return
		}
		defer runtime.UnlockOSThread()
		elsewhere := make(chan struct{})
		onFreshThread(func() { // cannot get this thread, which is held until it has one
			close(elsewhere)
			fn()
		})
		<-elsewhere
	}()
}

// capabilities is a set of them, as in capabilities(7).
type capabilities uint64

// dropOthers takes all capabilities but these from this thread, and all but those of pass,
// which the thread must have, from what it will run. The bounding set stays: to drop it takes a
// tenth of the time to start a command, and it bounds nothing for a process that has no new
// privileges and whose user 0 is nobody special.
func (keep capabilities) dropOthers(pass capabilities) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&head, &has[0]); err != nil {
		return fmt.Errorf("ask for them: %w", err)
	}
	if has[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
			return fmt.Errorf("make user 0 a user like others: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the ambient set: %w", err)
	}
	low := uint32(keep|pass) & has[0].Permitted
	data := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: uint32(pass)}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("set none: %w", err)
	}
	if pass == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_DAC_READ_SEARCH, 0, 0); err != nil {
		return fmt.Errorf("pass on the right to read: %w", err)
	}
	return nil
}

// readAll is the capability to read what any user has. With it alone, user 0 reads what
// it could before, and changes no more than without.
const readAll capabilities = 1 << unix.CAP_DAC_READ_SEARCH

// hasReadAll reports whether what this thread runs as it is has that capability.
func hasReadAll() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	return err == nil && bits&noRoot == 0 && os.Geteuid() == 0 && unix.Capget(&head, &has[0]) == nil &&
		has[0].Permitted&uint32(readAll) != 0
}

// noRoot is SECBIT_NOROOT and SECBIT_NOROOT_LOCKED of capabilities(7): what user 0 runs
// gets no capabilities for that.
const noRoot = 1<<0 | 1<<1
