// Package timed is for tests that depend on real time. A busy machine must not make a test fail:
// a test may exceed its time limits unless AYCODER_TIMES is set, and it may wait for a condition
// for as long as go test allows.
package timed

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Within checks that the time since start is not more than limit, as [AtMost] does.
func Within(t testing.TB, start time.Time, limit time.Duration, what ...any) {
	t.Helper()
	AtMost(t, time.Since(start), limit, what...)
}

// AtMost checks that took is not more than limit. If it is more, AtMost fails the test if the
// environment variable AYCODER_TIMES is set, and otherwise only logs the fact. The message ends
// with the values of the parameter what, which should name the operation.
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

// Best runs f n times and returns the shortest duration.
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

// reserve is the time before the deadline of go test at which Until gives up, so that the test
// can still report the condition.
const reserve = 10 * time.Second

// Until waits until cond returns true. If that takes too long, it fails the test shortly before
// the deadline of go test.
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

// Long skips a test that takes long if go test runs with -short. The parameter what is the
// subject of the test, and is a part of the message.
func Long(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: " + what)
	}
}

// Reduced reports whether the race detector is on. A test then may do less of what the detector
// cannot find anything in, such as the same steps again. Reduced writes to the log of the test that
// it does: after the tests with the race detector, .ci/run runs those without it whose logs say so.
func Reduced(t testing.TB) bool {
	t.Helper()
	if race {
		t.Log(reduced)
	}
	return race
}

// reduced is what .ci/run looks for.
const reduced = "does less with the race detector"

// Serial skips a test with the race detector, as [Reduced] has it: the detector cannot find anything
// in a test that does one thing at a time, or whose work is in other processes, and that would take many
// times as long.
func Serial(t testing.TB) {
	t.Helper()
	if Reduced(t) {
		t.Skip("it does one thing at a time, or uses other processes")
	}
}
