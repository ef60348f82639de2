package proc

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/internal/timed"
)

// taking is a script that takes a number of bytes and keeps them: tail(1) reads for the
// end of a line.
func taking(bytes int) string {
	return "{ head -c " + strconv.Itoa(bytes) + " /dev/zero; sleep 300; } | tail -n 1"
}

func TestMemoryLimit(t *testing.T) {
	timed.Long(t, "commands that take much memory")
	const limit = 64 << 20
	tests := map[string]string{
		"one":        taking(200 << 20),
		"many":       "for i in 1 2 3 4 5 6 7 8 9 10; do " + taking(10<<20) + " & done; wait",
		"daemon":     "setsid sh -c '" + taking(100<<20) + "' >/dev/null 2>&1 & sleep 300",
		"in memory":  "dd if=/dev/zero bs=100M count=1 2>&1 | sleep 300",
		"ignores it": "trap '' TERM; " + taking(100<<20),
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			c := sh("echo before; " + script)
			c.Memory = limit
			text, r, err := run(within(t, time.Minute), c)
			e, ok := errors.AsType[*MemoryError](err)
			require.True(t, ok, "%v", err)
			assert.EqualValues(t, limit, e.Limit)
			assert.Greater(t, e.Used, e.Limit)
			assert.Equal(t, "before\n", text)
			assert.Zero(t, r.Survivors)
			assert.False(t, r.Held)
		})
	}
}

// Commands that stay below the limit, although a first look says otherwise.
func TestMemoryWithinLimit(t *testing.T) {
	timed.Long(t, "commands that take much memory")
	fill := "x=$(head -c 20000000 /dev/zero | tr '\\0' x); "
	tests := []struct {
		name, script string
		limit        int64
	}{
		{"no limit", "sleep 0.3; echo done", -1},
		{"the machine's", "sleep 0.3; echo done", 0},
		{"little", "sleep 0.3; echo done", 64 << 20},
		// Each of the shells has the 20 MB of the first.
		{"shared after a fork", fill + "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (sleep 300; :) & done; sleep 0.5; echo done", 150 << 20},
		{"files", "head -c 100000000 /dev/zero >FILE; cat FILE >/dev/null; sleep 0.3; echo done", 64 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := sh(strings.ReplaceAll(tt.script, "FILE", filepath.Join(t.TempDir(), "f")))
			c.Memory = tt.limit
			text, r, err := run(t.Context(), c)
			require.NoError(t, err)
			assert.Equal(t, "done\n", text)
			assert.Zero(t, r.Code)
		})
	}
}

// A command that ends before the first look is not looked at.
func TestFastCommandIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w := newWatch(func() (time.Duration, error) { looks++; return 0, nil })
		<-time.After(firstLook - 1)
		w.stop()
		<-time.After(time.Hour)
		assert.Zero(t, looks)
	})
}

// A look that hangs holds up no cancel, and is waited for.
func TestCancelDuringLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, ended := make(chan struct{}), false
		p := &process{watch: newWatch(func() (time.Duration, error) {
			close(begun)
			<-time.After(time.Hour)
			ended = true
			return 0, nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		start := time.Now()
		require.ErrorIs(t, p.wait(ctx, nil), context.Canceled)
		assert.Equal(t, firstLook, time.Since(start))
		p.watch.stop()
		assert.True(t, ended)
	})
}

// A command that has exited when the look is over has ended by itself.
func TestExitDuringLook(t *testing.T) {
	exited := make(chan struct{})
	close(exited)
	for range 100 {
		w := newWatch(func() (time.Duration, error) { return 0, &MemoryError{} })
		w.begin()
		w.seen <- <-w.seen // it is there by now
		p := &process{watch: w}
		require.NoError(t, p.wait(t.Context(), exited))
		w.stop()
	}
}

// Output that is held while memory is freed is waited for, until a cancel.
func TestFinish(t *testing.T) {
	for name, cancelled := range map[string]bool{"freed": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			defer w.Close()
			drained, cut := make(chan struct{}), make(chan struct{})
			go func() { defer close(drained); drain(r, io.Discard) }()
			if cancelled {
				close(cut)
			} else {
				time.AfterFunc(2*drainFor, func() { w.Close() })
			}
			start := time.Now()
			assert.Equal(t, !cancelled, finish(r, io.Discard, drained, cut, time.Minute))
			timed.Within(t, start, 30*time.Second)
		})
	}
}

// A cancel while a command is being ended that took too much leaves nothing, either.
func TestCancelDuringMemoryLimit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := filepath.Join(t.TempDir(), "pids")
	c := sh("trap 'echo ending' TERM; sleep 300 & echo $$ $! >" + file + "; " + taking(100<<20) + " & wait; wait")
	c.Memory = 64 << 20
	c.Output = NewLines(func(string, int64) { cancel() })
	_, err := Run(ctx, c)
	require.Error(t, err)
	for _, pid := range pids(t, file, 2) {
		gone(t, pid)
	}
}

// Memory that a process shares with a child that is about to become another program is not
// counted, since the second look finds another child.
func TestMemorySecondLook(t *testing.T) {
	m := &memory{limit: 1}
	first := sleeper(t)
	_, sure := m.apart([]int{first})
	require.False(t, sure)
	used, sure := m.apart([]int{sleeper(t)})
	assert.True(t, sure)
	assert.Zero(t, used)
	_, sure = m.apart([]int{first})
	require.False(t, sure)
	used, sure = m.apart([]int{first})
	assert.True(t, sure)
	assert.Positive(t, used)
}

// Only memory that the kernel cannot drop counts.
func TestMemoryCounted(t *testing.T) {
	const size, noise = 64 << 20, 16 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(size))
	for _, tt := range []struct {
		name        string
		file, flags int
		want        int64
	}{
		{"filled", -1, syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_POPULATE, size},
		{"shared", -1, syscall.MAP_SHARED | syscall.MAP_ANON | syscall.MAP_POPULATE, size},
		{"reserved", -1, syscall.MAP_PRIVATE | syscall.MAP_ANON, 0},
		{"a file", int(f.Fd()), syscall.MAP_SHARED | syscall.MAP_POPULATE, 0},
	} {
		pid := os.Getpid()
		all, own := total(pid), proportional(pid)
		data, err := syscall.Mmap(tt.file, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, tt.flags)
		require.NoError(t, err)
		assert.InDelta(t, tt.want, total(pid)-all, noise, tt.name)
		assert.InDelta(t, tt.want, proportional(pid)-own, noise, tt.name)
		require.NoError(t, syscall.Munmap(data))
	}
}

func TestChildren(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "12 34 ": {12, 34}, "12 34 5": {12, 34}, "1": nil} {
		assert.Equal(t, want, children([]byte(list)), "%q", list)
	}
}

func total(pid int) int64 {
	private, shared := resident(pid)
	return private + shared
}

// Memory that one process has mapped several times counts once.
func TestMemoryMappedTwice(t *testing.T) {
	const size = 64 << 20
	f, err := os.CreateTemp("/dev/shm", "")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(f.Name()))
	require.NoError(t, f.Truncate(size))
	pid := os.Getpid()
	m := &memory{limit: proportional(pid) + 2*size}
	for range 4 {
		data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_POPULATE)
		require.NoError(t, err)
		defer func() { _ = syscall.Munmap(data) }()
	}
	require.Greater(t, total(pid), m.limit)
	used, sure := m.used([]int{pid})
	assert.True(t, sure)
	assert.Less(t, used, m.limit)
}

// The groups of a user come before what is looked for.
func TestMemoryOfUserInManyGroups(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	groups := make([]uint32, 2000)
	for i := range groups {
		groups[i] = 1_234_500_000 + uint32(i)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
		Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), Groups: groups,
	}}
	if err := cmd.Start(); errors.Is(err, os.ErrPermission) {
		t.Skip("groups cannot be set: ", err)
	} else {
		require.NoError(t, err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	assert.Positive(t, total(cmd.Process.Pid))
}

func TestMemoryOfProcessWithoutFirstThread(t *testing.T) {
	c := sh(headless + "=100 exec " + os.Args[0])
	c.Memory = 64 << 20
	_, _, err := run(within(t, 20*time.Second), c)
	_, ok := errors.AsType[*MemoryError](err)
	assert.True(t, ok, "%v", err)
}

// A child that has not become another program yet does not count, how long that takes.
func TestMemoryBorrowed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	f, err := os.OpenFile(program, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	// A process that runs the program waits for the holder of this lease.
	if !fcntl(f.Fd(), unix.F_SETLEASE, syscall.F_WRLCK) {
		t.Skip("files have no leases here")
	}
	c := sh(spawner + "=100 " + helper + "=" + program + " exec " + os.Args[0])
	c.Memory = 150 << 20
	late := time.AfterFunc(time.Second, func() { f.Close() })
	defer late.Stop()
	start := time.Now()
	text, _, err := run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "<nil>\n", text)
	assert.Greater(t, time.Since(start), 2*firstLook)
}

// A sandbox can start processes before the command is marked.
func TestAdopt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	cmd := exec.Command("sh", "-c", "(sh -c 'echo $$ >"+file+"; sleep 300; :'; :) & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, cmd.Start())
	defer func() { killGroup(cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	child := pids(t, file, 1)[0]
	k := mark(cmd.Process.Pid, &Census{})
	require.False(t, k.tagged(child))
	k.adopt(cmd.Process.Pid)
	assert.True(t, k.tagged(child))
	text, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/oom_score_adj")
	require.NoError(t, err)
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, score, oomScore)
}

// sleeper starts a process.
func sleeper(t testing.TB) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestMemoryOfMachine(t *testing.T) {
	const gb = 1 << 30
	for all, want := range map[int64]int64{64 * gb: 16 * gb, 8 * gb: 2 * gb, 3 * gb: 2 * gb, gb: gb / 4 * 3} {
		assert.Equal(t, want, share(all), "%d", all)
	}
	assert.Greater(t, available(), int64(64<<20))
	assert.Less(t, available(), int64(1<<50))
}

func TestCgroupLimit(t *testing.T) {
	dir := t.TempDir()
	for name, limit := range map[string]string{
		"memory.max": "max", "a/memory.max": "5000", "a/b/memory.max": "max",
		"memory/memory.limit_in_bytes": "9223372036854771712", "memory/x/memory.limit_in_bytes": "7000",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(limit+"\n"), 0o644))
	}
	const unlimited = 9223372036854771712
	for self, want := range map[string]int64{
		"0::/a/b\n":            5000,
		"0::/a/b/gone\n":       5000,
		"0::/\n":               math.MaxInt64,
		"0::/../../../b\n":     math.MaxInt64,
		"4:memory:/x/y\n":      7000,
		"4:memory:/\n":         unlimited,
		"4:cpu,memory:/x\n":    7000,
		"4:cpu:/x\n1:name=x:/": math.MaxInt64,
		"":                     math.MaxInt64,
		"0::/a\n4:memory:/x\n": 5000,
	} {
		assert.Equal(t, want, cgroupLimit(dir, []byte(self)), "%q", self)
	}
}

// BenchmarkLook measures one look at a command of two processes, by how many others the
// system has.
func BenchmarkLook(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			for range others {
				sleeper(b)
			}
			up := make(chan struct{})
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			k := make(chan *kin, 1)
			go func() {
				defer close(done)
				c := sh("sleep 300 & echo up; wait")
				c.Output = NewLines(func(string, int64) { close(up) })
				c.Start = func(cmd *exec.Cmd) error {
					err := cmd.Start()
					k <- &kin{leader: cmd.Process.Pid, tag: 1} // which none has
					return err
				}
				_, _ = Run(ctx, c)
			}()
			<-up
			m := &memory{kin: <-k, limit: math.MaxInt64}
			for b.Loop() {
				_, _ = m.look()
			}
			cancel()
			<-done
		})
	}
}
