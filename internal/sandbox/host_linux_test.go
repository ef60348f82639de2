package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/internal/timed"
)

// threads are the states of the threads of this process that a sandbox would change, that of the first thread first.
func threads(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	require.NoError(t, err)
	files = append([]string{"/proc/self/status"}, files...) // numbers begin again: another thread may have a lower one
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var state []string
		for line := range strings.Lines(string(data)) {
			switch key, _, _ := strings.Cut(line, ":"); key {
			case "NoNewPrivs", "Seccomp", "Seccomp_filters", "CapPrm", "CapEff", "CapBnd", "CapAmb":
				state = append(state, strings.TrimSpace(line))
			}
		}
		out = append(out, strings.Join(state, " "))
	}
	return out
}

// unaffected checks that all threads of the host are as the first was.
func unaffected(t *testing.T, before string, out string) {
	t.Helper()
	timed.Until(t, func() bool {
		for _, s := range threads(t) {
			if s != before {
				return false
			}
		}
		return true
	}, "a thread of the host to be free again")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			assert.NoError(t, write(out))
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if assert.NoError(t, err) {
				unix.Close(fd)
			}
		})
	}
	wg.Wait()
}

func TestMany(t *testing.T) {
	timed.Long(t, "hundreds of sandboxes at once")
	needLandlock(t)
	for _, procs := range []int{0, 1} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			many(t, 200)
		})
	}
}

func many(t *testing.T, n int) {
	p := newPlace(t, os.Getuid())
	before := threads(t)[0]
	descriptors := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(names)
	}
	open := descriptors()
	b := Landlock(p.policy(t))
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			script := `echo $1 >file$1; cat "$2" 2>/dev/null && echo read; (: >>"$2") 2>/dev/null && echo wrote; cat file$1`
			cmd := exec.Command("/bin/sh", "-c", script, "sh", fmt.Sprint(i), in(p.out, "file"))
			cmd.Dir = p.ws
			var out bytes.Buffer
			cmd.Stdout = &out
			r, err := b.Start(t.Context(), cmd, Call{Network: i%2 == 0})
			if !assert.NoError(t, err) {
				return
			}
			assert.True(t, r.Filesystem)
			assert.NoError(t, cmd.Wait())
			assert.Equal(t, fmt.Sprintln(i), out.String())
		})
	}
	wg.Wait()
	unaffected(t, before, in(p.out, "file"))
	temp := filepath.Dir(b.temp)
	assert.DirExists(t, temp)
	require.NoError(t, b.Close())
	assert.NoDirExists(t, temp)
	assert.LessOrEqual(t, descriptors(), open, "those of earlier tests may be closed now")
	t.Logf("%d commands", n)
}

// The first thread of a program is never the one that is given up.
func TestFreshThreadIsNeverTheFirst(t *testing.T) {
	var wg sync.WaitGroup
	for range 500 {
		wg.Add(1)
		onFreshThread(func() {
			defer wg.Done()
			assert.NotEqual(t, os.Getpid(), unix.Gettid())
		})
	}
	wg.Wait()
}

func TestStartRefuses(t *testing.T) {
	needLandlock(t)
	p := newPlace(t, os.Getuid())
	b := Landlock(p.policy(t))
	defer b.Close()
	for want, a := range map[string]*syscall.SysProcAttr{
		"killed at once by Pdeathsig": {Pdeathsig: syscall.SIGKILL},
		"cannot make namespaces":      {Cloneflags: syscall.CLONE_NEWPID},
		"capabilities by AmbientCaps": {AmbientCaps: []uintptr{1}},
		"nothing with Chroot, Ptrace": {Chroot: "/"},
		"capabilities as user 0":      {Credential: &syscall.Credential{}},
		"Ptrace and UseCgroupFD":      {Ptrace: true},
	} {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = a
		_, err := b.Start(t.Context(), cmd, Call{})
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok, want)
		assert.Equal(t, "check the command", e.Step)
		assert.ErrorContains(t, err, want)
		assert.Nil(t, cmd.Process)
	}
	_, err := b.Start(t.Context(), exec.Command("/no/such/program"), Call{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = b.Start(t.Context(), exec.Command("no-such-program"), Call{})
	require.ErrorIs(t, err, exec.ErrNotFound)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err = b.Start(ctx, exec.Command("/bin/true"), Call{})
	require.ErrorIs(t, err, stop)
}

// A descriptor that the host hands on can be opened again by its name: a shell reads a
// long script that way.
func TestScriptInMemory(t *testing.T) {
	needLandlock(t)
	p := newPlace(t, os.Getuid())
	b := Landlock(p.policy(t))
	defer b.Close()
	f, err := memory([]byte("echo " + strings.Repeat("x", 200_000) + " | wc -c"))
	require.NoError(t, err)
	defer f.Close()
	cmd := exec.Command("/bin/sh", "/dev/fd/3")
	cmd.ExtraFiles = []*os.File{f}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_, err = b.Start(t.Context(), cmd, Call{})
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "200001\n", out.String())
}

// nest starts itself confined, again and again, until that cannot be done.
func nest(ws, depth string) int {
	n, _ := strconv.Atoi(depth)
	exe, err := os.Executable()
	if err == nil {
		p := Policy{Read: append(slices.Clone(systemDirectories), filepath.Dir(exe)), Write: []string{ws}}
		b := Landlock(p)
		defer b.Close()
		cmd := exec.Command(exe, ws, strconv.Itoa(n+1))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if _, err = b.Start(context.Background(), cmd, Call{}); err == nil {
			err = cmd.Wait()
		}
		if _, ended := errors.AsType[*exec.ExitError](err); err == nil || ended {
			return cmd.ProcessState.ExitCode()
		}
	}
	fmt.Println(n, err)
	return 0
}

// A host that is confined itself confines its commands further, until the kernel will
// have no more layers; then no command is started.
func TestNested(t *testing.T) {
	timed.Serial(t)
	needLandlock(t)
	p := newPlace(t, os.Getuid())
	cmd := exec.Command(copyOf(t), p.ws, "0")
	cmd.Env = []string{probeVar + "=nest", "PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir()}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "16 sandbox by landlock: restrict the thread: argument list too long\n", string(out))
}
