package proc

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// kin are the processes that a command has started, and they in turn. Those in its
// session are known by that. One that started a new session is known by a tag: a limit for
// which no program has a use, set to a number that only this command has. Children inherit it
// and nobody can raise it, whereas variables of the environment are overwritten by many a
// daemon. No namespace is needed, and none is used: in one a command would see other process
// ids than its user, could not end the server that was started before, and would not find what
// a later command asks for.
type kin struct {
	census *Census
	leader int       // its id, which must not be reaped yet, so that it is its own
	since  uint64    // when it began
	tag    uint64    // 0 if there is none
	limits [2]uint64 // soft and hard, with the tag
}

const (
	rlimitRTTime = 15 // CPU time of a real-time process that does not block, in µs
	noLimit      = ^uint64(0)
	oomScore     = 500 // of at most 1000; the more, the sooner
)

// mark tags a process that was just started and has no children yet. It also has the
// kernel take what this process uses before the host, when memory is short.
func mark(pid int, census *Census) *kin {
	k := &kin{census: census, leader: pid}
	var buf [4096]byte
	self, err := os.Readlink("/proc/self")
	m, ok := readMember(strconv.Itoa(pid), &buf)
	if err != nil || self != strconv.Itoa(os.Getpid()) || !ok {
		k.leader = 0 // this is the /proc of another namespace, which has other ids
		return k
	}
	k.since = m.start
	k.setTag()
	offer(pid, &buf)
	return k
}

// adopt marks what descends from a process and is not marked. Some sandboxes are quicker
// than mark: bwrap clones itself at once, and its child becomes the parent of all others.
func (k *kin) adopt(pid int) {
	if k.tag == 0 {
		return
	}
	var buf [4096]byte
	id := strconv.Itoa(pid)
	for _, child := range children(read("/proc/"+id+"/task/"+id+"/children", &buf)) {
		if !k.tagged(child) && prlimit(child, &k.limits, nil) {
			offer(child, &buf)
		}
		k.adopt(child)
	}
}

// children parses a list of ids, each with a space behind it. The end may be cut off, where
// pages of memory are larger than what was read, and half an id is that of another.
func children(list []byte) (pids []int) {
	whole := list[:bytes.LastIndexByte(list, ' ')+1]
	for name := range strings.FieldsSeq(string(whole)) {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// offer has the kernel choose a process when memory is short.
func offer(pid int, buf *[4096]byte) {
	own := bytes.TrimSpace(read("/proc/self/oom_score_adj", buf))
	if n, err := strconv.Atoi(string(own)); err == nil && n < oomScore {
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", strconv.AppendInt(nil, oomScore, 10), 0)
	}
}

// setTag sets the limit. If there is one, this is a command of a host that is one
// itself: then only the lower of the two numbers is set, and the other stays its.
func (k *kin) setTag() {
	var old, tag [2]uint64 // soft, hard
	if !prlimit(k.leader, nil, &old) {
		return
	}
	tag[1] = min(old[1], 1<<62)
	tag[0] = tag[1] - 1 - rand.Uint64N(1<<48)
	if old[1] == noLimit {
		tag[1] = tag[0]
	}
	if old[1] > 1<<48 && prlimit(k.leader, &tag, nil) {
		k.tag, k.limits = tag[0], tag
	}
}

func prlimit(pid int, limit, old *[2]uint64) bool {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), rlimitRTTime,
		uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(old)), 0, 0)
	return e == 0
}

// killRounds bounds how often processes are looked through. One that has got SIGKILL
// is gone within a few rounds, unless the kernel holds it, say on a disk.
const killRounds = 200

// quietLooks is how many looks at the last ids must find nothing. On a busy machine, so many processes may
// start during one look that all of a chain are out of its reach.
const quietLooks = 4

// kill kills until nothing lives, and returns how many processes it may not kill.
func (k *kin) kill() (refused int) {
	for range killRounds {
		alive := k.chase()
		for _, m := range k.alive() {
			if k.send(m, syscall.SIGKILL) {
				alive++
			} else {
				refused++
			}
		}
		for look := 1; alive == 0 && look < quietLooks; look++ {
			alive = k.chase()
		}
		if alive == 0 {
			break
		}
		refused = 0
		time.Sleep(time.Millisecond)
	}
	return refused
}

// chase kills those that were just started, and returns how many. A process that starts
// another and exits, again and again, is never found by looking through all: it is gone
// when its turn comes. But at every moment there is one, its id is about the last that
// the system gave, and a look at an id takes a hundredth of the time of such a step.
func (k *kin) chase() (killed int) {
	if k.tag == 0 {
		return 0
	}
	var buf [4096]byte
	fields := bytes.Fields(read("/proc/loadavg", &buf))
	if len(fields) < 5 {
		return 0
	}
	last, _ := strconv.Atoi(string(fields[4])) // see proc_loadavg(5)
	for pid := max(last-chaseBehind, 2); pid < last+chaseAhead; pid++ {
		if pid == k.leader || !k.tagged(pid) {
			continue
		}
		if m, ok := readMember(strconv.Itoa(pid), &buf); ok && !m.dead && k.tagged(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed++
		}
	}
	return killed
}

// chaseBehind and chaseAhead are how far from the last id is looked.
const chaseBehind, chaseAhead = 64, 64

// alive returns all but the leader that live.
func (k *kin) alive() []member {
	if k.leader == 0 {
		return nil
	}
	var out []member
	for _, m := range k.census.take(k.since) {
		if !m.dead && k.has(m) {
			out = append(out, m)
		}
	}
	return out
}

func (k *kin) has(m member) bool {
	return m.pid != k.leader &&
		(m.session == k.leader || k.tag != 0 && m.start >= k.since && (m.soft == k.tag || m.hard == k.tag))
}

// pids returns all that are there, the leader and the dead too. It asks the kernel about
// each process of the system and reads no file of it, unlike a census, and so takes a
// twentieth of the time.
func (k *kin) pids() []int {
	var out []int
	for _, name := range processes() {
		if pid, err := strconv.Atoi(name); err == nil && k.hasPID(pid) {
			out = append(out, pid)
		}
	}
	return out
}

func (k *kin) hasPID(pid int) bool {
	session, _, e := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if e == 0 && int(session) == k.leader {
		return true
	}
	return k.tagged(pid)
}

func (k *kin) tagged(pid int) bool {
	var limits [2]uint64
	return k.tag != 0 && prlimit(pid, nil, &limits) && slices.Contains(limits[:], k.tag)
}

// send signals a process that was found, and not the next one with its id. It reports
// false if the system does not allow it.
func (k *kin) send(m member, sig syscall.Signal) bool {
	p, err := os.FindProcess(m.pid) // a descriptor, where there are such
	if err != nil {
		return true
	}
	defer func() { _ = p.Release() }()
	var buf [4096]byte
	if now, ok := readMember(strconv.Itoa(m.pid), &buf); !ok || now.start != m.start {
		return true
	}
	return !errors.Is(p.Signal(sig), os.ErrPermission)
}
