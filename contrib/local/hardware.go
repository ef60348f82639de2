package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder/internal/proc"
)

// A GPU is what a vendor's tool says about one.
type GPU struct {
	// Vendor is "nvidia", "amd", "intel" or "apple".
	Vendor string
	Name   string
	// Total and Free are bytes of memory that models may use. They are 0 if the tool does not tell.
	Total, Free int64
	// Busy is the part of the time that it works, in percent, or -1.
	Busy int
	// Unified says that the memory is that of the host.
	Unified bool
	// Source is the tool.
	Source string
}

// Hardware is what models can be loaded into.
type Hardware struct {
	GPUs []GPU
	// Total and Available are bytes of the host's memory. In a container with a limit, they are that of the container. They
	// are 0 if the system does not tell.
	Total, Available int64
	// Notes say what a tool that is installed could not tell.
	Notes []string

	stalled pressureLevel // what the system itself says
}

// driverMemory is what a driver and its libraries take on a GPU for a program that uses it: 300 to 500 MB with CUDA and ROCm.
const driverMemory = 400 << 20

// Devices returns the GPUs whose free memory is known, for [Model.Advise].
func (h Hardware) Devices() (list []Device) {
	for _, g := range h.GPUs {
		if g.Free == 0 {
			continue
		}
		d := Device{Name: g.Name, Free: g.Free, Reserve: driverMemory, Shared: g.Unified}
		if g.Unified {
			d.Reserve = 0
		}
		list = append(list, d)
	}
	return list
}

// A machine is where tools run and files are read.
type machine struct {
	system string // as in runtime.GOOS
	run    func(ctx context.Context, name string, args ...string) ([]byte, error)
	read   func(name string) ([]byte, error)
	memory func() (total, available int64, err error) // of a system call
}

func thisMachine() machine {
	return machine{system: runtime.GOOS, run: runTool, read: os.ReadFile, memory: systemMemory}
}

// Limits of a tool.
const (
	toolTime   = 5 * time.Second
	toolOutput = 1 << 20
)

var errOutput = fmt.Errorf("it writes more than %d bytes", toolOutput)

// runTool runs a tool of a vendor, and returns what it writes, at most for 5 seconds and 1 MiB. intel_gpu_top does not end by
// itself: of a tool that is stopped, what it has written counts.
func runTool(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	proc.Alone(cmd)
	out := &limited{stop: cancel}
	cmd.Stdout = out
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = cmd.Cancel() // it has left something that holds its output
	}
	if out.over {
		err = errOutput
	}
	if ctx.Err() != nil && !out.over {
		err = context.Cause(ctx)
	}
	return out.buf.Bytes(), err
}

// A limited buffer stops a tool that writes too much. The buffer is not embedded, since io.Copy would use its ReadFrom.
type limited struct {
	buf  bytes.Buffer
	stop func()
	over bool
}

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if l.buf.Len()+len(p) > toolOutput {
		l.over = true
		l.stop()
		return 0, errOutput
	}
	return l.buf.Write(p)
}

// A vendor is how the GPUs of one are found.
type vendor struct {
	name   string
	detect func(context.Context, machine) ([]GPU, error)
}

func vendors(system string) []vendor {
	if system == "darwin" {
		return []vendor{{"apple", appleGPUs}}
	}
	return []vendor{{"nvidia", nvidiaGPUs}, {"amd", amdGPUs}, {"intel", intelGPUs}}
}

// Detect asks the tools of the vendors that are installed: nvidia-smi, amd-smi or rocm-smi, xpu-smi or intel_gpu_top, and on macOS
// system_profiler and ioreg. They run at the same time, each for 5 seconds at most. A tool that is not installed is ignored, and
// one that fails is a note.
func Detect(ctx context.Context) Hardware { return detect(ctx, thisMachine()) }

func detect(ctx context.Context, m machine) Hardware {
	var h Hardware
	list := vendors(m.system)
	gpus, errs := make([][]GPU, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for i, v := range list {
		wg.Go(func() { gpus[i], errs[i] = v.detect(ctx, m) })
	}
	h.host(ctx, m)
	wg.Wait()
	for i, v := range list {
		h.GPUs = append(h.GPUs, gpus[i]...)
		if errs[i] != nil && !errors.Is(errs[i], exec.ErrNotFound) {
			h.Notes = append(h.Notes, fmt.Sprintf("%s: %v", v.name, errs[i]))
		}
	}
	for i := range h.GPUs {
		if g := &h.GPUs[i]; g.Unified {
			if g.Total == 0 {
				g.Total, g.Free = h.Total, h.Available
			}
			if h.Available > 0 {
				g.Free = min(g.Free, h.Available)
			}
		}
	}
	return h
}

// host finds out about the memory of the host.
func (h *Hardware) host(ctx context.Context, m machine) {
	var err error
	switch m.system {
	case "linux":
		err = h.linuxMemory(m)
	case "darwin":
		err = h.appleMemory(ctx, m)
	default:
		h.Total, h.Available, err = m.memory()
	}
	if err != nil {
		h.Notes = append(h.Notes, fmt.Sprintf("host: %v", err))
	}
}

// A Pressure is an event: how much memory is left has changed.
type Pressure struct {
	// Device is "host" or the name of a GPU.
	Device string
	// Level is "normal"; "warning" when less than 10 % are free, or programs wait for memory; or "critical" when less than 5 %
	// are free, or all programs wait.
	Level string
	// Free and Total are bytes.
	Free, Total int64
}

type pressureLevel int

var pressureNames = []string{"normal", "warning", "critical"}

// level returns the level for what is free. It falls only when there is some more free than what made it rise.
func level(free, total int64, now pressureLevel) pressureLevel {
	for l := pressureLevel(2); l > 0; l-- {
		limit := []int64{0, 10, 5}[l]
		if l <= now {
			limit += 2
		}
		if free*100 < total*limit {
			return l
		}
	}
	return 0
}

// Watch looks at the memory every so often, and calls report for each device at first, and then when its level has changed. It
// returns when ctx ends, or when report returns false. The tools are not asked more than once a second.
func Watch(ctx context.Context, every time.Duration, report func(Pressure) bool) {
	watch(ctx, thisMachine(), every, report)
}

func watch(ctx context.Context, m machine, every time.Duration, report func(Pressure) bool) {
	tick := time.NewTicker(max(every, time.Second))
	defer tick.Stop()
	levels := map[string]pressureLevel{}
	for {
		h := detect(ctx, m)
		if ctx.Err() != nil {
			return
		}
		for _, r := range h.readings() {
			old, known := levels[r.key]
			l := max(level(r.Free, r.Total, old), r.told)
			if levels[r.key] = l; known && l == old {
				continue
			}
			if r.Level = pressureNames[l]; !report(r.Pressure) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// A reading is what is known about a device. The key tells devices of the same name apart, and told is what the system itself says.
type reading struct {
	Pressure
	key  string
	told pressureLevel
}

// readings are those of the devices whose memory is known.
func (h Hardware) readings() (list []reading) {
	if h.Total > 0 {
		list = append(list, reading{Pressure{Device: "host", Free: h.Available, Total: h.Total}, "host", h.stalled})
	}
	for i, g := range h.GPUs {
		if g.Total > 0 && !g.Unified {
			list = append(list, reading{Pressure{Device: cmp.Or(g.Name, "GPU"), Free: g.Free, Total: g.Total}, fmt.Sprint(i), 0})
		}
	}
	return list
}

// firstLine is for errors of tools.
func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "")
}
