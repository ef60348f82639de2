package proc

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// secondLook is after how long a sum that is too much is looked at again.
	secondLook = 10 * time.Millisecond
	// growth is how many bytes commands are thought to take in a second, for when to
	// look again. One thread fills 2 to 3 GiB.
	growth = 8 << 30
	// rest is how many times as long as a look it is until the next one, if that is not
	// too seldom.
	rest = 20
)

// memory looks at what a command takes: anonymous memory, what is shared with names or
// without, and what of both was swapped. Files that are mapped are left out, as the
// kernel can drop them.
type memory struct {
	kin   *kin
	early bool          // see kin.look
	limit int64         // 0 if it was not looked up yet
	last  map[int]int64 // of each process, if that was too much a moment ago
}

// look returns a function that looks at what the command takes, for a [watch]. It is nil
// if there is no limit, or who belongs to the command is not known. Early says that it
// may have started others before it was marked.
func (k *kin) look(limit int64, early bool) func() (time.Duration, error) {
	if k.leader == 0 || limit < 0 {
		return nil
	}
	m := &memory{kin: k, limit: limit, early: early}
	return m.look
}

func (m *memory) look() (next time.Duration, err error) {
	start := time.Now()
	if m.limit == 0 {
		m.limit = share(available())
	}
	if m.early {
		m.kin.adopt(m.kin.leader)
	}
	used, sure := m.used(m.kin.pids())
	switch {
	case !sure:
		return secondLook, nil
	case used > m.limit:
		return 0, &MemoryError{Used: used, Limit: m.limit}
	}
	full := time.Duration(float64(m.limit-used) / growth * float64(time.Second))
	return min(max(lookOften, full, rest*time.Since(start)), lookSeldom), nil
}

// used returns how much is taken, and whether that is sure. A sum counts twice what
// processes share, and what one has mapped twice, as the collector of Java's heap does, so
// one that is too much is not trusted: see apart.
func (m *memory) used(pids []int) (used int64, sure bool) {
	var sum, most int64
	for _, pid := range pids {
		private, shared := resident(pid)
		sum, most = sum+private+shared, max(most, private)
	}
	switch {
	case most > m.limit:
		return most, true
	case sum > m.limit:
		return m.apart(pids)
	}
	m.last = nil
	return sum, true
}

// apart counts once what processes share. The kernel tells which pages are shared since a fork;
// this takes 10 ms for each GiB. It does not tell what a process shares with a child that is
// about to run another program, see borrows, which may not say so, or that has just ended: it
// takes a second look to be sure, and for each process the lesser number.
func (m *memory) apart(pids []int) (used int64, sure bool) {
	now := make(map[int]int64, len(pids))
	var sum, least int64
	for _, pid := range pids {
		if borrows(pid) {
			continue
		}
		n := proportional(pid)
		now[pid] = n
		sum, least = sum+n, least+min(n, m.last[pid])
	}
	switch {
	case m.last != nil:
		m.last = nil
		return least, true
	case sum > m.limit:
		m.last = now
		return sum, false
	}
	return sum, true
}

// borrows says that a process uses the memory of its parent, as after vfork(2). That is
// over when it runs another program, which a slow disk can delay.
func borrows(pid int) bool {
	const memory = 1 // KCMP_VM
	var buf [4096]byte
	m, ok := readMember(strconv.Itoa(pid), &buf)
	differ, _, e := syscall.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(m.parent), memory, 0, 0, 0)
	return ok && e == 0 && differ == 0
}

// resident returns what a process has in memory and in swap, see proc_pid_status(5): what
// it may share with forks of itself only, and what it may have mapped more than once.
func resident(pid int) (private, shared int64) {
	dir := "/proc/" + strconv.Itoa(pid)
	text := status(dir)
	if kilobytes(text, "VmRSS") == 0 { // the first thread has ended, see readMember
		tasks, _ := os.ReadDir(dir + "/task")
		for i := 1; i < len(tasks) && kilobytes(text, "VmRSS") == 0; i++ {
			text = status(dir + "/task/" + tasks[i].Name())
		}
	}
	private, shared = kilobytes(text, "RssAnon", "VmSwap"), kilobytes(text, "RssShmem")
	if private+shared == 0 {
		shared = kilobytes(text, "VmRSS") // before Linux 4.5
	}
	return private, shared
}

// status reads what is told of a process or a thread. The list of the groups of its user
// can be longer than all else, and comes first.
func status(dir string) []byte {
	var buf [4096]byte
	text := read(dir+"/status", &buf)
	if len(text) == len(buf) {
		text, _ = os.ReadFile(dir + "/status")
	}
	return text
}

// proportional returns the same, but of what is shared only this process's part.
func proportional(pid int) int64 {
	var buf [4096]byte
	text := read("/proc/"+strconv.Itoa(pid)+"/smaps_rollup", &buf)
	if len(text) == 0 {
		private, shared := resident(pid)
		return private + shared
	}
	return cmp.Or(kilobytes(text, "Pss_Anon", "Pss_Shmem", "SwapPss"), kilobytes(text, "Pss"))
}

// kilobytes adds up lines such as "VmRSS:  1 kB", in bytes.
func kilobytes(text []byte, names ...string) (sum int64) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		if slices.Contains(names, string(name)) {
			number, _, _ := bytes.Cut(bytes.TrimSpace(value), []byte{' '})
			n, _ := strconv.ParseInt(string(number), 10, 64)
			sum += n << 10
		}
	}
	return sum
}
