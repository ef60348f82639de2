package proc

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killRounds bounds how often a session is looked through. A process that has got
// SIGKILL is gone within a few rounds, unless the kernel holds it, say on a disk.
const killRounds = 200

// killSession kills all that is in the session of a leader, in whatever group, until
// nothing lives there. The leader must not be reaped yet, so that its id is its own.
func killSession(leader int) {
	// A /proc of another namespace has other ids.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return
	}
	for round := range killRounds {
		if round > 1 {
			time.Sleep(time.Millisecond)
		}
		if killMembers(leader) == 0 {
			return
		}
	}
}

// killMembers kills what it finds in a session, and returns how many processes of
// those were alive.
func killMembers(leader int) (alive int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == leader {
			continue
		}
		session, dead := sessionOf(name)
		if session != leader {
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if !dead {
			alive++
		}
	}
	return alive
}

// sessionOf reads the session of a process, 0 if there is no such process, and
// whether it only waits to be reaped. From proc_pid_stat(5): "pid (comm) state ppid
// pgrp session", where comm may hold anything.
func sessionOf(pid string) (session int, dead bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	s := string(stat)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 4 {
		return 0, false
	}
	session, _ = strconv.Atoi(fields[3])
	return session, fields[0] == "Z" || fields[0] == "X"
}
