package tools

import (
	"fmt"

	"github.com/aycoder/aycoder/internal/proc"
)

// WithMemoryLimit bounds the memory that one command of bash takes with all that it
// started, in the background too; below 0 there is no limit. It is an error together
// with [WithExec]. It holds on Linux only: elsewhere no memory is looked at.
//
// What counts is what the kernel cannot drop: the memory that programs have filled, also
// what they share with each other, once, and what of it was swapped. Mapped files, but
// those in a tmpfs, do not count, nor do the page cache, files in a tmpfs that are not
// mapped, and memory that is only reserved.
//
// A command that takes more is killed, and the model is told with what it has printed:
// an error result that begins with "memory_limit:". Memory is looked at a tenth of a
// second after the start, and as often while the limit is near, else each second. In
// that time a command gets beyond the limit: one that fills 2 GB in a second by 0.2 GB.
// Should memory be short before that, the kernel takes commands rather than the host.
//
// Default: a quarter of the memory of the machine, or of the host's control group, if
// that has less; but 2 GB where those are at most three quarters of it, else these.
func WithMemoryLimit(bytes int64) Option {
	return func(c *config) error {
		c.memory = bytes
		return nil
	}
}

// memoryAdvice says what can be done about a command that took too much.
func memoryAdvice(e *proc.MemoryError) string {
	return fmt.Sprintf("memory_limit: the command was killed when its processes took %s of memory, at most %s are allowed; "+
		"work in smaller batches, or with fewer jobs at a time; only the program that you run in can raise the limit",
		size(e.Used), size(e.Limit))
}

// memoryState is the same in a few words.
func memoryState(e *proc.MemoryError) string { return "killed at " + size(e.Used) + " of memory" }

// size is "12 MB", "1.5 GB".
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/(1<<30))
}
