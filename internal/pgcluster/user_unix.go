//go:build unix

package pgcluster

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account returns the user postgres, if this process is root.
func account() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, err1 == nil && err2 == nil
}

// own gives a directory to the account.
func own(dir string) error {
	if uid, gid, ok := account(); ok {
		return os.Chown(dir, uid, gid)
	}
	return nil
}

// as makes a command run as the account.
func as(cmd *exec.Cmd) {
	if uid, gid, ok := account(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}
