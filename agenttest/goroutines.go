package agenttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// goroutineID returns the number of the calling goroutine. It reads the first line of the stack,
// "goroutine 18 [running]:", because the runtime has no function for it.
func goroutineID() uint64 {
	var buf [64]byte
	line := strings.TrimPrefix(string(buf[:runtime.Stack(buf[:], false)]), "goroutine ")
	id, _, _ := strings.Cut(line, " ")
	n, _ := strconv.ParseUint(id, 10, 64)
	return n
}

// onStack reports whether the function that begins at entry is on the stack of the calling
// goroutine. It is much cheaper than goroutineID, which formats the whole stack.
func onStack(entry uintptr) bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == entry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// labelKey is the key of the profiler label that marks the goroutines of one check.
const labelKey = "agenttest"

// labelled calls f and returns a profiler label. All goroutines that f starts, directly or
// indirectly, inherit the label. Counting by label leaves out the goroutines of other tests.
func labelled(ctx context.Context, f func(context.Context)) string {
	label := rand.Text()
	pprof.Do(ctx, pprof.Labels(labelKey, label), f)
	return label
}

// goroutinesOf returns the stacks of the goroutines that have the label, or "".
func goroutinesOf(label string) string {
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return err.Error()
	}
	mark := fmt.Sprintf("%q:%q", labelKey, label)
	var out []string
	for block := range strings.SplitSeq(buf.String(), "\n\n") {
		if strings.Contains(block, mark) {
			out = append(out, strings.TrimSpace(block))
		}
	}
	return strings.Join(out, "\n\n")
}

// goneWithin waits at most d for all goroutines with the label to end. It returns the stacks of
// those that remain, or "".
func goneWithin(label string, d time.Duration) string {
	for end := time.Now().Add(d); ; runtime.Gosched() {
		left := goroutinesOf(label)
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}
