package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// helper makes this test binary a host that runs the script in this variable, prints
// "up", and waits to be killed.
const helper = "PROC_TEST_HOST"

// headless makes it a program whose first thread ends, and that takes as many MB of memory.
const headless = "PROC_TEST_HEADLESS"

func init() {
	if os.Getenv(headless) != "" {
		runtime.LockOSThread() // to the first thread
	}
}

func runHeadless(size string) {
	first := os.Getpid()
	go func() {
		for {
			st, _ := os.ReadFile("/proc/self/stat")
			if strings.Contains(string(st), ") Z ") {
				break
			}
			runtime.Gosched() // the first thread is about to end
		}
		take(size)
		fmt.Println(first)
		// The test kills this program. If it does not, the program must not stay for good.
		time.AfterFunc(5*time.Minute, func() { os.Exit(1) })
		select {}
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

// spawner makes it a program that takes as many MB and starts the program in [helper].
const spawner = "PROC_TEST_SPAWNER"

// take takes as many MB of memory.
func take(size string) {
	n, _ := strconv.Atoi(size)
	if _, err := syscall.Mmap(-1, 0, n<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE); err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) {
	if size := os.Getenv(headless); size != "" {
		runHeadless(size)
	}
	if size := os.Getenv(spawner); size != "" {
		take(size)
		fmt.Println(exec.Command(os.Getenv(helper)).Run())
		return
	}
	if script := os.Getenv(helper); script != "" {
		c := sh(script)
		c.Output = os.Stdout
		_, err := Run(context.Background(), c)
		if err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// Processes and files that a command can leave behind, whatever ends it.
func TestNothingSurvives(t *testing.T) {
	table := map[string]string{
		"child":                   "sleep 300 & echo $! >PIDS",
		"grandchild":              "( (sleep 300; :) & echo $! >PIDS )",
		"holds the output":        "sleep 300 & echo $! >PIDS; echo hi",
		"daemon":                  "setsid sh -c 'echo $$ >PIDS; exec sleep 300' >/dev/null 2>&1 </dev/null & until [ -s PIDS ]; do :; done",
		"daemon, own environment": "setsid env -i /bin/sh -c 'echo $$ >PIDS; exec sleep 300' & until [ -s PIDS ]; do :; done",
		"daemon of a daemon": "setsid sh -c 'setsid setsid sh -c \"echo \\$\\$ >PIDS; exec sleep 300\" & exit' & " +
			"until [ -s PIDS ]; do :; done",
		"ignores signals": "trap '' TERM INT HUP; setsid sleep 300 & echo $! >PIDS",
	}
	ends := map[string]string{"exit": "", "killed": "; kill -9 $$", "cancel": "; sleep 300"}
	for name, script := range table {
		for end, more := range ends {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "pids")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var killer sync.WaitGroup
				if end == "cancel" {
					killer.Go(func() {
						pids(t, file, 1)
						cancel()
					})
				}
				r, err := Run(ctx, sh(strings.ReplaceAll(script+more, "PIDS", file)))
				killer.Wait()
				assert.Equal(t, end == "cancel", errors.Is(err, context.Canceled))
				assert.False(t, r.Held)
				assert.Zero(t, r.Survivors)
				pid := pids(t, file, 1)[0]
				t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
				assert.True(t, zombie(pid) || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), "process %d is still there", pid)
			})
		}
	}
}

// A process is there as long as one of its threads is, also if the first has ended.
func TestFirstThreadEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	r, err := Run(t.Context(), sh(headless+"=1 setsid "+os.Args[0]+" >"+file+" & until [ -s "+file+" ]; do :; done"))
	require.NoError(t, err)
	assert.Zero(t, r.Survivors)
	assert.False(t, r.Held)
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pids(t, file, 1)[0]) + "/task")
	assert.Less(t, len(threads), 2)
}

// A host can be a command of another: the tags of both hold.
func TestNestedTags(t *testing.T) {
	outer := exec.Command("sleep", "300")
	require.NoError(t, outer.Start())
	defer func() { _ = outer.Process.Kill(); _ = outer.Wait() }()
	pid := outer.Process.Pid
	first, second := mark(pid, &Census{}), mark(pid, &Census{})
	require.NotZero(t, first.tag)
	require.NotEqual(t, first.tag, second.tag)
	first.leader, second.leader = -1, -1 // the process is a member, not the leader
	for _, k := range []*kin{first, second} {
		require.Len(t, k.alive(), 1)
		assert.Equal(t, pid, k.alive()[0].pid)
	}
}

// A process that changes its limit cannot be found any more; what can be said is that
// something holds the output.
func TestHeldIsReported(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not on this machine: no ulimit -R")
	}
	file := filepath.Join(t.TempDir(), "pid")
	c := sh("setsid bash -c 'ulimit -R 1000000; echo $$ >" + file + "; exec sleep 300' & until [ -s " + file + " ]; do :; done; echo hi")
	c.Argv[0] = bash
	start := time.Now()
	text, r, err := run(t.Context(), c)
	require.NoError(t, err)
	timed.Within(t, start, 5*time.Second)
	assert.Equal(t, "hi\n", text)
	assert.True(t, r.Held)
	require.NoError(t, syscall.Kill(pids(t, file, 1)[0], syscall.SIGKILL))
}

// The kernel kills the command when its host cannot.
func TestHostIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), helper+"=trap '' TERM HUP; sleep 300 & echo $$ $! >"+file+"; echo up; wait")
	out, err := host.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, host.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)
	found := pids(t, file, 2)
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	for _, pid := range found {
		gone(t, pid)
	}
}

// Many commands that are cancelled in the middle leave no process and no descriptor.
func TestManyCancelled(t *testing.T) {
	timed.Long(t, "hundreds of commands at once")
	const n = 200
	dir := t.TempDir()
	before := descriptors(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls sync.WaitGroup
	var census Census
	up := make(chan struct{}, n)
	for i := range n {
		calls.Go(func() {
			c := sh("sleep 300 & setsid sleep 300 & echo $$ $! >" + filepath.Join(dir, strconv.Itoa(i)) + "; echo up; wait")
			c.Census = &census
			c.Output = NewLines(func(string, int64) { up <- struct{}{} })
			_, err := Run(ctx, c)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	for range n {
		<-up
	}
	start := time.Now()
	cancel()
	calls.Wait()
	t.Logf("%d commands with 3 processes each were gone after %v", n, time.Since(start))
	for i := range n {
		for _, pid := range pids(t, filepath.Join(dir, strconv.Itoa(i)), 2) {
			gone(t, pid)
		}
	}
	assert.LessOrEqual(t, descriptors(t), before)
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

func TestMemoryPressureTakesTheCommand(t *testing.T) {
	text, _, err := run(t.Context(), sh("cat /proc/$$/oom_score_adj"))
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, n, oomScore)
}

// Processes that each start another and exit are ended too, though none of them is there
// for as long as it takes to look through all.
func TestChainsOfProcesses(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not on this machine")
	}
	// They end by themselves after some seconds. Each holds the pipe with number 3.
	chain := `use POSIX; $t = time; for (1..$ARGV[0]) { last if !fork }
		while (time - $t < 20) { exit if fork; setsid; if (++$n == 50) { open(F, ">", "up"); print F 1; close F } }`
	for _, n := range []string{"0", "1", "8"} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		script := Gate + `perl -e '` + chain + `' ` + n + ` >/dev/null 2>&1 & until [ -s up ]; do sleep 0.01; done`
		res, err := Run(t.Context(), &Command{
			Argv: []string{"bash", "-c", script}, Dir: t.TempDir(), Env: os.Environ(), Files: map[int]*os.File{3: w},
		})
		require.NoError(t, err)
		assert.Zero(t, res.Survivors)
		require.NoError(t, w.Close())
		require.NoError(t, r.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "one of %s chains goes on", n)
		require.NoError(t, r.Close())
	}
}
