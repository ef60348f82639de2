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

// goroutineID returns the number of the calling goroutine, from the first line of
// its stack: "goroutine 18 [running]:".
func goroutineID() uint64 {
	var buf [64]byte
	line := strings.TrimPrefix(string(buf[:runtime.Stack(buf[:], false)]), "goroutine ")
	id, _, _ := strings.Cut(line, " ")
	n, _ := strconv.ParseUint(id, 10, 64)
	return n
}

const labelKey = "agenttest"

// labelled calls f and returns the label that every goroutine has that came of it:
// labels are inherited. So other tests of the process do not disturb the count.
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

// goneWithin waits, for as long as d, until no goroutine has the label. It returns
// the stacks of those that remain.
func goneWithin(label string, d time.Duration) string {
	for end := time.Now().Add(d); ; runtime.Gosched() {
		left := goroutinesOf(label)
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}
