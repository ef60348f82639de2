package proc

import "fmt"

// MemoryError says that a command was ended since it and all that it started took more
// memory than it may. Used is what was seen, not the most that was taken.
type MemoryError struct{ Used, Limit int64 } // bytes

// Error returns both numbers.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%d bytes of memory are taken, and at most %d allowed", e.Used, e.Limit)
}
