// Package timed is where tests meet the clock on the wall. A machine that is busy makes no
// test fail: bounds of time are held only where AYCODER_TIMES is set, and what a test waits
// for it waits for as long as go test lets it.
package timed

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Within holds the time since start to limit. See [AtMost].
func Within(t testing.TB, start time.Time, limit time.Duration, what ...any) {
	t.Helper()
	AtMost(t, time.Since(start), limit, what...)
}

// AtMost fails the test if took is more than limit, where AYCODER_TIMES is set. Elsewhere
// the log says so. The rest of what is passed says what took the time.
func AtMost(t testing.TB, took, limit time.Duration, what ...any) {
	t.Helper()
	if took <= limit {
		return
	}
	text := fmt.Sprintf("took %s, more than %s %s", took.Round(time.Millisecond), limit,
		fmt.Sprint(what...))
	if os.Getenv("AYCODER_TIMES") != "" {
		t.Error(text)
		return
	}
	t.Log(text + " (no failure, as AYCODER_TIMES is not set)")
}

// Best runs f n times and returns the time of the fastest.
func Best(n int, f func()) time.Duration {
	var best time.Duration
	for i := range n {
		start := time.Now()
		f()
		if took := time.Since(start); i == 0 || took < best {
			best = took
		}
	}
	return best
}

// reserve is what is left of the time of go test when Until gives up: enough to say why.
const reserve = 10 * time.Second

// Until waits for cond. It fails the test shortly before go test would end it.
func Until(t testing.TB, cond func() bool, what ...any) {
	t.Helper()
	var end time.Time
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok = d.Deadline(); ok {
			end = end.Add(-reserve)
		}
	}
	for !cond() {
		if !end.IsZero() && time.Now().After(end) {
			t.Fatalf("waited in vain: %s", fmt.Sprint(what...))
		}
		time.Sleep(time.Millisecond)
	}
}

// Long skips a test that takes long where go test is asked to be short. The skip names the
// test's subject.
func Long(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: " + what)
	}
}
