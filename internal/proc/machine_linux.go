package proc

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// share is how much of its memory a machine gives to one command.
func share(all int64) int64 { return min(max(all/4, 2<<30), all/4*3) }

// available returns how much memory there is for this program and its commands.
func available() int64 {
	all := int64(math.MaxInt64)
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		all = int64(info.Totalram) * int64(info.Unit)
	}
	var buf [4096]byte
	return min(all, cgroupLimit("/sys/fs/cgroup", read("/proc/self/cgroup", &buf)))
}

// cgroupLimit returns the least limit of the groups in a file such as /proc/self/cgroup,
// and of the groups that they are in, below where they are mounted. Each line is
// "id:controllers:path", without controllers in version 2.
func cgroupLimit(mount string, self []byte) int64 {
	least := int64(math.MaxInt64)
	var buf [4096]byte
	for line := range strings.Lines(string(self)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		root, file := mount, "memory.max"
		if parts[1] != "" {
			root, file = mount+"/memory", "memory.limit_in_bytes"
			if !slices.Contains(strings.Split(parts[1], ","), "memory") {
				continue
			}
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			text := strings.TrimSpace(string(read(root+dir+"/"+file, &buf)))
			if n, err := strconv.ParseInt(text, 10, 64); err == nil { // not "max"
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}
