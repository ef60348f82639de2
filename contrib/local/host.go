package local

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// linuxMemory reads /proc/meminfo, the limit of the control group, and how long programs wait for memory.
func (h *Hardware) linuxMemory(m machine) error {
	data, err := m.read("/proc/meminfo")
	if err != nil {
		return err
	}
	if h.Total, h.Available = parseMeminfo(data); h.Total == 0 {
		return fmt.Errorf("/proc/meminfo: %s", firstLine(data))
	}
	for _, name := range [][3]string{{"memory.max", "memory.current", "memory.stat"}, // version 2, and 1
		{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"}} {
		var text [3]string
		for i := range name {
			data, _ := m.read("/sys/fs/cgroup/" + name[i])
			text[i] = string(data)
		}
		h.Total, h.Available = within(h.Total, h.Available, text[0], text[1], text[2])
	}
	if data, err := m.read("/proc/pressure/memory"); err == nil {
		h.stalled = parsePSI(data)
	}
	return nil
}

// parseMeminfo reads lines such as "MemAvailable:   24052096 kB". Kernels before 3.14 do not say what is available.
func parseMeminfo(data []byte) (total, available int64) {
	v := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		key, rest, _ := strings.Cut(line, ":")
		n, _ := count(rest)
		v[key] = n << 10
	}
	if available = v["MemAvailable"]; available == 0 {
		available = v["MemFree"] + v["Buffers"] + v["Cached"]
	}
	return v["MemTotal"], min(available, v["MemTotal"])
}

// within applies the limit of a control group, if there is one. Of what is used, the system gives back what it has of files
// that nobody has read twice, such as a model after its download.
func within(total, available int64, limit, used, stat string) (int64, int64) {
	l, ok1 := count(limit) // or "max"
	u, ok2 := count(used)
	if !ok1 || !ok2 || l >= total {
		return total, available
	}
	if _, cached, ok := strings.Cut("\n"+stat, "\ninactive_file "); ok {
		cached, _, _ = strings.Cut(cached, "\n")
		n, _ := count(cached)
		u -= min(n, u)
	}
	return l, min(available, max(0, l-u))
}

var psi = regexp.MustCompile(`(?m)^(some|full) avg10=([\d.]+)`)

// parsePSI reads how much of the last 10 seconds some, or all, programs have waited for memory:
// https://docs.kernel.org/accounting/psi.html
func parsePSI(data []byte) (l pressureLevel) {
	for _, m := range psi.FindAllSubmatch(data, 2) {
		if share, err := strconv.ParseFloat(string(m[2]), 64); err == nil && share >= 10 {
			l = max(l, map[string]pressureLevel{"some": 1, "full": 2}[string(m[1])])
		}
	}
	return l
}

// appleMemory asks sysctl and vm_stat.
func (h *Hardware) appleMemory(ctx context.Context, m machine) error {
	size, err := m.ask(ctx, "sysctl", "-n", "hw.memsize")
	if err != nil {
		return err
	}
	h.Total, _ = count(string(size))
	out, err := m.ask(ctx, "vm_stat")
	if err != nil {
		return err
	}
	h.Available = min(parseVMStat(out), h.Total)
	// 1 is normal, 2 warning, 4 critical.
	if out, err := m.run(ctx, "sysctl", "-n", "kern.memorystatus_vm_pressure_level"); err == nil {
		n, _ := count(string(out))
		h.stalled = map[int64]pressureLevel{2: 1, 4: 2}[n]
	}
	return nil
}

var pageSize = regexp.MustCompile(`page size of (\d+) bytes`)

// parseVMStat returns what is free, and what can be had without swapping: files that are cached, and what is purgeable.
func parseVMStat(out []byte) int64 {
	size := int64(4096)
	if m := pageSize.FindSubmatch(out); m != nil {
		size, _ = count(string(m[1]))
	}
	pages := int64(0)
	for line := range strings.Lines(string(out)) {
		key, rest, _ := strings.Cut(line, ":")
		switch key {
		case "Pages free", "Pages speculative", "Pages purgeable", "File-backed pages":
			n, _ := count(strings.TrimSuffix(strings.TrimSpace(rest), "."))
			pages += n
		}
	}
	return pages * min(size, 1<<20)
}
