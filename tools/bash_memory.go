package tools

import (
	"fmt"

	"github.com/aycoder/aycoder/internal/proc"
)

// WithMemoryLimit sets the limit, in bytes, for the memory that a command of bash may take
// together with all processes that it started. The limit also applies to each background command.
// A negative value disables the limit. The option cannot be combined with [WithExec]. It has an
// effect only on Linux, since memory is not measured on other systems.
//
// Only memory that the kernel cannot discard counts: pages that the programs have filled,
// including swapped pages. A page that several processes share counts once. A mapped file counts
// only if it is in a tmpfs. The page cache, reserved memory, and files in a tmpfs that no process
// has mapped do not count.
//
// A command that exceeds the limit is killed. The model gets an error result that begins with
// "memory_limit:" and includes the output so far. Memory is measured 0.1 s after the start. After
// that it is measured every 0.1 s if the command is near the limit, and every second otherwise. A
// command can exceed the limit between two measurements, for example by 0.2 GB if it fills 2 GB
// per second. If the machine runs out of memory between two measurements, the kernel kills a
// command rather than this process.
//
// Default: a quarter of the machine's memory, but at least 2 GB and at most three quarters of the
// machine's memory. If the control group of this process has less memory than the machine, the
// memory of the control group counts instead.
func WithMemoryLimit(bytes int64) Option {
	return func(c *config) error {
		c.memory = bytes
		return nil
	}
}

// memoryAdvice tells the model what it can do about a command that exceeded the limit.
func memoryAdvice(e *proc.MemoryError) string {
	return fmt.Sprintf("memory_limit: the command was killed when its processes took %s of memory, at most %s are allowed; "+
		"work in smaller batches, or with fewer jobs at a time; only the program that you run in can raise the limit",
		size(e.Used), size(e.Limit))
}

// memoryState is the short form of memoryAdvice.
func memoryState(e *proc.MemoryError) string { return "killed at " + size(e.Used) + " of memory" }

// size formats bytes as "12 MB" or "1.5 GB".
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/(1<<30))
}
