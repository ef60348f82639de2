package proc

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Census looks through the processes of the system. Commands that share one and end at
// the same time share the looking, too. The zero value is ready to use, by many at a
// time.
type Census struct {
	busy sync.Mutex // held by the one that looks

	mu   sync.Mutex
	next *count // what those wait for who came after the last look began
}

// count is one look.
type count struct {
	since uint64 // limits are read of those that began then or later
	done  chan struct{}
	found []member
}

// member is a process as proc_pid_stat(5) and its limits tell it.
type member struct {
	pid, parent int
	session     int
	start       uint64 // in clock ticks after boot
	dead        bool   // all its threads are, and it only waits to be reaped
	soft, hard  uint64 // limits, see kin
}

// take looks through the processes, once after it was called.
func (c *Census) take(since uint64) []member {
	c.mu.Lock()
	if n := c.next; n != nil {
		n.since = min(n.since, since)
		c.mu.Unlock()
		<-n.done
		return n.found
	}
	n := &count{since: since, done: make(chan struct{})}
	c.next = n
	c.mu.Unlock()

	c.busy.Lock()
	defer c.busy.Unlock()
	c.mu.Lock()
	c.next = nil
	c.mu.Unlock()
	defer close(n.done)
	n.found = members(n.since)
	return n.found
}

// processes returns the ids of all processes.
func processes() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}

func members(since uint64) []member {
	var all []member
	var buf [4096]byte
	for _, name := range processes() {
		m, ok := readMember(name, &buf)
		if !ok {
			continue
		}
		if m.start >= since && !m.dead {
			m.limits(read("/proc/"+name+"/limits", &buf))
		}
		all = append(all, m)
	}
	return all
}

// readMember reads "pid (comm) state ppid pgrp session …", the number of threads being
// the 20th field and the start the 22nd, where comm may hold anything. The state is that
// of the first thread, which can end before the others.
func readMember(pid string, buf *[4096]byte) (m member, ok bool) {
	line := read("/proc/"+pid+"/stat", buf)
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return m, false
	}
	threads, _ := strconv.Atoi(string(fields[17]))
	m.dead = (fields[0][0] == 'Z' || fields[0][0] == 'X') && threads < 2
	m.pid, _ = strconv.Atoi(pid)
	m.parent, _ = strconv.Atoi(string(fields[1]))
	m.session, _ = strconv.Atoi(string(fields[3]))
	m.start, _ = strconv.ParseUint(string(fields[19]), 10, 64)
	return m, true
}

// limits takes what is looked for of the limits, 0 for none.
func (m *member) limits(text []byte) {
	_, line, found := bytes.Cut(text, []byte("\nMax realtime timeout"))
	if fields := bytes.Fields(line); found && len(fields) > 1 {
		m.soft, _ = strconv.ParseUint(string(fields[0]), 10, 64)
		m.hard, _ = strconv.ParseUint(string(fields[1]), 10, 64)
	}
}

// read reads a short file.
func read(name string, buf *[4096]byte) []byte {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	n, _ := syscall.Read(fd, buf[:])
	return buf[:max(n, 0)]
}
