package tools

import (
	"fmt"

	"github.com/aycoder/aycoder/internal/proc"
)

// WithMemoryLimit limits the memory in bytes that one command of bash and all processes
// it started may take, also in the background. A negative value disables the limit. The
// option cannot be combined with [WithExec]. It works on Linux only; elsewhere memory is
// not measured.
//
// Only memory that the kernel cannot drop is counted: pages that the programs have
// filled, including swapped ones, and pages that they share once. Mapped files in a tmpfs
// count, other mapped files do not; neither do the page cache, files in a tmpfs that are
// not mapped, and reserved memory.
//
// A command that exceeds the limit is killed. The model gets an error result that begins
// with "memory_limit:" and has the output so far. Memory is measured a tenth of a second
// after the start, then every tenth of a second near the limit and every second below. In
// between, a command can exceed the limit: one that fills 2 GB a second does so by 0.2
// GB. Should the machine run out of memory earlier, the kernel kills commands rather than
// the host.
//
// Default: a quarter of the memory of the machine, or of the control group of the host if
// that has less; but 2 GB if that is more, and at most three quarters of the memory.
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
