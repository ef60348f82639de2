package timed

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// log is a test that notes what is done to it.
type log struct {
	testing.TB
	end   time.Time
	lines []string
}

func (l *log) Helper()         {}
func (l *log) Log(args ...any) { l.lines = append(l.lines, "log: "+fmt.Sprint(args...)) }
func (l *log) Error(args ...any) {
	l.lines = append(l.lines, "error: "+fmt.Sprint(args...))
}

func (l *log) Fatalf(format string, args ...any) {
	l.lines = append(l.lines, "fatal: "+fmt.Sprintf(format, args...))
	panic(l)
}
func (l *log) Deadline() (time.Time, bool) { return l.end, true }

func TestWithin(t *testing.T) {
	for env, want := range map[string][]string{
		"":  {"log: took 3s, more than 2s a walk (no failure, as AYCODER_TIMES is not set)"},
		"1": {"error: took 3s, more than 2s a walk"},
	} {
		t.Setenv("AYCODER_TIMES", env)
		synctest.Test(t, func(t *testing.T) {
			l, start := &log{}, time.Now()
			time.Sleep(3 * time.Second)
			Within(l, start, 3*time.Second, "a walk")
			assert.Empty(t, l.lines)
			Within(l, start, 2*time.Second, "a walk")
			assert.Equal(t, want, l.lines)
		})
	}
}

func TestBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := []time.Duration{3, 1, 2}
		n := 0
		assert.Equal(t, time.Second, Best(3, func() { time.Sleep(waits[n] * time.Second); n++ }))
	})
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{end: time.Now().Add(time.Minute)}
		start, n := time.Now(), 0
		Until(l, func() bool { n++; return n == 4 })
		assert.Equal(t, 3*time.Millisecond, time.Since(start))
		assert.PanicsWithValue(t, l, func() { Until(l, func() bool { return false }, "for ", 1) })
		assert.Equal(t, []string{"fatal: waited in vain: for 1"}, l.lines)
		assert.InDelta(t, 50*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
}
